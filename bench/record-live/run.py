#!/usr/bin/env python3
"""What `sweephand record --live` costs a program, by budget, by turns; and how near the curves of
its traces are to those of Valgrind's.

README.md has what is measured, and what the figures mean.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
# Each variant with the options of the recording.
VARIANTS = {
    "5%": ["--overhead", "5%"],
    "20%": ["--overhead", "20%"],
}
POLICIES = ["lru", "opt", "fifo", "clock", "clock-pro", "lirs", "arc", "car", "2q", "s3-fifo", "mglru"]
# Memory sizes, in per cent of the pages.
PARTS = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
GO = """package main

import "fmt"

// #include <stdlib.h>
import "C"

func main() {
	words := map[uint64][]byte{}
	state := uint64(88172645463325252)
	for step := 0; step < STEPS; step++ {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		words[state%60000] = make([]byte, 64+state%512)
	}
	fmt.Println(len(words))
}
"""
SQL = """create table t(a integer primary key, b integer, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 400000)
insert into t select i, (i * 7919) % 400009, hex(randomblob(20)) from n;
create index by_b on t(b);
"""
QUERY = "select count(*), sum(length(x.c)) from t x join t y on x.b = y.a where x.a % 3 = {0};\n"
NUMPY = """import os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy
a = numpy.random.default_rng(1).random((900, 900))
for _ in range(TIMES):
    a = a @ a.T
    a /= a.max()
print(round(float(numpy.sort(a.ravel())[1000]), 6))
"""
PYTHON = """d = {i: str(i) for i in range(300000)}
print(sum(len(d[k * 7919 % 300000]) for k in range(TIMES)))
"""
CODE = "int f{0}(int x) {{ for (int i = 0; i < x; i++) x ^= (x << 3) + i * {0}; return x; }}\n"


def workloads(folder: Path, is_long: bool) -> dict:
    """The programs: name, and command. What is not installed is left out. What is long does more
    work."""
    many = lambda few, times: str(few * times if is_long else few)
    times = 4 if is_long else 1
    write = lambda name, text: (folder / name).write_text(text)
    work = folder / "work"
    subprocess.run(["cc", "-O2", "-o", work, HERE / "../watch/work.c"], check=True)
    write("t.sql", SQL + "".join(QUERY.format(number) for number in range(3)) * times)
    write("np.py", NUMPY.replace("TIMES", many(4, 12)))
    write("dict.py", PYTHON.replace("TIMES", many(200000, 30)))
    write("code.c", "".join(CODE.format(number) for number in range(1200 if is_long else 300)))
    numbers = range(1, 700000 if is_long else 200000)
    write("numbers.txt", "".join(f"{number * 7919 % 700001}\n" for number in numbers))
    write("many.txt", (folder / "numbers.txt").read_text() * times)
    sort = ["sort", "-n", "--parallel=1", "-S", "40M", "-T", folder]
    found = {
        "loop": [work, "scan", "64", many(600, 10)],
        "random": [work, "random", "64", many(20, 80)],
        "python": [sys.executable, folder / "dict.py"],
        "sort": [*sort, "-o", folder / "sorted.txt", folder / "many.txt"],
    }
    if shutil.which("sqlite3"):
        found["sqlite3"] = ["sqlite3", "-init", folder / "t.sql", ":memory:", ".quit"]
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode == 0:
        found["numpy"] = [sys.executable, folder / "np.py"]
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True)
    if cc1.returncode == 0:
        found["gcc"] = [cc1.stdout.strip(), "-quiet", "-O2", folder / "code.c", "-o", folder / "code.s"]
    if shutil.which("xz"):
        found["xz"] = ["xz", "-5", "-k", "-f", "-T1", folder / "numbers.txt"]
    if shutil.which("go"):
        write("main.go", GO.replace("STEPS", many(300000, 40)))
        # Programs of Go load the agent if they are linked with the C library.
        built = subprocess.run(
            ["go", "build", "-o", folder / "gomap", folder / "main.go"],
            env={**os.environ, "CGO_ENABLED": "1"},
            capture_output=True,
        )
        if built.returncode == 0:
            found["go"] = [folder / "gomap"]
    if shutil.which("java"):
        shutil.copy(PROJECT / "crates/cli/tests/programs/Churn.java", folder)
        source = folder / "Churn.java"
        found["java"] = ["java", "-Xms128m", "-Xmx128m", "-XX:+UseSerialGC", source, "32", many(2, 20)]
    return {name: [str(word) for word in command] for name, command in found.items()}


def run(command, recorder=()):
    """Runs a program, perhaps under a recorder. Returns its time, the processor time, with the
    recorder's, and what it printed."""
    began = time.monotonic()
    process = subprocess.Popen(
        [*map(str, recorder), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    process.stdin.write(b"\n")
    process.stdin.close()
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} under {list(recorder)} ended with {status}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, printed


def header(sweephand, trace):
    said = subprocess.run([sweephand, "info", "--format", "json", trace], capture_output=True, check=True)
    return json.loads(said.stdout)


def find(value, name):
    """A value somewhere in a document."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            found = find(inner, name)
            if found is not None:
                return found
    return None


def usual_window(info):
    """The window that was not exceeded in nine tenths of the time."""
    windows = sorted((of["pages"], of["ns"]) for of in find(info, "windows") or [])
    left = 0.9 * sum(ns for _, ns in windows)
    for pages, ns in windows:
        left -= ns
        if left <= 0:
            return pages
    return 0


def measure(arguments, sweephand, folder):
    """What recording costs, a line for each program and variant."""
    for name, command in programs(arguments, folder, is_long=True).items():
        times, traces = {}, {}
        for _ in range(arguments.rounds):
            for variant in [None, *VARIANTS]:
                trace = folder / f"{name}-{variant}.swt"
                recorder = ()
                if variant:
                    recorder = [sweephand, "record", "--live", "-q", *VARIANTS[variant], "-o", trace, "--"]
                wall, processor, _ = run(command, recorder)
                times.setdefault(variant, []).append((wall, processor))
                traces[variant] = trace
        for variant in VARIANTS:
            ratios = [
                statistics.median(
                    recorded[index] / native[index]
                    for recorded, native in zip(times[variant], times[None], strict=True)
                )
                for index in (0, 1)
            ]
            info = header(sweephand, traces[variant])
            yield {
                "program": name,
                "variant": variant,
                "rounds": arguments.rounds,
                "native_s": f"{statistics.median(wall for wall, _ in times[None]):.3f}",
                "live_s": f"{statistics.median(wall for wall, _ in times[variant]):.3f}",
                "wall_ratio": f"{ratios[0]:.3f}",
                "processor_ratio": f"{ratios[1]:.3f}",
                "records": find(info, "records"),
                "pages": find(info, "distinct_pages"),
                "epochs": find(info, "epochs")["epochs"],
                "usual_window": usual_window(info),
                "largest_window": find(info, "largest_pages"),
                "trace_bytes": traces[variant].stat().st_size,
                "kernel": platform.release(),
            }


def curve(sweephand, trace, sizes):
    """Faults beside first touches, by policy and size."""
    sizes = ",".join(f"{size}p" for size in sizes)
    command = [sweephand, "simulate", "-p", ",".join(POLICIES), "-m", sizes, "--format", "csv", trace]
    said = subprocess.run(command, capture_output=True, text=True)
    # A program that ends before the first look has no epochs.
    rows = csv.DictReader(said.stdout.splitlines())
    key = lambda row: (row["policy"].split(":")[0], int(row["memory_pages"]))
    return {key(row): int(row["faults"]) - int(row["first_touch_faults"]) for row in rows}


def compare(arguments, sweephand, folder):
    """The curves of a live recording and of epochs beside those of Valgrind's."""
    for name, command in programs(arguments, folder, is_long=False).items():
        trace = {kind: folder / f"{name}-{kind}.swt" for kind in ("valgrind", "live", "epochs")}
        _, native, _ = run(command)
        _, valgrind, _ = run(command, [sweephand, "record", "-q", "-o", trace["valgrind"], "--"])
        live = ["record", "--live", "-q", "--awake", "--overhead", arguments.overhead]
        _, recorded, _ = run(command, [sweephand, *live, "-o", trace["live"], "--"])
        watch = ["watch", "--every", "20ms", "--overhead", "100%", "-o", trace["epochs"], "--"]
        run(command, [sweephand, *watch])
        infos = {kind: header(sweephand, path) for kind, path in trace.items()}
        pages = {kind: find(info, "distinct_pages") for kind, info in infos.items()}
        least = min(pages["valgrind"], pages["live"])
        sizes = [max(least * part // 100, 1) for part in PARTS]
        curves = {kind: curve(sweephand, path, sizes) for kind, path in trace.items()}
        windows = {kind: find(info, "largest_pages") or 0 for kind, info in infos.items()}
        for (policy, size), faults in curves["valgrind"].items():
            row = {
                "program": name,
                "policy": policy,
                "frames": size,
                "valgrind_faults": faults,
            }
            for kind in ("live", "epochs"):
                seen = curves[kind].get((policy, size))
                error = "" if seen is None else f"{(seen - faults) / (faults + pages['valgrind']):.4f}"
                row |= {f"{kind}_faults": seen, f"{kind}_error": error}
            yield {
                **row,
                "live_usual_window": usual_window(infos["live"]),
                "live_window": windows["live"],
                "epochs_window": windows["epochs"],
                **{f"{kind}_pages": count for kind, count in pages.items()},
                "valgrind_time": f"{valgrind / native:.1f}",
                "live_time": f"{recorded / native:.2f}",
            }


def programs(arguments, folder, is_long):
    """The programs that were asked for."""
    all_ = workloads(folder, is_long)
    return {name: all_[name] for name in (arguments.programs or ",".join(all_)).split(",") if name in all_}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "curves"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--overhead", default="none", help="with curves: the budget")
    parser.add_argument("--programs", help="only these, separated by commas")
    parser.add_argument("--sweephand", default=PROJECT / "target/release/sweephand")
    parser.add_argument("--folder", default="/var/tmp/sweephand-record-live")
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    day = datetime.date.today().isoformat()
    output = arguments.output or HERE / "results" / f"{day}-{arguments.what}.csv"
    rows = (measure if arguments.what == "cost" else compare)(arguments, arguments.sweephand, folder)
    writer = None
    with open(output, "w", newline="") as file:
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, row.keys(), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            print(", ".join(str(value) for value in row.values()), flush=True)


if __name__ == "__main__":
    main()

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
BUDGETS = ["1%", "5%", "20%"]
GO = """package main

import "fmt"

// #include <stdlib.h>
import "C"

func main() {
	words := map[uint64][]byte{}
	state := uint64(88172645463325252)
	for step := 0; step < 3000000; step++ {
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
select count(*), sum(length(x.c)) from t x join t y on x.b = y.a where x.a % 3 = 0;
"""
NUMPY = """import numpy
a = numpy.random.default_rng(1).random((900, 900))
for _ in range(20):
    a = a @ a.T
    a /= a.max()
print(round(float(numpy.sort(a.ravel())[1000]), 6))
"""
PYTHON = """d = {i: str(i) for i in range(300000)}
print(sum(len(d[k * 7919 % 300000]) for k in range(3000000)))
"""
CODE = "int f{0}(int x) {{ for (int i = 0; i < x; i++) x ^= (x << 3) + i * {0}; return x; }}\n"


def workloads(folder: Path) -> dict:
    """The programs: name, and command. What is not installed is left out."""
    write = lambda name, text: (folder / name).write_text(text)
    work = folder / "work"
    subprocess.run(["cc", "-O2", "-o", work, HERE / "../watch/work.c"], check=True)
    write("t.sql", SQL)
    write("np.py", NUMPY)
    write("dict.py", PYTHON)
    write("code.c", "".join(CODE.format(number) for number in range(1500)))
    numbers = range(1, 700000)
    write("numbers.txt", "".join(f"{number * 7919 % 700001}\n" for number in numbers))
    found = {
        "loop": [work, "scan", "64", "1500"],
        "random": [work, "random", "64", "100"],
        "python": ["python3", folder / "dict.py"],
        "sort": ["sort", "-n", "--parallel=1", "-o", folder / "sorted.txt", folder / "numbers.txt"],
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
        write("main.go", GO)
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
        found["java"] = ["java", "-Xmx128m", source, "32", "8"]
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


def measure(arguments, sweephand, programs, folder):
    """What recording costs, a line for each program and budget."""
    for name, command in programs.items():
        times, traces = {}, {}
        for _ in range(arguments.rounds):
            for budget in [None, *BUDGETS]:
                trace = folder / f"{name}-{budget}.swt"
                recorder = ()
                if budget:
                    recorder = [sweephand, "record", "--live", "-q", "--overhead", budget, "-o", trace, "--"]
                wall, processor, _ = run(command, recorder)
                times.setdefault(budget, []).append((wall, processor))
                traces[budget] = trace
        native = statistics.median(wall for wall, _ in times[None])
        native_processor = statistics.median(processor for _, processor in times[None])
        for budget in BUDGETS:
            wall = statistics.median(wall for wall, _ in times[budget])
            processor = statistics.median(processor for _, processor in times[budget])
            info = header(sweephand, traces[budget])
            yield {
                "program": name,
                "budget": budget,
                "rounds": arguments.rounds,
                "native_s": f"{native:.3f}",
                "live_s": f"{wall:.3f}",
                "wall_ratio": f"{wall / native:.3f}",
                "processor_ratio": f"{processor / native_processor:.3f}",
                "records": find(info, "records"),
                "pages": find(info, "distinct_pages"),
                "epochs": find(info, "epochs")["epochs"],
                "largest_window": find(info, "largest_pages"),
                "trace_bytes": traces[budget].stat().st_size,
                "kernel": platform.release(),
            }


def curve(sweephand, trace, sizes):
    """LRU's faults beside first touches, by size."""
    said = subprocess.run(
        [sweephand, "simulate", "-p", "lru", "-m", ",".join(f"{size}p" for size in sizes), "--format", "csv", trace],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = list(csv.DictReader(said.stdout.splitlines()))
    return {int(row["memory_pages"]): (int(row["faults"]), int(row["first_touch_faults"])) for row in rows}


def compare(arguments, sweephand, programs, folder):
    """LRU's curve of a live recording beside that of Valgrind's, from 4 windows up."""
    for name, command in programs.items():
        live, valgrind = folder / f"{name}-live.swt", folder / f"{name}-valgrind.swt"
        run(command, [sweephand, "record", "--live", "-q", "--overhead", arguments.overhead, "-o", live, "--"])
        run(command, [sweephand, "record", "-q", "-o", valgrind, "--"])
        infos = header(sweephand, live), header(sweephand, valgrind)
        pages = [find(info, "distinct_pages") for info in infos]
        window = usual_window(infos[0])
        sizes = [min(pages) * part // 10 for part in range(1, 11)]
        curves = [curve(sweephand, trace, sizes) for trace in (live, valgrind)]
        for size in sizes:
            (seen, first_seen), (true, first_true) = curves[0][size], curves[1][size]
            yield {
                "program": name,
                "budget": arguments.overhead,
                "usual_window": window,
                "largest_window": find(infos[0], "largest_pages"),
                "live_pages": pages[0],
                "valgrind_pages": pages[1],
                "frames": size,
                "from_4_windows": int(size >= 4 * window),
                "live_refaults": seen - first_seen,
                "valgrind_refaults": true - first_true,
                "error_of_all_faults": f"{(seen - first_seen - true + first_true) / max(true, 1):.4f}",
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "curves"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--overhead", default="5%", help="with curves: the budget")
    parser.add_argument("--programs", help="only these, separated by commas")
    parser.add_argument("--sweephand", default=PROJECT / "target/release/sweephand")
    parser.add_argument("--folder", default="/var/tmp/sweephand-record-live")
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    programs = workloads(folder)
    if arguments.programs:
        programs = {name: programs[name] for name in arguments.programs.split(",")}
    day = datetime.date.today().isoformat()
    output = arguments.output or HERE / "results" / f"{day}-{arguments.what}.csv"
    rows = (measure if arguments.what == "cost" else compare)(
        arguments, arguments.sweephand, programs, folder
    )
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

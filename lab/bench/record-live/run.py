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
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
# Each variant with the options of the recording.
VARIANTS = {
    "5%": ["--overhead", "5%"],
    "20%": ["--overhead", "20%"],
}
POLICIES = ["lru", "opt", "fifo", "clock", "clock-pro-strict", "lirs", "arc", "car", "2q", "s3-fifo", "mglru"]
# Memory sizes, in per cent of the pages.
PARTS = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
PAGE = 4096
# The smallest window of a live recording with `curves` and `causes`. These look all over their
# memory: with the smallest that there is, a recording takes very long.
DEFAULT_WINDOW = 64
WINDOWS = {"gcc": 256, "go": 256, "java": 256}
# How often the mappings of a program under Valgrind are looked at.
LOOK_SECONDS = 0.2


def with_short_heap(folder):
    """An environment in which the heap ends where it ends under Valgrind."""
    library = folder / "brk.so"
    if not library.exists():
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "brk.c"], check=True)
    return {"LD_PRELOAD": str(library)}


# No AVX-512 for OpenBLAS and for numpy itself: Valgrind has none.
NO_AVX512 = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
# The conditions that `causes` changes, and the programs for which that is of interest. Both
# recordings are made under the same.
VARIATIONS = {
    "short-heap": (with_short_heap, ["sqlite3", "numpy", "gcc", "sort", "python", "xz"]),
    # Go's collector works beside the program, as quickly as there are processors for it.
    "no-collector": (lambda _: {"GOGC": "off"}, ["go"]),
    "no-avx512": (lambda _: NO_AVX512, ["numpy"]),
}
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
        # It looks all over its memory, so a recording with the smallest window takes very long.
        short = folder / "short.txt"
        short.write_text((folder / "numbers.txt").read_text()[: 1 << 17])
        found["xz"] = ["xz", "-5", "-k", "-f", "-T1", folder / "numbers.txt" if is_long else short]
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
        java = ["java", "-Xms128m", "-Xmx128m", "-XX:+UseSerialGC"]
        if not is_long and shutil.which("javac"):
            # Without the compiler of the language in the same process.
            if not (folder / "Churn.class").exists():
                subprocess.run(["javac", "-d", folder, source], check=True)
            found["java"] = [*java, "-cp", folder, "Churn", "32", "2"]
        else:
            found["java"] = [*java, source, "32", many(2, 20)]
    return {name: [str(word) for word in command] for name, command in found.items()}


def run(command, recorder=(), environment={}, look=None):
    """Runs a program, perhaps under a recorder. Returns its time, the processor time, with the
    recorder's, and what it printed on standard error. Meanwhile it looks at the process now and
    then."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*map(str, recorder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, **environment},
        )
        process.stdin.write(b"\n")
        process.stdin.close()
        if look is not None:
            while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                look(process.pid)
                time.sleep(LOOK_SECONDS)
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.monotonic()
        said.seek(0)
        printed = said.read()
    if status != 0:
        sys.exit(f"{command} under {list(recorder)} ended with {status}")
    return ended - began, usage.ru_utime + usage.ru_stime, printed


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
        times, traces, fault_us = {}, {}, {}
        for _ in range(arguments.rounds):
            for variant in [None, *VARIANTS]:
                trace = folder / f"{name}-{variant}.swt"
                recorder = ()
                if variant:
                    recorder = [sweephand, "record", "--live", *VARIANTS[variant], "-o", trace, "--"]
                wall, processor, said = run(command, recorder)
                times.setdefault(variant, []).append((wall, processor))
                told = re.search(r"a fault takes ([0-9.]+) us", said)
                fault_us.setdefault(variant, []).append(float(told[1]) if told else 0.0)
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
                "fault_us": f"{statistics.median(fault_us[variant]):.1f}",
                "records": find(info, "records"),
                "pages": find(info, "distinct_pages"),
                "epochs": find(info, "epochs")["epochs"],
                "usual_window": usual_window(info),
                "largest_window": find(info, "largest_pages"),
                "trace_bytes": traces[variant].stat().st_size,
                "kernel": platform.release(),
            }


def curve(sweephand, trace, sizes, policies=POLICIES):
    """Faults beside first touches, by policy and size."""
    sizes = ",".join(f"{size}p" for size in sizes)
    command = [sweephand, "simulate", "-p", ",".join(policies), "-m", sizes, "--format", "csv", trace]
    said = subprocess.run(command, capture_output=True, text=True)
    # A program that ends before the first look has no epochs.
    rows = csv.DictReader(said.stdout.splitlines())
    key = lambda row: (row["policy"].split(":")[0], int(row["memory_pages"]))
    return {key(row): int(row["faults"]) - int(row["first_touch_faults"]) for row in rows}


def pages_of_files(maps):
    """The ranges of pages of files in lines of /proc/PID/maps."""
    ranges = set()
    for line in maps.splitlines():
        addresses, *_, inode = line.split()[:5]
        if inode != "0":
            ranges.add(tuple(int(address, 16) // PAGE for address in addresses.split("-")))
    return ranges


class Recordings:
    """The recordings of a program in a folder. What is there already is not recorded again."""

    def __init__(self, arguments, folder, name, command, variant=""):
        self.sweephand, self.folder, self.command = arguments.sweephand, folder, command
        self.name = f"{name}-{variant}" if variant else name
        self.environment = VARIATIONS[variant][0](folder) if variant else {}
        self.window = WINDOWS.get(name, DEFAULT_WINDOW)
        live = ["--awake", "--overhead", "none", "--window", str(self.window)]
        watch = ["watch", "--every", "20ms", "--overhead", "100%"]
        self.recorders = {
            "native": None,
            "valgrind": ["record", "-q"],
            "valgrind-again": ["record", "-q"],
            "live": ["record", "--live", "-q", *live],
            "live-again": ["record", "--live", "-q", *live],
            "epochs": watch,
        }
        self.times = folder / f"{self.name}.json"

    def path(self, kind):
        return self.folder / f"{self.name}-{kind}.swt"

    def time(self, kind):
        """The processor time of the program, under this recorder. It is recorded if it was not."""
        times = json.loads(self.times.read_text()) if self.times.exists() else {}
        if kind not in times:
            times[kind] = self.record(kind)
            self.times.write_text(json.dumps(times))
        return times[kind]

    def record(self, kind):
        recorder = self.recorders[kind]
        words = [] if recorder is None else [self.sweephand, *recorder, "-o", self.path(kind), "--"]
        files = set()
        look = None
        if kind.startswith("valgrind"):
            look = lambda process: files.update(pages_of_files(maps_below(process)))
        _, processor, _ = run(self.command, words, self.environment, look)
        if files:
            lines = "".join(f"{first} {end}\n" for first, end in sorted(files))
            self.path(kind).with_suffix(".files").write_text(lines)
        return processor

    def trace(self, kind):
        self.time(kind)
        return self.path(kind)

    def as_live(self, window, kind="valgrind"):
        """Of what was recorded under Valgrind, what a live recording would have: only anonymous
        memory and, unless the window is 0, only the first touch of a page in an epoch."""
        trace = self.trace(kind)
        made = trace.with_suffix(f".{window}.swt")
        if not made.exists():
            command = [PROJECT / "target/release/examples/as_live", trace, made, str(window)]
            subprocess.run([*command, trace.with_suffix(".files")], check=True)
        return made


def maps_below(process):
    """/proc/PID/maps of the process and of all below it, as far as they are programs of their
    own."""
    maps = ""
    for task in Path(f"/proc/{process}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            try:
                maps += Path(f"/proc/{child}/maps").read_text() + maps_below(child)
            except OSError:
                pass
    return maps


def sizes_of(infos):
    """The memory sizes to compare at."""
    least = min(find(info, "distinct_pages") for info in infos)
    return [max(least * part // 100, 1) for part in PARTS]


def error(seen, faults, pages):
    """How far off a number of faults is, as a part of the faults with first touches."""
    return f"{(seen - faults) / (faults + pages):.4f}"


def compare(arguments, sweephand, folder):
    """The curves of a live recording and of epochs beside those of Valgrind's."""
    for name, command in programs(arguments, folder, is_long=False).items():
        of = Recordings(arguments, folder, name, command)
        kinds = ("valgrind", "live", "epochs")
        infos = {kind: header(sweephand, of.trace(kind)) for kind in kinds}
        pages = {kind: find(info, "distinct_pages") for kind, info in infos.items()}
        sizes = sizes_of([infos["valgrind"], infos["live"]])
        curves = {kind: curve(sweephand, of.path(kind), sizes) for kind in kinds}
        windows = {kind: find(info, "largest_pages") or 0 for kind, info in infos.items()}
        native = of.time("native")
        for (policy, size), faults in curves["valgrind"].items():
            row = {
                "program": name,
                "policy": policy,
                "frames": size,
                "valgrind_faults": faults,
            }
            for kind in ("live", "epochs"):
                seen = curves[kind].get((policy, size))
                off = "" if seen is None else error(seen, faults, pages["valgrind"])
                row |= {f"{kind}_faults": seen, f"{kind}_error": off}
            yield {
                **row,
                "live_usual_window": usual_window(infos["live"]),
                "live_window": windows["live"],
                "epochs_window": windows["epochs"],
                **{f"{kind}_pages": count for kind, count in pages.items()},
                "valgrind_time": f"{of.time('valgrind') / native:.1f}",
                "live_time": f"{of.time('live') / native:.2f}",
            }


def causes(arguments, sweephand, folder):
    """What the difference between LRU's curves comes from: step by step from the recording under
    Valgrind to the live one, and each of them beside another of its kind."""
    for name, command in programs(arguments, folder, is_long=False).items():
        for variant in arguments.variants.split(","):
            if variant and name not in VARIATIONS[variant][1]:
                continue
            of = Recordings(arguments, folder, name, command, variant)
            infos = {kind: header(sweephand, of.trace(kind)) for kind in ("valgrind", "live")}
            sizes, window = sizes_of(infos.values()), find(infos["live"], "largest_pages")
            traces = {
                "valgrind": of.trace("valgrind"),
                "without_files": of.as_live(0),
                "as_live": of.as_live(of.window),
                "live": of.trace("live"),
                "live_again": of.trace("live-again"),
            }
            if arguments.again:
                traces["valgrind_again"] = of.trace("valgrind-again")
            curves = {kind: curve(sweephand, path, sizes, ["lru"]) for kind, path in traces.items()}
            pages = find(infos["valgrind"], "distinct_pages")
            anonymous = find(header(sweephand, traces["without_files"]), "distinct_pages")
            for size in sizes:
                faults = {kind: of_kind.get(("lru", size), 0) for kind, of_kind in curves.items()}
                again = faults.get("valgrind_again")
                step = lambda to, from_: error(faults[to] - faults[from_] + faults["valgrind"], faults["valgrind"], pages)
                yield {
                    "program": name,
                    "variant": variant,
                    "frames": size,
                    "windows": f"{size / window:.1f}",
                    "valgrind_faults": faults["valgrind"],
                    "live_faults": faults["live"],
                    "error": step("live", "valgrind"),
                    "anonymous_error": error(faults["live"], faults["without_files"], anonymous),
                    "of_files": step("without_files", "valgrind"),
                    "of_window": step("as_live", "without_files"),
                    "of_program": step("live", "as_live"),
                    "live_again": step("live_again", "live"),
                    "valgrind_again": "" if again is None else step("valgrind_again", "valgrind"),
                    "valgrind_pages": pages,
                    "anonymous_pages": anonymous,
                    "live_pages": find(infos["live"], "distinct_pages"),
                    "window": window,
                }


def print_causes(rows):
    """The parts of LRU's errors as a table in Markdown: of each, the largest from four windows
    up."""
    columns = ["error", "of_files", "of_window", "of_program", "anonymous_error", "live_again", "valgrind_again"]
    print(f"| program | variant | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    by = {}
    for row in rows:
        if int(row["frames"]) >= 4 * int(row["window"]):
            by.setdefault((row["program"], row["variant"]), []).append(row)
    for (program, variant), of in by.items():
        most = [max((abs(float(row[column])) for row in of if row[column]), default=None) for column in columns]
        cells = " | ".join("" if part is None else f"{100 * part:.1f}" for part in most)
        print(f"| {program} | {variant} | {cells} |")


def print_tables(files):
    """Errors of curves as tables in Markdown: LRU's by program, and the median over the programs of
    each policy's; or what they come from."""
    rows = [row for file in files for row in csv.DictReader(open(file))]
    if "variant" in rows[0]:
        return print_causes(rows)
    by = {}
    for row in rows:
        by.setdefault((row["program"], row["policy"]), []).append(row)
    percent = lambda part: f"{round(100 * part, 1) + 0.0:.1f}"
    head = " | ".join(f"{part} %" for part in PARTS)
    print(f"| program | window | {head} |\n|---|---|{'---|' * len(PARTS)}")
    for (program, policy), of in by.items():
        if policy == "lru":
            # Below four windows, a live recording is not asked.
            cells = [
                percent(float(row["live_error"])) if int(row["frames"]) >= 4 * int(row["live_window"]) else ""
                for row in of
            ]
            print(f"| {program} | {of[0]['live_window']} | {' | '.join(cells)} |")
    print(f"\n| policy | {head} |\n|---|{'---|' * len(PARTS)}")
    for policy in POLICIES:
        all_ = [of for (_, its), of in by.items() if its == policy]
        medians = [
            statistics.median(abs(float(of[index]["live_error"])) for of in all_) for index in range(len(PARTS))
        ]
        print(f"| `{policy}` | {' | '.join(map(percent, medians))} |")


def programs(arguments, folder, is_long):
    """The programs that were asked for."""
    all_ = workloads(folder, is_long)
    return {name: all_[name] for name in (arguments.programs or ",".join(all_)).split(",") if name in all_}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "curves", "causes", "tables"])
    parser.add_argument("files", nargs="*", help="with tables: results of curves")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--programs", help="only these, separated by commas")
    parser.add_argument("--variants", default="", help="with causes: conditions, empty for as it is")
    parser.add_argument("--again", action="store_true", help="with causes: under Valgrind twice")
    parser.add_argument("--sweephand", default=PROJECT / "target/release/sweephand")
    parser.add_argument("--folder", default="/var/tmp/sweephand-record-live")
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    if arguments.what == "tables":
        return print_tables(arguments.files)
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    day = datetime.date.today().isoformat()
    output = arguments.output or HERE / "results" / f"{day}-{arguments.what}.csv"
    kinds = {"cost": measure, "curves": compare, "causes": causes}
    rows = kinds[arguments.what](arguments, arguments.sweephand, folder)
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

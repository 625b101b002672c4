#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What recording costs a program, in CPU time. See README.md."""

import argparse
import csv
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# Times native CPU time that recording may take. Those with -fma are compiled for AVX2 and fused
# multiply-adds.
BARS = {"triad": 8.0, "lu": 40.0, "fft": 40.0, "nbody": 40.0, "ocean": 40.0, "tree": 40.0,
        "lu-fma": None, "nbody-fma": None}  # fmt: skip
FMA = "-fma"
VARIANTS = ["native", "none", "plain", "recorder", "record"]
# Programs that an interpreter runs: most of their references go to other pages than the one before.
INTERPRETED = {
    "perl": ["perl", "-e", "my @rod = (100, (0) x 50_000); for (1 .. 5) { "
             "$rod[$_] = ($rod[$_ - 1] + $rod[$_] + $rod[$_ + 1]) / 3 for 1 .. $#rod - 1 } printf qq(%.3f\n), $rod[5]"],
    "import-numpy": [sys.executable, "-c", "import numpy; print(numpy.arange(10).sum())"],
    "sqlite": [sys.executable, "-c", "import sqlite3; db = sqlite3.connect(':memory:'); "
               "db.execute('create table t (k integer primary key, v text)'); "
               "db.executemany('insert into t values (?, ?)', ((i * 7919 % 100003, str(i)) for i in range(60_000))); "
               "print(db.execute('select sum(length(v)) from t').fetchone(), "
               "sum(len(db.execute('select v from t where k = ?', (i,)).fetchall()) for i in range(60_000)))"],
}  # fmt: skip
# Variants that are the command, and their options.
RECORDS = {"record": [], "record-128": ["--window=128"]}
INTERPRETED_VARIANTS = ["native", "none", "record", "record-128"]
# A native run is short: several are cheap, and the shortest is the least disturbed.
NATIVE_RUNS = 3

COLUMNS = [
    "date", "machine", "cores", "valgrind", "cc", "kernel", "variant", "rounds", "median_cpu_s", "min_cpu_s",
    "max_cpu_s", "times_native", "bar",
]  # fmt: skip


def start(command, **keywords):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **keywords)


def finish(child, answer):
    """User and system time of a process and those it has waited for. ANSWER: what it has to print,
    if known."""
    printed = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0 or answer not in (None, printed):
        command = " ".join(map(str, child.args))
        sys.exit(f"{command}: status {child.returncode}, printed {printed!r}, not {answer!r}")
    return usage.ru_utime + usage.ru_stime, printed


class Bench:
    def __init__(self, work, sweephand):
        self.kernels, self.library, self.trace = work / "kernels", work / "library", work / "trace.swt"
        self.sweephand = sweephand
        for suffix, options in (("", ["-O2"]), (FMA, ["-O3", "-mavx2", "-mfma"])):
            binary = f"{self.kernels}{suffix}"
            subprocess.run(["cc", *options, "-o", binary, HERE / "kernels.c", "-lm"], check=True)
        subprocess.run([ROOT / "recorder/build.sh", ROOT / "recorder", self.library], check=True)
        # Builds the recorder that is inside the command, if necessary.
        self.run("record", "tree", None)

    def run(self, variant, kernel, answer):
        name = kernel.removesuffix(FMA)
        program = INTERPRETED.get(kernel) or [f"{self.kernels}{kernel.removeprefix(name)}", name]
        if variant == "native":
            return min(finish(start(program), answer) for _ in range(NATIVE_RUNS))
        if variant == "none":
            return finish(start(["valgrind", "-q", "--tool=none", *program]), answer)
        if variant in RECORDS:
            return finish(start([self.sweephand, "record", "-q", *RECORDS[variant], "-o", self.trace, "--", *program]), answer)
        plain = ["--stacks=no", "--code=no"] if variant == "plain" else []
        return self.recorder_alone(program, answer, plain)

    def recorder_alone(self, program, answer, more):
        """The tool, with a reader that throws its stream away."""
        reader, writer = os.pipe()
        options = ["-q", "--command-line-only=yes", "--tool=sweephand", f"--out-fd={writer}", *more]
        child = start(["valgrind", *options, *program], pass_fds=[writer],
                      env=dict(os.environ, VALGRIND_LIB=str(self.library)))
        os.close(writer)
        while os.read(reader, 1 << 20):
            pass
        os.close(reader)
        return finish(child, answer)


def version(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()


def machine():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kernels", help="comma list [default: all this processor can run]")
    parser.add_argument("--interpreters", action="store_true", help="programs of interpreters instead")
    parser.add_argument("--sweephand", type=Path, default=ROOT / "target/release/sweephand")
    parser.add_argument("-o", "--output", type=Path, help="CSV [default: results/DATE.csv]")
    args = parser.parse_args()
    known, variants = (INTERPRETED, INTERPRETED_VARIANTS) if args.interpreters else (BARS, VARIANTS)
    runnable = [k for k in known if not k.endswith(FMA) or " fma " in Path("/proc/cpuinfo").read_text()]
    kernels = args.kernels.split(",") if args.kernels else runnable
    if not set(kernels) <= set(known):
        parser.error(f"kernels are {', '.join(known)}")
    if not args.sweephand.exists():
        sys.exit(f"{args.sweephand}: not there; cargo build --release")
    date = datetime.date.today().isoformat()
    output = args.output or HERE / "results" / f"{date}{'-interpreters' * args.interpreters}.csv"
    output.parent.mkdir(exist_ok=True)

    seconds = {(k, v): [] for k in kernels for v in variants}
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(Path(work), args.sweephand.resolve())
        for round_ in range(args.rounds):
            for kernel in kernels:
                answer = None
                # By turns, and each round another one first.
                first = round_ % len(variants)
                for variant in variants[first:] + variants[:first]:
                    cpu_s, answer = bench.run(variant, kernel, answer)
                    seconds[kernel, variant].append(cpu_s)
                    print(f"round {round_ + 1}: {kernel} {variant} {cpu_s:.2f} s", file=sys.stderr)

    missed = 0
    with open(output, "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        about = [date, machine(), os.cpu_count(), version(["valgrind", "--version"]), version(["cc", "--version"])]
        print(f"{'':12}" + "".join(f"{variant:>20}" for variant in variants))
        for kernel in kernels:
            native, line = statistics.median(seconds[kernel, "native"]), f"{kernel:12}"
            for variant in variants:
                s = seconds[kernel, variant]
                times = statistics.median(s) / native
                bar = BARS.get(kernel) if variant in ("recorder", "record") else None
                missed += bar is not None and times > bar
                rows.writerow([*about, kernel, variant, args.rounds, f"{statistics.median(s):.3f}", f"{min(s):.3f}",
                               f"{max(s):.3f}", f"{times:.2f}", bar])
                line += f"{statistics.median(s):11.2f} s{times:6.1f}x"
            print(line)
    print(f"{output}: " + ("every bar reached" if not missed else f"{missed} bars missed"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What watching costs a program: `sweephand watch` every second and every ten, by turns.

README.md has what is measured, and what the figures mean.
"""

import argparse
import csv
import datetime
import os
import platform
import signal
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
# Each variant with the options of the watch.
VARIANTS = {
    "native": None,
    "1s": ["--every", "1s"],
    "10s": ["--every", "10s"],
}
KINDS = ["scan", "random"]


def run(work: Path, sweephand: Path, kind: str, options, memory: int, pieces: int):
    """Runs the program once. Returns its time, its processor time, its checksum, and the watcher's
    processor time and epochs."""
    program = subprocess.Popen(
        [work, kind, str(memory), str(pieces)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout.readline() == "ready\n"
    watch = None
    if options is not None:
        watch = subprocess.Popen(
            [sweephand, "watch", "--json", *options, str(program.pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        watch.stdout.readline()
    program.stdin.write("\n")
    program.stdin.flush()
    epochs = 0
    if watch is not None:
        # It ends when the program does.
        epochs = sum('"event":"epoch"' in line for line in watch.stdout)
        _, status, usage = os.wait4(watch.pid, 0)
        if status != 0:
            sys.exit(f"the watch ended with {status}")
    wall, processor, checksum = program.stdout.readline().split()
    program.wait()
    watcher = (usage.ru_utime + usage.ru_stime) if watch is not None else 0.0
    return int(wall) / 1e9, int(processor) / 1e9, checksum, watcher, epochs


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweephand", type=Path, default=PROJECT / "target/release/sweephand")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=21, help="of a native run, about")
    parser.add_argument("--memory", type=int, default=1024, help="MiB")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    names = ["native", *(name for name in options.variants.split(",") if name != "native")]
    work = PROJECT / "target/bench-watch-work"
    subprocess.run(["cc", "-O2", "-o", work, HERE / "work.c"], check=True)
    output = options.output or HERE / f"results/{datetime.date.today()}.csv"
    with output.open("w", newline="") as file:
        columns = ["kind", "variant", "rounds", "wall_s", "processor_s", "wall_ratio", "processor_ratio"]
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([*columns, "watcher_s", "epochs", "memory_mib", "kernel"])
        for kind in options.kinds.split(","):
            trial = run(work, options.sweephand, kind, None, options.memory, 200)
            pieces = max(200, int(200 * options.seconds / trial[0]))
            measured = {name: [] for name in names}
            for round_ in range(options.rounds):
                turn = names[round_ % len(names) :] + names[: round_ % len(names)]
                for name in turn:
                    result = run(work, options.sweephand, kind, VARIANTS[name], options.memory, pieces)
                    measured[name].append(result)
            if len({result[2] for results in measured.values() for result in results}) != 1:
                sys.exit(f"{kind}: checksums differ")
            for name, results in measured.items():
                wall, processor, _, watcher, epochs = (
                    [result[index] for result in results] for index in range(5)
                )
                # Each round against the native run of the same round.
                ratios = [
                    statistics.median(
                        result[index] / native[index]
                        for result, native in zip(results, measured["native"], strict=True)
                    )
                    for index in (0, 1)
                ]
                row = [kind, name, options.rounds]
                row += [f"{statistics.median(wall):.3f}", f"{statistics.median(processor):.3f}"]
                row += [f"{ratio:.4f}" for ratio in ratios]
                row += [f"{statistics.median(watcher):.3f}", statistics.median(epochs)]
                row += [options.memory, platform.release()]
                rows.writerow(row)
                file.flush()
                print(*row)


main()

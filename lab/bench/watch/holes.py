#!/usr/bin/env python3
"""What a look of `sweephand watch` costs at a process whose pages lie far apart: Node, which has
pages in some eighty different GiB. Several commands take turns.

README.md has what the figures mean.
"""

import argparse
import csv
import datetime
import json
import platform
import statistics
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
# Node, idle.
PROGRAM = ["node", "-e", "setInterval(() => {}, 1000)"]


def looks(sweephand: Path, pid: int, seconds: float) -> list:
    """The epochs of a watch that looks ten times a second, without a budget."""
    command = [sweephand, "watch", "--json", "--every", "100ms", "--overhead", "100%", "--for", f"{seconds}s", str(pid)]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    lines = map(json.loads, said.stdout.splitlines())
    return [line for line in lines if line["event"] == "epoch"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sweephand", type=Path, nargs="*", default=[PROJECT / "target/release/sweephand"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    program = subprocess.Popen(PROGRAM)
    try:
        time.sleep(2)
        seen = {name: [] for name in options.sweephand}
        for _ in range(options.rounds):
            for name, epochs in seen.items():
                # The first look finds what was used at any time.
                epochs += looks(name, program.pid, options.seconds)[1:]
    finally:
        program.kill()
        program.wait()
    output = options.output or HERE / f"results/{datetime.date.today()}-holes.csv"
    with output.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["version", "looks", "cost_ms", "resident_pages", "used_pages", "kernel"])
        for name, epochs in seen.items():
            median = lambda key: statistics.median(epoch[key] for epoch in epochs)
            row = [name.name, len(epochs), f"{median('cost_ns') / 1e6:.3f}", median("resident_pages"), median("used_pages")]
            rows.writerow([*row, platform.release()])
            print(*row)


main()

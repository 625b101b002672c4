#!/usr/bin/env python3
"""What settling does to each policy that sees reference bits: warm faults with and without it.

For each trace and memory size this compares `POLICY` with `POLICY:settle=1%`, and both with OPT.
Warm faults are those that are not first touches. Cells in which OPT has no warm fault are left out.
The table goes to standard output, every count to `--results FILE` (CSV).
"""

import argparse
import csv
import io
import math
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SIZES = ["20%", "40%", "60%", "80%"]
# Those that read bits. FIFO, LIFO and random read none.
POLICIES = (
    "clock clock-page-table aging linux24 car clock-pro clock-pro-fixed clock-pro-plus clock-pro-strict seq "
    "lifo-plus apr clock2q-plus sieve mglru"
).split()


def simulate(sweephand: str, trace: Path, policies: list[str]) -> list[dict[str, str]]:
    command = [sweephand, "simulate", str(trace), "--policy", ",".join(policies)]
    command += ["--memory", ",".join(SIZES), "--format", "csv"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return list(csv.DictReader(io.StringIO(printed)))


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path, help="files of traces")
    parser.add_argument("--settle", default="1%", help="the window (default: 1%%)")
    parser.add_argument("--sweephand", default="target/release/sweephand", help="the command")
    parser.add_argument("--results", type=Path, help="a CSV file for every count")
    options = parser.parse_args()

    settled = {policy: f"{policy}:settle={options.settle}" for policy in POLICIES}
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    rows = []
    for trace in options.traces:
        cells: dict[str, dict[str, int]] = defaultdict(dict)
        for row in simulate(options.sweephand, trace, ["opt", *POLICIES, *settled.values()]):
            warm = int(row["faults"]) - int(row["first_touch_faults"])
            cells[row["memory_pages"]][row["policy"]] = warm
        for pages, warm in cells.items():
            for policy in POLICIES:
                rows.append([trace.stem, pages, policy, warm["opt"], warm[policy], warm[settled[policy]]])
                if warm["opt"] > 0:
                    ratios[policy].append((warm[policy] / warm["opt"], warm[settled[policy]] / warm["opt"]))
        print(f"{trace.stem}: done", file=sys.stderr)

    print("| policy | cells | over OPT, as it is | settled | fewer by 5 % | more by 5 % | worst |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for policy in POLICIES:
        plain, other = zip(*ratios[policy])
        changes = [b / a for a, b in ratios[policy]]
        print(
            f"| {policy} | {len(changes)} | {mean(list(plain)):.3f} | {mean(list(other)):.3f} "
            f"| {sum(change < 0.95 for change in changes)} | {sum(change > 1.05 for change in changes)} "
            f"| {max(changes):.2f} |"
        )
    if options.results:
        temporary = options.results.with_suffix(".new")
        with temporary.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow("trace memory_pages policy opt_warm_faults warm_faults settled_warm_faults".split())
            writer.writerows(rows)
        os.replace(temporary, options.results)


if __name__ == "__main__":
    main()

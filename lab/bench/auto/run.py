#!/usr/bin/env python3
"""Faults of `auto` beside those of the policies that it chooses from, and of others. See README.md
for the command."""

import argparse
import csv
import datetime
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
MEMORY = "20%,40%,60%,80%"
# The policies that read bits, which are run with settling too.
BITS = [
    "clock", "clock-page-table", "aging", "linux24", "car", "clock-pro", "clock-pro-fixed", "clock-pro-plus",
    "clock-pro-strict", "ee-clock", "seq", "lifo-plus", "apr", "clock2q-plus", "sieve", "mglru",
]  # fmt: skip
# Policies that see every reference, and those that need no bits.
OTHERS = ["lru", "lirs", "arc", "s3-fifo", "w-tinylfu", "eelru", "random", "fifo"]
SETTLE = ":settle=1%"
# Faults a frame below which a cell is reported apart: CLOCK's, after first touches.
MANY = 10
COLUMNS = ["date", "side", "program", "trace", "policy", "memory_pages", "warm_faults"]


def specs():
    settled = [name + SETTLE for name in BITS]
    return ["opt", "auto", *BITS, *settled, *OTHERS]


def experts():
    """The default experts of `auto` as specs, from the command's own list."""
    listing = subprocess.run([COMMAND, "policies", "auto"], check=True, text=True, capture_output=True).stdout
    value = next(word for word in listing.split() if "+" in word and "clock" in word)
    names = value.removeprefix("experts=").split("+")
    return [n.removeprefix("settled-") + SETTLE if n.startswith("settled-") else n for n in names]


def simulate(trace, policies):
    command = ["nice", COMMAND, "simulate", trace, "-p", ",".join(policies), "-m", MEMORY, "--format", "csv"]
    return subprocess.run(
        [str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout


def measure(sides, policies, output):
    """Simulates each trace of the sides, and writes a row for each cell."""
    date = datetime.date.today().isoformat()
    with open(HERE / "programs.csv", newline="") as file, open(output, "w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS)
        writer.writeheader()
        for entry in csv.DictReader(file):
            if entry["side"] not in sides:
                continue
            trace = Path(os.path.expandvars(entry["trace"]))
            print(trace.name, file=sys.stderr)
            for row in csv.DictReader(simulate(ROOT / trace, policies).splitlines()):
                warm = int(row["faults"]) - int(row["first_touch_faults"])
                cell = dict(policy=row["policy"], memory_pages=row["memory_pages"], warm_faults=warm)
                writer.writerow(dict(entry, date=date, trace=trace.name, **cell))
            out.flush()


def read(path):
    """Warm faults by policy of each cell, by side."""
    sides = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            cells = sides.setdefault(row["side"], {})
            cell = cells.setdefault((row["trace"], int(row["memory_pages"])), {})
            cell[row["policy"]] = int(row["warm_faults"])
    # Where OPT takes none, there is no ratio.
    return {side: {at: c for at, c in cells.items() if c["opt"] > 0} for side, cells in sides.items()}


def mean(cells, faults):
    """The geometric mean of warm faults over OPT's. A cell without warm faults counts as one."""
    ratios = [max(faults(cell), 1) / cell["opt"] for cell in cells]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(name, cells, best_of):
    print(f"\n{name}: {len(cells)} cells; warm faults over OPT's, geometric mean")
    policies = sorted(set.intersection(*map(set, cells)) - {"opt"}, key=lambda p: mean(cells, lambda c: c[p]))
    rows = [(policy, mean(cells, lambda c, p=policy: c[p])) for policy in policies]
    rows.append(("best of the experts, chosen for each cell", mean(cells, lambda c: min(c[p] for p in best_of))))
    for policy, value in sorted(rows, key=lambda row: row[1]):
        print(f"  {value:7.3f}  {policy}")
    return dict(rows)


def is_at_most(what, value, bar):
    print(f"  {'reached' if value <= bar else 'MISSED '}  {what}: {value:.3f}, bar {bar}")
    return value <= bar


def judge(cells, many, means, best_of):
    """The bars. Returns whether all are reached."""
    single = min(value for policy, value in means.items() if policy.split(":")[0] not in ("auto", "best of the experts, chosen for each cell"))
    unsettled = min(value for policy, value in means.items() if ":" not in policy and policy != "auto" and "," not in policy)
    passed = [
        is_at_most("mean over clock-pro-strict's", means["auto"] / means["clock-pro-strict"], 0.82),
        is_at_most("mean over the best single policy's", means["auto"] / unsettled, 0.90),
        is_at_most("the same, settled policies included", means["auto"] / single, 0.90),
    ]
    for other in ["lru", "lirs", "arc", "s3-fifo", "w-tinylfu", "eelru"]:
        passed.append(is_at_most(f"mean over that of {other}", means["auto"] / means[other], 1))
    if many:
        regret = sorted(cell["auto"] / max(min(cell[p] for p in best_of), 1) for cell in many)
        passed += [
            is_at_most("over the best expert, nine cells of ten", regret[math.ceil(0.9 * len(regret)) - 1], 1.05),
            is_at_most("over the best expert, every cell", regret[-1], 1.15),
            is_at_most("over clock, every cell", max(c["auto"] / max(c["clock"], 1) for c in many), 1.05),
        ]
        print(f"  over the best expert: median {regret[len(regret) // 2]:.3f}")
    return all(passed)


def settling(cells):
    """What settling does to each policy, as a table in Markdown."""
    print(f"\nsettle=1%, {len(cells)} cells\n")
    print("| policy | as it is | settled | cells with 5 % fewer | with 5 % more | worst change |")
    print("|---|---:|---:|---:|---:|---:|")
    for policy in BITS:
        if not all(policy in c and policy + SETTLE in c for c in cells):
            continue
        plain, settled = (mean(cells, lambda c, p=p: c[p]) for p in (policy, policy + SETTLE))
        changes = [max(c[policy + SETTLE], 1) / max(c[policy], 1) for c in cells]
        fewer, more = sum(change < 0.95 for change in changes), sum(change > 1.05 for change in changes)
        print(f"| {policy} | {plain:.3f} | {settled:.3f} | {fewer} | {more} | {max(changes):.2f} |")


def main():
    global COMMAND
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", default="tuning,checking", help="sides of the split, comma list")
    parser.add_argument("--command", type=Path, default=ROOT / "target/release/sweephand", help="the command to run")
    parser.add_argument("--read", type=Path, help="print the tables of a result, and simulate nothing")
    parser.add_argument("-o", "--output", type=Path, help="default: results/DATE.csv")
    options = parser.parse_args()
    COMMAND = options.command
    if "SWEEPHAND_TRACES" not in os.environ and not options.read:
        sys.exit("run.py: SWEEPHAND_TRACES is not set; it names the folder of the classic traces")
    path = options.read or options.output or HERE / "results" / f"{datetime.date.today()}.csv"
    if not options.read:
        measure(options.side.split(","), specs(), path)
    best_of = experts()
    reached = True
    sides = read(path)
    for side, by_place in sides.items():
        cells = list(by_place.values())
        many = [c for (_, frames), c in by_place.items() if c["clock"] >= MANY * frames]
        few = [c for (_, frames), c in by_place.items() if c["clock"] < MANY * frames]
        means = table(side, cells, best_of)
        for name, part in [("ten faults a frame or more", many), ("fewer", few)]:
            if part:
                print(f"  {name}, {len(part)} cells: auto {mean(part, lambda c: c['auto']):.3f}, "
                      f"clock-pro-strict {mean(part, lambda c: c['clock-pro-strict']):.3f}, "
                      f"best of the experts {mean(part, lambda c: min(c[p] for p in best_of)):.3f}")
        print("bars")
        reached &= judge(cells, many, means, best_of)
    settling([cell for by_place in sides.values() for cell in by_place.values()])
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Faults of policies that Sweephand and libCacheSim both have, on whole traces.

    faults.py [--sweephand PATH] --results FILE.csv TRACE.swt...

Each trace is turned into plain page numbers (libCacheSim knows no unmapped pages, so events are
dropped), and both programs count faults at four memory sizes. Policies that draw random numbers run
under five seeds in Sweephand; libCacheSim's seed is fixed.
Needs the packages of requirements.txt.
"""

import argparse
import csv
import math
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

import libcachesim
import numpy as np
import peer

SIZES = (20, 40, 60, 80)  # per cent of the trace's pages
SEEDS = range(1, 6)
# Sweephand's policy, libCacheSim's class, and whether random numbers are drawn.
PEERS = [
    ("lirs", "LIRS", False),
    ("lirs:hir-min=1,stack-limit=2", "LIRS", False),
    ("s3-fifo", "S3FIFO", False),
    ("hyperbolic", "Hyperbolic", True),
    ("lecar", "LeCaR", True),
    ("cacheus", "Cacheus", True),
    ("lhd", "LHD", True),
]


def with_seed(policy: str, seed: int) -> str:
    return f"{policy}{',' if ':' in policy else ':'}seed={seed}"


def ours(sweephand: str, text: Path, frames: list[int]) -> dict[tuple[str, int], list[int]]:
    """Faults by policy and memory size, one for each seed."""
    names = {with_seed(p, seed): p for p, _, random in PEERS if random for seed in SEEDS}
    names |= {p: p for p, _, random in PEERS if not random}
    faults = defaultdict(list)
    for spec, policy in names.items():
        sizes = ",".join(f"{size}p" for size in frames)
        command = [sweephand, "simulate", str(text), "--policy", spec, "--memory", sizes, "--format", "csv"]
        rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        for row in csv.DictReader(rows):
            faults[policy, int(row["memory_pages"])].append(int(row["faults"]))
    return faults


def theirs(name: str, binary: Path, frames: int) -> int:
    reader = libcachesim.TraceReader(str(binary), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    miss_ratio, _ = getattr(libcachesim, name)(frames).process_trace(reader)
    return round(miss_ratio * reader.get_num_of_req())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweephand", default="target/release/sweephand")
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("traces", nargs="+", type=Path)
    options = parser.parse_args()
    columns = ["trace", "policy", "libcachesim_class", "memory_pages", "faults_mean", "faults_least"]
    columns += ["faults_most", "libcachesim_faults", "ratio"]
    ratios = defaultdict(list)
    with open(options.results, "w", newline="") as file, tempfile.TemporaryDirectory() as folder:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        for trace in options.traces:
            binary, text = Path(folder, "binary"), Path(folder, "text")
            ids = peer.decode(trace, 1 << 62, drop_events=True)
            peer.write(ids, binary, text)
            frames = [max(1, round(len(np.unique(ids)) * size / 100)) for size in SIZES]
            faults = ours(options.sweephand, text, frames)
            counted = {(name, size): theirs(name, binary, size) for _, name, _ in PEERS for size in frames}
            for policy, name, _ in PEERS:
                for size in frames:
                    seeds, other = faults[policy, size], counted[name, size]
                    mean = sum(seeds) / len(seeds)
                    ratios[policy].append(mean / other)
                    cells = [trace.stem, policy, name, size, f"{mean:.1f}", min(seeds), max(seeds)]
                    table.writerow([*cells, other, f"{mean / other:.4f}"])
            file.flush()
    for policy, of_policy in ratios.items():
        mean = math.exp(sum(map(math.log, of_policy)) / len(of_policy))
        least, most = min(of_policy), max(of_policy)
        print(f"{policy:<30} {mean:.4f} ({least:.4f} to {most:.4f}), {len(of_policy)} cells")


if __name__ == "__main__":
    main()

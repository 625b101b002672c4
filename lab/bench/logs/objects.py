#!/usr/bin/env python3
"""Misses and missed bytes of objects with sizes, counted by Sweephand and by libCacheSim.

    objects.py [--sweephand PATH] [--requests N] --results FILE.csv

Makes logs of N requests: objects by rank to the power of -ALPHA, sizes log-normal, each object of
one size. Both programs read the same file (oracleGeneral). libCacheSim tells ratios only, so counts
are its ratios times requests or bytes, rounded. A tenth of the largest objects do not fit into the
smallest cache.
Needs the packages of ../throughput/requirements.txt.
"""

import argparse
import csv
import subprocess
import tempfile
from pathlib import Path

import libcachesim
import numpy as np

SHARES = ("0.1%", "1%", "10%", "30%")  # of the bytes of all objects
ALPHAS = (0.8, 1.1)
OBJECTS = 50_000
# Sweephand's policy and libCacheSim's class.
PEERS = [
    ("fifo", "FIFO"),
    ("lru", "LRU"),
    ("clock", "Clock"),
    ("sieve", "Sieve"),
    ("s3-fifo", "S3FIFO"),
    ("gdsf", "GDSF"),
    ("w-tinylfu", "WTinyLFU"),
]
# These have to be equal.
EQUAL = ("fifo", "lru", "clock", "sieve", "gdsf")
RECORD = np.dtype([("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next", "<i8")])


def make(path: Path, requests: int, alpha: float) -> int:
    """Writes a log. Returns the bytes of all its requests."""
    random = np.random.default_rng(7)
    weights = np.arange(1, OBJECTS + 1) ** -alpha
    keys = random.choice(OBJECTS, requests, p=weights / weights.sum())
    sizes = np.clip(random.lognormal(9, 1.5, OBJECTS), 1, 1 << 24).astype(np.uint32)
    log = np.zeros(requests, RECORD)
    log["time"], log["key"], log["size"], log["next"] = np.arange(requests), keys + 1, sizes[keys], -1
    log.tofile(path)
    return int(log["size"].sum(dtype=np.uint64))


def ours(sweephand: str, log: Path) -> list[dict[str, str]]:
    trace = log.with_suffix(".swt")
    columns = ["--columns", "record=24,time=u32@0,key=u64@4,size=u32@12", "--whole-objects"]
    subprocess.run([sweephand, "import", log, *columns, "-o", trace], check=True, capture_output=True)
    policies = ",".join(policy for policy, _ in PEERS)
    command = [sweephand, "simulate", trace, "--whole-objects", "--policy", policies, "--format", "csv"]
    command += ["--memory", ",".join(SHARES)]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return list(csv.DictReader(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweephand", default="target/release/sweephand")
    parser.add_argument("--requests", type=int, default=2_000_000)
    parser.add_argument("--results", required=True, type=Path)
    options = parser.parse_args()
    columns = ["alpha", "policy", "memory_bytes", "misses", "libcachesim_misses"]
    columns += ["missed_bytes", "libcachesim_missed_bytes"]
    unequal = 0
    with open(options.results, "w", newline="") as file, tempfile.TemporaryDirectory() as folder:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        for alpha in ALPHAS:
            log = Path(folder, f"log-{alpha}")
            requested_bytes = make(log, options.requests, alpha)
            for row in ours(options.sweephand, log):
                reader = libcachesim.TraceReader(str(log), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
                cache = getattr(libcachesim, dict(PEERS)[row["policy"]])(int(row["memory_bytes"]))
                misses, missed = cache.process_trace(reader)
                theirs = round(misses * options.requests), round(missed * requested_bytes)
                mine = int(row["misses"]), int(row["missed_bytes"])
                table.writerow([alpha, row["policy"], row["memory_bytes"], mine[0], theirs[0], mine[1], theirs[1]])
                file.flush()
                if row["policy"] in EQUAL and mine != theirs:
                    unequal += 1
                ratios = f"{mine[0] / theirs[0]:.4f} of its misses, {mine[1] / theirs[1]:.4f} of its missed bytes"
                print(f"{alpha} {row['policy']:<10} {int(row['memory_bytes']):>14,} bytes: {ratios}")
    print(f"{unequal} cells of {', '.join(EQUAL)} differ")


if __name__ == "__main__":
    main()

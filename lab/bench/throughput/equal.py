#!/usr/bin/env python3
"""Compares two builds: every policy at ten sizes of some traces must give the same rows, to the
last fault and hand step. See README.md."""

import argparse
import collections
import csv
import io
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SIZES = "5%,10%,20%,30%,40%,50%,60%,70%,80%,90%"


def rows(binary, trace, kept):
    """What a build says of a trace; kept in a file if asked for, and then not computed again."""
    path = kept / f"{trace.parent.name}-{trace.stem}.csv" if kept else None
    if path and path.exists():
        text = path.read_text(encoding="utf-8")
    else:
        command = [binary, "simulate", trace, "--policy", "all", "--memory", SIZES, "--format", "csv"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"equal.py: {binary}: {run.stderr.strip()}")
        text = run.stdout
        if path:
            path.write_text(text, encoding="utf-8")
    # Not where the trace is: kept rows may be from another folder.
    return [row | {"trace": trace.name} for row in csv.DictReader(io.StringIO(text))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=lambda path: Path(path).resolve())
    parser.add_argument("after", type=lambda path: Path(path).resolve())
    parser.add_argument("traces", type=Path, nargs="*", help="[default: all that ship with the project]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the rows of BEFORE are kept")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    traces = options.traces or sorted((ROOT / "traces").glob("**/*.swt"))
    cells = differing = 0
    for trace in traces:
        before, after = rows(options.before, trace, options.keep), rows(options.after, trace, None)
        wrong = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
        cells += len(before)
        differing += len(wrong)
        policies = len({row["policy"] for row in before})
        by_policy = collections.Counter(old["policy"] for old, _ in wrong)
        which = "".join(f", {count} of {policy}" for policy, count in by_policy.items())
        print(f"{trace.name}: {len(before)} cells of {policies} policies, {len(wrong)} differ{which}", flush=True)
        for old, new in wrong[:2]:
            changed = {name: (old[name], new[name]) for name in old if old[name] != new[name]}
            print(f"  {old['policy']} {old['memory_pages']} pages: {changed}")
    print(f"{len(traces)} traces, {cells} cells, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

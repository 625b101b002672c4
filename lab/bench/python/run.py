#!/usr/bin/env python3
"""What the Python package costs: `simulate` beside the command, and policies written in Python
beside the built-in ones."""

import argparse
import csv
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
COMMAND = PROJECT / "target" / "release" / "sweephand"
POLICIES = "lru,clock,clock-pro-strict,lirs"
SIZES = "10%,40%"
# `simulate` in a process of its own that does nothing else; the time of the call, with the opening
# of the trace. The package leaves importing pyarrow to the first call of a session.
CALL = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import pyarrow, sweephand
trace, policies, sizes = sys.argv[2:5]
if policies.startswith("policies."):
    import policies as book
    policies = getattr(book, policies.removeprefix("policies."))
wall, cpu = time.perf_counter(), time.process_time()
table = sweephand.simulate(trace, policies, sizes, progress=False)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
rows = [list(row.values())[2:] for row in table.to_pylist()]
print(json.dumps({"wall": wall, "cpu": cpu, "rows": rows}))
"""
# Traces on which policies are called seldom, often, and at every second reference.
RATES = {
    "zipf": ["zipf", "--pages=100000", "--exponent=1.2", "--references=5000000", "--seed=1"],
    "mixed": ["mixed", "--zipf-pages=50000", "--loop-pages=10000", "--references=2000000", "--seed=1"],
}
IN_PYTHON = [("clock", "policies.Clock"), ("lru", "policies.Lru")]


def of_process(words):
    """What a process prints, and its wall and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return printed, {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def of_command(trace, policies, sizes):
    """Wall and processor seconds of the command, and its rows."""
    words = [COMMAND, "simulate", trace, "--policy", policies, "--memory", sizes, "--format", "csv"]
    printed, times = of_process(words)
    return {**times, "rows": [row.split(",")[2:] for row in printed.splitlines()[1:]]}


def of_python(trace, policies, sizes):
    """The same of `simulate` from Python, and what the process takes besides: the interpreter and
    the imports."""
    words = [sys.executable, "-c", CALL, str(PROJECT / "python" / "tests"), trace, policies, sizes]
    printed, times = of_process(words)
    call = json.loads(printed)
    return {**call, **{f"session_{measure}": seconds - call[measure] for measure, seconds in times.items()}}


def faults(result):
    return [int(row[3]) for row in result["rows"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--references", default="50M", help="of the trace that command and package are compared on")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if not COMMAND.exists():
        sys.exit("run.py: build the command first: cargo build --release -p sweephand")
    today = datetime.date.today().isoformat()
    output = args.output or Path(__file__).parent / "results" / f"{today}.csv"
    common = {"date": today, "machine": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        big = make(folder, "big", ["mixed", f"--references={args.references}", "--seed=1"])
        sides = {"command": of_command, "python": of_python}
        results = {side: [] for side in sides}
        for number in range(args.rounds):
            for side in sorted(sides, reverse=number % 2 == 1):
                results[side].append(sides[side](big, POLICIES, SIZES))
        agree(faults(results["command"][0]), faults(results["python"][0]))
        for measure in ("cpu", "wall"):
            medians = {side: statistics.median(run[measure] for run in results[side]) for side in sides}
            ratio = statistics.median(
                theirs[measure] / ours[measure] for ours, theirs in zip(results["command"], results["python"], strict=True)
            )
            for side in sides:
                times = [run[measure] for run in results[side]]
                rows.append(row(common, "simulate", side, f"{POLICIES} at {SIZES}", f"{measure}_s", medians[side], times))
            rows.append(row(common, "simulate", "python / command", f"{POLICIES} at {SIZES}", f"{measure}_ratio", ratio, [ratio]))
            times = [run[f"session_{measure}"] for run in results["python"]]
            rows.append(row(common, "session", "python", "", f"{measure}_s", statistics.median(times), times))
        for name, words in RATES.items():
            trace = make(folder, name, words)
            for built_in, in_python in IN_PYTHON:
                ours, theirs = [], []
                for _ in range(args.rounds):
                    ours.append(of_python(trace, built_in, "50%"))
                    theirs.append(of_python(trace, in_python, "50%"))
                agree(faults(ours[0]), faults(theirs[0]))
                references = int(theirs[0]["rows"][0][1])
                for label, runs in ((built_in, ours), (in_python, theirs)):
                    rates = [references / run["cpu"] / 1e6 for run in runs]
                    rows.append(row(common, name, "python", label, "mrefs_per_cpu_s", statistics.median(rates), rates))
                count = faults(theirs[0])[0]
                each = [run["cpu"] / count * 1e6 for run in theirs]
                rows.append(row(common, name, "python", in_python, "cpu_us_per_fault", statistics.median(each), each))
                share = count / references
                rows.append(row(common, name, "python", in_python, "faults_per_reference", share, [share]))
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    for line in rows:
        print(f"{line['what']:<9} {line['side']:<17} {line['policies']:<36} {line['measure']:<21} {line['median']}")
    print(f"{output}: written", file=sys.stderr)


def make(folder, name, words):
    path = str(Path(folder, f"{name}.swt"))
    subprocess.run([COMMAND, "generate", *words, "-o", path], capture_output=True, check=True)
    return path


def agree(ours, theirs):
    if ours != theirs:
        sys.exit(f"run.py: {ours} faults and {theirs}: they have to be the same")


def row(common, what, side, policies, measure, median, runs):
    numbers = {"median": median, "least": min(runs), "most": max(runs)}
    rounded = {name: round(number, 4) for name, number in numbers.items()}
    return {**common, "what": what, "side": side, "policies": policies, "measure": measure, "rounds": len(runs), **rounded}


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()

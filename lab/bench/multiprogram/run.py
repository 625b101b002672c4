#!/usr/bin/env python3
"""Simulated references a CPU second of `sweephand multiprogram`, and what a sweep takes.

    lab/bench/multiprogram/run.py target/release/sweephand [ROUNDS]

writes results/DATE.csv. CPU time (user and system) of the whole command counts, the decoding of the
eight traces included; its lowest is on an idle machine.
"""

import csv
import datetime
import os
import platform
import resource
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCES = 254_401_634  # of the 50 tasks of the built-in configurations

CASES = [
    (f"{policy}, {'every reference' if irim == 0 else 'intervals'}", 1, ["A", "-p", policy, "--theta", "700k", "--irim", str(irim)])
    for irim in (0, 5000)
    for policy in ("ws", "wsclock", "global-clock", "clock-pro-strict")
] + [
    ("10 theta x 3 policies x 3 configurations, every reference", 90, ["A", "B", "C", "--irim", "0"]),
    ("10 theta x 3 policies x 3 configurations, intervals", 90, ["A", "B", "C"]),
]


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    sweephand = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    version = subprocess.run([sweephand, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    rows = []
    times = [[] for _ in CASES]
    for _ in range(rounds):  # by turns
        for of_case, (_, _, arguments) in zip(times, CASES):
            of_case.append(cpu_seconds([sweephand, "multiprogram", *arguments, "--format", "csv"]))
    for (name, runs, _), of_case in zip(CASES, times):
        median = statistics.median(of_case)
        rows.append([version, model, name, runs, rounds, f"{median:.2f}", f"{min(of_case):.2f}", f"{max(of_case):.2f}",
                     round(runs * REFERENCES / median / 1e6)])
    path = os.path.join(HERE, "results", f"{datetime.date.today()}.csv")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["version", "processor", "case", "runs", "rounds", "cpu_seconds_median", "cpu_seconds_least",
                      "cpu_seconds_most", "million_references_per_cpu_second"])
        out.writerows(rows)
    print(path)


if __name__ == "__main__":
    main()

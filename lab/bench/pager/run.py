#!/usr/bin/env python3
"""Live paging beside the kernel's own: see README.md."""
import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def measure(command):
    """Seconds of each round that the program tells of."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900)
    if result.returncode:
        sys.exit(f"{command}: status {result.returncode}: {result.stdout}")
    return [float(line) for line in result.stdout.split()]


def named(workload, threads):
    """A workload's name in the results."""
    return workload if threads == "1" else f"{workload} x{threads}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that every variant is run")
    parser.add_argument("--limit-mib", type=int, default=256)
    parser.add_argument("--workloads", default="loop,random,fits")
    parser.add_argument("--policies", default="fifo,clock,clock-pro-strict,lifo-plus")
    parser.add_argument("--threads", default="1", help="threads of the program, comma list; not for fits")
    parser.add_argument("--conditions", default="plain", help="plain; awake: with --awake; one: on one processor")
    parser.add_argument("--directory", default="/var/tmp", help="where to page to, by whichever means")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if os.geteuid():
        sys.exit("run this as root: it makes a memory cgroup and a swap file")
    sweephand = ROOT / "target/release/sweephand"
    policies, limit = args.policies.split(","), args.limit_mib
    rows = []
    cases = [(workload, threads) for workload in args.workloads.split(",")
             for threads in (args.threads.split(",") if workload != "fits" else ["1"])]
    with tempfile.TemporaryDirectory(dir=args.directory) as workshop:
        walk, stats = pathlib.Path(workshop) / "walk", pathlib.Path(workshop) / "stats.json"
        subprocess.run(["cc", "-O2", "-pthread", "-o", walk, HERE / "walk.c"], check=True)

        def run(variant, condition, memory_mib, workload, mib, loops, threads=1):
            program = [walk, workload, str(mib), str(loops), str(threads)]
            before = ["taskset", "-c", str(max(os.sched_getaffinity(0)))] if condition == "one" else []
            if variant == "native":
                return measure([*before, *program]), {}
            alone = {"kernel": ["--kernel"], "default": []}
            how = alone.get(variant, ["--policy", variant, "--backend", "anon"])
            awake = ["--awake"] if condition == "awake" else []
            options = ["run", "--memory", f"{memory_mib}MiB", *how, *awake, "--swap", args.directory,
                       "--stats", stats, "--"]
            seconds = measure([*before, sweephand, *options, *program])
            return seconds, json.loads(stats.read_text())

        for number in range(args.rounds):
            for workload, threads in cases:
                variants = ["native", policies[-1]] if workload == "fits" else ["kernel", *policies]
                variants = [(variant, condition) for condition in args.conditions.split(",") for variant in variants]
                # Each round begins with another variant.
                turn = number % len(variants)
                for variant, condition in variants[turn:] + variants[:turn]:
                    if workload == "fits":
                        start = time.monotonic()
                        _, counts = run(variant, condition, 2 * limit, "loop", limit, 400)
                        seconds = time.monotonic() - start
                    else:
                        loops, counts = run(variant, condition, limit, workload, 2 * limit, 4, threads)
                        seconds = statistics.median(loops)
                    # Rows of one file tell conditions apart by the variant.
                    name = variant if condition == "plain" else f"{variant} {condition}"
                    rows.append({
                        "date": datetime.date.today().isoformat(), "machine": platform.node(),
                        "cpus": os.cpu_count(), "kernel": platform.release(),
                        "workload": named(workload, threads),
                        "variant": name, "limit_mib": limit, "round": number, "seconds": f"{seconds:.6f}",
                        "failcnt": counts.get("cgroup_failcnt", ""),
                        "pages_read": counts.get("pages_read", ""),
                        "pages_written": counts.get("pages_written", ""),
                        "rescues": counts.get("rescues", "")})
                    print(*list(rows[-1].values())[4:], flush=True)
    output = args.output or HERE / "results" / f"{datetime.date.today().isoformat()}.csv"
    with open(output, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload]
        median = {variant: statistics.median(float(row["seconds"]) for row in mine if row["variant"] == variant)
                  for variant in dict.fromkeys(row["variant"] for row in mine)}
        base = median.get("kernel") or median["native"]
        for variant, seconds in median.items():
            print(f"{workload:10} {variant:12} {seconds:9.3f} s   {base / seconds:6.2f} times as fast")


if __name__ == "__main__":
    main()

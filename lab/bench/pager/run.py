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

import disks
import programs

HERE = pathlib.Path(__file__).resolve().parent
COUNTS = {"failcnt": "cgroup_failcnt", "pages_read": "pages_read", "pages_written": "pages_written", "rescues": "rescues"}
FIELDS = ["date", "machine", "cpus", "kernel", "disk", "workload", "variant", "limit_mib", "round", "seconds", *COUNTS]


def measure(command, patience):
    """Seconds of each round that the program tells of in time. Returns when the run is over."""
    is_late = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=programs.prepare_child) as child:
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            child.terminate()
        said = child.stdout.read()
    if child.returncode and not is_late:
        sys.exit(f"{command}: status {child.returncode}: {said}")
    return [float(line) for line in said.split()]


def named(workload, threads):
    """A workload's name in the results."""
    return workload if threads == "1" else f"{workload} x{threads}"


class Bench:
    """The program, and where it is run."""

    def __init__(self, args, workshop, folder):
        self.args, self.folder = args, folder
        self.walk, self.stats = pathlib.Path(workshop) / "walk", pathlib.Path(workshop) / "stats.json"
        subprocess.run(["cc", "-O2", "-pthread", "-o", self.walk, HERE / "walk.c"], check=True)

    def run(self, variant, condition, memory_mib, workload, mib, loops, threads=1):
        """Seconds of each round, and the counts of the run."""
        program = [self.walk, workload, str(mib), str(loops), str(threads)]
        before = ["taskset", "-c", str(max(os.sched_getaffinity(0)))] if condition == "one" else []
        if variant == "native":
            return measure([*before, *program], self.args.patience), {}
        awake = ["--awake"] if condition == "awake" else []
        options = ["--memory", f"{memory_mib}MiB", *programs.options_of(variant), *awake, "--swap", self.folder]
        self.stats.unlink(missing_ok=True)
        command = [*before, self.args.sweephand, "run", *options, "--stats", self.stats, "--", *program]
        seconds = measure(command, self.args.patience)
        return seconds, json.loads(self.stats.read_text()) if self.stats.exists() else {}

    def row(self, workload, threads, variant, condition, number):
        """Runs a variant, and returns a row, or nothing if no round has ended in time."""
        limit = self.args.limit_mib
        if workload == "fits":
            start = time.monotonic()
            loops, counts = self.run(variant, condition, 2 * limit, "loop", limit, 400)
            seconds = time.monotonic() - start
        else:
            loops, counts = self.run(variant, condition, limit, workload, 2 * limit, self.args.loops, threads)
            seconds = statistics.median(loops) if loops else 0
        return loops and {
            "date": datetime.date.today().isoformat(), "machine": platform.node(), "cpus": os.cpu_count(),
            "kernel": platform.release(), "disk": self.args.disk, "workload": named(workload, threads),
            # Rows of one file tell conditions apart by the variant.
            "variant": variant if condition == "plain" else f"{variant} {condition}",
            "limit_mib": limit, "round": number, "seconds": f"{seconds:.6f}",
            **{field: counts.get(count, "") for field, count in COUNTS.items()}}

    def rows(self):
        """Runs every variant of every case in every round."""
        args = self.args
        policies = args.policies.split(",")
        cases = [(workload, threads) for workload in args.workloads.split(",")
                 for threads in (args.threads.split(",") if workload != "fits" else ["1"])]
        for number in range(args.rounds):
            for workload, threads in cases:
                variants = ["native", policies[-1]] if workload == "fits" else ["kernel", *policies]
                variants = [(variant, condition) for condition in args.conditions.split(",") for variant in variants]
                # Each round begins with another variant.
                turn = number % len(variants)
                for variant, condition in variants[turn:] + variants[:turn]:
                    row = self.row(workload, threads, variant, condition, number)
                    if row:
                        yield row
                    else:
                        print(named(workload, threads), variant, f"no round in {args.patience} s", flush=True)


def show(rows):
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload]
        median = {variant: statistics.median(float(row["seconds"]) for row in mine if row["variant"] == variant)
                  for variant in dict.fromkeys(row["variant"] for row in mine)}
        base = median.get("kernel") or median.get("native")
        for variant, seconds in median.items():
            times = f"{base / seconds:6.2f} times as fast" if base else ""
            print(f"{workload:10} {variant:22} {seconds:9.3f} s   {times}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that every variant is run")
    parser.add_argument("--limit-mib", type=int, default=256)
    parser.add_argument("--workloads", default="loop,random,fits")
    parser.add_argument("--policies", default="fifo,clock,clock-pro-strict,lifo-plus",
                        help="what runs beside the kernel: POLICY, BACKEND:POLICY, or default; comma list")
    parser.add_argument("--loops", type=int, default=4, help="rounds of the program in a run, after it has filled memory")
    parser.add_argument("--patience", type=float, default=900, help="seconds for a run; rounds that have ended by then count")
    parser.add_argument("--threads", default="1", help="threads of the program, comma list; not for fits")
    parser.add_argument("--conditions", default="plain", help="plain; awake: with --awake; one: on one processor")
    parser.add_argument("--sweephand", default=programs.ROOT / "target/release/sweephand")
    disks.add_arguments(parser)
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if os.geteuid():
        sys.exit("run this as root: it makes a memory cgroup and a swap file")
    programs.end_on_signals()
    output = args.output or HERE / "results" / disks.result_name("", args.disk)
    rows = []
    with disks.disk(args.disk, args.directory) as folder, tempfile.TemporaryDirectory(dir=args.directory) as workshop, \
            open(output, "w", newline="") as file:
        table = csv.DictWriter(file, FIELDS)
        table.writeheader()
        for row in Bench(args, workshop, folder).rows():
            rows.append(row)
            table.writerow(row)
            file.flush()
            print(*list(row.values())[4:], flush=True)
    show(rows)


if __name__ == "__main__":
    main()

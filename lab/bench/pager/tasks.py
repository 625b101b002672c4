#!/usr/bin/env python3
"""Several tasks under one limit, with load control and without: see README.md."""
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
# Name, policy, rule of load control.
VARIANTS = [
    ("wsclock with load control", "wsclock", "policy"),
    ("wsclock, all at once", "wsclock", "none"),
    ("global-clock with load control", "global-clock", "policy"),
    ("global-clock, all at once", "global-clock", "none"),
    ("one after another", "wsclock", "serial"),
]
COUNTS = ["refaults", "evictions", "deactivations", "replacements", "forced_replacements", "hand_steps"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="times that every variant is run")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--mib", type=int, default=100, help="working set of each task")
    parser.add_argument("--passes", type=int, default=40, help="times that each task goes over it")
    parser.add_argument("--limit-mib", type=int, default=160)
    parser.add_argument("--variants", help="numbers, comma list: " + ", ".join(
        f"{number} {name}" for number, (name, _, _) in enumerate(VARIANTS)))
    parser.add_argument("--directory", default="/var/tmp", help="where to page to")
    parser.add_argument("--timeout", type=int, default=900, help="seconds after which a run is given up")
    parser.add_argument("--sweephand", default=ROOT / "target/release/sweephand")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    chosen = [VARIANTS[int(number)] for number in args.variants.split(",")] if args.variants else VARIANTS
    rows = []
    with tempfile.TemporaryDirectory(dir=args.directory) as workshop:
        workshop = pathlib.Path(workshop)
        subprocess.run(["cc", "-O2", "-o", workshop / "work", HERE / "work.c"], check=True)
        command = ["./work", str(args.mib), str(args.passes)]
        expected = [subprocess.run([*command, str(seed)], cwd=workshop, check=True, stdout=subprocess.PIPE).stdout
                    for seed in range(1, args.tasks + 1)]
        (workshop / "tasks.toml").write_text(
            f"memory = '{args.limit_mib}MiB'\n[[task]]\ncommand = {json.dumps([*command, '{n}'])}\n"
            f"stdout = 'out.{{n}}'\ncount = {args.tasks}\n")

        def run(policy, rule):
            """Seconds, and what was counted; no seconds if it took too long."""
            start = time.monotonic()
            process = subprocess.Popen(
                [args.sweephand, "run", "--tasks", workshop / "tasks.toml", "--policy", policy, "--load-control", rule,
                 "--swap", args.directory, "--stats", workshop / "stats.json"])
            try:
                status = process.wait(timeout=args.timeout)
            except subprocess.TimeoutExpired:
                # The tasks die with the command.
                process.kill()
                process.wait()
                return None, {}
            seconds = time.monotonic() - start
            if status:
                sys.exit(f"{policy} {rule}: status {status}")
            for task, text in enumerate(expected, 1):
                if (workshop / f"out.{task}").read_bytes() != text:
                    sys.exit(f"{policy} {rule}: task {task} has another result than by itself")
            return seconds, json.loads((workshop / "stats.json").read_text())

        for number in range(args.rounds):
            turn = number % len(chosen)
            for name, policy, rule in chosen[turn:] + chosen[:turn]:
                seconds, counts = run(policy, rule)
                rows.append({
                    "date": datetime.date.today().isoformat(), "machine": platform.node(), "cpus": os.cpu_count(),
                    "kernel": platform.release(), "load": f"{os.getloadavg()[0]:.1f}", "tasks": args.tasks,
                    "working_set_mib": args.mib, "passes": args.passes, "limit_mib": args.limit_mib, "variant": name,
                    "round": number, "seconds": "" if seconds is None else f"{seconds:.3f}",
                    "cpu_seconds": f"{(counts['user_ns'] + counts['sys_ns']) / 1e9:.3f}" if counts else "",
                    "utilization": f"{counts['utilization']:.3f}" if counts else "",
                    "mean_active_tasks": f"{counts['mean_active_tasks']:.2f}" if counts else "",
                    **{count: counts.get(count, "") for count in COUNTS}})
                print(*list(rows[-1].values())[9:], flush=True)
    output = args.output or HERE / "results" / f"tasks-{datetime.date.today().isoformat()}.csv"
    pathlib.Path(output).parent.mkdir(exist_ok=True)
    with open(output, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    median = {}
    for name, _, _ in chosen:
        seconds = [float(row["seconds"] or "inf") for row in rows if row["variant"] == name]
        median[name] = statistics.median(seconds)
    best = median[chosen[0][0]]
    for name, seconds in median.items():
        taken = f"{seconds:9.1f} s" if seconds < float("inf") else f"over {args.timeout} s"
        ratio = (seconds if seconds < float("inf") else args.timeout) / best
        print(f"{name:32} {taken:12} {'' if seconds < float('inf') else 'over '}{ratio:6.2f} times as long as the first")


if __name__ == "__main__":
    main()

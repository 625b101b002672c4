#!/usr/bin/env python3
"""Live paging beside the kernel's own: see README.md."""
import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# What the kernel keeps for a process and its pager beside anonymous memory: page tables, stacks, the ring.
KERNEL_MIB = 6
V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")


class Cgroup:
    """A memory cgroup, gone again at the end."""

    def __init__(self, mib, swap):
        self.v1 = (V1 / "memory.limit_in_bytes").exists()
        self.path = (V1 if self.v1 else V2) / f"sweephand-bench-{os.getpid()}"
        self.path.mkdir()
        if self.v1:
            self.write("memory.swappiness", 60 if swap else 0)
            self.write("memory.limit_in_bytes", mib << 20)
        else:
            self.write("memory.swap.max", "max" if swap else 0)
            self.write("memory.max", mib << 20)

    def write(self, name, value):
        (self.path / name).write_text(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def failures(self):
        if self.v1:
            return int((self.path / "memory.failcnt").read_text())
        events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
        return int(events["max"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)


class SwapFile:
    """A swap file, in use for as long as it is entered."""

    def __init__(self, directory, mib):
        self.path = pathlib.Path(directory) / f"sweephand-bench-{os.getpid()}.swap"
        with open(self.path, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            for _ in range(mib):
                file.write(bytes(1 << 20))
        subprocess.run(["mkswap", self.path], check=True, capture_output=True)

    def __enter__(self):
        subprocess.run(["swapon", self.path], check=True)

    def __exit__(self, *_):
        subprocess.run(["swapoff", self.path], check=True)

    def remove(self):
        self.path.unlink(missing_ok=True)


def measure(command, cgroup=None):
    """Seconds of each round that the program tells of."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900,
                            preexec_fn=cgroup.enter if cgroup else None)
    if result.returncode:
        sys.exit(f"{command}: status {result.returncode}: {result.stdout}")
    return [float(line) for line in result.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that every variant is run")
    parser.add_argument("--limit-mib", type=int, default=256)
    parser.add_argument("--workloads", default="loop,random,fits")
    parser.add_argument("--policies", default="fifo,clock,clock-pro,lifo-plus")
    parser.add_argument("--directory", default="/var/tmp", help="where to page to, by whichever means")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    # So that the swap file and the cgroup go, however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    if os.geteuid():
        sys.exit("run this as root: it makes a memory cgroup and a swap file")
    sweephand = ROOT / "target/release/sweephand"
    policies, limit = args.policies.split(","), args.limit_mib
    rows = []
    with tempfile.TemporaryDirectory(dir=args.directory) as workshop:
        walk, stats = pathlib.Path(workshop) / "walk", pathlib.Path(workshop) / "stats.json"
        subprocess.run(["cc", "-O2", "-o", walk, HERE / "walk.c"], check=True)
        swap = SwapFile(args.directory, 4 * limit)

        def run(variant, memory_mib, workload, mib, loops):
            program = [walk, workload, str(mib), str(loops)]
            if variant == "native":
                return measure(program), None, {}
            if variant == "kernel":
                with swap, Cgroup(memory_mib, True) as cgroup:
                    return measure(program, cgroup), cgroup.failures(), {}
            options = ["run", "--memory", f"{memory_mib - KERNEL_MIB}MiB", "--policy", variant,
                       "--swap", args.directory, "--stats", stats, "--"]
            with Cgroup(memory_mib, False) as cgroup:
                seconds = measure([sweephand, *options, *program], cgroup)
                return seconds, cgroup.failures(), json.loads(stats.read_text())

        try:
            for number in range(args.rounds):
                for workload in args.workloads.split(","):
                    variants = ["native", policies[-1]] if workload == "fits" else ["kernel", *policies]
                    # Each round begins with another variant.
                    turn = number % len(variants)
                    for variant in variants[turn:] + variants[:turn]:
                        if workload == "fits":
                            start = time.monotonic()
                            _, failures, counts = run(variant, 2 * limit, "loop", limit, 8)
                            seconds = time.monotonic() - start
                        else:
                            loops, failures, counts = run(variant, limit, workload, 2 * limit, 4)
                            seconds = statistics.median(loops)
                        rows.append({
                            "date": datetime.date.today().isoformat(), "machine": platform.node(),
                            "cpus": os.cpu_count(), "kernel": platform.release(), "workload": workload,
                            "variant": variant, "limit_mib": limit, "round": number, "seconds": f"{seconds:.6f}",
                            "failcnt": "" if failures is None else failures,
                            "pages_read": counts.get("pages_read", ""),
                            "pages_written": counts.get("pages_written", ""),
                            "rescues": counts.get("rescues", "")})
                        print(*list(rows[-1].values())[4:], flush=True)
        finally:
            swap.remove()
    output = args.output or HERE / "results" / f"{datetime.date.today().isoformat()}.csv"
    with open(output, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for workload in args.workloads.split(","):
        mine = [row for row in rows if row["workload"] == workload]
        median = {variant: statistics.median(float(row["seconds"]) for row in mine if row["variant"] == variant)
                  for variant in dict.fromkeys(row["variant"] for row in mine)}
        base = median.get("kernel") or median["native"]
        for variant, seconds in median.items():
            print(f"{workload:8} {variant:12} {seconds:9.3f} s   {base / seconds:6.2f} times as fast")


if __name__ == "__main__":
    main()

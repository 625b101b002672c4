#!/usr/bin/env python3
"""Kills what takes part in a live recording at random points, and checks what is left: the program
prints what it should, and the trace can be read.

README.md has what is killed, and what has to hold then.
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
PROGRAMS = PROJECT / "crates/cli/tests/programs"
# A program that verifies its memory and prints "right", with its arguments: about a second.
WORK = {"order": ["3000", "8000", "5"], "threads": ["32", "4", "20000"], "forks": ["32", "3", "2"]}
VICTIMS = ["recorder", "writer", "recorder and writer", "program"]
PATIENCE = 60


def processes_of(parent: int) -> dict:
    """The children of a process, by name."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if int(fields[1].split()[1]) == parent:
            found[fields[0].split("(", 1)[1]] = int(entry.name)
    return found


def wait_for(is_so, what: str):
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > PATIENCE:
            sys.exit(f"after {PATIENCE} s: {what}")
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def once(sweephand, program, victim, after, folder) -> str:
    """Records a program, and kills something after some seconds. Returns how it ended."""
    trace, printed = folder / "t.swt", folder / "printed"
    words = [program, *WORK[program.name]]
    options = ["--overhead", "50%", "--window", "64", "-o", trace]
    with printed.open("w") as out:
        recorder = subprocess.Popen(
            [sweephand, "record", "--live", "-q", *options, "--", *words],
            stdout=out,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
    is_there = lambda: program.name in processes_of(recorder.pid) or recorder.poll() is not None
    wait_for(is_there, "the program does not start")
    there = processes_of(recorder.pid)
    recorded, writer = there.get(program.name), there.get(Path(sweephand).name[:15])
    time.sleep(after)
    if recorder.poll() is not None or recorded is None or writer is None:
        return "over before"
    targets = {"recorder": recorder.pid, "writer": writer, "program": recorded}
    for target in victim.split(" and "):
        kill(targets[target])
    said = recorder.communicate()[1].decode()
    wait_for(lambda: not is_alive(recorded), "the program does not end")
    wait_for(lambda: not is_alive(writer), "the writer does not end")
    lines = printed.read_text().split()
    if victim != "program" and lines[-1:] != ["right"]:
        sys.exit(f"{program.name}, {victim} killed after {after:.3f} s: it printed {lines}, and {said}")
    if not trace.exists():
        if "writer" not in victim or (victim == "writer" and recorder.returncode != 2):
            sys.exit(f"{program.name}, {victim} killed after {after:.3f} s: there is no trace, and {said}")
        return "no trace"
    # Even without its writer: that may have been about to end.
    info = subprocess.run([sweephand, "info", "--format", "json", trace], capture_output=True, check=True)
    return "trace" if json.loads(info.stdout)["totals"]["records"] > 0 else "empty trace"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweephand", default=PROJECT / "target/release/sweephand")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    ends = collections.Counter()
    with tempfile.TemporaryDirectory() as built:
        for name in WORK:
            subprocess.run(["cc", "-O2", "-pthread", "-o", f"{built}/{name}", PROGRAMS / f"{name}.c"], check=True)
        for run in range(arguments.runs):
            name, victim = chance.choice(list(WORK)), VICTIMS[run % len(VICTIMS)]
            after = chance.uniform(0, 0.5)
            with tempfile.TemporaryDirectory() as folder:
                end = once(arguments.sweephand, Path(built) / name, victim, after, Path(folder))
                left = sorted(os.listdir(folder))
            ends[victim, end] += 1
            if end != "over before" and set(left) - {"printed", "t.swt"}:
                ends[victim, f"left behind: {left}"] += 1
    for (victim, end), count in sorted(ends.items()):
        print(f"{victim}: {end}: {count}")
    print(f"{sum(ends.values())} runs, seed {arguments.seed}: the program was right in each that it lived through")


main()

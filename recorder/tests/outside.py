#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the recorder from the log to the stream, outside Valgrind, with AddressSanitizer and
UndefinedBehaviorSanitizer: outside.py [SEEDS]

Needs cc and Valgrind's headers. Programs are made up from seeds (outside.c). Their references have
to come out as they were made, and reduced by each window as the format says.
"""

import os
import struct
import subprocess
import sys
import tempfile

import pgtr
from pgtr import Reference

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ["totals", "log", "window", "stream", "marks", "small", "places", "calls", "contexts", "sites"]
WINDOWS = [1, 2, 5, 16, 100, 256]
STEPS = 300


def build(program):
    include = os.environ.get("VALGRIND_INCLUDE", "/usr/include/valgrind")
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter",
         "-Wno-sign-compare", "-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1",
         "-DVGPV_amd64_linux_vanilla=1", "-fno-builtin", "-fno-strict-aliasing", "-fno-omit-frame-pointer",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I" + include, "-o", program,
         os.path.join(HERE, "outside.c"), *(os.path.join(HERE, "..", name + ".c") for name in SOURCES)],
        check=True)


def run(program, folder, seed, window):
    """The trace, and the program's references."""
    every = os.path.join(folder, "every")
    # What lives until the end of the recording is not a leak.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1"}
    done = subprocess.run([program, str(seed), str(window), str(STEPS), every], env=environment,
                          stdout=subprocess.PIPE, check=True)
    with open(every, "rb") as file:
        words = [word for word, in struct.iter_unpack("<Q", file.read())]
    return pgtr.Trace(done.stdout), [Reference(word >> 1, bool(word & 1)) for word in words]


def runs_of(records):
    """References joined to runs. A control record ends a run."""
    runs = []
    for record in records:
        last = runs[-1] if runs else None
        if isinstance(record, Reference) and isinstance(last, Reference) and last.page == record.page:
            runs[-1] = Reference(record.page, last.write or record.write)
        else:
            runs.append(record)
    return runs


def check(program, folder, seed):
    each, made = run(program, folder, seed, 0)
    assert each.references == made, "without a window, references are other than they were made"
    runs = runs_of(each.records[:-1])
    for window in WINDOWS:
        trace, _ = run(program, folder, seed, window)
        assert trace.end._replace(records=0) == each.end._replace(records=0), f"window {window}: totals"
        assert trace.end.records == len(trace.references), f"window {window}: count of records"
        assert trace.records[:-1] == pgtr.reduce(runs, window), f"window {window}: records"
    return len(made)


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "outside")
        build(program)
        references = 0
        for seed in range(seeds):
            try:
                references += check(program, folder, seed)
            except (AssertionError, subprocess.CalledProcessError) as error:
                sys.exit(f"outside.py: seed {seed}: {error}")
    print(f"{seeds} programs, {references:,} references, windows of 0 and {WINDOWS}: as they were made")

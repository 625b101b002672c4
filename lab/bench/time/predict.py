#!/usr/bin/env python3
"""Predicts how long programs take in less memory, runs them so, and prints both.

`record` makes the programs' input in FOLDER, and records each once with the Valgrind recorder.
`run` measures the disk and times each program with all memory. Then it runs it in three memory
sizes under two policies of `sweephand run` and under `sweephand run --kernel`, by turns. What it
measures is kept in FOLDER, by disk. `table` predicts the same from the traces, and prints both.
`slowdown` asks `advise --slowdown 1.2` how much memory is enough, and runs the programs in it.
`ask` asks `advise`, after `run` on the same disk, whether zram before the disk pays in the same
three sizes, and `zram` runs the programs so and without, in the same memory in total, and prints
both. Where `advise` says no, a quarter goes to zram, and there is no prediction.

SWEEPHAND is the command. Pages go to FOLDER, or to the disk that --disk names
(lab/bench/pager/disks.py). Needs root, Valgrind, Debian's sort, sqlite3, python3 with numpy, perl,
gcc, mawk, xz, zstd and git."""

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "pager"))
import disks

SHARES = (0.65, 0.8, 0.9)
POLICIES = ("clock", "clock-pro-strict")
KERNEL = "kernel"
# Of the budget: what the kernel has for the process, as the pager estimates it (docs/pager.md), and
# a page of page tables for 512 pages, twice.
KERNELS_PAGES = 200
FACTOR = 1.2
PAGE = 4096
MIB_PAGES = (1 << 20) // PAGE
# The same order in hashes at every run, no threads that were not asked for.
COUNTS = ("pages_read", "pages_written", "zero_fill_faults", "refaults", "refaults_in_flight", "unasked_pages", "unused_pages")
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Haswell"}

STENCIL = """
import numpy
side = 800
old = (numpy.arange(side * side, dtype=numpy.float64) * 7919 % 1009).reshape(side, side)
new, source, drag, total = old.copy(), old / 1009, 1 - old / 99999, numpy.zeros_like(old)
work = numpy.zeros_like(old)
inner = (slice(1, -1), slice(1, -1))
for _ in range(12):
    numpy.add(old[:-2, 1:-1], old[2:, 1:-1], out=work[inner])
    work[inner] += old[1:-1, :-2]
    numpy.multiply(work[inner], 0.25, out=new[inner])
    new *= drag
    new += source
    total += new
    old, new = new, old
print(hex(int(numpy.bitwise_xor.reduce(old.view(numpy.uint64), axis=None))))
"""
COUNT = ("BEGIN { x = 1; for (i = 0; i < 200000; i++) { x = (x * 16807) % 2147483647; a[\"k\" x] = i } "
         "for (i = 0; i < 60000; i++) { x = (x * 16807) % 2147483647; if ((\"k\" x) in a) hits++ } "
         "x = 1; for (i = 0; i < 60000; i++) { x = (x * 16807) % 2147483647; s = (s * 7 + a[\"k\" x]) % 1000003 } print s, hits + 0 }")
NUMBERS = "python3 -c \"[print(n * 2654435761 % 1000003) for n in range(600000)]\" > numbers.txt"
MAKE = {
    "sort": NUMBERS,
    "xz": NUMBERS,
    "zstd": NUMBERS,
    "gcc": "python3 -c \"[print(f'int f{n}(int a,int*b){{for(int i=0;i<a;i++)b[i]+=b[a-i]*{n}+i%({n}+1);return b[a%7];}}')"
    " for n in range(600)]\" > many.c",
    "git": f"{NUMBERS}; rm -rf versions; git init -q versions; cd versions; for i in 1 2 3 4 5 6; do "
    "tail -n +${i}000 ../numbers.txt | head -c 2000000 | sed s/7$i/x/ > a; git add a; "
    "git -c user.name=n -c user.email=e commit -q -m $i --date 2020-01-01T00:00:00; done",
}
PROGRAMS = {
    "sort": ["/usr/bin/sort", "-n", "-S", "64M", "--parallel=1", "numbers.txt"],
    "sqlite3": ["/usr/bin/sqlite3", ":memory:", "create table t(a,b); with recursive c(n) as (select 1 union all select n+1 from c "
                "where n<400000) insert into t select n*7919%150001, hex(n) from c; create index i on t(a); "
                "select sum(length(x.b)) from t x join t y on x.a=y.a+1;"],
    "python3": ["/usr/bin/python3", "-c", "import random; random.seed(7); t={str(n):[n]*8 for n in range(120000)}; k=list(t)\n"
                "print(sum(t[random.choice(k)][0] for _ in range(60000)))"],
    "perl": ["/usr/bin/perl", "-e", "my %h; $h{$_*7919%200003}=\"v$_\" for 1..150000; my $s=0; "
             "for (sort {$a<=>$b} keys %h) {$s+=length $h{$_}} print $s"],
    "gcc": ["cc1", "-quiet", "-O1", "many.c", "-o", "/dev/null"],
    "mawk": ["/usr/bin/mawk", COUNT],
    "xz": ["/usr/bin/xz", "-4", "-T1", "-k", "-c", "numbers.txt"],
    "zstd": ["/usr/bin/zstd", "-12", "--long=24", "--single-thread", "-q", "-c", "numbers.txt"],
    "numpy": [sys.executable, "-c", STENCIL],
    "git": ["/usr/bin/git", "-C", "versions", "pack-objects", "--all", "--stdout", "-q", "--threads=1"],
}
COLUMNS = ["disk", "program", "paged_by", "policy", "memory_mib", "native_seconds", "predicted_seconds", "measured_seconds",
           "error_percent", "predicted_pages_read", "pages_read", "predicted_pages_written", "pages_written", "least_seconds",
           "most_seconds"]
SLOWDOWN_COLUMNS = ["disk", "program", "paged_by", "policy", "memory_mib", "share_of_pages_percent", "native_seconds",
                    "predicted_seconds", "measured_seconds", "slowdown", "least_seconds", "most_seconds"]

ZRAM_COLUMNS = ["disk", "program", "memory_mib", "advised_pool_mib", "disksize_mib", "peak_mib", "native_seconds",
                "predicted_kernel_seconds", "predicted_zram_seconds", "predicted_times", "kernel_seconds", "zram_seconds",
                "times", "zram_error_percent"]


def command_of(name):
    command = list(PROGRAMS[name])
    if name == "gcc":
        asked = ["gcc", "-print-prog-name=cc1"]
        command[0] = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return command


def frames(memory_pages, policy):
    """What the policy has of the budget: --memory and the kernel's share (memory.rs and division.rs
    of crates/pager/interface)."""
    budget = memory_pages + 1024 + memory_pages // 64
    kernels = KERNELS_PAGES + 2 * budget // 512
    if policy == KERNEL:
        return budget - kernels
    batch = min(max(memory_pages // 512, 8), 128)
    return budget - kernels - 9 * batch - 32 - budget * 40 // PAGE


def memory_with(frames_wanted, policy):
    """The least --memory, in pages, with which the policy has as many frames."""
    return next(memory for memory in itertools.count(1024) if frames(memory, policy) >= frames_wanted)


def launch(args, swap, policy, memory_bytes, *options):
    """The words before a program that run it in this much memory. Its counts go to stats.json."""
    how = [*(["--kernel"] if policy == KERNEL else ["--policy", policy]), *options]
    return [args.sweephand, "run", *how, "--memory", f"{memory_bytes // PAGE}p", "--swap", str(swap), "--stats",
            str(args.folder / "stats.json"), "--"]


def measured(args, command):
    """Runs a program, and returns what --stats says of it; None if it was ended."""
    try:
        subprocess.run(command, cwd=args.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=ENVIRONMENT, timeout=args.patience)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        # The kernel ends a program if all that it could take is just being written.
        print(f"{' '.join(command[1:7])}: {error}"[:300], file=sys.stderr)
        return None
    return json.loads((args.folder / "stats.json").read_text())


def all_measured(args, command):
    """The same in each round; nothing if one was ended."""
    runs = []
    for _ in range(args.rounds):
        if not (run := measured(args, command)):
            return []
        runs.append(run)
    return runs


def median_row(runs):
    """What is kept of some runs."""
    walls = [run["wall_ns"] / 1e9 for run in runs]
    middle = {count: statistics.median_low(run[count] or 0 for run in runs) for count in COUNTS}
    return {"seconds": statistics.median(walls), "least": min(walls), "most": max(walls), **middle}


def record(args):
    for name in args.programs:
        if name in MAKE:
            subprocess.run(MAKE[name], shell=True, cwd=args.folder, check=True)
        trace = str(args.folder / f"{name}.swt")
        subprocess.run([args.sweephand, "record", "-o", trace, "--", *command_of(name)], cwd=args.folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)


def pages_of(args, name):
    described = subprocess.run([args.sweephand, "info", args.folder / f"{name}.swt", "--format", "json"], check=True,
                               capture_output=True)
    return json.loads(described.stdout)["totals"]["distinct_pages"]


def launch_native(args, swap, policy, pages):
    """The same command with all memory."""
    return launch(args, swap, policy, (4 * pages + 16384) * PAGE)


def device_of(args):
    """What the disk was measured to be."""
    return args.folder / f"{args.disk}.toml"


def measure_disk(args, swap):
    subprocess.run([args.sweephand, "devices", str(swap), "-o", device_of(args)], check=True, stdout=subprocess.DEVNULL)


def run(args):
    with disks.disk(args.disk, str(args.folder)) as swap:
        measure_disk(args, swap)
        for name in args.programs:
            run_program(args, swap, name)


def run_program(args, swap, name):
    pages = pages_of(args, name)
    # With all memory by turns with the others: the machine is not as fast at any time.
    launches = {(policy, None): launch_native(args, swap, policy, pages) for policy in (POLICIES[0], KERNEL)}
    for share in SHARES:
        memory = max(int(share * pages), 1024)
        launches |= {(policy, memory): launch(args, swap, policy, memory * PAGE) for policy in (*POLICIES, KERNEL)}
    runs = {cell: [] for cell in launches}
    for _ in range(args.rounds):
        for cell, words in launches.items():
            # What was ended once would be so again.
            if None not in runs[cell]:
                runs[cell].append(measured(args, [*words, *command_of(name)]))
    rows = {cell: median_row(found) for cell, runs_of in runs.items() if (found := [one for one in runs_of if one])}
    kept = {"pages": pages, "native": {policy: row["seconds"] for (policy, memory), row in rows.items() if memory is None},
            "cells": [{"policy": policy, "memory_pages": memory, **row} for (policy, memory), row in rows.items() if memory]}
    (args.folder / f"{name}-{args.disk}.json").write_text(json.dumps(kept))


def table(args):
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    out.writeheader()
    for name in args.programs:
        kept = args.folder / f"{name}-{args.disk}.json"
        if kept.exists():
            table_of(args, out, name, json.loads(kept.read_text()))
            sys.stdout.flush()


def table_of(args, out, name, kept):
    """A row for each memory and policy that a program was run with."""
    for cell in kept["cells"]:
        policy, memory = cell["policy"], cell["memory_pages"]
        paged_by = "kernel" if policy == KERNEL else "run"
        native = kept["native"][KERNEL if policy == KERNEL else POLICIES[0]]
        # CLOCK stands in for the kernel's replacement.
        simulated = "clock" if policy == KERNEL else policy
        command = [args.sweephand, "simulate", args.folder / f"{name}.swt", "-p", simulated, "-m", f"{frames(memory, policy)}p",
                   "--device", device_of(args), "--native", str(native), "--paged-by", paged_by, "--format", "json"]
        row = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"][0]
        predicted = row["predicted_seconds"]
        out.writerow({
            "disk": args.disk, "program": name, "paged_by": paged_by, "policy": simulated,
            "memory_mib": f"{memory * PAGE / 2**20:.1f}",
            "native_seconds": f"{native:.3f}", "predicted_seconds": f"{predicted:.3f}",
            "measured_seconds": f"{cell['seconds']:.3f}", "error_percent": f"{100 * (predicted / cell['seconds'] - 1):.1f}",
            "predicted_pages_read": row["predicted_pages_read"], "pages_read": cell["pages_read"],
            "predicted_pages_written": row["predicted_pages_written"], "pages_written": cell["pages_written"],
            "least_seconds": f"{cell['least']:.3f}", "most_seconds": f"{cell['most']:.3f}",
        })


def slowdown(args):
    out = csv.DictWriter(sys.stdout, SLOWDOWN_COLUMNS, lineterminator="\n")
    out.writeheader()
    with disks.disk(args.disk, str(args.folder)) as swap:
        measure_disk(args, swap)
        for name in args.programs:
            for paged_by in ("run", KERNEL):
                if row := slowdown_of(args, swap, name, paged_by):
                    out.writerow(row)
                    sys.stdout.flush()


def slowdown_of(args, swap, name, paged_by):
    """What came of the memory that was advised for a program; None if no run came to its end."""
    pages = pages_of(args, name)
    with_all = [*launch_native(args, swap, KERNEL if paged_by == KERNEL else POLICIES[0], pages), *command_of(name)]
    seconds = median_row([measured(args, with_all) for _ in range(args.rounds)])["seconds"]
    command = [args.sweephand, "advise", args.folder / f"{name}.swt", "--slowdown", str(FACTOR), "--device", device_of(args),
               "--native", str(seconds), "-p", ",".join(POLICIES), "--format", "json", "--lines", "0"]
    advised = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["time"][paged_by]
    policy = KERNEL if paged_by == KERNEL else advised["policy"]
    memory = advised["limit_bytes"]
    if paged_by == KERNEL:
        # `run` adds the kernel's share (memory.rs); a limit of systemd's has it already.
        memory = (memory - (4 << 20)) * 64 // 65
    found = [measured(args, [*launch(args, swap, policy, memory), *command_of(name)]) for _ in range(args.rounds)]
    found = [one for one in found if one]
    if not found:
        return None
    row = median_row(found)
    return {
        "disk": args.disk, "program": name, "paged_by": paged_by, "policy": advised["policy"],
        "memory_mib": f"{advised['limit_bytes'] / 2**20:.0f}",
        "share_of_pages_percent": f"{100 * advised['memory_pages'] / pages:.0f}",
        "native_seconds": f"{seconds:.3f}", "predicted_seconds": f"{advised['predicted_seconds']:.3f}",
        "measured_seconds": f"{row['seconds']:.3f}", "slowdown": f"{row['seconds'] / seconds:.2f}",
        "least_seconds": f"{row['least']:.3f}", "most_seconds": f"{row['most']:.3f}",
    }


def ask(args):
    for name in args.programs:
        kept = args.folder / f"{name}-{args.disk}.json"
        native = json.loads(kept.read_text())["native"].get(KERNEL) if kept.exists() else None
        if not native:
            print(f"{name}: {kept} has no time with all memory", file=sys.stderr)
            continue
        memories = [memory_with(int(share * pages_of(args, name)), KERNEL) for share in SHARES]
        command = [args.sweephand, "advise", args.folder / f"{name}.swt", "--device", device_of(args), "--native", str(native),
                   "-p", "clock", "--memory", ",".join(f"{frames(memory, KERNEL)}p" for memory in memories),
                   "--format", "json", "--lines", "0"]
        advised = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["compression"]["memory"]
        advised = {one["memory_pages"]: one for one in advised}
        # All pages that a program writes may fit.
        kept = {"native": native, "memories": [[memory, advised[frames(memory, KERNEL)]] for memory in memories
                                               if frames(memory, KERNEL) in advised]}
        advice_for(args, name).write_text(json.dumps(kept))


def advice_for(args, name):
    return args.folder / f"{name}-{args.disk}-zram.json"


def zram_table(args):
    out = csv.DictWriter(sys.stdout, ZRAM_COLUMNS, lineterminator="\n")
    out.writeheader()
    with disks.disk(args.disk, str(args.folder)) as swap:
        for name in args.programs:
            if not advice_for(args, name).exists():
                continue
            kept = json.loads(advice_for(args, name).read_text())
            for memory, advised in kept["memories"]:
                out.writerow(zram_row(args, swap, name, memory, advised) | {"native_seconds": f"{kept['native']:.3f}"})
                sys.stdout.flush()


def zram_row(args, swap, name, memory, advised):
    """What was advised about zram for a program in a memory size, and what came."""
    pool = advised["zram"]
    # The device may hold twice what --compress says, and at most three quarters of the memory.
    compress_pages = min(math.ceil(pool["disksize_pages"] / 2), memory * 3 // 4) if pool else memory // 4
    disk_pages = min(2 * compress_pages, memory * 3 // 4)
    kernel, compressed = (
        all_measured(args, [*launch(args, swap, KERNEL, memory * PAGE, *options), *command_of(name)])
        for options in ([], ["--compress", f"{compress_pages}p"]))
    row = {
        "disk": args.disk, "program": name, "memory_mib": f"{memory / MIB_PAGES:.1f}",
        "advised_pool_mib": f"{pool['pool_pages'] / MIB_PAGES:.1f}" if pool else 0,
        "disksize_mib": f"{disk_pages / MIB_PAGES:.1f}", "predicted_kernel_seconds": f"{advised['seconds']:.3f}",
    }
    if pool:
        row |= {"predicted_zram_seconds": f"{pool['seconds']:.3f}",
                "predicted_times": f"{advised['seconds'] / pool['seconds']:.2f}"}
    seconds = [median_row(runs)["seconds"] if runs else None for runs in (kernel, compressed)]
    row |= {column: f"{value:.3f}" for column, value in zip(("kernel_seconds", "zram_seconds"), seconds) if value}
    if compressed:
        row["peak_mib"] = f"{max(run['peak_pool_bytes'] for run in compressed) / (1 << 20):.1f}"
        if pool:
            row["zram_error_percent"] = f"{100 * (pool['seconds'] / seconds[1] - 1):.1f}"
    if all(seconds):
        row["times"] = f"{seconds[0] / seconds[1]:.2f}"
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = {"record": record, "run": run, "table": table, "slowdown": slowdown, "ask": ask, "zram": zram_table}
    parser.add_argument("step", choices=steps)
    parser.add_argument("sweephand", metavar="SWEEPHAND")
    parser.add_argument("folder", metavar="FOLDER", type=lambda folder: pathlib.Path(folder).resolve())
    parser.add_argument("programs", metavar="PROGRAM", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--disk", choices=disks.DISKS, default="fast", help="fast: that of FOLDER")
    parser.add_argument("--rounds", type=int, default=3, help="times that everything is run")
    parser.add_argument("--patience", type=float, default=12, help="seconds for a run")
    args = parser.parse_intermixed_args()
    if unknown := set(args.programs) - set(PROGRAMS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(PROGRAMS)}")
    # Programs run in the folder.
    args.sweephand = str(pathlib.Path(shutil.which(args.sweephand) or args.sweephand).resolve())
    steps[args.step](args)


if __name__ == "__main__":
    main()

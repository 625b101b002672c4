#!/usr/bin/env python3
"""Throughput and memory of Sweephand's policies, beside libCacheSim. See README.md for the
command."""

import argparse
import csv
import datetime
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PEER = HERE / "peer.py"

SEED = 1
FRAMES = 100_000
# Pages of the trace that memory is measured against, and of the memory it is run in: next to
# nothing.
FEW_PAGES = 1_000
# Seconds between two looks at a process's memory.
LOOK_S = 0.005

POLICIES = ["fifo", "clock", "lru", "car", "clock-pro-strict", "lirs", "opt"]
# Million references a CPU second, trace decoding included.
SPEED_BARS = {"fifo": 100.0, "clock": 120.0, "lru": 80.0, "clock-pro-strict": 55.0, "lirs": 35.0, "opt": 25.0}
# Bytes a distinct page, beside the trace.
MEMORY_BARS = {"clock": 16.0, "clock-pro-strict": 48.0}

# libCacheSim's class for each policy, and whether it is the same policy: then every fault has to
# agree.
PEERS = {
    "fifo": ("FIFO", True),
    "clock": ("Clock", True),
    "lru": ("LRU", True),
    "clock-pro-strict": ("ClockPro", False),
    "lirs": ("LIRS", False),
    "opt": ("Belady", True),
}

COLUMNS = [
    "date", "machine", "cores", "trace", "policy", "implementation", "version", "references", "faults",
    "rounds",
    "median_mrefs_per_cpu_s", "min_mrefs_per_cpu_s", "max_mrefs_per_cpu_s", "median_wall_s", "peak_rss_kib",
    "bytes_per_distinct_page",
]  # fmt: skip


class Failure(Exception):
    """What the benchmark cannot go on after, in a line for the caller."""


@dataclass
class Measured:
    """One process, from start to end."""

    output: str
    cpu_s: float
    wall_s: float
    peak_rss_kib: int


@dataclass
class Series:
    """All runs of one policy in one implementation."""

    policy: str
    implementation: str
    references: int = 0
    faults: int = 0
    rates: list = field(default_factory=list)
    walls: list = field(default_factory=list)
    peaks_kib: list = field(default_factory=list)
    bytes_per_page: float | None = None

    def add(self, run, cpu_s, references, faults):
        if self.rates and (references, faults) != (self.references, self.faults):
            raise Failure(f"{self.implementation} {self.policy}: {faults} faults, before that {self.faults}")
        self.references, self.faults = references, faults
        self.rates.append(references / cpu_s / 1e6)
        self.walls.append(run.wall_s)
        self.peaks_kib.append(run.peak_rss_kib)


def measure(command):
    """Runs a command. CPU time is the kernel's account of that process (user and system).

    Memory is the high-water mark in /proc, looked at while the process runs: the rusage of a child
    begins with what its parent held when it forked, which is more than CLOCK needs.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.perf_counter()
        environment = os.environ | {"RAYON_NUM_THREADS": "1"}
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment)
        over, peak = threading.Event(), [0]

        def watch():
            while True:
                peak[0] = max(peak[0], high_water_kib(child.pid))
                if over.wait(LOOK_S):
                    break

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
            wall_s = time.perf_counter() - begun
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            over.set()
            watcher.join()
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            told = err.read().decode(errors="replace").strip() or f"exit status {child.returncode}"
            raise Failure(f"{' '.join(map(str, command))}: {told}")
        return Measured(out.read().decode(), usage.ru_utime + usage.ru_stime, wall_s, peak[0])


def high_water_kib(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended


def generate(sweephand, pattern, references, path):
    say(f"making {path.name}: {references:,} references")
    size = ["--references", str(references), "--seed", str(SEED)]
    measure([sweephand, "generate", *pattern, *size, "-o", path])


def simulation(sweephand, trace, policies, frames):
    size = ["--memory", f"{frames}p", "--format", "csv"]
    return [sweephand, "simulate", trace, "--policy", ",".join(policies), *size]


def simulate(sweephand, trace, policies, frames):
    """Runs a simulation; the process and its rows by policy."""
    run = measure(simulation(sweephand, trace, policies, frames))
    return run, {row["policy"]: row for row in csv.DictReader(io.StringIO(run.output))}


def run_sweephand(sweephand, trace, series):
    run, rows = simulate(sweephand, trace, [series.policy], FRAMES)
    row = rows[series.policy]
    series.add(run, run.cpu_s, int(row["references"]), int(row["faults"]))
    return int(row["distinct_pages"])


def run_peer(binary, hash_power, series):
    name, _ = PEERS[series.policy]
    run = measure([sys.executable, PEER, "run", name, binary, str(FRAMES), str(hash_power)])
    result = json.loads(run.output)
    series.add(run, result["cpu_s"], result["references"], result["faults"])


def peer_version():
    """libCacheSim's version, or None if it is not there."""
    try:
        return json.loads(measure([sys.executable, PEER, "version"]).output)["libcachesim"]
    except Failure as failure:
        say(f"without libCacheSim (pip install -r requirements.txt): {str(failure).splitlines()[-1]}")
        return None


def compare_faults(ours, theirs):
    """Prints faults on the string both have run; the policies that should agree and do not."""
    wrong = []
    print(f"\n{'faults':<12}{'Sweephand':>14}{'libCacheSim':>14}")
    for policy, series in theirs.items():
        _, same = PEERS[policy]
        mine = int(ours[policy]["faults"])
        agree = mine == series.faults
        if same and not agree:
            wrong.append(policy)
        note = "equal" if agree else "DISAGREE: not the same work" if same else "another policy: see README.md"
        print(f"{policy:<12}{mine:>14,}{series.faults:>14,}  {note}")
    return wrong


def print_table(rows):
    print("\nmillion references a CPU second, trace decoding included; peak memory; bytes a distinct page")
    rates = f"{'median':>9}{'min':>9}{'max':>9}{'bar':>7}"
    print(f"{'policy':<12}{'':<14}{rates}{'peak MiB':>10}{'B/page':>9}{'bar':>6}")
    for series in rows:
        ours = series.implementation == "sweephand"
        speed_bar = SPEED_BARS.get(series.policy) if ours else None
        memory_bar = MEMORY_BARS.get(series.policy) if ours else None
        print(
            f"{series.policy:<12}{series.implementation:<14}{statistics.median(series.rates):>9.2f}"
            f"{min(series.rates):>9.2f}{max(series.rates):>9.2f}{number(speed_bar, 0):>7}"
            f"{statistics.median(series.peaks_kib) / 1024:>10.1f}"
            f"{number(series.bytes_per_page, 2):>9}{number(memory_bar, 0):>6}"
        )


def number(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def missed_bars(rows):
    missed = []
    for series in rows:
        if series.implementation != "sweephand":
            continue
        rate, bar = statistics.median(series.rates), SPEED_BARS.get(series.policy)
        if bar is not None and rate < bar:
            missed.append(f"{series.policy}: {rate:.1f} million references a CPU second, bar {bar:.0f}")
        size, bar = series.bytes_per_page, MEMORY_BARS.get(series.policy)
        if bar is not None and size is not None and size > bar:
            missed.append(f"{series.policy}: {size:.1f} bytes a distinct page, bar {bar:.0f}")
    return missed


def write_csv(file, rows, versions, trace_name):
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for series in rows:
        writer.writerow([
            datetime.date.today().isoformat(), processor(), os.cpu_count(), trace_name, series.policy,
            series.implementation, versions[series.implementation], series.references, series.faults,
            len(series.rates), f"{statistics.median(series.rates):.3f}", f"{min(series.rates):.3f}",
            f"{max(series.rates):.3f}", f"{statistics.median(series.walls):.3f}",
            round(statistics.median(series.peaks_kib)), number(series.bytes_per_page, 2),
        ])  # fmt: skip


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        return next(models, os.uname().machine)


def content_checksum(trace):
    """The trace's identity, from its header (`crates/trace/src/format.rs`)."""
    with open(trace, "rb") as file:
        header = file.read(208)
    if header[:8] != b"\x89SWT\r\n\x1a\n":
        raise Failure(f"{trace}: not a trace of Sweephand's own format")
    return f"{int.from_bytes(header[192:200], 'little'):016x}"


def profile(sweephand, trace, policy, folder):
    """Prints where a run's CPU time goes, by the symbols of its samples."""
    if shutil.which("perf") is None:
        raise Failure("--profile needs perf (Debian and Ubuntu: linux-perf or linux-tools)")
    data = folder / "perf.data"
    command = simulation(sweephand, trace, [policy], FRAMES)
    measure(["perf", "record", "--quiet", "-F", "999", "-e", "cpu-clock", "-o", data, "--", *command])
    report = ["perf", "report", "--stdio", "--no-children", "-g", "none", "-i", data]
    report += ["-F", "overhead,dso,symbol", "-t", "\t"]
    shares, symbols = {}, []
    for line in measure(report).output.splitlines():
        columns = [column.strip() for column in line.split("\t")]
        if line.startswith("#") or len(columns) != 3:
            continue
        share, (dso, symbol) = float(columns[0].rstrip("%")), columns[1:]
        symbol = symbol.split("] ", 1)[-1]
        part = part_of(dso, symbol)
        shares[part] = shares.get(part, 0.0) + share
        symbols.append((share, part, symbol))
    if not shares:
        raise Failure("perf took no samples (is kernel.perf_event_paranoid above 2?)")
    print(f"CPU time of {policy}, sampled at 999 Hz\n")
    for part, share in sorted(shares.items(), key=lambda item: -item[1]):
        print(f"{share:>6.1f} %  {part}")
    print()
    for share, part, symbol in sorted(symbols, reverse=True)[:15]:
        print(f"{share:>6.1f} %  {part:<12}  {symbol}")


def part_of(dso, symbol):
    if dso.startswith("[k") or "[kernel" in dso:
        return "kernel"
    if "future::" in symbol:
        return "next uses"  # OPT's pass over the whole trace
    # zstd's Huffman loops are assembly without symbols.
    if symbol.startswith(("ZSTD_", "HUF_", "FSE_", "0x")) or "sweephand_trace" in symbol or "xxh" in symbol:
        return "decoding"
    if "sweephand_sim" in symbol or "sweephand_policy" in symbol:
        return "simulation"
    return "other"


def benchmark(options, folder, results):
    sweephand = options.sweephand
    rounds, references = options.rounds, options.references
    versions = {"sweephand": measure([sweephand, "--version"]).output.split()[-1]}
    trace = trace_of(options, folder)
    version = None if options.no_peer else peer_version()
    binary, theirs, on_prefix = folder / "prefix.oracleGeneral.bin", {}, {}
    if version is not None:
        versions["libcachesim"] = version
        text = folder / "prefix.txt"
        say("converting the string for libCacheSim")
        count = min(options.peer_references, references)
        measure([sys.executable, PEER, "convert", trace, str(count), binary, text])
        theirs = {p: Series(p, "libcachesim") for p in options.policies if p in PEERS}
        if theirs:
            _, on_prefix = simulate(sweephand, text, list(theirs), FRAMES)
        text.unlink()
    ours = {policy: Series(policy, "sweephand") for policy in options.policies}
    olds, old_trace = {}, folder / "before.swt"
    if options.before:
        # Its own file of the same string: formats may differ.
        versions["before"] = measure([options.before, "--version"]).output.split()[-1]
        generate(options.before, ["mixed"], references, old_trace)
        olds = {policy: Series(policy, "before") for policy in options.policies}

    distinct_pages = 0
    for turn in range(rounds):
        for policy in options.policies:
            say(f"round {turn + 1} of {rounds}: {policy}")
            sides = ["ours", "before", "theirs"]
            for side in sides if turn % 2 == 0 else reversed(sides):
                if side == "ours":
                    distinct_pages = run_sweephand(sweephand, trace, ours[policy])
                elif side == "before" and policy in olds:
                    run_sweephand(options.before, old_trace, olds[policy])
                elif side == "theirs" and policy in theirs:
                    run_peer(binary, options.peer_hash_power, theirs[policy])

    few = folder / "few-pages.swt"
    generate(sweephand, ["uniform", "--pages", str(FEW_PAGES)], references, few)
    for series in ours.values():
        if series.policy == "opt":
            continue  # its memory goes with the references, not the pages
        say(f"memory beside the trace: {series.policy}")
        bases = [simulate(sweephand, few, [series.policy], FEW_PAGES)[0].peak_rss_kib for _ in range(3)]
        more_kib = statistics.median(series.peaks_kib) - statistics.median(bases)
        series.bytes_per_page = more_kib * 1024 / distinct_pages

    rows = [side[policy] for policy in options.policies for side in (ours, olds, theirs) if policy in side]
    made = options.trace.name if options.trace else f"mixed seed {SEED}"
    trace_name = f"{made}: {distinct_pages} pages, content {content_checksum(trace)}"
    write_csv(results, rows, versions, trace_name)
    programs = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(f"{processor()}, {os.cpu_count()} cores; {programs}\n{trace_name}")
    print_table(rows)
    wrong = compare_faults(on_prefix, theirs) if theirs else []
    wrong += [policy for policy, old in olds.items() if old.faults != ours[policy].faults]
    findings = [f"{policy}: faults disagree" for policy in wrong] + missed_bars(rows)
    if findings:
        print("\nmissed:\n" + "\n".join(findings))
    return 1 if findings else 0


def trace_of(options, folder):
    if options.trace:
        return options.trace
    trace = folder / "mixed.swt"
    generate(options.sweephand, ["mixed"], options.references, trace)
    return trace


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--sweephand", type=Path, metavar="PATH", help="the binary [default: build target/release/sweephand]")
    add("--rounds", type=int, default=5, metavar="N", help="runs of each policy [default: 5]")
    add("--references", type=int, default=50_000_000, metavar="N", help="in the trace [default: 50 million]")
    add("--trace", type=Path, metavar="FILE", help="a trace made before, instead of making one")
    add("--policies", type=lambda text: text.split(","), default=POLICIES, metavar="LIST", help="[default: all]")
    add("--before", type=Path, metavar="PATH", help="another build, measured by turns with the first")
    add("--no-peer", action="store_true", help="without libCacheSim")
    add("--peer-references", type=int, default=10_000_000, metavar="N",
        help="libCacheSim runs the first N of the trace [default: 10 million]")  # fmt: skip
    add("--peer-hash-power", type=int, default=(FRAMES - 1).bit_length(), metavar="N",
        help="libCacheSim's hash table has 2^N buckets [default: 17, one a frame]")  # fmt: skip
    add("--profile", metavar="POLICY", help="only show where this policy's CPU time goes (needs perf)")
    add("--work", type=Path, metavar="DIR", help="where temporary files go, 0.5 GB [default: the system's place]")
    add("-o", "--output", type=Path, metavar="FILE", help="CSV to write [default: results/DATE.csv]")
    options = parser.parse_args()
    for policy in options.policies + [options.profile or "lru"]:
        if policy not in POLICIES:
            parser.error(f"policy '{policy}': choose from {', '.join(POLICIES)}")
    if options.trace and options.before:
        parser.error("--before makes the trace of each build itself, so that --trace cannot be given")
    if min(options.rounds, options.references, options.peer_references) < 1:
        parser.error("--rounds, --references and --peer-references are at least 1")

    if options.sweephand is None:
        subprocess.run(["cargo", "build", "--release", "--package", "sweephand"], cwd=ROOT, check=True)
        options.sweephand = ROOT / "target" / "release" / "sweephand"
    with tempfile.TemporaryDirectory(prefix="sweephand-throughput-", dir=options.work) as folder:
        folder = Path(folder)
        if options.profile:
            profile(options.sweephand, trace_of(options, folder), options.profile, folder)
            return 0
        output = options.output or HERE / "results" / f"{datetime.date.today().isoformat()}.csv"
        output.parent.mkdir(parents=True, exist_ok=True)
        # Opened before the long run, in place only after it.
        part = output.with_name(output.name + ".part")
        with open(part, "w", encoding="utf-8", newline="") as results:
            try:
                status = benchmark(options, folder, results)
            except BaseException:
                part.unlink()
                raise
        part.replace(output)
        return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, OSError, subprocess.CalledProcessError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        sys.exit(2)

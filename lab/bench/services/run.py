#!/usr/bin/env python3
"""Nine services in less and less memory: how much do they need, what does `sweephand` say, and what
does it cost to ask? See README.md."""

import argparse
import contextlib
import csv
import datetime
import itertools
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import cgroups
import damon
import services
import tables
from cgroups import MIB
from tables import SLOWDOWN

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pager"))
import disks
import programs

HERE = pathlib.Path(__file__).resolve().parent
STEPS = ("native", "predicted", "measured", "cost", "usage", "long")
USUAL_STEPS = STEPS[:-1]
LIMITS = 10
PAGE_MIB = 4096 / MIB
SWAP_MIB = 2048
FIELDS = [
    *("date", "machine", "kernel", "sweephand", "disk", "load", "service", "unit", "step", "round", "limit_mib"),
    *(
        "peak_mib",
        "percentile_95_mib",
        "rate",
        "rate_beside",
        "slowdown",
        "per_cpu",
        "per_cpu_ratio",
        "wrong",
        "faults",
        "refaults",
        "stalled",
        "seconds",
        "watched",
        "by",
    ),
    *(
        "epochs",
        "at_least_mib",
        "at_most_mib",
        "slowdown_mib",
        "slowdown_pages_mib",
        "resident_mib",
        "used_mib",
        "unknown_mib",
    ),
    *("anon_mib", "shmem_mib", "mapped_mib", "elsewhere_mib", "stat_anon_mib", "stat_shmem_mib"),
    *("stat_mapped_mib", "stat_file_mib", "stat_kernel_mib", "watcher_cpu_s", "watcher_peak_mib", "said"),
]


class Measuring:
    """The measurements of one service."""

    def __init__(self, args, service, cgroup, writer):
        self.args, self.service, self.cgroup, self.writer = args, service, cgroup, writer
        self.native, self.peak, self.percentile_95 = 0, 0, 0
        self.per_cpu, self.taken, self.paging = 0, 0, {}

    def keep(self, step, **row):
        row = {"service": self.service.name, "unit": self.service.unit, "step": step} | row
        row = {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
        self.writer(row)
        shown = " ".join(f"{key} {value}" for key, value in row.items() if key not in ("service", "unit", "step"))
        print(f"{self.service.name:16} {step:9} {shown}", flush=True)

    def fresh(self):
        """Starts the service anew, with all memory, and warms it."""
        self.service.stop()
        self.cgroup.make()
        cgroups.drop(self.service.folder)
        self.service.start()
        self.service.rate(self.args.warm)

    def rate(self, seconds=None):
        """The rate and the wrong answers. `per_cpu` becomes what it does in a second of its own
        processor time, and `paging` what it pages in a second."""
        wrong, cpu, started = self.service.wrong, self.cgroup.processor_seconds(), time.monotonic()
        paging = self.cgroup.paging()
        rate = self.service.rate(seconds or self.args.seconds)
        cpu, taken = self.cgroup.processor_seconds() - cpu, time.monotonic() - started
        self.per_cpu = rate * taken / cpu if cpu > 0 else 0
        self.paging = {name: (count - paging[name]) / taken for name, count in self.cgroup.paging().items()}
        return rate, self.service.wrong - wrong

    def rate_in(self, limit):
        """The rate with a limit. One that is too low for the service to answer is a rate of 0."""
        started = time.monotonic()
        try:
            if not self.cgroup.limit(limit):
                return 0, 0, "the kernel does not lower the limit"
            if self.service.is_lasting:
                self.service.rate(self.args.settle)
            rate, wrong = self.rate()
            if self.service.is_over():
                raise services.Failed(f"it has ended; out of memory {self.cgroup.oom_kills()} times")
            return rate, wrong, ""
        except services.Failed as error:
            said = str(error)[:200]
            self.fresh()
            return 0, 0, said
        finally:
            self.taken = time.monotonic() - started

    def measure_native(self):
        with cgroups.Sampler(self.cgroup) as sampler:
            self.fresh()
            rate, wrong = self.rate()
        self.native, self.peak, self.percentile_95 = rate, sampler.peak(), sampler.percentile_95()
        stat = {f"stat_{name}_mib": value for name, value in self.cgroup.stat().items()}
        self.keep(
            "native",
            rate=rate,
            per_cpu=self.per_cpu,
            wrong=wrong,
            peak_mib=self.peak,
            percentile_95_mib=self.percentile_95,
            **stat,
        )

    def measure_limits(self):
        """Ten limits in the first round, each chosen by what those before have shown; then the same
        again. Each is compared with the rates without a limit before and after it."""
        limits = []
        for number in range(self.args.rounds):
            self.fresh()
            before, points = self.rate()[0], []
            for place in range(LIMITS):
                limit = limits[place] if number else self.next_limit(points)
                part, before = self.compare(limit, before, step="measured", round=number)
                # What else runs on the machine can only make it slower. What is below is
                # measured again before the next limit is chosen.
                if not number and part < 1 / SLOWDOWN:
                    again, before = self.compare(limit, before, step="measured", round=number)
                    part = max(part, again)
                points.append((limit, part))
                limits += [] if number else [limit]
            limits.sort(reverse=True)

    def compare(self, limit, before, **row):
        """Keeps a row with the rate with a limit. Returns it as a part of the mean of the rates
        without one before and after it, and the one after it."""
        rate, wrong, said = self.rate_in(limit)
        per_cpu, taken, paging = self.per_cpu, self.taken, self.paging
        after, _, failed = self.rate_in(None)
        if failed:
            raise services.Failed(failed)
        beside = statistics.fmean((before, after))
        self.keep(
            **row,
            limit_mib=limit,
            rate=rate,
            rate_beside=beside,
            slowdown=beside / rate if rate else "",
            per_cpu="" if said else per_cpu,
            wrong=wrong,
            seconds=taken,
            said=said,
            **({} if said else paging),
        )
        return rate / beside, after

    def next_limit(self, points):
        """From 0.95 of the peak down until the rate has halved, then nearer to the slowdown."""
        tried = sorted(limit for limit, _ in points)
        ladder = [round(self.peak * part, 1) for part in (0.95, 0.8, 0.65, 0.5, 0.35, 0.2)]
        if len(tried) < len(ladder) and all(part >= 0.5 for _, part in points):
            return ladder[len(tried)]
        fitted = tables.isotonic(points)
        low = max((limit for limit, part in fitted if part < 1 / SLOWDOWN), default=tried[0] / 2)
        high = min((limit for limit in tried if limit > low), default=self.peak)
        if high - low > 0.03 * self.peak:
            return round((low + high) / 2, 1)
        # It is found. The others lie around it, in the widest gap near.
        ends = [*tried, self.peak]
        gaps = [(above - below, below, above) for below, above in itertools.pairwise(ends) if above > 0.75 * low]
        _, below, above = max(gaps)
        return round((below + above) / 2, 1)

    @contextlib.contextmanager
    def loaded(self):
        """Loads the service until the context ends."""
        over, failed = threading.Event(), []

        def load():
            try:
                while not over.is_set():
                    self.service.rate(1)
            except services.Failed as error:
                failed.append(error)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if failed:
            raise failed[0]

    def sweephand(self, *words, **more):
        command = [str(word) for word in (self.args.sweephand, *words)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, preexec_fn=programs.prepare_child, **more
        )

    def measure_predicted(self):
        """What `advise` says with all memory, and what `watch` counts beside memory.stat."""
        self.fresh()
        watching = ["--cgroup", self.cgroup.path, "--for", f"{self.args.watch}s", "--every", self.args.every]
        with self.loaded():
            time.sleep(0.5)
            asked = ["advise", *watching, "--format", "json"]
            advised = self.sweephand(*asked, "--slowdown", SLOWDOWN, "--device", self.args.device)
            # Some versions have no slowdown for a service.
            if advised.returncode == 2 and "cannot be used with" in advised.stderr:
                advised = self.sweephand(*asked)
            lines, said = self.watch_beside_stat()
        row = {"said": " ".join(advised.stderr.split())[-300:]}
        if advised.returncode == 0:
            advice = json.loads(advised.stdout)
            print(json.dumps(advice), file=sys.stderr)
            row |= {
                "epochs": advice["epochs"],
                "seconds": advice["watched_ns"] / 1e9,
                "at_least_mib": advice["enough_at_least_pages"] * PAGE_MIB,
                "at_most_mib": advice["enough_at_most_pages"] * PAGE_MIB,
                **slowdown_mib(advice),
            }
        if lines:
            row |= self.counts(lines)
        elif said:
            row["said"] += " watch: " + " ".join(said.split())[-300:]
        self.keep("predicted", **row)

    def start_watch(self, stdout, *more):
        command = [str(self.args.sweephand), "watch", "--cgroup", str(self.cgroup.path), "--json", *more]
        return subprocess.Popen(
            command, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=programs.prepare_child
        )

    def watch_beside_stat(self):
        """The epochs of a short watch, each with what memory.stat says then; and its errors."""
        with self.start_watch(subprocess.PIPE, "--for", "4s") as watch:
            lines = [(json.loads(line), self.cgroup.stat()) for line in watch.stdout]
            return [(line, stat) for line, stat in lines if line["event"] == "epoch"], watch.stderr.read()

    def counts(self, lines):
        """What a watch counts, in the epoch in which anonymous memory is the median."""
        epochs = sorted(lines, key=lambda line: line[0]["resident"]["anonymous"])
        middle, stat = epochs[len(epochs) // 2]
        kinds, elsewhere = middle["resident"], middle["charged_elsewhere"] or {}
        pages = {
            "resident_mib": middle["resident_pages"],
            "used_mib": max(epoch["used_pages"] for epoch, _ in lines),
            "unknown_mib": middle["unknown_pages"],
            "elsewhere_mib": sum(elsewhere.values()),
            "anon_mib": kinds["anonymous"] - elsewhere.get("anonymous", 0),
            "shmem_mib": kinds["shared"] - elsewhere.get("shared", 0) + middle["unmapped_shared_pages"],
            "mapped_mib": sum(kinds[kind] - elsewhere.get(kind, 0) for kind in ("shared", "file")),
        }
        counts = {name: count * PAGE_MIB for name, count in pages.items()}
        return counts | {f"stat_{name}_mib": value for name, value in stat.items()}

    def has_ended(self, watch, step):
        """Whether a watch has ended by itself. Then it keeps what it said."""
        if watch.poll() is None:
            return False
        self.keep(step, said=" ".join(watch.stderr.read().split())[-300:])
        return True

    def measure_cost(self):
        """By turns: the watch is stopped and goes on."""
        self.fresh()
        with contextlib.ExitStack() as undo:
            with self.loaded():
                time.sleep(0.5)
                watch = self.start_watch(subprocess.DEVNULL)
                undo.callback(end, watch)
                time.sleep(2.5)
            if self.has_ended(watch, "cost"):
                return
            watch.send_signal(signal.SIGSTOP)
            ran, rates, per_cpu = 2.5, [], []
            for turn in range(2 * self.args.turns + 1):
                watched = turn % 2
                started = time.monotonic()
                watch.send_signal(signal.SIGCONT if watched else signal.SIGSTOP)
                rate, wrong = self.rate(self.args.turn)
                ran += watched * (time.monotonic() - started)
                rates.append(rate)
                per_cpu.append(self.per_cpu)
                self.keep("turn", round=turn, watched=watched, rate=rate, per_cpu=self.per_cpu, wrong=wrong)
            cpu, peak = cpu_seconds(watch.pid), servers_peak_mib(watch.pid)
            self.keep(
                "cost",
                rate=statistics.median(rates[1::2]),
                rate_beside=statistics.median(rates[::2]),
                slowdown=1 / by_turns(rates),
                per_cpu=statistics.median(per_cpu[1::2]),
                per_cpu_ratio=by_turns(per_cpu),
                watcher_cpu_s=cpu,
                watcher_peak_mib=peak,
                seconds=ran,
            )

    def measure_long(self):
        """What a watch takes over a long time, in which the service has load every other second."""
        self.fresh()
        with contextlib.ExitStack() as undo:
            watch = self.start_watch(subprocess.PIPE)
            undo.callback(end, watch)
            lines = []
            reader = threading.Thread(target=lambda: lines.extend(watch.stdout))
            reader.start()
            # The pipes are closed by `end`, when nothing is read any more.
            undo.callback(reader.join)
            undo.callback(watch.send_signal, signal.SIGINT)
            started = time.monotonic()
            while time.monotonic() - started < self.args.long and watch.poll() is None:
                self.service.rate(1)
                time.sleep(1)
            if self.has_ended(watch, "long"):
                return
            self.keep(
                "long",
                seconds=time.monotonic() - started,
                epochs=sum('"event":"epoch"' in line for line in lines),
                watcher_cpu_s=cpu_seconds(watch.pid),
                watcher_peak_mib=servers_peak_mib(watch.pid),
            )

    def measure_usage(self):
        """What others would set, and what that costs."""
        self.fresh()
        limits = dict(zip(tables.OTHERS, (self.peak, self.percentile_95 * 1.15), strict=False))
        with self.loaded():
            time.sleep(1)
            wss, why = damon.working_set_mib(self.args.damo, self.cgroup.pids(), self.args.watch, self.service.folder)
        if wss is None:
            self.keep("usage", by=tables.OTHERS[-1], said=why)
        else:
            limits[tables.OTHERS[-1]] = wss
        before = self.rate()[0]
        for by, limit in limits.items():
            _, before = self.compare(limit, before, step="usage", by=by)


def by_turns(values):
    """The median ratio of a value with the watch to those before and after it."""
    return statistics.median(
        value / statistics.fmean((before, after))
        for before, value, after in zip(values[::2], values[1::2], values[2::2], strict=False)
    )


def slowdown_mib(advice):
    """The least limit within the slowdown, and the part of it that is pages which were seen, if
    `advise` says it."""
    limits, needs = advice.get("limits") or {}, advice.get("needs") or {}
    return {
        "slowdown_mib": limits["high_bytes"] / MIB if "high_bytes" in limits else "",
        "slowdown_pages_mib": needs["memory_pages"] * PAGE_MIB if "memory_pages" in needs else "",
    }


def measured_device(args, work):
    """A file that says how fast the disk is on which the services' pages are."""
    path = work / "device.toml"
    subprocess.run(
        [args.sweephand, "devices", work, "--seconds", "10", "-o", path], check=True, stdout=subprocess.DEVNULL
    )
    return path


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def servers_peak_mib(pid):
    return services.servers.peak_kib(pid) / 1024


def end(process):
    """Ends a watch, also one that is stopped."""
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def measure(args, file):
    """All steps of the services, with rows into a file."""
    table = csv.DictWriter(file, FIELDS, lineterminator="\n")
    if not file.tell():
        table.writeheader()
    version = subprocess.run([args.sweephand, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def write(row):
        table.writerow(
            {
                "date": datetime.date.today().isoformat(),
                "machine": platform.node(),
                "kernel": platform.release(),
                "sweephand": version.removeprefix("sweephand "),
                "disk": args.disk,
                "load": round(os.getloadavg()[0], 2),
            }
            | row
        )
        file.flush()

    steps = args.steps.split(",")
    failed = 0
    with contextlib.ExitStack() as undo:
        directory = undo.enter_context(disks.disk(args.disk, args.directory))
        work = pathlib.Path(
            undo.enter_context(tempfile.TemporaryDirectory(prefix="sweephand-services-", dir=directory))
        )
        work.chmod(0o755)
        args.load = work / "load"
        subprocess.run(["gcc", "-O2", "-pthread", "-o", args.load, HERE / "load.c", "-lm"], check=True)
        if "predicted" in steps and args.device is None:
            args.device = measured_device(args, work)
        if {"measured", "usage"} & set(steps):
            undo.enter_context(cgroups.swap_area(work, SWAP_MIB))
        for number, name in enumerate(args.services.split(",")):
            made = services.SERVICES[name]
            if lacking := services.missing(*made.needs):
                print(
                    f"{name}: left out: there is no {', '.join(lacking)}; apt-get install {made.package}",
                    file=sys.stderr,
                )
                failed += 1
                continue
            folder = work / str(number)
            folder.mkdir()
            with cgroups.Cgroup(f"sweephand-bench-services-{os.getpid()}") as cgroup:
                service = made(folder, cgroup, args)
                measuring = Measuring(args, service, cgroup, write)
                try:
                    service.prepare()
                    measuring.measure_native()
                    for step, function in (
                        ("predicted", measuring.measure_predicted),
                        ("cost", measuring.measure_cost),
                        ("measured", measuring.measure_limits),
                        ("usage", measuring.measure_usage),
                        ("long", measuring.measure_long),
                    ):
                        if step in steps:
                            function()
                except services.Failed as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    failed += 1
                finally:
                    cgroup.limit(None) if cgroup.path.exists() else None
                    service.stop()
    return failed


def main():
    if sys.argv[1:2] == ["table"]:
        tables.table(sys.argv[2:] or sorted((HERE / "results").glob("*.csv"))[-1:])
        return
    parser = argparse.ArgumentParser(description=__doc__, epilog="table [CSV ...] only prints the tables of results.")
    parser.add_argument("--services", default=",".join(services.SERVICES), help="comma list")
    parser.add_argument("--steps", default=",".join(USUAL_STEPS), help="comma list; native is always done")
    parser.add_argument("--rounds", type=int, default=3, help="of the ten limits")
    parser.add_argument("--seconds", type=float, default=2, help="of load in each measurement")
    parser.add_argument("--settle", type=float, default=1, help="seconds of load after a limit has changed")
    parser.add_argument("--warm", type=float, default=3, help="seconds of load after the start")
    parser.add_argument("--watch", type=float, default=10, help="seconds that advise watches")
    parser.add_argument("--every", default="1s", help="its epochs")
    parser.add_argument("--turns", type=int, default=5, help="with and without the watch")
    parser.add_argument("--turn", type=float, default=2, help="seconds of a turn")
    parser.add_argument("--long", type=float, default=3600, help="seconds of the step long")
    parser.add_argument("--sweephand", type=pathlib.Path, default=programs.ROOT / "target/release/sweephand")
    parser.add_argument("--duckdb", default=sys.executable, help="a Python that has the package duckdb")
    parser.add_argument("--damo", default="damo", help="the command of the package damo")
    parser.add_argument("--device", help="what advise is told pages go to [default: the disk, measured]")
    disks.add_arguments(parser)
    parser.add_argument("--append", action="store_true", help="keep the rows that the output has")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    args = parser.parse_args()
    for given, known, what in ((args.services, services.SERVICES, "service"), (args.steps, STEPS, "step")):
        if unknown := set(given.split(",")) - set(known):
            parser.error(f"there is no {what} {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    if os.geteuid():
        sys.exit("run this as root: it makes a memory cgroup and a swap file")
    programs.end_on_signals()
    # A shell has what it starts in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = args.output or HERE / "results" / disks.result_name("", args.disk)
    with open(path, "a" if args.append else "w", newline="") as file:
        failed = measure(args, file)
    tables.table([path])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The programs of real-programs.toml at 60 % of their memory: do they print what they print by
themselves, and how long do they take beside the kernel's swap? See README.md."""
import argparse
import contextlib
import csv
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib

import disks
import programs

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "real-programs.toml"
LEAST_MIB = 8
LOOK_SECONDS = 0.02
FIELDS = ["date", "machine", "disk", "program", "variant", "native_mib", "memory_mib", "status", "same", "seconds",
          "pages_read", "refaults", "processes", "said"]


class Sizes(threading.Thread):
    """Looks how much memory the processes take that this one has started: most of one, and most of
    all together, in MiB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.one = self.all = 0.0
        self.stop = threading.Event()

    def run(self):
        while not self.stop.wait(LOOK_SECONDS):
            sizes = [self.size(process) for process in descendants(os.getpid())]
            shared = max((file for _, file in sizes), default=0)
            self.one = max([self.one, *(own + file for own, file in sizes)])
            self.all = max(self.all, sum(own for own, _ in sizes) + shared)

    @staticmethod
    def size(process):
        """Anonymous and shared memory of a process, and its files in memory, in MiB."""
        found = {"RssAnon": 0, "RssShmem": 0, "RssFile": 0}
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{process}/status").read_text(errors="replace").splitlines():
                name, _, rest = line.partition(":")
                if name in found:
                    found[name] = int(rest.split()[0]) / 1024
        return found["RssAnon"] + found["RssShmem"], found["RssFile"]


def descendants(process):
    """All that a process has started, and so on."""
    found = []
    for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                found += [child, *descendants(child)]
    return found


def run(words, args, work, entry):
    """Runs a command within bounds, with the variables of a program."""
    before = dict(programs.ENVIRONMENT)
    programs.ENVIRONMENT.update(entry.get("variables", {}))
    try:
        return programs.run(words, args.patience, work, entry.get("volatile", ""))
    finally:
        programs.ENVIRONMENT.clear()
        programs.ENVIRONMENT.update(before)


def words_of(entry, args, work, number):
    words = [word.format(work=work, n=number, python=args.python, free=args.free_threaded) for word in entry["command"]]
    return [programs.executable(words[0]) or words[0], *words[1:]]


def prepare(entry, work):
    """Makes what a program needs. Returns why it is left out, or nothing."""
    before = entry.get("before", "").format(work=work)
    done = subprocess.run(["sh", "-c", before], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, env=programs.ENVIRONMENT)
    return " ".join(done.stderr.split())[-100:] or "cannot be prepared" if done.returncode else ""


def measure(entry, args, work, folder, keep):
    """Runs a program by itself, twice, and then in each variant, which pages to a folder."""
    name = entry["name"]
    why = prepare(entry, work)
    if not why and shutil.which(words_of(entry, args, work, 0)[0]) is None:
        why = "not installed"
    results, sizes = [], Sizes()
    if not why:
        sizes.start()
        results = [run(words_of(entry, args, work, f"-native{number}"), args, work, entry) for number in range(2)]
        sizes.stop.set()
        sizes.join()
        if any(result.status != 0 for result in results):
            why = f"ends with {results[0].status} by itself: {results[0].said[-100:]}"
        elif results[0].digest != results[1].digest:
            why = "does not print the same twice by itself"
    row = {"date": datetime.date.today().isoformat(), "machine": platform.node(), "disk": args.disk, "program": name}
    if why:
        keep(row | {"variant": "native", "status": "left out", "said": why})
        return
    largest = max(sizes.one, max(result.usage.ru_maxrss for result in results) / 1024)
    everything = max(sizes.all, largest)
    keep(row | {"variant": "native", "native_mib": round(everything), "status": 0, "same": 1,
                "seconds": round(min(result.seconds for result in results), 2)})
    stats = work / "stats.json"
    for variant in filter(None, args.variants.split(",")):
        # An agent limits each process, anything else all of them together.
        is_for_all = variant in ("kernel", "default") or variant.startswith("swap:")
        native = everything if is_for_all else largest
        memory = max(LEAST_MIB, round(native * args.part))
        stats.unlink(missing_ok=True)
        # Those that start processes as another user, who writes counts nowhere else.
        command = [args.sweephand, "run", "--memory", f"{memory}MiB", *programs.options_of(variant), "--swap", folder,
                   "--stats", stats, "--", *words_of(entry, args, work, f"-{variant.replace(':', '-')}")]
        result = run(command, args, work, entry)
        counts = json.loads(stats.read_text()) if stats.exists() else {}
        is_same = (result.status, result.digest) == (results[0].status, results[0].digest)
        keep(row | {"variant": variant, "native_mib": round(native), "memory_mib": memory, "status": result.status,
                    "same": int(is_same), "seconds": round(result.seconds, 2), "said": "" if is_same else result.said[-200:],
                    **{field: counts.get(field) for field in ("pages_read", "refaults", "processes")}})


def show(rows):
    """The table of README.md for each disk: seconds, or what a run that differs said."""
    for disk in dict.fromkeys(row["disk"] for row in rows):
        print(f"disk: {disk}")
        show_disk([row for row in rows if row["disk"] == disk])


def show_disk(rows):
    names = list(dict.fromkeys(row["program"] for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows if row["variant"] != "native"))
    lines, left_out = [], []
    for name in names:
        runs = {row["variant"]: row for row in rows if row["program"] == name}
        if runs["native"]["status"] == "left out":
            left_out.append(f"{name}: {runs['native']['said']}")
            continue
        def cell(variant, runs=runs):
            row = runs.get(variant)
            if row is None:
                return "-"
            if row["status"] == "patience":
                return f">{float(row['seconds']):.0f}"
            return f"{float(row['seconds']):.2f}" if int(row["same"]) else f"differs ({row['status']})"
        lines.append([name, str(runs["native"]["native_mib"]), cell("native"), *map(cell, variants)])
    programs.print_table(["program", "MiB", "native s", *(f"{variant} s" for variant in variants)], lines)
    for variant in variants:
        cells = [row for row in rows if row["variant"] == variant]
        same = sum(int(row["same"]) for row in cells)
        late = sum(row["status"] == "patience" for row in cells)
        print(f"{variant}: {same} of {len(cells)} as by themselves, {late} took too long, {len(cells) - same - late} differ")
    for line in left_out:
        print("left out:", line)


def measure_all(entries, wanted, args, folder):
    """Runs the programs that are wanted, and writes a row at a time. Returns the rows."""
    path = pathlib.Path(args.output or HERE / "results" / disks.result_name("real-programs-", args.disk))
    rows = programs.read_rows([path]) if args.add and path.exists() else []
    known = {row["program"] for row in rows if row["disk"] == args.disk}
    with tempfile.TemporaryDirectory(dir=args.directory) as directory, open(path, "w", newline="") as file:
        work = pathlib.Path(directory)
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        programs.make_workshop(work)
        # Some programs share their files.
        for name, text in (item for entry in entries for item in entry.get("files", {}).items()):
            (work / name).write_text(text)

        def keep(row):
            rows.append(row)
            table.writerow(row)
            file.flush()
            print(f"{row['program']:22} {row['variant']:22} {row.get('memory_mib', ''):4} MiB {row.get('seconds', ''):7} s "
                  f"{row['status']} {'same' if row.get('same') else 'OTHER'} {row.get('said', '')[:150]}", flush=True)

        for entry in entries:
            if entry["name"] in wanted and entry["name"] not in known:
                measure(entry, args, work, folder, keep)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="programs, comma list")
    parser.add_argument("--list", action="store_true", help="only print the names of the programs")
    parser.add_argument("--variants", default="kernel,default,clock-pro-strict",
                        help="kernel, POLICY, BACKEND:POLICY, or default; comma list")
    parser.add_argument("--part", type=float, default=0.6, help="of the memory that a program takes by itself")
    parser.add_argument("--patience", type=float, default=20, help="seconds for a run")
    parser.add_argument("--python", default="python3", help="a Python with numpy, pandas, polars, duckdb and scikit-learn")
    parser.add_argument("--free-threaded", default="python3.13t", help="a free-threaded Python")
    parser.add_argument("--sweephand", default=programs.ROOT / "target/release/sweephand")
    disks.add_arguments(parser)
    parser.add_argument("--show", nargs="+", metavar="CSV", help="only print the table of earlier results")
    parser.add_argument("--add", action="store_true", help="add to the output what is not in it yet, and run no program twice")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    entries = tomllib.loads(TABLE.read_text())["program"]
    names = [entry["name"] for entry in entries]
    if args.list:
        print("\n".join(names))
        return
    if args.show:
        show(programs.read_rows(args.show))
        return
    wanted = args.only.split(",") if args.only else names
    if unknown := set(wanted) - set(names):
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    if os.geteuid():
        sys.exit("run this as root: it makes a memory cgroup and a swap file")
    programs.end_on_signals()
    with disks.disk(args.disk, args.directory) as folder:
        programs.LIBC.prctl(programs.PR_SET_CHILD_SUBREAPER, 1)
        rows = measure_all(entries, wanted, args, folder)
    show(rows)
    sys.exit(any(row["variant"] != "native" and not int(row["same"] or 0) and row["status"] != "patience" for row in rows))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Ten programs under policies, live and simulated: does a live run count the refaults that a
simulation of the same program counts? See README.md."""
import argparse
import csv
import datetime
import io
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import programs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
POLICIES = ["fifo", "clock", "clock-pro-strict", "apr", "lifo-plus"]
# Live, the bit of a page is cleared once more at the fault after the one that brought it in.
SETTLED = {policy: f"{policy}:settle=1" for policy in POLICIES if policy != "fifo"}
# The same memory from malloc in both runs: blocks of 40 KiB and more are mappings, as the agent has
# them under policies that tell objects apart, and nothing goes back to the system unless it is one.
# Valgrind has no AVX-512, so nobody uses it.
TUNABLES = ("glibc.malloc.mmap_threshold=40960:glibc.malloc.trim_threshold=1000000000000:"
            "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ")
ENVIRONMENT = {**programs.ENVIRONMENT, "GLIBC_TUNABLES": TUNABLES, "PYTHONDONTWRITEBYTECODE": "1"}
PLOT = ("set terminal postscript; set output '/dev/null'; plot '{work}/points' using 1:2 with lines, "
        "'{work}/points' using 1:3 with lines")
# Smaller forms of programs of `programs.py`: source, by file name.
SMALLER = {
    "stencil.py": [("1400", "600"), ("range(40)", "range(3)")],
    "lists.py": [("2000000", "150000"), ("200000]", "30000]")],
    "dict.py": [("200000", "60000")],
    "hash.pl": [("150000", "60000")],
    "count.awk": [("300000", "100000"), ("200000", "60000")],
    "rows.sql": [("250000", "80000"), ("250007", "80021")],
}
# Live, pages leave before their frames are needed, up to two batches of them. So a live run is also
# compared with a simulation in as many frames fewer.
AHEAD_PAGES = 16
FIELDS = ["date", "machine", "program", "policy", "memory_pages", "frames", "refaults", "spared", "simulated", "ratio",
          "simulated_in_fewer", "ratio_in_fewer", "simulated_unsettled", "first_touches", "simulated_first_touches", "pages",
          "reference_bits", "in_flight", "peak_resident_pages"]
RATIOS = ["ratio", "ratio_in_fewer"]


def commands(work):
    """The programs, by name."""
    compiler = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
    python = programs.executable("python3")
    return {
        "gnuplot": ["gnuplot", "-e", PLOT.format(work=work)],
        "numpy": [python, f"{work}/small-stencil.py"],
        "sort": ["sort", "-n", "--parallel=1", "-S", "100M", f"{work}/some-numbers"],
        "sqlite3": ["sqlite3", "-init", "/dev/null", ":memory:", f".read {work}/small-rows.sql"],
        # The compiler without its driver, which would be recorded in its place.
        "gcc": [compiler, "-quiet", "-O1", "-o", "/dev/null", f"{work}/small.c"],
        "python dict": [python, f"{work}/small-dict.py"],
        "python lists": [python, f"{work}/small-lists.py"],
        "perl": ["perl", f"{work}/small-hash.pl"],
        "mawk": ["mawk", "-f", f"{work}/small-count.awk"],
        "xz": ["xz", "-4", "-T1", "-c", f"{work}/few-words"],
    }


def make_workshop(work):
    """Sources and inputs."""
    programs.make_workshop(work)
    for name, changes in SMALLER.items():
        source = (work / name).read_text()
        for before, after in changes:
            if before not in source:
                sys.exit(f"{name} has no {before}")
            source = source.replace(before, after)
        (work / f"small-{name}").write_text(source)

    def head(name, path, size):
        with open(work / name, "rb") as file:
            (work / path).write_bytes(file.read(size))

    head("numbers", "some-numbers", 4 << 20)
    head("words", "few-words", 1 << 20)
    lines = (work / "large.c").read_text().splitlines(keepends=True)
    (work / "small.c").write_text("".join(lines[:300]))
    programs.write_lines(work / "points", 200_000,
                         lambda number: f"{number % 2**20} {number >> 32} {number >> 20 & 0xfffff}\n")


def run(command, patience):
    """Runs a command, whose output nobody reads."""
    result = subprocess.run(["timeout", str(patience), *map(str, command)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, check=False)
    if result.returncode:
        raise RuntimeError(f"ends with {result.returncode}: {' '.join(result.stderr.split())[-200:]}")


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work

    def sweephand(self, *words):
        return [self.args.sweephand, *words]

    def record(self, name, command):
        """The program's trace, of the memory that a pager pages."""
        folder = pathlib.Path(self.args.traces or self.work)
        trace = folder / f"{name.replace(' ', '-')}.swt"
        whole = trace.with_suffix(".part")
        if not trace.exists():
            run(self.sweephand("record", "--quiet", "--anonymous", "--window", self.args.window, "-o", whole, "--", *command),
                self.args.patience)
            # A recording that was ended leaves a trace, too.
            whole.rename(trace)
        return trace

    def simulate(self, trace, policies, frames):
        """Faults beside first touches, and first touches, by policy."""
        answer = subprocess.run([*map(str, self.sweephand("simulate", trace, "-p", ",".join(policies), "-m", f"{frames}p",
                                                          "--format", "csv"))],
                                capture_output=True, text=True, check=True)
        rows = list(csv.DictReader(io.StringIO(answer.stdout)))
        return [(int(row["faults"]) - int(row["first_touch_faults"]), int(row["first_touch_faults"])) for row in rows]

    def live(self, command, policy, memory):
        """The counts of a run without read-ahead."""
        stats = self.work / "stats.json"
        run(["setarch", "-R", *self.sweephand("run", "--memory", f"{memory}p", "--policy", policy, "--backend", "anon", "--prefetch",
                                              "off", "--swap", self.args.directory, "--stats", stats, "--", *command)],
            self.args.patience)
        return json.loads(stats.read_text())

    def measure(self, name, command):
        trace = self.record(name, command)
        info = subprocess.run([*map(str, self.sweephand("info", trace, "--format", "json"))], capture_output=True, text=True,
                              check=True)
        pages = find(json.loads(info.stdout), "distinct_pages")
        # On top come 4 MiB and a 64th, and off goes what the pager and the kernel take: some 700.
        memory = max(1024, round(self.args.part * pages) - 400)
        for policy in self.args.policies.split(","):
            counts = self.live(command, policy, memory)
            frames = counts["peak_policy_pages"]
            row = {"date": datetime.date.today().isoformat(), "machine": platform.node(), "program": name, "policy": policy,
                   "memory_pages": memory, "frames": frames, "refaults": counts["refaults"], "spared": counts["rescues"],
                   "first_touches": counts["zero_fill_faults"], "pages": pages, "reference_bits": counts["reference_bits"],
                   "in_flight": counts["refaults_in_flight"], "peak_resident_pages": counts["peak_resident_pages"]}
            if frames:
                settled = SETTLED.get(policy, policy)
                (simulated, first), (unsettled, _) = self.simulate(trace, [settled, policy], frames)
                ((fewer, _),) = self.simulate(trace, [settled], frames - AHEAD_PAGES)
                live = counts["refaults"] + counts["rescues"]
                row |= {"simulated": simulated, "simulated_first_touches": first, "simulated_unsettled": unsettled,
                        "ratio": ratio(live, simulated), "simulated_in_fewer": fewer, "ratio_in_fewer": ratio(live, fewer)}
            yield row


def ratio(live, simulated):
    return f"{live / simulated:.4f}" if simulated else None


def find(node, name):
    """The first value of that name in a tree."""
    if isinstance(node, dict):
        if name in node:
            return node[name]
        node = node.values()
    if isinstance(node, (list, type({}.values()))):
        for child in node:
            found = find(child, name)
            if found is not None:
                return found
    return None


def show(rows):
    """The table of README.md: of each policy the live count, and its ratio to both simulations."""
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    print("| program | frames | " + " | ".join(f"{policy}, live | ratio | in {AHEAD_PAGES} fewer" for policy in policies) + " |")
    print("|---|---:|" + "---:|" * 3 * len(policies))
    for name in dict.fromkeys(row["program"] for row in rows):
        of = {row["policy"]: row for row in rows if row["program"] == name}
        line = [name, str(of[policies[0]]["frames"]) if policies[0] in of else "-"]
        for policy in policies:
            row = of.get(policy)
            if row is None or not row["ratio"]:
                line += ["-"] * 3
                continue
            line.append(str(int(row["refaults"]) + int(row["spared"])))
            line += [f"{float(row[field]):.3f}" if row.get(field) else "-" for field in RATIOS]
        print("| " + " | ".join(line) + " |")
    # Of each row that has them, whether its ratios are near one.
    near = [[abs(float(row.get(field) or 0) - 1) <= 0.02 for field in RATIOS] for row in rows if row["ratio"]]
    first, fewer = (sum(of) for of in zip(*near)) if near else (0, 0)
    print(f"\nof {len(near)} cells within 2 %: {first}, in {AHEAD_PAGES} frames fewer {fewer}, one of both {sum(map(any, near))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="programs, comma list")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--part", type=float, default=0.6, help="frames, as a part of the program's pages, nearly")
    parser.add_argument("--window", default="16", help="of the recording")
    parser.add_argument("--patience", type=float, default=300, help="seconds for a recording or a run")
    parser.add_argument("--traces", metavar="DIR", help="keep recordings here, and take those that there are")
    parser.add_argument("--work", metavar="DIR", help="keep sources and inputs here, and take those that there are")
    parser.add_argument("--sweephand", default=ROOT / "target/release/sweephand")
    parser.add_argument("--directory", default="/var/tmp", help="where to page to")
    parser.add_argument("--show", metavar="CSV", nargs="+", help="only print the table of earlier results")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if args.show:
        return show(programs.read_rows(args.show))
    if os.geteuid():
        sys.exit("run this as root: it reads the processor's reference bits")
    path = args.output or HERE / f"results/live-beside-simulated-{datetime.date.today().isoformat()}.csv"
    rows = []
    with tempfile.TemporaryDirectory(dir=args.directory) as directory, open(path, "w", newline="") as file:
        work = pathlib.Path(args.work or directory)
        if not (work / "points").exists():
            work.mkdir(exist_ok=True)
            make_workshop(work)
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        bench = Bench(args, work)
        for name, command in commands(work).items():
            if args.only and name not in args.only.split(","):
                continue
            try:
                for row in bench.measure(name, command):
                    table.writerow(row)
                    file.flush()
                    rows.append({field: row.get(field) for field in FIELDS})
                    print(name, row["policy"], row["frames"], row["refaults"], row["spared"], row.get("simulated"),
                          row.get("ratio"), flush=True)
            except RuntimeError as error:
                print(f"{name}: {error}", flush=True)
    show(rows)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Predicts how long programs take in less memory, runs them so, and prints both.

    sudo bench/time/predict.py SWEEPHAND DEVICE.toml [PROGRAM...] > bench/time/results/DATE.csv

Each program is recorded once with the Valgrind recorder, timed with all memory by the same command,
and then run at three memory sizes under `sweephand run` and `sweephand run --kernel`, by turns.
SWEEPHAND is the command. DEVICE.toml is what `SWEEPHAND devices DIR -o DEVICE.toml` has measured,
with the same DIR as WORK below. Needs root, Debian's sort, sqlite3, python3, perl and gcc, and
Valgrind.
"""

import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

WORK = "/var/tmp"
ROUNDS = 3
SHARES = (0.5, 0.65, 0.8)
POLICY = "clock"
PAGE = 4096

MAKE = {
    "sort": "python3 -c \"[print(n * 2654435761 % 1000003) for n in range(600000)]\" > numbers.txt",
    "gcc": "python3 -c \"[print(f'int f{n}(int a,int*b){{for(int i=0;i<a;i++)b[i]+=b[a-i]*{n}+i%({n}+1);return b[a%7];}}')"
    " for n in range(1500)]\" > many.c",
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
    "gcc": ["/usr/lib/gcc/x86_64-linux-gnu/CC1/cc1", "-quiet", "-O1", "many.c", "-o", "/dev/null"],
}
COLUMNS = ["program", "paged_by", "memory_mib", "native_seconds", "predicted_seconds", "measured_seconds", "error_percent",
           "predicted_pages_read", "pages_read", "predicted_pages_written", "pages_written", "least_seconds", "most_seconds"]


def frames(memory_pages, paged_by):
    """What the policy has of the budget: --memory and the kernel's share (memory.rs and
    division.rs of crates/pager/interface)."""
    budget = memory_pages + 1024 + memory_pages // 64
    if paged_by == "kernel":
        return budget
    batch = min(max(budget // 512, 8), 128)
    return budget - 9 * batch - 32 - budget * 40 // PAGE


def launch(sweephand, paged_by, memory_pages, folder):
    """The words before a program that run it in so many pages. Its counts go to stats.json."""
    how = ["--kernel"] if paged_by == "kernel" else ["--policy", POLICY]
    return [sweephand, "run", *how, "--memory", f"{memory_pages}p", "--swap", WORK,
            "--stats", str(pathlib.Path(folder, "stats.json")), "--"]


def counts(command, folder):
    """Runs a program, and returns what --stats says of it."""
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(pathlib.Path(folder, "stats.json").read_text())


def predict(sweephand, trace, device, native, paged_by, memory_pages):
    command = [sweephand, "simulate", trace, "-p", POLICY, "-m", f"{frames(memory_pages, paged_by)}p", "--device", device,
               "--native", str(native), "--paged-by", paged_by, "--format", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"][0]


def main():
    sweephand, device, *names = sys.argv[1:]
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    out.writeheader()
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        for name in names or PROGRAMS:
            command = list(PROGRAMS[name])
            if name == "gcc":
                command[0] = subprocess.run(["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True).stdout.strip()
            if name in MAKE:
                subprocess.run(MAKE[name], shell=True, cwd=folder, check=True)
            trace = str(pathlib.Path(folder, f"{name}.swt"))
            subprocess.run([sweephand, "record", "-o", trace, "--", *command], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            info = json.loads(subprocess.run([sweephand, "info", trace, "--format", "json"], check=True, capture_output=True).stdout)
            pages = info["totals"]["distinct_pages"]
            native = {}
            for paged_by in ("run", "kernel"):
                how = launch(sweephand, paged_by, 4 * pages + 16384, folder)
                native[paged_by] = statistics.median(counts([*how, *command], folder)["wall_ns"] / 1e9 for _ in range(ROUNDS))
            cells = [(paged_by, max(int(share * pages), 1024)) for share in SHARES for paged_by in ("run", "kernel")]
            runs = {cell: [] for cell in cells}
            for _ in range(ROUNDS):
                for paged_by, memory in cells:
                    try:
                        runs[paged_by, memory].append(counts([*launch(sweephand, paged_by, memory, folder), *command], folder))
                    except subprocess.CalledProcessError as error:
                        # The kernel ends a program if all that it could take is just being written.
                        print(f"{name}: {error.args[0]} under {paged_by} in {memory} pages", file=sys.stderr)
            for (paged_by, memory), found in runs.items():
                if not found:
                    continue
                walls = [run["wall_ns"] / 1e9 for run in found]
                measured = statistics.median(walls)
                row = predict(sweephand, trace, device, native[paged_by], paged_by, memory)
                predicted = row["predicted_seconds"]
                out.writerow({
                    "program": name, "paged_by": paged_by, "memory_mib": f"{memory * PAGE / 2**20:.1f}",
                    "native_seconds": f"{native[paged_by]:.3f}", "predicted_seconds": f"{predicted:.3f}",
                    "measured_seconds": f"{measured:.3f}", "error_percent": f"{100 * (predicted / measured - 1):.1f}",
                    "predicted_pages_read": row["predicted_pages_read"],
                    "pages_read": statistics.median_low(run["pages_read"] or 0 for run in found),
                    "predicted_pages_written": row["predicted_pages_written"],
                    "pages_written": statistics.median_low(run["pages_written"] or 0 for run in found),
                    "least_seconds": f"{min(walls):.3f}", "most_seconds": f"{max(walls):.3f}",
                })
                sys.stdout.flush()


if __name__ == "__main__":
    main()

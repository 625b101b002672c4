#!/usr/bin/env python3
"""How far estimates from samples are from full runs, and how much faster. See README.md for the
command."""

import argparse
import csv
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RESULTS = Path(__file__).resolve().parent / "results"
# What `simulate --sample` prints beside its estimates.
MEASURED = ROOT / "crates/sim/src/measured_errors.csv"

# Shares of the trace's pages, in percent.
MEMORY = [20, 50, 80]
SEEDS = [1, 2, 3]
SAMPLES = ["1%", "256p", "1024p", "4096p", "16384p"]
# Fewer frames are refused; one more, as the pages of a sample are rounded.
LEAST_FRAMES = 33
# The trace that throughput is measured with as well.
LARGE = "mixed"
GENERATE = ["generate", "mixed", "--references", "50000000", "--seed", "1"]

ERROR_COLUMNS = [
    "date", "machine", "trace", "records", "pages", "policy", "sample", "sampled_pages", "cells",
    "mean_absolute_error", "largest_absolute_error", "mean_fault_error", "largest_fault_error",
    "mean_standard_error", "within_2_standard_errors",
]  # fmt: skip
SPEED_COLUMNS = ["date", "machine", "trace", "what", "rounds", "full_cpu_s", "sampled_cpu_s", "times"]


def run(command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True, **options)


def timed(command, limit_s=None):
    """Output and CPU seconds of a process with one thread; None if it took more than `limit_s` of
    them."""

    def limit():
        if limit_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))

    environment = dict(os.environ, RAYON_NUM_THREADS="1")
    command = [str(word) for word in command]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit, env=environment
    ) as process:
        output = process.stdout.read()
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if limit_s is not None and process.returncode < 0:
        return None
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {errors}")
    return output, usage.ru_utime + usage.ru_stime


def machine():
    with open("/proc/cpuinfo") as file:
        models = (line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
        return " ".join(next(models, os.uname().machine).split()[:2])


def traces(sweephand, work):
    """Name and path of every trace, converted once so that reading costs what it costs for our own
    format."""
    found = {LARGE: None}
    folder = os.environ.get("SWEEPHAND_TRACES")
    if folder is None:
        print("SWEEPHAND_TRACES does not name the folder of the traces: only the generated one", file=sys.stderr)
    else:
        sources = [path for path in sorted(Path(folder).rglob("*")) if path.name.endswith((".trace.gz", ".pt.zst"))]
        found |= {source.name.split(".")[0]: source for source in sources}
    for name, source in found.items():
        path = work / f"{name}.swt"
        if not path.exists():
            run([sweephand, *(GENERATE if source is None else ["import", source]), "-o", path])
        info = json.loads(run([sweephand, "info", path, "--format", "json"]).stdout)
        yield name, path, info["totals"]


def rows(text):
    return list(csv.DictReader(text.splitlines()))


def full(sweephand, path, policy, limit_s, work):
    """The rows of a full run, kept for the next time; None if it takes too long."""
    kept = work / f"{path.stem}-{policy}.csv"
    if not kept.exists():
        memory = ",".join(f"{share}%" for share in MEMORY)
        done = timed([sweephand, "simulate", path, "--policy", policy, "--memory", memory, "--format", "csv"], limit_s)
        kept.write_text("" if done is None else done[0])
        print(f"{path.stem} {policy}: " + ("too long" if done is None else f"{done[1]:.1f} s"), file=sys.stderr)
    return rows(kept.read_text()) or None


def errors(sweephand, path, totals, full_rows, sample, common):
    """A row for each policy: how far its estimates are from the full runs."""
    pages = totals["page_ids"]
    sampled = int(sample[:-1]) if sample.endswith("p") else round(pages * float(sample[:-1]) / 100)
    if sampled < 256 or 2 * sampled > pages:
        return
    memory = [share for share in MEMORY if share * sampled / 100 >= LEAST_FRAMES]
    cells = {}
    for seed in SEEDS:
        output, _ = timed([
            sweephand, "simulate", path, "--policy", ",".join(full_rows), "--sample", sample, "--sample-seed", seed,
            "--memory", ",".join(f"{share}%" for share in memory), "--format", "csv",
        ])  # fmt: skip
        for row in rows(output):
            exact = next(x for x in full_rows[row["policy"]] if x["memory_pages"] == row["memory_pages"])
            references, faults = int(exact["references"]), int(exact["faults"])
            off = abs(int(row["faults"]) - faults)
            cells.setdefault(row["policy"], []).append(
                (off / references, off / faults, float(row["hit_ratio_error"]), int(row["sampled_pages"]))
            )
    for policy, own in cells.items():
        ratio, fault, told, sampled_pages = zip(*own)
        # Errors are told to six decimals.
        within = sum(off <= 2 * error + 1e-6 for off, error in zip(ratio, told))
        yield common | {
            "records": totals["records"], "pages": pages, "policy": policy, "sample": sample,
            "sampled_pages": sampled_pages[0], "cells": len(own),
            "mean_absolute_error": f"{statistics.mean(ratio):.6f}", "largest_absolute_error": f"{max(ratio):.6f}",
            "mean_fault_error": f"{statistics.mean(fault):.6f}", "largest_fault_error": f"{max(fault):.6f}",
            "mean_standard_error": f"{statistics.mean(told):.6f}",
            "within_2_standard_errors": f"{within / len(own):.3f}",
        }  # fmt: skip


def speed(sweephand, path, rounds, common):
    """Full runs beside estimates from 1 %, by turns."""
    for what, options in {
        "the six policies of the table at nine sizes": [],
        "lru at every size that a sample of 1% tells apart": ["--policy", "lru", "--memory", None],
        "clock-pro-strict at nine sizes": ["--policy", "clock-pro-strict"],
        "clock-pro-strict at 50%": ["--policy", "clock-pro-strict", "--memory", "50%"],
        "clock at 50%": ["--policy", "clock", "--memory", "50%"],
    }.items():
        sampled_options = [*options]
        if None in options:
            sampled_options = [option or "all" for option in options]
            output, _ = timed([sweephand, "simulate", path, *sampled_options, "--sample", "1%", "--format", "csv"])
            sizes = ",".join(f"{row['memory_pages']}p" for row in rows(output))
            options = [option or sizes for option in options]
        times = {"full": [], "sampled": []}
        for _ in range(rounds):
            command = [sweephand, "simulate", path, "--format", "csv"]
            times["full"].append(timed([*command, *options])[1])
            times["sampled"].append(timed([*command, *sampled_options, "--sample", "1%"])[1])
        whole, sampled = (statistics.median(times[which]) for which in ("full", "sampled"))
        yield common | {
            "what": what, "rounds": rounds, "full_cpu_s": f"{whole:.2f}", "sampled_cpu_s": f"{sampled:.2f}",
            "times": f"{whole / sampled:.1f}",
        }  # fmt: skip


def write(path, columns, data):
    with open(path, "w", newline="") as file:
        out = csv.DictWriter(file, columns, lineterminator="\n")
        out.writeheader()
        out.writerows(data)


def summary(data):
    """By policy and number of sampled pages, over all traces: what the command prints."""
    fixed = [row for row in data if row["sample"].endswith("p")]
    for policy in dict.fromkeys(row["policy"] for row in fixed):
        for sample in SAMPLES[1:]:
            own = [row for row in fixed if (row["policy"], row["sample"]) == (policy, sample)]
            if own:
                cells = sum(row["cells"] for row in own)
                mean = {
                    column: sum(float(row[column]) * row["cells"] for row in own) / cells
                    for column in ("mean_absolute_error", "mean_fault_error", "within_2_standard_errors")
                }
                largest = {
                    column: max(float(row[column]) for row in own)
                    for column in ("largest_absolute_error", "largest_fault_error")
                }
                yield {
                    "policy": policy, "sampled_pages": sample[:-1], "cells": cells,
                    **{name: f"{value:.6f}" for name, value in (mean | largest).items()},
                }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweephand", type=Path, help="the command, built with --release")
    parser.add_argument("--work", type=Path, required=True, help="folder for traces and full runs; what is there is not made again")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds that a policy may take for its full runs of a trace")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the measurement of speed; 0 for none")
    parser.add_argument("--only", help="traces, a comma list")
    parser.add_argument("--policies", help="policies, a comma list; what is known of the others is kept")
    parser.add_argument("--full-only", action="store_true", help="make the full runs and stop")
    parser.add_argument("--jobs", type=int, default=2, help="full runs at one time")
    arguments = parser.parse_args()
    sweephand, work = arguments.sweephand.resolve(), arguments.work
    work.mkdir(parents=True, exist_ok=True)

    said = {
        entry["name"]: run([sweephand, "policies", entry["name"]]).stdout
        for entry in json.loads(run([sweephand, "policies", "--format", "json"]).stdout)
    }
    policies = [name for name, text in said.items() if "runs       simulated" in text and "sampled    no" not in text]
    if arguments.policies:
        policies = [name for name in policies if name in arguments.policies.split(",")]
    common = {"date": datetime.date.today().isoformat(), "machine": machine()}
    data, speeds = [], []
    chosen = arguments.only.split(",") if arguments.only else None
    for name, path, totals in traces(sweephand, work):
        if chosen and name not in chosen:
            continue
        kept = work / f"{name}-errors.json"
        if not kept.exists():
            with ThreadPoolExecutor(arguments.jobs) as pool:
                done = pool.map(lambda policy: full(sweephand, path, policy, arguments.limit, work), policies)
                full_rows = {policy: found for policy, found in zip(policies, done) if found}
            if arguments.full_only:
                continue
            found = [
                row for sample in SAMPLES
                for row in errors(sweephand, path, totals, full_rows, sample, common | {"trace": name})
            ]  # fmt: skip
            kept.write_text(json.dumps(found))
        if arguments.full_only:
            continue
        data += [row for row in json.loads(kept.read_text()) if row["policy"] in policies]
        if name == LARGE and arguments.rounds:
            speeds += speed(sweephand, path, arguments.rounds, common | {"trace": name})
    if arguments.full_only:
        return
    write(RESULTS / f"{common['date']}-errors.csv", ERROR_COLUMNS, data)
    if speeds:
        write(RESULTS / f"{common['date']}-speed.csv", SPEED_COLUMNS, speeds)
    columns = ["policy", "sampled_pages", "mean_absolute_error", "largest_absolute_error", "mean_fault_error",
               "largest_fault_error", "within_2_standard_errors", "cells"]  # fmt: skip
    found = list(summary(data))
    if arguments.policies:
        found += [row for row in rows(MEASURED.read_text()) if row["policy"] not in policies]
        found.sort(key=lambda row: (list(said).index(row["policy"]), int(row["sampled_pages"])))
    write(MEASURED, columns, found)


if __name__ == "__main__":
    main()

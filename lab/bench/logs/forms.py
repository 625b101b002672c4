#!/usr/bin/env python3
"""How fast each form of a log is imported, beside the csv crate.

    forms.py [--rate PATH] [--rows N] [--runs N] --results FILE.csv

Makes one log (time, key, size) as plain CSV, as CSV with quotes, as JSON lines and as Parquet, and
imports each with `log_rate import`: only its sizes, as places in one page, which is the reading of
the form; and all of its columns, which also numbers the keys. The csv crate reads the two CSV
files. Prints medians of processor time: rows and megabytes a second, and the shares of those of the
csv crate on plain CSV. Needs pyarrow, and log_rate built with `--features parquet`.
"""

import argparse
import csv
import json
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

OBJECTS = 50_000


def make(folder: Path, rows: int) -> None:
    draw = random.Random(7)
    times = [number // 1000 for number in range(rows)]
    keys = [f"user:{draw.randrange(OBJECTS)}" for _ in range(rows)]
    sizes = [draw.randrange(1, 4000) for _ in range(rows)]
    table = list(zip(times, keys, sizes))
    forms = {
        "plain": '{},{},{}\n',
        "quoted": '{},"{}",{}\n',
        "doubled": '{},"{} ""x""",{}\n',
    }
    for form, row in forms.items():
        with open(folder / f"{form}.csv", "w") as file:
            file.writelines(row.format(*values) for values in table)
    with open(folder / "json.log", "w") as file:
        file.writelines(json.dumps({"time": t, "key": k, "size": s}) + "\n" for t, k, s in table)
    pq.write_table(pa.table({"time": times, "key": keys, "size": sizes}), folder / "parquet.log")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="target/release/examples/log_rate")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", required=True, type=Path)
    options = parser.parse_args()
    forms = [
        ("plain", "plain.csv"),
        ("quoted", "quoted.csv"),
        ("doubled quotes", "doubled.csv"),
        ("JSON lines", "json.log"),
        ("Parquet", "parquet.log"),
    ]
    commands = [
        ("csv crate, plain", ["csv", "plain.csv"]),
        ("csv crate, quoted", ["csv", "quoted.csv"]),
    ]
    for what, columns in [
        ("reading", ("offset=3", "offset=size")),
        ("import", ("time=1,key=2,size=3", "time=time,key=key,size=size")),
    ]:
        for form, log in forms:
            commands.append((f"{what}, {form}", ["import", columns[not log.endswith(".csv")], log]))
    found: dict[str, list[tuple[float, float]]] = {what: [] for what, _ in commands}
    with tempfile.TemporaryDirectory() as name, open(options.results, "w", newline="") as file:
        folder = Path(name)
        make(folder, options.rows)
        results = csv.writer(file, lineterminator="\n")
        results.writerow(["what", "bytes", "rows", "seconds", "processor_seconds", "rows_a_processor_second"])
        for _ in range(options.runs):
            for what, command in commands:
                *words, log = command
                program = [options.rate, *words, str(folder / log)]
                line = subprocess.run(program, check=True, capture_output=True, text=True).stdout
                _, size, rows, seconds, processor, *_ = next(csv.reader([line]))
                time = max(float(processor), 0.01)
                found[what].append((int(rows) / time, int(size) / time / 1e6))
                results.writerow([what, size, rows, seconds, processor, round(int(rows) / time)])
                file.flush()
    medians = {what: [statistics.median(of) for of in zip(*rates)] for what, rates in found.items()}
    whole = medians["csv crate, plain"]
    print("| what | rows a second | share | MB a second | share |")
    print("|---|---:|---:|---:|---:|")
    for what, rates in medians.items():
        shares = [f"{100 * rate / of:.0f} %" for rate, of in zip(rates, whole)]
        print(f"| {what} | {rates[0]:,.0f} | {shares[0]} | {rates[1]:.0f} | {shares[1]} |")


if __name__ == "__main__":
    main()

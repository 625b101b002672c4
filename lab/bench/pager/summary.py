#!/usr/bin/env python3
"""Which way of paging is fastest on which disk? Prints a table for each disk from results of
run.py, programs.py and real_programs.py: the kernel's seconds, and how many times as fast each
variant is. See README.md."""

import argparse
import statistics

import programs


def cell_of(row):
    """What a row is a run of, and under which variant."""
    if "workload" not in row:
        return f"{row['program']}, {row['part']}" if "part" in row else row["program"], row["variant"]
    variant, _, condition = row["variant"].partition(" ")
    return f"({row['workload']}, {row['limit_mib']} MiB{condition and f', {condition}'})", variant


class Cell:
    """The runs of a program under a variant."""

    def __init__(self, runs):
        self.is_late = any(row.get("status") == "patience" for row in runs)
        in_time = [row for row in runs if row.get("status") != "patience"]
        self.is_wrong = any(row.get("same_output", row.get("same", "1")) != "1" for row in in_time)
        self.seconds = statistics.median(float(row["seconds"]) for row in runs)


def show_disk(disk, rows):
    """A line for each program that ran under the kernel. Means are over those that ended there in
    time and with the right output; workloads of run.py are in brackets and in no mean."""
    variants = [variant for variant in dict.fromkeys(cell_of(row)[1] for row in rows) if variant != "kernel"]
    lines, times = [], {variant: [] for variant in variants}
    for name in dict.fromkeys(cell_of(row)[0] for row in rows):
        runs = {variant: [row for row in rows if cell_of(row) == (name, variant)] for variant in ["kernel", *variants]}
        if not runs["kernel"]:
            continue
        kernel = Cell(runs["kernel"])
        line = [name, "differs" if kernel.is_wrong else f"{'>' * kernel.is_late}{kernel.seconds:.2f}"]
        for variant in variants:
            cell = Cell(runs[variant]) if runs[variant] else None
            if cell is None or cell.is_wrong:
                line.append("differs" if cell else "-")
            elif kernel.is_wrong or kernel.is_late:
                line.append(f"{'>' * cell.is_late}{cell.seconds:.2f} s")
            else:
                line.append(f"{'<' * cell.is_late}{kernel.seconds / cell.seconds:.2f}")
                times[variant] += [kernel.seconds / cell.seconds] if not name.startswith("(") else []
        lines.append(line)
    means = [f"{statistics.geometric_mean(of):.3f} ({len(of)})" if of else "-" for of in times.values()]
    print(f"\nDisk: {disk}\n")
    programs.print_table(["program", "kernel s", *variants], [*lines, ["geometric mean (programs)", "", *means]])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", metavar="CSV")
    rows = [row for row in programs.read_rows(parser.parse_args().results) if row["variant"] != "native"]
    for disk in dict.fromkeys(row["disk"] for row in rows):
        show_disk(disk, [row for row in rows if row["disk"] == disk])
    print("\nTimes as fast as the kernel. >, <: a run was ended for taking too long, so the figure is a bound.")


if __name__ == "__main__":
    main()

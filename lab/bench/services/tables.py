"""What results come to: the least memory within the slowdown, and the tables. See README.md."""

import csv
import itertools
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pager"))
import programs

SLOWDOWN = 1.05
# What sets a limit otherwise.
OTHERS = ("peak", "95th percentile + 15 %", "damo report wss")


def isotonic(points):
    """The rates of (memory, rate) that rise with memory and are nearest to those given, by pooling
    neighbours that do not."""
    pools = []
    for memory, rate in sorted(points):
        pools.append(([memory], [rate]))
        while len(pools) > 1 and statistics.fmean(pools[-2][1]) > statistics.fmean(pools[-1][1]):
            memories, rates = pools.pop()
            pools[-1] = (pools[-1][0] + memories, pools[-1][1] + rates)
    return [(memory, statistics.fmean(rates)) for memories, rates in pools for memory in memories]


def least_memory(points, least):
    """The memory at which a rate, as a part of the one with all memory, comes to `least`, between
    the two nearest limits; None if all limits lie on one side."""
    fitted = isotonic(points)
    for (below, low), (above, high) in itertools.pairwise(fitted):
        if low < least <= high:
            return below + (above - below) * (least - low) / (high - low)
    return None


def read_rows(paths):
    rows = []
    for path in paths:
        with open(path, newline="") as file:
            rows += csv.DictReader(file)
    return rows


def number(row, field):
    return float(row[field]) if row.get(field) else None


def found_memory(rows):
    """The least memory within the slowdown, from the median of each limit's rounds. What was
    measured twice in a round counts with the better rate."""
    cells = {}
    for row in rows:
        part = number(row, "rate") / number(row, "rate_beside")
        rounds = cells.setdefault(number(row, "limit_mib"), {})
        rounds[row["round"]] = max(part, rounds.get(row["round"], 0))
    points = [(limit, statistics.median(rounds.values())) for limit, rounds in cells.items()]
    return least_memory(points, 1 / SLOWDOWN)


def shown(value, form=".0f", after=""):
    return "-" if value is None else f"{value:{form}}{after}"


def table(paths):
    """Predicted beside measured, and what watching costs."""
    rows = read_rows(paths)
    lines, errors, costs, usages, counts, longs = [], [], [], [], [], []
    for name in dict.fromkeys(row["service"] for row in rows):
        of = {}
        for row in rows:
            if row["service"] == name:
                of.setdefault(row["step"], []).append(row)
        native = of["native"][-1]
        predicted = of.get("predicted", [{}])[-1]
        least = found_memory(of["measured"]) if "measured" in of else None
        said = number(predicted, "slowdown_mib")
        error = None if least is None or said is None else 100 * (said / least - 1)
        errors += [] if error is None else [abs(error)]
        peak, rate = number(native, "peak_mib"), number(native, "rate")
        low, high = number(predicted, "at_least_mib"), number(predicted, "at_most_mib")
        line = [
            name,
            f"{shown(rate, ',.0f' if rate > 100 else '.3g')} {native['unit']}",
            shown(peak),
            f"{shown(low)} to {shown(high)}",
            shown(said),
        ]
        lines.append([*line, shown(least), shown(error, "+.0f", " %")])
        for row in of.get("cost", []):
            if number(row, "slowdown"):
                cost, ran = 1 / number(row, "slowdown"), number(row, "seconds")
                used = 100 * number(row, "watcher_cpu_s") / ran
                each, peak = number(row, "per_cpu_ratio"), number(row, "watcher_peak_mib")
                costs.append([name, shown(cost, ".3f"), shown(each, ".3f"), shown(used, ".2f", " %"), shown(peak)])
            else:
                costs.append([name, row["said"], "-", "-", "-"])
        for row in of.get("long", []):
            ran, cpu, peak = (number(row, field) for field in ("seconds", "watcher_cpu_s", "watcher_peak_mib"))
            longs.append([name, shown(ran), row["epochs"], shown(cpu, ".1f"), shown(100 * cpu / ran, ".2f", " %"), shown(peak)])
        if "usage" in of:
            by = {row["by"]: row for row in of["usage"]}
            limits = [by.get(other, {}) for other in OTHERS]
            pairs = [(number(row, "limit_mib"), number(row, "slowdown")) for row in limits]
            usages.append([name, *(text for mib, slow in pairs for text in (shown(mib), shown(slow, ".2f")))])
        if predicted:
            pairs = [
                (number(predicted, f"{kind}_mib"), number(predicted, f"stat_{kind}_mib"))
                for kind in ("anon", "shmem", "mapped")
            ]
            beside = [f"{shown(own, '.1f')}, {shown(kernel, '.1f')}" for own, kernel in pairs]
            counts.append([name, *beside, shown(number(predicted, "stat_file_mib"), ".1f")])
    print(f"The least memory for {100 * (SLOWDOWN - 1):.0f} % less, in MiB\n")
    titles = ["service", "alone", "peak", "enough, advise", "for 5 %, advise", "for 5 %, measured", "error"]
    programs.print_table(titles, lines)
    if errors:
        print(f"\nMedian error {statistics.median(errors):.0f} %, largest {max(errors):.0f} %")
    if counts:
        print("\nPages counted by watch, memory.stat, in MiB\n")
        programs.print_table(["service", "anonymous", "shared", "mapped", "cache in all"], counts)
    if costs:
        print("\nWhat watching costs\n")
        programs.print_table(
            ["service", "rate, times", "rate a processor second", "watcher's processor", "its MiB"], costs
        )
    if longs:
        print("\nA long watch\n")
        programs.print_table(["service", "seconds", "epochs", "processor s", "of the time", "its MiB"], longs)
    if usages:
        print("\nWhat others would set\n")
        programs.print_table(["service", *(word for other in OTHERS for word in (other, "slowdown"))], usages)

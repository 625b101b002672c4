#!/usr/bin/env python3
"""Five programs in shares of their memory under `auto`, other policies and the kernel: how many
pages are read, and how long does it take? Takes the options of ../pager/programs.py, which does the
work, and needs root. `--judge FILE.csv ...` compares `auto` with the best policy of each cell. See
README.md."""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pager"))
import programs  # noqa: E402

POLICIES = ["auto", "clock", "clock-pro-strict", "apr", "lifo-plus", "sieve"]
# What CLOCK-Pro's gnuplot does: it goes over all points again for each curve.
PLOT = (
    "set terminal svg; set output '/dev/stdout'; "
    "plot '{work}/points' using 0:2 with lines, '{work}/points' using 0:(column(2) / 2) with lines"
)
FIVE = [
    programs.Program("gnuplot", ["gnuplot", "-e", PLOT], "head -n 300000 {work}/lines > {work}/points", core=True),
    programs.Program(
        "numpy",
        ["python3", "{work}/small-stencil.py"],
        "sed 's/1400/900/; s/range(40)/range(12)/' {work}/stencil.py > {work}/small-stencil.py",
        core=True,
    ),
    programs.Program(
        "sort",
        ["sort", "-n", "--parallel=1", "-S", "400M", "{work}/some-numbers"],
        "head -n 1000000 {work}/numbers > {work}/some-numbers",
        core=True,
    ),
    *(program._replace(core=True) for program in programs.PROGRAMS if program.name == "sqlite3"),
    programs.Program(
        "gcc",
        ["gcc", "-O1", "-S", "-o", "/dev/stdout", "{work}/some.c"],
        "head -n 1000 {work}/large.c > {work}/some.c",
        core=True,
    ),
]


def judge(paths):
    """`auto` beside the best policy of each cell, by pages read; and each policy beside the best
    of all, on the mean. Fifty pages are added, because a few pages more or less mean nothing."""
    natives, cells = {}, {}
    ratios = {name: [] for name in POLICIES}
    for row in programs.read_rows(paths):
        if row["variant"] == "native":
            natives.setdefault(row["program"], []).append(processor(row))
        else:
            cells.setdefault((row["program"], row["part"]), {}).setdefault(row["variant"], []).append(row)
    print("| program | part |" + "".join(f" {name} |" for name in POLICIES) + " best | auto over the best | "
          "auto s | its s | clock-pro-strict s | kernel s | auto us a page | clock-pro-strict us |")
    print("|---|---:|" + "---:|" * len(POLICIES) + "---|" + "---:|" * 7)
    good = {}
    for (program, part), of in cells.items():
        whole = {name: [row for row in rows if row["same_output"] == "1"] for name, rows in of.items()}

        def middle(name, field, form=".0f", whole=whole):
            return f"{statistics.median(float(row[field]) for row in whole[name]):{form}}" if whole.get(name) else "-"

        def overhead(name, program=program, whole=whole):
            """Processor time beside that of the program alone, for each page read, if many are."""
            rows = [row for row in whole.get(name, []) if int(row["pages_read"]) >= 1000]
            each = [(processor(row) - statistics.median(natives[program])) / 1e3 / int(row["pages_read"]) for row in rows]
            return f"{statistics.median(each):.0f}" if each else "-"

        read = {name: middle(name, "pages_read") for name in POLICIES}
        pages = {name: int(of_it) for name, of_it in read.items() if of_it != "-"}
        best = min((name for name in pages if name != "auto"), key=pages.get, default=None)
        over, is_good = "-", False
        if best and "auto" in pages:
            over = f"{pages['auto'] / pages[best]:.2f}" if pages[best] else "-"
            # A program that reads next to nothing needs no choice.
            is_good = pages["auto"] <= max(1.05 * pages[best], pages[best] + 50)
        seconds = [middle(name, "seconds", ".2f") for name in ["auto", best, "clock-pro-strict", "kernel"]]
        line = [program, part, *read.values(), best or "-", over, *seconds, overhead("auto"), overhead("clock-pro-strict")]
        print("| " + " | ".join(line) + " |")
        good.setdefault(program, []).append(is_good)
        if max(pages.values(), default=0) > 0:
            least = min(pages.values()) + 50
            for name, of_it in pages.items():
                ratios[name].append((of_it + 50) / least)
    for program, cells_of in good.items():
        print(f"{program}: auto within 5 % of the best (or 50 pages) in {sum(cells_of)} of {len(cells_of)} cells")
    for name, of_it in ratios.items():
        if of_it:
            print(f"{name}: {statistics.geometric_mean(of_it):.3f} times the pages of the best, in {len(of_it)} cells that read")


def processor(row):
    return int(row["user_ns"]) + int(row["sys_ns"])


def main():
    if sys.argv[1:2] == ["--judge"]:
        return judge(sys.argv[2:])
    programs.PROGRAMS[:] = FIVE
    sys.argv[1:1] = ["--variants", ",".join(["kernel", *POLICIES]), "--parts", "0.4,0.6,0.8"]
    return programs.main()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Five programs in shares of their memory under `auto`, other policies and the kernel: how many
pages are read, and how long does it take? Takes the options of ../pager/programs.py, which does the
work, and needs root. `--judge FILE.csv ...` compares `auto` with the best policy of each cell.
`--simulated` runs the programs without read-ahead and simulates each run: it takes the options of
../pager/live_beside_simulated.py. See README.md."""

import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pager"))
import live_beside_simulated  # noqa: E402
import programs  # noqa: E402

POLICIES = ["auto", "clock", "clock-pro", "apr", "lifo-plus", "sieve"]
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
    *(program._replace(core=True) for program in programs.PROGRAMS if program.name in ("sqlite3", "gcc")),
]


def judge(paths):
    """`auto` beside the best policy of each cell, by pages read."""
    cells = {}
    for row in programs.read_rows(paths):
        if row["variant"] != "native":
            cells.setdefault((row["program"], row["part"]), {}).setdefault(row["variant"], []).append(row)
    print("| program | part | best | its pages | auto | over the best | auto s | its s | clock-pro s |\n|---|---:|---|" + "---:|" * 6)
    good = {}
    for (program, part), of in cells.items():
        whole = {name: [row for row in rows if row["same_output"] == "1"] for name, rows in of.items()}

        def middle(name, field, whole=whole):
            return statistics.median(float(row[field]) for row in whole[name])

        ran = [name for name in POLICIES if whole.get(name)]
        best = min((name for name in ran if name != "auto"), key=lambda name: middle(name, "pages_read"))
        pages = middle(best, "pages_read")
        line = [program, part, best, f"{pages:.0f}"]
        if "auto" in ran:
            auto = middle("auto", "pages_read")
            # A program that reads next to nothing needs no choice.
            is_good = auto <= max(1.05 * pages, pages + 50)
            line += [f"{auto:.0f}", f"{auto / max(pages, 1):.3f}", f"{middle('auto', 'seconds'):.2f}"]
        else:
            is_good, line = False, [*line, "failed", "", ""]
        good.setdefault(program, []).append(is_good)
        second = f"{middle('clock-pro', 'seconds'):.2f}" if "clock-pro" in ran else ""
        print("| " + " | ".join([*line, f"{middle(best, 'seconds'):.2f}", second]) + " |")
    for program, cells_of in good.items():
        print(f"{program}: auto within 5 % of the best (or 50 pages) in {sum(cells_of)} of {len(cells_of)} cells")


def commands(work):
    """The programs, by name. Of gcc only the compiler: the driver would be recorded instead."""
    words = {program.name: [word.format(work=work) for word in program.command] for program in FIVE}
    compiler = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
    words["gcc"] = [compiler, "-quiet", "-O1", "-o", "/dev/null", f"{work}/large.c"]
    return {name: [programs.executable(first), *rest] for name, (first, *rest) in words.items()}


def make_workshop(work):
    programs.make_workshop(work)
    for program in FIVE:
        subprocess.run(["sh", "-c", program.before.format(work=work)], check=True)


def simulated():
    """Is `auto` behind its experts because of the policy, or because of the live side?"""
    live_beside_simulated.commands, live_beside_simulated.make_workshop = commands, make_workshop
    sys.argv[1:2] = ["--policies", ",".join(POLICIES)]
    return live_beside_simulated.main()


def main():
    if sys.argv[1:2] == ["--judge"]:
        return judge(sys.argv[2:])
    if sys.argv[1:2] == ["--simulated"]:
        return simulated()
    programs.PROGRAMS[:] = FIVE
    sys.argv[1:1] = ["--variants", ",".join(["kernel", *POLICIES]), "--parts", "0.4,0.6,0.8"]
    return programs.main()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Time and memory of policies by number of pages and of references, and what bounds them. See
README.md for the commands."""

import argparse
import csv
import datetime
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import Failure, generate, measure, processor, say, simulate  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
POLICIES = ["fifo", "clock", "lru", "clock-pro-strict", "lirs", "opt"]
COLUMNS = [
    "date", "machine", "version", "string", "policy", "pages", "frames", "references", "cpu_s",
    "ns_per_reference", "peak_rss_kib", "bytes_per_page",
]  # fmt: skip


def rows_of(options, string, pattern, references, frames, policies, folder):
    """A string of references under each policy at a memory size; decoding alone comes first. Each
    is run as often as asked for, and the least time counts."""
    trace = folder / f"{string}-{references}.swt"
    generate(options.sweephand, pattern, references, trace)
    pages, base_kib = "", 0
    for policy in ["decode", *policies]:
        best = None
        for _ in range(options.rounds):
            if policy == "decode":
                run = measure([options.decode, trace])
            else:
                run, results = simulate(options.sweephand, trace, [policy], frames(pages))
                pages = int(results[policy]["distinct_pages"])
            if best is None or run.cpu_s < best.cpu_s:
                best = run
        if policy == "decode":
            base_kib = best.peak_rss_kib
            pages = distinct_pages(trace)
        row = {
            "string": string, "policy": policy, "pages": pages,
            "frames": "" if policy == "decode" else frames(pages), "references": references,
            "cpu_s": f"{best.cpu_s:.3f}", "ns_per_reference": f"{best.cpu_s / references * 1e9:.2f}",
            "peak_rss_kib": best.peak_rss_kib,
            # OPT's memory goes with the references.
            "bytes_per_page": "" if policy in ("decode", "opt")
            else f"{(best.peak_rss_kib - base_kib) * 1024 / pages:.1f}",
        }  # fmt: skip
        say(f"{string} {policy}: {row['ns_per_reference']} ns, {row['bytes_per_page']} B a page")
        yield row
    trace.unlink()


def distinct_pages(trace):
    with open(trace, "rb") as file:
        return int.from_bytes(file.read(64)[56:64], "little")


def strings(options):
    """Name, pattern of `generate`, references, frames from pages, policies."""
    half = lambda pages: max(1, pages // 2)  # noqa: E731
    fixed = lambda _: 100_000  # noqa: E731
    if options.part == "bounds":
        # The coin of `mixed`, without it, with hits only, and with faults only.
        mixed = ["mixed"]
        yield "mixed", mixed, options.references, fixed, options.policies
        yield "alternating", [*mixed, "--alternate"], options.references, fixed, options.policies
        yield "hits", mixed, options.references, lambda pages: pages, options.policies
        yield "faults", ["loop", "--pages", "1000000"], options.references, fixed, options.policies
    elif options.part == "pages":
        for pages in options.pages:
            references = max(options.references, 2 * pages)
            yield f"uniform {pages}", ["uniform", "--pages", str(pages)], references, half, options.policies
    else:
        for references in options.lengths:
            yield "mixed", ["mixed"], references, fixed, options.policies
        if options.loop:
            loop = ["loop", "--pages", "200000"]
            yield "loop", loop, options.loop, fixed, ["clock"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("part", choices=["bounds", "pages", "references", "draw"], help="draw: the rows that are there")
    add("--sweephand", type=Path, default=ROOT / "target/release/sweephand", metavar="PATH")
    add("--decode", type=Path, default=ROOT / "target/release/examples/decode", metavar="PATH",
        help="the example of crates/trace")  # fmt: skip
    add("--policies", type=lambda text: text.split(","), default=POLICIES, metavar="LIST")
    add("--references", type=int, default=20_000_000, metavar="N", help="[default: 20 million]")
    add("--pages", type=numbers, default=[10**4, 10**5, 10**6, 10**7], metavar="LIST")
    add("--lengths", type=numbers, default=[10**6, 10**7, 10**8], metavar="LIST")
    add("--loop", type=int, metavar="N", help="references of a loop of 200,000 pages, CLOCK only")
    add("--rounds", type=int, default=3, metavar="N", help="the least time of this many runs [default: 3]")
    add("--work", type=Path, metavar="DIR", help="where temporary files go")
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="CSV to write, or to append to")
    options = parser.parse_args()
    if options.part == "draw":
        return draw(options)
    version = measure([options.sweephand, "--version"]).output.split()[-1]
    fixed = {"date": datetime.date.today().isoformat(), "machine": processor(), "version": version}
    begins = not options.output.exists()
    with (
        open(options.output, "a", encoding="utf-8", newline="") as file,
        tempfile.TemporaryDirectory(prefix="sweephand-scaling-", dir=options.work) as folder,
    ):
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if begins:
            writer.writeheader()
        for string, pattern, references, frames, policies in strings(options):
            for row in rows_of(options, string, pattern, references, frames, policies, Path(folder)):
                writer.writerow(fixed | row)
                file.flush()


def draw(options):
    """Three pictures in one: time and memory by the number of pages, time by that of references."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with open(options.output, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    panels = [
        ("uniform", "pages", "ns_per_reference", "pages", "ns a reference"),
        ("uniform", "pages", "bytes_per_page", "pages", "bytes a page"),
        ("mixed", "references", "ns_per_reference", "references", "ns a reference"),
    ]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(12, 4), layout="constrained")
    for axis, (string, x, y, below, beside) in zip(axes, panels, strict=True):
        kept = [row for row in rows if row["string"].split()[0] == string and row[y]]
        for number, policy in enumerate(["decode", *POLICIES]):
            # A string that was run twice: the least.
            points = {}
            for row in kept:
                if row["policy"] == policy:
                    x_value, y_value = int(row[x]), float(row[y])
                    points[x_value] = min(y_value, points.get(x_value, y_value))
            if points:
                line = zip(*sorted(points.items()), strict=True)
                axis.plot(*line, marker="o", markersize=3, color=f"C{number}", label=policy)
        axis.set(xscale="log", xlabel=below, ylabel=beside)
        # A small trace shares the program's own memory among few pages.
        axis.set(yscale="log") if y == "bytes_per_page" else axis.set(ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    # The same rows, the same file.
    pyplot.rcParams["svg.hashsalt"] = "sweephand"
    figure.savefig(options.output.with_suffix(".svg"), metadata={"Date": None})


def numbers(text):
    return [int(float(number)) for number in text.split(",")]


if __name__ == "__main__":
    os.environ["RAYON_NUM_THREADS"] = "1"
    try:
        main()
    except (Failure, OSError, subprocess.CalledProcessError) as error:
        print(f"scaling.py: {error}", file=sys.stderr)
        sys.exit(2)

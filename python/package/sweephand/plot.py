"""Pictures, drawn with matplotlib if it is installed.

Each function draws into `ax`, or into a new figure, and returns the axes. They can be changed and
saved like any others.
"""

from __future__ import annotations

import json
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING

from sweephand._simulate import ReuseDistances, reuse_distances
from sweephand._sweephand import Trace

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

MIB = 1 << 20


def faults(table: pa.Table, *, refaults: bool = False, log: bool = False, ax: Axes | None = None) -> Axes:
    """Draws page faults against memory, in MiB: a curve for each policy and trace.

    table: the result of `simulate`.
    refaults: leave out first touches, which read no disk.
    log: count on a logarithmic axis.
    """
    axes = _axes(ax)
    described = json.loads(table.schema.metadata[b"sweephand"])["traces"]
    page_bytes = {trace["trace"]: trace["page_bytes"] for trace in described}
    curves: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for row in table.to_pylist():
        count = row["faults"] - (row["first_touch_faults"] if refaults else 0)
        memory = row["memory_pages"] * page_bytes[row["trace"]] / MIB
        curves.setdefault((row["trace"], row["policy"]), []).append((memory, count))
    for (trace, policy), points in curves.items():
        label = policy if len(page_bytes) == 1 else f"{policy}, {trace}"
        axes.plot(*zip(*sorted(points), strict=True), marker=".", label=label)
    axes.set_xlabel("memory, MiB")
    axes.set_ylabel("page faults but first touches" if refaults else "page faults")
    axes.set_yscale("log" if log else "linear")
    if not log:
        axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def distances(of: Trace | str | PathLike[str] | ReuseDistances, *, ax: Axes | None = None) -> Axes:
    """Draws the number of references at each LRU stack distance, in pages: a bar for each power of
    two.

    of: a trace, or the result of `reuse_distances`.
    """
    axes = _axes(ax)
    counts = (of if isinstance(of, ReuseDistances) else reuse_distances(of)).counts
    last = max(len(counts) - 1, 1).bit_length()
    edges = [1 << power for power in range(last + 1)]
    sums = [int(counts[low:high].sum()) for low, high in pairwise(edges)]
    axes.stairs(sums, edges, fill=True)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("LRU stack distance, pages")
    axes.set_ylabel("references")
    return axes


def pages(trace: Trace | str | PathLike[str], *, columns: int = 800, rows: int = 400, ax: Axes | None = None) -> Axes:
    """Draws which pages are touched when: page against time, in records of the trace. Darker means
    more often.

    Pages are in the order of their numbers, without the gaps between them.
    """
    import numpy as np

    axes = _axes(ax)
    opened = trace if isinstance(trace, Trace) else Trace.open(trace)
    numbers, _ = opened.to_numpy()
    known, ranks = np.unique(numbers, return_inverse=True)
    bins = (min(rows, max(len(known), 1)), min(columns, max(len(numbers), 1)))
    extent = ((0, max(len(known), 1)), (0, max(len(numbers), 1)))
    touched, _, _ = np.histogram2d(ranks, np.arange(len(numbers)), bins=bins, range=extent)
    shown = np.ma.masked_equal(np.log1p(touched), 0)
    axes.imshow(shown, origin="lower", aspect="auto", cmap="Blues", vmin=-0.5, extent=(*extent[1], *extent[0]))
    axes.set_xlabel("time, records")
    axes.set_ylabel("page, in order of page number")
    return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots()[1]

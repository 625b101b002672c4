"""Pictures, drawn with matplotlib if it is installed.

Each function draws into `ax`, or into a new figure, and returns the axes, which can be changed and
saved as any others. Colours are those of matplotlib's style, dark ones too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import cycle, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sweephand._arguments import TraceLike, one_trace, whole_numbers
from sweephand._simulate import ReuseDistances, reuse_distances
from sweephand._sweephand import SweephandError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sweephand._table import Table

MIB = 1 << 20

_MOST_INSIDE = 6
"""Curves that are named inside of the axes; more are named beside them."""

_A_COLUMN = 20
"""Curves that are named in one column."""

_STYLES = ("-", "--", ":", "-.")
"""What tells curves apart when there are no more colours."""


def faults(
    table: Table | pd.DataFrame,
    *,
    refaults: bool = False,
    log: bool = False,
    page_bytes: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws page faults against memory, in MiB: a curve for each policy and trace.

    table: the result of `simulate` or `Sweep.table`, or its rows, all or some, as a DataFrame of
        pandas or polars: the columns `memory_pages` and `faults`, and `trace` and `policy` where
        there is more than one.
    refaults: leave out first touches, which read no disk.
    log: count on a logarithmic axis.
    page_bytes: bytes a page. What `simulate` returned knows; where it is not known and not said,
        memory is in pages.
    ax: where to draw; by default a new figure.

    Raises a `SweephandError` for a table without rows or without these columns.

    >>> table = sweephand.simulate([1, 2, 3, 1, 2, 4], ["fifo", "opt"], [2, 3, 4])
    >>> axes = sweephand.plot.faults(table)
    >>> [line.get_label() for line in axes.get_lines()]
    ['fifo', 'opt']
    """
    rows = _rows(table, ["memory_pages", "faults", *(["first_touch_faults"] if refaults else [])])
    sizes = _page_bytes(table)
    if page_bytes is not None:
        sizes = dict.fromkeys({row["trace"] for row in rows}, whole_numbers("page_bytes", page_bytes)[0])
    in_pages = not all(row["trace"] in sizes for row in rows)
    curves: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for row in rows:
        count = row["faults"] - (row["first_touch_faults"] if refaults else 0)
        memory = row["memory_pages"] if in_pages else row["memory_pages"] * sizes[row["trace"]] / MIB
        curves.setdefault((row["trace"], row["policy"]), []).append((memory, count))
    axes = _axes(ax)
    labels = _labels(list(curves))
    looks = _looks(axes, len(curves))
    for points, label, look in zip(curves.values(), labels, looks, strict=False):
        axes.plot(*zip(*sorted(points), strict=True), marker=".", label=label, **look)
    axes.set_xlabel("memory, pages" if in_pages else "memory, MiB")
    axes.set_ylabel("page faults but first touches" if refaults else "page faults")
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        _short(axes.yaxis)
    if any(labels):
        _name_curves(axes, len(curves), own_figure=ax is None)
    return axes


def distances(of: TraceLike | ReuseDistances, *, ax: Axes | None = None) -> Axes:
    """Draws the number of references at each LRU stack distance, in pages: a bar for each power of
    two.

    of: a trace, or the result of `reuse_distances`. For a reduced trace the picture shows the
        window, inside of which most references are left out.
    ax: where to draw; by default a new figure.

    Raises a `SweephandError` if no page is referenced twice.

    >>> axes = sweephand.plot.distances([1, 2, 3, 1, 2, 3])
    >>> axes.get_xlabel()
    'stack distance, pages'
    """
    window = 0
    if not isinstance(of, ReuseDistances):
        trace = one_trace("of", of)
        of, window = reuse_distances(trace), trace.window
    counts = of.counts
    if not counts.any():
        raise SweephandError("of: there is nothing to draw: no page is referenced twice")
    axes = _axes(ax)
    last = max(len(counts) - 1, 1).bit_length()
    edges = [1 << power for power in range(last + 1)]
    sums = [int(counts[low:high].sum()) for low, high in pairwise(edges)]
    axes.stairs(sums, edges, fill=True)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("stack distance, pages")
    axes.set_ylabel("references")
    _short(axes.yaxis)
    if window > 1:
        axes.axvspan(1, window, alpha=0.3, color="gray", label=f"window of {window}")
        axes.legend()
    return axes


def pages(trace: TraceLike, *, columns: int = 800, rows: int = 400, ax: Axes | None = None) -> Axes:
    """Draws which pages are touched when: page against time, in records of the trace. A
    stronger colour means more often.

    trace: a `Trace`, the path of one, or an array of page numbers, shape (references,).
    columns, rows: cells of the picture, at most.
    ax: where to draw; by default a new figure.

    Pages are in the order of their numbers, without the gaps between them. Raises a
    `SweephandError` for a trace without references.

    >>> axes = sweephand.plot.pages([900, 900, 5, 70])
    >>> axes.get_images()[0].get_array().shape
    (3, 4)
    """
    import numpy as np

    opened = one_trace("trace", trace)
    for name, cells in [("columns", columns), ("rows", rows)]:
        if whole_numbers(name, cells)[0] == 0:
            raise SweephandError(f"{name} 0: give at least 1")
    numbers, _ = opened.to_numpy()
    if not len(numbers):
        raise SweephandError(f"trace: there is nothing to draw: {opened.name} has no references")
    axes = _axes(ax)
    known, ranks = np.unique(numbers, return_inverse=True)
    bins = (min(rows, len(known)), min(columns, len(numbers)))
    extent = ((0, len(known)), (0, len(numbers)))
    touched, _, _ = np.histogram2d(ranks, np.arange(len(numbers)), bins=bins, range=extent)
    shown = np.ma.masked_equal(np.log1p(touched), 0)
    # What is touched more often stands out from the background, whichever that is.
    most = float(shown.max())
    colours, least = ("Blues_r", -0.6 * most) if _is_dark(axes) else ("Blues", -0.5)
    axes.imshow(
        shown,
        origin="lower",
        aspect="auto",
        cmap=colours,
        vmin=least,
        vmax=most,
        extent=(*extent[1], *extent[0]),
    )
    axes.set_xlabel("time, records")
    axes.set_ylabel("pages, by number")
    _short(axes.xaxis)
    _short(axes.yaxis)
    return axes


def _rows(table: Any, needed: list[str]) -> list[dict[str, Any]]:
    """The rows of a table of any kind, with a trace and a policy in each."""
    names = list(getattr(table, "column_names", getattr(table, "columns", [])))
    for name in needed:
        if name not in names:
            raise SweephandError(f"table: has no column '{name}'; give what simulate returned, or rows of it")
    columns = {name: _values(table[name]) for name in [*needed, "trace", "policy"] if name in names}
    length = len(columns[needed[0]])
    if not length:
        raise SweephandError("table: there is nothing to draw: it has no rows")
    unnamed = {"trace": [""] * length, "policy": [""] * length}
    columns = {**unnamed, **columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: Any) -> list[Any]:
    for way in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, way):
            return cast(list[Any], getattr(column, way)())
    return list(column)


def _page_bytes(table: Any) -> dict[str, int]:
    """The bytes a page of each trace, as far as the table knows."""
    metadata = getattr(getattr(table, "schema", None), "metadata", None)
    attributes = getattr(table, "attrs", None)
    origin: Any = None
    if isinstance(attributes, Mapping):
        origin = attributes.get("sweephand")
    elif metadata:
        origin = json.loads(metadata.get(b"sweephand", b"null"))
    return {trace["trace"]: trace["page_bytes"] for trace in (origin or {}).get("traces", [])}


def _labels(curves: list[tuple[str, str]]) -> list[str]:
    """What the curves are called: by what tells them apart."""
    traces = {trace for trace, _ in curves}
    short = {trace: Path(trace).name for trace in traces}
    if len(set(short.values())) < len(traces):
        short = {trace: trace for trace in traces}
    if len(traces) == 1:
        return [policy for _, policy in curves]
    return [", ".join(filter(None, [policy, short[trace]])) for trace, policy in curves]


def _looks(axes: Axes, curves: int) -> list[dict[str, Any]]:
    """Colours of the style, and kinds of lines where there are more curves than colours."""
    from matplotlib import rcParams

    colours = rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])
    if curves <= len(colours):
        # Whatever else is drawn into the axes has its own.
        return [{}] * curves
    looks = cycle(product(_STYLES, colours))
    return [{"linestyle": style, "color": colour} for (style, colour), _ in zip(looks, range(curves), strict=False)]


def _name_curves(axes: Axes, curves: int, own_figure: bool) -> None:
    """Puts the names of the curves where they hide none."""
    if curves <= _MOST_INSIDE:
        axes.legend()
    elif own_figure:
        legend = axes.legend(
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            borderaxespad=0,
            ncols=-(-curves // _A_COLUMN),
            fontsize="small",
        )
        # The figure grows by the names, so that the curves keep their room.
        figure = cast("Figure", axes.figure)
        width, height = figure.get_size_inches()
        named = legend.get_window_extent()
        figure.set_size_inches(width + named.width / figure.dpi, max(height, named.height / figure.dpi + 1))
    else:
        # Nothing makes room beside the axes of somebody else.
        axes.legend(ncols=-(-curves // _MOST_INSIDE), fontsize="x-small", framealpha=0.6)


def _short(axis: Any) -> None:
    """Numbers as people say them: 250k, 1.2M."""
    from matplotlib.ticker import EngFormatter

    axis.set_major_formatter(EngFormatter(sep=""))


def _is_dark(axes: Axes) -> bool:
    from matplotlib.colors import to_rgb

    return sum(to_rgb(axes.get_facecolor())) < 1.5


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise SweephandError("pictures need matplotlib; pip install 'sweephand[notebook]'") from error
    # So that nothing of what is written at the axes is cut off.
    return pyplot.subplots(layout="constrained")[1]

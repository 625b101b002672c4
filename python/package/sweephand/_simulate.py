"""Simulations of one reference string at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from sweephand import _sweephand
from sweephand._progress import Progress, watched
from sweephand._sweephand import POLICIES, SIZES, Trace
from sweephand._table import table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from sweephand.policy import PolicyMaker


def simulate(
    traces: Trace | str | PathLike[str] | Iterable[Trace | str | PathLike[str]],
    policies: str | PolicyMaker | Sequence[str | PolicyMaker] = POLICIES,
    memory: str | int | Sequence[str | int] = SIZES,
    *,
    collapse: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> pa.Table:
    """Counts the page faults of every policy at every memory size on every trace, as `sweephand
    simulate` does.

    traces: one or more: a `Trace`, or the path of one.
    policies: names with parameters, as in `clock-pro:cold=5%`, in a comma list or a sequence. `all`
        stands for all policies. Give a policy of your own by its class, or by a function that makes
        one for a number of frames: see `sweephand.Policy`.
    memory: sizes, in a comma list or a sequence: pages (`300p`, or the number 300), bytes
        (`64MiB`), shares of the trace's pages (`25%`), or `all`.
    collapse: hide references that repeat the one before them from the policies. They still count.
    threads: processors to use; by default all of them.
    progress: see `sweephand.Progress`.

    Returns one row for each trace, policy and memory size, in that order. The columns are those of
    the command's CSV: `trace`, `policy`, `memory_pages`, `references`, `distinct_pages`, `faults`,
    `first_touch_faults`, `warmup_faults`, `evictions`, `hit_ratio` (1 - faults / references),
    `faults_per_million_instructions` (null if instructions are not known), `hand_steps`. The
    schema's metadata has, under `sweephand`, version, options, conventions and traces as JSON.
    """
    opened = [trace if isinstance(trace, Trace) else Trace.open(trace) for trace in _several(traces)]
    listed = [memory] if isinstance(memory, str | int) else memory
    sizes = [f"{size}p" if isinstance(size, int) else size for size in listed]
    asked = [policies] if isinstance(policies, str) or callable(policies) else list(policies)
    with watched(progress, "ref") as show:
        return table(*_sweephand.simulate(opened, asked, sizes, collapse, threads, show))


class ReuseDistances(NamedTuple):
    """The LRU stack distances of a trace's references."""

    counts: npt.NDArray[np.uint64]
    """By LRU stack distance d, in pages, from 0: how many references find their page at that depth
    of the LRU stack. LRU hits them with d pages of memory or more, so `counts[: m + 1].sum()` are
    its hits in m pages. `counts[0]` is 0."""
    first_touches: int
    """References to pages for the first time, or for the first time since their contents were
    dropped."""


def reuse_distances(trace: Trace | str | PathLike[str], *, progress: Progress = None) -> ReuseDistances:
    """Counts the references of a trace by their LRU stack distance: the number of different pages
    since the last reference to the same page, that page included.

    In a reduced trace (`trace.window` > 0), some references at distances up to the window are left
    out. They are not counted.
    """
    opened = trace if isinstance(trace, Trace) else Trace.open(trace)
    with watched(progress, "ref") as show:
        return ReuseDistances(*_sweephand.reuse_distances(opened, show))


def _several(traces: Trace | str | PathLike[str] | Iterable[Trace | str | PathLike[str]]) -> list[Trace | str | PathLike[str]]:
    return [traces] if isinstance(traces, Trace | str | PathLike) else list(traces)

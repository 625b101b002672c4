"""Simulations of one reference string at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sweephand import _sweephand
from sweephand._arguments import (
    Memory,
    Policies,
    Size,
    TraceLike,
    Traces,
    Warmup,
    one_trace,
    sample_size,
    several_policies,
    several_sizes,
    several_traces,
    thread_count,
    warmup_length,
    whole_numbers,
)
from sweephand._progress import Progress, watched
from sweephand._sweephand import POLICIES, SIZES, SweephandError
from sweephand._table import Table, table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def simulate(
    traces: Traces,
    policies: Policies = POLICIES,
    memory: Memory = SIZES,
    *,
    collapse: bool = False,
    sample: Size | None = None,
    sample_seed: int | None = None,
    warmup: Warmup | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Table:
    """Counts the page faults of every policy at every memory size on every trace, as `sweephand
    simulate` does.

    traces: one or more: a `Trace`, the path of one, or an array of page numbers, shape
        (references,). A trace that is given twice counts once. Two traces with one name are an
        error.
    policies: names with parameters, as in `clock-pro:cold=5%`, in a comma list or one by one. `all`
        stands for all policies. Give a policy of your own by its class, or by a function that makes
        one for a number of frames: see `sweephand.Policy`. Names and classes may be mixed. A policy
        that is given twice counts once.
    memory: sizes, in a comma list or one by one: pages (`300p`, or the whole number 300), bytes
        (`64MiB`), shares of the trace's pages (`25%`, or the number 0.25), or `all`. Sizes that
        come to the same number of pages are one size.
    collapse: hide references that repeat the one before them from the policies. They still count.
    sample: estimate from some of the pages: a share (`1%`, or 0.01) or a number (`8192p`, or 8192).
        Two more columns say how far the estimate may be off.
    sample_seed: another seed takes another sample.
    warmup: count from there on: after this many references (`100000`), a share of them (`20%`,
        or 0.2), or a time of the trace's log (`2h`). What comes before fills memory. Not with a
        sample.
    threads: processors to use; by default all of them, which is also the most.
    progress: see `sweephand.Progress`.

    Returns a `pyarrow.Table` with one row for each trace, policy and memory size, in that order.
    The columns are those of the command's CSV: `trace`, `policy`, `memory_pages` (pages),
    `references`, `distinct_pages` (pages), `faults`, `first_touch_faults`, `warmup_faults`,
    `evictions`, `hit_ratio` (1 - faults / references), `faults_per_million_instructions` (null
    where instructions are not known), `hand_steps`; of a sample `sampled_pages` and
    `hit_ratio_error` (a standard error). Two more follow: `memory`, the size as it was asked for,
    and `trace_checksum`. Counts are int64. What the rows depend on (version, options,
    conventions, traces) is in the schema's metadata under `sweephand`, as JSON, and after
    `to_pandas()` in `attrs["sweephand"]` (with pyarrow 22 or newer).

    Raises a `SweephandError` that names the argument, and what is wrong with it. An exception in a
    policy of one's own comes out as it is. Warns where a trace is reduced and a memory small.

    >>> table = sweephand.simulate([1, 2, 3, 1, 2, 4], ["fifo", "opt"], [2, "100%"])
    >>> table.select(["policy", "memory", "memory_pages", "faults"]).to_pandas()
      policy memory  memory_pages  faults
    0   fifo     2p             2       6
    1   fifo   100%             4       4
    2    opt     2p             2       5
    3    opt   100%             4       4
    """
    if sample is None and sample_seed is not None:
        raise SweephandError("sample_seed: there is no sample; add one, or leave it out")
    seed = None if sample_seed is None else whole_numbers("sample_seed", sample_seed)[0]
    if sample is not None and warmup is not None:
        raise SweephandError("warmup: not with a sample; leave one of them out")
    opened, asked, sizes = several_traces(traces), several_policies(policies), several_sizes(memory)
    processors = thread_count(threads)
    with watched(progress, "ref") as show:
        return table(
            *_sweephand.simulate(
                opened, asked, sizes, collapse, sample_size(sample), seed, warmup_length(warmup), processors, show
            )
        )


class ReuseDistances(NamedTuple):
    """The LRU stack distances of a trace's references.

    >>> distances = sweephand.reuse_distances([1, 2, 1, 1])
    >>> distances.counts.tolist(), distances.first_touches
    ([0, 1, 1], 2)
    """

    counts: npt.NDArray[np.int64]
    """By LRU stack distance d, in pages, from 0: how many references find their page at that depth
    of the LRU stack; int64, shape (largest distance + 1,). LRU hits them with d pages of memory or
    more, so `counts[: m + 1].sum()` are its hits in m pages. `counts[0]` is 0."""
    first_touches: int
    """References to pages for the first time, or for the first time since their contents were
    dropped."""


def reuse_distances(trace: TraceLike, *, progress: Progress = None) -> ReuseDistances:
    """Counts the references of a trace by their LRU stack distance: the number of different pages
    since the last reference to the same page, that page included.

    trace: a `Trace`, the path of one, or an array of page numbers, shape (references,).
    progress: see `sweephand.Progress`.

    Returns `ReuseDistances`: an array of counts by distance, in pages, and the first touches.

    In a reduced trace (`trace.window` > 0), some references at distances up to the window are left
    out. They are not counted, and a warning says how many of the counted distances lie there.
    Raises a `SweephandError` if there is no such trace.

    >>> sweephand.reuse_distances([1, 2, 3, 1, 2, 3]).counts.tolist()
    [0, 0, 0, 3]
    """
    opened = one_trace("trace", trace)
    with watched(progress, "ref") as show:
        return ReuseDistances(*_sweephand.reuse_distances(opened, show))

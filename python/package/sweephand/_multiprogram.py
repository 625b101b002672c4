"""Many tasks in one memory."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath

from sweephand import _sweephand
from sweephand._arguments import several_policies, thread_count, whole_numbers
from sweephand._progress import Progress, watched
from sweephand._sweephand import SweephandError
from sweephand._table import Table, table


def multiprogram(
    configurations: str | PathLike[str] | Iterable[str | PathLike[str]],
    policies: str | Iterable[str] | None = None,
    *,
    theta: int | Iterable[int] = (),
    seeds: int | Iterable[int] = (),
    irim: int | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Table:
    """Runs many tasks on a simulated computer with paging devices and load control, as
    `sweephand multiprogram` does.

    configurations: one or more: `A`, `B` or `C`, those of the WSCLOCK paper, or TOML files.
    policies: names in a comma list or a sequence, instead of the configuration's.
    theta: windows of the working set, in references, instead of the configuration's; none, or an
        empty list, are the configuration's.
    seeds: results are means over them; likewise.
    irim: simulate intervals of this omega in place of every reference; 0: every reference.
    threads: processors to use; by default all of them, which is also the most.
    progress: see `sweephand.Progress`.

    Returns one row for each configuration, policy and theta, in that order. The columns are those
    of the command's CSV: `configuration`, `policy`, `theta_refs` (null for policies without a
    window), `utilization` (references executed by time elapsed), `mean_mpl` (active tasks),
    `deactivations`, `page_faults`, `pointer_travel_per_replacement` (pages; null without a hand),
    `ws_scans`. The schema's metadata has, under `sweephand`, version, options, conventions and
    configurations as JSON. Counts are int64.

    Raises a `SweephandError` that names the configuration, or the argument, and what is wrong.

    >>> table = sweephand.multiprogram("A", "wsclock", theta=5000, irim=5000)
    >>> table["configuration"].to_pylist()
    ['A']
    """
    names = [configurations] if isinstance(configurations, str | PathLike) else list(configurations)
    if not names:
        raise SweephandError("configurations: is empty; give at least one")
    listed = None if policies is None else several_policies(policies)
    thetas, means = whole_numbers("theta", theta), whole_numbers("seeds", seeds)
    processors = thread_count(threads)
    with watched(progress, "run") as show:
        result = _sweephand.multiprogram([fspath(name) for name in names], listed, thetas, means, irim, processors, show)
        return table(*result)

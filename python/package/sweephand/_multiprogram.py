"""Many tasks in one memory."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from sweephand import _sweephand
from sweephand._progress import Progress, watched
from sweephand._table import table

if TYPE_CHECKING:
    import pyarrow as pa


def multiprogram(
    configurations: str | PathLike[str] | Sequence[str | PathLike[str]],
    policies: str | Sequence[str] | None = None,
    *,
    theta: Sequence[int] = (),
    seeds: Sequence[int] = (),
    irim: int | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> pa.Table:
    """Runs many tasks on a simulated computer with paging devices and load control, as `sweephand
    multiprogram` does.

    configurations: one or more: `A`, `B` or `C`, those of the WSCLOCK paper, or TOML files.
    policies: names in a comma list or a sequence, instead of the configuration's.
    theta: windows of the working set, in references, instead of the configuration's.
    seeds: results are means over them; instead of the configuration's.
    irim: simulate intervals of this omega in place of every reference; 0: every reference.
    threads: processors to use; by default all of them.
    progress: see `sweephand.Progress`.

    Returns one row for each configuration, policy and theta, in that order. The columns are those
    of the command's CSV: `configuration`, `policy`, `theta_refs` (null for policies without a
    window), `utilization` (references executed by time elapsed), `mean_mpl` (active tasks),
    `deactivations`, `page_faults`, `pointer_travel_per_replacement` (pages; null without a hand),
    `ws_scans`. The schema's metadata has, under `sweephand`, version, options, conventions and
    configurations as JSON.
    """
    names = [configurations] if isinstance(configurations, str | PathLike) else configurations
    listed = [policies] if isinstance(policies, str) else policies
    with watched(progress, "run") as show:
        result = _sweephand.multiprogram([fspath(name) for name in names], listed, theta, seeds, irim, threads, show)
        return table(*result)

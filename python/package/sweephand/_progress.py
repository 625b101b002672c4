"""Progress bars: tqdm's, in terminals and notebooks, where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = bool | Callable[[int, int], object] | None
"""Whether to show a bar: `None` where somebody would see it, or a function called with the steps
done and the steps there are."""

_DELAY = 0.5
"""Seconds before a bar is shown: work that is done at once needs none."""


@contextmanager
def watched(progress: Progress, unit: str) -> Iterator[Callable[[int, int], object] | None]:
    """The function that long work calls with the steps done and the steps there are."""
    if callable(progress):
        yield progress
        return
    bar = None if progress is False or (progress is None and not _somebody_looks()) else _bar(unit, needed=bool(progress))
    if bar is None:
        yield None
        return

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    with bar:
        yield show


def _bar(unit: str, needed: bool) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if needed:
            raise
        return None
    return tqdm(unit=unit, unit_scale=True, leave=False, delay=_DELAY)


def _somebody_looks() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return sys.stderr.isatty() or type(shell).__name__ == "ZMQInteractiveShell"

"""Synthetic traces."""

from __future__ import annotations

from os import PathLike

from sweephand import _sweephand
from sweephand._sweephand import Trace


def generate(
    pattern: str,
    *,
    references: int | None = None,
    seed: int | None = None,
    writes: float | None = None,
    output: str | PathLike[str] | None = None,
    **parameters: float | bool,
) -> Trace:
    """Makes a synthetic trace, as `sweephand generate` does. The same rule and seed give the same
    references everywhere.

    pattern: `loop`, `scan`, `zipf`, `uniform`, `indexed-database` or `mixed`.
    references: the number of references.
    seed: the seed of the randomness.
    writes: the share of the references that write, 0 to 1.
    output: the file to write; without one the trace is in memory.
    parameters: those of the pattern, by the command's names:
        `generate("zipf", pages=10_000, exponent=0.8)`,
        `generate("loop", pages=500, rounds=20)`,
        `generate("mixed", zipf_pages=1000, loop_pages=200, alternate=True)`.
        `sweephand generate PATTERN --help` lists them. One that is None is left at its default.

    Returns the `Trace`. Raises a `SweephandError` that lists the patterns, or a pattern's
    parameters, where there is no such one.

    >>> sweephand.generate("loop", pages=50, rounds=3).references
    150
    """
    given = {"references": references, "seed": seed, "writes": writes, **parameters}
    options = [
        (name.replace("_", "-"), None if value is True else str(value))
        for name, value in given.items()
        if value is not None and value is not False
    ]
    return _sweephand.generate(pattern, options, output)

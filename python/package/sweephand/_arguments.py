"""Arguments as people write them, as the extension module takes them.

One item may stand for a list, and lists may be lists, arrays, or columns of any kind of table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from numbers import Integral, Number, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from sweephand._sweephand import SweephandError, Trace

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sweephand.policy import PolicyMaker

TraceLike: TypeAlias = "Trace | str | PathLike[str] | npt.ArrayLike"
"""A trace: a `Trace`, the path of one, or the page numbers of its references."""

Traces: TypeAlias = "TraceLike | Iterable[TraceLike]"
"""One trace, or several."""

Policies: TypeAlias = "str | PolicyMaker | Iterable[str | PolicyMaker]"
"""Names with parameters, in a comma list or one by one, and policies of one's own."""

Size: TypeAlias = "str | float | np.number[Any]"
"""One memory size, or the size of a sample."""

Warmup: TypeAlias = "str | float | np.number[Any]"
"""The length of a warm-up: `100000` references, or a share of them, `"20%"` or 0.2."""

Memory: TypeAlias = "Size | Iterable[Size]"
"""Memory sizes: `"300p"`, `"64MiB"`, `"25%"`, `"all"`; 300 pages; 0.25 of the trace's pages."""


def one_trace(name: str, trace: TraceLike) -> Trace:
    """A trace that is given in one of the ways to give one."""
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, str | PathLike):
        return Trace.open(trace)
    if _is_array(trace) or (isinstance(trace, list | tuple | range) and all(isinstance(page, Number) for page in trace)):
        return Trace.from_numpy(trace)
    raise SweephandError(f"{name}: {trace!r} is no trace; give a Trace, the path of one, or an array of page numbers")


def several_traces(traces: Traces) -> list[Trace]:
    """The traces of an argument, each once. No two may be called the same."""
    opened: dict[str, Trace] = {}
    for item in trace_items("traces", traces):
        trace = one_trace("traces", item)
        known = opened.setdefault(trace.name, trace)
        if known != trace:
            raise SweephandError(
                f"traces: two are called '{trace.name}', and results could not tell them apart; "
                "give one another name with trace.renamed(...)"
            )
    return list(opened.values())


def trace_items(name: str, traces: Any) -> list[Any]:
    """One trace as a list, or the list that several are; what each is, is another question."""
    if isinstance(traces, Trace | str | PathLike):
        return [traces]
    if _is_array(traces):
        # A column of words is one of paths.
        return _items(name, traces) if _kind(traces) in "OUST" else [traces]
    items = _items(name, traces)
    return [items] if all(isinstance(item, Number) for item in items) else items


def several_policies(policies: Policies) -> list[Any]:
    """The policies of an argument: words, and whatever makes a policy."""
    if isinstance(policies, str) or callable(policies) or hasattr(policies, "victim"):
        return [policies]
    return _items("policies", policies)


def several_sizes(memory: Memory) -> list[str]:
    """The memory sizes of an argument, in the command's words."""
    memory = _plain(memory)
    items = [memory] if isinstance(memory, str | Number) else _items("memory", memory)
    return [_size("memory", item) for item in items]


def sample_size(sample: Size | None) -> str | None:
    """The size of a sample, in the command's words."""
    return None if sample is None else _size("sample", sample)


def warmup_length(warmup: Warmup | None) -> str | None:
    """The length of a warm-up, in the command's words."""
    if warmup is None or isinstance(warmup, str):
        return warmup
    if isinstance(warmup, Integral) and not isinstance(warmup, bool) and warmup >= 0:
        return str(int(warmup))
    if isinstance(warmup, Real) and not isinstance(warmup, bool | Integral) and 0 <= warmup < 1:
        return f"{100 * float(warmup):.12g}%"
    raise SweephandError(f"warmup {warmup!r}: give references as in 100000, or a share of them as in 0.2 or '20%'")


def _size(name: str, size: Any) -> str:
    if isinstance(size, str):
        return size
    if isinstance(size, Integral) and not isinstance(size, bool):
        if size < 1:
            raise SweephandError(f"{name} {size}: a whole number is one of pages, and has to be at least 1")
        return f"{int(size)}p"
    if isinstance(size, Real) and not isinstance(size, bool):
        share = float(size)
        if 0 < share <= 1:
            # As it was written: 0.3 is 30 %, not 30.000000000000004 %.
            return f"{100 * share:.12g}%"
        meant = f" (did you mean {int(share)} pages? write it without a decimal point)" if share > 1 and share % 1 == 0 else ""
        raise SweephandError(f"{name} {size}: a number with decimals is a share of the pages, above 0 and up to 1{meant}")
    ways = "pages as in 8192, or a share as in 0.01 or '1%'"
    if name == "memory":
        ways = "pages as in 300, bytes as in '64MiB', a share as in 0.25 or '25%', or 'all'"
    raise SweephandError(f"{name} {size!r}: is no size; give {ways}")


def thread_count(threads: int | None, name: str = "threads", least: int = 1) -> int | None:
    """How many threads (or what else is counted) to use; none: as many as there are processors."""
    if threads is None:
        return None
    if not isinstance(threads, Integral) or isinstance(threads, bool) or threads < least:
        rest = ", or None for one a processor" if least else ""
        raise SweephandError(f"{name} {threads!r}: give a whole number of {least} or more{rest}")
    # No machine has more processors than this.
    return min(int(threads), sys.maxsize)


def whole_numbers(name: str, values: Any) -> list[int]:
    """One whole number or several."""
    values = _plain(values)
    items: list[Any] = [values] if isinstance(values, Number) else [_plain(item) for item in values]
    for item in items:
        if not isinstance(item, Integral) or isinstance(item, bool) or item < 0:
            raise SweephandError(f"{name} {item!r}: give whole numbers")
    return [int(item) for item in items]


def _items(name: str, values: Any) -> list[Any]:
    """The items of a list of any kind, at least one."""
    if isinstance(values, Mapping | bytes) or not isinstance(values, Iterable):
        raise SweephandError(f"{name}: {values!r} is no list of {name}")
    items = [_plain(item) for item in values]
    if not items:
        raise SweephandError(f"{name}: is empty; give at least one")
    return items


def _plain(item: Any) -> Any:
    """A value of Python's own for one of Arrow's or an array of no dimensions."""
    if hasattr(item, "as_py"):
        return item.as_py()
    return item.item() if getattr(item, "shape", None) == () and type(item).__name__ != "MaskedConstant" else item


def _is_array(values: Any) -> bool:
    return hasattr(values, "__array__") and not isinstance(values, Trace)


def _kind(values: Any) -> str:
    """The letter by which numpy knows a type."""
    import numpy as np

    return np.asarray(values).dtype.kind

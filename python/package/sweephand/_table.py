"""Results as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from sweephand._sweephand import Column


def table(columns: list[Column], origin: str) -> pa.Table:
    """Makes a table of columns. The schema's metadata gets, under `sweephand`, what the rows depend
    on (version, options, conventions, traces) as JSON."""
    # Not before it is needed: the command, which comes through this package too, starts faster
    # without.
    import pyarrow as pa

    types = {"text": pa.string(), "count": pa.uint64(), "ratio": pa.float64()}
    fields = [pa.field(name, types[kind], nullable=present is not None) for name, kind, _, present in columns]
    arrays = [
        # Numbers stay where they are; where some are missing, Arrow's bits of presence are made
        # besides.
        pa.array(values, types[kind], mask=None if present is None else ~present)
        for _, kind, values, present in columns
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata={"sweephand": origin}))

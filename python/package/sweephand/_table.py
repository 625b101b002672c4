"""Results as Arrow tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from sweephand._sweephand import _Column as Column


class Table(Protocol):
    """What a `pyarrow.Table` can do, for type checkers: pyarrow does not tell them.

    >>> table = sweephand.simulate([1, 2, 3, 1], "lru", 2)
    >>> table["faults"].to_pylist()
    [4]
    >>> table.to_pandas().faults.tolist()
    [4]
    """

    num_rows: int
    num_columns: int
    column_names: list[str]
    schema: Any

    def __len__(self) -> int: ...
    def __getitem__(self, key: str | int) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def column(self, i: str | int) -> Any: ...
    def select(self, columns: list[str]) -> Table: ...
    def drop_columns(self, columns: str | list[str]) -> Table: ...
    def filter(self, mask: Any) -> Table: ...
    def slice(self, offset: int = 0, length: int | None = None) -> Table: ...
    def sort_by(self, sorting: Any) -> Table: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def to_pydict(self) -> dict[str, list[Any]]: ...
    def to_pylist(self) -> list[dict[str, Any]]: ...


def table(columns: list[Column], origin: str) -> Table:
    """Makes a table of columns. What the rows depend on (version, options, conventions, traces)
    goes along, as JSON, in the schema's metadata under `sweephand`; and once more where
    `to_pandas` finds it for `DataFrame.attrs`."""
    # Not before it is needed: the command, which comes through this package too, starts faster
    # without.
    import pyarrow as pa

    types = {"text": pa.string(), "count": pa.int64(), "ratio": pa.float64()}
    fields = [pa.field(name, types[kind], nullable=present is not None) for name, kind, _, present in columns]
    arrays = [
        # Numbers stay where they are; where some are missing, Arrow's bits of presence are made
        # besides.
        pa.array(values, types[kind], mask=None if present is None else ~present)
        for _, kind, values, present in columns
    ]
    for_pandas = {
        "index_columns": [],
        "column_indexes": [],
        "columns": [],
        "attributes": {"sweephand": json.loads(origin)},
    }
    metadata = {"sweephand": origin, "pandas": json.dumps(for_pandas)}
    made: Table = pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))
    return made

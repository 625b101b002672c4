"""What there is to say about a trace, and about policies."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from sweephand import _sweephand
from sweephand._arguments import (
    Memory,
    Policies,
    TraceLike,
    Traces,
    one_trace,
    several_policies,
    several_sizes,
    several_traces,
    thread_count,
    whole_numbers,
)
from sweephand._notes import warn
from sweephand._progress import Progress, watched
from sweephand._sweephand import STUDY_POLICIES, STUDY_SIZES, SweephandError
from sweephand._table import Table


def policies(names: str | Sequence[str] = "all") -> Table:
    """Lists the policies there are, as `sweephand policies` does.

    names: some of them, in a comma list or one by one.

    Returns a `pyarrow.Table` with a row for each: `name`, `summary`, `needs` (what it has to be
    shown), `runs_live` (whether `sweephand run` takes it), `not_sampled` (why a sample of the pages
    does not tell how it does; null if it does), `paper`, `parameters` (a list of `name`, `default`,
    `meaning`), `presets` (a list of `name`, `meaning`, `arguments`).

    Raises a `SweephandError` with the nearest name if there is no such policy.

    >>> sweephand.policies("lru,clock")["name"].to_pylist()
    ['lru', 'clock']
    """
    import pyarrow as pa

    text = pa.string()
    schema = pa.schema(
        {
            "name": text,
            "summary": text,
            "needs": text,
            "runs_live": pa.bool_(),
            "not_sampled": text,
            "paper": text,
            "parameters": pa.list_(pa.struct({"name": text, "default": text, "meaning": text})),
            "presets": pa.list_(pa.struct({"name": text, "meaning": text, "arguments": text})),
        }
    )
    listed = json.loads(_sweephand.policies(",".join(map(str, several_policies(names)))))
    for entry in listed:
        for preset in entry["presets"]:
            preset["arguments"] = ",".join(f"{name}={value}" for name, value in preset["arguments"].items())
    made: Table = pa.Table.from_pylist(listed, schema=schema)
    return made


@dataclass(frozen=True)
class Info:
    """What is in a trace.

    >>> sweephand.info([7, 8, 7]).totals["distinct_pages"]
    2
    """

    trace: str
    """What results call it."""
    checksum: str
    """The identity of its contents, in hexadecimal."""
    verified: bool
    """Whether everything in it was decoded and checked."""
    file_hash: str | None
    """The hash of the file that was checked, as a sweep's plan names it; None for other traces."""
    metadata: dict[str, Any]
    """Where it comes from: `program`, `command`, `page_size` (bytes), `window` (pages), ..."""
    totals: dict[str, Any]
    """How much of everything: `records`, `references`, `distinct_pages`, `instructions`, ..."""
    largest_objects: list[dict[str, Any]]
    """The allocations with most pages touched, with `address` and `length_bytes`, `made_at` (where
    in the program; None if the trace does not say), `touched_pages`, and the records from and to
    which they live (None: the end)."""
    places: list[dict[str, Any]]
    """The places in the program that made most of them: `made_at`, `objects`, `length_bytes`,
    `touched_pages`."""

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("trace", self.trace), ("checksum", self.checksum)]
        for name, value in [*self.metadata.items(), *self.totals.items()]:
            if value not in (None, "", []):
                words = " ".join(map(str, value)) if isinstance(value, list) else value
                facts.append((name, f"{words:,}" if type(words) is int else str(words)))
        return facts

    def __str__(self) -> str:
        return "\n".join(f"{name:<22} {value}" for name, value in self._facts())

    def _repr_html_(self) -> str:
        facts = _html_table([], self._facts())
        if not self.largest_objects:
            return facts
        names = list(self.largest_objects[0])
        rows = [[f"{value:,}" if type(value) is int else str(value) for value in row.values()] for row in self.largest_objects]
        return facts + _html_table(names, rows, "largest objects")


def info(trace: TraceLike, *, objects: int = 10, verify: bool = False) -> Info:
    """Says what is in a trace, as `sweephand info` does.

    trace: a `Trace`, the path of one, or an array of page numbers, shape (references,).
    objects: how many of the largest objects to list.
    verify: decode everything, and check it against every checksum and total.

    Returns an `Info`, which notebooks show as a table. Raises a `SweephandError` that names the
    place if the trace is damaged.

    >>> print(sweephand.info([7, 8, 7]).totals["references"])
    3
    """
    opened = one_trace("trace", trace)
    described = json.loads(_sweephand.info(opened, whole_numbers("objects", objects)[0], bool(verify)))
    del described["format_version"]
    return Info(**described)


@dataclass(frozen=True)
class Advice:
    """How much memory is enough for a program, and which policy is best.

    >>> advice = sweephand.advise(sweephand.generate("zipf", pages=300, references=20_000))
    >>> advice.policy in sweephand.policies()["name"].to_pylist()
    True
    """

    program: str
    """What the trace is called."""
    enough_pages: int
    """The memory that is enough, in pages."""
    policy: str
    """The policy advised."""
    sentences: dict[str, str]
    """What it comes to, in words: `enough`, `policy`, `headroom`."""
    conclusion: dict[str, Any]
    """The same in numbers, as `sweephand advise --format json` has it."""
    next: list[str] | None
    """The command to run next, word by word; None for a trace without a file."""
    notes: list[str]
    """What to know before believing it; given as warnings, too."""
    curves: Table
    """The page faults that it is taken from: `policy`, `memory_pages`, `faults`."""
    text: str
    """The five lines of `sweephand advise`."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        lines = [line.partition(" ") for line in self.text.splitlines()]
        return _html_table([], [(name, words.strip()) for name, _, words in lines])


def advise(
    trace: TraceLike,
    policies: Policies = STUDY_POLICIES,
    memory: Memory = STUDY_SIZES,
    *,
    threads: int | None = None,
    progress: Progress = None,
) -> Advice:
    """Says how much memory is enough for a program, which policy is best and what is left to gain,
    as `sweephand advise` does.

    trace: a `Trace`, the path of one, or an array of page numbers, shape (references,).
    policies, memory: as for `simulate`, 100 sizes at most, and not `all`. OPT and CLOCK are wanted
        for comparison.
    threads: processors to use; by default all of them, which is also the most.
    progress: see `sweephand.Progress`.

    Returns an `Advice`, which notebooks show as a table and `print` as five lines. Raises a
    `SweephandError` as `simulate` does.

    >>> print(sweephand.advise([1, 2, 3, 4] * 100))  # doctest: +ELLIPSIS
    program   array: 400 references to 4 pages (16.0 KiB).
    memory    ...
    """
    opened = one_trace("trace", trace)
    asked, sizes = several_policies(policies), several_sizes(memory)
    processors = thread_count(threads)
    with watched(progress, "step") as show:
        text, told = _sweephand.advise(opened, asked, sizes, processors, show)
    found = json.loads(told)
    for note in found["notes"]:
        warn(note)
    conclusion = found["conclusion"]
    return Advice(
        program=found["program"],
        enough_pages=conclusion["enough"]["memory_pages"],
        policy=conclusion["policy"],
        sentences=conclusion["sentences"],
        conclusion=conclusion,
        next=found["next"],
        notes=found["notes"],
        curves=_curves(found["curves"]),
        text=text.rstrip("\n"),
    )


def _curves(curves: dict[str, Any]) -> Table:
    import pyarrow as pa

    rows = [
        {"policy": curve["policy"], "memory_pages": pages, "faults": faults}
        for curve in curves["curves"]
        for pages, faults in zip(curves["memory_pages"], curve["faults"], strict=True)
    ]
    schema = pa.schema({"policy": pa.string(), "memory_pages": pa.int64(), "faults": pa.int64()})
    made: Table = pa.Table.from_pylist(rows, schema=schema)
    return made


@dataclass(frozen=True, repr=False)
class Report:
    """A report on some traces: one page of HTML that needs nothing else.

    >>> report = sweephand.report([1, 2, 3, 4] * 100)
    >>> report.html[:15].lower()
    '<!doctype html>'
    """

    html: str
    """The page."""
    lines: Table
    """Faults by line of the program, at the size of the page's tables: `trace`, `memory_pages`,
    `line`, `inside` (the function that took most of its faults, if it is another), `references`,
    `policy`, `faults`. Empty if the traces do not say which code touches pages."""
    objects: Table
    """Faults by object, in the same way: `trace`, `memory_pages`, `object` (its number in order of
    allocation from 1; 0 for no object), `made_at`, `kind`, `address`, `length_bytes`, `pages`,
    `references`, `policy`, `faults`."""
    advice: Table
    """What could be done about single objects: `trace`, `memory_pages`, `action`, `objects`, `line`
    (where to do it), `faults`, `faults_then`, `call` (the `madvise` that does it, if one does),
    `text`."""
    leaders: Table
    """Whom policies such as `auto` follow, at every size of the curves: `trace`, `memory_pages`,
    `policy`, `expert`, `share` (of the stored references, from 0 to 1), `changes` (how often the
    leader changed). Empty if no policy follows others."""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it to a file, which appears when it is whole.

        path: the file; one that is there is replaced. Raises a `SweephandError` that names it if
        it cannot be written.

        >>> sweephand.report([1, 2, 3, 4] * 100).save("four.html")
        """
        target = Path(path)
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False
            ) as file:
                file.write(self.html)
            # As any new file of this user.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(file.name, 0o666 & ~mask)
            os.replace(file.name, target)
        except OSError as error:
            raise SweephandError(f"{target}: cannot be written: {error.strerror}") from error

    def __repr__(self) -> str:
        return f"<sweephand.Report of {len(self.html):,} characters; save() it, or show it in a notebook>"

    def _repr_html_(self) -> str:
        frame = "width: 100%; height: 45em; border: 1px solid gray; background: white"
        return f'<iframe style="{frame}" srcdoc="{escape(self.html, quote=True)}"></iframe>'


def report(
    traces: Traces,
    output: str | PathLike[str] | None = None,
    policies: Policies = STUDY_POLICIES,
    memory: Memory = STUDY_SIZES,
    *,
    threads: int | None = None,
    progress: Progress = None,
) -> Report:
    """Makes a report on one trace or more, with curves, pictures and objects, as
    `sweephand report` does.

    traces: as for `simulate`.
    output: the file to write; without one nothing is written.
    policies, memory: as for `advise`.
    threads: processors to use; by default all of them.
    progress: see `sweephand.Progress`.

    Returns a `Report`, which notebooks show and which can be saved. Raises a `SweephandError` as
    `simulate` does, and if the file cannot be written.

    >>> sweephand.report([1, 2, 3, 4] * 100, "four.html")  # doctest: +ELLIPSIS
    <sweephand.Report of ... characters; save() it, or show it in a notebook>
    """
    opened = several_traces(traces)
    asked, sizes = several_policies(policies), several_sizes(memory)
    processors = thread_count(threads)
    with watched(progress, "step") as show:
        html, told = _sweephand.report(opened, asked, sizes, processors, show)
    tables = json.loads(told)
    made = Report(
        html,
        _faults_by("lines", tables),
        _faults_by("objects", tables),
        _advice(tables),
        _leaders(tables),
    )
    if output is not None:
        made.save(output)
    return made


_FAULT_COLUMNS = {
    "lines": {"line": "text", "inside": "text", "references": "count"},
    "objects": {
        "object": "count",
        "made_at": "text",
        "kind": "text",
        "address": "count",
        "length_bytes": "count",
        "pages": "count",
        "references": "count",
    },
}
_ADVICE_COLUMNS = {
    "action": "text",
    "objects": "text",
    "line": "text",
    "faults": "count",
    "faults_then": "count",
    "call": "text",
    "text": "text",
}


def _faults_by(what: str, tables: list[dict[str, Any]]) -> Table:
    columns = {**_FAULT_COLUMNS[what], "policy": "text", "faults": "count"}
    rows = [
        {**row, "policy": policy, "faults": row["faults"][policy]}
        for table in tables
        for row in ({**row, **_where(table)} for row in table[what])
        for policy in table["policies"]
    ]
    return _typed(rows, columns)


def _advice(tables: list[dict[str, Any]]) -> Table:
    rows = [{**row, **_where(table)} for table in tables for row in table["advice"]]
    return _typed(rows, _ADVICE_COLUMNS)


_LEADER_COLUMNS = {"policy": "text", "expert": "text", "share": "number", "changes": "count"}


def _leaders(tables: list[dict[str, Any]]) -> Table:
    rows = [{**row, "trace": table["trace"]} for table in tables for row in table["leaders"]]
    return _typed(rows, _LEADER_COLUMNS)


def _where(table: dict[str, Any]) -> dict[str, Any]:
    return {"trace": table["trace"], "memory_pages": table["memory_pages"]}


def _typed(rows: list[dict[str, Any]], columns: dict[str, str]) -> Table:
    import pyarrow as pa

    types = {"text": pa.string(), "count": pa.int64(), "number": pa.float64()}
    all_columns = {"trace": "text", "memory_pages": "count", **columns}
    schema = pa.schema({name: types[kind] for name, kind in all_columns.items()})
    made: Table = pa.Table.from_pylist(rows, schema=schema)
    return made


def _html_table(names: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align: left">{escape(value)}</td>' for value in row) + "</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

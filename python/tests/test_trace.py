"""Traces, and the way between them and arrays."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from sweephand import SweephandError, Trace


def test_arrays_become_a_trace_and_come_back() -> None:
    rng = np.random.default_rng(1)
    # More than one chunk, and page numbers that need all 64 bits.
    pages = rng.integers(0, 5000, 600_000).astype(np.uint64) + np.uint64(2**63)
    writes = rng.random(600_000) < 0.3
    trace = Trace.from_numpy(pages, writes, instructions=7_000_000, page_bytes=8192, name="random")
    assert (trace.records, trace.references, len(trace)) == (600_000, 600_000, 600_000)
    assert trace.distinct_pages == len(np.unique(pages))
    assert (trace.instructions, trace.page_bytes, trace.window, trace.name) == (7_000_000, 8192, 0, "random")
    again, written = trace.to_numpy()
    assert again.dtype == np.uint64 and written.dtype == np.bool_
    np.testing.assert_array_equal(again, pages)
    np.testing.assert_array_equal(written, writes)
    # The arrays own what was decoded: nothing was copied for them.
    assert again.base is not None and not isinstance(again.base, np.ndarray)


def test_page_ids_count_up_by_first_touch(e1: Trace) -> None:
    ids = e1.page_ids()
    assert ids.dtype == np.uint32
    assert ids.tolist() == [0, 1, 2, 3, 0, 1, 4, 0, 1, 2, 3, 4]


def test_arrays_of_any_whole_numbers_will_do() -> None:
    expected = Trace.from_numpy([3, 1, 3]).checksum
    for pages in (np.array([3, 1, 3], np.int8), np.array([3, 0, 1, 0, 3, 0], np.uint64)[::2], (3, 1, 3)):
        assert Trace.from_numpy(pages).checksum == expected
    assert Trace.from_numpy([]).records == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, -2],), "pages: -2 is no page number; they begin at 0"),
        (([1.5],), "pages: an array of float64; give whole numbers"),
        (([[1], [2]],), "pages: an array of 2 dimensions; give one of 1"),
        (([1, 2], [True]), "writes: 1 flags for 2 references"),
    ],
)
def test_what_is_no_trace_is_refused(arguments: tuple[list[object], ...], words: str) -> None:
    with pytest.raises(SweephandError) as error:
        Trace.from_numpy(*arguments)
    assert str(error.value) == words


def test_a_trace_is_saved_and_opened_as_it_was(tmp_path: Path, e1: Trace, numpy_trace: Path) -> None:
    e1.save(tmp_path / "e1.swt")
    opened = Trace.open(tmp_path / "e1.swt")
    assert opened.checksum == e1.checksum
    assert opened.name == str(tmp_path / "e1.swt")
    assert opened.program == "e1"
    recorded = Trace.open(numpy_trace)
    recorded.save(tmp_path / "again.swt")
    again = Trace.open(tmp_path / "again.swt")
    assert again == recorded
    # The older file keeps its version; what is written now may have a later one.
    header, said = json.loads(again.header_json), json.loads(recorded.header_json)
    assert header.pop("version") >= said.pop("version")
    assert header == said
    with pytest.raises(SweephandError, match=r"there/e1\.swt: cannot be created"):
        e1.save(tmp_path / "not" / "there" / "e1.swt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.swt", "e1.swt"]


def test_traces_of_other_formats_are_opened_by_their_content(tmp_path: Path, e1: Trace) -> None:
    path = tmp_path / "e1.anything"
    path.write_bytes(gzip.compress("\n".join(str(page) for page in e1.to_numpy()[0]).encode()))
    assert Trace.open(path).checksum == e1.checksum


def test_errors_are_the_words_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(SweephandError) as error:
        Trace.open(tmp_path / "none.swt")
    assert str(error.value) == f"{tmp_path}/none.swt: No such file or directory (os error 2)"


def test_a_recorded_trace_says_what_it_is(numpy_trace: Path) -> None:
    trace = Trace.open(numpy_trace)
    header = json.loads(trace.header_json)
    assert header["totals"]["references"] == trace.references == 1_027_454_813
    assert trace.distinct_pages == 16_506
    assert trace.window == 128
    assert trace.instructions == 805_733_383
    assert repr(trace) == f"<sweephand.Trace {numpy_trace}: 1027454813 references to 16506 pages>"
    assert trace.command[0] == "/usr/bin/python3"

"""Arguments as users of NumPy and pandas write them, and nothing accepted in silence."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import policies
import pyarrow as pa
import pytest

import sweephand
from sweephand import SweephandError, Trace

# Ten pages, in a loop.
LOOP = np.arange(60) % 10


def sizes(memory: Any) -> list[tuple[str, int]]:
    table = sweephand.simulate(LOOP, "lru", memory)
    return list(zip(table["memory"].to_pylist(), table["memory_pages"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (np.int64(5), [("5p", 5)]),
        (0.5, [("50%", 5)]),
        (np.float32(0.25), [("25%", 3)]),
        (1.0, [("100%", 10)]),
        (1, [("1p", 1)]),
        ("10%, 3p", [("10%", 1), ("3p", 3)]),
        (np.array([2, 4]), [("2p", 2), ("4p", 4)]),
        (np.linspace(0.1, 0.3, 3), [("10%", 1), ("20%", 2), ("30%", 3)]),
        (np.array(7), [("7p", 7)]),
        (pd.Series([2, 4], index=[7, 8]), [("2p", 2), ("4p", 4)]),
        (pl.Series([0.2, 0.4]), [("20%", 2), ("40%", 4)]),
        (pa.array([2, 4]), [("2p", 2), ("4p", 4)]),
        (pa.chunked_array([["20%"], ["40KiB"]]), [("20%", 2), ("40KiB", 10)]),
        (range(2, 5), [("2p", 2), ("3p", 3), ("4p", 4)]),
        ((size for size in ["2p", 3]), [("2p", 2), ("3p", 3)]),
        # What comes to the same number of pages is one, by the words that came first.
        (["20%", 2, "8KiB", "2p", 3], [("20%", 2), ("3p", 3)]),
    ],
)
def test_sizes_come_as_they_are_written(memory: Any, expected: list[tuple[str, int]]) -> None:
    assert sizes(memory) == expected


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ([], "memory: is empty; give at least one"),
        (np.array([]), "memory: is empty; give at least one"),
        (0, "memory 0: a whole number is one of pages, and has to be at least 1"),
        (np.int8(-3), "memory -3: a whole number is one of pages"),
        (50.0, "memory 50.0: a number with decimals is a share of the pages, above 0 and up to 1 (did you mean 50 pages?"),
        (0.0, "memory 0.0: a number with decimals is a share"),
        (float("nan"), "memory nan: a number with decimals is a share"),
        (True, "memory True: is no size; give pages as in 300"),
        (None, "memory: None is no list of memory"),
        ([None], "memory None: is no size"),
        ({"10%": 1}, "memory: {'10%': 1} is no list of memory"),
        ("300", "memory size '300': give it a unit"),
        (2**32, "memory size '4294967296p': 4294967295p is the most there is"),
        ("17592186048512B", "memory size '17592186048512B': 16TiB is the most there is"),
        (np.ma.masked_array([3, 4], [True, False]), "memory masked: is no size"),
    ],
)
def test_what_is_no_size_is_refused(memory: Any, words: str) -> None:
    with pytest.raises(SweephandError) as error:
        sweephand.simulate(LOOP, "lru", memory)
    assert str(error.value).startswith(words)


def small(frames: int) -> Any:
    policy = policies.Comeback(frames)
    policy.frames, policy.name = 1, "comeback-1"
    return policy


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("lru,clock:init=1", ["lru", "clock:init=1"]),
        (policies.Clock, ["Clock"]),
        (small, ["comeback-1"]),
        (["opt,lru", policies.Clock, "clock-pro:cold=5%", small], ["opt", "lru", "Clock", "clock-pro:cold=5%", "comeback-1"]),
        (np.array(["lru", "fifo"]), ["lru", "fifo"]),
        (pd.Series(["lru", "fifo"]), ["lru", "fifo"]),
        (pa.array(["lru", "fifo"]), ["lru", "fifo"]),
        (("lru", "fifo", "lru"), ["lru", "fifo"]),
        ("lru,lru", ["lru"]),
    ],
)
def test_policies_come_as_they_are_written(asked: Any, expected: list[str]) -> None:
    table = sweephand.simulate(LOOP, asked, [3, 5])
    assert table["policy"].to_pylist()[::2] == expected


def test_the_policies_of_the_listing_are_policies() -> None:
    listed = sweephand.policies()
    names = [row["name"] for row in listed.to_pylist() if row["needs"] == "every reference"]
    assert sweephand.simulate(LOOP, names, 3).num_rows == len(names)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "policies: is empty; give at least one"),
        ("lur", "policy 'lur': there is no such policy (did you mean lru?); known: opt fifo"),
        ("clockpro", "policy 'clockpro': there is no such policy (did you mean clock-pro?)"),
        ("clock:ini=1", "policy 'clock': there is no parameter 'ini' (did you mean init?); its parameters: init, fill-init"),
        ("belady", "policy 'belady': there is no such policy; known: opt"),
        (None, "policies: None is no list of policies"),
        ({"lru": {}}, "policies: {'lru': {}} is no list of policies"),
        ([3], "policy 3: give a name, or a class"),
    ],
)
def test_what_is_no_policy_is_refused(asked: Any, words: str) -> None:
    with pytest.raises(SweephandError) as error:
        sweephand.simulate(LOOP, asked, 3)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize(
    "make", [np.asarray, list, tuple, pd.Series, pl.Series, pa.array, np.uint8, lambda pages: np.repeat(pages, 2)[::2]]
)
def test_an_array_is_a_trace(make: Callable[[Any], Any]) -> None:
    expected = Trace.from_numpy(LOOP)
    table = sweephand.simulate(make(LOOP.tolist() if make in (list, tuple) else LOOP), "lru", 5)
    assert table["trace"].to_pylist() == [expected.name]
    assert table["trace_checksum"].to_pylist() == [expected.checksum]
    distances = sweephand.reuse_distances(make(LOOP))
    assert (distances.counts[10], distances.first_touches) == (50, 10)


def test_traces_come_in_lists_of_any_kind(tmp_path: Path) -> None:
    loop, other = Trace.from_numpy(LOOP, name="loop"), tmp_path / "other.swt"
    Trace.from_numpy(LOOP[:30]).save(other)
    table = sweephand.simulate([loop, other, LOOP[:20], loop], "lru", 5)
    assert table["trace"].to_pylist() == ["loop", str(other), Trace.from_numpy(LOOP[:20]).name]
    assert sweephand.simulate(pd.Series([str(other)]), "lru", 5)["trace"].to_pylist() == [str(other)]


@pytest.mark.parametrize(
    ("traces", "words"),
    [
        ([], "traces: is empty; give at least one"),
        (np.array([]), "array-"),
        (None, "traces: None is no list of traces"),
        ([None], "traces: None is no trace; give a Trace, the path of one, or an array of page numbers"),
        (np.eye(2, dtype=int), "pages: an array of 2 dimensions; give one of 1"),
        ([1.5, 2.5], "pages: an array of float64; give whole numbers"),
        (np.ma.masked_array([1, 2], [True, False]), "pages: a masked array hides some of its values"),
        ([Trace.from_numpy([1], name="a"), Trace.from_numpy([2], name="a")], "traces: two are called 'a', and results could not"),
    ],
)
def test_what_is_no_trace_is_refused(traces: Any, words: str) -> None:
    with pytest.raises(SweephandError) as error:
        sweephand.simulate(traces, "lru", 3)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_threads_is_refused(threads: Any) -> None:
    for call in (
        lambda: sweephand.simulate(LOOP, "lru", 3, threads=threads),
        lambda: sweephand.multiprogram("A", threads=threads),
        lambda: sweephand.advise(LOOP, threads=threads),
    ):
        with pytest.raises(SweephandError) as error:
            call()
        assert str(error.value) == f"threads {threads!r}: give a whole number of 1 or more, or None for one a processor"
    assert sweephand.simulate(LOOP, "lru", 3, threads=np.int64(1)).num_rows == 1


@pytest.mark.parametrize("threads", [1, 1_000_000, 10**30])
def test_there_are_no_more_threads_than_processors(threads: int) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/task"))

    before, seen = count(), []

    def look(done: int, total: int) -> None:
        seen.append(count() - before)

    for call in (
        lambda: sweephand.simulate(LOOP, "lru,clock", "1p,2p", threads=threads, progress=look),
        lambda: sweephand.advise(LOOP, threads=threads, progress=look),
        lambda: sweephand.multiprogram("A", "wsclock", theta=5000, irim=5000, threads=threads, progress=look),
    ):
        seen.clear()
        call()
        # One more waits for them.
        assert seen and max(seen) <= min(threads, len(os.sched_getaffinity(0))) + 1


def test_lists_of_other_calls_are_not_empty_either() -> None:
    for call, words in [
        (lambda: sweephand.multiprogram([]), "configurations: is empty; give at least one"),
        (lambda: sweephand.multiprogram("A", []), "policies: is empty; give at least one"),
        (lambda: sweephand.multiprogram("A", theta=[1.5]), "theta 1.5: give whole numbers"),
        (lambda: sweephand.record([]), "command: is empty; give the program and its arguments"),
        (lambda: sweephand.record("ls -R /usr"), "command 'ls -R /usr': give a list of words: ['ls', '-R', '/usr']"),
    ]:
        with pytest.raises(SweephandError) as error:
            call()
        assert str(error.value) == words


# Arrays as traces.


@pytest.mark.parametrize(
    ("writes", "words"),
    [
        (np.array([0.0, 1.0]), "writes: an array of float64; give booleans, or zeros and ones"),
        ([0, 2], "writes: an array of int64; give booleans, or zeros and ones"),
        (["r", "w"], "writes: an array of <U1; give booleans, or zeros and ones"),
        (np.ma.masked_array([True, False], [True, False]), "writes: a masked array hides some of its values"),
        ([[True, False]], "writes: an array of 2 dimensions; give one of 1"),
    ],
)
def test_what_are_no_writes_is_refused(writes: Any, words: str) -> None:
    with pytest.raises(SweephandError) as error:
        Trace.from_numpy([1, 2], writes)
    assert str(error.value).startswith(words)


def test_zeros_and_ones_are_writes() -> None:
    for writes in ([0, 1], np.array([False, True]), np.ma.masked_array([False, True])):
        assert Trace.from_numpy([1, 2], writes).to_numpy()[1].tolist() == [False, True]
    assert Trace.from_numpy([], []).records == 0


def test_addresses_come_with_a_page_size() -> None:
    addresses = np.array([0x7FFF_FFFF_F000, 0x7FFF_FFFF_FFFF, 0, 2**63 + 5], np.uint64)
    for page_bytes in (4096, 2 << 20, 1000):
        trace = Trace.from_addresses(addresses, [1, 0, 0, 0], page_bytes=page_bytes)
        assert trace.to_numpy()[0].tolist() == [int(address) // page_bytes for address in addresses]
        assert (trace.page_bytes, trace.to_numpy()[1].sum()) == (page_bytes, 1)
    assert Trace.from_addresses(pd.Series([4096, 8192])).to_numpy()[0].tolist() == [1, 2]
    for arguments, words in [
        (([-1],), "addresses: -1 is no address; they begin at 0"),
        (([1.5],), "addresses: an array of float64; give whole numbers"),
    ]:
        with pytest.raises(SweephandError) as error:
            Trace.from_addresses(*arguments)
        assert str(error.value) == words
    with pytest.raises(SweephandError, match="page_bytes: must be more than 0"):
        Trace.from_addresses([1], page_bytes=0)


def test_traces_are_compared_by_checksum_and_say_their_names() -> None:
    one, same, other = Trace.from_numpy([1, 2]), Trace.from_numpy([1, 2], name="x"), Trace.from_numpy([2, 1])
    assert one == same and hash(one) == hash(same) and one != other and one != "array"
    assert len({one, same, other}) == 2
    assert one.name == f"array-{one.checksum[:8]}" and one.name != other.name
    assert one.renamed("y").name == "y" and one.renamed("y") == one
    assert repr(same) == "<sweephand.Trace x: 2 references to 2 pages>"


def test_traces_are_pickled(numpy_trace: Path) -> None:
    for trace in (Trace.from_numpy(LOOP, LOOP % 2, 77, page_bytes=8192), Trace.open(numpy_trace)):
        again = pickle.loads(pickle.dumps(trace))
        assert (again, again.name) == (trace, trace.name)
        # A trace of an older file may be written in a later version of the format.
        header, said = json.loads(again.header_json), json.loads(trace.header_json)
        assert header.pop("version") >= said.pop("version")
        assert header == said


def test_traces_are_cut_by_records(numpy_trace: Path) -> None:
    trace = Trace.from_numpy(LOOP, LOOP % 3 == 0, name="loop")
    part = trace[5:-10]
    pages, writes = part.to_numpy()
    np.testing.assert_array_equal(pages, LOOP[5:-10])
    np.testing.assert_array_equal(writes, LOOP[5:-10] % 3 == 0)
    assert (part.name, part.references, part.distinct_pages) == ("loop[5:50]", 45, 10)
    assert trace[:] == trace and trace[:].name == "loop"
    assert (len(trace[50:40]), len(trace[100:]), len(trace[-5:])) == (0, 0, 5)
    recorded = Trace.open(numpy_trace)
    third = recorded[1_000_000:1_300_000]
    np.testing.assert_array_equal(third.to_numpy()[0], recorded.to_numpy()[0][1_000_000:1_300_000])
    assert third.records < third.references < recorded.references
    assert third.instructions is not None and 0 < third.instructions < (recorded.instructions or 0)
    # What is put together again is the whole.
    joined = np.concatenate([recorded[:500_000].to_numpy()[0], recorded[500_000:].to_numpy()[0]])
    np.testing.assert_array_equal(joined, recorded.to_numpy()[0])
    with pytest.raises(ValueError, match="a step of 2 would make another program of it"):
        trace[::2]
    with pytest.raises(TypeError, match="a trace is cut by records"):
        trace[3]

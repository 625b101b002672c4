"""Simulations give what the command gives."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import sweephand
from sweephand import SweephandError, Trace


def command(*words: object) -> subprocess.CompletedProcess[str]:
    """The command, as the package carries it."""
    return subprocess.run(["sweephand", *map(str, words)], capture_output=True, text=True, check=False)


def test_a_table_has_the_columns_and_values_of_the_command(numpy_trace: Path) -> None:
    arguments = ("opt,lru,clock,clock:init=1,lirs,apr", "10%,300p,16MiB,50%")
    table = sweephand.simulate(numpy_trace, *arguments)
    assert isinstance(table, pa.Table)
    printed = command("simulate", numpy_trace, "--policy", arguments[0], "--memory", arguments[1], "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert table.column_names == [*rows[0], "memory", "trace_checksum"]
    assert len(rows) == table.num_rows == 6 * 4
    for ours, theirs in zip(table.to_pylist(), rows, strict=True):
        for name in theirs:
            value = ours[name]
            assert (f"{value:.6f}" if isinstance(value, float) else str(value)) == theirs[name], name
    assert table["memory"].to_pylist() == arguments[1].split(",") * 6
    assert set(table["trace_checksum"].to_pylist()) == {Trace.open(numpy_trace).checksum}


def test_one_call_makes_it_pandas_or_polars(e1: Trace) -> None:
    table = sweephand.simulate(e1, ["fifo", "opt"], [3, "4p"])
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame.faults.tolist() == [9, 10, 7, 6]
    other = pl.from_arrow(table)
    assert isinstance(other, pl.DataFrame)
    assert other["faults"].to_list() == [9, 10, 7, 6]
    # Instructions are not known, so neither is that.
    assert table["faults_per_million_instructions"].null_count == 4


def test_counts_are_signed_and_so_are_their_differences(e1: Trace, tmp_path: Path) -> None:
    table = sweephand.simulate(e1, ["lru", "opt"], [3, 4])
    counts = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    assert {str(table.schema.field(name).type) for name in counts} == {"int64"} and "faults" in counts
    pivoted = table.to_pandas().pivot(index="memory_pages", columns="policy", values="faults")
    assert (pivoted.opt - pivoted.lru).tolist() == [-3, -2]
    origin = json.loads(table.schema.metadata[b"sweephand"])
    assert origin["sweephand"]["schema_version"] == 2
    # The command's Parquet has the same types, and so do datasets of sweeps.
    e1.save(tmp_path / "e1.swt")
    command("simulate", tmp_path / "e1.swt", "-m", "3p", "--format", "parquet", "-o", tmp_path / "e1.parquet")
    swept = sweephand.sweep({"traces": e1, "policies": "lru", "memory": 3}, tmp_path / "out", workers=1)
    for stored in (pa.parquet.read_table(tmp_path / "e1.parquet"), swept.table()):
        assert not [field for field in stored.schema if str(field.type) == "uint64"]
    metadata = pa.parquet.read_metadata(tmp_path / "e1.parquet").metadata
    assert metadata[b"sweephand.schema_version"] == b"2"


def test_metadata_stays_with_a_data_frame(e1: Trace) -> None:
    frame = sweephand.simulate(e1, "lru,opt", [3, 4]).to_pandas()
    assert frame[frame.policy == "lru"].attrs["sweephand"]["traces"][0]["checksum"] == e1.checksum
    assert frame.attrs["sweephand"]["sweephand"]["policy"] == "lru,opt"


def test_a_sample_is_that_of_the_command(tmp_path: Path) -> None:
    trace = sweephand.generate("zipf", pages=20_000, references=100_000, output=tmp_path / "zipf.swt")
    for size, samples in [("10%", ["10%", 0.1]), ("2000p", ["2000p", np.int64(2000)])]:
        options = ["-p", "lru,clock", "-m", "50%", "--format", "csv", "--sample", size, "--sample-seed", 2]
        rows = list(csv.DictReader(io.StringIO(command("simulate", trace.name, *options).stdout)))
        for sample in samples:
            table = sweephand.simulate(trace, ["lru", "clock"], 0.5, sample=sample, sample_seed=2)
            assert [str(faults) for faults in table["faults"].to_pylist()] == [row["faults"] for row in rows]
            assert table["sampled_pages"].to_pylist() == [int(row["sampled_pages"]) for row in rows]
            assert table["hit_ratio_error"].to_pylist() == [float(row["hit_ratio_error"]) for row in rows]
    origin = json.loads(table.schema.metadata[b"sweephand"])
    assert origin["sweephand"]["sample_seed"] == 2 and origin["traces"][0]["sample"]["pages"] == 2000
    assert sweephand.simulate(trace, "lru", "all", sample=300).num_rows == 300 - 32 + 1
    for arguments, words in [
        ({"policies": "apr", "sample": "10%"}, "apr cannot be told from a sample of the pages: "),
        ({"sample": "0.1%"}, " pages are too few to tell anything"),
        ({"sample": "1"}, "sample '1': write a share of the pages as in 1%"),
        ({"sample": 1.5}, "sample 1.5: a number with decimals is a share"),
        ({"sample_seed": 2}, "sample_seed: there is no sample"),
    ]:
        with pytest.raises(SweephandError) as error:
            sweephand.simulate(trace, **{"policies": "lru", "memory": "50%", **arguments})
        assert words in str(error.value)


def test_a_warm_up_is_that_of_the_command(tmp_path: Path) -> None:
    trace = sweephand.generate("zipf", pages=2000, references=10_000, output=tmp_path / "zipf.swt")
    options = ["-p", "lru,clock", "-m", "20%,50%", "--format", "csv", "--warmup"]
    for words, warmups in [("25%", ["25%", 0.25]), ("2500", [2500, np.int64(2500), "2500"])]:
        rows = list(csv.DictReader(io.StringIO(command("simulate", trace.name, *options, words).stdout)))
        for warmup in warmups:
            table = sweephand.simulate(trace, ["lru", "clock"], [0.2, 0.5], warmup=warmup)
            for column in ["references", "faults", "first_touch_faults", "warmup_faults", "evictions", "hand_steps"]:
                assert [str(count) for count in table[column].to_pylist()] == [row[column] for row in rows]
            assert table["references"].to_pylist() == [7500] * 4
    origin = json.loads(table.schema.metadata[b"sweephand"])
    assert origin["sweephand"]["warmup"] == "2500" and origin["traces"][0]["warmup"]["references"] == 2500
    for arguments, words in [
        ({"warmup": 10_000}, "leaves nothing to count"),
        ({"warmup": -1}, "warmup -1: give references"),
        ({"warmup": 1.5}, "warmup 1.5: give references"),
        ({"warmup": "x"}, "warm-up 'x': "),
        ({"warmup": 5, "sample": 0.5}, "warmup: not with a sample"),
    ]:
        with pytest.raises(SweephandError) as error:
            sweephand.simulate(trace, "lru", "50%", **arguments)
        assert words in str(error.value)


def test_what_results_depend_on_goes_along(e1: Trace) -> None:
    table = sweephand.simulate(e1, "lru,clock:init=1", ["3p", "50%"], collapse=True)
    origin = json.loads(table.schema.metadata[b"sweephand"])
    assert origin["sweephand"]["version"] == sweephand.__version__
    assert origin["sweephand"]["policy"] == "lru,clock:init=1"
    assert origin["sweephand"]["memory"] == "3p,50%"
    assert origin["sweephand"]["collapse"] is True
    assert origin["traces"][0]["checksum"] == e1.checksum


def test_several_traces_and_paths_come_in_their_order(e1: Trace, tmp_path: Path) -> None:
    path = tmp_path / "twice.swt"
    Trace.from_numpy(np.tile(e1.to_numpy()[0], 2)).save(path)
    table = sweephand.simulate([e1, path], "lru", 3)
    assert table["trace"].to_pylist() == ["e1", str(path)]
    assert table["references"].to_pylist() == [12, 24]


@pytest.mark.parametrize(
    ("policies", "memory"), [("lur", "3p"), ("clock:init=2", "3p"), ("lru,wsclock", "3p"), ("lru", "300"), ("", "3p")]
)
def test_errors_are_the_words_of_the_command(tmp_path: Path, e1: Trace, policies: str, memory: str) -> None:
    e1.save(tmp_path / "e1.swt")
    with pytest.raises(SweephandError) as error:
        sweephand.simulate(e1, policies, memory)
    refused = command("simulate", tmp_path / "e1.swt", "--policy", policies, "--memory", memory)
    assert (refused.returncode, refused.stderr) == (2, f"sweephand: {error.value}\n")


def test_small_memories_of_reduced_traces_are_warned_of(numpy_trace: Path) -> None:
    with pytest.warns(UserWarning, match="is reduced with a window of 128: counts are exact for lru and opt") as caught:
        sweephand.simulate(numpy_trace, "clock", 100)
    assert caught[0].filename == __file__


def test_progress_comes_to_the_end_and_may_stop_everything(numpy_trace: Path) -> None:
    seen: list[tuple[int, int]] = []
    sweephand.simulate(numpy_trace, "lirs,arc", ["10%", "20%"], progress=lambda done, total: seen.append((done, total)))
    records = Trace.open(numpy_trace).records
    assert seen[-1] == (records, records)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def no(done: int, total: int) -> None:
        raise RuntimeError(f"enough at {done}")

    with pytest.raises(RuntimeError, match="enough at"):
        sweephand.simulate(numpy_trace, "lirs", "10%", progress=no)


def test_a_bar_is_shown_where_it_is_asked_for_and_worth_it(
    e1: Trace, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(progress: bool | None, delay: float) -> str:
        monkeypatch.setattr("sweephand._progress._DELAY", delay)
        sweephand.simulate(e1, "lru", 3, progress=progress)
        return capfd.readouterr().err

    assert "ref" in shown(True, delay=0)
    assert shown(True, delay=3600) == ""
    # Nobody looks at the errors of a test.
    assert shown(None, delay=0) == ""
    assert shown(False, delay=0) == ""


LONG = """
import signal, sys, sweephand
signal.signal(signal.SIGINT, signal.default_int_handler)
trace = sweephand.generate("uniform", pages=100_000, references=30_000_000)
print("ready", flush=True)
try:
    sweephand.simulate(trace, "all", "10%,20%,30%")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_stops_a_simulation() -> None:
    with subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            # All of it would take minutes.
            assert process.communicate(timeout=60)[0] == "interrupted\n"
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0


def test_others_run_meanwhile() -> None:
    trace = sweephand.generate("uniform", pages=10_000, references=4_000_000)
    turns = 0
    over = threading.Event()

    def other() -> None:
        nonlocal turns
        while not over.wait(0.001):
            turns += 1

    thread = threading.Thread(target=other)
    thread.start()
    sweephand.simulate(trace, "lirs,arc,lru-2", "10%,20%,30%", threads=1)
    over.set()
    thread.join()
    assert turns > 10


def test_a_forked_process_simulates_too(e1: Trace) -> None:
    sweephand.simulate(e1, "lru,fifo", [3, 4])
    child = os.fork()
    if child == 0:
        table = sweephand.simulate(e1, "lru,fifo", [3, 4])
        os._exit(0 if table["faults"].to_pylist() == [10, 8, 9, 10] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_reuse_distances_are_the_hits_of_lru(numpy_trace: Path, e1: Trace) -> None:
    distances = sweephand.reuse_distances(e1)
    assert distances.counts.tolist() == [0, 0, 0, 2, 2, 3]
    assert distances.first_touches == 5
    trace = Trace.open(numpy_trace)
    words = "with a window of 128: 2,019,067 of its 2,920,729 distances lie inside of it"
    with pytest.warns(UserWarning, match=words) as caught:
        distances = sweephand.reuse_distances(trace)
    assert caught[0].filename == __file__
    assert distances.counts.dtype == np.int64
    sizes = [2000, 5000, 9000]
    faults = sweephand.simulate(trace, "lru", sizes)["faults"].to_pylist()
    assert [trace.records - int(distances.counts[: size + 1].sum()) for size in sizes] == faults
    assert int(distances.counts.sum()) + distances.first_touches == trace.records

"""The package carries the command."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sweephand


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)


def test_the_command_is_there_under_both_names() -> None:
    for command in (["sweephand"], [sys.executable, "-m", "sweephand"]):
        result = run(*command, "--version")
        assert (result.returncode, result.stdout) == (0, f"sweephand {sweephand.__version__}\n")


def test_its_exit_status_and_messages_are_its_own() -> None:
    result = run("sweephand", "simulate", "none.swt")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "sweephand: none.swt: No such file or directory (os error 2)\n"
    result = run("sweephand", "simulate")
    assert result.returncode == 2
    assert result.stderr.startswith("sweephand: the following required arguments were not provided:")
    assert run("sweephand", "policies", "clock").stdout.startswith("clock: FIFO that gives")


def test_a_sweep_starts_its_workers(tmp_path: Path, e1: sweephand.Trace) -> None:
    e1.save(tmp_path / "e1.swt")
    (tmp_path / "plan.toml").write_text('traces = ["e1.swt"]\npolicies = ["lru", "fifo"]\nmemory = ["3p", "4p"]\n')
    result = run("sweephand", "sweep", tmp_path / "plan.toml", "-o", tmp_path / "results")
    assert result.stdout.startswith("4 cells: 4 computed"), result.stderr


def test_a_program_runs_in_less_memory() -> None:
    program = "data = bytearray(24 << 20)\nfor i in range(0, len(data), 4096): data[i] = i >> 12 & 255\nprint(sum(data))"
    alone = run("/usr/bin/python3", "-c", program)
    paged = run("sweephand", "run", "--memory", "16MiB", "--policy", "clock", "--", "/usr/bin/python3", "-c", program)
    assert (paged.returncode, paged.stdout, paged.stderr) == (0, alone.stdout, "")


def test_nothing_counts_the_pages_of_whole_objects(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,50000000\nb,50000000\na,50000000\n")
    path = tmp_path / "whole.swt"
    columns = ["--columns", "key=1,size=2", "--whole-objects"]
    assert run("sweephand", "import", tmp_path / "log.csv", *columns, "-o", path).returncode == 0
    trace = sweephand.Trace.open(path)
    calls: list[Callable[[sweephand.Trace], object]] = [
        lambda trace: sweephand.simulate(trace, "lru", "64KiB"),
        lambda trace: sweephand.simulate(trace, "lru", "1p", sample="50%"),
        sweephand.reuse_distances,
        sweephand.advise,
        sweephand.report,
    ]
    for part in (trace, trace[1:3], pickle.loads(pickle.dumps(trace))):
        for call in calls:
            with pytest.raises(sweephand.SweephandError, match="is of whole objects"):
                call(part)

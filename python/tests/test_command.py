"""The package carries the command."""

import subprocess
import sys
from pathlib import Path

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
    assert result.stderr.startswith("error: the following required arguments were not provided:")
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

"""Many tasks in one memory."""

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

import sweephand
from sweephand import SweephandError

CONFIGURATION = """
name = "small"
frames = 40
irim = 0
policies = ["wsclock", "global-clock"]
theta = [500, 2000]
seeds = [1, 2]
[devices]
count = 1
access_refs = [50, 150]
[processor]
quantum_refs = 100
slice_refs = 2000
[tasks]
count = 4
programs = ["zipf.swt"]
"""


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    sweephand.generate("zipf", pages=60, references=5000, writes=0.3, output=tmp_path / "zipf.swt")
    (tmp_path / "small.toml").write_text(CONFIGURATION)
    return tmp_path / "small.toml"


def test_a_table_has_the_columns_and_values_of_the_command(configuration: Path) -> None:
    seen: list[tuple[int, int]] = []
    table = sweephand.multiprogram(configuration, progress=lambda done, total: seen.append((done, total)))
    words = ["sweephand", "multiprogram", str(configuration), "--format", "csv"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert table.column_names == list(rows[0])
    assert len(rows) == table.num_rows == 3
    for ours, theirs in zip(table.to_pylist(), rows, strict=True):
        for name, value in ours.items():
            text = "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)
            assert text == theirs[name], name
    assert seen[-1] == (6, 6)
    assert json.loads(table.schema.metadata[b"sweephand"])["configurations"][0]["frames"] == 40


def test_policies_windows_and_seeds_can_be_others(configuration: Path) -> None:
    table = sweephand.multiprogram(configuration, "ws,clock-pro", theta=[700], seeds=[5])
    assert table["policy"].to_pylist() == ["ws", "clock-pro"]
    assert table["theta_refs"].to_pylist() == [700, None]


def test_errors_are_the_words_of_the_command(configuration: Path) -> None:
    for arguments, words in [
        (("Z",), "configuration 'Z': is not built in (those are A B C) and no file"),
        ((configuration, "lur"), "policy 'lur': there is no such policy"),
    ]:
        with pytest.raises(SweephandError) as error:
            sweephand.multiprogram(*arguments)
        assert str(error.value).startswith(words)

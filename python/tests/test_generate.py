"""Synthetic traces are those of the command."""

import subprocess
from pathlib import Path

import pytest

import sweephand
from sweephand import SweephandError, Trace


def test_a_rule_and_a_seed_give_the_same_trace_as_the_command(tmp_path: Path) -> None:
    options = ["--pages=300", "--exponent=0.8", "--references=20k", "--seed=7", "--writes=0.25"]
    words = ["sweephand", "generate", "zipf", *options, "-o", str(tmp_path / "theirs.swt")]
    subprocess.run(words, check=True, capture_output=True)
    ours = sweephand.generate("zipf", pages=300, exponent=0.8, references=20_000, seed=7, writes=0.25)
    assert ours.header_json == Trace.open(tmp_path / "theirs.swt").header_json
    written = sweephand.generate("loop", pages=50, rounds=3, output=tmp_path / "ours.swt")
    assert (written.records, written.name) == (150, str(tmp_path / "ours.swt"))
    alternating = sweephand.generate("mixed", zipf_pages=10, loop_pages=5, alternate=True, references=100)
    assert alternating.to_numpy()[0][1::2].tolist() == [10, 11, 12, 13, 14] * 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"pattern": "zop"},
            "pattern 'zop': there is no such pattern; there are loop, scan, zipf, uniform, indexed-database, mixed",
        ),
        (
            {"pattern": "zipf", "page": 3},
            "pattern 'zipf': has no --page; it has --pages, --exponent, --references, --seed, --writes",
        ),
        ({"pattern": "zipf", "pages": "few"}, "invalid value 'few' for '--pages <N>': a whole number"),
        ({"pattern": "zipf", "pages": True}, "a value is required for '--pages <N>' but none was supplied"),
        ({"pattern": "mixed", "alternate": 3}, "unexpected value '3' for '--alternate' found"),
        (
            {"pattern": "loop", "rounds": 3, "references": 10},
            "the argument '--references <N>' cannot be used with '--rounds <N>'",
        ),
        ({"pattern": "loop", "pages": 0, "references": 10}, "0 pages: there must be at least one"),
        ({"pattern": "zipf", "writes": 2}, "a share of writes of 2: it lies between 0 and 1"),
        ({"pattern": "zipf", "references": 0}, "0 references: there must be at least one"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_left(tmp_path: Path, arguments: dict, words: str) -> None:
    with pytest.raises(SweephandError) as error:
        sweephand.generate(**arguments, output=tmp_path / "never.swt")
    assert str(error.value).startswith(words)
    assert list(tmp_path.iterdir()) == []

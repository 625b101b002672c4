"""Recording runs the command's recorder."""

from pathlib import Path

import pytest

import sweephand
from sweephand import SweephandError, Trace


def test_a_program_is_recorded(tmp_path: Path) -> None:
    trace = sweephand.record(["/bin/true"], window=0)
    assert trace.name == "true"
    assert trace.command == ["/bin/true"]
    assert trace.distinct_pages > 20
    assert sweephand.simulate(trace, "lru", "50%")["faults"][0].as_py() >= trace.distinct_pages
    kept = sweephand.record(["/bin/true"], tmp_path / "true.swt")
    assert kept.window == 16
    assert Trace.open(tmp_path / "true.swt").checksum == kept.checksum


def test_errors_are_the_words_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(SweephandError) as error:
        sweephand.record(["/bin/no-such-program"], tmp_path / "never.swt")
    assert str(error.value) == "/bin/no-such-program: there is no such program"
    assert list(tmp_path.iterdir()) == []

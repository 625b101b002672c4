"""What the tests have in common."""

from pathlib import Path

import pytest

import sweephand

PROJECT = Path(__file__).parents[2]

# The classic string that shows Belady's anomaly.
E1 = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5]


@pytest.fixture
def project() -> Path:
    """The project's folder."""
    return PROJECT


@pytest.fixture
def numpy_trace() -> Path:
    """A trace that comes with the project: a numpy program that relaxes a grid."""
    return PROJECT / "traces" / "numpy.swt"


@pytest.fixture
def e1() -> sweephand.Trace:
    return sweephand.Trace.from_numpy(E1, name="e1")

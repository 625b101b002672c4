"""Pictures show what was counted."""

import matplotlib as mpl
import pytest

import sweephand
from sweephand import Trace, plot

mpl.use("agg")


def test_a_curve_for_each_policy(e1: Trace) -> None:
    axes = plot.faults(sweephand.simulate(e1, "fifo,opt", [4, 3]))
    curves = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
    assert curves == {"fifo": [[3 / 256, 9], [4 / 256, 10]], "opt": [[3 / 256, 7], [4 / 256, 6]]}
    axes = plot.faults(sweephand.simulate(e1, "opt", 3), refaults=True)
    assert axes.get_lines()[0].get_ydata().tolist() == [2]


def test_distances_by_powers_of_two(e1: Trace) -> None:
    for of in (e1, sweephand.reuse_distances(e1)):
        (stairs,) = plot.distances(of).patches
        # Distances 1, 2 to 3, 4 to 7.
        assert stairs.get_data().values.tolist() == [0, 2, 5]
        assert stairs.get_data().edges.tolist() == [1, 2, 4, 8]


def test_pages_against_time() -> None:
    trace = Trace.from_numpy([900, 900, 5, 70])
    (image,) = plot.pages(trace).get_images()
    touched = image.get_array()
    assert touched.shape == (3, 4)
    assert touched.mask.tolist() == [[True, True, False, True], [True, True, True, False], [False, False, True, True]]


def test_axes_of_ones_own(e1: Trace) -> None:
    from matplotlib import pyplot

    _, ax = pyplot.subplots()
    assert plot.distances(e1, ax=ax) is ax
    with pytest.raises(sweephand.SweephandError, match="No such file"):
        plot.pages("none.swt", ax=ax)

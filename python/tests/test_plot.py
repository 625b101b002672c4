"""Pictures show what was counted."""

from pathlib import Path

import matplotlib as mpl
import pandas as pd
import polars as pl
import pytest

import sweephand
from sweephand import Trace, plot

mpl.use("agg")


def test_each_policy_has_a_curve(e1: Trace) -> None:
    axes = plot.faults(sweephand.simulate(e1, "fifo,opt", [4, 3]))
    curves = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
    assert curves == {"fifo": [[3 / 256, 9], [4 / 256, 10]], "opt": [[3 / 256, 7], [4 / 256, 6]]}
    axes = plot.faults(sweephand.simulate(e1, "opt", 3), refaults=True)
    assert axes.get_lines()[0].get_ydata().tolist() == [2]


def test_distances_are_counted_by_powers_of_two(e1: Trace) -> None:
    for of in (e1, sweephand.reuse_distances(e1)):
        (stairs,) = plot.distances(of).patches
        # Distances 1, 2 to 3, 4 to 7.
        assert stairs.get_data().values.tolist() == [0, 2, 5]
        assert stairs.get_data().edges.tolist() == [1, 2, 4, 8]


def test_pages_are_drawn_against_time() -> None:
    trace = Trace.from_numpy([900, 900, 5, 70])
    (image,) = plot.pages(trace).get_images()
    touched = image.get_array()
    assert touched.shape == (3, 4)
    assert touched.mask.tolist() == [[True, True, False, True], [True, True, True, False], [False, False, True, True]]


def frame_of(table: sweephand.Table) -> pd.DataFrame:
    return table.to_pandas()


def test_data_frames_are_drawn_as_tables_are(e1: Trace) -> None:
    table = sweephand.simulate(e1, "fifo,opt", [4, 3])
    frame = frame_of(table)
    fewer = frame[frame.policy == "opt"]
    for drawn, policies in [(frame, ["fifo", "opt"]), (fewer, ["opt"]), (table.slice(2), ["opt"])]:
        axes = plot.faults(drawn)
        assert [line.get_label() for line in axes.get_lines()] == policies
        assert axes.get_lines()[-1].get_xdata().tolist() == [3 / 256, 4 / 256]
        assert axes.get_xlabel() == "memory, MiB"
    # What has lost its metadata has no page size.
    bare = pl.from_arrow(table.drop_columns(["trace", "policy"]))
    axes = plot.faults(bare.head(2))
    assert axes.get_lines()[0].get_xydata().tolist() == [[3, 9], [4, 10]]
    assert (axes.get_xlabel(), axes.get_legend()) == ("memory, pages", None)
    axes = plot.faults(fewer.drop(columns="trace"), page_bytes=1 << 20, refaults=True)
    assert axes.get_lines()[0].get_xydata().tolist() == [[3, 2], [4, 1]]


def test_rows_of_a_sweep_are_drawn(e1: Trace, tmp_path: Path) -> None:
    swept = sweephand.sweep({"traces": e1, "policies": "lru", "memory": [3, 4]}, tmp_path / "out", workers=1)
    axes = plot.faults(swept.table(), page_bytes=4096)
    assert sorted(axes.get_lines()[0].get_ydata().tolist()) == [8, 10]


def test_what_cannot_be_drawn_is_refused(e1: Trace) -> None:
    table = sweephand.simulate(e1, "lru", 3)
    for call, words in [
        (lambda: plot.faults(table.slice(1)), "table: there is nothing to draw: it has no rows"),
        (lambda: plot.faults(frame_of(table).head(0)), "table: there is nothing to draw: it has no rows"),
        (lambda: plot.faults(table.drop_columns(["faults"])), "table: has no column 'faults'"),
        (lambda: plot.faults(frame_of(table)[["memory_pages", "faults"]], refaults=True), "table: has no column 'first_touch"),
        (lambda: plot.distances(Trace.from_numpy([])), "of: there is nothing to draw"),
        (lambda: plot.distances([1, 2, 3]), "of: there is nothing to draw: no page is referenced twice"),
        (lambda: plot.pages([]), "trace: there is nothing to draw: array-"),
        (lambda: plot.pages(e1, rows=0), "rows 0: give at least 1"),
    ]:
        with pytest.raises(sweephand.SweephandError) as error:
            call()
        assert str(error.value).startswith(words)


def test_distances_of_a_reduced_trace_are_warned_of_and_marked(numpy_trace: Path) -> None:
    with pytest.warns(UserWarning, match="2,019,067 of its 2,920,729 distances lie inside of it") as caught:
        axes = plot.distances(numpy_trace)
    assert caught[0].filename == __file__
    assert axes.get_legend().get_texts()[0].get_text() == "window of 128"


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("size", [(3.3, 2.4), (10, 6)])
def test_nothing_that_is_written_is_cut_off_or_hides_a_curve(e1: Trace, style: str, size: tuple[float, float]) -> None:
    from matplotlib import pyplot

    many = ["opt", "fifo", "lru", "clock", "car", "arc", "2q", "sieve", "lirs", "mq", "gclock", "s3-fifo"]
    with pyplot.style.context(style), pyplot.rc_context({"figure.figsize": size}):
        drawn = [
            plot.faults(sweephand.simulate([e1, e1.renamed("f1")[:11]], many, [1, 2, 3, 4])),
            plot.faults(sweephand.simulate(e1, "opt,lru", "all"), log=True),
            plot.distances(e1),
            plot.pages(e1),
        ]
        for axes in drawn:
            figure = axes.figure
            figure.canvas.draw()
            legend = axes.get_legend()
            shown = [axes.xaxis.label, axes.yaxis.label, *(legend.get_texts() if legend else [])]
            # There are labels beyond both ends of an axis as well, which are not drawn.
            for axis, coordinate in [(axes.xaxis, 0), (axes.yaxis, 1)]:
                low, high = sorted(axis.get_view_interval())
                labels = [label for label in axis.get_ticklabels() if label.get_text()]
                shown += [label for label in labels if low <= label.get_position()[coordinate] <= high]
            for text in shown:
                box = text.get_window_extent()
                assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1, text.get_text()
                assert box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1, text.get_text()
        curves, legend = drawn[0].get_lines(), drawn[0].get_legend()
        assert len(legend.get_texts()) == len(curves) == 24
        # Each looks different, and the names stand beside.
        assert len({(line.get_color(), line.get_linestyle()) for line in curves}) == 24
        assert legend.get_window_extent().x0 >= drawn[0].get_window_extent().x1
        pyplot.close("all")


def test_axes_of_ones_own_are_drawn_on(e1: Trace) -> None:
    from matplotlib import pyplot

    _, ax = pyplot.subplots()
    assert plot.distances(e1, ax=ax) is ax
    with pytest.raises(sweephand.SweephandError, match="No such file"):
        plot.pages("none.swt", ax=ax)

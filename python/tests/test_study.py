"""What the command says of traces and policies, as objects."""

import html
import json
import subprocess
from pathlib import Path

import pytest

import sweephand
from sweephand import SweephandError, Trace


def command(*words: object) -> str:
    return subprocess.run(["sweephand", *map(str, words)], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def zipf(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = tmp_path_factory.mktemp("traces") / "zipf.swt"
    return sweephand.generate("zipf", pages=2000, references=100_000, output=path)


def test_policies_are_those_of_the_command() -> None:
    listed = json.loads(command("policies", "--format", "json"))
    table = sweephand.policies()
    assert table["name"].to_pylist() == [policy["name"] for policy in listed]
    for ours, theirs in zip(table.to_pylist(), listed, strict=True):
        same = ["summary", "needs", "runs_live", "not_sampled", "paper", "parameters"]
        assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    frame = table.to_pandas().set_index("name")
    assert frame.runs_live["clock-pro"] and not frame.runs_live["lru"]
    assert frame.not_sampled["apr"] and frame.not_sampled.isna()["lru"]
    assert sweephand.policies(["lru", "clock"]).num_rows == 2
    with pytest.raises(SweephandError, match=r"policy 'lur': there is no such policy \(did you mean lru\?\)"):
        sweephand.policies("lur")


def test_info_is_that_of_the_command(numpy_trace: Path) -> None:
    theirs = json.loads(command("info", numpy_trace, "--objects", 3, "--format", "json"))
    info = sweephand.info(numpy_trace, objects=3)
    assert (info.metadata, info.totals, info.largest_objects) == (
        theirs["metadata"],
        theirs["totals"],
        theirs["largest_objects"],
    )
    assert (info.trace, info.checksum, info.verified) == (str(numpy_trace), theirs["checksum"], False)
    shown = info._repr_html_()
    assert shown.count("<table>") == 2 and "1,027,454,813" in shown and "16,506" in str(info)
    assert sweephand.info([1, 2, 1], verify=True).verified
    with pytest.raises(SweephandError, match=r"none\.swt: No such file"):
        sweephand.info("none.swt")


def test_advice_is_that_of_the_command(zipf: Trace) -> None:
    options = ["-p", "opt,lru,clock,car", "-m", "10%,30%,50%,70%"]
    theirs = json.loads(command("advise", zipf.name, *options, "--format", "json"))
    seen: list[tuple[int, int]] = []
    advice = sweephand.advise(
        zipf, ["opt", "lru", "clock,car"], [0.1, 0.3, 0.5, 0.7], progress=lambda done, total: seen.append((done, total))
    )
    assert f"{advice}\n" == command("advise", zipf.name, *options)
    assert (advice.conclusion, advice.next) == (theirs["conclusion"], theirs["next"])
    assert advice.policy == theirs["conclusion"]["policy"]
    assert advice.enough_pages == theirs["conclusion"]["enough"]["memory_pages"]
    curves = advice.curves.to_pandas().pivot(index="memory_pages", columns="policy", values="faults")
    assert curves.lru.tolist() == theirs["curves"]["curves"][1]["faults"]
    assert seen[-1] == (1000, 1000)
    shown = advice._repr_html_()
    assert all(html.escape(sentence) in shown for sentence in advice.sentences.values())


def test_advice_takes_an_array_and_a_policy_of_ones_own() -> None:
    import policies

    advice = sweephand.advise([1, 2, 3, 4] * 100, ["opt", "clock", policies.Clock], "50%,75%")
    assert advice.next is None
    assert set(advice.curves["policy"].to_pylist()) == {"opt", "clock", "Clock"}


def test_advice_on_a_reduced_trace_is_given_with_its_notes(numpy_trace: Path) -> None:
    with pytest.warns(UserWarning, match="The trace is reduced with a window of 128") as caught:
        advice = sweephand.advise(numpy_trace, "opt,clock", "5%,50%")
    assert caught[0].filename == __file__ and len(advice.notes) == 1


def test_a_report_is_that_of_the_command(zipf: Trace, tmp_path: Path) -> None:
    command("report", zipf.name, "-p", "opt,clock", "-m", "10%,50%", "-o", tmp_path / "theirs.html")
    report = sweephand.report(zipf, tmp_path / "ours.html", "opt,clock", "10%,50%")
    assert report.html == (tmp_path / "theirs.html").read_text() == (tmp_path / "ours.html").read_text()
    assert report._repr_html_().startswith("<iframe ") and "<script" not in report._repr_html_()
    assert len(repr(report)) < 100
    # Synthetic references are by no code and in no object.
    assert (report.lines.num_rows, report.advice.num_rows) == (0, 0)
    assert report.leaders.num_rows == 0
    objects = report.objects.to_pylist()
    assert [row["object"] for row in objects] == [0, 0] and {row["policy"] for row in objects} == {"opt", "clock"}
    assert (tmp_path / "ours.html").stat().st_mode == (tmp_path / "theirs.html").stat().st_mode
    with pytest.raises(SweephandError, match=r"none/ours\.html: cannot be written: No such file"):
        report.save(tmp_path / "none" / "ours.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours.html", "theirs.html"]


def test_the_leaders_of_auto_are_a_table(zipf: Trace) -> None:
    report = sweephand.report(zipf, policies=["opt", "clock", "auto:experts=clock+lifo-plus"], memory="10%,50%")
    leaders = report.leaders.to_pylist()
    assert [row["expert"] for row in leaders[:2]] == ["clock", "lifo-plus"]
    sizes = {row["memory_pages"] for row in leaders}
    assert len(sizes) >= 3 and len(leaders) == 2 * len(sizes)
    for size in sizes:
        assert abs(sum(row["share"] for row in leaders if row["memory_pages"] == size) - 1) < 1e-9
    assert 'class="leaders"' in report.html


@pytest.mark.parametrize("call", [sweephand.advise, sweephand.report])
def test_what_cannot_be_studied_is_refused(call: object, zipf: Trace) -> None:
    for arguments, words in [
        ({"memory": "all"}, "memory: name 100 sizes at most; for all of them use"),
        ({"memory": []}, "memory: is empty"),
        ({"policies": "lur"}, "policy 'lur': there is no such policy (did you mean lru?)"),
    ]:
        with pytest.raises(SweephandError) as error:
            call(zipf, **arguments)  # type: ignore[operator]
        assert str(error.value).startswith(words)
    with pytest.raises(SweephandError, match=r"has no references to simulate|is empty"):
        call([])  # type: ignore[operator]


LOOP = r"""
#include <stdlib.h>
int main(void)
{
    volatile char *table = malloc(1 << 20);
    for (int round = 0; round < 8; round++)
        for (int at = 0; at < 1 << 20; at += 4096)
            table[at]++;
    return 0;
}
"""


def test_a_report_on_a_recorded_program_has_tables_of_its_lines_and_objects(tmp_path: Path) -> None:
    (tmp_path / "loop.c").write_text(LOOP)
    subprocess.run(["cc", "-O1", "-g", "-o", "loop", "loop.c"], cwd=tmp_path, check=True)
    trace = sweephand.record([str(tmp_path / "loop")], tmp_path / "loop.swt")
    report = sweephand.report(trace, policies="opt,clock", memory="25%,50%")
    lines = report.lines.to_pylist()
    first = {row["policy"]: row for row in lines if row["line"] == lines[0]["line"]}
    assert first["clock"]["line"] == "loop.c:8 in main"
    assert first["clock"]["faults"] >= 7 * 256 > first["opt"]["faults"]
    assert {row["trace"] for row in lines} == {str(tmp_path / "loop.swt")}
    table = next(row for row in report.objects.to_pylist() if row["made_at"])
    assert (table["made_at"], table["kind"], table["length_bytes"]) == ("loop.c:5 in main", "malloc", 1 << 20)
    assert table["pages"] in (256, 257)
    advice = {row["action"]: row for row in report.advice.to_pylist()}
    block = advice["block"]
    assert block["line"] == "loop.c:8 in main" and block["faults_then"] < block["faults"] and block["call"] is None

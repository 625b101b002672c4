"""What tools know of the package: type checkers, `help`, doctest."""

import doctest
import inspect
import json
import pydoc
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

import sweephand

mpl.use("agg")


def mypy(file: Path, project: Path) -> str:
    words = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(project / "python/pyproject.toml"), str(file)]
    result = subprocess.run(words, capture_output=True, text=True, check=False, cwd=project / "python")
    return result.stdout + result.stderr


def public() -> Iterator[tuple[str, Any]]:
    """Everything with a docstring of its own that users see."""
    for name in sweephand.__all__:
        thing = getattr(sweephand, name)
        if inspect.ismodule(thing):
            yield from ((f"{name}.{inner}", getattr(thing, inner)) for inner in ("faults", "distances", "pages"))
        elif callable(thing):
            yield name, thing
    for name in ("open", "from_numpy", "from_addresses", "to_numpy", "page_ids", "save", "renamed"):
        yield f"Trace.{name}", getattr(sweephand.Trace, name)
    yield "Sweep.table", sweephand.Sweep.table
    yield "Report.save", sweephand.Report.save
    yield "sweephand", sweephand


PUBLIC = dict(public())
# Those made by the simulation only, an alias of a type, and what the functions beside them show.
SHOWN_ELSEWHERE = {"Mmu", "Reference", "Progress", "Trace", "SweephandError"}
# They take nothing that could be wrong, or say that they do as another function does.
SHORT = {"Trace.renamed", "Trace.page_ids", "Trace.to_numpy", "Trace.from_addresses", "Sweep.table"}


def test_every_public_function_says_what_there_is_to_know() -> None:
    for name, thing in PUBLIC.items():
        words = inspect.getdoc(thing) or ""
        assert name in SHOWN_ELSEWHERE or ">>> " in words, name
        if inspect.isroutine(thing) and name not in SHORT:
            assert re.search(r"\b[Rr]aises\b", words), name
            for argument in inspect.signature(thing).parameters:
                described = re.search(rf"^\s*(\w+, )*{argument}(, \w+)*: ", words, re.MULTILINE)
                assert argument == "self" or described, (name, argument)


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - SHOWN_ELSEWHERE))
def test_examples_in_docstrings_run(name: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces").symlink_to(project / "traces")
    monkeypatch.chdir(tmp_path)
    names = {"sweephand": sweephand}
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(PUBLIC[name]) or "", names, name, None, 0)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)
    from matplotlib import pyplot

    pyplot.close("all")


def test_signatures_can_be_read() -> None:
    for name, thing in PUBLIC.items():
        if inspect.isroutine(thing):
            signature = inspect.signature(thing)
            assert all(parameter.default is not Ellipsis for parameter in signature.parameters.values()), name
            assert "..." not in str(signature) and "<object" not in str(signature), f"{name}{signature}"


def test_a_type_checker_knows_what_comes_back(tmp_path: Path, project: Path) -> None:
    (tmp_path / "user.py").write_text(
        """
import numpy as np
import pandas as pd
import sweephand
from sweephand import Trace, plot

trace = Trace.from_numpy(np.arange(9), name="nine")
reveal_type(sweephand.simulate([trace, "t.swt", np.arange(9)],
    ["lru", sweephand.Policy], [0.5, 3, "10%"], sample="1%"))
reveal_type(sweephand.simulate(trace, "lru", np.int64(50)).to_pandas())
reveal_type(sweephand.reuse_distances(trace).counts)
reveal_type(trace.to_numpy()[0])
reveal_type(trace[3:5])
reveal_type(sweephand.advise(trace).policy)
reveal_type(sweephand.sweep({"traces": trace}, "out").table())
plot.faults(pd.DataFrame())
sweephand.simulate(trace, 3)
sweephand.simulate(trace, "lru", 3, sampel="1%")
sweephand.record(window="x", command=[])
"""
    )
    said = mypy(tmp_path / "user.py", project)
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    signed, unsigned = r"signedinteger\[.*_64Bit\]|int64", r"unsignedinteger\[.*_64Bit\]|uint64"
    expected = ["Table", "DataFrame", signed, unsigned, "Trace", "str", "Table"]
    assert len(revealed) == len(expected), said
    for found, part in zip(revealed, expected, strict=True):
        assert re.search(part, found), (found, part)
    wrong = [line for line in said.splitlines() if ": error: " in line]
    at = [re.search(r"user\.py:(\d+)", line) for line in wrong]
    assert [match and match[1] for match in at] == ["17", "18", "19"], said


def test_the_types_of_the_extension_module_are_right(project: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mypy.stubtest", "sweephand._sweephand", "--concise", "--ignore-disjoint-bases"]
    words += ["--mypy-config-file", str(project / "python/pyproject.toml")]
    result = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_notebook_keeps_to_its_types(project: Path, tmp_path: Path) -> None:
    notebook = json.loads((project / "examples/own-log.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    (tmp_path / "own_log.py").write_text("\n\n".join(cells) + "\n")
    said = mypy(tmp_path / "own_log.py", project)
    assert said == "Success: no issues found in 1 source file\n"


def test_help_fits_the_book(project: Path) -> None:
    shown = pydoc.plain(pydoc.render_doc(sweephand))
    book = "".join((project / "docs" / page).read_text() for page in ("python.md", "own-policies.md", "sweep.md"))
    for name in sweephand.__all__:
        if not name.startswith("_"):
            assert re.search(rf"\b{name}\b", shown), name
            assert re.search(rf"\b{name}\b", book), name
    # What the book calls is there.
    for name in set(re.findall(r"\bsweephand\.(\w+)", book)) - {"org", "io"}:
        assert hasattr(sweephand, name), name
    for name in set(re.findall(r"\bTrace\.(\w+)", book)) | set(re.findall(r"\bsmall\.(\w+)\(", book)):
        assert hasattr(sweephand.Trace, name), name
    for name in set(re.findall(r"\bplot\.(\w+)\(", book)):
        assert hasattr(sweephand.plot, name), name

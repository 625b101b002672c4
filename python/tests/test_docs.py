"""What the book says about Python works as it is written."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/own-policies.md", "docs/sweep.md", "python/README.md"])
def test_python_on_a_page_runs(
    page: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "traces").symlink_to(project / "traces")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (project / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    # The blocks of a page build on each other.
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    if page == "docs/own-policies.md":
        (printed,) = re.findall(r"^```text\n(.*?)^```", (project / page).read_text(), re.DOTALL | re.MULTILINE)
        assert printed in capsys.readouterr().out

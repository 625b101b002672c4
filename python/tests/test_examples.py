"""The notebooks run from top to bottom."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("notebook", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_a_notebook_runs_from_top_to_bottom(notebook: str) -> None:
    read = nbformat.read(EXAMPLES / notebook, as_version=4)
    client = NotebookClient(read, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    outputs = [output for cell in read.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    kinds = {kind for output in outputs if "data" in output for kind in output.data}
    assert {"text/html", "image/png"} <= kinds


@pytest.mark.parametrize("notebook", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_a_notebook_has_its_outputs(notebook: str) -> None:
    """As examples/notebooks.py writes them: a reader on the web sees the pictures."""
    text = (EXAMPLES / notebook).read_text()
    assert len(text) < 200_000
    assert not any(part in text for part in ("/tmp/", "/home/", "/root/"))
    read = nbformat.reads(text, as_version=4)
    outputs = [output for cell in read.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in outputs if "data" in output for kind in output.data}
    assert {"text/html", "image/png"} <= kinds
    assert not any(output.get("name") == "stderr" for output in outputs)

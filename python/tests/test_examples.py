"""The notebooks run from top to bottom, and are committed with their outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"


each_notebook = pytest.mark.parametrize("notebook", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))


def outputs_with_pictures(read: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The outputs of a notebook, which has a table and a picture."""
    outputs = [output for cell in read.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in outputs if "data" in output for kind in output.data}
    assert {"text/html", "image/png"} <= kinds
    return outputs


@each_notebook
def test_a_notebook_runs_from_top_to_bottom(notebook: str) -> None:
    read = nbformat.read(EXAMPLES / notebook, as_version=4)
    client = NotebookClient(read, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    assert not any(output.output_type == "error" for output in outputs_with_pictures(read))


@each_notebook
def test_a_notebook_has_its_outputs(notebook: str) -> None:
    """As examples/notebooks.py writes them: a reader on the web sees the pictures."""
    text = (EXAMPLES / notebook).read_text()
    assert len(text) < 200_000
    assert not any(part in text for part in ("/tmp/", "/home/", "/root/"))
    outputs = outputs_with_pictures(nbformat.reads(text, as_version=4))
    assert not any(output.get("name") == "stderr" for output in outputs)

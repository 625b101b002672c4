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

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the notebooks of this folder and writes them with their outputs.

    pip install './python[notebook,dask]' pandas nbclient ipykernel
    python3 examples/notebooks.py

Progress bars and warnings are left out, and pictures have 64 colours, so that the files stay small.
"""

import base64
import io
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).resolve().parent


def smaller(png):
    """A picture in base64 with 64 colours."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    written = io.BytesIO()
    image.quantize(64, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def main():
    for path in sorted(HERE.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(HERE)}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
            if cell.cell_type != "code":
                continue
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    output.data["image/png"] = smaller(output.data["image/png"])
        notebook.metadata.language_info = {"name": "python"}
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""The policies of the book, as a reader would paste them."""

import re
from pathlib import Path

_BOOK = (Path(__file__).parents[2] / "docs" / "own-policies.md").read_text()
# The definitions; what is done with them between is the business of test_docs.py.
_CODE = "\n".join(re.findall(r"^(?:import|from) .*|^class (?:.*\n)(?:(?: .*)?\n)+", _BOOK, re.MULTILINE))
exec(compile(_CODE, "docs/own-policies.md", "exec"))

"""What the reader of a result has to know."""

import sys
import warnings


def warn(note: str) -> None:
    """Warns the caller of this package, from any depth in it."""
    level = 1
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame = frame.f_back
        level += 1
    warnings.warn(note, stacklevel=level)

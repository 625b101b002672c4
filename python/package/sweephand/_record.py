"""Recording programs."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path

from sweephand._sweephand import SweephandError, Trace


def record(
    command: Iterable[str | PathLike[str]],
    output: str | PathLike[str] | None = None,
    *,
    window: int | None = None,
    min_object: str | None = None,
) -> Trace:
    """Runs a program under the recorder and returns its trace, as `sweephand record` does.

    command: the program and its arguments, word by word.
    output: the trace file to write. Without one the trace has the program's name, and its file
        disappears when it is no longer used.
    window: keep only the first and last run of each page in every stretch of this many distinct
        pages; 0 keeps every reference.
    min_object: record allocations of this size and more as objects, as in `40KiB`.

    Recording needs Valgrind with its headers and a C compiler, and takes 5 to 25 times the
    program's own processor time. Ctrl-C ends the program and keeps what there is. What the program
    writes to standard error is written to `sys.stderr`; its exit status is not looked at.

    Returns the `Trace`. Raises a `SweephandError` if the program cannot be recorded.

    >>> sweephand.record(["/bin/true"], window=0).name
    'true'
    """
    if isinstance(command, str | PathLike):
        words = shlex.split(fspath(command))
        raise SweephandError(f"command {fspath(command)!r}: give a list of words: {words}")
    command = list(command)
    if not command:
        raise SweephandError("command: is empty; give the program and its arguments")
    if output is not None:
        _run(command, Path(output), window, min_object)
        return Trace.open(output)
    with tempfile.TemporaryDirectory(prefix="sweephand-") as folder:
        path = Path(folder, "recorded.swt")
        _run(command, path, window, min_object)
        return Trace.open(path, name=Path(command[0]).name)


def _run(command: Sequence[str | PathLike[str]], path: Path, window: int | None, min_object: str | None) -> None:
    """Runs the command in a process of its own, because it handles signals."""
    before = _written(path)
    options = {"--window": window, "--min-object": min_object}
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    words = [
        sys.executable,
        "-m",
        "sweephand",
        "record",
        "--quiet",
        "-o",
        fspath(path),
        *given,
        "--",
        *(fspath(word) for word in command),
    ]
    last_words = ""
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stderr is not None
        while True:
            try:
                for line in process.stderr:
                    if line.startswith("sweephand: "):
                        last_words = line.removeprefix("sweephand: ").rstrip()
                    sys.stderr.write(line)
                break
            except KeyboardInterrupt:
                # A terminal has sent it to the program as well.
                if not sys.stdin.isatty():
                    process.send_signal(signal.SIGINT)
    if _written(path) == before:
        raise SweephandError(last_words or f"{command[0]}: cannot be recorded")


def _written(path: Path) -> tuple[int, int] | None:
    """The file with this name."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns

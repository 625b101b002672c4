"""The `sweephand` command in the package: `python -m sweephand`, or the script `sweephand`."""

import signal
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

from sweephand import _sweephand


def main() -> NoReturn:
    """Does what the command line says, and ends with the command's exit status."""
    # The command minds signals itself, as a program of its own would.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    script = Path(sys.argv[0])
    if script.name != "sweephand":
        script = Path(sysconfig.get_path("scripts"), "sweephand")
    status = _sweephand.main(["sweephand", *sys.argv[1:]], script.absolute())
    raise SystemExit(status)


if __name__ == "__main__":
    main()

"""Compressed swap for a variant of a benchmark: a zram device of its own. See README.md."""

import contextlib
import pathlib
import subprocess

CONTROL = pathlib.Path("/sys/class/zram-control")
# What a device may hold for each byte of memory that it should take, if nothing else is said. There
# is no `mem_limit`: where that is hit before the device is full, the kernel's writes fail
# ("Write-error on swap-device"), the pages stay, and it tries them again instead of the disk.
RATIO = 2
# Before all other swap areas, so that a run's file gets only what does not fit.
PRIORITY = 32767


def pool_mib(variant, memory_mib):
    """The part of a run's memory that its variant leaves to zram: of `zram:25` a quarter."""
    kind, _, percent = variant.partition(":")
    return round(memory_mib * int(percent) / 100) if kind == "zram" else 0


class Pool:
    """A device for swap, or none if it may take no memory."""

    def __init__(self, number):
        self.state = number is not None and pathlib.Path(f"/sys/block/zram{number}")

    def peak_mib(self):
        """The most memory that it has taken, as `mm_stat` has it."""
        return round(int((self.state / "mm_stat").read_text().split()[4]) / (1 << 20), 1) if self.state else ""


@contextlib.contextmanager
def pool(mib, disksize_mib=None):
    """A zram device as swap area, until the context ends: the memory that it should take, and what
    it may hold."""
    if not mib:
        yield Pool(None)
        return
    number = int((CONTROL / "hot_add").read_text())
    state, device = pathlib.Path(f"/sys/block/zram{number}"), f"/dev/zram{number}"
    with contextlib.ExitStack() as undo:
        undo.callback((CONTROL / "hot_remove").write_text, str(number))
        (state / "disksize").write_text(f"{disksize_mib or mib * RATIO}M")
        subprocess.run(["mkswap", device], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["swapon", "--priority", str(PRIORITY), device], check=True)
        undo.callback(subprocess.run, ["swapoff", device], check=True)
        yield Pool(number)

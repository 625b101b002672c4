"""The working set of processes as `damo report wss` has it. See README.md."""

import pathlib
import re
import shutil
import subprocess

KDAMONDS = pathlib.Path("/sys/kernel/mm/damon/admin/kdamonds")
MIB = 1 << 20
GRACE_SECONDS = 60
PERCENTILE = 95


def why_not(damo):
    """Why DAMON cannot be asked here, or nothing."""
    if not KDAMONDS.exists():
        return "the kernel has no DAMON"
    for state in KDAMONDS.glob("*/state"):
        if state.read_text().strip() == "on":
            return "another program has DAMON on, and would lose its settings"
    return "" if shutil.which(damo) else f"there is no {damo}"


def percentile_mib(report):
    """The percentile of `damo report wss --raw_number`, in MiB; None if there is no such line."""
    found = re.search(rf"^\s*{PERCENTILE}\s+([0-9,]+)", report, re.MULTILINE)
    return found and int(found[1].replace(",", "")) / MIB


def working_set_mib(damo, pids, seconds, folder):
    """The 95th percentile of the working set of processes together, and nothing; or None, and why
    not. Memory that they share counts in each."""
    if why := why_not(damo):
        return None, why
    record = folder / "damon.data"
    targets = [word for pid in pids for word in ("--damon_target", "--target_pid", pid)]
    asked = [
        [damo, "record", "--ops", "vaddr", *targets, "--timeout", seconds, "--output", record],
        [
            damo,
            "report",
            "wss",
            "-i",
            record,
            "--raw_number",
            "--collapse_targets",
            "-r",
            PERCENTILE,
            PERCENTILE + 1,
            1,
        ],
    ]
    for command in asked:
        words = [str(word) for word in command]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"damo {words[1]} does not end"
        if done.returncode:
            return None, f"damo {words[1]}: {' '.join((done.stdout + done.stderr).split())[-200:]}"
    found = percentile_mib(done.stdout)
    return (None, f"damo report wss says {done.stdout[-200:]!r}") if found is None else (found, "")

#!/usr/bin/env python3
"""Disks to page to: that of a folder, and slower ones that slow_disk.c emulates. See README.md.

disks.py [NAME ...] makes each emulated disk in turn, and prints how fast it is."""

import argparse
import concurrent.futures
import contextlib
import datetime
import mmap
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
# Half of the free space becomes the swap file. Only what is written takes memory.
DISK_MIB = 4096
# A run that was ended still removes its swap file, which keeps the disk busy.
GRACE_SECONDS = 300


class Disk(NamedTuple):
    """What slow_disk.c is told. 0 is no bound; without a latency, nothing is emulated."""

    description: str
    latency_us: int = 0
    requests_per_second: int = 0
    mb_per_second: int = 0
    has_arm: bool = False


DISKS = {
    "fast": Disk("that of --directory, as it is"),
    "ssd": Disk("120 us a request, 550 MB/s, as an SSD on SATA", 120, 0, 550),
    # As Amazon sells gp3 without extra payment: 125 MiB a second.
    "cloud": Disk("500 us, 3,000 requests a second, 131 MB/s, as a volume over a network", 500, 3000, 131),
    "hdd": Disk("8 ms, one request at a time, seeks by distance, 210 MB/s", 8000, 0, 210, has_arm=True),
}
EMULATED = [name for name, disk in DISKS.items() if disk.latency_us]


def add_arguments(parser):
    """The options of a benchmark that pages to a disk."""
    parser.add_argument("--directory", default="/var/tmp", help="where to work, and to page to unless --disk says otherwise")
    parser.add_argument(
        "--disk", choices=DISKS, default="fast", help="; ".join(f"{name}: {disk.description}" for name, disk in DISKS.items())
    )


def result_name(prefix, disk):
    """The name of today's results of a benchmark on a disk."""
    return f"{prefix}{'' if disk == 'fast' else f'{disk}-'}{datetime.date.today().isoformat()}.csv"


@contextlib.contextmanager
def disk(name, directory):
    """A folder on a disk, which is there until this process leaves the context or ends, even if it
    is killed. The process that keeps the disk is no child of this one, whose children may be ended,
    unless this one was a subreaper before."""
    if not DISKS[name].latency_us:
        yield directory
        return
    command = ["setsid", "--fork", sys.executable, __file__, "--keep", name, "--directory", directory]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        folder = keeper.stdout.readline().strip()
        # setsid ends at once: it only starts the process that keeps the disk.
        keeper.wait()
        if not folder:
            sys.exit(f"there is no disk {name}")
        try:
            yield folder
        finally:
            keeper.stdin.close()
            # This ends when the disk is gone.
            keeper.stdout.read()


def keep(name, directory):
    """Makes a disk, prints its folder, and takes it down when standard input ends. The other end is
    the benchmark's, so the kernel closes it however the benchmark ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.ExitStack() as undo:
        print(make(DISKS[name], directory, undo), flush=True)
        sys.stdin.read()


def make(disk, directory, undo):
    """Makes a disk and a file system on it. Each step leaves in `undo` what undoes it."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="sweephand-disk-", dir=directory))
    undo.callback(work.rmdir)
    mount, folder, server = work / "mount", work / "folder", work / "slow_disk"
    for place in (mount, folder):
        place.mkdir()
        undo.callback(place.rmdir)
    undo.callback(server.unlink, missing_ok=True)
    flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
    run("cc", "-O2", "-pthread", "-o", server, HERE / "slow_disk.c", *flags, "-lm")

    bounds = [DISK_MIB, disk.latency_us, disk.requests_per_second, disk.mb_per_second * 1_000_000]
    command = [server, mount, *map(str, bounds), "arm" if disk.has_arm else "no-arm"]
    # It ends when it is no longer mounted.
    serving = undo.enter_context(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
    if serving.stdout.readline() != "mounted\n":
        sys.exit("slow_disk.c does not serve")
    undo.callback(run_when_idle, "umount", mount)

    loop = run("losetup", "--find", "--show", "--direct-io=on", mount / "disk").strip()
    undo.callback(run_when_idle, "losetup", "--detach", loop)
    # The kernel reads ahead and chooses swap slots in another way on a disk that turns.
    pathlib.Path(f"/sys/block/{pathlib.Path(loop).name}/queue/rotational").write_text(str(int(disk.has_arm)))
    # Nothing is left to be written while programs are measured.
    run("mkfs.ext4", "-q", "-O", "^has_journal", "-N", "1024", "-m", "0", "-E", "lazy_itable_init=0,nodiscard", loop)
    run("mount", "-o", "noatime", loop, folder)
    undo.callback(run_when_idle, "umount", folder)
    # Programs of other users page here too, as in /var/tmp.
    work.chmod(0o755)
    folder.chmod(0o1777)
    return folder


def run(*command):
    """What a command prints. It has said what is wrong if it fails, and then this ends."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed; {__file__} needs: apt-get install gcc pkg-config libfuse3-dev e2fsprogs")
    return done.stdout


def run_when_idle(*command):
    """Runs a command that fails as long as something is busy."""
    deadline = time.monotonic() + GRACE_SECONDS
    while (done := subprocess.run(command, stderr=subprocess.PIPE, text=True)).returncode:
        if time.monotonic() > deadline:
            print(f"left behind: {done.stderr.strip()}", file=sys.stderr)
            return
        time.sleep(0.1)


def device_of(folder):
    """The block device that a folder is on."""
    number = os.stat(folder).st_dev
    return pathlib.Path("/dev") / pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name


def read_pages(device, count, seed):
    """Seconds that pages at random take to read from the device, past the page cache."""
    chance, page, seconds = random.Random(seed), mmap.mmap(-1, mmap.PAGESIZE), []
    file = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        pages = os.lseek(file, 0, os.SEEK_END) // mmap.PAGESIZE
        for _ in range(count):
            start = time.monotonic()
            os.preadv(file, [page], chance.randrange(pages) * mmap.PAGESIZE)
            seconds.append(time.monotonic() - start)
    finally:
        # The disk can only go when nobody has it open.
        os.close(file)
    return seconds


def check(name, directory):
    """Prints how long single reads take, and how many come in a second, eight at a time."""
    with disk(name, directory) as folder, concurrent.futures.ThreadPoolExecutor(8) as pool:
        device = device_of(folder)
        alone = sorted(seconds * 1e6 for seconds in read_pages(device, 50, 0))
        start = time.monotonic()
        count = sum(map(len, pool.map(lambda seed: read_pages(device, 50, seed), range(1, 9))))
        rate = count / (time.monotonic() - start)
    print(
        f"{name:5} {alone[0]:7.0f} {statistics.median(alone):7.0f} {alone[-1]:7.0f} us a read (least, median, most), "
        f"{rate:7.0f} reads/s of 8 at a time: {DISKS[name].description}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EMULATED)}; all")
    parser.add_argument("--directory", default="/var/tmp", help="where the disks are mounted")
    parser.add_argument("--keep", metavar="NAME", help="what benchmarks do: one disk, until standard input ends")
    args = parser.parse_args()
    if unknown := set(args.names) - set(EMULATED):
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(EMULATED)}")
    if os.geteuid():
        sys.exit("run this as root, who can mount a disk")
    if args.keep:
        keep(args.keep, args.directory)
        return
    for name in args.names or EMULATED:
        check(name, args.directory)


if __name__ == "__main__":
    main()

"""A memory cgroup of either version, and a swap area, which are gone at the end. See README.md."""

import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import threading
import time

MIB = 1 << 20
GRACE_SECONDS = 20


def first_that_is(*paths):
    return next((path for path in paths if path.exists()), None)


class Cgroup:
    """A cgroup for one service. `make` makes it anew, without what was charged to it before."""

    def __init__(self, name):
        self.undo = contextlib.ExitStack()
        tree = pathlib.Path("/sys/fs/cgroup/memory")
        self.is_first_version = (tree / "cgroup.procs").exists()
        if not self.is_first_version:
            tree = tree.parent
            control = tree / "cgroup.subtree_control"
            if "memory" not in control.read_text().split():
                control.write_text("+memory")
                self.undo.callback(control.write_text, "-memory")
        self.path = tree / name
        # Version 1 counts processor time in another tree.
        self.clock = pathlib.Path("/sys/fs/cgroup/cpuacct") / name if self.is_first_version else self.path
        self.places = list(dict.fromkeys((self.path, self.clock)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
        self.undo.close()

    def make(self):
        self.remove()
        for place in self.places:
            place.mkdir()

    def pids(self):
        with contextlib.suppress(OSError):
            return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]
        return []

    def end_processes(self):
        """Ends all that is in it, and waits until it has gone."""
        deadline = time.monotonic() + GRACE_SECONDS
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                # Those that are children of this process wait for it.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.02)

    def remove(self):
        if self.path.exists():
            self.limit(None)
            self.end_processes()
            if self.is_first_version:
                with contextlib.suppress(OSError):
                    (self.path / "memory.force_empty").write_text("0")
        deadline = time.monotonic() + GRACE_SECONDS
        for place in self.places:
            while place.exists():
                try:
                    place.rmdir()
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)

    def join(self):
        """For a child, before it becomes another program."""
        for place in self.places:
            (place / "cgroup.procs").write_text(str(os.getpid()))

    def limit(self, mib):
        """Sets the limit, or none. The kernel may need several attempts to lower it."""
        file = self.path / ("memory.limit_in_bytes" if self.is_first_version else "memory.max")
        none = "-1" if self.is_first_version else "max"
        deadline = time.monotonic() + GRACE_SECONDS
        while True:
            try:
                file.write_text(none if mib is None else str(int(mib * MIB)))
                return True
            except OSError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.1)

    def processor_seconds(self):
        """Of all that has run in it."""
        if self.is_first_version:
            return int((self.clock / "cpuacct.usage").read_text()) / 1e9
        counts = dict(line.split() for line in (self.clock / "cpu.stat").read_text().splitlines())
        return int(counts["usage_usec"]) / 1e6

    def oom_kills(self):
        """Processes that the kernel has killed, because the limit left no other way."""
        file = self.path / ("memory.oom_control" if self.is_first_version else "memory.events")
        return int(dict(line.split() for line in file.read_text().splitlines())["oom_kill"])

    def usage(self):
        """Bytes that are charged to it."""
        return int((self.path / ("memory.usage_in_bytes" if self.is_first_version else "memory.current")).read_text())

    def paging(self):
        """Counts so far: faults that waited, pages that came back, and the microseconds for which
        some process of the machine has waited for memory."""
        lines = (self.path / "memory.stat").read_text().splitlines()
        counts = {name: int(value) for name, value in map(str.split, lines)}
        # In version 1, a name with `total_` includes the cgroups below.
        count = lambda name: counts.get(f"total_{name}", counts.get(name, 0))
        stalled = pathlib.Path("/proc/pressure/memory").read_text().split()
        return {
            "faults": count("pgmajfault"),
            "refaults": count("workingset_refault_anon") + count("workingset_refault_file"),
            "stalled": int(next(word for word in stalled if word.startswith("total=")).removeprefix("total=")) / 1e6,
        }

    def stat(self):
        """What memory.stat counts, in MiB, by the names of version 2."""
        lines = (self.path / "memory.stat").read_text().splitlines()
        counts = {name: int(value) / MIB for name, value in map(str.split, lines)}
        if self.is_first_version:
            kernel = int((self.path / "memory.kmem.usage_in_bytes").read_text()) / MIB
            names = {"anon": "rss", "file": "cache", "shmem": "shmem", "mapped": "mapped_file"}
        else:
            kernel = counts["kernel"]
            names = {"anon": "anon", "file": "file", "shmem": "shmem", "mapped": "file_mapped"}
        return {name: round(counts[own], 2) for name, own in names.items()} | {"kernel": round(kernel, 2)}


class Sampler(threading.Thread):
    """Reads how much is charged to a cgroup, ten times a second, while it is there."""

    def __init__(self, cgroup):
        super().__init__(daemon=True)
        self.cgroup, self.over, self.samples = cgroup, threading.Event(), []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def run(self):
        while True:
            with contextlib.suppress(FileNotFoundError):
                self.samples.append(self.cgroup.usage() / MIB)
            if self.over.wait(0.1):
                return

    def peak(self):
        return max(self.samples)

    def percentile_95(self):
        return statistics.quantiles(self.samples, n=20)[-1] if len(self.samples) > 1 else self.samples[0]


@contextlib.contextmanager
def swap_area(directory, mib):
    """A swap file of its own, before all other areas but compressed ones."""
    file = pathlib.Path(directory) / "swap"
    with contextlib.ExitStack() as undo:
        undo.callback(file.unlink, missing_ok=True)
        subprocess.run(["fallocate", "-l", f"{mib}MiB", file], check=True)
        file.chmod(0o600)
        subprocess.run(["mkswap", file], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["swapon", "--priority", "1000", file], check=True)
        undo.callback(subprocess.run, ["swapoff", file], check=True)
        yield


def drop(folder):
    """Has the cache forget the files of a folder, so that who reads them next is charged."""
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                file = os.open(os.path.join(place, name), os.O_RDONLY | os.O_NONBLOCK)
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)

"""Sweeps: traces x policies x memory sizes as independent cells, computed here or on a cluster.

The extension module defines cells, finds missing ones and keeps rows, for all executors alike. This
module hands cells to executors and fetches traces.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, Any

from sweephand import _sweephand
from sweephand._arguments import one_trace, sample_size, several_policies, several_sizes, thread_count, trace_items, warmup_length
from sweephand._notes import warn
from sweephand._progress import Progress, watched
from sweephand._sweephand import SweephandError, Trace
from sweephand._table import Table

Plan = str | PathLike[str] | Mapping[str, Any]
"""A plan: the path of its TOML file, or `dict(traces=[...], policies=[...], memory=[...])`, if need
be with `sample="1%"` and `sample_seed=2`, or with `warmup="20%"`."""


@dataclass(frozen=True)
class Refused:
    """Why a cell has no row, however often it is tried. It is returned and not raised, so that
    executors neither try it again nor print where it was raised."""

    words: str


Answer = tuple[int, str | Refused | BaseException]
"""Which of the missing cells, and its row as JSON, or why there is none."""

TRACES = "_traces"
"""The folder beside the results that has the traces which came as objects, by checksum."""

HASHERS = 16
"""Traces that are read at once to hash them."""

FEWEST_IN_FLIGHT = 1000
"""Tasks that an executor holds at least, so that a cluster that grows with its work can see some.
There is no need for it to hold millions."""

IN_FLIGHT_PER_PROCESSOR = 8
"""Tasks that an executor holds for each processor, so that none waits for the next."""

LOOK_SECONDS = 0.1
"""Time between two looks at what Ray has done."""

CACHE_BYTES = 32 << 30
"""Fetched traces that a machine keeps, unless it is said how many."""


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep.

    >>> plan = {"traces": [1, 2, 3, 1], "policies": ["lru", "fifo"], "memory": [2, 3]}
    >>> swept = sweephand.sweep(plan, "some-faults", workers=1)
    >>> swept.cells, swept.computed, swept.failures
    (4, 4, [])
    """

    results: Path
    """The folder of the Parquet dataset, for anything that reads one."""
    cells: int
    """Cells of the plan."""
    computed: int
    """Those computed now; the others were there before, or failed."""
    failures: list[dict[str, Any]]
    """The cells that failed: `cell`, `trace`, `policy`, `memory`, `attempts`, `error`. The next run
    tries them again."""

    def table(self) -> Table:
        """All rows of the dataset, in no particular order. The columns are those of `simulate`, and
        what makes each the row of its cell: `memory`, `window` (pages), `sample`, `sample_seed`,
        `warmup`, `trace_hash`, `version`, `seconds`, `cell`. Counts are int64.

        >>> plan = {"traces": [1, 2, 3, 1], "policies": "lru", "memory": 2}
        >>> sweephand.sweep(plan, "few-faults", workers=1).table()["faults"].to_pylist()
        [4]
        """
        import pyarrow.dataset as dataset

        made: Table = dataset.dataset(self.results, format="parquet").to_table()
        return made


def sweep(
    plan: Plan,
    output: str | PathLike[str],
    executor: Any = "local",
    *,
    workers: int | None = None,
    retries: int = 2,
    prune: bool = False,
    cache: str | PathLike[str] | None = None,
    cache_bytes: int = CACHE_BYTES,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = None,
) -> Sweep:
    """Counts the page faults of every policy at every memory size on every trace of a plan, here or
    on a cluster, and keeps them as a Parquet dataset, as `sweephand sweep` does. Rows that are in
    the dataset already are not computed again.

    plan: the path of a TOML file, or a dictionary with the same entries.
        `traces`: paths and patterns, relative to the plan's folder or the current one; URLs that
        fsspec knows, such as `s3://bucket/*.swt`; `{"file": ...}` with the `"hash"` that the file
        must have, the `"name"` that it gets in results, or both; `Trace` objects and arrays of page
        numbers, which are saved beside the results so that workers can read them.
        `policies` and `memory`: as for `simulate`, without `all` sizes, and without policies of
        your own: a row is kept by everything it depends on, and a name does not say what a class
        does.
        `sample`, `sample_seed`, `warmup`: as for `simulate`.
        An item that is in a list twice counts once.
    output: the directory of the dataset, on this machine.
    executor: `"local"`: worker processes of this machine. `"dask"`: the current client of Dask
        distributed, or a cluster on this machine. A `distributed.Client`. `"ray"`: the Ray that is
        initialised, or one on this machine.
    workers: the number of processes, if they are started here; by default one for each processor,
        and never more.
    retries: how often a cell is tried again if it ended its worker, or if a disk or a network
        failed. A cell that would fail again, because of its trace or its policy, is tried once.
    prune: remove rows of cells that are not, or no longer, in the plan.
    cache: where workers keep fetched traces, by hash; by default `sweephand/traces` in the cache
        directory of their user.
    cache_bytes: a worker that fetches a trace removes others from there until at most this many
        bytes are left, starting with those that were not used for the longest time. The new trace
        and traces in use stay.
    storage_options: for fsspec. What it finds in its own configuration and the environment need not
        be repeated.
    progress: see `sweephand.Progress`.

    Each machine that has a cell of a trace fetches the trace once. It checks the trace by its hash:
    the hash in the plan, or that of the file when the sweep was started. Ctrl-C keeps what is done.
    Cells that failed are in the result, and a warning says so.

    Returns a `Sweep`. Raises a `SweephandError` that names the wrong entry of the plan, or the
    trace that cannot be read.

    >>> trace = sweephand.generate("zipf", pages=300, references=20_000).renamed("zipf")
    >>> plan = {"traces": trace, "policies": ["lru", "clock"], "memory": [0.25, "50%"]}
    >>> sweephand.sweep(plan, "zipf-faults", workers=1).computed
    4
    """
    read, objects = _read(plan, Path(output))
    workers = thread_count(workers, "workers")
    retries = thread_count(retries, "retries", least=0) or 0
    options = dict(storage_options or {})
    task = Task(None if cache is None else os.path.abspath(cache), cache_bytes, options)
    with closing(_sweephand.Dataset(output)) as dataset:
        for path, trace in objects.items():
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                trace.save(path)
        traces = _identified(read, dataset, options)
        cells, missing, others = dataset.want(read, traces, prune)
        results = Path(output, "results")
        if others:
            warn(f"{results}: {others} rows are of cells that this plan does not have; prune=True removes them")
        with watched(progress, "cell") as show:
            if executor == "local":
                environment = [(ENVIRONMENT, json.dumps([task.cache, task.cache_bytes, task.storage_options]))]
                computed, records = dataset.run_local(workers, retries, WORKER, environment, show)
            else:
                bounded = _sweephand.bounded_threads(workers, missing)
                batches = _batches(executor, dataset.cell, missing, bounded, retries, task)
                computed, records = _taken_in(dataset, batches, missing, retries, show)
    failures = [json.loads(record) for record in records]
    if failures:
        first = failures[0]
        warn(
            f"{len(failures)} of {cells} cells failed, such as {first['trace']}, {first['policy']}, {first['memory']}: "
            f"{first['error']}"
        )
    return Sweep(results, cells, computed, failures)


def _read(plan: Plan, output: Path) -> tuple[_sweephand.Plan, dict[Path, Trace]]:
    """The plan, and the traces to save where it says that they lie."""
    if not isinstance(plan, Mapping):
        return _sweephand.Plan.open(plan), {}
    objects: dict[Path, Trace] = {}

    def trace(item: Any) -> Any:
        if isinstance(item, str | PathLike | Mapping):
            return os.fspath(item) if isinstance(item, PathLike) else item
        opened = one_trace("plan: traces", item)
        path = _file_of(opened)
        if path is None:
            path = Path(os.path.abspath(output), TRACES, f"{opened.checksum}.swt")
            objects[path] = opened
        return {"file": str(path), "name": opened.name}

    read = dict(plan)
    if "traces" in read:
        given = read["traces"]
        items = [given] if isinstance(given, Mapping) else trace_items("plan: traces", given)
        read["traces"] = [trace(item) for item in items]
    if "policies" in read:
        read["policies"] = several_policies(read["policies"])
        for policy in read["policies"]:
            if not isinstance(policy, str):
                raise SweephandError(
                    f"plan: policies: {getattr(policy, '__name__', policy)} is of your own, and a row is kept by all that it "
                    "depends on, which the name of a class does not say; give it to simulate, or make it part of a command of "
                    "your own (docs/own-policies.md)"
                )
    if "memory" in read:
        read["memory"] = several_sizes(read["memory"])
    if read.get("sample") is not None:
        read["sample"] = sample_size(read["sample"])
    if read.get("warmup") is not None:
        read["warmup"] = warmup_length(read["warmup"])
    return _sweephand.Plan.parse_json(json.dumps(read), os.getcwd()), objects


def _file_of(trace: Trace) -> Path | None:
    """The file of Sweephand's own format that a trace was opened from, if it is there still."""
    path = Path(os.path.abspath(trace.name))
    with suppress(SweephandError):
        if path.suffix == ".swt" and path.is_file() and Trace.open(path) == trace:
            return path
    return None


def _taken_in(
    dataset: _sweephand.Dataset,
    batches: Generator[list[Answer]],
    missing: int,
    retries: int,
    show: Callable[[int, int], object] | None,
) -> tuple[int, list[str]]:
    """Puts rows into the dataset as they come in."""
    computed, failures = 0, []
    with closing(batches):
        # With nothing to do no cluster is started.
        for answers in batches if missing else ():
            rows = [row for _, row in answers if isinstance(row, str)]
            dataset.add(rows)
            computed += len(rows)
            for number, error in answers:
                if isinstance(error, Refused):
                    failures.append(dataset.fail(number, 1, error.words))
                elif isinstance(error, BaseException):
                    failures.append(dataset.fail(number, retries + 1, _words(error)))
            if show and answers:
                show(computed + len(failures), missing)
    return computed, failures


def _words(error: BaseException) -> str:
    """An error's message, in one line."""
    # Ray packs exceptions of tasks into its own.
    error = getattr(error, "cause", None) or error
    words = " ".join(str(error).split())
    return words if isinstance(error, SweephandError) else f"{type(error).__name__}: {words}"


# Executors. Scheduling, retries and dashboards are theirs; here, tasks are given to them, not too
# many at once.


@dataclass(frozen=True)
class Task:
    """The function that an executor calls with a cell. Workers unpickle it, so they need this
    package."""

    cache: str | None = None
    cache_bytes: int = CACHE_BYTES
    storage_options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, cell: str) -> str | Refused:
        """Computes a cell: its row, as JSON."""
        is_row, words = _sweephand.run_cell(cell, self.fetch(cell))
        return words if is_row else Refused(words)

    def fetch(self, cell: str) -> str:
        """The path of a cell's trace on this machine, fetched if need be."""
        return _fetched(json.loads(cell)["trace"], self)


def _batches(
    executor: Any, cell: Callable[[int], str], missing: int, workers: int, retries: int, task: Task
) -> Generator[list[Answer]]:
    if executor == "ray":
        return _on_ray(cell, missing, workers, retries, task)
    if executor == "dask" or type(executor).__module__.partition(".")[0] == "distributed":
        return _on_dask(executor, cell, missing, workers, retries, task)
    raise SweephandError(f"executor {executor!r}: is none; there are 'local', 'dask' or a distributed.Client, and 'ray'")


def _upto(missing: int, given: int, in_flight: int, processors: int) -> int:
    """How many cells an executor may have been given by now."""
    return min(missing, given + max(FEWEST_IN_FLIGHT, IN_FLIGHT_PER_PROCESSOR * processors) - in_flight)


def _on_dask(
    executor: Any, cell: Callable[[int], str], missing: int, workers: int, retries: int, task: Task
) -> Generator[list[Answer]]:
    try:
        from distributed import as_completed
    except ImportError as error:
        raise SweephandError("executor 'dask': it is not installed; pip install 'sweephand[dask]'") from error
    with _dask_client(executor, workers) as client:
        run = os.urandom(8).hex()
        numbers: dict[Any, int] = {}
        given = 0
        completed = as_completed(with_results=True, raise_errors=False)
        try:
            processors, looked = 0, -math.inf
            while given < missing or numbers:
                # A cluster may grow; asking the scheduler costs as much as a cell.
                if time.monotonic() - looked > 1:
                    processors, looked = sum(client.nthreads().values()), time.monotonic()
                for number in range(given, _upto(missing, given, len(numbers), processors)):
                    key = f"sweephand-cell-{number}-{run}"
                    future = client.submit(task, cell(number), key=key, retries=retries, pure=False)
                    numbers[future] = number
                    completed.add(future)
                    given = number + 1
                # What failed comes as type, exception and traceback.
                yield [
                    (numbers.pop(future), result if future.status == "finished" else result[1])
                    for future, result in completed.next_batch()
                ]
        finally:
            client.cancel(list(numbers))


@contextmanager
def _dask_client(executor: Any, workers: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster, get_client

    if executor != "dask":
        yield executor
        return
    try:
        client = get_client()
    except ValueError:
        with LocalCluster(n_workers=workers, threads_per_worker=1) as cluster, Client(cluster) as client:
            yield client
    else:
        yield client


def _on_ray(cell: Callable[[int], str], missing: int, workers: int, retries: int, task: Task) -> Generator[list[Answer]]:
    try:
        import ray
    except ImportError as error:
        raise SweephandError("executor 'ray': it is not installed; pip install 'sweephand[ray]'") from error
    numbers: dict[Any, int] = {}
    started = not ray.is_initialized()
    if started:
        ray.init(num_cpus=workers, log_to_driver=False)
    try:
        # It fails for good when it failed so often, by an exception or with its worker.
        simulate = ray.remote(num_cpus=1, max_retries=retries, retry_exceptions=True)(_simulated)
        shared = ray.put(task)
        given = 0
        while given < missing or numbers:
            processors = int(ray.cluster_resources().get("CPU", 1))
            for number in range(given, _upto(missing, given, len(numbers), processors)):
                numbers[simulate.remote(shared, cell(number))] = number
                given = number + 1
            # Looking costs something for each task in flight, so it is done now and then, for all
            # that have come in.
            ready, _ = ray.wait(list(numbers), num_returns=len(numbers), timeout=LOOK_SECONDS)
            yield list(zip((numbers.pop(answer) for answer in ready), _got(ray, ready), strict=True))
    finally:
        for answer in numbers:
            ray.cancel(answer)
        if started:
            ray.shutdown()


def _simulated(task: Task, cell: str) -> str | Refused:
    return task(cell)


def _got(ray: Any, answers: list[Any]) -> list[str | Refused | BaseException]:
    try:
        return list(ray.get(answers))
    except ray.exceptions.RayError as error:
        # Some of them is none: they are asked for one by one.
        return [error] if len(answers) == 1 else [got for answer in answers for got in _got(ray, [answer])]


ENVIRONMENT = "SWEEPHAND_WORKER"
"""The variable that tells worker processes of this machine where to fetch traces: not their command
line, which others see."""

WORKER = [sys.executable, "-c", "from sweephand import _sweep; _sweep.work()"]
"""How such a process is started."""


def work() -> None:
    """What such a process does."""
    _sweephand.serve(Task(*json.loads(os.environ[ENVIRONMENT])).fetch)


# Traces that lie elsewhere.


def _identified(
    plan: _sweephand.Plan, dataset: _sweephand.Dataset, options: Mapping[str, Any]
) -> list[tuple[str, str, str | None]]:
    """The plan's traces, with patterns of URLs expanded and a hash for each URL."""
    traces: list[tuple[str, str, str | None]] = []
    for name, location, known in plan.traces():
        if _sweephand.is_url(location) and "*" in location:
            traces += [(url, url, None) for url in _matching(location, options)]
        else:
            traces.append((name, location, known))

    def identified(trace: tuple[str, str, str | None]) -> tuple[str, str, str | None, str]:
        name, location, known = trace
        token = ""
        if known is None and _sweephand.is_url(location):
            with _telling(location):
                filesystem, path = _filesystem(location, options)
                token = _token(filesystem.info(path))
                known = dataset.known_hash(location, token) if token else None
                known = known or _hash(filesystem, path)
        return name, location, known, token

    with ThreadPoolExecutor(HASHERS) as pool:
        found = list(pool.map(identified, traces))
    dataset.remember_hashes([(location, token, known) for _, location, known, token in found if token and known])
    return [(name, location, known) for name, location, known, _ in found]


def _matching(pattern: str, options: Mapping[str, Any]) -> list[str]:
    with _telling(pattern):
        filesystem, path = _filesystem(pattern, options)
        found = [filesystem.unstrip_protocol(name) for name in sorted(filesystem.glob(path))]
    if not found:
        raise SweephandError(f"{pattern}: no file matches")
    return found


def _token(info: Mapping[str, Any]) -> str:
    """What identifies a file's contents without reading them; empty if only the length is known."""
    names = ("ETag", "etag", "md5Hash", "generation", "LastModified", "last_modified", "mtime")
    said = {name: str(info[name]) for name in names if info.get(name)}
    return json.dumps({"size": info.get("size"), **said}) if said else ""


def _hash(filesystem: Any, path: str) -> str:
    """The hash of a remote file: the one that a local file with the same bytes has."""
    hasher = _sweephand.Hasher()
    with filesystem.open(path, "rb") as file:
        while block := file.read(1 << 22):
            hasher.update(block)
    return hasher.finish()


def _fetched(trace: Mapping[str, str], task: Task) -> str:
    """The path of a trace on this machine. The first process that needs it fetches it; the others
    wait."""
    location, expected = trace["location"], trace["hash"]
    if not _sweephand.is_url(location):
        return location
    folder = Path(task.cache) if task.cache else _cache_folder()
    path = folder / expected.replace(":", "-")
    with _telling(location):
        folder.mkdir(parents=True, exist_ok=True)
        while not _in_use.hold(path):
            with _lock(path) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if path.exists():
                    continue
                # Who is killed leaves it to the next one, who has the lock then.
                part = Path(f"{path}.part")
                filesystem, name = _filesystem(location, task.storage_options)
                filesystem.get_file(name, str(part))
                try:
                    _sweephand.check_hash(part, expected, location)
                except SweephandError:
                    part.unlink()
                    raise
                part.replace(path)
                _make_room(folder, task.cache_bytes, path)
    return str(path)


def _lock(path: Path) -> IO[str]:
    """The file whose lock protects a trace. Whoever fetches or removes the trace holds it alone;
    users share it."""
    return open(f"{path}.lock", "w")


class _InUse(threading.local):
    """The fetched trace that this thread uses. No process removes it while its lock is held."""

    path: Path | None = None
    lock: IO[str] | None = None

    def hold(self, path: Path) -> bool:
        """Uses a trace from now on, in place of the one before, if it is there."""
        if self.path == path and path.exists():
            return True
        if self.lock:
            self.lock.close()
        self.path, self.lock = None, None
        lock = _lock(path)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not path.exists():
            lock.close()
            return False
        # When it was used last. The time of its contents stays: by that workers see that it is the
        # file that they have checked.
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        self.path, self.lock = path, lock
        return True


_in_use = _InUse()

_FETCHED = re.compile(r"(xxh3-[0-9a-f]{16}|sha256-[0-9a-f]{64})(\.part)?")
"""The names of fetched traces, and of what a killed process left of one."""


def _make_room(folder: Path, most_bytes: int, new: Path) -> None:
    """Removes fetched traces that are not in use, the least recently used first, until at most this
    many bytes are left."""
    found = []
    for entry in folder.iterdir():
        # Others may remove some, too.
        with suppress(FileNotFoundError):
            if _FETCHED.fullmatch(entry.name):
                found.append((entry, entry.stat()))
    total = sum(stat.st_size for _, stat in found)
    for entry, stat in sorted(found, key=lambda entry: entry[1].st_atime_ns):
        trace = entry.with_suffix("")
        if total <= most_bytes:
            break
        if trace == new:
            continue
        with _lock(trace) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            entry.unlink(missing_ok=True)
            total -= stat.st_size


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache", "sweephand", "traces")


def _filesystem(location: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise SweephandError(f"{location}: reading it takes fsspec; pip install 'sweephand[s3]', or gcs, or http") from error
    filesystem, path = fsspec.url_to_fs(location, **options)
    return filesystem, path


@contextmanager
def _telling(location: str) -> Iterator[None]:
    """Adds the trace's name to any error about it."""
    try:
        yield
    except SweephandError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise SweephandError(f"{location}: cannot be fetched: {type(error).__name__}: {words}") from error

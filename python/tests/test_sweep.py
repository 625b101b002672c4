"""Sweeps: the same rows on every executor, whatever is killed on the way, and traces that lie
elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import sweephand

TRACES = Path(__file__).parents[2] / "traces"
POLICIES = ["fifo", "lru", "clock", "clock:init=1", "2q", "arc", "car", "lirs", "clock-pro", "sieve", "s3-fifo", "mq", "opt"]
MEMORY = ["5%", "10%", "20%", "30%", "50%", "70%", 128, "1MiB"]
CELLS = 2 * len(POLICIES) * len(MEMORY)
EXECUTORS = ["local", "dask", "ray"]


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Any]:
    import distributed

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    import ray

    context = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield context.address_info["address"]
    ray.shutdown()


@pytest.fixture(params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "dask":
        from distributed import Client

        with Client(request.getfixturevalue("dask_cluster")) as client:
            client.wait_for_workers(2)
            yield client
    else:
        if request.param == "ray":
            request.getfixturevalue("ray_address")
        yield request.param


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces, one that takes a while and one that does not."""
    folder = tmp_path_factory.mktemp("traces")
    shutil.copy(TRACES / "tasks/tcc.swt", folder / "a-tcc.swt")
    shutil.copy(TRACES / "scan-cyclic.swt", folder / "b-scan.swt")
    return folder


def plan_over(*traces: object) -> dict[str, Any]:
    return {"traces": list(traces), "policies": POLICIES, "memory": MEMORY}


def rows(swept: sweephand.Sweep) -> list[dict[str, Any]]:
    """All that a row says but how long it took, in a fixed order. No cell has two rows."""
    table = swept.table().drop_columns(["seconds"]).to_pylist()
    assert len({row["cell"] for row in table}) == len(table)
    return sorted(table, key=lambda row: row["cell"])


@pytest.fixture(scope="session")
def undisturbed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return rows(sweephand.sweep(plan_over(folder / "*.swt"), tmp_path_factory.mktemp("undisturbed"), workers=2))


def test_rows_are_those_of_simulate(folder: Path, undisturbed: list[dict[str, Any]]) -> None:
    simulated = sweephand.simulate(sorted(folder.glob("*.swt")), POLICIES, MEMORY).to_pylist()
    # A dataset has the hash of the file instead.
    for row in simulated:
        del row["trace_checksum"]
    swept = [{name: row[name] for name in simulated[0]} for row in undisturbed]

    def ordered(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(table, key=lambda row: (row["trace"], row["policy"], row["memory_pages"]))

    assert len(swept) == CELLS >= 200
    assert ordered(swept) == ordered(simulated)


def test_every_executor_gives_the_same_rows(
    executor: Any, folder: Path, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    swept = sweephand.sweep(plan_over(folder / "*.swt"), tmp_path / "out", executor, workers=2)
    assert (swept.cells, swept.computed, swept.failures) == (CELLS, CELLS, [])
    assert rows(swept) == undisturbed
    again = sweephand.sweep(plan_over(folder / "*.swt"), tmp_path / "out", executor, workers=2)
    assert (again.computed, rows(again)) == (0, undisturbed)


def processes() -> Iterator[tuple[int, int, str]]:
    """Every process that can be seen: its number, its parent's, its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                yield int(entry.name), parent, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue


def a_busy_worker(executor: Any) -> int:
    if executor == "local":
        return next(number for number, parent, words in processes() if parent == os.getpid() and "_sweep.work()" in words)
    if executor == "ray":
        # Ray says in the name of a process what it is busy with. Between two cells it is none.
        while True:
            for number, _, words in processes():
                if words.startswith("ray::_simulated"):
                    return number
    workers: dict[str, int] = executor.run(os.getpid)
    return next(iter(workers.values()))


def test_a_worker_that_is_killed_loses_nothing(
    executor: Any, folder: Path, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if not killed and done < total:
            killed.append(a_busy_worker(executor))
            os.kill(killed[0], signal.SIGKILL)

    swept = sweephand.sweep(plan_over(folder / "*.swt"), tmp_path / "out", executor, workers=2, progress=kill)
    assert len(killed) == 1
    assert (swept.computed, swept.failures) == (CELLS, [])
    assert rows(swept) == undisturbed


DRIVER = """
import sys, sweephand
kind, address, output, plan = sys.argv[1:]
executor = kind
if kind == "dask":
    from distributed import Client
    executor = Client(address)
elif kind == "ray":
    import ray
    ray.init(address=address, log_to_driver=False)
import json
sweephand.sweep(json.loads(plan), output, executor, workers=2)
"""


@pytest.mark.parametrize("kind", EXECUTORS)
def test_a_driver_that_is_killed_goes_on_with_what_is_missing(
    kind: str, folder: Path, undisturbed: list[dict[str, Any]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address, executor = "", kind
    if kind == "dask":
        from distributed import Client

        address = request.getfixturevalue("dask_cluster").scheduler_address
        executor = Client(address)
    elif kind == "ray":
        address = request.getfixturevalue("ray_address")
    plan = plan_over(str(folder / "*.swt"))
    output = tmp_path / "out"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, kind, address, str(output), json.dumps(plan)])
    journal = output / "_journal.jsonl"
    try:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 10:
            assert driver.poll() is None
            time.sleep(0.001)
    finally:
        driver.kill()
        driver.wait()
    there = journal.read_bytes().count(b"\n")
    assert 10 <= there < CELLS
    swept = sweephand.sweep(plan, output, executor, workers=2)
    assert swept.computed == CELLS - there
    assert rows(swept) == undisturbed
    if kind == "dask":
        executor.close()


def test_what_interrupts_a_sweep_leaves_what_there_is(
    executor: Any, folder: Path, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweephand.sweep(plan_over(folder / "*.swt"), tmp_path / "out", executor, workers=2, progress=interrupt)
    swept = sweephand.sweep(plan_over(folder / "*.swt"), tmp_path / "out", executor, workers=2)
    assert 0 < swept.computed < CELLS
    assert rows(swept) == undisturbed


def test_cells_that_fail_are_told_and_tried_again(executor: Any, folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("one\n")
    plan = {"traces": [folder / "b-scan.swt", bad], "policies": ["lru"], "memory": ["10%", "20%"]}
    for computed in (2, 0):
        with pytest.warns(UserWarning, match=r"2 of 4 cells failed, such as .*bad\.txt, lru, \d0%: .*not a page number"):
            swept = sweephand.sweep(plan, tmp_path / "out", executor, retries=1)
        # What a trace says does not change by itself, so it is tried once and told in a line.
        assert (swept.computed, [failure["attempts"] for failure in swept.failures]) == (computed, [1, 1])
        assert not any("\n" in failure["error"] or "Traceback" in failure["error"] for failure in swept.failures)
        recorded = (tmp_path / "out/_failures.jsonl").read_text().splitlines()
        assert sorted(json.loads(line)["memory"] for line in recorded) == ["10%", "20%"]
    bad.write_text("1\n")
    assert sweephand.sweep(plan, tmp_path / "out", executor).computed == 2


# Traces that lie elsewhere.


@pytest.fixture(scope="session")
def s3(folder: Path) -> Iterator[dict[str, Any]]:
    """A server that speaks S3, with the traces in a bucket: fsspec's options for it."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "k", "secret": "s"}
    filesystem = s3fs.S3FileSystem(**options)
    filesystem.mkdir("bucket")
    for path in folder.iterdir():
        filesystem.put_file(str(path), f"bucket/{path.name}")
    yield options
    server.stop()


def test_traces_come_from_s3(executor: Any, s3: dict[str, Any], undisturbed: list[dict[str, Any]], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    swept = sweephand.sweep(
        plan_over("s3://bucket/*.swt"), tmp_path / "out", executor, workers=2, cache=cache, storage_options=s3
    )
    assert (swept.computed, swept.failures) == (CELLS, [])

    def counts(table: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        # The same files by another name.
        names = [name for name in table[0] if name not in ("trace", "cell")]
        return sorted((Path(row["trace"]).name, *(row[name] for name in names)) for row in table)

    assert counts(rows(swept)) == counts(undisturbed)
    assert sum(path.suffix not in (".lock", ".part") for path in cache.iterdir()) == 2
    assert not list(cache.glob("*.part"))
    again = sweephand.sweep(plan_over("s3://bucket/*.swt"), tmp_path / "out", executor, storage_options=s3)
    assert again.computed == 0


class Counting(SimpleHTTPRequestHandler):
    """Serves files and counts how often they are asked for."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        time.sleep(0.2)  # Long enough for the other worker to want the same.
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def http(tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """A server of a folder: its address, the folder, what was asked for."""
    served = tmp_path / "served"
    served.mkdir()
    asked: list[str] = []

    def handler(*arguments: Any) -> Counting:
        return type("Handler", (Counting,), {"asked": asked})(*arguments, directory=str(served))

    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}", served, asked
        server.shutdown()


def sha256(path: Path) -> str:
    import hashlib

    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_a_trace_is_fetched_once_and_checked(http: tuple[str, Path, list[str]], folder: Path, tmp_path: Path) -> None:
    address, served, asked = http
    shutil.copy(folder / "b-scan.swt", served / "t.swt")
    trace = {"file": f"{address}/t.swt", "hash": sha256(served / "t.swt")}
    plan = {"traces": trace, "policies": ["lru", "clock"], "memory": ["10%", "20%"]}
    cache = tmp_path / "cache"
    swept = sweephand.sweep(plan, tmp_path / "out", workers=2, cache=cache)
    assert (swept.computed, asked) == (4, ["/t.swt"])

    # Another file in its place is not taken for it, and nothing of it is kept.
    shutil.rmtree(cache)
    shutil.copy(folder / "a-tcc.swt", served / "t.swt")
    with pytest.warns(UserWarning, match=r"http://.*/t\.swt: is not the file that was planned with: sha256:"):
        swept = sweephand.sweep(plan, tmp_path / "other", workers=1, cache=cache, retries=0)
    assert (swept.computed, len(swept.failures)) == (0, 4)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_a_trace_that_changes_where_it_lies_is_another(http: tuple[str, Path, list[str]], folder: Path, tmp_path: Path) -> None:
    address, served, _ = http
    plan = {"traces": f"{address}/t.swt", "policies": "lru", "memory": ["10%", "20%"]}

    def computed() -> int:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* rows are of cells that this plan does not have")
            return sweephand.sweep(plan, tmp_path / "out", workers=1, cache=tmp_path / "cache").computed

    shutil.copy(folder / "b-scan.swt", served / "t.swt")
    assert [computed(), computed()] == [2, 0]
    shutil.copy(folder / "a-tcc.swt", served / "t.swt")
    assert [computed(), computed()] == [2, 0]


def test_a_trace_is_the_same_wherever_it_lies(http: tuple[str, Path, list[str]], folder: Path, tmp_path: Path) -> None:
    address, served, _ = http
    shutil.copy(folder / "b-scan.swt", served / "t.swt")

    def computed(trace: dict[str, str]) -> int:
        plan = {"traces": trace, "policies": "lru", "memory": ["10%", "20%"]}
        return sweephand.sweep(plan, tmp_path / "out", workers=1, cache=tmp_path / "cache").computed

    assert computed({"file": str(folder / "b-scan.swt"), "name": "b"}) == 2
    assert computed({"file": f"{address}/t.swt", "name": "b"}) == 0
    with pytest.warns(UserWarning, match="2 rows are of cells that this plan does not have"):
        assert computed({"file": f"{address}/t.swt"}) == 2


def test_the_cache_keeps_so_many_bytes_and_what_is_in_use(http: tuple[str, Path, list[str]], tmp_path: Path) -> None:
    from sweephand import _sweep, _sweephand

    address, served, asked = http
    cells = {}
    for name in "abcd":
        (served / name).write_text(name * 1000)
        hasher = _sweephand.Hasher()
        hasher.update((served / name).read_bytes())
        cells[name] = json.dumps({"trace": {"name": name, "location": f"{address}/{name}", "hash": hasher.finish()}})
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "notes.txt").write_text("not a trace" * 500)
    # What a killed process left of a fetch.
    (cache / "xxh3-0123456789abcdef.part").write_text("x" * 1000)
    task = _sweep.Task(str(cache), 2500)

    def there() -> str:
        return "".join(sorted(path.read_text()[0] for path in cache.iterdir() if path.suffix != ".lock"))

    a = Path(task.fetch(cells["a"]))
    assert there() == "anx"
    with ThreadPoolExecutor(1) as other:
        other.submit(task.fetch, cells["b"]).result()
        assert there() == "abn"
        # The oldest is in use by this thread.
        other.submit(task.fetch, cells["c"]).result()
        assert there() == "acn"
        changed = a.stat().st_mtime_ns
        assert (task.fetch(cells["a"]), a.stat().st_mtime_ns) == (str(a), changed)
        # Now it is not any more.
        task.fetch(cells["d"])
        assert there() == "cdn"
        task.fetch(cells["a"])
        assert there() == "acn"
        assert asked == ["/a", "/b", "/c", "/d", "/a"]
    # Somebody empties the cache while it is in use.
    shutil.rmtree(cache)
    assert Path(task.fetch(cells["a"])).read_text() == "a" * 1000
    Path(task.fetch(cells["a"])).unlink()
    assert Path(task.fetch(cells["a"])).read_text() == "a" * 1000


# The rest.


def test_a_plan_can_ask_for_a_sample(tmp_path: Path) -> None:
    from pyarrow import parquet

    trace = str(tmp_path / "zipf.swt")
    sweephand.generate("zipf", pages=20_000, references=200_000, output=trace)
    plan = {"traces": trace, "policies": ["lru", "clock"], "memory": "50%"}
    samples: list[dict[str, Any]] = [{}, {"sample": "10%"}, {"sample": "10%", "sample_seed": 2}]
    for number, sample in enumerate(samples):
        swept = sweephand.sweep({**plan, **sample}, tmp_path / str(number), workers=1)
        assert (swept.computed, swept.failures) == (2, [])
        words = ["simulate", trace, "-p", "lru,clock", "-m", "50%", "--format", "parquet", "-o", str(tmp_path / "simulated")]
        for name, value in sample.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        subprocess.run([sys.executable, "-m", "sweephand", *words], check=True)
        simulated = parquet.read_table(tmp_path / "simulated").to_pylist()
        expected = sorted(simulated, key=lambda row: row["policy"])
        found = sorted(rows(swept), key=lambda row: row["policy"])
        assert [{name: row[name] for name in expected[0]} for row in found] == expected
        asked = (sample["sample"], sample.get("sample_seed", 1)) if sample else (None, None)
        assert [(row["sample"], row["sample_seed"]) for row in found] == [asked] * 2
        assert all((row["sampled_pages"] is None) == (not sample) for row in found)
    with pytest.raises(sweephand.SweephandError, match="plan: policies: apr cannot be told from a sample of the pages: "):
        sweephand.sweep({**plan, "policies": "lru,apr", "sample": "10%"}, tmp_path / "refused")


def test_the_dataset_can_be_read_as_it_is(undisturbed: list[dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    import pandas
    import polars

    results = sweephand.sweep(plan_over(folder / "b-scan.swt"), tmp_path / "out", workers=2).results
    faults = sum(row["faults"] for row in undisturbed if row["trace"].endswith("b-scan.swt"))
    assert pandas.read_parquet(results)["faults"].sum() == faults
    assert pandas.read_parquet(tmp_path / "out")["faults"].sum() == faults
    assert polars.read_parquet(results)["faults"].sum() == faults


def test_a_plan_can_be_a_file_and_a_changed_one_reuses_rows(folder: Path, tmp_path: Path) -> None:
    plan = folder / "plan.toml"
    plan.write_text("traces = ['b-scan.swt']\npolicies = ['lru,clock']\nmemory = ['10%', '20%']\n")
    assert sweephand.sweep(plan, tmp_path / "out", workers=1).computed == 4
    plan.write_text("traces = ['b-scan.swt']\npolicies = ['lru']\nmemory = ['10%', '20%', '30%']\n")
    with pytest.warns(UserWarning, match="2 rows are of cells that this plan does not have; prune=True removes them"):
        assert sweephand.sweep(plan, tmp_path / "out", workers=1).computed == 1
    pruned = sweephand.sweep(plan, tmp_path / "out", workers=1, prune=True)
    assert (pruned.computed, len(rows(pruned))) == (0, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policies": "lur"}, "plan: policies: policy 'lur': there is no such policy"),
        ({"memory": "all"}, "plan: memory: 'all' is no single size"),
        ({"tracs": "x"}, "plan: unknown field `tracs`"),
        ({"traces": "*.none"}, r"\*.none: no file matches"),
        ({"traces": "nowhere://x/t.swt"}, "nowhere://x/t.swt: cannot be fetched: ValueError: Protocol not known: nowhere"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_in_a_line(change: dict[str, str], words: str, tmp_path: Path) -> None:
    plan = {"traces": "t.swt", "policies": "lru", "memory": "10%", **change}
    with pytest.raises(sweephand.SweephandError, match=words):
        sweephand.sweep(plan, tmp_path / "out")


def test_failures_are_not_printed_where_they_are_raised(folder: Path, tmp_path: Path) -> None:
    """Dask and Ray print what tasks raise, with where they raised it."""
    bad = tmp_path / "bad.txt"
    bad.write_text("one\n")
    program = """
import json, sys, warnings, sweephand
warnings.simplefilter("ignore")
kind, plan, output = sys.argv[1:]
if __name__ == "__main__":
    swept = sweephand.sweep(json.loads(plan), output, kind, workers=1)
    print(swept.computed, [failure["attempts"] for failure in swept.failures])
"""
    script = tmp_path / "program.py"
    script.write_text(program)
    plan = json.dumps({"traces": [str(folder / "b-scan.swt"), str(bad)], "policies": "lru", "memory": "10%"})
    for kind in ("dask", "ray"):
        words = [sys.executable, str(script), kind, plan, str(tmp_path / kind)]
        result = subprocess.run(words, capture_output=True, text=True, check=True)
        assert result.stdout.splitlines()[-1] == "1 [1]"
        assert "Traceback" not in result.stderr and "not a page number" not in result.stderr


def test_a_plan_takes_what_simulate_takes(tmp_path: Path) -> None:
    import numpy as np
    import pandas as pd

    trace = sweephand.generate("zipf", pages=300, references=5000).renamed("zipf")
    numbers = np.arange(900) % 30
    plan = {
        "traces": [trace, numbers, trace],
        "policies": pd.Series(["lru", "clock:init=1", "lru"]),
        "memory": [np.int64(20), 0.5, "20p"],
    }
    swept = sweephand.sweep(plan, tmp_path / "out", workers=1)
    assert (swept.cells, swept.computed) == (8, 8)
    simulated = sweephand.simulate([trace, numbers], plan["policies"], [20, 0.5]).to_pylist()
    shared = ["trace", "policy", "memory", "memory_pages", "faults"]

    def chosen(table: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted(tuple(row[name] for name in shared) for row in table)

    assert chosen(swept.table().to_pylist()) == chosen(simulated)
    # The same objects are the same cells the next time.
    assert sweephand.sweep(plan, tmp_path / "out", workers=1).computed == 0
    saved = sorted(path.name for path in (tmp_path / "out" / "_traces").iterdir())
    assert saved == sorted(f"{trace.checksum}.swt" for trace in (trace, sweephand.Trace.from_numpy(numbers)))
    # What has a file is read there.
    trace.save(tmp_path / "zipf.swt")
    opened = sweephand.Trace.open(tmp_path / "zipf.swt")
    sweephand.sweep({"traces": opened, "policies": "lru", "memory": 20}, tmp_path / "other", workers=1)
    assert not (tmp_path / "other" / "_traces").exists()


def test_a_policy_of_ones_own_is_told_why_not(tmp_path: Path) -> None:
    import policies

    with pytest.raises(sweephand.SweephandError) as error:
        sweephand.sweep({"traces": [1, 2], "policies": ["lru", policies.Clock], "memory": 3}, tmp_path / "out")
    assert str(error.value).startswith("plan: policies: Clock is of your own, and a row is kept by all that it depends on")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"), [({"workers": 0}, "workers 0: give a whole number of 1 or more"), ({"retries": -1}, "retries -1: ")]
)
def test_counts_that_are_none_are_refused(arguments: dict[str, int], words: str, tmp_path: Path) -> None:
    with pytest.raises(sweephand.SweephandError, match=words):
        sweephand.sweep({"traces": [1, 2], "policies": "lru", "memory": 3}, tmp_path / "out", **arguments)


def test_what_is_no_executor_is_told_those_that_are(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(sweephand.SweephandError, match="executor 'slurm': is none; there are 'local', 'dask'"):
        sweephand.sweep(plan_over(folder / "b-scan.swt"), tmp_path / "out", "slurm")


def test_two_sweeps_do_not_write_to_one_dataset(folder: Path, tmp_path: Path) -> None:
    plan = plan_over(folder / "b-scan.swt")

    def another(done: int, total: int) -> None:
        sweephand.sweep(plan, tmp_path / "out")

    with pytest.raises(sweephand.SweephandError, match=r"another sweep is writing to it \(process "):
        sweephand.sweep(plan, tmp_path / "out", workers=1, progress=another)

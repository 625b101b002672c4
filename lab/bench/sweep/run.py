#!/usr/bin/env python3
"""What a cell of a sweep costs beside its simulation, on each executor.

    pip install './python[dask,ray]'
    lab/bench/sweep/run.py [CELLS] [ROUNDS]

writes results/DATE.csv. The trace has a thousand references, so that next to nothing is simulated;
time is that by the clock, from the first row that has come in to the last, divided by the rows
between them, so that starting workers is no part of it.
"""

import csv
import datetime
import platform
import resource
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import sweephand
from sweephand import _sweephand

HERE = Path(__file__).parent
WORKERS = 2
# Sizes make cells: 36 policies would make them of different cost.
POLICY = "clock"


def plan_of(folder, cells):
    trace = folder / "t.txt"
    trace.write_text("".join(f"{page % 50}\n" for page in range(1000)))
    return {"traces": [trace], "policies": [POLICY], "memory": [f"{size}p" for size in range(1, cells + 1)]}


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def swept(plan, output, executor):
    """Milliseconds a cell: by the clock, of the driver's processor, of the scheduler's, where that
    is a process of its own."""
    scheduler = (lambda: executor.run_on_scheduler(cpu_seconds)) if hasattr(executor, "run_on_scheduler") else (lambda: 0.0)
    seen = []
    busy = -scheduler()
    sweephand.sweep(plan, output, executor, workers=WORKERS,
                    progress=lambda done, total: seen.append((done, time.perf_counter(), cpu_seconds())))
    busy += scheduler()
    (first, start, cpu_start), (last, end, cpu_end) = seen[0], seen[-1]
    cells = last - first
    return [1000 * (end - start) / cells, 1000 * (cpu_end - cpu_start) / cells, 1000 * busy / last]


def opened(plan, output):
    """A dataset with all its cells missing."""
    dataset = _sweephand.Dataset(output)
    read = sweephand._sweep._read(plan)
    dataset.want(read, read.traces(), False)
    return dataset


def parts(plan, folder, cells):
    """Milliseconds a cell of what an executor does not do: planning, computing, keeping rows,
    coming back."""
    measured = {}

    def timed(name, work, count=cells):
        start, cpu = time.perf_counter(), cpu_seconds()
        result = work()
        measured[name] = [1000 * (time.perf_counter() - start) / count, 1000 * (cpu_seconds() - cpu) / count, 0.0]
        return result

    dataset = timed("planning", lambda: opened(plan, folder / "batches"))
    task = sweephand._sweep.Task()
    rows = timed("the cell itself, no executor", lambda: [task(dataset.cell(number)) for number in range(cells)])
    with closing(dataset):
        timed("journal, 100 rows at once", lambda: [dataset.add(rows[at : at + 100]) for at in range(0, cells, 100)])
    with closing(opened(plan, folder / "single")) as dataset:
        few = rows[: min(cells, 200)]
        timed("journal, a row at a time", lambda: [dataset.add([row]) for row in few], len(few))
    with closing(opened(plan, folder / "folded")) as dataset:
        dataset.add(rows)
        timed("Parquet, rows of a journal", lambda: dataset.close())
    timed("planning, all rows there already", lambda: opened(plan, folder / "folded").close())
    return measured


def main():
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    import distributed
    import ray
    from distributed.deploy.subprocess import SubprocessCluster

    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    versions = f"sweephand {sweephand.__version__}, distributed {distributed.__version__}, ray {ray.__version__}"
    times = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plan = plan_of(folder, cells)
        cluster = SubprocessCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None)
        client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
        ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
        stack.callback(ray.shutdown)
        executors = {"local": "local", "dask": client, "ray": "ray"}
        for name, executor in executors.items():  # workers are up, and have imported what they need
            swept({**plan, "memory": plan["memory"][:200]}, folder / f"warm-{name}", executor)
        for turn in range(rounds):
            measured = {f"executor {name}": swept(plan, folder / f"{turn}-{name}", executor) for name, executor in executors.items()}
            (folder / str(turn)).mkdir()
            measured |= parts(plan, folder / str(turn), cells)
            for name, found in measured.items():
                times.setdefault(name, []).append(found)
    path = HERE / "results" / f"{datetime.date.today()}.csv"
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["versions", "processor", "what", "cells", "workers", "rounds", "ms_per_cell_median", "ms_per_cell_least",
                      "ms_per_cell_most", "driver_cpu_ms_per_cell_median", "scheduler_cpu_ms_per_cell_median"])
        for name, found in times.items():
            clock, cpu, scheduler = zip(*found, strict=True)
            out.writerow([versions, model, name, cells, WORKERS if name.startswith("executor") else "", rounds,
                          *(f"{of(clock):.4f}" for of in (statistics.median, min, max)), f"{statistics.median(cpu):.4f}",
                          f"{statistics.median(scheduler):.4f}" if any(scheduler) else ""])
    print(path)


if __name__ == "__main__":
    main()

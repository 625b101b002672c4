#!/usr/bin/env python3
"""`sweephand watch` beside servers under load: what they answer a second with and without it, by
turns, and the working set that it sees beside what the server's cgroup counts. The clients never
stop. The watch is stopped and goes on every two seconds.

README.md has what is measured, and what the figures mean.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
# In the first version of cgroups, memory has a tree of its own.
TREES = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]
CGROUP = next(tree for tree in TREES if (tree / "cgroup.procs").exists()) / "sweephand-bench-servers"
MIB = 1 << 20
PORT = "18716"
VALUES = 200_000
# The clients use a tenth of the keys.
KEYS = VALUES // 10


class Server:
    """A server in a cgroup of its own, and its clients."""

    def __init__(self, name: str, folder: Path):
        go, socket = folder / "server", folder / "socket"
        self.folder = folder
        self.count = ["redis-cli", "-s", socket, "info", "stats"]
        self.ask = [go, "ask", f"unix:{socket}", str(KEYS)]
        if name == "redis":
            options = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
            command = ["redis-server", *options]
            self.benchmark = ["redis-benchmark", "-s", socket, "-c", "8", "-P", "8", "-d", "1024", "--csv"]
            self.ask = None
        elif name == "go":
            command = [go, "serve", f"unix:{socket}", str(VALUES)]
        else:
            command = ["java", "-Xms400m", "-Xmx400m", "-Dsun.net.httpserver.nodelay=true", "-cp", folder, "Server", PORT, str(VALUES)]
            self.ask = [go, "ask", f"tcp:127.0.0.1:{PORT}", str(KEYS)]
        join = lambda: (CGROUP / "cgroup.procs").write_text(str(os.getpid()))
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, text=True, preexec_fn=join
        )
        if name == "redis":
            while not socket.exists():
                time.sleep(0.05)
            fill = ["-t", "set", "-n", str(3 * VALUES), "-r", str(VALUES)]
            subprocess.run([*self.benchmark, *fill], capture_output=True, check=True)
        else:
            self.process.stdout.readline()

    def load(self, seconds: float) -> subprocess.Popen:
        """Clients that send requests for `seconds` seconds, or until they are ended."""
        if self.ask is None:
            command, stdout = [*self.benchmark, "-t", "get", "-n", "1000000000", "-r", str(KEYS)], subprocess.DEVNULL
        else:
            command, stdout = [*self.ask, str(seconds)], (self.folder / "answers").open("w")
        return subprocess.Popen(command, stdout=stdout)

    def answers(self) -> tuple:
        """A time in nanoseconds, and the answers until then."""
        if self.ask is None:
            said = subprocess.run(self.count, capture_output=True, text=True, check=True).stdout
            count = next(line for line in said.splitlines() if line.startswith("total_commands_processed"))
            return time.time_ns(), int(count.split(":")[1])
        lines = (self.folder / "answers").read_text().split("\n")
        # The last line may be half of one.
        return tuple(map(int, lines[-2].split()))

    def end(self):
        self.process.terminate()
        self.process.wait()


def memory() -> dict:
    """What the cgroup counts, in MiB."""
    lines = (CGROUP / "memory.stat").read_text().splitlines()
    counts = {name: int(value) / MIB for name, value in (line.split() for line in lines)}
    current = [CGROUP / name for name in ("memory.current", "memory.usage_in_bytes")]
    counts["current"] = int(next(file for file in current if file.exists()).read_text()) / MIB
    counts.setdefault("anon", counts.get("rss", 0))
    return counts


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweephand", type=Path, default=PROJECT / "target/release/sweephand")
    parser.add_argument("--servers", default="redis,go,java")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.9, help="of a turn")
    parser.add_argument("--every", default="1s")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    output = options.output or HERE / f"results/{datetime.date.today()}-servers.csv"
    CGROUP.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, output.open("w", newline="") as file:
        folder = Path(folder)
        environment = {**os.environ, "CGO_ENABLED": "0"}
        subprocess.run(["go", "build", "-o", folder / "server", HERE / "server.go"], env=environment, check=True)
        if shutil.which("javac"):
            subprocess.run(["javac", "-d", folder, HERE / "Server.java"], check=True)
        writer = None
        for name in options.servers.split(","):
            server = Server(name, folder)
            pid = server.process.pid
            load = server.load((2 * options.rounds + 1) * options.seconds + 20)
            time.sleep(2)
            command = [options.sweephand, "watch", "--json", "--every", options.every, str(pid)]
            watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            lines = []
            reader = threading.Thread(target=lambda: lines.extend(map(json.loads, watch.stdout)))
            reader.start()
            # The first look and the trial of a sample are behind it.
            time.sleep(5)
            rates = []
            for turn in range(2 * options.rounds + 1):
                watch.send_signal(signal.SIGCONT if turn % 2 else signal.SIGSTOP)
                began, before = server.answers()
                time.sleep(options.seconds)
                ended, after = server.answers()
                rates.append((after - before) / (ended - began) * 1e9)
            watch.send_signal(signal.SIGCONT)
            watch.send_signal(signal.SIGINT)
            reader.join()
            watch.wait()
            # Each turn with a watch beside those before and after it.
            plain, watched = rates[0::2], rates[1::2]
            ratios = [
                rate / statistics.mean(beside) for rate, beside in zip(watched, pairwise(plain), strict=True)
            ]
            epochs = [line for line in lines if line["event"] == "epoch"]
            load.terminate()
            load.wait()
            counted = memory()
            server.end()
            pages = lambda key: statistics.median(epoch[key] for epoch in epochs) * 4096 / MIB
            row = {
                "server": name,
                "every": options.every,
                "rounds": options.rounds,
                "answers_a_second": f"{statistics.median(plain):.0f}",
                "watched_answers_a_second": f"{statistics.median(watched):.0f}",
                "ratio": f"{statistics.median(ratios):.4f}",
                "mean_ratio": f"{statistics.mean(ratios):.4f}",
                "standard_error": f"{statistics.stdev(ratios) / len(ratios) ** 0.5:.4f}",
                "told_cost_ms": f"{statistics.median(epoch['cost_ns'] for epoch in epochs) / 1e6:.1f}",
                "epochs": len(epochs),
                "one_page_in": statistics.median(epoch["one_page_in"] for epoch in epochs),
                "used_mib": f"{pages('used_pages'):.1f}",
                "used_error_mib": f"{pages('used_pages_error'):.1f}",
                "working_set_10s_mib": f"{pages('working_set_10s_pages'):.1f}",
                "resident_mib": f"{pages('resident_pages'):.1f}",
                "unknown_mib": f"{pages('unknown_pages'):.1f}",
                "cgroup_current_mib": f"{counted['current']:.1f}",
                "cgroup_anon_mib": f"{counted['anon']:.1f}",
                "cgroup_active_anon_mib": f"{counted['active_anon']:.1f}",
                "cgroup_inactive_anon_mib": f"{counted['inactive_anon']:.1f}",
                "kernel": platform.release(),
            }
            if writer is None:
                writer = csv.DictWriter(file, row.keys(), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            print(*row.values(), flush=True)
    CGROUP.rmdir()


main()

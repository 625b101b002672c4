"""The services of run.py: how each is made, started in a cgroup, loaded from outside and ended."""

import contextlib
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "pager"))
import programs  # noqa: E402
import servers  # noqa: E402

PATIENCE_SECONDS = 60
CLIENTS = 4
# Most requests are for few of the keys, and some keys nobody asks for.
HOT, SKEW = 0.6, 4

NODE = """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const [, , port, keys, workers] = process.argv.map(Number);
if (isMainThread) {
  const waiting = new Map(), all = [];
  let next = 0, ready = 0;
  const server = require('http').createServer((request, response) => {
    const key = +request.url.slice(1);
    waiting.set(next, response);
    all[Math.floor(key / 64) % workers].postMessage([next++, key]);
  });
  for (let i = 0; i < workers; i++) {
    const worker = new Worker(__filename, { workerData: i, argv: process.argv.slice(2) });
    worker.on('message', message => {
      if (message === 'ready') { if (++ready === workers) server.listen(port, '127.0.0.1'); return; }
      const [id, text] = message, response = waiting.get(id);
      waiting.delete(id);
      response.writeHead(200, { 'Content-Length': text.length });
      response.end(text);
    });
    all.push(worker);
  }
} else {
  const own = new Map();
  for (let key = 0; key < keys; key++) {
    if (Math.floor(key / 64) % workers !== workerData) continue;
    const name = String(key);
    own.set(key, { name, text: Buffer.alloc(1000, name + ' ').toString('latin1') });
  }
  parentPort.on('message', ([id, key]) => parentPort.postMessage([id, own.get(key).text]));
  parentPort.postMessage('ready');
}
"""

PREFORK = """
import os, socket, sys
port, keys, workers = map(int, sys.argv[1:])
SIZE = 1000
table = bytearray(keys * SIZE)
for key in range(keys):
    table[key * SIZE : key * SIZE + 8] = b'%08d' % key
listening = socket.create_server(('127.0.0.1', port), backlog=64)
def work():
    head = b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n' % SIZE
    view = memoryview(table)
    while True:
        connection, _ = listening.accept()
        with connection:
            while request := connection.recv(4096):
                start = int(request[5 : request.index(b' ', 5)]) * SIZE
                connection.sendall(head + view[start : start + SIZE])
for _ in range(workers):
    if os.fork() == 0:
        work()
while True:
    os.wait()
"""

# Both databases: `SECONDS SEED` on standard input, the number of queries on standard output.
QUERIES = f"""
SKEW = {SKEW}
import random, sys, time
def serve(query, ranks):
    print('ready', flush=True)
    for line in sys.stdin:
        seconds, seed = line.split()
        chance, count, end = random.Random(int(seed)), 0, time.monotonic() + float(seconds)
        while time.monotonic() < end:
            query(int(ranks * chance.random() ** SKEW))
            count += 1
        print(count, flush=True)
"""

SQLITE = (
    QUERIES
    + """
import sqlite3
connection = sqlite3.connect(sys.argv[1])
connection.execute('pragma cache_size = -2000')
rows = connection.execute('select max(id) from t').fetchone()[0]
def query(rank):
    # The kernel reads ahead, so the rows that nobody asks for lie apart from the others.
    first = rank // 1024 * 7919 % (rows // 1024) * 1024 + rank % 1024 // 16 * 16
    connection.execute('select sum(length(v)) from t where id between ? and ?', (first, first + 15)).fetchall()
serve(query, int(rows * float(sys.argv[2])))
"""
)

DUCKDB = (
    QUERIES
    + """
import duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
connection.execute("set threads = 2; set memory_limit = '40MB'; set temp_directory = ''")
rows = connection.execute('select max(id) from t').fetchone()[0]
def query(rank):
    block = rank // 8192 * 7919 % (rows // 8192) * 8192
    connection.execute('select sum(a), max(b) from t where id between ? and ?', (block, block + 8191)).fetchall()
serve(query, int(rows * float(sys.argv[2])))
"""
)


class Failed(Exception):
    """A service that ended, or does not answer."""


def missing(*names):
    return [name for name in names if shutil.which(name) is None]


class Service:
    """One service. `start` starts it in the cgroup, `rate` loads it and returns operations a
    second."""

    name = unit = ""
    # Programs that it takes, and the packages that have them.
    needs: tuple = ()
    package = ""
    # Whether it goes on between measurements, and comes to rest after a limit has changed.
    is_lasting = True

    def __init__(self, folder, cgroup, args):
        self.folder, self.cgroup, self.args = folder, cgroup, args
        self.main, self.seed, self.wrong = None, 0, 0

    def prepare(self):
        """Makes its files, once."""

    def spawn(self, command, **more):
        """Starts a program in the cgroup."""

        def prepare_child():
            programs.prepare_child()
            self.cgroup.join()

        said = (self.folder / "said").open("ab")
        with said:
            self.main = subprocess.Popen(
                [str(word) for word in command],
                env={**programs.ENVIRONMENT, "TMPDIR": str(self.folder)},
                preexec_fn=prepare_child,
                start_new_session=True,
                **{"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said} | more,
            )

    def outside(self, command, **more):
        """Runs a program outside the cgroup. Returns what it prints."""
        words = [str(word) for word in command]
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                env=programs.ENVIRONMENT,
                preexec_fn=programs.prepare_child,
                **more,
            )
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{words[0]} does not end") from late
        if done.returncode:
            raise Failed(f"{words[0]}: {' '.join(done.stderr.split())[-300:]}")
        return done.stdout

    def start(self):
        raise NotImplementedError

    def rate(self, seconds):
        raise NotImplementedError

    def is_over(self):
        """Whether it has ended by itself."""
        return self.is_lasting and (self.main is None or self.main.poll() is not None)

    def stop(self):
        """Asks it to end, and ends what is left of it."""
        if self.main is not None and self.main.poll() is None:
            self.main.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.main.wait(20)
        self.cgroup.end_processes()
        if self.main is not None:
            self.main.wait(20)
            for pipe in (self.main.stdin, self.main.stdout):
                if pipe is not None:
                    pipe.close()
        self.main = None

    def said(self):
        return " ".join((self.folder / "said").read_text(errors="replace").split())[-300:]


class Server(Service):
    """A service that answers requests on a port."""

    unit, protocol, keys = "requests/s", "http", 0

    def begin(self, command):
        """Starts it, and waits until it answers. {port} is its port."""
        self.port = servers.free_port()
        self.spawn([str(word).replace("{port}", str(self.port)) for word in command])
        try:
            servers.wait_for(self.port, self.main)
        except RuntimeError as error:
            raise Failed(f"{error}: {self.said()}") from error

    def rate(self, seconds):
        self.seed += 1
        asked = [
            self.args.load,
            self.protocol,
            self.port,
            self.keys,
            int(self.keys * HOT),
            SKEW,
            CLIENTS,
            seconds,
            self.seed,
        ]
        started = time.monotonic()
        answers, wrong = map(int, self.outside(asked).split())
        self.wrong += wrong
        return answers / (time.monotonic() - started)


class Nginx(Server):
    name, needs, package, keys = "nginx", ("nginx",), "nginx-light", 4800

    def prepare(self):
        files = self.folder / "files"
        files.mkdir()
        for number in range(self.keys):
            (files / str(number)).write_bytes(os.urandom(32 << 10))

    def start(self):
        port = servers.free_port()
        (self.folder / "nginx.conf").write_text(
            f"user root; worker_processes 8; daemon off; pid {self.folder}/pid; error_log {self.folder}/errors;\n"
            "events { worker_connections 256; }\n"
            "http { access_log off; sendfile on; keepalive_requests 100000000; "
            f"server {{ listen 127.0.0.1:{port}; root {self.folder}/files; }} }}\n"
        )
        self.port = port
        self.spawn(["nginx", "-p", self.folder, "-e", self.folder / "errors", "-c", self.folder / "nginx.conf"])
        servers.wait_for(port, self.main)


class Redis(Server):
    """With a save that goes on all the time."""

    name, needs, package, keys, protocol = "redis", ("redis-server", "redis-cli"), "redis-server", 128_000, "redis"
    options = ("--bind", "127.0.0.1", "--save", "", "--rdbcompression", "no", "--enable-debug-command", "local")

    def command(self, *words):
        return self.outside(["redis-cli", "-p", self.port, *words])

    def prepare(self):
        self.port = servers.free_port()
        with subprocess.Popen(
            ["redis-server", *self.options, "--port", str(self.port), "--dir", str(self.folder)],
            stdout=subprocess.DEVNULL,
            preexec_fn=programs.prepare_child,
        ) as filler:
            servers.wait_for(self.port, filler)
            self.command("debug", "populate", self.keys, "key", 1000)
            self.command("save")
            self.command("shutdown", "nosave")

    def start(self):
        self.begin(["redis-server", *self.options, "--port", "{port}", "--dir", self.folder])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "loading:0" not in self.command("info", "persistence") and time.monotonic() < deadline:
            time.sleep(0.1)

    def rate(self, seconds):
        over = threading.Event()

        def save():
            # It says no while the one before goes on.
            while not over.is_set():
                with contextlib.suppress(Failed):
                    self.command("bgsave")
                over.wait(0.3)

        saver = threading.Thread(target=save)
        saver.start()
        try:
            return super().rate(seconds)
        finally:
            over.set()
            saver.join()


class Java(Server):
    name, needs, package, keys = "java", ("java", "javac"), "default-jdk-headless", 192_000

    def prepare(self):
        (self.folder / "Serve.java").write_text(servers.JAVA)
        self.outside(["javac", "Serve.java"], cwd=self.folder)

    def start(self):
        flags = ["-Xmx256m", "-XX:-UsePerfData", "-XX:+UseSerialGC", "-Dsun.net.httpserver.nodelay=true"]
        self.begin(["java", *flags, "-cp", self.folder, "Serve", "{port}", self.keys])


class Node(Server):
    name, needs, package, keys = "node", ("node",), "nodejs", 96_000

    def prepare(self):
        (self.folder / "workers.js").write_text(NODE)

    def start(self):
        self.begin(["node", self.folder / "workers.js", "{port}", self.keys, 2])


class Prefork(Server):
    name, keys = "python pre-fork", 160_000

    def prepare(self):
        (self.folder / "prefork.py").write_text(PREFORK)

    def start(self):
        self.begin([sys.executable, self.folder / "prefork.py", "{port}", self.keys, CLIENTS])


class Postgres(Service):
    name, unit, needs, package = "postgresql", "transactions/s", ("setpriv",), "postgresql"
    scale = 12
    settings = (
        "shared_buffers=64MB fsync=off synchronous_commit=off full_page_writes=off wal_level=minimal max_wal_senders=0 "
        "max_wal_size=64MB min_wal_size=32MB autovacuum=off checkpoint_timeout=1h huge_pages=off"
    )

    def programs(self):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not found:
            raise Failed("there is no PostgreSQL")
        return found[-1]

    def as_user(self, *command):
        user = pwd.getpwnam("postgres")
        flags = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--pdeathsig", "TERM"]
        return ["setpriv", *flags, *command]

    def client(self, *command):
        # Its socket has a short path, however long the folder's is.
        return [self.programs() / command[0], "-h", self.sockets, "-U", "postgres", *command[1:]]

    def prepare(self):
        self.data = self.folder / "data"
        self.sockets = self.folder
        self.folder.chmod(0o755)
        self.data.mkdir()
        shutil.chown(self.data, "postgres")
        shutil.chown(self.folder, "postgres")
        self.outside(self.as_user(self.programs() / "initdb", "-D", self.data, "-A", "trust", "-N"))
        hot = int(self.scale * 100_000 * HOT)
        chosen = f"\\set aid random_exponential(1, {hot}, {SKEW + 1})\n"
        (self.folder / "select.sql").write_text(chosen + "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n")
        (self.folder / "update.sql").write_text(
            chosen + "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n"
        )
        self.cgroup.make()
        self.start()
        try:
            self.outside(self.client("pgbench", "-i", "-q", "-F", "80", "-s", self.scale, "postgres"))
        finally:
            self.stop()

    def start(self):
        settings = [word for setting in self.settings.split() for word in ("-c", setting)]
        own = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.sockets}"]
        self.spawn(self.as_user(self.programs() / "postgres", "-D", self.data, *own, *settings))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.main.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(Failed):
                self.outside(self.client("psql", "-c", "select 1", "postgres"))
                return
            time.sleep(0.1)
        raise Failed(f"PostgreSQL does not answer: {self.said()}")

    def rate(self, seconds):
        self.seed += 1
        files = ["-f", self.folder / "select.sql@9", "-f", self.folder / "update.sql@1"]
        options = [
            "-n",
            "-M",
            "prepared",
            "-c",
            CLIENTS,
            "-j",
            1,
            "-T",
            max(1, round(seconds)),
            f"--random-seed={self.seed}",
        ]
        said = self.outside(self.client("pgbench", *options, *files, "postgres"))
        return float(re.search(r"tps = ([0-9.]+) \(without", said)[1])

    def stop(self):
        if self.main is not None and self.main.poll() is None:
            # All at once, without waiting for clients.
            self.main.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.main.wait(20)
        super().stop()


class Make(Service):
    """Its rate is whole builds a second."""

    name, unit, needs, package = "make -j2", "builds/s", ("make", "gcc"), "make gcc"
    files, functions = 4, 300
    is_lasting = False

    def prepare(self):
        sources = self.folder / "project"
        sources.mkdir()
        chance = random.Random(1)
        (sources / "all.h").write_text(
            "".join(f"struct s{n} {{ int a[{n + 1}]; struct s{n} *next; }};\n" for n in range(2000))
        )
        for file in range(self.files):
            # Files differ in size, as they do in a project.
            count = int(self.functions * (0.5 + file / self.files))
            (sources / f"part{file}.c").write_text(
                '#include "all.h"\n'
                + "".join(
                    f"int f{file}_{n}(struct s{n} *x, int y) {{ int sum = {chance.randrange(999)}; "
                    f"for (; x; x = x->next) for (int i = 0; i < {n + 1}; i++) {{ sum += x->a[i] * y; "
                    f"if (sum % {n + 3} == 0) sum ^= i << {n % 7}; x->a[i] = sum; }} return sum; }}\n"
                    for n in range(count)
                )
            )
        (sources / "main.c").write_text("int main(void) { return 0; }\n")
        (sources / "Makefile").write_text(
            "objects = $(patsubst %.c,%.o,$(wildcard *.c))\nprogram: $(objects)\n\tgcc -o $@ $(objects)\n"
            "%.o: %.c all.h\n\tgcc -O2 -g -c -o $@ $<\nclean:\n\trm -f program *.o\n"
        )

    def start(self):
        """Nothing of it runs between builds."""

    def rate(self, seconds):
        """One build, however long."""
        project = self.folder / "project"
        self.outside(["make", "-s", "clean"], cwd=project)
        started = time.monotonic()
        self.spawn(["make", "-s", "-j2"], cwd=project)
        try:
            status = self.main.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise Failed("make does not end") from late
        if status:
            raise Failed(f"make: {self.said()}")
        return 1 / (time.monotonic() - started)


class Database(Service):
    """A program that queries a file."""

    unit = "queries/s"
    source = ""

    def python(self):
        return sys.executable

    def start(self):
        (self.folder / "queries.py").write_text(self.source)
        command = [self.python(), self.folder / "queries.py", self.folder / "file.db", HOT]
        self.spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.main.stdout.readline() != "ready\n":
            raise Failed(f"{self.name}: {self.said()}")

    def rate(self, seconds):
        self.seed += 1
        started = time.monotonic()
        try:
            self.main.stdin.write(f"{seconds} {self.seed}\n")
            self.main.stdin.flush()
            return int(self.main.stdout.readline()) / (time.monotonic() - started)
        except (OSError, ValueError) as error:
            raise Failed(f"{self.name}: {self.said()}") from error


class Sqlite(Database):
    name, source = "sqlite", SQLITE

    def prepare(self):
        fill = (
            "import sqlite3, os, sys\n"
            "connection = sqlite3.connect(sys.argv[1])\n"
            "connection.execute('create table t (id integer primary key, v blob)')\n"
            "connection.executemany('insert into t values (?, ?)', ((n, os.urandom(480)) for n in range(450000)))\n"
            "connection.commit()\n"
        )
        self.outside([sys.executable, "-c", fill, self.folder / "file.db"])


class Duckdb(Database):
    name, source = "duckdb", DUCKDB

    def python(self):
        return self.args.duckdb

    def prepare(self):
        fill = (
            "import duckdb, sys\n"
            "connection = duckdb.connect(sys.argv[1])\n"
            "connection.execute('create table t as select i as id, random() as a, md5(i::varchar) as b "
            "from range(6000000) r(i)')\n"
        )
        try:
            self.outside([self.python(), "-c", fill, self.folder / "file.db"])
        except FileNotFoundError as error:
            raise Failed("--duckdb names no Python with the package duckdb") from error


SERVICES = {service.name: service for service in (Postgres, Nginx, Redis, Java, Node, Make, Prefork, Sqlite, Duckdb)}

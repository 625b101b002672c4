#!/usr/bin/env python3
"""Real programs in less memory than they take, under the kernel's swap and under the pager: which
way of paging is fastest? See README.md."""
import argparse
import contextlib
import csv
import ctypes
import datetime
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import disks

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# For a program that has been asked to end, and for what tidies up after it.
GRACE_SECONDS = 60
# The same order in hashes at every run, messages in one language, no threads that were not asked
# for.
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)

# Programs that are written here: source, by file name. All are deterministic.
SOURCES = {
    "hash.pl": """
my (%h, $x, $sum); $x = 1;
for (1 .. 150000) { $x = ($x * 1103515245 + 12345) % 2147483648; $h{"key $x"} = $_; }
for (1 .. 2) { for my $k (sort { $h{$a} <=> $h{$b} } keys %h) { $sum = ($sum * 31 + length($k) + $h{$k}) % 1000000007; } }
print "$sum ", scalar(keys %h), "\\n";
""",
    "count.awk": """
BEGIN { x = 1; for (i = 0; i < 300000; i++) { x = (x * 16807) % 2147483647; a["k" x] = i }
  for (i = 0; i < 200000; i++) { x = (x * 16807) % 2147483647; if (("k" x) in a) hits++ }
  x = 1; for (i = 0; i < 300000; i++) { x = (x * 16807) % 2147483647; s = (s * 7 + a["k" x]) % 1000003 }
  print s, hits + 0 }
""",
    "dict.py": """
import sys
d, x = {}, 1
for i in range(200000):
    x = x * 1103515245 + 12345 & 0x7fffffff
    d['key %d' % x] = [i]
total = 0
for _ in range(2):
    for k in sorted(d, key=lambda k: d[k]):
        total = (total * 31 + len(k) + d[k][0]) % 1000000007
print('%d %d' % (total, len(d)))
""",
    "multi.py": """
import multiprocessing as mp, sys
def work(seed):
    d, x = {}, seed
    for i in range(60000):
        x = x * 1103515245 + 12345 & 0x7fffffff
        d['key %d' % x] = i
    return sum(d[k] * len(k) for k in sorted(d)) % 1000000007
if __name__ == '__main__':
    with mp.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(work, range(1, 7)))
""",
    "hash.tcl": """
set x 1
for {set i 0} {$i < 150000} {incr i} { set x [expr {($x * 1103515245 + 12345) % 2147483648}]; set h(k$x) $i }
set s 0
foreach k [lsort [array names h]] { set s [expr {($s * 31 + $h($k)) % 1000000007}] }
puts "$s [array size h]"
""",
    "rows.sql": """
pragma temp_store = memory; pragma cache_size = -200000;
create table t (a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 250000)
  insert into t select i, 'row ' || (i * 7919 % 250007), i * 31 % 1009 from n;
create index ti on t (b);
select c, count(*), sum(a), max(b) from t group by c order by 3 desc limit 20;
select count(*) from t x join t y on y.b = 'row ' || (x.a % 1000) where x.c < 100;
""",
    "workers.js": """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync } = require('child_process');
function work(seed) {
  let x = seed; const m = new Map();
  for (let i = 0; i < 150000; i++) { x = (x * 48271) % 2147483647; m.set('key ' + x, { i, text: 'value ' + i }); }
  let s = 0; for (const k of [...m.keys()].sort()) s = (s * 31 + m.get(k).i) % 1000000007;
  return s;
}
if (!isMainThread) parentPort.postMessage(work(workerData));
else if (process.argv[2]) console.log(work(+process.argv[2]));
else {
  console.log(work(1), execFileSync(process.execPath, [__filename, '7']).toString().trim());
  Promise.all([2, 3].map(seed => new Promise((done, fail) => {
    const w = new Worker(__filename, { workerData: seed }); w.on('message', done); w.on('error', fail);
  }))).then(sums => console.log(sums.join(' ')));
}
""",
    "Work.java": """
import java.util.*;
public class Work {
  public static void main(String[] a) {
    long s = 0;
    for (int round = 0; round < 3; round++) {
      HashMap<String, int[]> m = new HashMap<>(); int x = 1;
      for (int i = 0; i < 150000; i++) { x = (int) (x * 48271L % 2147483647); m.put("key " + x, new int[] {i, x, round}); }
      for (String k : new TreeSet<>(m.keySet())) s = (s * 31 + m.get(k)[0]) % 1000000007;
    }
    System.out.println(s);
  }
}
""",
    "work.go": """
package main

// #include <stdlib.h>
import "C"
import ("fmt"; "sort")

func main() {
	C.free(C.malloc(1000))
	s := 0
	for round := 0; round < 3; round++ {
		m := map[string][]int{}
		x := 1
		for i := 0; i < 150000; i++ { x = x * 48271 % 2147483647; m[fmt.Sprint("key ", x)] = []int{i, x} }
		keys := make([]string, 0, len(m))
		for k := range m { keys = append(keys, k) }
		sort.Strings(keys)
		for _, k := range keys { s = (s*31 + m[k][0]) % 1000000007 }
	}
	fmt.Println(s)
}
""",
    "list.sh": """
x=1; declare -A h
for ((i = 0; i < 60000; i++)); do x=$(( (x * 48271) % 2147483647 )); h[key$x]="value $i of many"; done
s=0; for k in "${!h[@]}"; do (( s += ${#h[$k]} )); done; echo "$s ${#h[@]} $(echo a child)"
""",
    "large.rs": "".join(
        f"pub fn f{n}(x: u64) -> Vec<u64> {{ (0..x).map(|y| y * {n} + x).filter(|y| y % {n + 2} != 0).collect() }}\n"
        for n in range(300)),
    "large.c": "".join(
        f"int f{n}(int x) {{ int a[8]; for (int i = 0; i < 8; i++) a[i] = x * {n} + i; return a[x & 7]; }}\n"
        for n in range(2500)),
    "Makefile": "all: $(patsubst %,part%.s,1 2 3 4 5 6)\n\tcat part*.s | cksum\npart%.s: large.c\n\tgcc -O1 -S -o $@ large.c\n",
    # From here on those that the core set uses and that are not above.
    "large-dict.py": """
d, x = {}, 1
for i in range(700000):
    x = x * 1103515245 + 12345 & 0x7fffffff
    d['key %d' % x] = i
total = 0
for _ in range(2):
    for k in sorted(d):
        total = (total * 31 + len(k) + d[k]) % 1000000007
print(total, len(d))
""",
    "lists.py": """
import random
chance = random.Random(1)
values = [chance.randrange(1 << 40) for _ in range(2000000)]
order = list(range(len(values)))
total = 0
for _ in range(3):
    for value in values:
        total = (total * 31 + value) % 1000000007
chance.shuffle(order)
for place in order[:200000]:
    total = (total * 31 + values[place]) % 1000000007
print(total)
""",
    "stencil.py": """
import numpy
side = 1400
old = (numpy.arange(side * side, dtype=numpy.float64) * 7919 % 1009).reshape(side, side)
new, source, drag, total = old.copy(), old / 1009, 1 - old / 99999, numpy.zeros_like(old)
flow, work = numpy.zeros_like(old), numpy.zeros_like(old)
inner = (slice(1, -1), slice(1, -1))
for _ in range(40):
    numpy.add(old[:-2, 1:-1], old[2:, 1:-1], out=work[inner])
    work[inner] += old[1:-1, :-2]
    work[inner] += old[1:-1, 2:]
    numpy.multiply(work[inner], 0.25, out=new[inner])
    new *= drag
    new += source
    total += new
    numpy.subtract(total[1:-1, 2:], total[1:-1, :-2], out=flow[inner])
    old, new = new, old
old += flow
print(hex(int(numpy.bitwise_xor.reduce(old.view(numpy.uint64), axis=None))))
""",
    "large-hash.pl": """
my (%h, $x, $sum); $x = 1;
for (1 .. 300000) { $x = ($x * 1103515245 + 12345) % 2147483648; $h{"key $x"} = $_; }
for (1 .. 2) { for my $k (sort { $h{$a} <=> $h{$b} } keys %h) { $sum = ($sum * 31 + length($k) + $h{$k}) % 1000000007; } }
print "$sum ", scalar(keys %h), "\\n";
""",
    "words.awk": """
{ for (i = 1; i <= NF; i++) count[$i]++; line[NR] = $0 }
END { for (n = 1; n <= NR; n += 2) { split(line[n], w, " "); s = (s * 7 + count[w[1]] + length(line[n])) % 1000003 }
  for (n = 1; n <= NR; n++) last[$0 = line[n]] = n
  for (n = NR; n > 0; n--) s = (s * 7 + last[line[n]]) % 1000003
  print s, NR }
""",
    "large-rows.sql": """
pragma temp_store = memory; pragma cache_size = -400000;
create table t (a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)
  insert into t select i, 'row ' || (i * 7919 % 1000003), i * 31 % 1009 from n;
create index ti on t (b);
select c, count(*), sum(a), max(b) from t group by c order by 3 desc limit 20;
select count(*), sum(y.a) from t x join t y on y.b = 'row ' || (x.a * 7 % 1000003) where x.c < 100;
update t set c = c + 1 where a % 5 = 0;
select sum(c), count(distinct b) from t;
""",
    "heap.js": """
const m = new Map(); let x = 1;
for (let i = 0; i < 450000; i++) { x = (x * 48271) % 2147483647; m.set('key ' + x, { i, text: 'value ' + i }); }
let s = 0;
for (let round = 0; round < 2; round++) for (const k of [...m.keys()].sort()) s = (s * 31 + m.get(k).i) % 1000000007;
console.log(s, m.size);
""",
    "Heap.java": """
import java.util.*;
public class Heap {
  public static void main(String[] a) {
    long s = 0;
    HashMap<String, int[]> m = new HashMap<>();
    for (int round = 0; round < 3; round++) {
      int x = 1 + round;
      for (int i = 0; i < 400000; i++) {
        x = (int) (x * 48271L % 2147483647);
        m.put("key " + x % 700001, new int[] {i, x, round});
      }
      for (String k : new TreeSet<>(m.keySet())) s = (s * 31 + m.get(k)[0]) % 1000000007;
    }
    System.out.println(s + " " + m.size());
  }
}
""",
}
SOURCES["large.go"] = SOURCES["work.go"].replace("150000", "500000").replace("round < 3", "round < 2")

PYTHONS = ["python2.7", "python3.11", "python3.13", "python3"]


class Program(NamedTuple):
    name: str
    # {work} is a directory, {n} a number that differs by run.
    command: list[str]
    # What is done before all runs, by the shell. If it fails, the program is left out.
    before: str = ""
    # Whether it is run if none is named.
    core: bool = False
    # Lines of output that differ from run to run, such as times.
    volatile: str = ""


COMPILE_JAVA = "test -e {work}/Work.class || javac -d {work} {work}/Work.java"
PROGRAMS = [
    # One process each, and a few seconds by itself.
    Program("sort -n", ["sort", "-n", "--parallel=1", "-S", "400M", "{work}/numbers"], core=True),
    Program("python dict", ["python3", "{work}/large-dict.py"], core=True),
    Program("python lists", ["python3", "{work}/lists.py"], core=True),
    Program("numpy", ["python3", "{work}/stencil.py"], "python3 -c 'import numpy'", core=True),
    Program("perl hash", ["perl", "{work}/large-hash.pl"], core=True),
    Program("mawk words", ["mawk", "-f", "{work}/words.awk", "{work}/words"], core=True),
    Program("sqlite3 rows", ["sqlite3", "-init", "/dev/null", ":memory:", ".read {work}/large-rows.sql"], core=True),
    # Node and Java would take a cgroup's limit for the machine's memory. They are told the size of
    # their heaps.
    Program("node heap", ["node", "--max-old-space-size=400", "{work}/heap.js"], core=True),
    Program("java heap", ["java", "-XX:+UseSerialGC", "-Xms192m", "-Xmx192m", "-cp", "{work}", "Heap"],
            "javac -d {work} {work}/Heap.java", core=True),
    Program("go map", ["{work}/large"], "cd {work} && GOFLAGS=-mod=mod HOME={work} go build -o large large.go", core=True),
    Program("gcc", ["gcc", "-O1", "-S", "-o", "/dev/stdout", "{work}/large.c"], core=True),
    Program("rustc", ["rustc", "-O", "--crate-type=lib", "--emit=asm", "-C", "codegen-units=1", "-o", "/dev/stdout",
                      "{work}/large.rs"], core=True),
    Program("xz -7", ["xz", "-7", "-T1", "-c", "{work}/some-words"], "head -c 8000000 {work}/words > {work}/some-words",
            core=True),
    Program("zstd -12", ["zstd", "-12", "--long=27", "--single-thread", "-q", "-c", "{work}/numbers"], core=True),
    Program("git pack", ["git", "-C", "{work}/versions", "pack-objects", "--all", "--stdout", "-q", "--threads=1"],
            "git init -q {work}/versions && cd {work}/versions && for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
            "tail -n +${{i}}000 ../words | head -c 4000000 | sed s/7$i/x/ > a; git add a; "
            "git -c user.name=n -c user.email=e commit -q -m $i --date 2020-01-01T00:00:00; done", core=True),
    # Smaller ones, longer ones, those of many processes and those that do unusual things.
    Program("sort", ["sort", "-S", "100M", "--parallel=2", "-k2,2n", "-k1,1", "{work}/lines"]),
    *(Program(name, [name, "{work}/dict.py"]) for name in PYTHONS),
    *(Program(f"multiprocessing {how}", ["python3", "{work}/multi.py", how]) for how in ["fork", "spawn", "forkserver"]),
    Program("perl", ["perl", "{work}/hash.pl"]),
    Program("mawk", ["mawk", "-f", "{work}/count.awk"]),
    Program("tclsh", ["tclsh", "{work}/hash.tcl"]),
    Program("sqlite3", ["sqlite3", "-init", "/dev/null", ":memory:", ".read {work}/rows.sql"]),
    Program("node", ["node", "{work}/workers.js"]),
    Program("javac", ["sh", "-c", "javac -d {work}/classes{n} {work}/Work.java && cksum < {work}/classes{n}/Work.class"]),
    Program("java Serial", ["java", "-XX:+UseSerialGC", "-Xmx128m", "-cp", "{work}", "Work"], COMPILE_JAVA),
    Program("java G1", ["java", "-XX:+UseG1GC", "-Xmx128m", "-cp", "{work}", "Work"], COMPILE_JAVA),
    Program("java ZGC", ["java", "-XX:+UseZGC", "-Xmx128m", "-cp", "{work}", "Work"], COMPILE_JAVA),
    Program("java without archive", ["java", "-Xshare:off", "-XX:+UseSerialGC", "-Xmx128m", "-cp", "{work}", "Work"],
            COMPILE_JAVA),
    Program("xz", ["xz", "-6", "-c", "{work}/lines"]),
    Program("zstd", ["zstd", "-19", "-q", "-c", "{work}/lines"]),
    Program("git", ["git", "-C", "{work}/repository", "log", "-p", "--stat"],
            "git init -q {work}/repository && cd {work}/repository && for i in 1 2 3 4 5 6 7 8; do "
            "head -c ${{i}}000000 ../lines > a; git add a; "
            "git -c user.name=n -c user.email=e commit -q -m $i --date 2020-01-01T00:00:00; done"),
    Program("bash", ["bash", "{work}/list.sh"]),
    Program("make -j2", ["sh", "-c", "mkdir {work}/make{n}; cd {work}/make{n}; cp ../large.c ../Makefile .; make -s -j2"]),
    Program("go with cgo", ["{work}/work"], "cd {work} && GOFLAGS=-mod=mod HOME={work} go build -o work work.go"),
    Program("gdb", ["gdb", "-q", "-batch", "-nx", "-ex", "break main", "-ex", "run", "-ex", "bt", "--args", "{work}/dash"],
            "printf 'int main(void){{return 0;}}' > {work}/d.c; gcc -g -o {work}/dash {work}/d.c"),
    Program("strace", ["sh", "-c", "strace -f -o {work}/calls{n} perl {work}/hash.pl"]),
    Program("postgres initdb", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+sys_ptrace",
                                "--ambient-caps=+sys_ptrace", "sh", "-c",
                                "initdb -D {work}/open/data{n} > /dev/null && ls {work}/open/data{n}/base/1 | cksum"]),
]
# Programs of SPLASH-3: folder of the sources, and options. Each checks or prints its results.
SPLASH = {
    "ocean": ("apps/ocean/contiguous_partitions", ["-n1026", "-p1", "-o"]),
    "fft": ("kernels/fft", ["-m22", "-p1", "-t"]),
    "radix": ("kernels/radix", ["-n16777216", "-p1", "-t"]),
}
SPLASH_VOLATILE = r"(?i)time|fraction|^step|^ +0 "
# As `--stats` has them.
COUNTS = ["user_ns", "sys_ns", "backend", "directed_ns", "pages_read", "pages_written", "refaults", "unasked_pages", "processes",
          "faults", "rescues", "leader", "leader_changes", "pool_hits", "peak_pool_size_bytes", "pool_changes"]
FIELDS = ["date", "machine", "disk", "program", "native_mib", "part", "memory_mib", "variant", "round", "status", "same_output",
          "seconds", "pool_peak_mib", *COUNTS, "said"]


def write_lines(path, count, line):
    """Lines of a file as they come: what this process takes its children start with."""
    number = 12345
    with open(path, "w") as file:
        for _ in range(count):
            number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
            file.write(line(number))


def make_workshop(work):
    """Sources, and files of lines, numbers and words."""
    for name, source in SOURCES.items():
        (work / name).write_text(source.lstrip())
    write_lines(work / "lines", 1_000_000, lambda number: f"{number:016x} {number % 977}\n")
    write_lines(work / "numbers", 3_000_000, lambda number: f"{number >> 32}\n")
    words = [re.sub("[0-9]", "", f"{number * 2654435761 % 2**32:x}") + f"{number:x}"[-2:] for number in range(4096)]

    def sentence(number):
        # Some words are more frequent than others.
        places = [(number >> 16 & 4095) * (number >> 28 & 4095) >> 12, (number >> 40 & 63) * (number >> 46 & 63) >> 1,
                  number >> 52 & 255]
        return " ".join([words[place] for place in places] + [f"{(number >> 33) % 97}\n"])

    write_lines(work / "words", 700_000, sentence)
    (work / "open").mkdir()
    (work / "open").chmod(0o777)
    work.chmod(0o755)


def build_splash(checkout, work):
    """The programs of SPLASH-3, from the sources in a checkout."""
    codes = pathlib.Path(checkout) / "codes"
    macros = codes / "pthread_macros/pthread.m4.stougie"
    if not macros.exists():
        sys.exit(f"{macros} is missing: --splash is for a checkout of SPLASH-3")
    if shutil.which("m4") is None:
        sys.exit("SPLASH-3 needs m4: apt-get install m4")
    programs = []
    for name, (folder, options) in SPLASH.items():
        sources = work / f"{name}-sources"
        sources.mkdir()
        for template in sorted((codes / folder).glob("*.in")):
            with open(sources / template.stem, "w") as file:
                # Two names of functions in C that are also macros of m4.
                subprocess.run(["m4", "-Ulen", "-Uindex", macros, template], stdout=file, check=True)
        binary = work / f"splash-{name}"
        subprocess.run(["gcc", "-O2", "-std=gnu11", "-fno-strict-aliasing", "-pthread", "-w", "-o", binary,
                        *sorted(sources.glob("*.c")), "-lm"], check=True)
        programs.append(Program(f"splash {name}", [str(binary), *options], core=True, volatile=SPLASH_VOLATILE))
    return programs


def executable(name):
    """The path of a program, or None. What is found as Python may be a script that starts it."""
    if shutil.which(name) is None:
        return None
    if not name.startswith("python"):
        return name
    asked = subprocess.run([name, "-c", "import sys; print(sys.executable)"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
    return asked.stdout.strip() or None


def options_of(variant):
    """Options of `sweephand run` for a variant."""
    policy, plus, pool = variant.partition("+")
    if plus:
        return [*options_of(policy), "--compress", pool]
    if variant == "kernel":
        return ["--kernel"]
    if variant == "default":
        return []
    first, _, rest = variant.partition(":")
    # After the name of a policy come parameters, name=value; after a backend's comes a policy.
    if rest and "=" not in rest.partition(":")[0]:
        return ["--backend", first, "--policy", rest]
    return ["--policy", variant]


def command_line(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def end_what_is_left():
    """Ends the processes that a run has left behind, which are children of this one now. The one
    that removes the cgroup and the swap file ends by itself."""
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        late = time.monotonic() > deadline
        if not children or late:
            break
        for pid in map(int, children):
            if b"sweephand-tidy" not in command_line(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.005)
    if children:
        print(f"still there after {GRACE_SECONDS} s: {[command_line(pid)[-200:] for pid in children]}", file=sys.stderr)


class Result(NamedTuple):
    """How a run ended."""
    # A number, or "patience".
    status: int | str
    digest: str
    seconds: float
    said: str
    usage: object


def prepare_child():
    """If this process is killed, its child is asked to end."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end_on_signals():
    """Has signals that end this process let it tidy up, as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("ended by a signal"))


def run(command, patience, directory, volatile=""):
    """Runs a command. Its output comes through a pipe: a file's pages would count as its memory."""
    digest, kept = hashlib.sha256(), []
    with tempfile.TemporaryFile(dir=directory) as said:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, bufsize=0,
                                 env=ENVIRONMENT, start_new_session=True, preexec_fn=prepare_child)
        ended, output = os.pidfd_open(child.pid), child.stdout.fileno()
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(output, select.POLLIN)
        is_late, deadline = False, start + patience
        try:
            while True:
                left = deadline - time.monotonic()
                if left < 0 and is_late:
                    break
                if left < 0:
                    child.terminate()
                    is_late, deadline = True, time.monotonic() + GRACE_SECONDS
                    continue
                ready = [descriptor for descriptor, _ in poll.poll(left * 1000)]
                if output in ready:
                    piece = os.read(output, 1 << 20)
                    if not piece:
                        poll.unregister(output)
                    elif volatile:
                        kept.append(piece)
                    else:
                        digest.update(piece)
                elif ended in ready:
                    break
            seconds = time.monotonic() - start
        finally:
            # An interrupt, or a command that did not end when it was asked to.
            if not select.select([ended], [], [], 0)[0]:
                child.terminate()
                if not select.select([ended], [], [], GRACE_SECONDS)[0]:
                    child.kill()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            child.stdout.close()
            os.close(ended)
            end_what_is_left()
        if volatile:
            lines = b"".join(kept).decode(errors="replace").splitlines()
            digest.update("\n".join(line for line in lines if not re.search(volatile, line)).encode())
        said.seek(0)
        words = " ".join(said.read().decode(errors="replace").split())
    return Result("patience" if is_late else child.returncode, digest.hexdigest(), seconds, words, usage)


class Bench:
    """One run of the benchmark: programs, variants and rows."""

    def __init__(self, args, work, swap, writer):
        self.args, self.work, self.swap, self.writer = args, work, swap, writer
        self.variants = args.variants.split(",") if args.variants else []
        self.rows, self.number = [], 0

    def measure(self, program, row, options=None, expected=None):
        """Runs a program, by itself or under `sweephand run` with options, and keeps a row."""
        self.number += 1
        stats = self.work / "stats.json"
        words = [word.format(work=self.work, n=self.number) for word in program.command]
        words[0] = executable(words[0])
        if options is not None:
            words = [self.args.sweephand, "run", "--memory", f"{row['memory_mib']}MiB", *options, "--swap",
                     self.swap, "--stats", stats, "--", *words]
        result = run(words, self.args.patience, self.work, program.volatile)
        counts = json.loads(stats.read_text()) if stats.exists() else {}
        stats.unlink(missing_ok=True)
        if options is None:
            counts = {"user_ns": round(result.usage.ru_utime * 1e9), "sys_ns": round(result.usage.ru_stime * 1e9)}
        peak_bytes = counts.get("peak_pool_bytes")
        is_same = expected is None or (result.status, result.digest) == expected
        row |= {field: counts.get(field) for field in COUNTS}
        row |= {"date": datetime.date.today().isoformat(), "machine": platform.node(), "disk": self.args.disk,
                "program": program.name, "pool_peak_mib": "" if peak_bytes is None else round(peak_bytes / (1 << 20), 1),
                "status": result.status, "same_output": int(is_same), "seconds": round(result.seconds, 3),
                "said": "" if is_same else result.said[:200]}
        return result, row

    def keep(self, row):
        self.rows.append(row)
        self.writer(row)
        print(f"{row['program']:22} {row['memory_mib'] or '':4} of {row['native_mib']:4} MiB  {row['variant']:16} "
              f"{row['seconds']:8.2f} s {(row['sys_ns'] or 0) / 1e9:7.2f} system {row['pages_read'] or 0:8} read  "
              f"{'same' if row['same_output'] else 'OTHER: ' + str(row['status'])} {row['said']}", flush=True)

    def measure_all(self, program):
        """Runs a program by itself, then with each part of its memory, variants by turns."""
        before = subprocess.run(["sh", "-c", program.before.format(work=self.work)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        if before.returncode:
            print(f"{program.name}: left out: {' '.join(before.stderr.split())[-100:]}")
            return
        if executable(program.command[0].format(work=self.work)) is None:
            print(f"{program.name}: not installed")
            return
        native, row = self.measure(program, {"part": "", "memory_mib": "", "variant": "native", "round": 0})
        if native.status != 0:
            print(f"{program.name}: left out: ends with {native.status} by itself: {native.said[:100]}")
            return
        mib = native.usage.ru_maxrss / 1024
        self.keep(row | {"native_mib": round(mib)})
        for part in [None] if self.args.memory_mib else map(float, self.args.parts.split(",")):
            memory = self.args.memory_mib or max(8, round(mib * part))
            cell = {"native_mib": round(mib), "part": round(memory / mib, 2) if part is None else part, "memory_mib": memory}
            impatient = set()
            for number in range(self.args.rounds):
                turn = number % max(1, len(self.variants))
                for variant in self.variants[turn:] + self.variants[:turn]:
                    # What took too long once would take as long again.
                    if variant in impatient:
                        continue
                    result, row = self.measure(program, {**cell, "variant": variant, "round": number}, options_of(variant),
                                               (native.status, native.digest))
                    self.keep(row)
                    if result.status == "patience":
                        impatient.add(variant)


def median(runs, field):
    values = [float(row[field]) for row in runs if row[field] not in ("", None)]
    return statistics.median(values) if values else None


def shown(value, form, mark=""):
    return "-" if value is None else f"{mark}{value:{form}}"


class Cell:
    """The runs of a variant of a program with a part of its memory."""

    def __init__(self, runs):
        self.is_late = any(row["status"] == "patience" for row in runs)
        self.is_wrong = any(row["status"] != "patience" and not int(row["same_output"]) for row in runs)
        self.is_good = bool(runs) and not self.is_late and not self.is_wrong
        self.seconds, self.pages_read = median(runs, "seconds"), median(runs, "pages_read")
        system = median(runs, "sys_ns")
        self.system = None if system is None else system / 1e9
        said = [f"{row['status']}: {re.sub('^sweephand: [^:]*: ', '', row['said']) or 'other output'}" for row in runs
                if row["status"] != "patience" and not int(row["same_output"])]
        self.why = said[0][:90] if said else "took too long" if self.is_late else ""
        self.runs = len(runs)

    def time(self):
        """Seconds. Of a run that was ended they are fewer than it would have taken."""
        return "failed" if self.is_wrong else shown(self.seconds, ".2f", ">" if self.is_late else "")


def print_table(titles, lines):
    widths = [max(len(line[column]) for line in [titles, *lines]) for column in range(len(titles))]
    for line in [titles, ["-" * width for width in widths], *lines]:
        print("| " + " | ".join(f"{word:{'<' if column == 0 else '>'}{width}}"
                                for column, (word, width) in enumerate(zip(line, widths, strict=True))) + " |")


def read_rows(paths):
    """The rows of earlier results. Before there were other disks, rows did not name theirs."""
    rows = []
    for path in paths:
        with open(path, newline="") as file:
            rows += ({"disk": "fast"} | row for row in csv.DictReader(file))
    return rows


def summarise(rows):
    """The tables of README.md: every cell, the means, and where the kernel or a variant failed."""
    variants = list(dict.fromkeys(row["variant"] for row in rows if row["variant"] not in ("native", "kernel")))
    natives = {row["program"]: row for row in rows if row["variant"] == "native"}
    places = dict.fromkeys((row["program"], row["part"], row["memory_mib"]) for row in rows if row["variant"] != "native")
    titles = ["program", "part", "MiB", "native s", "kernel s", "read", "system s"]
    for variant in variants:
        titles += [f"{variant} s", "times", "read", "system s"]
    lines, ratios, kernel_failed, failed = [], {variant: {} for variant in variants}, [], []
    for place in places:
        program, part, memory = place
        cells = {variant: Cell([row for row in rows if (row["program"], row["part"], row["memory_mib"]) == place
                                and row["variant"] == variant]) for variant in ["kernel", *variants]}
        kernel, name = cells["kernel"], f"{program}, {part}"
        if kernel.runs and not kernel.is_good:
            kernel_failed.append([name, kernel.why, *(cells[variant].time() for variant in variants)])
        line = [program, str(part), str(memory), shown(float(natives[program]["seconds"]), ".2f"), kernel.time(),
                shown(kernel.pages_read, ".0f"), shown(kernel.system, ".2f")]
        for variant in variants:
            cell = cells[variant]
            if cell.is_wrong or cell.is_late:
                failed.append([name, variant, cell.why])
            times = kernel.seconds / cell.seconds if kernel.is_good and cell.runs and not cell.is_wrong else None
            if times is not None:
                ratios[variant][name] = times
            line += [cell.time(), shown(times, ".2f", "<" if cell.is_late else ""), shown(cell.pages_read, ".0f"),
                     shown(cell.system, ".2f")]
        lines.append(line)
    if not lines:
        return
    print("\nMedians, and how many times as fast as under the kernel's swap (> and <: ended for taking too long)\n")
    print_table(titles, lines)
    good = len(lines) - len(kernel_failed)
    means = []
    for variant, of in ratios.items():
        if of:
            worst = min(of, key=of.get)
            mean = math.exp(statistics.fmean(map(math.log, of.values())))
            means.append([variant, f"{mean:.3f}", f"{of[worst]:.2f}", worst, f"{len(of)} of {good}"])
    if means:
        print("\nTimes as fast as the kernel, over the cells where the kernel came to its end with the right output\n")
        print_table(["variant", "geometric mean", "worst", "where", "cells"], means)
    if kernel_failed:
        print("\nWhere the kernel failed: not in the means; seconds of the others\n")
        print_table(["program, part", "why", *variants], kernel_failed)
    if failed:
        print("\nWhere others failed\n")
        print_table(["program, part", "variant", "why"], failed)


def measure_all(args, path, swap):
    """Runs the programs, whose pages go to a folder. Writes the rows to a file and returns them."""
    with tempfile.TemporaryDirectory(dir=args.directory) as directory, open(path, "w", newline="") as file:
        work = pathlib.Path(directory)
        make_workshop(work)
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()

        def write(row):
            table.writerow(row)
            file.flush()

        bench = Bench(args, work, swap, write)
        for program in PROGRAMS + (build_splash(args.splash, work) if args.splash else []):
            if args.all or (program.name in args.only.split(",") if args.only else program.core):
                bench.measure_all(program)
    return bench.rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", help="programs, comma list, of all that there are")
    which.add_argument("--all", action="store_true", help="every program instead of the core set")
    parser.add_argument("--variants", default="kernel,clock-pro-strict,clock,apr",
                        help="kernel, default, POLICY or BACKEND:POLICY, also with +PERCENT or +auto for compressed memory (auto: agents only); comma list")
    parser.add_argument("--parts", default="0.6,0.8", help="of the memory that a program takes by itself; comma list")
    parser.add_argument("--memory-mib", type=int, help="this much instead, for all of them")
    parser.add_argument("--rounds", type=int, default=3, help="times that every variant is run; 0: only by itself")
    parser.add_argument("--patience", type=float, default=120, help="seconds for a run")
    parser.add_argument("--splash", metavar="DIR", help="a checkout of SPLASH-3, for three programs more")
    parser.add_argument("--sweephand", default=ROOT / "target/release/sweephand")
    disks.add_arguments(parser)
    parser.add_argument("--show", nargs="+", metavar="CSV", help="only print the tables of earlier results")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if args.show:
        summarise(read_rows(args.show))
        return
    if os.geteuid():
        sys.exit("run this as root: it makes a memory cgroup and a swap file")
    end_on_signals()
    names = [program.name for program in PROGRAMS] + [f"splash {name}" for name in SPLASH if args.splash]
    unknown = set(args.only.split(",")) - set(names) if args.only else None
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    path = pathlib.Path(args.output or HERE / "results" / disks.result_name("programs-", args.disk))
    with disks.disk(args.disk, args.directory) as swap:
        # What a program leaves behind becomes a child of this process, which ends it.
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
        rows = measure_all(args, path, swap)
    summarise(rows)
    wrong = sum(not row["same_output"] for row in rows)
    print(f"\n{path}: {wrong} runs ended otherwise than the program by itself")


if __name__ == "__main__":
    main()

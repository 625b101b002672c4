#!/usr/bin/env python3
"""Real programs in half of the memory that they take: output, time and pages read, beside the
kernel's swap. See README.md for what to install."""
import argparse
import csv
import datetime
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

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
}

PYTHONS = ["python2.7", "python3.11", "python3.13", "python3"]

# Name, command, and what is done before, by the shell. {work} is a directory, {n} a number that
# differs by run.
PROGRAMS = [
    ("sort", ["sort", "-S", "100M", "--parallel=2", "-k2,2n", "-k1,1", "{work}/lines"], ""),
    *((name, [name, "{work}/dict.py"], "") for name in PYTHONS),
    *((f"multiprocessing {how}", ["python3", "{work}/multi.py", how], "") for how in ["fork", "spawn", "forkserver"]),
    ("perl", ["perl", "{work}/hash.pl"], ""),
    ("mawk", ["mawk", "-f", "{work}/count.awk"], ""),
    ("tclsh", ["tclsh", "{work}/hash.tcl"], ""),
    ("sqlite3", ["sqlite3", "-init", "/dev/null", ":memory:", ".read {work}/rows.sql"], ""),
    ("node", ["node", "{work}/workers.js"], ""),
    ("gcc", ["gcc", "-O1", "-S", "-o", "/dev/stdout", "{work}/large.c"], ""),
    ("rustc", ["rustc", "-O", "--crate-type=lib", "--emit=asm", "-C", "codegen-units=1", "-o", "/dev/stdout",
               "{work}/large.rs"], ""),
    ("javac", ["sh", "-c", "javac -d {work}/classes{n} {work}/Work.java && cksum < {work}/classes{n}/Work.class"], ""),
    ("java Serial", ["java", "-XX:+UseSerialGC", "-Xmx128m", "-cp", "{work}", "Work"], "javac -d {work} {work}/Work.java"),
    ("java G1", ["java", "-XX:+UseG1GC", "-Xmx128m", "-cp", "{work}", "Work"], ""),
    ("java ZGC", ["java", "-XX:+UseZGC", "-Xmx128m", "-cp", "{work}", "Work"], ""),
    ("java, no archive", ["java", "-Xshare:off", "-XX:+UseSerialGC", "-Xmx128m", "-cp", "{work}", "Work"], ""),
    ("xz", ["xz", "-6", "-c", "{work}/lines"], ""),
    ("zstd", ["zstd", "-19", "-q", "-c", "{work}/lines"], ""),
    ("git", ["git", "-C", "{work}/repository", "log", "-p", "--stat"],
     "git init -q {work}/repository && cd {work}/repository && for i in 1 2 3 4 5 6 7 8; do head -c ${{i}}000000 ../lines > a; "
     "git add a; git -c user.name=n -c user.email=e commit -q -m $i --date 2020-01-01T00:00:00; done"),
    ("bash", ["bash", "{work}/list.sh"], ""),
    ("make -j2", ["sh", "-c", "mkdir {work}/make{n}; cd {work}/make{n}; cp ../large.c ../Makefile .; make -s -j2"], ""),
    ("go with cgo", ["{work}/work"], "cd {work} && GOFLAGS=-mod=mod HOME={work} go build -o work work.go"),
    ("gdb", ["gdb", "-q", "-batch", "-nx", "-ex", "break main", "-ex", "run", "-ex", "bt", "--args", "{work}/dash"],
     "printf 'int main(void){{return 0;}}' > {work}/d.c; gcc -g -o {work}/dash {work}/d.c"),
    ("strace", ["sh", "-c", "strace -f -o {work}/calls{n} perl {work}/hash.pl"], ""),
    ("postgres, initdb", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+sys_ptrace",
                          "--ambient-caps=+sys_ptrace", "sh", "-c",
                          "initdb -D {work}/open/data{n} > /dev/null && ls {work}/open/data{n}/base/1 | cksum"], ""),
]
FIELDS = ["date", "machine", "program", "native_mib", "memory_mib", "variant", "status", "same_output", "seconds",
          "system_seconds", "pages_read", "processes", "said"]


def make_workshop(work):
    """Sources, and a file of lines."""
    for name, source in SOURCES.items():
        (work / name).write_text(source.lstrip())
    # As it comes: what this process takes its children start with.
    number = 12345
    with open(work / "lines", "w") as file:
        for _ in range(1_000_000):
            number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
            file.write(f"{number:016x} {number % 977}\n")
    (work / "open").mkdir()
    (work / "open").chmod(0o777)
    work.chmod(0o755)


def run(command, patience):
    """Status, digest of the output, seconds, what was said on standard error, and most memory of a
    process in MiB."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=said)
        usage = None
        while usage is None:
            pid, status, rusage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                usage, child.returncode = rusage, os.waitstatus_to_exitcode(status)
            elif time.monotonic() - start > patience:
                child.terminate()
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = "patience"
            else:
                time.sleep(0.01)
        seconds = time.monotonic() - start
        out.seek(0)
        said.seek(0)
        digest = hashlib.file_digest(out, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else \
            hashlib.sha256(out.read()).hexdigest()
        words = said.read().decode(errors="replace").splitlines()
    return child.returncode, digest, seconds, words, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="programs, comma list; others are left out")
    parser.add_argument("--policies", default="clock-pro")
    parser.add_argument("--part", type=float, default=0.5, help="of the memory that a program takes by itself")
    parser.add_argument("--memory-mib", type=int, help="so much instead, for all of them")
    parser.add_argument("--patience", type=float, default=300, help="seconds for a run")
    parser.add_argument("--sweephand", default=ROOT / "target/release/sweephand")
    parser.add_argument("--directory", default="/var/tmp", help="where to page to, by whichever means")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if os.geteuid():
        sys.exit("run this as root: it makes a memory cgroup and a swap file")
    wanted = args.only.split(",") if args.only else [name for name, _, _ in PROGRAMS]
    path = pathlib.Path(args.output or HERE / f"results/programs-{datetime.date.today().isoformat()}.csv")
    wrong = 0
    with tempfile.TemporaryDirectory(dir=args.directory) as directory, open(path, "w", newline="") as file:
        work, number = pathlib.Path(directory), 0
        make_workshop(work)
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for name, command, before in PROGRAMS:
            if before:
                subprocess.run(["sh", "-c", before.format(work=work)], check=False, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            if name not in wanted:
                continue
            program = command[0].format(work=work)
            if shutil.which(program) is None:
                print(f"{name}: not installed")
                continue
            row = {"date": datetime.date.today().isoformat(), "machine": platform.node(), "program": name}
            memory = digest = expected = None
            for variant in ["native", "kernel", *args.policies.split(",")]:
                number += 1
                words = [word.format(work=work, n=number) for word in command]
                stats = work / "stats.json"
                if variant != "native":
                    how = ["--kernel"] if variant == "kernel" else ["--policy", variant]
                    words = [args.sweephand, "run", "--memory", f"{memory}MiB", *how, "--swap", args.directory, "--stats",
                             stats, "--", *words]
                status, digest, seconds, said, mib = run(words, args.patience)
                if variant == "native" and status != 0:
                    print(f"{name}: ends with {status} by itself: {' '.join(said)[:100]}")
                    break
                if variant == "native":
                    expected = (status, digest)
                    memory = args.memory_mib or max(8, round(mib * args.part))
                    row.update(native_mib=round(mib), memory_mib=memory)
                counts = json.loads(stats.read_text()) if stats.exists() else {}
                stats.unlink(missing_ok=True)
                same = (status, digest) == expected
                wrong += not same
                row.update(variant=variant, status=status, same_output=int(same), seconds=round(seconds, 2),
                           system_seconds=round(counts.get("sys_ns", 0) / 1e9, 2), pages_read=counts.get("pages_read"),
                           processes=counts.get("processes"), said=" ".join(said)[:200] if not same else "")
                writer.writerow(row)
                file.flush()
                print(f"{name:22} {row['memory_mib']:4} of {row['native_mib']:4} MiB  {variant:10} {seconds:7.2f} s  "
                      f"{row['pages_read'] or 0:8} read  {'same' if same else 'OTHER'} {row['said']}", flush=True)
    print(f"{path}: {wrong} runs ended otherwise than the program by itself")


if __name__ == "__main__":
    main()

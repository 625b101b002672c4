#!/usr/bin/env python3
"""Real programs in half their memory, for as long as you like, their output compared byte by byte:
see README.md."""
import argparse
import collections
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
POLICIES = "clock-pro-strict,clock,car,fifo,lifo-plus,apr,linux24,sieve,mglru,aging,seq,random"
# How a policy is run: by an agent in the program, or over the kernel's swap.
HOW = [[], ["--prefetch", "off"], ["--prefetch", "8"], ["--io", "sync"], ["--backend", "swap"],
       ["--reference-bits", "software"], ["--compress", "25%"], ["--compress", "auto"]]
# One more, if the kernel can: Linux 7.3.
RWP = ["--reference-bits", "rwp"]
# The least that a program can be run in.
LEAST_MIB = 4
# Half of its memory is too little for this one under any replacement: see README.md.
SHARES = {"xz": 0.75}
# It takes minutes for more.
FEW_BYTES = 1 << 20
# Where a run's cgroup may be.
CGROUPS = [place for place in map(pathlib.Path, ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]) if place.exists()][:1]
# A setting of the kernel's that is another during a run.
POLLS = pathlib.Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
POLLS_BEFORE, RAISED = POLLS.read_text().strip() if POLLS.exists() else "", "200000"
# For a program that has been asked to end.
GRACE_SECONDS = 30
# Runs tests and prints the outcome of each, without times.
TESTS = """
import importlib, random, sys, unittest
class Outcomes(unittest.TestResult):
    def addSuccess(self, test): print(test.id(), "ok")
    def addFailure(self, test, error): print(test.id(), "FAILED")
    def addError(self, test, error): print(test.id(), "ERROR")
    def addSkip(self, test, reason): print(test.id(), "skipped")
for name in sys.argv[1:]:
    random.seed(1)
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("test." + name))
    suite.run(Outcomes())
"""
# The programs of the tests that do what a pager must survive: threads, forks, moves, drops, guards,
# signals, strange ends, pages that devices and pipes hold. They check all that they find.
CHECKED = {"mostly": ["24 20 reads", "24 20 writes"], "threads": ["32 4 20000"], "changes": ["32 400 1"], "moves": ["16 4 500", "16 2 300 100"],
           "forks": ["32 3 2"], "forklocks": ["32 30"], "signals": ["32 100 20"], "ends": ["48 leader", "48 exec", "48 cancelled"]}
SUITES = ["test_dict test_list test_set test_tuple test_sort", "test_bytes test_array test_memoryview",
          "test_json test_pickle test_zlib", "test_unicode test_re", "test_heapq test_bisect test_deque test_collections",
          "test_long test_decimal"]


def prepare(directory):
    """Inputs, and the commands by name."""
    chance = random.Random(1)
    with open(directory / "lines", "w") as file:
        for _ in range(600_000):
            number = chance.getrandbits(64)
            file.write(f"{number:016x} {number % 977}\n")
    (directory / "few-lines").write_bytes((directory / "lines").read_bytes()[:FEW_BYTES])
    with open(directory / "large.c", "w") as file:
        for number in range(1200):
            file.write(f"int f{number}(int x) {{ int a[8]; for (int i = 0; i < 8; i++) a[i] = x * {number} + i;"
                       f" return a[x & 7] ? a[x & 3] : f{number}(x + 1); }}\n")
    (directory / "table.sql").write_text("""
create table item(id integer primary key, key text, value text);
insert into item select value, printf('%08x', (value * 2654435761) % 4294967296), hex(zeroblob(40)) from generate_series(1, 250000);
create index by_key on item(key);
pragma integrity_check;
select count(*), sum(length(value)), min(key), max(key) from item;
select substr(key, 1, 2) as part, count(*), sum(id) from item group by part order by part;
update item set value = key || value where id % 3 = 0;
delete from item where id % 7 = 0;
pragma integrity_check;
select count(*), sum(length(value)) from item;
select key, id from item order by key desc limit 1000;
""")
    (directory / "tests.py").write_text(TESTS)
    with open(directory / "points.dat", "w") as file:
        for number in range(240_000):
            file.write(f"{number / 1000:.6f} {chance.random():.8f} {chance.random():.8f}\n")
    jobs = {f"python: {suite}": ["python3", "-W", "ignore", "tests.py", *suite.split()] for suite in SUITES}
    jobs |= {
        "sqlite3": ["sqlite3", "-init", "table.sql", ":memory:", ""],
        "sort": ["sort", "-S", "48M", "--parallel=2", "-k2,2n", "-k1,1", "lines"],
        "sort, one thread": ["sort", "-S", "48M", "--parallel=1", "-r", "lines"],
        "gcc": ["gcc", "-O2", "-S", "-o", "-", "large.c"],
        "xz": ["xz", "-6", "-T1", "-c", "few-lines"],
        "gnuplot": ["gnuplot", "-e", "set terminal svg; plot 'points.dat' using 1:2 with lines, '' using 1:3 with lines"],
        "gap": ["/usr/lib/x86_64-linux-gnu/gap/gap", "-l", "/usr/lib/gap;/usr/share/gap", "-A", "-q", "--nointeract", "groups.g"],
    }
    for name, cases in CHECKED.items():
        subprocess.run(["gcc", "-O2", "-pthread", "-o", directory / name, ROOT / f"crates/cli/tests/programs/{name}.c"], check=True)
        jobs |= {f"{name} {case}": [str(directory / name), *case.split()] for case in cases}
    (directory / "groups.g").write_text("Print(Length(ConjugacyClasses(SymmetricGroup(6))), \"\\n\");\nQUIT;\n")
    missing = [name for name, command in jobs.items() if not shutil.which(command[0])]
    for name in missing:
        print(f"{jobs.pop(name)[0]}: not installed, left out")
    return jobs


def run(command, directory, output, seconds):
    """Status, or None if it took too long, and most memory in MiB of the largest process. A command
    that takes too long is asked to end first: `sweephand run` passes that on and writes its
    counts."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": "0"}
    with open(output, "wb") as file, open(f"{output}.errors", "wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=errors, cwd=directory,
                                 env=environment, start_new_session=True)
    try:
        return wait_for(child, seconds)
    finally:
        # Nothing is left running if the soak itself is ended.
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def wait_for(child, seconds):
    """See `run`."""
    end, late = time.monotonic() + seconds, False
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return None if late else child.returncode, usage.ru_maxrss / 1024
        if time.monotonic() > end and late:
            return None, 0
        if time.monotonic() > end:
            child.terminate()
            late, end = True, time.monotonic() + GRACE_SECONDS
        time.sleep(0.02)


def kill_one(command, directory, output, seconds, chance, bound):
    """Starts a run, and kills one of its processes after a while: the command, or one that has its
    agent, or the process that tidies up. Returns what is left of it half a minute after the command
    has ended, or None if the run had ended by itself before. A run whose process that tidies up was
    killed goes on, for `bound` seconds at most."""
    with open(output, "wb") as file, open(f"{output}.errors", "wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=errors, cwd=directory, start_new_session=True)
    time.sleep(seconds)
    if child.poll() is not None:
        return None
    mine = session(child.pid)
    try:
        os.kill(chance.choice([child.pid, chance.choice(mine)]), signal.SIGKILL)
    except ProcessLookupError:
        pass
    end = time.monotonic() + bound
    while time.monotonic() < end and child.poll() is None:
        time.sleep(0.1)
    end = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < end and (child.poll() is None or left_of(child.pid, directory.parent)):
        time.sleep(0.1)
    left = left_of(child.pid, directory.parent)
    for process in session(child.pid):
        os.kill(process, signal.SIGKILL)
    child.wait()
    return left


def left_of(command, swap_directory):
    """What is left of a run: processes, directory, cgroup, swap file, the kernel's setting. That
    is another while any run lasts."""
    left = [f"process {process}" for process in session(command)]
    name = f"sweephand-{command}-*"
    # Other runs' cgroups may go meanwhile, which ends a search by `rglob`.
    cgroups = (pathlib.Path(place, entry) for top in CGROUPS for place, entries, _ in os.walk(top) for entry in entries)
    found = [*pathlib.Path("/run").glob(name), *swap_directory.glob(name), *(path for path in cgroups if path.match(name))]
    left += [str(path) for path in found if path.exists()]
    areas = pathlib.Path("/proc/swaps").read_text()
    left += [line.split()[0] for line in areas.splitlines() if f"/sweephand-{command}-" in line]
    if POLLS_BEFORE not in ("", RAISED) and POLLS.read_text().strip() == RAISED and not others_run(command):
        left.append(f"{POLLS}: {RAISED}")
    return left


def others_run(command):
    """Whether another process removes what a run has made, so that another run lasts."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if b"sweephand-tidy" in words and f"sweephand-{command}-".encode() not in words:
            return True
    return False


def session(leader):
    """The processes of a session that have not ended."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == leader and fields[0] not in "ZX":
            found.append(int(entry.name))
    return found


def read_counts(stats):
    """The counts that a run has left, and no more of them."""
    counts = json.loads(stats.read_text()) if stats.exists() else {}
    stats.unlink(missing_ok=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--jobs", default="", help="only those whose name contains this")
    parser.add_argument("--share", type=float, default=0.5, help="of the memory that a program takes by itself")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bound", type=float, default=300, help="seconds for a run, if the kernel does not take long itself")
    parser.add_argument("--factor", type=float, default=4, help="a run may take as many times what the kernel takes in as much memory")
    parser.add_argument("--runs", type=int, default=0, help="most runs; 0: no limit")
    parser.add_argument("--kills", type=int, default=0, help="kill a process of one run in this many; 0: of none")
    parser.add_argument("--compress", default="", help="compressed memory in every run of an agent: a part of memory, as in 25%%, or auto")
    parser.add_argument("--directory", default="/var/tmp", help="a directory on a disk")
    parser.add_argument("--sweephand", default=str(ROOT / "target/release/sweephand"))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    chance, policies = random.Random(args.seed), args.policies.split(",")
    end = time.monotonic() + 60 * args.minutes
    kept = pathlib.Path(tempfile.mkdtemp(prefix="sweephand-soak-", dir=args.directory))
    runs, findings, failcnt = collections.Counter(), [], 0
    try:
        jobs = {name: command for name, command in prepare(kept).items() if args.jobs in name}
        can_rwp = subprocess.run([args.sweephand, "run", "--memory", "16MiB", *RWP, "--", "true"], capture_output=True).returncode == 0
        ways = [*HOW, RWP] if can_rwp else HOW
        names, expected, memory, kernel, bound = list(jobs), {}, {}, {}, {}
        stats = kept / "stats.json"
        number = 0
        while names and time.monotonic() < end and not 0 < args.runs <= number:
            name = names[number % len(names)]
            if name not in expected:
                first, second = kept / "expected", kept / "again"
                status, mib = run(jobs[name], kept, first, args.bound)
                # What does not print the same twice by itself shows nothing.
                again, _ = run(jobs[name], kept, second, args.bound)
                if (status, first.read_bytes()) != (again, second.read_bytes()):
                    print(f"{name}: does not print the same twice by itself, left out")
                    names.remove(name)
                    continue
                expected[name], memory[name] = (status, first.read_bytes()), max(LEAST_MIB, int(mib * max(args.share, SHARES.get(name, 0))))
                # Some programs have use for all of their memory all the time: half of it is not
                # enough for anyone's paging.
                start = time.monotonic()
                limits = ["--memory", f"{memory[name]}MiB", "--swap", args.directory, "--stats", str(stats)]
                status, _ = run([args.sweephand, "run", "--kernel", *limits, "--", *jobs[name]], kept, kept / "kernel", args.bound)
                seconds, counts = time.monotonic() - start, read_counts(stats)
                ended = status == expected[name][0]
                # Where the kernel cannot say how long it takes, the bound is what it is.
                kernel[name] = seconds if ended or status is None else 0
                bound[name] = max(args.bound, args.factor * kernel[name])
                print(f"{name}: status {expected[name][0]}, {len(expected[name][1])} bytes, {mib:.0f} MiB by itself; the kernel, in "
                      f"{memory[name]} MiB: {seconds:.1f} s, {counts.get('pages_read', '')} pages read"
                      + ("" if ended else ", did not come to its end"), flush=True)
            policy = policies[number % len(policies)] if number < len(policies) else chance.choice(policies)
            number += 1
            how = ["--policy", policy, *chance.choice(ways)] if chance.randrange(4) else []
            if args.compress and how and not {"--compress", "--backend"} & set(how):
                how += ["--compress", args.compress]
            options = ["--memory", f"{memory[name]}MiB", "--swap", args.directory, *how]
            output = kept / f"output.{number}"
            command = [args.sweephand, "run", *options, "--stats", str(stats), "--", *jobs[name]]
            if args.kills and chance.randrange(args.kills) == 0:
                left = kill_one(command, kept, output, chance.uniform(0.05, 3), chance, bound[name])
                verdict = "ended before it was killed" if left is None else f"LEFT BEHIND {left}" if left else "killed, nothing left"
                runs[verdict] += 1
                print(f"{number:4} {name:55} {verdict}", flush=True)
                if left:
                    findings.append(f"cd {kept} && {shlex.join(command)}\n    {verdict}")
                continue
            start = time.monotonic()
            status, _ = run(command, kept, output, bound[name])
            seconds, counts = time.monotonic() - start, read_counts(stats)
            is_same = (status, output.read_bytes()) == expected[name]
            verdict = "same" if is_same else "took too long" if status is None else f"OTHER, status {status}"
            runs[verdict] += 1
            failcnt += counts.get("cgroup_failcnt") or 0
            print(f"{number:4} {name:55} {' '.join(options[1:2] + (how[1:] or ['default'])):32} {seconds:6.1f} s "
                  f"{counts.get('refaults', '')!s:>9} refaults  {verdict}", flush=True)
            if is_same:
                output.unlink()
                pathlib.Path(f"{output}.errors").unlink()
            else:
                said = pathlib.Path(f"{output}.errors").read_text(errors="replace").strip()[-500:]
                paged = (f"\n    {seconds:.0f} s, the kernel {kernel[name]:.0f} s; {counts['refaults']} refaults, "
                         f"{counts['pages_read']} pages read" if counts and status is None else "")
                findings.append(f"cd {kept} && {shlex.join(command)}\n    {verdict}: {said}{paged}\n    it printed {output}")
    finally:
        print(f"\n{sum(runs.values())} runs: " + ", ".join(f"{count} {verdict}" for verdict, count in runs.items())
              + f"; the cgroups hit their limits {failcnt} times")
        for finding in findings:
            print(finding)
        if not findings:
            shutil.rmtree(kept)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

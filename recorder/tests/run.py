#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the recorder against programs whose references are known: run.py TOOL_DIR [TEST...]

TOOL_DIR is what build.sh has made. Needs cc; c++ if there is one.
"""

import collections
import concurrent.futures
import glob
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import pgtr
from pgtr import Alloc, End, Free, Map, Mark, Reference, Remap, Unmap

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE, AREA = 4096, 64
TOOL_DIR = WORK = None
BUILT = {}

Result = collections.namedtuple("Result", "trace status stdout stderr names")


def build(name, *options, source="subject.c", compiler="cc"):
    if name not in BUILT:
        BUILT[name] = os.path.join(WORK, name)
        subprocess.run([compiler, "-O2", "-Wall", "-Wno-alloc-size-larger-than", "-o", BUILT[name], os.path.join(HERE, source), *options],
                       check=True)
    return BUILT[name]


def subject():
    return build("subject", "-mcx16", "-pthread", "-latomic")


def pythons():
    """The interpreters of this machine that the recorder knows, each version once."""
    found = {}
    paths = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")) + [
        os.path.realpath(sys.executable), *glob.glob("/usr/bin/python3.1?")]
    for path in paths:
        shown = subprocess.run([path, "-S", "-E", "-c", "import sys; print(*sys.version_info[:2])"],
                               capture_output=True, text=True)
        version = tuple(map(int, shown.stdout.split()))
        if (3, 10) <= version <= (3, 14):
            found.setdefault(version, path)
    return sorted(found.items())


def valgrind(tool, options, command, **keywords):
    """Every tool in the same environment, so that stacks lie at the same addresses."""
    return subprocess.Popen(["valgrind", "-q", "--command-line-only=yes", "--tool=" + tool, *options, *command],
                            env={"VALGRIND_LIB": TOOL_DIR, "PATH": "/usr/bin:/bin"}, **keywords)


def record(*command, window=1, options=(), allow_stderr=False):
    reader, writer = os.pipe()
    child = valgrind("sweephand", [f"--out-fd={writer}", f"--window={window}", *options], command,
                     pass_fds=[writer], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE, text=True)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    out, err = child.communicate()
    if err and not allow_stderr:
        raise AssertionError(f"on standard error: {err}")
    names = dict(line.split() for line in out.splitlines() if len(line.split()) == 2)
    names = {name: int(value) for name, value in names.items() if value.lstrip("-").isdigit()}
    return Result(pgtr.Trace(data), child.returncode, out, err, names)


def between_fences(result):
    fence = result.names["fence"] // PAGE
    records = result.trace.records
    first = records.index(Reference(fence, True))
    last = records.index(Reference(fence + 1, True))
    return records[first + 1:last]


def area_runs(result):
    """What happened to the area between the fences: page numbers from its start, runs joined."""
    base = result.names["area"] // PAGE
    runs = []
    for r in between_fences(result):
        if isinstance(r, Reference) and base <= r.page < base + AREA:
            page = r.page - base
            if runs and runs[-1][0] == page:
                runs[-1] = (page, runs[-1][1] or r.write)
            else:
                runs.append((page, r.write))
    return runs


Program = collections.namedtuple("Program", "pid parent how name trace")


def follow(*command, children=False):
    """Everything that comes over a control socket: the programs with their traces, and those that
    could not be recorded."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    options = ["--vgdb=no", "--trace-children=yes", f"--control-fd={theirs.fileno()}", "--window=1",
               f"--children={'yes' if children else 'no'}"]
    child = valgrind("sweephand", options, command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, text=True)
    theirs.close()
    begun, lost, readers = [], [], []
    while True:
        message, descriptors, _, _ = socket.recv_fds(ours, 1 << 13, 1)
        if not message:
            break
        kind, rest = message.decode().split(" ", 1)
        if kind == "lost":
            lost.append(rest.split(" ", 1)[1])
            continue
        begun.append(rest.split(" ", 3))
        with_it = concurrent.futures.Future()
        readers.append(with_it)

        def read(fd=descriptors[0], result=with_it):
            with os.fdopen(fd, "rb") as stream:
                result.set_result(stream.read())
        threading.Thread(target=read).start()
    ours.close()
    out, _ = child.communicate()
    programs = [Program(int(pid), int(parent), how, name, pgtr.Trace(reader.result()))
                for (pid, parent, how, name), reader in zip(begun, readers)]
    return programs, lost, out, child.returncode


R, W = False, True


class References(unittest.TestCase):
    def check(self, case, expected, status=0):
        result = record(subject(), case)
        self.assertEqual(result.status, status)
        self.assertEqual(area_runs(result), expected)
        return result

    def test_a_scan_writes_then_reads_every_page(self):
        self.check("scan", [(p, W) for p in range(AREA)] + [(p, R) for p in range(AREA)])

    def test_a_stride_touches_every_third_page_backwards(self):
        self.check("stride", [(p, R) for p in range(AREA - 1, -1, -3)])

    def test_accesses_over_a_page_boundary_touch_both(self):
        self.check("crossing", [(0, W), (1, W), (2, R), (3, R), (4, W)])

    def test_atomics_read_and_write(self):
        self.check("atomics", [(0, W), (1, W), (2, W), (3, W)]
                   + [(4, R), (5, R)] * 2 + [(4, W), (5, W)])  # VEX loads, then compares and swaps

    def test_masked_lanes_are_not_touched(self):
        with open("/proc/cpuinfo") as cpu:
            if " avx2" not in cpu.read():
                self.skipTest("no AVX2 here")
        self.check("vector", [(1, R), (3, R), (8, W), (9, W), (11, W), (12, W), (20, R)])

    def test_string_instructions_touch_source_and_target(self):
        # movsq: 512 times 8 bytes to 8 bytes past the start of page 20, from page 10
        self.check("string", [(0, W), (1, W)] + [(10, R), (20, W)] * 511 + [(10, R), (21, W)])

    def test_helpers_touch_what_they_say(self):
        self.check("x87", [(1, W), (2, W), (3, W)])

    def test_registers_survive_faults_that_the_program_handles(self):
        """Every page is read, written in vain, and written: the registers survive the faults."""
        self.check("barrier", [(p, W) for p in range(AREA)])

    def test_the_program_computes_what_it_computes_without_us(self):
        native = subprocess.run([subject(), "numbers"], capture_output=True, text=True, check=True)
        recorded = record(subject(), "numbers", window=16)
        # The addresses that every case begins with differ.
        self.assertEqual(recorded.stdout.splitlines()[2:], native.stdout.splitlines()[2:])

    def test_every_thread_has_its_own_pages_and_objects(self):
        result = record(subject(), "threads")
        runs = area_runs(result)
        for n in range(8):
            with self.subTest(thread=n):
                own = [p for p, _ in runs if p // 8 == n]
                self.assertEqual(list(dict.fromkeys(own)), list(range(8 * n, 8 * n + 8)))
        self.assertEqual(sorted(a.length for a in result.trace.of(Alloc) if a.kind == 0),
                         [100000 + n for n in range(8)])
        self.assertEqual(len(result.trace.of(Free)), 8)

    def test_system_calls_touch_what_they_read_and_write(self):
        result = self.check("syscalls", [(0, W), (1, W), (2, W), (3, W), (8, R), (9, R), (20, R), (22, R),
                                         (30, W), (31, W), (30, R), (31, R)])
        wide = result.names["wide"] // PAGE
        touched = [r.page - wide for r in between_fences(result)
                   if isinstance(r, Reference) and wide <= r.page < wide + 1024]
        self.assertEqual(touched, list(range(16)), "only what the pipe took")
        self.assertGreaterEqual(result.trace.end.syscall_pages, 4 + 2 + 2 + 16 + 2)


class Mappings(unittest.TestCase):
    def test_mapping_calls_are_recorded_in_their_order(self):
        result = record(subject(), "mappings")
        a, b, c, hole = (result.names[n] // PAGE for n in ("a", "b", "c", "hole"))
        blocker = result.names.get("blocker", 0) // PAGE
        records = result.trace.records
        at = records.index(Map(a, 32))
        places = {p for n, count in (("a", 32), ("b", 8), ("c", 40), ("hole", 64))
                  for p in range(result.names[n] // PAGE, result.names[n] // PAGE + count)}
        control = [r for r in records[at:] if isinstance(r, (Map, Unmap, Remap))]
        control = [r for r in control if (r.source if isinstance(r, Remap) else r.page) in places]
        self.assertEqual(control, [
            Map(a, 32), Map(b, 8), Map(hole, 64), Unmap(hole, 64),
            Unmap(a + 4, 4), Unmap(a + 8, 2), Unmap(a + 10, 1),
            Unmap(a + 12, 3), Map(a + 12, 3),
            *([Map(blocker, 1)] if blocker in places else []),
            Remap(b, c, 8), Map(c + 8, 32),
            Unmap(c + 30, 10), Unmap(c, 30)])

    def test_a_heap_that_brk_shrinks_is_unmapped(self):
        result = record(subject(), "brk")
        base = result.names["base"]
        first, end = -(-base // PAGE), -(-(base + 6 * PAGE) // PAGE)
        self.assertTrue(Unmap(end, 4) in result.trace.records)
        touched = {r.page for r in result.trace.references}
        self.assertIn(base // PAGE + 5, touched)
        self.assertTrue(any(m.page <= first < m.page + m.count for m in result.trace.of(Map)))


class Objects(unittest.TestCase):
    def check(self, program):
        result = record(program, "objects")
        n = result.names
        self.assertEqual(result.status, 0)
        got = [r for r in result.trace.records if isinstance(r, (Alloc, Free))]
        fence_and_area = [Alloc(n["area"], AREA * PAGE, 4)]  # the fences are too small
        self.assertEqual(got, fence_and_area + [
            Alloc(n["malloc"], 100000, 0), Alloc(n["calloc"], 50000, 1),
            Free(n["malloc"]), Alloc(n["realloc"], 300000, 2),
            Alloc(n["aligned_alloc"], 65536, 3), Alloc(n["posix_memalign"], 50000, 3),
            Free(n["realloc"]), Free(n["calloc"]), Free(n["aligned_alloc"]), Free(n["posix_memalign"]),
            Alloc(n["mmap"], 64 * PAGE, 4),
            Free(n["mmap"]), Alloc(n["mmap"] + 16 * PAGE, 48 * PAGE, 4),
            Free(n["mmap"] + 16 * PAGE), Alloc(n["mmap"] + 16 * PAGE, 24 * PAGE, 4),
            Free(n["mmap"] + 16 * PAGE), Alloc(n["mremap"], 48 * PAGE, 5),
            Free(n["mremap"])])
        self.assertEqual(result.trace.end.objects, 10)
        self.assertEqual(result.trace.end.peak_bytes, AREA * PAGE + 300000 + 50000 + 65536 + 50000)

    def test_the_programs_own_allocator_is_kept(self):
        self.check(subject())

    def test_a_static_program_has_the_same_objects(self):
        self.check(build("subject-static", "-static", "-mcx16", "-pthread", "-latomic"))

    def test_an_allocator_left_by_longjmp_records_the_next_objects(self):
        result = record(subject(), "left")
        n = result.names
        self.assertEqual([r for r in result.trace.records if isinstance(r, (Alloc, Free))][1:], [
            Alloc(n["malloc"], 70000, 0), Free(n["malloc"]), Alloc(n["valloc"], 80000, 3), Free(n["valloc"])])

    def test_anonymous_leaves_out_pages_of_files(self):
        result = record(subject(), "scan", options=["--anonymous=yes"])
        every = record(subject(), "scan")
        area = result.names["area"] // PAGE
        pages = {r.page for r in result.trace.references}
        others = {r.page for r in every.trace.references} - pages
        self.assertIn(area, pages)
        # The program's own pages and those of the C library are of files.
        self.assertGreater(len(others), 20)
        self.assertFalse(any(0 <= page - area < AREA for page in others))

    def test_min_object_leaves_out_smaller_objects(self):
        result = record(subject(), "objects", options=["--min-object=60000"])
        self.assertEqual({a.length for a in result.trace.of(Alloc) if a.kind < 4}, {100000, 300000, 65536})

    @unittest.skipUnless(shutil.which("c++"), "no c++")
    def test_operator_new_and_delete_are_objects(self):
        result = record(build("operator-new", source="operator_new.cc", compiler="c++"))
        own = [50000, 60000, 70000, 80000]  # the library has a large block, too
        allocated = [r for r in result.trace.of(Alloc) if r.length in own]
        self.assertEqual([r.length for r in allocated], own)
        freed = [r.address for r in result.trace.of(Free)]
        self.assertEqual(freed, [r.address for r in allocated])


class Places(unittest.TestCase):
    """Where objects are made, and which code touches pages."""

    def stacks(self, *options, name):
        """The functions and lines of the program itself, by the length of the object."""
        program = build(name, "-g", *options, source="places.c")
        trace = record(program).trace
        stacks = {}
        for number, allocated in enumerate(trace.of(Alloc)):
            own = [(line, offset) for line, module, offset in trace.places[trace.made[number]]
                   if module == program]
            stacks.setdefault(allocated.length, []).append(own)
        return trace, stacks

    def lines(self, stack):
        return [description.replace(HERE + "/", "") for description, _ in stack]

    def test_objects_name_functions_and_lines_also_inlined_ones(self):
        trace, stacks = self.stacks(name="places")
        self.assertEqual(self.lines(stacks[100000][0]), ["inlined (places.c:10)", "main (places.c:30)"])
        self.assertEqual(len(stacks[90000]), 3)
        for stack in stacks[90000]:
            self.assertEqual(self.lines(stack), ["grid (places.c:15)", "main (places.c:32)"])
        self.assertEqual(self.lines(stacks[1 << 20][0]), ["mapping (places.c:22)", "main (places.c:34)"])
        self.assertEqual(len(set(map(tuple, trace.places))), len(trace.places))  # each once

    def touched(self, trace, program, pages):
        """The program's own lines of the code that touched these pages, with how often."""
        counts = collections.Counter()
        for reference, place in zip(trace.references, trace.code):
            if reference.page in pages:
                own = [line.replace(HERE + "/", "") for line, module, _ in trace.places[place]
                       if module == program]
                counts[tuple(own)] += 1
        return counts

    def test_references_name_the_code_that_touches_pages(self):
        program = build("touches", "-g", "-fno-inline-functions", source="touches.c")
        for window in 1, 16:
            with self.subTest(window=window):
                trace = record(program, window=window).trace
                area = next(r for r in trace.of(Alloc) if r.length == 64 * PAGE)
                # The first and the last page are touched by others, too.
                first = area.address // PAGE + 1
                counts = self.touched(trace, program, range(first, first + 60))
                main = "main (touches.c:%d)"
                self.assertEqual(counts["write (touches.c:9)", main % 30], 60)
                self.assertEqual(counts["read (touches.c:15)", "twice (touches.c:22)", main % 31], 60)
                self.assertEqual(counts["read (touches.c:15)", "twice (touches.c:23)", main % 31], 60)
                self.assertEqual(counts[main % 32,], 60)  # memset, called by main
                self.assertEqual(sum(counts.values()), 240)

    def test_python_code_is_named_by_functions_and_lines(self):
        for version, python in pythons():
            with self.subTest(version):
                trace = record(python, "-S", "-E", os.path.join(HERE, "lines.py"), window=16).trace
                self.assertEqual(trace.notes, [])
                blocks = [r for r in trace.of(Alloc) if 1200000 <= r.length < 1210000]
                self.assertEqual(len(blocks), 3)
                for number, block in enumerate(trace.of(Alloc)):
                    if block in blocks:
                        self.assertEqual(self.python(trace.places[trace.made[number]]),
                                         ["make:5", "<module>:17"])
                start, pages = blocks[0].address // PAGE + 1, 200
                by_stack = collections.defaultdict(set)
                for reference, place in zip(trace.references, trace.code):
                    if start <= reference.page < start + pages:
                        by_stack[tuple(self.python(trace.places[place]))].add(reference.page)
                self.assertEqual({stack: len(found) for stack, found in by_stack.items()},
                                 {("make:5", "<module>:17"): pages, ("read:11", "<module>:18"): pages})

    def python(self, stack):
        return [line.split(" (")[0].split(".")[-1] + ":" + line.rsplit(":", 1)[1].rstrip(")")
                for line, module, _ in stack if module == "[python]"]

    def test_a_stripped_program_has_offsets(self):
        _, stacks = self.stacks("-s", name="places-stripped")
        description, offset = stacks[100000][0][0]
        self.assertTrue(description.startswith("??? (in /"), description)
        self.assertGreater(int(offset, 16), 0)

    def test_without_lines_a_function_is_one_place(self):
        trace, stacks = self.stacks("-g0", name="places-without-lines")
        places = {tuple(stack) for stacks in stacks.values() for stack in stacks}
        self.assertEqual({description.split(" ")[0] for (description, _), *_ in places},
                         {"main", "grid", "mapping"})
        own = [line[0] for stack in trace.places for line in stack[:1] if "places-without-lines" in line[1]]
        named = [description for description in own if not description.startswith("???")]
        self.assertEqual(len(named), len(set(named)))

    def test_270_000_places_are_told_apart(self):
        functions = 270_000
        trace = record(build("many", f"-DFUNCTIONS={functions}", source="many.S")).trace
        found = {stack[0][0].split(" ")[0]: len(stack) for stack in trace.places
                 if stack[0][0].startswith("touch_")}
        self.assertEqual(len(found), functions)
        # The callers of the last ones are left out, and the trace says so.
        self.assertIn("more call paths", "".join(trace.notes))
        self.assertGreater(found["touch_0"], found[f"touch_{functions - 1}"])

    def test_of_a_large_stripped_program_4_kib_of_code_are_a_place(self):
        trace = record(build("many-stripped", "-DFUNCTIONS=40000", "-s", source="many.S")).trace
        own = {line for stack in trace.places for line in stack[:1] if line[1].endswith("many-stripped")}
        self.assertTrue(all(description.startswith("??? (in /") for description, _, _ in own))
        pages = {offset for _, _, offset in own if int(offset, 16) % PAGE == 0}
        self.assertLess(len(own), 1 << 15)
        self.assertGreater(len(pages), 40)

    def test_a_call_may_return_after_another_thread_has_ended(self):
        # The read returns when the thread that ran last is gone. Valgrind knows no registers of it.
        program = ("import os, _thread\n"
                   "end, other = os.pipe()\n"
                   "os.set_inheritable(other, True)\n"
                   "if os.fork() == 0:\n"
                   "    os.execv('/bin/sh', ['sh', '-c', f'sleep 4; echo x >&{other}'])\n"
                   "_thread.start_new_thread(len, ('',))\n"
                   "print('read', len(os.read(end, 100)))\n")
        _, python = pythons()[0]
        result = record(python, "-S", "-E", "-c", program, window=16)
        self.assertEqual((result.status, result.names["read"]), (0, 2))

    def test_of_code_that_is_made_at_run_time_4_kib_are_a_place(self):
        result = record(build("made", source="made.c"))
        code = result.names["code"]
        made = {int(offset, 16) for stack in result.trace.places for description, module, offset in stack[:1]
                if (description, module) == ("???", "")}
        self.assertEqual({at for at in made if code <= at < code + 2 * PAGE}, {code, code + PAGE})

    def test_none_are_recorded_if_none_are_wanted(self):
        trace = record(build("places", "-g", source="places.c"), options=["--stacks=no", "--code=no"]).trace
        self.assertEqual((trace.places, trace.made, len(trace.of(Alloc))), ([], {}, 5))
        self.assertEqual(set(trace.code), {None})



class Lives(unittest.TestCase):
    """What begins and ends a recording."""

    def test_forked_children_are_other_programs(self):
        result = record(subject(), "fork")
        self.assertEqual(result.status, 0)
        self.assertEqual(area_runs(result), [(0, W), (1, W)])
        self.assertFalse(Unmap(result.names["area"] // PAGE, 1) in between_fences(result))
        self.assertIsNotNone(result.trace.end)

    def test_exec_ends_the_trace_without_end(self):
        result = record(subject(), "exec")
        self.assertEqual(result.status, 0)
        self.assertIsNone(result.trace.end)
        self.assertEqual(area_runs(result), [(0, W)])
        self.assertIsInstance(result.trace.records[-1], Mark)

    def test_failed_exec_goes_on(self):
        result = record(subject(), "exec-fails")
        self.assertIsNotNone(result.trace.end)
        self.assertEqual(area_runs(result), [(0, W)])

    def test_a_fatal_signal_leaves_a_whole_trace(self):
        result = record(subject(), "interrupted", allow_stderr=True)
        self.assertEqual(result.status, -signal.SIGINT)
        self.assertIsNotNone(result.trace.end)
        self.assertEqual(area_runs(result), [(0, W)])

    def test_a_handled_signal_is_the_programs_own(self):
        result = record(subject(), "handles")
        self.assertEqual(result.status, 17)
        self.assertEqual(area_runs(result), [(3, W)])

    def test_without_a_reader_it_ends_with_a_message(self):
        reader, writer = os.pipe()
        os.close(reader)
        child = valgrind("sweephand", [f"--out-fd={writer}"], [subject(), "mixed"], pass_fds=[writer],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        _, err = child.communicate()
        self.assertEqual(child.returncode, 1)
        self.assertIn("its reader is gone", err)

    def test_the_stream_is_out_of_the_programs_sight(self):
        """A program that closes every descriptor it could have loses nothing."""
        script = "import os; os.closerange(3, 1 << 16); bytearray(1 << 20)"
        result = record(os.path.realpath(sys.executable), "-S", "-c", script, allow_stderr=True)
        self.assertIsNotNone(result.trace.end)


class Following(unittest.TestCase):
    """Through exec and fork, over a control socket."""

    def test_every_program_has_a_stream(self):
        programs, lost, out, status = follow("env", "sh", "-c", "exec /bin/echo said")
        self.assertEqual((out, status, lost), ("said\n", 0, []))
        self.assertEqual([p.name for p in programs], ["env", "/usr/bin/sh", "/bin/echo"])
        self.assertEqual(len({p.pid for p in programs}), 1)
        self.assertEqual([p.trace.end is not None for p in programs], [False, False, True])

    def test_an_environment_that_is_cleared_changes_nothing(self):
        programs, _, out, _ = follow("env", "-i", "/bin/echo", "said")
        self.assertEqual((out, [p.name for p in programs]), ("said\n", ["env", "/bin/echo"]))

    def test_children_run_without_the_tool(self):
        programs, _, out, _ = follow("sh", "-c", "/bin/echo one; /bin/echo two")
        self.assertEqual((out, [p.name for p in programs]), ("one\ntwo\n", ["sh"]))
        self.assertIsNotNone(programs[0].trace.end)

    def test_children_are_recorded_if_they_are_asked_for(self):
        programs, _, out, _ = follow("sh", "-c", "/bin/echo one; /bin/echo two", children=True)
        self.assertEqual(out, "one\ntwo\n")
        shell, *others = programs
        self.assertEqual({p.parent for p in others}, {shell.pid})
        self.assertEqual(sorted((p.how, p.name) for p in others),
                         [("exec", "/bin/echo")] * 2 + [("fork", "sh")] * 2)
        self.assertEqual(sum(p.trace.end is not None for p in programs), 3)

    def test_a_forked_child_counts_from_the_fork(self):
        programs, _, _, _ = follow(subject(), "fork", children=True)
        parent, child = programs[0], programs[1]
        self.assertEqual((child.how, child.parent), ("fork", parent.pid))
        for p in (parent, child):
            with self.subTest(how=p.how):
                end, trace = p.trace.end, p.trace
                self.assertEqual(end.records, len(trace.references))
                self.assertEqual(end.instructions, sum(m.instructions for m in trace.of(Mark)))
                self.assertEqual(end.objects, len(trace.of(Alloc)))
        self.assertLess(child.trace.end.references, parent.trace.end.references)
        # What lives at the fork is an object of the child's, too: it comes before anything else.
        told = list(itertools.takewhile(lambda r: isinstance(r, Alloc), child.trace.records))
        self.assertIn(AREA * PAGE, [a.length for a in told])
        self.assertTrue({a.address for a in told} <= {a.address for a in parent.trace.of(Alloc)})

    def test_an_exec_that_fails_changes_nothing(self):
        programs, lost, _, _ = follow(subject(), "exec-fails")
        self.assertEqual((len(programs), lost), (1, []))
        self.assertIsNotNone(programs[0].trace.end)

    def test_what_valgrind_cannot_run_runs_by_itself(self):
        copy = os.path.join(WORK, "setuid-echo")
        shutil.copy("/bin/echo", copy)
        os.chmod(copy, 0o4755)
        programs, lost, out, status = follow("sh", "-c", f"exec {copy} said")
        self.assertEqual((out, status, lost), ("said\n", 0, [copy]))
        self.assertEqual([p.trace.end for p in programs], [None])


class Streams(unittest.TestCase):
    """Recordings of one program, held against each other and against Valgrind's own lackey."""

    @classmethod
    def setUpClass(cls):
        cls.by_window = {k: record(subject(), "mixed", window=k).trace for k in (1, 2, 5, 16, 100)}

    def test_totals_add_up(self):
        for window, trace in self.by_window.items():
            with self.subTest(window=window):
                end, marks = trace.end, trace.of(Mark)
                self.assertEqual(trace.window, window)
                self.assertEqual(end.records, len(trace.references))
                self.assertEqual(end.instructions, sum(m.instructions for m in marks))
                self.assertEqual(end.references, sum(m.references for m in marks))
                self.assertEqual(end.objects, len(trace.of(Alloc)))
                self.assertTrue(all(1000000 <= m.instructions < 1001000 for m in marks[:-1]))
                self.assertIsInstance(trace.records[-2], Mark)
        self.assertEqual(self.by_window[1].end.records, self.by_window[1].end.runs)

    def test_the_window_is_what_the_format_says(self):
        every = self.by_window[1]
        for window, trace in self.by_window.items():
            with self.subTest(window=window):
                self.assertEqual(trace.end._replace(records=0), every.end._replace(records=0))
                self.assertEqual(trace.records[:-1], pgtr.reduce(every.records[:-1], window))

    def test_lru_is_exact_from_the_window_up(self):
        records = self.by_window[1].records
        memories = range(1, 1 + len({r.page for r in records if isinstance(r, Reference)}))
        exact = pgtr.lru_faults(records, memories)
        for window, trace in self.by_window.items():
            with self.subTest(window=window):
                self.assertEqual(pgtr.lru_faults(trace.records, memories)[window - 1:], exact[window - 1:])
        for memory in (16, 40):
            with self.subTest(memory=memory):
                self.assertEqual(pgtr.naive_lru_faults(records, memory), exact[memory - 1])

    def test_every_reference_is_recorded_as_lackey_sees_it(self):
        log = os.path.join(WORK, "lackey")
        # Without chasing, as the recorder runs: with it lackey counts instructions that VEX runs
        # ahead.
        valgrind("lackey", ["--trace-mem=yes", "--vex-guest-chase=no", "--log-file=" + log],
                 [subject(), "mixed"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).communicate()
        trace = self.by_window[1]
        instructions, references, runs = read_lackey(log)
        self.assertEqual((trace.end.instructions, trace.end.references), (instructions, references))
        at = extra = 0
        # Ours has more: pages that system calls touch, and runs that a control record cuts.
        for r in trace.references:
            if at < len(runs) and runs[at] == r.page:
                at += 1
            else:
                extra += 1
        self.assertEqual(at, len(runs))
        control = len(trace.records) - len(trace.references)
        self.assertLessEqual(extra, 2 * trace.end.syscall_pages + control)

    def test_without_a_window_every_reference_is_a_record(self):
        log = os.path.join(WORK, "lackey-each")
        valgrind("lackey", ["--trace-mem=yes", "--vex-guest-chase=no", "--log-file=" + log],
                 [subject(), "mixed"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).communicate()
        trace, joined = record(subject(), "mixed", window=0).trace, self.by_window[1]
        self.assertEqual(trace.end._replace(records=0), joined.end._replace(records=0))
        self.assertEqual((trace.window, trace.end.records), (0, len(trace.references)))
        # Joined to runs they are what a window of 1 records.
        runs = []
        for r in trace.records[:-1]:
            if isinstance(r, Reference) and runs and isinstance(runs[-1], Reference) and runs[-1].page == r.page:
                runs[-1] = r._replace(write=runs[-1].write or r.write)
            else:
                runs.append(r)
        self.assertEqual(runs, joined.records[:-1])
        # One by one they are what lackey sees, and, somewhere between, what system calls touch.
        each, at, extra = read_each_page(log), 0, 0
        for r in trace.references:
            if at < len(each) and each[at] == (r.page, r.write):
                at += 1
            else:
                extra += 1
        self.assertEqual((at, extra), (len(each), trace.end.syscall_pages))


def read_each_page(path):
    """The page of every access in lackey's log, and whether it is a write."""
    pages = []
    with open(path, errors="replace") as log:
        for line in log:
            kind = line[:3]
            if kind in (" L ", " S ", " M "):
                address, length = line[3:].split(",")
                first, last = int(address, 16) // PAGE, (int(address, 16) + int(length) - 1) // PAGE
                for write in {" L ": [R], " S ": [W], " M ": [R, W]}[kind]:
                    pages += [(page, write) for page in range(first, last + 1)]
    return pages


def read_lackey(path):
    instructions, references, runs = 0, 0, []

    def touch(address, length):
        for page in range(address // PAGE, (address + length - 1) // PAGE + 1):
            if not runs or runs[-1] != page:
                runs.append(page)

    with open(path, errors="replace") as log:
        for line in log:
            kind = line[:3]
            if kind == "I  ":
                instructions += 1
            elif kind in (" L ", " S ", " M "):
                address, length = line[3:].split(",")
                for _ in range(2 if kind == " M " else 1):
                    references += 1
                    touch(int(address, 16), int(length))
    return instructions, references, runs


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TOOL_DIR = os.path.abspath(sys.argv.pop(1))
    lackey = "/usr/libexec/valgrind/lackey-amd64-linux"
    with tempfile.TemporaryDirectory() as WORK:
        # A directory of our own, so that lackey can stand beside the tool.
        shutil.copytree(TOOL_DIR, os.path.join(WORK, "lib"), symlinks=True)
        TOOL_DIR = os.path.join(WORK, "lib")
        if not os.path.exists(os.path.join(TOOL_DIR, os.path.basename(lackey))):
            os.symlink(lackey, os.path.join(TOOL_DIR, os.path.basename(lackey)))
        unittest.main()

#!/usr/bin/env python3
"""Compares our counts with those of an outside simulator, giantbalance/RPR.

    outside.py CHECKOUT TRACE.swt... [--sweephand PATH] [--percent 20,40,60,80] [--decay 0.7]

CHECKOUT is a clone of that repository. A copy of its folder sim is built with three changes: the
scores are those of the thesis again (they stand there as comments marked LEGACY), the decay factor
is the one given, and a victim's page is not read after it has been freed (seq.c). For each policy:
how many cells (trace and memory size) are equal, and how far the faults differ. Needs gcc, make and
the packages numpy and zstandard.
"""

import argparse
import csv
import io
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import zstandard

# Their name of a policy, and ours with the choices that are theirs.
POLICIES = [
    ("clock", "clock"),
    ("clock-pro", "clock-pro"),
    ("seq", "seq"),
    ("alifo", "apr:ties=last,judged=before"),
]
PAGE = 4096


def cut(text, start, end):
    """The text before, from and after a part that begins with `start` and ends before `end`."""
    at = text.index(start)
    to = text.index(end, at)
    return text[:at], text[at:to], text[to:]


def restore(sim, decay):
    """Undoes what came after the thesis."""
    path = sim / "policy/alifo.c"
    text = path.read_text()
    # The old body of score() is a comment; what follows it, to the end of the function, is new.
    before, old, _ = cut(text, "\t// LEGACY\n", "\tdouble reward;")
    _, _, after = cut(text, "/* Remove a page or a ghost */", "static void")
    body = old.replace("\t// LEGACY\n", "").replace("\t/*\n", "").replace("\t*/\n", "")
    text = before + body + "}\n\n" + after
    before, _, after = cut(text, "static inline void\nget_lifo_score", "static inline void\nupdate_pol_policy")
    before, old, after = cut(before + after, "\t/* LEGACY \n", "\tget_lifo_score(pol);")
    choice = old.replace("\t/* LEGACY \n", "").split("*/")[0]
    text = before + choice + after.replace("\tget_lifo_score(pol);", "", 1)
    before, _, after = cut(text, "\t(*pol)->lifo_weight =", "\t(*pol)->lifo = false;")
    path.write_text(before + "\t(*pol)->lifo_score = 0;\n" + after)
    path = sim / "policy/alifo.h"
    before, _, after = cut(path.read_text(), "\tlong double lifo_weight;", "\n\tbool lifo;")
    before, _, rest = cut(before + "\tlong double lifo_score;\n" + after, "#define DECAY_FACTOR_DEFAULT", "\n")
    path.write_text(before + f"#define DECAY_FACTOR_DEFAULT {decay}" + rest)
    path = sim / "policy/seq.c"
    text = path.read_text()
    freed, read = "\t\t\tunmap_free_page(victim);\n", "\t\t\treg_evict(victim->addr);\n"
    before, part, after = cut(text, freed, "\t\t\treturn true;")
    path.write_text(before + read + part.replace(read, "") + after)
    for makefile in sim.rglob("Makefile"):
        makefile.write_text(makefile.read_text().replace("-std=c99 -Wall", "-std=gnu99 -O2 -w"))


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def chunks(path):
    """Page numbers and events by chunk: place, kind, operands, as format.rs has them."""
    data = path.read_bytes()
    count, index = (struct.unpack_from("<Q", data, at)[0] for at in (144, 152))
    numbers = []
    for chunk in range(count):
        (at,) = struct.unpack_from("<Q", data, index + 48 * chunk)
        packed, length = struct.unpack_from("<II", data, at)
        payload = data[at + 16 : at + 16 + packed]
        raw = zstandard.ZstdDecompressor().stream_reader(payload, read_across_frames=True).read(length)
        references, at = varint(raw, 0)
        flags = raw[at]
        fresh, at = varint(raw, at + 1)
        events, at = varint(raw, at)
        ids = np.zeros(references, dtype=np.uint32)
        for plane in range(flags & 7):
            column = np.frombuffer(raw, np.uint8, references, at).astype(np.uint32)
            ids |= column << np.uint32(8 * plane)
            at += references
        if not flags & 8:
            steps = (ids >> 1).astype(np.int64)
            ids = np.cumsum(np.where(ids & 1, ~steps, steps))
        at += (references + 7) // 8 if flags & 16 else 0
        number = 0
        for _ in range(fresh):
            step, at = varint(raw, at)
            number += step >> 1 if step % 2 == 0 else ~(step >> 1)
            numbers.append(number)
        listed, place = [], 0
        for _ in range(events):
            step, at = varint(raw, at)
            place += step
            kind = raw[at]
            operands = []
            at += 1
            for _ in range((3, 1, 2, 2, 2, 2)[kind]):
                operand, at = varint(raw, at)
                operands.append(operand)
            listed.append((place, kind, operands))
        yield np.array(numbers, dtype=np.uint64)[ids], listed


def convert(trace, out):
    """Writes a trace as the outside simulator reads it. Returns how many pages it has.

    An object there has only pages that begin in it; it is made to begin and to end with its pages,
    and what an object before it has of them stays with that one."""
    pages, live = set(), {}
    for references, events in chunks(trace):
        pages.update(np.unique(references).tolist())
        records = np.zeros(len(references), dtype=[("address", "<u8"), ("size", "<i4")])
        records["address"], records["size"] = references * np.uint64(PAGE), 1
        done = 0
        for place, kind, operands in events:
            if kind > 1:
                continue
            out.write(records[done:place].tobytes())
            done = place
            if kind == 0:
                first = operands[0] // PAGE
                end = (operands[0] + max(operands[1], 1) - 1) // PAGE + 1
                for start, to in live.values():
                    first = to if start <= first < to else first
                    end = start if start < end <= to else end
                live[operands[0]] = (first, end)
                out.write(struct.pack("<QQ", first * PAGE | 8 << 60, (end - first) * PAGE))
            elif operands[0] in live:
                out.write(struct.pack("<Q", live.pop(operands[0])[0] * PAGE | 11 << 60))
        out.write(records[done:].tobytes())
    return len(pages)


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"outside.py: {command[0]}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--sweephand", default="sweephand")
    parser.add_argument("--percent", default="20,40,60,80")
    parser.add_argument("--decay", default="0.7")
    options = parser.parse_args()
    source = options.checkout / "sim"
    if not (source / "policy/alifo.c").exists():
        sys.exit(f"outside.py: {source} has no policy/alifo.c: give a clone of github giantbalance/RPR")
    percents = [int(percent) for percent in options.percent.split(",")]
    ours = [policy for _, policy in POLICIES[:-1]] + [POLICIES[-1][1] + f",decay={options.decay}"]
    cells = defaultdict(list)
    print("trace,frames,policy,theirs,ours")
    with tempfile.TemporaryDirectory() as folder:
        sim = Path(folder) / "sim"
        shutil.copytree(source, sim)
        restore(sim, options.decay)
        run(["make", "-C", sim])
        for trace in options.traces:
            converted = Path(folder) / "trace"
            with converted.open("wb") as out:
                pages = convert(trace, out)
            sizes = [round(pages * percent / 100) for percent in percents]
            memory = ",".join(f"{frames}p" for frames in sizes)
            command = [options.sweephand, "simulate", trace, "--policy", ",".join(ours), "--memory", memory]
            rows = csv.DictReader(io.StringIO(run([*command, "--format", "csv"])))
            counts = {(row["policy"], int(row["memory_pages"])): int(row["faults"]) for row in rows}
            for frames in sizes:
                for (name, _), policy in zip(POLICIES, ours):
                    shown = run([sim / "sim", name, frames * PAGE // 1024, converted, "-v"])
                    (theirs,) = (int(line.split()[1]) for line in shown.splitlines() if "nr_miss" in line)
                    print(f'{trace.stem},{frames},"{policy}",{theirs},{counts[policy, frames]}', flush=True)
                    cells[policy].append((theirs, counts[policy, frames], f"{trace.stem} {frames}"))
    print("\n| ours | cells | equal | mean difference | mean of its size | largest |\n|---|---:|---:|---:|---:|---|")
    for policy, found in cells.items():
        differences = [(100 * (ours / theirs - 1), at) for theirs, ours, at in found]
        mean = sum(difference for difference, _ in differences) / len(found)
        size = sum(abs(difference) for difference, _ in differences) / len(found)
        most, at = max(differences, key=lambda difference: abs(difference[0]))
        equal = sum(theirs == ours for theirs, ours, _ in found)
        print(f"| `{policy}` | {len(found)} | {equal} | {mean:+.2f} % | {size:.2f} % | {most:+.2f} %, {at} |")


if __name__ == "__main__":
    main()

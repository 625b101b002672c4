#!/usr/bin/env python3
"""Programs of which it is known what an expert would advise: does `advise` say that, and no more?

    lab/bench/advice/known.py SWEEPHAND FOLDER [PROGRAM...]

The programs are in lab/bench/advice/known; each says what to do about it. They are compiled
and recorded in FOLDER. Prints what `advise` says and whether it is right; exits with 1 if one is
not. Needs Valgrind, a C compiler and Python 3.10 to 3.14; two programs need numpy and pandas, and
are named if these are missing.
"""

import json
import pathlib
import subprocess
import sys

SOURCES = pathlib.Path(__file__).resolve().parent / "known"
# Of each program: what must be advised, as an action and parts of its text; actions that must not
# be advised, `*` for any; a part of a text that nothing may have; and the module that it needs.
PROGRAMS = {
    "multiply.c": ([("block", "in matrix", "in multiply")], ["lay-out"], None, None),
    "list.c": ([("lay-out", "in make", "in sum")], ["block", "keep-elsewhere"], None, None),
    "hash.c": ([("lay-out", "in make_table", "in probe")], ["block", "give-back"], None, None),
    "lockstep.c": ([("block", "in array", "in step")], ["lay-out", "give-back"], None, None),
    "dead.c": ([("give-back", "in load", "in digest")], ["lay-out"], "in load (8.0 MiB): used", None),
    "fields.c": ([("block", "in make", "in weigh")], ["lay-out", "give-back"], None, None),
    "mapped.c": ([("lay-out", "in map", "in read_at")], ["block"], None, None),
    "stream.c": ([], ["*"], None, None),
    "rows.py": ([("block", "in make", "in total")], ["lay-out", "keep-elsewhere"], "importing", None),
    "again.py": ([("block", "in second", "in total")], ["lay-out"], "in first", None),
    "imports.py": ([], ["*"], None, None),
    "columns.py": ([("block", "in make", "in by_columns")], ["lay-out"], "importing", "numpy"),
    "frame.py": ([("block", "in rows", "in table")], [], "importing", "pandas"),
}


def run(*words, **keywords):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **keywords)


def command(name, folder):
    if name.endswith(".py"):
        return [sys.executable, SOURCES / name]
    run("cc", "-O1", "-g", "-fno-inline", "-o", folder / name[:-2], SOURCES / name)
    return [folder / name[:-2]]


def advice_on(sweephand, folder, name):
    trace = folder / f"{name}.swt"
    run(sweephand, "record", "-o", trace, "--", *command(name, folder), cwd=folder)
    told = json.loads(run(sweephand, "advise", trace, "--format", "json", cwd=folder).stdout)
    return told["code"]["advice"] if told.get("code") else []


def wrong_with(advice, wanted, unwanted, nowhere):
    """What is wrong with the advice on a program, a sentence each."""
    for action, *parts in wanted:
        if not any(one["action"] == action and all(part in one["text"] for part in parts) for one in advice):
            yield f"no advice `{action}` with {parts}"
    for one in advice:
        if one["action"] in unwanted or "*" in unwanted:
            yield f"advice `{one['action']}`: {one['text']}"
        if "<frozen" in one["text"] or nowhere and nowhere in one["text"]:
            yield f"advice on what needs none: {one['text']}"


def main():
    sweephand, folder, *names = sys.argv[1:]
    folder = pathlib.Path(folder).resolve()
    sweephand = pathlib.Path(sweephand).resolve() if "/" in sweephand else sweephand
    failed = False
    for name in names or PROGRAMS:
        wanted, unwanted, nowhere, module = PROGRAMS[name]
        if module and subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode != 0:
            print(f"{name}: not checked: there is no {module}")
            continue
        advice = advice_on(sweephand, folder, name)
        wrong = list(wrong_with(advice, wanted, unwanted, nowhere))
        print(f"{name}: {'wrong' if wrong else 'right'}")
        for one in advice:
            print(f"    {one['action']}: {one['text']}")
        for sentence in wrong:
            print(f"  ! {sentence}")
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Follows one piece of advice in each of three programs, and counts faults before and after.

    lab/bench/advice/run.py record SWEEPHAND FOLDER
    lab/bench/advice/run.py count SWEEPHAND FOLDER > lab/bench/advice/results/DATE.csv

The programs are in examples/advice. `record` compiles and records each twice, as it was and with
the advice followed, and asks `advise` what to change in the first. `count` simulates both in the
memory that the advice speaks of, and in a quarter and a half of the pages of the first. Needs
Valgrind, a C and a C++ compiler, and Python 3.10 to 3.13.
"""

import csv
import json
import pathlib
import subprocess
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "examples/advice"
PAGE = 4096
COLUMNS = ["program", "variant", "policy", "memory_mib", "pages", "faults", "first_touches", "action", "line", "advice"]
# Name: how it is made, the command with a place for what differs, what differs, and the advice that
# is followed: its action, and where its objects are made.
PROGRAMS = {
    "multiply": ("cc -O2 -g -o multiply {source}/multiply.c", ["./multiply", "768", "{}"], ("0", "96"), "block", "multiply.c:9"),
    "words": ("python3 -c \"n = 7\nfor line in range(250000):\n    row = []\n    for _ in range(6):\n"
              "        n = n * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1\n"
              "        row.append('w%d' % ((n >> 40) % 1000 * ((n >> 20) % 150) // 2))\n    print(*row)\" > words.txt",
              ["python3", "{source}/words.py", "words.txt", "{}"], ("whole", "lines"), "block", "words.py:26"),
    "lookups": ("c++ -O2 -g -o lookups {source}/lookups.cpp", ["./lookups", "400000", "200000", "{}"], ("come", "sorted"), "lay-out",
                "lookups.cpp:24"),
}


def command(name, variant):
    return [word.format(variant) if word == "{}" else word.format(source=SOURCES) for word in PROGRAMS[name][1]]


def json_of(*words):
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)


def record(sweephand, folder):
    for name, (make, _, variants, *_) in PROGRAMS.items():
        subprocess.run(make.format(source=SOURCES), shell=True, cwd=folder, check=True)
        for variant in variants:
            subprocess.run([sweephand, "record", "-o", folder / f"{name}-{variant}.swt", "--", *command(name, variant)], cwd=folder,
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told = json_of(sweephand, "advise", folder / f"{name}-{variants[0]}.swt", "--format", "json")
        (folder / f"{name}.json").write_text(json.dumps(told))


def count(sweephand, folder):
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    out.writeheader()
    for name, (_, _, variants, action, place) in PROGRAMS.items():
        code = json.loads((folder / f"{name}.json").read_text())["code"]
        advice = next((one for one in code["advice"] if one["action"] == action and place in one["objects"]), {})
        policy = code["policies"][0]
        pages = json_of(sweephand, "info", folder / f"{name}-{variants[0]}.swt", "--format", "json")["totals"]["distinct_pages"]
        for memory in (code["memory_pages"], pages // 4, pages // 2):
            for variant in variants:
                trace = folder / f"{name}-{variant}.swt"
                row = json_of(sweephand, "simulate", trace, "-p", policy, "-m", f"{memory}p", "--format", "json")["rows"][0]
                told = {"action": action, "line": advice.get("line"), "advice": advice.get("text")}
                out.writerow({
                    "program": name, "variant": variant, "policy": policy, "memory_mib": f"{memory * PAGE / 2**20:.1f}",
                    "pages": row["distinct_pages"], "faults": row["faults"], "first_touches": row["first_touch_faults"],
                    **(told if (memory, variant) == (code["memory_pages"], variants[0]) else {}),
                })


def main():
    what, sweephand, folder = sys.argv[1:]
    {"record": record, "count": count}[what](sweephand, pathlib.Path(folder).resolve())


if __name__ == "__main__":
    main()

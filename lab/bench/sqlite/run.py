#!/usr/bin/env python3
"""Records the page accesses of SQLite and compares its cache with the simulation of its policy.

SQLite takes its page cache as a table of functions. This script gets the default table, puts a
function of its own before `xFetch`, which asks for a page, and hands it back. So the cache works as
ever, and each access is written down. SQLite itself counts hits and misses
(`sqlite3_db_status`). README.md says what is measured.
"""

import argparse
import csv
import ctypes
import io
import random
import subprocess
import sys
import tempfile
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_uint, c_void_p
from pathlib import Path

SQLITE_OK, SQLITE_ROW, SQLITE_DONE = 0, 100, 101
CONFIG_PCACHE2, CONFIG_GETPCACHE2 = 18, 19
STATUS_HIT, STATUS_MISS = 7, 8

# xFetch(cache, page number, 0: only if it is there, 1: if that is easy, 2: at any price)
FETCH = CFUNCTYPE(c_void_p, c_void_p, c_uint, c_int)


class Methods(Structure):
    """sqlite3_pcache_methods2."""

    _fields_ = [("version", c_int), ("argument", c_void_p)] + [
        (name, FETCH if name == "fetch" else c_void_p)
        for name in [
            "init", "shutdown", "create", "cache_size", "page_count", "fetch", "unpin", "rekey",
            "truncate", "destroy", "shrink",
        ]
    ]  # fmt: skip


class Sqlite:
    """The library, with every access to a page written down."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libsqlite3.so.0")
        self.accesses: list[int] = []
        self.refused: int | None = None
        methods = Methods()
        self.must(self.library.sqlite3_config(CONFIG_GETPCACHE2, byref(methods)))
        if not methods.fetch:
            # The default is filled in when the library starts.
            self.must(self.library.sqlite3_initialize())
            self.must(self.library.sqlite3_shutdown())
            self.must(self.library.sqlite3_config(CONFIG_GETPCACHE2, byref(methods)))
        ask = FETCH(ctypes.cast(methods.fetch, c_void_p).value)

        def fetch(cache: int, page: int, create: int) -> int | None:
            got = ask(cache, page, create)
            # A second request, at any price, for a page that was not easy to have is no access.
            if (page, create) != (self.refused, 2):
                self.accesses.append(page)
            self.refused = page if create == 1 and not got else None
            return got

        self.kept = (methods, FETCH(fetch))
        methods.fetch = self.kept[1]
        self.must(self.library.sqlite3_config(CONFIG_PCACHE2, byref(methods)))

    def must(self, status: int) -> None:
        if status != SQLITE_OK:
            sys.exit(f"SQLite: error {status}")

    def open(self, path: Path) -> c_void_p:
        database = c_void_p()
        self.must(self.library.sqlite3_open(str(path).encode(), byref(database)))
        return database

    def run(self, database: c_void_p, sql: str) -> None:
        self.must(self.library.sqlite3_exec(database, sql.encode(), None, None, None))

    def prepare(self, database: c_void_p, sql: str) -> c_void_p:
        statement = c_void_p()
        self.must(self.library.sqlite3_prepare_v2(database, c_char_p(sql.encode()), -1, byref(statement), None))
        return statement

    def step(self, statement: c_void_p, number: int) -> None:
        self.must(self.library.sqlite3_bind_int64(statement, 1, ctypes.c_int64(number)))
        while (status := self.library.sqlite3_step(statement)) == SQLITE_ROW:
            pass
        if status != SQLITE_DONE:
            sys.exit(f"SQLite: error {status}")
        self.must(self.library.sqlite3_reset(statement))

    def count(self, database: c_void_p, which: int) -> int:
        now, highest = c_int(), c_int()
        self.must(self.library.sqlite3_db_status(database, which, byref(now), byref(highest), 0))
        return now.value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweephand", default="target/release/sweephand", help="the command")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--policies", default="lru,clock,clock-pro-strict,sieve,s3-fifo,opt")
    parser.add_argument("-o", "--output", type=Path, help="where the results go (CSV); standard output")
    options = parser.parse_args()
    sqlite = Sqlite()
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.db"
        database = sqlite.open(path)
        sqlite.run(database, "create table t (id integer primary key, name integer, text blob); begin")
        insert = sqlite.prepare(database, "insert into t (name, text) values (?1 * 7919 % 1000003, zeroblob(180))")
        for number in range(options.rows):
            sqlite.step(insert, number)
        sqlite.must(sqlite.library.sqlite3_finalize(insert))
        sqlite.run(database, "commit; create index names on t (name)")
        sqlite.must(sqlite.library.sqlite3_close(database))
        version = ctypes.c_char_p(ctypes.CFUNCTYPE(c_char_p)(("sqlite3_libversion", sqlite.library))())
        # A few rows are wanted often: the square of a uniform number, three times.
        wanted = [int(draw.random() ** 6 * options.rows) for _ in range(options.queries)]
        rows = []
        for frames in (300, 1000, 3000):
            database = sqlite.open(path)
            sqlite.run(database, f"pragma cache_size = {frames}")
            sqlite.accesses.clear()
            before = [sqlite.count(database, which) for which in (STATUS_HIT, STATUS_MISS)]
            query = sqlite.prepare(database, "select text from t where name = ?1 * 7919 % 1000003")
            for number in wanted:
                sqlite.step(query, number)
            hits, misses = (
                sqlite.count(database, which) - was for which, was in zip((STATUS_HIT, STATUS_MISS), before)
            )
            sqlite.must(sqlite.library.sqlite3_finalize(query))
            sqlite.must(sqlite.library.sqlite3_close(database))
            trace = Path(folder) / "pages.txt"
            trace.write_text("\n".join(map(str, sqlite.accesses)) + "\n")
            simulate = [options.sweephand, "simulate", trace, "--policy", options.policies]
            printed = subprocess.check_output([*simulate, "--memory", f"{frames}p", "--format", "csv"], text=True)
            for row in csv.DictReader(io.StringIO(printed)):
                ratio = hits / (hits + misses)
                rows.append(
                    {
                        "sqlite": version.value.decode(),
                        "cache_pages": frames,
                        "accesses": len(sqlite.accesses),
                        "sqlite_hits": hits,
                        "sqlite_misses": misses,
                        "sqlite_hit_ratio": f"{ratio:.6f}",
                        "policy": row["policy"],
                        "faults": row["faults"],
                        "hit_ratio": row["hit_ratio"],
                        "difference": f"{float(row['hit_ratio']) - ratio:+.6f}",
                    }
                )
    out = options.output.open("w", newline="") if options.output else sys.stdout
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


main()

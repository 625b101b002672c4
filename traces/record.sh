#!/usr/bin/env bash
# Records the bundled traces again: real programs from Debian packages on inputs made here, each a
# second or less of processor time when it runs by itself. Needs the packages
#     valgrind gcc libc6-dev gnuplot-nox gap-core perl sqlite3 python3-numpy gzip tcc binutils
#     groff-base coreutils
# Usage: traces/record.sh [NAME...]     (default: all; `sweephand` is found on PATH or in
# target/release)
# `tasks` stands for the eight tasks, each of which has a name too (task_sort).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH="$here/../target/release:$PATH"
inputs=$(mktemp -d)
trap 'rm -rf "$inputs"' EXIT
export LC_ALL=C

# NAME WINDOW COMMAND...: the program runs where its inputs are, so that no path of this machine is
# recorded. The window keeps the file small; at a tenth of the program's memory there are still
# several windows.
record() {
    local name=$1 window=$2
    shift 2
    echo "== $name: $*" >&2
    (cd "$inputs" && sweephand record --window "$window" -o "$here/$name.swt" -- "$@" > /dev/null)
}

# NAME COMMAND...: a task for multiprogramming, of about five million references, each of them a
# record: time is counted in references there. REP STOSB and REP MOVSB, with which the C library
# fills and copies large blocks, would count as a reference a byte; it has other ways, and takes
# them when these two never pay.
task() {
    local name=$1
    shift
    GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=1000000000:glibc.cpu.x86_rep_movsb_threshold=1000000000 \
        record "tasks/$name" 0 "$@"
}

# A data file of about 16 MB, as in the CLOCK-Pro paper: three columns, noisy curves.
points() {
    awk 'BEGIN {
        srand(1)
        for (i = 0; i < 480000; i++) printf "%.6f %.8f %.8f\n", i / 1000, sin(i / 5000) + rand() / 10, cos(i / 3000) * rand()
    }' > "$inputs/points.dat"
}

gnuplot_() { # draws the data file as PostScript (CLOCK-Pro: gnuplot, weak locality)
    points
    record gnuplot 128 gnuplot -e 'set terminal postscript; set output "/dev/null";
        plot "points.dat" using 1:2 with lines, "points.dat" using 1:3 with lines'
}

gzip_() { # compresses the first 250 kB of the data file (CLOCK-Pro: gzip, moderate locality)
    points
    head -c 250000 "$inputs/points.dat" > "$inputs/some.dat"
    record gzip 4 gzip -c some.dat
}

# Conjugacy classes of permutation groups, from a saved workspace (CLOCK-Pro: gap, strong locality).
gap_() {
    # /usr/bin/gap is a script that runs this program.
    local gap=(/usr/lib/x86_64-linux-gnu/gap/gap -l '/usr/lib/gap;/usr/share/gap' -A -q)
    (cd "$inputs" && echo 'SaveWorkspace("workspace"); QUIT;' | "${gap[@]}" > /dev/null)
    cat > "$inputs/groups.g" <<'END'
Print(Length(ConjugacyClasses(SymmetricGroup(7))), "\n");
Print(Length(ConjugacyClasses(SylowSubgroup(SymmetricGroup(12), 2))), "\n");
QUIT;
END
    record gap 128 "${gap[@]}" -L workspace --nointeract groups.g
}

perl_() { # counts words in a hash and sorts them
    cat > "$inputs/words.pl" <<'END'
my %count;
my @word;
my $seed = 1;
sub number { $seed = ($seed * 1103515245 + 12345) % 2147483648; int($seed / 65536) }
push @word, join('', map { chr(97 + number() % 26) } 1 .. 4 + number() % 5) for 1 .. 20000;
for (1 .. 20000) { my $r = number() / 32768; $count{$word[int($r * $r * @word)]}++ }
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$_ $count{$_}\n" for @top[0 .. 9];
END
    record perl 64 perl words.pl
}

sqlite_() { # 15,000 random look-ups through an index, pages of the database cached in memory
    sqlite3 "$inputs/table.db" <<'END'
create table item(id integer primary key, key text, value text);
insert into item
    select value, printf('%08x', (value * 2654435761) % 4294967296), hex(zeroblob(60)) from generate_series(1, 120000);
create index by_key on item(key);
END
    cat > "$inputs/lookups.sql" <<'END'
pragma cache_size = -64000;
with recursive lookup(n, x) as (
    select 1, 12345 union all select n + 1, (x * 1103515245 + 12345) % 2147483648 from lookup where n < 15000)
select count(*), sum(length(item.value))
    from lookup join item on item.key = printf('%08x', ((x % 120000 + 1) * 2654435761) % 4294967296);
END
    record sqlite3 64 sqlite3 -init lookups.sql table.db ''
}

cc1_() { # the C compiler proper at -O2, on a file of the recorder's
    gcc -E -P -I/usr/include/valgrind -DVGA_amd64=1 -DVGO_linux=1 -DVGP_amd64_linux=1 -DVGPV_amd64_linux_vanilla=1 \
        "$here/../recorder/memory.c" > "$inputs/memory.i"
    record cc1 64 "$(gcc -print-prog-name=cc1)" -O2 -quiet memory.i -o /dev/null
}

numpy_() { # six sweeps of successive relaxation over a grid of 1400 x 1400
    cat > "$inputs/relax.py" <<'END'
import numpy

n = 1400
grid = numpy.zeros((n, n))
grid[0, :] = 1.0
old = numpy.empty_like(grid)
for sweep in range(6):
    old[:] = grid
    grid[1:-1, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
print(float(grid.sum()))
END
    record numpy 128 /usr/bin/python3 relax.py
}

tasks_() {
    for one in tcc as ld troff sort gzip perl sqlite; do "task_${one}_"; done
}

# FIRST LAST: a C program of functions with these numbers.
functions() {
    awk -v first="$1" -v last="$2" 'BEGIN {
        for (i = first; i <= last; i++) {
            print "struct node" i " { struct node" i " *left, *right; int key, count; };"
            print "int insert" i "(struct node" i " **at, struct node" i " *new)\n{"
            print "    while (*at) {\n        if ((*at)->key == new->key)\n            return (*at)->count += " i ";"
            print "        at = new->key < (*at)->key ? &(*at)->left : &(*at)->right;\n    }"
            print "    *at = new;\n    return 1;\n}"
        }
    }'
}

# LINES WORDS: text of made-up words, the frequent ones short.
text() {
    awk -v lines="$1" -v words="$2" 'BEGIN {
        srand(3)
        for (i = 0; i < 3000; i++) {
            word[i] = ""
            for (n = 2 + int(log(i + 1)); n > 0; n--)
                word[i] = word[i] substr("etaoinshrdlucmfwypvbg", 1 + int(rand() * rand() * 21), 1)
        }
        for (i = 0; i < lines; i++) {
            line = ""
            for (n = 0; n < words; n++) line = line word[int(3000 ^ rand()) - 1] " "
            print line
        }
    }'
}

task_tcc_() { # a C compiler (gcc alone takes five million references to start)
    # It unlinks its output before it writes, which as root would replace /dev/null by a file; `as`,
    # `ld` and cc1 write into whatever is there.
    functions 1 210 > "$inputs/program.c"
    task tcc tcc -c program.c -o program.o
}

task_as_() { # the assembler, on what gcc makes of a smaller program
    functions 1 72 | gcc -O1 -S -x c - -o "$inputs/program.s"
    task as as program.s -o /dev/null
}

task_ld_() { # the linker: a program of objects with debugging information, and no library
    local first
    for first in 1000 2000 3000 4000 5000 6000; do
        functions $first $((first + 103)) | gcc -O1 -g -c -x c - -o "$inputs/part$first.o"
    done
    task ld ld -e insert1000 part{1,2,3,4,5,6}000.o -o /dev/null
}

# A text formatter: fills and adjusts paragraphs, for a terminal, without the start-up macros.
task_troff_() {
    text 40 10 | awk '{ print } NR % 5 == 0 { print ".sp" }' > "$inputs/text.roff"
    task troff troff -R -Tascii text.roff
}

task_sort_() { # sorts lines by a number
    awk 'BEGIN { srand(1); for (i = 0; i < 4500; i++) print int(rand() * 1000000), "line " i }' > "$inputs/lines"
    task sort sort -n lines
}

task_gzip_() { # compresses text
    text 1250 10 > "$inputs/text"
    task gzip gzip -c text
}

task_perl_() { # counts the words of a text in a hash, sorts them by how often they occur
    text 200 10 > "$inputs/words"
    cat > "$inputs/count.pl" <<'END'
my %count;
while (<>) { $count{$_}++ for split }
print "$_ $count{$_}\n" for sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
END
    task perl perl count.pl words
}

task_sqlite_() { # fills a table in memory, groups and sorts it
    cat > "$inputs/groups.sql" <<'END'
create table t(a, b);
insert into t select value, (value * 7919) % 1009 from generate_series(1, 1050);
select b, count(*), sum(a) from t group by b order by 3;
END
    task sqlite3 sqlite3 -init groups.sql :memory: ''
}

# 8,000 random look-ups through an index over 20,000 records, two a page, in a mapped database file.
btree_() {
    # As in the notes of linux-mm: about 100 leaf pages of an index, 10,000 pages of records. The
    # index is made last, so that its pages lie together; btree.csv tells the pages of the file
    # apart.
    sqlite3 "$inputs/btree.db" > "$here/btree.csv" <<'END'
pragma page_size = 4096;
create table item(id integer primary key, key text, value text);
insert into item
    select value, printf('%011d', (value * 2654435761) % 4294967296), hex(zeroblob(950)) from generate_series(1, 20000);
vacuum;
create index by_key on item(key);
.mode csv
.headers on
.separator , "\n"
select name as tree, pagetype as type, pageno as page from dbstat where not (name = 'item' and pagetype = 'leaf') order by pageno;
END
    cat > "$inputs/btree.sql" <<'END'
pragma mmap_size = 1000000000;
with recursive lookup(n, x) as (
    select 1, 12345 union all select n + 1, (x * 1103515245 + 12345) % 2147483648 from lookup where n < 8000)
select count(*), sum(length(item.value))
    from lookup join item on item.key = printf('%011d', ((x / 1024 % 20000 + 1) * 2654435761) % 4294967296);
END
    record btree 16 sqlite3 -init btree.sql btree.db ''
}

# An anonymous mapping walked once, then a smaller one walked 20 times, each beside a hot set of 500
# pages.
scan_() {
    gcc -O2 -Wall -Wextra -o "$inputs/scan" "$here/../lab/papers/linux-mm-advanced-page-replacement/programs/scan.c"
    record scan-once 1 ./scan 20000 1 500
    record scan-cyclic 1 ./scan 1200 20 500
}

for name in "${@:-gnuplot gzip gap perl sqlite cc1 numpy tasks btree scan}"; do
    for one in $name; do "${one}_"; done
done
ls -l "$here"/*.swt "$here"/tasks/*.swt >&2

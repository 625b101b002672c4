#!/usr/bin/env bash
# Records programs like those of the CLOCK-Pro paper, whose own are not to be had: kernels written
# here after what its programs compute (`programs/`), with as much memory as its Table 3 says, and
# two programs of Debian packages. Each is a second or less of processor time when it runs by
# itself.
# Needs the packages valgrind gcc libc6-dev libjpeg-turbo-progs spin.
# Usage: lab/papers/clock-pro-2005/record.sh [NAME...]
#     The traces go to traces/clock-pro (default: all). `sweephand` is found on PATH or in
#     target/release.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH="$here/../../../target/release:$PATH"
traces="$here/../../../traces/clock-pro"
mkdir -p "$traces"
traces=$(cd "$traces" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

# NAME WINDOW COMMAND...: the program runs where it is made, so that no path of this machine is
# recorded. At a tenth of the program's memory there are eight windows or more.
record() {
    local name=$1 window=$2
    shift 2
    echo "== $name: $*" >&2
    (cd "$work" && sweephand record --quiet --window "$window" -o "$traces/$name.swt" -- "$@" > /dev/null)
}

# NAME WINDOW ARGUMENT...: a kernel.
kernel() {
    local name=$1 window=$2
    shift 2
    gcc -O2 -Wall -Wextra -Werror -o "$work/$name" "$here/programs/$name.c" -lm
    record "$name" "$window" "./$name" "$@"
}

# An image of smooth and noisy parts, 1600 x 1600, in a file without text.
image() {
    awk 'BEGIN {
        srand(2)
        print "P3\n1600 1600\n255"
        for (y = 0; y < 1600; y++)
            for (x = 0; x < 1600; x++) {
                shade = 128 + 60 * sin(x / 37) + 60 * cos(y / 53)
                print int(shade), int((x + y) % 256), int(shade * rand())
            }
    }' | cjpeg -quality 97 -outfile "$work/image.jpg"
    djpeg -pnm -outfile "$work/image.ppm" "$work/image.jpg"
}

program() {
    case $1 in
        sor) kernel "$1" 128 2977 5 ;;
        swim) kernel "$1" 32 366 12 ;;
        trygtsl) kernel "$1" 128 1742000 3 ;;
        applu) kernel "$1" 32 47 4 ;;
        m88k) kernel "$1" 32 18000 700000 ;;
        cjpeg) # the encoder of ijpeg: progressive, so that it goes over the image often
            image
            record "$1" 16 cjpeg -progressive -outfile /dev/null image.ppm
            ;;
        spin) # a model checker, as murphi is one, on a protocol that keeps caches coherent
            cp "$here/programs/coherence.pml" "$work"
            (cd "$work" && spin -a coherence.pml && gcc -O2 -DSAFETY -o spin pan.c)
            record "$1" 32 ./spin -w16 -m50000
            ;;
        *)
            echo "$1 is none of the programs" >&2
            exit 2
            ;;
    esac
}

if [ $# -eq 0 ]; then
    set -- sor swim trygtsl applu m88k cjpeg spin
fi
for name in "$@"; do
    program "$name"
done
ls -l "$traces" >&2

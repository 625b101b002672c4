#!/usr/bin/env bash
# Records the twelve programs of the APR thesis, from a checkout of SPLASH-3 in which they have been
# built (`make` in each program's folder, as its own README says). The thesis used SPLASH-2x.
# Usage: lab/papers/apr-2020/record.sh DIR [NAME...]
#     DIR is the checkout; NAMEs are workloads (default: all and lu with n = 1024). The traces go to
#     $SWEEPHAND_TRACES/splash12, or to ./splash12. `sweephand` is found on PATH or in
#     target/release. It takes some hours of processor time: lu_ncb and water_spatial most of it.
# radiosity wants MAX_TASKS 32768 in its configuration to take the thesis's 65 MB.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH="$here/../../../target/release:$PATH"
if [ $# -eq 0 ] || [ ! -d "$1/codes" ]; then
    echo "usage: record.sh DIR [NAME...], DIR a checkout of SPLASH-3 (with the folder codes)" >&2
    exit 2
fi
codes=$(cd "$1/codes" && pwd)
shift
traces=${SWEEPHAND_TRACES:-.}/splash12
mkdir -p "$traces"
traces=$(cd "$traces" && pwd)

# NAME WINDOW FOLDER INPUT COMMAND...: records the command in its folder, with INPUT (- for none) as
# its standard input. Larger windows are for programs whose traces would be too large.
record() {
    local name=$1 window=$2 folder=$codes/$3 input=$4
    shift 4
    if [ "$input" = - ]; then input=/dev/null; fi
    if [ ! -d "$folder" ] || [ ! -x "$folder/$1" ]; then
        echo "$folder/$1 is not there: build it first (make in $folder)" >&2
        exit 2
    fi
    echo "== $name: $*" >&2
    (cd "$folder" && sweephand record --window "$window" -o "$traces/$name.swt" -- "$@" < "$input" > /dev/null)
}

workload() {
    case $1 in
        cholesky) record "$1" 16 kernels/cholesky inputs/tk29.O ./CHOLESKY -p1 ;;
        fft) record "$1" 16 kernels/fft - ./FFT -p1 -m22 ;;
        lu_cb) record "$1" 16 kernels/lu/contiguous_blocks - ./LU -p1 -n2048 ;;
        lu_cb_1024) record "$1" 16 kernels/lu/contiguous_blocks - ./LU -p1 -n1024 ;;
        lu_ncb) record "$1" 64 kernels/lu/non_contiguous_blocks - ./LU -p1 -n2048 ;;
        lu_ncb_1024) record "$1" 16 kernels/lu/non_contiguous_blocks - ./LU -p1 -n1024 ;;
        ocean_cp) record "$1" 16 apps/ocean/contiguous_partitions - ./OCEAN -p1 -n1026 ;;
        ocean_ncp) record "$1" 64 apps/ocean/non_contiguous_partitions - ./OCEAN -p1 -n1026 ;;
        radiosity) record "$1" 16 apps/radiosity - ./RADIOSITY -p 1 -bf 1.5e-2 -room -batch ;;
        radix) record "$1" 16 kernels/radix - ./RADIX -p1 -n4194304 -r1024 -m2147483647 ;;
        raytrace) record "$1" 16 apps/raytrace/inputs - ../RAYTRACE -s -p1 -m64 balls4.env ;;
        volrend) record "$1" 64 apps/volrend - ./VOLREND 1 inputs/head-scaleddown2 100 ;;
        water_nsquared) record "$1" 16 apps/water-nsquared inputs/parsec_simmedium ./WATER-NSQUARED ;;
        water_spatial) record "$1" 64 apps/water-spatial inputs/parsec_simlarge ./WATER-SPATIAL ;;
        *)
            echo "$1 is none of the workloads" >&2
            exit 2
            ;;
    esac
}

if [ $# -eq 0 ]; then
    set -- cholesky fft lu_cb lu_cb_1024 lu_ncb lu_ncb_1024 ocean_cp ocean_ncp radiosity radix raytrace \
        volrend water_nsquared water_spatial
fi
for name in "$@"; do
    workload "$name"
done

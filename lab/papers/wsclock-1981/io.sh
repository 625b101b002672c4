#!/usr/bin/env bash
# Counts the I/O requests of the eight tasks: read and write calls that move bytes, and calls that
# open files. Prints CSV. Takes the inputs from traces/record.sh.
# Usage: lab/papers/wsclock-1981/io.sh      (needs strace and the packages of traces/record.sh)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
inputs=$(mktemp -d)
trap 'rm -rf "$inputs"' EXIT
export LC_ALL=C
# The functions of traces/record.sh, without what it runs at its end.
eval "$(sed -n '/^functions()/,/^}/p; /^text()/,/^}/p; /^task_[a-z]*_()/,/^}/p' "$here/../../../traces/record.sh")"
echo "task,requests"
task() {
    local name=$1
    shift
    (cd "$inputs" && strace -f -e trace=read,write,pread64,pwrite64,readv,writev,open,openat -o calls "$@" > output)
    echo "$name,$(grep -cE ' = [1-9][0-9]*$' "$inputs/calls")"
}
for one in tcc as ld troff sort gzip perl sqlite; do "task_${one}_"; done

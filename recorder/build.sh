#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the recorder: build.sh SOURCE_DIR OUTPUT_DIR
#
# OUTPUT_DIR becomes a directory for VALGRIND_LIB: the tool, and symbolic links to the files of the
# installed valgrind package that Valgrind looks for beside its tools.
set -eu
source=$1
output=$2
cc=${CC:-cc}
include=${VALGRIND_INCLUDE:-/usr/include/valgrind}
archives=${VALGRIND_ARCHIVES:-/usr/lib/x86_64-linux-gnu/valgrind}
installed=${VALGRIND_INSTALLED:-/usr/libexec/valgrind}

mkdir -p "$output"
"$cc" -std=gnu11 -O2 -g -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
    -DVGA_amd64=1 -DVGO_linux=1 -DVGP_amd64_linux=1 -DVGPV_amd64_linux_vanilla=1 \
    -fno-stack-protector -fno-pie -fno-builtin -fno-strict-aliasing -fomit-frame-pointer \
    -I"$include" \
    "$source"/main.c "$source"/instrument.c "$source"/widen.c "$source"/log.c "$source"/marks.c \
    "$source"/window.c "$source"/stream.c "$source"/memory.c "$source"/objects.c "$source"/follow.c \
    "$source"/places.c "$source"/calls.c "$source"/contexts.c "$source"/sites.c "$source"/python.c \
    "$source"/small.c "$source"/totals.c \
    -static -nodefaultlibs -nostartfiles -no-pie -u _start -Wl,-Ttext-segment=0x58000000 \
    -Wl,--build-id=none \
    "$archives"/libcoregrind-amd64-linux.a "$archives"/libvex-amd64-linux.a -lgcc \
    "$archives"/libgcc-sup-amd64-linux.a \
    -o "$output"/sweephand-amd64-linux
for file in "$installed"/vgpreload_core-amd64-linux.so "$installed"/default.supp "$installed"/*.xml; do
    ln -sf "$file" "$output"/
done

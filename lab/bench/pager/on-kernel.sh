#!/bin/bash
# Runs a command on another kernel than this machine's: in a virtual machine that sees this
# machine's files, with a disk of its own at /var/tmp and cgroups of version 2. See README.md.
#
#   on-kernel.sh VMLINUZ SECONDS COMMAND...
#
# Needs root, qemu-system-x86, virtiofsd, busybox-static and e2fsprogs. The kernel must have
# virtiofs, NVMe disks and ext4 built in, as Debian's cloud kernels do.
# ACCELERATOR=kvm is faster, where /dev/kvm works. The machine has a /tmp of its own, so the current
# directory must not be below /tmp.
set -euo pipefail
if [ $# -lt 3 ]; then
  echo "on-kernel.sh: VMLINUZ, SECONDS and a COMMAND are needed" >&2
  exit 2
fi
kernel=$1 seconds=$2
shift 2
PATH=$PATH:/usr/lib/qemu:/usr/libexec
for tool in qemu-system-x86_64 virtiofsd busybox mkfs.ext4; do
  if ! command -v "$tool" > /dev/null; then
    echo "on-kernel.sh: $tool is not installed" >&2
    exit 2
  fi
done
work=$(mktemp -d)
# What is to run: a file that both see.
script=$(mktemp "$PWD/.on-kernel.XXXXXX")
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$work" "$script"' EXIT

truncate -s 6G "$work/disk"
mkfs.ext4 -q -F "$work/disk"

printf 'cd %q\nexport HOME=/root TMPDIR=/var/tmp\n' "$PWD" > "$script"
printf '%q ' "$@" >> "$script"

mkdir -p "$work/root"/{bin,proc,dev,host}
cp "$(command -v busybox)" "$work/root/bin/busybox"
cat > "$work/root/init" <<END
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t devtmpfs dev /dev
\$b mount -t virtiofs host /host
for pair in proc:proc sysfs:sys devtmpfs:dev tmpfs:dev/shm tmpfs:run tmpfs:tmp cgroup2:sys/fs/cgroup; do
  \$b mkdir -p /host/\${pair#*:}
  \$b mount -t \${pair%:*} \${pair%:*} /host/\${pair#*:}
done
\$b mount -t ext4 /dev/nvme0n1 /host/var/tmp
\$b chmod 1777 /host/var/tmp /host/tmp
echo +memory > /host/sys/fs/cgroup/cgroup.subtree_control
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
\$b chroot /host /bin/bash "$script"
echo "on-kernel: status \$?"
\$b poweroff -f
END
chmod +x "$work/root/init"
(cd "$work/root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) > "$work/initrd"

virtiofsd --socket-path="$work/socket" -o source=/ -o cache=always -o sandbox=chroot \
  > "$work/virtiofsd" 2>&1 &
daemon=$!
for _ in $(seq 100); do
  [ -S "$work/socket" ] && break
  sleep 0.1
done
timeout "$seconds" qemu-system-x86_64 -accel "${ACCELERATOR:-tcg}" -m 6144 -smp 2 -nographic -no-reboot \
  -object memory-backend-memfd,id=memory,size=6144M,share=on -numa node,memdev=memory \
  -chardev socket,id=files,path="$work/socket" -device vhost-user-fs-pci,chardev=files,tag=host \
  -drive file="$work/disk",if=none,id=disk,format=raw,cache=unsafe -device nvme,drive=disk,serial=1 \
  -kernel "$kernel" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1" < /dev/null |
  tr -d '\r' | tee "$work/console"
grep -q '^on-kernel: status 0$' "$work/console"

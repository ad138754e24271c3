#!/usr/bin/env bash
# enter.sh ROOT COMMAND...: runs a command in a root that tools/elsewhere/pack.py packed. As root. The machine's own
# kernel, CUDA toolkit and driver are seen in it, and the first call mounts them.
set -euo pipefail
root=${1:?usage: enter.sh ROOT COMMAND...}
shift
if [ ! -e "$root/proc/self" ]; then
  mkdir -p "$root"/{proc,sys,dev,tmp,run,root,var/tmp,var/log,var/lib/apt/lists/partial,var/cache/apt/archives/partial}
  chmod 1777 "$root/tmp" "$root/var/tmp"
  for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
  for folder in /usr/local/cuda /usr/local/nvidia; do
    [ -d "$folder" ] || continue
    mkdir -p "$root$folder"
    mount --rbind "$(readlink -f "$folder")" "$root$folder"
    # Not CUDA's compat folder: its libcuda shows no GPU beside a driver of another day.
    find "$folder/" -maxdepth 1 -name 'lib*' >>"$root/etc/ld.so.conf.d/gpu.conf"
  done
  # The driver's libraries where they lie among the system's own.
  ldconfig -p | grep -oE '/[^ ]*/lib(cuda|nvidia)[^ /]*\.so[.0-9]*$' | grep -v ^/usr/local/ | sort -u |
    xargs -r -I{} cp -Ln {} "$root/usr/lib/x86_64-linux-gnu/" || true
  chroot "$root" /sbin/ldconfig
fi
python=$(cd "$root" && ls -d root/.pyenv/versions/*/bin 2>/dev/null | tail -1 || true)
exec env -i /usr/sbin/chroot "$root" /usr/bin/env HOME=/root LANG=C.UTF-8 \
  PATH="${python:+/$python:}/usr/local/cuda/bin:/usr/bin:/bin:/usr/sbin:/sbin" "$@"

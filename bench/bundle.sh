#!/usr/bin/env bash
# bundle.sh TARGET PROGRAM...: copies programs and the shared libraries they need (not the C and C++
# runtimes, not CUDA's) into TARGET, from where they run on another machine of this architecture.
set -euo pipefail
target=${1:?usage: bundle.sh TARGET PROGRAM...}
shift
mkdir -p "$target"
for program in "$@"; do
  cp -f "$program" "$target/"
  (ldd "$program" | awk '/=> \// {print $3}' |
    grep -vE '/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcu[a-zA-Z]*|libnccl)\.so' ||
    true) | xargs -r -I{} cp -fL {} "$target/"
done
for library in "$target"/*.so*; do [ -e "$library" ] && strip --strip-unneeded "$library" || true; done

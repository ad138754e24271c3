#!/bin/sh
# check_isa_symbols.sh BUILD_DIR: an object compiled for AVX2 or AVX-512 must not define an inline
# function that other objects define too, because the linker keeps one copy for everybody and an
# older machine would crash in it (src/kernels/common/cpu_isa.h). Weak symbols are allowed inside
# the copy's own namespace only.
set -eu
build=${1:?usage: check_isa_symbols.sh BUILD_DIR}
objects=$(find "$build" -path '*_cpu_avx*.dir/*' -name '*.o')
if [ -z "$objects" ]; then
  case $(uname -m) in
    x86_64) echo "no AVX objects under $build: build graft_kernels first" >&2; exit 1 ;;
    *) exit 0 ;;
  esac
fi
failed=0
for object in $objects; do
  # W: weak function; u: unique global. V (weak data) holds no code.
  foreign=$(nm -C --defined-only "$object" | grep -E ' [Wu] ' | grep -v 'graft::cpu_avx' || true)
  if [ -n "$foreign" ]; then
    failed=1
    printf '%s shares code with objects for older machines:\n%s\n' "$object" "$foreign" >&2
  fi
done
exit $failed

#!/usr/bin/env bash
# stages.sh: the stages of `make test-all` that take longest, side by side, for a machine of 32 cores
# or so. GPUs are hidden from them, and kernels compile for Hopper alone. What each printed lies in build/logs/out.STAGE,
# and a line for each in build/logs/times. Stages left out: those of `make test`, long, dist, deb, and the browser's and
# agents', which want what is not packed.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/logs
begin=$SECONDS
: >build/logs/times
say() { echo "$((SECONDS - begin)) $*" >>build/logs/times; }
# stage NICENESS NAME: compilers give way to tests.
stage() {
  say "begin $2"
  CCACHE_DISABLE=1 CUDA_VISIBLE_DEVICES='' nice -n "$1" python3 tools/run_tests.py --all "$2" >"build/logs/out.$2" 2>&1
  say "end $2 $? $(grep -E "^ +$2:" "build/logs/out.$2")"
}
(stage 0 release; stage 5 fuzz) &
(stage 2 cuda) &
(stage 12 alone; stage 12 lint) &
(stage 8 seeds; stage 8 tsan_slow) &
wait
say all
cat build/logs/times
! grep -qE '^[0-9]+ end [a-z_]+ [1-9]' build/logs/times

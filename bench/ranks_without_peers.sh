#!/usr/bin/env bash
# ranks_without_peers.sh GRAFT [FAMILY...]: two GPUs of this machine act as if they did not reach each other's memory, as
# GeForce cards do not, and stand in for lesser cards (docs/gpu.md). Without NCCL the start must be refused with both
# reasons; with it two ranks must draw the tokens of one GPU. NCCL: the folder of libnccl.so.2, which must not be where
# the system finds it by itself. Logs go to $OUT (default build/ranks-without-peers).
set -uo pipefail
cd "$(dirname "$0")/.." || exit
graft=${1:?usage: ranks_without_peers.sh GRAFT [FAMILY...]}
shift
families=("${@:-ampere ada sm100 sm120}")
nccl=${NCCL:?set NCCL to the folder of libnccl.so.2}
out=${OUT:-build/ranks-without-peers}
mkdir -p "$out"
failed=0
# generate NAME FLAG...: greedy answers of the demo's base and two of its adapters, in fp32.
generate() {
  local name=$1
  shift
  timeout 120 "$graft" generate --model demo/base --adapters demo/adapters --device cuda:0 --dtype fp32 --temperature 0 \
    --prompt "It was a dark night, and" --adapter base --adapter austen --adapter doyle --max-tokens 24 --quiet \
    --model-name base --context-tokens-max 256 "$@" >"$out/$name.out" 2>"$out/$name.err"
}
say() { # WHAT: how the command before ended
  if [ $? -eq 0 ]; then echo "passed  $1"; else echo "FAILED  $1"; failed=1; fi
}

# shellcheck disable=SC2048 # families are words
for family in ${families[*]}; do
  export GRAFT_GPU_FAMILY=$family
  generate "$family-one"
  say "$family: one GPU"
  GRAFT_PEERS_OFF=1 generate "$family-refused" --tensor-parallel 2
  [ $? -ne 0 ] && grep -q "GRAFT_PEERS_OFF keeps GPUs from each other's memory, and NCCL is not there" "$out/$family-refused.err"
  say "$family: no peers and no NCCL are refused with both reasons"
  GRAFT_PEERS_OFF=1 LD_LIBRARY_PATH=$nccl:${LD_LIBRARY_PATH:-} generate "$family-nccl" --tensor-parallel 2 --log-level info
  say "$family: no peers, with NCCL"
  cmp "$out/$family-one.out" "$out/$family-nccl.out"
  say "$family: two ranks draw the tokens of one GPU"
  grep -q "ranks exchange by NCCL" "$out/$family-nccl.err"
  say "$family: the log says that they take NCCL, and why"
  generate "$family-peers" --tensor-parallel 2
  say "$family: with peers"
  cmp "$out/$family-one.out" "$out/$family-peers.out"
  say "$family: and the same tokens"
done
exit $failed

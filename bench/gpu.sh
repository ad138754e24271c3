#!/usr/bin/env bash
# gpu.sh [PREBUILT_DIR]: the whole GPU suite on this machine's first GPU, under ten minutes: every op
# against its references, goldens, compute-sanitizer, device benches, steps and a served load. Builds
# with the gpu preset, unless a folder of programs built elsewhere is given (bench/bundle.sh). Logs and
# JSON go to $OUT (default build/gpu-results); a table of what passed comes last. Tests run side by
# side, benches alone.
# PARTS picks some: PARTS="tests sanitizer ops step serve". Many adapters: bench/adapters.sh.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
ops=(gemm attention sampling lora rms_norm layer_norm activate rope_kv_write gated_activation scaled_add soft_cap small_copy embedding rope kv_write
  host_exchange)
tests=(tensor_test kernels_test training_kernels_test model_test adapters_test executor_test cpu_assist_test bench_ops_test)
op_benches=(gated_activation_cuda_bench gemm_cuda_bench lora_cuda_bench attention_cuda_bench)
parts=" ${PARTS:-tests sanitizer ops step serve} "
programs=${1:-build/gpu}
out=${OUT:-build/gpu-results}
mkdir -p "$out"
: >"$out/summary"
export GRAFT_SOURCE_DIR=$PWD LD_LIBRARY_PATH=$programs:${LD_LIBRARY_PATH:-}

if [ $# -eq 0 ]; then
  [ -f build/gpu/build.ninja ] || cmake --preset gpu >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
  cmake --build build/gpu --target graft graft-bench "${tests[@]}" "${op_benches[@]}" || exit 1
fi

# check NAME COMMAND...: runs it into $out/NAME.log and notes how it ended. $wanted: what the log must
# say, too.
check() {
  local name=$1 begin=$SECONDS ended=passed
  shift
  timeout 300 "$@" >"$out/$name.log" 2>&1 || ended=FAILED
  grep -q "${wanted:-}" "$out/$name.log" || ended=FAILED
  echo "$ended  $name ($((SECONDS - begin)) s)" >>"$out/summary"
  [ $ended = passed ] || { echo "== $name"; tail -25 "$out/$name.log"; }
}
# suites FILE...: what a filter takes for the tests of these files.
suites() {
  grep -ohE '^TEST(_[FP])?\(\w+' -- "$@" | sed 's/.*(//; s#.*#&.*:*/&.*#' | sort -u | paste -sd:
}
# beside NAME COMMAND...: the same, while at_once - 1 others run.
at_once=$(nproc)
beside() {
  while (($(jobs -rp | wc -l) >= at_once)); do wait -n; done
  check "$@" &
}

# shards OP: attention's tests of long prompts take minutes one after the other.
shards() { [ "$1" = attention ] && echo 12 || echo 1; }
# sharded NAME PARTS COMMAND...: a test program in so many parts beside each other.
sharded() {
  local name=$1 parts=$2 part
  shift 2
  for ((part = 0; part < parts; part++)); do
    beside "$name-$part" env GTEST_TOTAL_SHARDS="$parts" GTEST_SHARD_INDEX="$part" "$@"
  done
}

# The CPU's halves of the case tables are `make test`'s.
export GRAFT_TEST_DEVICES=gpu
if [[ $parts == *" tests "* ]]; then
  for test in "${tests[@]}"; do
    [ "$test" = kernels_test ] || sharded "$test" 4 "$programs/$test" --gtest_filter='-*Death*'
  done
  for op in "${ops[@]}"; do
    sharded "kernels_test-$op" "$(shards "$op")" "$programs/kernels_test" \
      --gtest_filter="$(suites src/kernels/$op/*):-*Death*"
  done
  # What lesser cards are given, as far as this one can show it. They have no splits of attention, and
  # the plain kernel would take minutes for the prompts of the tests of those.
  for family in ampere ada; do
    sharded "$family-bench_ops" 1 env GRAFT_GPU_FAMILY=$family "$programs/bench_ops_test" --gtest_filter="LoraPadded*"
    for op in lora attention; do
      sharded "$family-$op" "$(shards "$op")" env GRAFT_GPU_FAMILY=$family "$programs/kernels_test" \
        --gtest_filter="$(suites src/kernels/$op/*):-*Death*:*AcrossSplits*"
    done
    sharded "$family-training" 1 env GRAFT_GPU_FAMILY=$family "$programs/training_kernels_test" --gtest_filter='-*Death*'
    for test in model/transformer model/config_bounds adapters/golden; do
      sharded "$family-${test#*/}" 2 env GRAFT_GPU_FAMILY=$family "$programs/${test%/*}_test" \
        --gtest_filter="$(suites src/${test}_test.cc):-*Death*"
    done
  done
  wait
fi
if [[ $parts == *" sanitizer "* ]]; then
  # More of these fill what a host may lock for its GPU.
  at_once=$(($(nproc) < 6 ? $(nproc) : 6))
  engine=("$programs/graft" generate --model demo/base --adapters demo/adapters --device cuda:0 --sequences-max 4
    --prompt "It" --max-tokens 2 --quiet --adapter doyle --adapter carroll)
  # Left out: tests that launch, a hundred or a thousand times, what others have launched. racecheck takes
  # up to 350 times as long as the test alone; of the GEMM's tiles it has *EachTileOnce.
  declare -A left_out=(
    [memcheck-attention]='*AcrossSplits*'
    [memcheck-gemm]='GemmLoraTest.RowsDoNotDepend*:GemmTest.RowsDoNotDepend*OnTheGpu'
    [memcheck-sampling]='*DrawsFollowTheDistribution'
    [racecheck-attention]='*AcrossSplits*'
    [racecheck-gemm]='*RowsDoNotDepend*:*TilesDoNotChange*:GemmLoraTest.Activated*:*OneAfterTheOther:*FillsTheCard:*LargestB*'
    [racecheck-lora]='*RowsDoNotDepend*'
    [racecheck-training]='*SameBitsBesideOthers*'
    [racecheck-sampling]='*DrawsFollowTheDistribution:*MinusInfinity*:*LogprobsMatch*:*Temperatures')
  for tool in racecheck memcheck; do
    sanitizer=(compute-sanitizer --tool "$tool" --error-exitcode 1)
    wanted="SUMMARY: 0 " beside "$tool-engine" "${sanitizer[@]}" "${engine[@]}"
    wanted="SUMMARY: 0 " beside "$tool-bench_ops" "${sanitizer[@]}" "$programs/bench_ops_test" --gtest_filter='-*Death*'
    wanted="SUMMARY: 0 " beside "$tool-training" "${sanitizer[@]}" "$programs/training_kernels_test" \
      --gtest_filter="-*Death*:${left_out[$tool-training]:-}"
    # Not host_exchange: its kernels wait for flags of the host, which a tool that runs kernels one by one keeps back.
    for op in "${ops[@]}"; do
      [ "$op" != host_exchange ] || continue
      wanted="SUMMARY: 0 " beside "$tool-$op" "${sanitizer[@]}" "$programs/kernels_test" \
        --gtest_filter="$(suites src/kernels/$op/*):-*Death*:${left_out[$tool-$op]:-}"
    done
  done
  wait
fi
unset GRAFT_TEST_DEVICES
if [[ $parts == *" ops "* ]]; then
  for bench in "${op_benches[@]}"; do
    check "$bench" "$programs/$bench"
    cat "$out/$bench.log"
  done
  check bench-ops "$programs/graft-bench" ops --device cuda:0 --seconds-per-case 0.03 --json "$out/ops.json"
fi
if [[ $parts == *" step "* ]]; then
  check step "$programs/graft-bench" step --shape bench/shapes/llama-2-7b.json --device cuda:0 --batch 32 \
    --context 512 --ranks 16 --prefill-tokens 2048 --steps 50 --json "$out/step.json"
  cat "$out/step.log"
fi
if [[ $parts == *" serve "* ]]; then
  check serve "$programs/graft-bench" serve --shape bench/shapes/llama-2-7b.json --device cuda:0 --batch 32 \
    --adapters 32 --rank 16 --requests 200 --prompt-tokens 128 --output-tokens 128 --rounds 1 \
    --context-tokens-max 2048 --skip-single --json "$out/serve.json"
  cat "$out/serve.log"
fi
echo
cat "$out/summary"
! grep -q FAILED "$out/summary"

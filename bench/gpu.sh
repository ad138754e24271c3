#!/usr/bin/env bash
# gpu.sh [PREBUILT_DIR]: the whole GPU suite on this machine's first GPU, under ten minutes: every op
# against its references, goldens, compute-sanitizer, device benches, steps and a served load. Builds
# with the gpu preset, unless a folder of programs built elsewhere is given (bench/bundle.sh). Logs and
# JSON go to $OUT (default build/gpu-results); a table of what passed comes last. Tests run side by
# side, benches alone.
# PARTS picks some: PARTS="tests sanitizer ops step serve". Many adapters: bench/adapters.sh.
#
# PARTS=families tests what lesser cards are given, and Blackwell ones, on a Hopper card that stands in for them
# (docs/gpu.md): all tests of gemm, attention, lora, model, executor and learning for each of PROFILES (default "ampere
# ada sm100 sm120"), and gemm, attention and lora under compute-sanitizer for CHECKED (default ada). Its programs have
# no code of Hopper's own: the presets gpu-families and gpu-overlap, or PREBUILT_DIR-families and PREBUILT_DIR-overlap.
# In two leases of nine minutes: PROFILES="ampere ada" first, then PROFILES="sm100 sm120" CHECKED=.
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

families_tests=(kernels_test training_kernels_test model_test adapters_test executor_test learn_test bench_ops_test)
profiles=${PROFILES-ampere ada sm100 sm120}
checked=${CHECKED-ada}
# programs_of PROFILE: launches overlap on Blackwell alone.
programs_of() { case $1 in sm100 | sm120) echo "$programs-overlap" ;; *) echo "$programs-families" ;; esac; }

# built PRESET TARGET...
built() {
  local preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
  cmake --build "build/$preset" --target "$@" || exit 1
}
if [ $# -eq 0 ]; then
  [ "$parts" = " families " ] || built gpu graft graft-bench "${tests[@]}" "${op_benches[@]}"
  if [[ $parts == *" families "* ]]; then
    for folder in $(for profile in $profiles $checked; do programs_of "$profile"; done | sort -u); do
      built "${folder#build/}" "${families_tests[@]}"
    done
  fi
fi

# check NAME COMMAND...: runs it into $out/NAME.log and notes how it ended. $wanted: what the log must
# say, too.
check() {
  local name=$1 begin=$SECONDS ended=passed
  shift
  timeout "${seconds_max:-300}" "$@" >"$out/$name.log" 2>&1 || ended=FAILED
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
# sharded NAME PARTS COMMAND...: a test program in so many parts beside each other; of which $shards_taken are run
# ("first" or "others"; all where it is not set).
sharded() {
  local name=$1 parts=$2 part
  shift 2
  for ((part = 0; part < parts; part++)); do
    case ${shards_taken:-all} in
      first) [ $part -eq 0 ] || continue ;;
      others) [ $part -ne 0 ] || continue ;;
    esac
    beside "$name-$part" env GTEST_TOTAL_SHARDS="$parts" GTEST_SHARD_INDEX="$part" "$@"
  done
}

# Left out under compute-sanitizer: tests that launch, a hundred or a thousand times, what others have launched. racecheck takes
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
  wait
fi
if [[ $parts == *" sanitizer "* ]]; then
  # More of these fill what a host may lock for its GPU.
  at_once=$(($(nproc) < 6 ? $(nproc) : 6))
  engine=("$programs/graft" generate --model demo/base --adapters demo/adapters --device cuda:0 --sequences-max 4
    --prompt "It" --max-tokens 2 --quiet --adapter doyle --adapter carroll)
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
# family PROFILE: its tests, as cards of that profile would run them.
family() {
  local folder op test
  folder=$(programs_of "$1")
  local as=(env LD_LIBRARY_PATH="$folder:$LD_LIBRARY_PATH" GRAFT_GPU_FAMILY="$1")
  sharded "$1-attention" 12 "${as[@]}" "$folder/kernels_test" --gtest_filter="$(suites src/kernels/attention/*):-*Death*"
  for op in gemm lora; do
    sharded "$1-$op" 3 "${as[@]}" "$folder/kernels_test" --gtest_filter="$(suites src/kernels/$op/*):-*Death*"
  done
  for test in training_kernels_test:2 model_test:4 adapters_test:2 executor_test:3 learn_test:4; do
    sharded "$1-${test%:*}" "${test#*:}" "${as[@]}" "$folder/${test%:*}" --gtest_filter='-*Death*'
  done
  sharded "$1-bench_ops" 1 "${as[@]}" "$folder/bench_ops_test" --gtest_filter="LoraPadded*"
}
if [[ $parts == *" families "* ]]; then
  # The driver compiles a file's kernels when the first of them runs, and keeps that for all programs. So one part of
  # each program goes first.
  : "${CUDA_CACHE_PATH:=$(mktemp -d)}"
  export CUDA_CACHE_PATH CUDA_CACHE_MAXSIZE=4294967296
  seconds_max=500
  shards_taken=first
  for profile in $profiles; do
    family "$profile"
    wait
  done
  shards_taken=others
  for profile in $profiles; do family "$profile"; done
  wait
  unset shards_taken
  at_once=$(($(nproc) < 6 ? $(nproc) : 6))
  for profile in $checked; do
    folder=$(programs_of "$profile")
    for tool in racecheck memcheck; do
      for op in attention gemm lora; do
        wanted="SUMMARY: 0 " beside "$profile-$tool-$op" env LD_LIBRARY_PATH="$folder:$LD_LIBRARY_PATH" \
          GRAFT_GPU_FAMILY="$profile" compute-sanitizer --tool "$tool" --error-exitcode 1 "$folder/kernels_test" \
          --gtest_filter="$(suites src/kernels/$op/*):-*Death*:${left_out[$tool-$op]:-}"
      done
    done
  done
  wait
  unset seconds_max
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

#!/usr/bin/env bash
# gpu.sh [PREBUILT_DIR]: the whole GPU suite on this machine's first GPU, under ten minutes: every op
# against its references, goldens, compute-sanitizer, device benches, steps and a served load. Builds
# with the gpu preset, unless a folder of programs built elsewhere is given (bench/bundle.sh). Logs and
# JSON go to $OUT (default build/gpu-results); a table of what passed comes last. Tests run side by
# side, benches alone.
# PARTS picks some: PARTS="tests sanitizer ops step serve". Many adapters: bench/adapters.sh.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
tests=(tensor_test small_copy_test embedding_test soft_cap_test rms_norm_test rope_test kv_write_test rope_kv_write_test gated_activation_test
  sampling_test gemm_test lora_test lora_merge_test lora_padded_test attention_test host_exchange_test transformer_test
  config_bounds_test golden_test executor_test model_executor_test adapter_backend_test cpu_assist_test)
op_benches=(gated_activation_cuda_bench gemm_cuda_bench lora_cuda_bench attention_cuda_bench)
parts=" ${PARTS:-tests sanitizer ops step serve} "
programs=${1:-build/gpu}
out=${OUT:-build/gpu-results}
mkdir -p "$out"
: >"$out/summary"
export GRAFT_SOURCE_DIR=$PWD LD_LIBRARY_PATH=$programs:${LD_LIBRARY_PATH:-}

if [ $# -eq 0 ]; then
  [ -f build/gpu/build.ninja ] || cmake --preset gpu >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
  cmake --build build/gpu --target graft "${tests[@]}" "${op_benches[@]}" || exit 1
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
# beside NAME COMMAND...: the same, while others run.
beside() {
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
  check "$@" &
}

# The CPU's halves of the case tables are `make test`'s.
export GRAFT_TEST_DEVICES=gpu
if [[ $parts == *" tests "* ]]; then
  for test in "${tests[@]}"; do beside "$test" "$programs/$test" --gtest_filter='-*Death*'; done
  # What lesser cards are given, as far as this one can show it.
  for family in ampere ada; do
    for test in lora_test lora_padded_test attention_test transformer_test config_bounds_test golden_test; do
      beside "$family-$test" env GRAFT_GPU_FAMILY=$family "$programs/$test" --gtest_filter='-*Death*'
    done
  done
  wait
fi
if [[ $parts == *" sanitizer "* ]]; then
  engine=("$programs/graft" generate --model demo/base --adapters demo/adapters --device cuda:0 --sequences-max 4
    --prompt "It" --max-tokens 2 --quiet --adapter doyle --adapter carroll)
  # Left out: tests that launch, a hundred or a thousand times, what others have launched. racecheck takes
  # up to 350 times as long as the test alone; of the GEMM's tiles it has *EachTileOnce.
  declare -A left_out=(
    [memcheck-attention_test]='*AcrossSplits'
    [memcheck-gemm_test]='GemmLoraTest.RowsDoNotDepend*:GemmTest.RowsDoNotDepend*OnTheGpu'
    [memcheck-sampling_test]='*DrawsFollowTheDistribution'
    [racecheck-attention_test]='*AcrossSplits'
    [racecheck-gemm_test]='*RowsDoNotDepend*:*TilesDoNotChange*:GemmLoraTest.Activated*:*OneAfterTheOther:*FillsTheCard:*LargestB*'
    [racecheck-lora_test]='*RowsDoNotDepend*'
    [racecheck-sampling_test]='*DrawsFollowTheDistribution:*MinusInfinity*:*LogprobsMatch*:*Temperatures')
  for tool in racecheck memcheck; do
    sanitizer=(compute-sanitizer --tool "$tool" --error-exitcode 1)
    wanted="SUMMARY: 0 " beside "$tool-engine" "${sanitizer[@]}" "${engine[@]}"
    # Not host_exchange_test: its kernels wait for flags of the host, which a tool that runs kernels one by one keeps back.
    for test in gemm_test attention_test sampling_test lora_test rms_norm_test rope_kv_write_test gated_activation_test \
      lora_merge_test lora_padded_test small_copy_test embedding_test rope_test kv_write_test; do
      wanted="SUMMARY: 0 " beside "$tool-$test" "${sanitizer[@]}" "$programs/$test" \
        --gtest_filter="-*Death*:${left_out[$tool-$test]:-}"
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
  check bench-ops "$programs/graft" bench ops --device cuda:0 --seconds-per-case 0.03 --json "$out/ops.json"
fi
if [[ $parts == *" step "* ]]; then
  check step "$programs/graft" bench step --shape bench/shapes/llama-2-7b.json --device cuda:0 --batch 32 \
    --context 512 --ranks 16 --prefill-tokens 2048 --steps 50 --json "$out/step.json"
  cat "$out/step.log"
fi
if [[ $parts == *" serve "* ]]; then
  check serve "$programs/graft" bench serve --shape bench/shapes/llama-2-7b.json --device cuda:0 --batch 32 \
    --adapters 32 --rank 16 --requests 200 --prompt-tokens 128 --output-tokens 128 --rounds 1 \
    --context-tokens-max 2048 --skip-single --json "$out/serve.json"
  cat "$out/serve.log"
fi
echo
cat "$out/summary"
! grep -q FAILED "$out/summary"

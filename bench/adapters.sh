#!/usr/bin/env bash
# adapters.sh TRACES [PREBUILT_DIR]: S-LoRA's and CaraServe's evaluations, the section "many adapters" of
# workshop/benchmarks.md: some twenty runs, each a JSON and a log in $OUT (default build/adapters-results), shared out
# over this machine's GPUs; about 23 minutes of one. TRACES: a folder with the recorded traces, unpacked. Builds as
# bench/gpu.sh does. RUNS="stall pool" picks some, GPUS="1" the devices; SECONDS_MAX: no run begins later. Then
#   bench/plot_adapters.py build/adapters-results/*.json --out docs/plots
set -uo pipefail
traces=$(realpath "${1:?usage: adapters.sh TRACES [PREBUILT_DIR]}")
cd "$(dirname "$0")/.." || exit
programs=${2:-build/gpu}
out=${OUT:-build/adapters-results}
mkdir -p "$out"
export LD_LIBRARY_PATH=$programs:${LD_LIBRARY_PATH:-}
if [ $# -eq 1 ]; then
  [ -f build/gpu/build.ninja ] || cmake --preset gpu >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
  cmake --build build/gpu --target graft-bench || exit 1
fi

# NAME SUITE ARGUMENT...
runs() {
  local seven=bench/shapes/llama-2-7b.json thirteen=bench/shapes/llama-2-13b.json
  local throughput="throughput-by-adapters --seconds 7 --warmup-seconds 2.5"
  local full="$throughput --sequences-max 64 --in-flight 80"
  local over="adapters-over-capacity --shape $seven --sequences-max 64 --output-tokens 8,256"
  local cold="cold-starts --shape $seven --sequences-max 64 --warmup-seconds 1.5"
  local short="--prompt-tokens 8,128 --output-tokens 8,128"
  local recorded="$cold $short --ranks 64 --slots 64 --seconds 4.5 --popularity"
  local azure="$recorded $traces/azure_functions_2019_1250.csv"
  local traced="traces --shape $seven --sequences-max 64 --in-flight 64 --slo-ms 250 --output-tokens 8,256"
  cat <<END
cold-starts $cold $short --slots 128 --ranks 64 --seconds 30
throughput $full --shape $seven --adapters 5,100,1000,2000,10000 --pools shared,static
throughput-rates throughput-by-adapters --seconds 16 --warmup-seconds 4 --shape $seven --sequences-max 64 --adapters 5,2000,10000 --pools shared --rates 10,16,20
throughput-zipf $full --shape $seven --adapters 5,100,1000,2000,10000 --pools shared --zipf 1
throughput-s1 $full --shape $seven --ranks 8 --adapters 5,100,1000,2000 --pools shared
throughput-s4 $full --shape $thirteen --ranks 64,32,16 --adapters 2,100,1000 --pools shared
throughput-batch-16 throughput-by-adapters --seconds 14 --warmup-seconds 2.5 --shape $seven --sequences-max 16 --in-flight 20 --adapters 5,2000,10000 --pools shared
stall stall --shape $seven --sequences-max 32 --probes 15
over-capacity $over --slots 64 --adapters 8,64,512,1024,4000 --in-flight 128 --seconds 6 --warmup-seconds 2.5
over-capacity-16-slots $over --slots 16 --adapters 16,256 --in-flight 1024 --seconds 9 --warmup-seconds 3
pool pool --shape $seven --context-tokens-max 1100 --sequences-max 64 --in-flight 96 --pool-gib 10 --ranks 8,16,32,64,128 --shares 0.2,0.25,0.35,0.5 --seconds 5.5 --warmup-seconds 2.5
cold-starts-default $cold $short --slots 0 --ranks 64 --seconds 9 --cold-starts auto
cold-starts-rank-64 $cold $short --slots 128 --ranks 64 --loads 0.35,0.7 --cold-starts blocking,auto,auto+cpu --seconds 5
cold-starts-rank-32 $cold $short --slots 128 --ranks 32 --cold-starts blocking,auto --seconds 5
slo slo --shape $seven --sequences-max 64 --in-flight 96 --seconds 5 --warmup-seconds 1.5 --slo-ms 250 --loads 0.5,0.8,1.0,1.2 --variations 1,4,8 --alphas 0.1,0.3,1 --output-tokens 8,256
traces $traced --seconds 8 --warmup-seconds 2 --trace $traces/lmsys_arena_vtc.csv --trace $traces/azure_llm_2023_conv.csv --trace $traces/azure_llm_2023_code.csv --trace $traces/alibaba_genai_lora_arrivals.csv
over-capacity-few-in-flight $over --slots 16 --adapters 16,256 --in-flight 128 --seconds 6 --warmup-seconds 2.5
over-capacity-zipf $over --slots 64 --adapters 8,64,512,1024,4000 --zipf 1 --in-flight 128 --seconds 5 --warmup-seconds 2
cold-starts-popularity $azure --adapters 128,256,512 --cold-starts blocking,auto
cold-starts-loads $azure --adapters 512 --loads 0.3,0.6,0.9 --cold-starts blocking
assist assist --shape $seven --modules qkv --rank 64 --rows 16,64,128 --workers 1,2,4,8,14 --steps 5
cold-starts-alibaba $recorded $traces/alibaba_genai_lora_requests.csv --adapters 512 --cold-starts blocking,auto
traces-long $traced --seconds 20 --warmup-seconds 5 --trace $traces/mooncake_conversation.jsonl --trace $traces/rtp_llm_online.jsonl
assist-ipc assist --ipc --shape $seven --rank 64 --rows 128 --workers 1,2,4,8,14 --steps 30
END
}

# measure GPU NAME SUITE ARGUMENT...
measure() {
  local gpu=$1 name=$2 suite=$3 begin=$SECONDS ended=passed
  shift 3
  local command=(assist)
  [ "$suite" = assist ] || command=(adapters --suite "$suite")
  [[ " $* " == *" --context-tokens-max "* || $suite == assist ]] || command+=(--context-tokens-max 4096)
  [[ " $* " == *" --ipc "* ]] || command+=(--device cuda:0)
  CUDA_VISIBLE_DEVICES=$gpu timeout 300 "$programs/graft-bench" "${command[@]}" "$@" --json "$out/$name.json" \
    >"$out/$name.log" 2>"$out/$name.err" || ended=FAILED
  echo "$ended  $name ($((SECONDS - begin)) s, GPU $gpu)" >>"$out/summary"
  cat "$out/$name.log"
  [ $ended = passed ] || tail -5 "$out/$name.err"
}

# work GPU: takes the next run until none is left.
work() {
  local name arguments
  exec 9>"$out/.lock"  # its own: a lock is its opener's
  while ((SECONDS < ${SECONDS_MAX:-100000})); do
    flock 9
    read -r name arguments <&8 || return
    flock -u 9
    # shellcheck disable=SC2086  # words
    [[ " ${RUNS:-$name} " != *" $name "* ]] || measure "$1" "$name" $arguments
  done
}

: >"$out/summary"
exec 8< <(runs)
count=$(nvidia-smi -L 2>/dev/null | grep -c .)
for gpu in ${GPUS:-$(seq 0 $((count > 0 ? count - 1 : 0)))}; do work "$gpu" & done
wait
echo
cat "$out/summary"
! grep -q FAILED "$out/summary"

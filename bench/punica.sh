#!/usr/bin/env bash
# punica.sh LENGTHS.csv [PREBUILT_DIR]: Punica's Figures 10 and 11 on this machine's GPUs: a decode step by batch
# and context, and 1000 requests of ShareGPT's lengths (bench/sharegpt_lengths.py) under each popularity law, at
# most 32 at once. The laws are shared out over the GPUs; each serves the base model, too, for its own laws to be
# measured against. Builds as bench/gpu.sh does. JSON and logs go to $OUT (default build/punica-results); then
#   bench/plot_punica.py build/punica-results/*.json --out docs/plots
# FIGURES="10 11", LAWS="distinct uniform skewed identical" and REQUESTS pick less: one GPU takes about two minutes
# for each law of 1000 requests, and for base.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
lengths=${1:?usage: punica.sh LENGTHS.csv [PREBUILT_DIR]}
programs=${2:-build/gpu}
out=${OUT:-build/punica-results}
figures=" ${FIGURES:-10 11} "
read -ra laws <<<"${LAWS:-distinct uniform skewed identical}"
model=(--shape "${SHAPE:-bench/shapes/llama-2-7b.json}" --device "${DEVICE:-cuda:0}")
mkdir -p "$out"
export LD_LIBRARY_PATH=$programs:${LD_LIBRARY_PATH:-}
if [ $# -eq 1 ]; then
  [ -f build/gpu/build.ninja ] || cmake --preset gpu >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
  cmake --build build/gpu --target graft-bench || exit 1
fi

failed=0
if [[ $figures == *" 10 "* ]]; then
  "$programs/graft-bench" step "${model[@]}" --batch "${BATCHES:-1,2,4,8,16,32}" --context "${CONTEXTS:-512,2048}" \
    --ranks 16 --prefill-tokens 0 --steps 25 --json "$out/step.json" >"$out/step.log" 2>"$out/step.err" || failed=1
  cat "$out/step.log"
fi

# serve GPU LAW...: one process on that GPU.
serve() {
  local gpu=$1 first=$2
  shift 2
  local more=()
  [ $# -eq 0 ] || more=(--laws "$(IFS=,; echo "$*")")
  CUDA_VISIBLE_DEVICES=$gpu "$programs/graft-bench" serve "${model[@]}" --batch 32 --queued "${QUEUED:-32}" \
    --adapters 64 --rank 16 \
    --requests "${REQUESTS:-1000}" --lengths "$lengths" --rounds 1 --context-tokens-max 2049 --skip-single \
    --skip-http --skip-base-rows --popularity "$first" "${more[@]}" --json "$out/serve-$first.json" \
    >"$out/serve-$first.log" 2>"$out/serve-$first.err"
}
if [[ $figures == *" 11 "* ]]; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c .)
  ((gpus > 0)) || gpus=1
  servers=()
  for ((gpu = 0; gpu < gpus && gpu < ${#laws[@]}; ++gpu)); do
    mine=()
    for ((i = gpu; i < ${#laws[@]}; i += gpus)); do mine+=("${laws[i]}"); done
    serve "$gpu" "${mine[@]}" &
    servers+=($!)
  done
  for server in "${servers[@]}"; do wait "$server" || failed=1; done
  cat "$out"/serve-*.log
fi
((failed == 0)) || cat "$out"/*.err
exit $failed

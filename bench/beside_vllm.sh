#!/usr/bin/env bash
# beside_vllm.sh: Graft and vLLM on one GPU, with the same folder of random weights, the same adapters, the same context
# and the same client; prints one table. Rows of JSON and the servers' logs go to $OUT (default build/beside-vllm); rows
# of several runs in one folder are joined: bench/beside_vllm.py table build/beside-vllm/*.jsonl
#   PARTS="base first"   picks loads; bench/beside_vllm.py says which there are. Each takes a server less than ten minutes
#   GRAFT=, VLLM=        the servers' commands; empty: left out
#   MAX_LORAS="32 128"   vLLM runs once with each; the better one of a load counts
#   FOLDER=DIR           where the weights are made, and stay (16 GB; default: a temporary folder, removed at the end)
#   LENGTHS=CSV          of bench/sharegpt_lengths.py, for the load `lengths`
# A try on a CPU: SCALE=0.03 (of all numbers), SHAPE, CONTEXT, HOST_GIB, GRAFT_FLAGS, VLLM_FLAGS.
# Both have their prefix cache, 256 sequences at once, contexts of 2,048 tokens and 32 GiB of the host's memory for
# adapters. vLLM gets an adapter when it is first asked for, as Graft does (its filesystem resolver).
set -euo pipefail
cd "$(dirname "$0")/.."
graft=${GRAFT-build/gpu/graft}
vllm=${VLLM-vllm}
parts=${PARTS:-base base-more first one one-burst many many-more each-burst thousand}
shape=${SHAPE:-bench/shapes/llama-3.1-8b.json}
out=${OUT:-build/beside-vllm}
context=${CONTEXT:-2048}
port=${PORT:-$((20000 + RANDOM % 10000))}
mkdir -p "$out"
out=$(realpath "$out")
folder=${FOLDER:-$(mktemp -d)}
mkdir -p "$folder"
folder=$(realpath "$folder")
server=

stop() {
  [ -n "$server" ] || return 0
  kill -TERM -- "-$server" 2>/dev/null || true
  for ((i = 0; i < 600; i++)); do kill -0 -- "-$server" 2>/dev/null || break; sleep 0.1; done
  kill -KILL -- "-$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}
end() {
  stop
  [ -n "${FOLDER:-}" ] || rm -rf "$folder"
}
trap end EXIT

# measure SERVER NAME PARTS SETTINGS COMMAND...: starts the server, in a process group of its own, and drives its parts.
measure() {
  local kind=$1 name=$2 parts=$3 settings=$4
  shift 4
  setsid "$@" >"$out/$name.log" 2>&1 &
  server=$!
  # shellcheck disable=SC2086
  python3 bench/beside_vllm.py drive "http://127.0.0.1:$port" --server "$kind" --parts "$parts" --rows "$out/rows.jsonl" \
    --vocab "$vocab" --pid "$server" --scale "${SCALE:-1}" ${LENGTHS:+--lengths "$LENGTHS"} $settings ||
    { echo "== $name failed; the end of its log:"; tail -25 "$out/$name.log"; failed=1; }
  stop
}

plain='' adapted='' failed=0
for part in $parts; do
  case $part in
    base*) plain+=" $part" ;;
    first) adapted=" $part$adapted" ;; # no request has asked for an adapter before
    *) adapted+=" $part" ;;
  esac
done
count=$(python3 bench/beside_vllm.py adapters --parts "$parts" --scale "${SCALE:-1}")
python3 bench/random_folders.py "$shape" "$folder" --adapters "$count"
vocab=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["vocab_size"])' "$shape")

if [ -n "$graft" ]; then
  # shellcheck disable=SC2206
  command=($graft serve --adapter-hashes off --model "$folder/model" --model-name base --port "$port" --sequences-max 256
    --context-tokens-max "$context" --request-log false --quiet ${GRAFT_FLAGS:-})
  [ -z "$plain" ] || measure graft graft-base "$plain" "" "${command[@]}"
  [ -z "$adapted" ] || measure graft graft-adapters "$adapted" "" "${command[@]}" --adapters "$folder/adapters" \
    --host-gib "${HOST_GIB:-32}"
fi

if [ -n "$vllm" ]; then
  # Without a network, and without what compiles at the first request.
  export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false \
    VLLM_HOST_IP=127.0.0.1 GLOO_SOCKET_IFNAME=lo VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_CACHE_ROOT="$folder/cache" \
    TORCHINDUCTOR_CACHE_DIR="$folder/cache/inductor" TRITON_CACHE_DIR="$folder/cache/triton"
  # vLLM's own sizes of graphs are twice as many, and take twice as long to record.
  sizes=1,2,4,8$(seq -s '' -f ',%g' 16 16 256)
  # shellcheck disable=SC2206
  command=($vllm serve "$folder/model" --served-model-name base --host 127.0.0.1 --port "$port" --dtype bfloat16
    --max-model-len "$context" --max-num-seqs 256 --gpu-memory-utilization 0.9 --enable-prefix-caching
    --enable-prompt-tokens-details --generation-config vllm --disable-uvicorn-access-log
    --compilation-config "{\"cudagraph_capture_sizes\":[$sizes]}" ${VLLM_FLAGS:-})
  [ -z "$plain" ] || measure vllm vllm-base "$plain" "" "${command[@]}"
  export VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_LORA_RESOLVER_CACHE_DIR=$folder/adapters
  for max_loras in ${MAX_LORAS:-32 128}; do
    # 380 adapters of rank 16 are 32 GiB.
    [ -z "$adapted" ] || measure vllm "vllm-adapters-$max_loras" "$adapted" "--setting max_loras=$max_loras" \
      "${command[@]}" --enable-lora --max-loras "$max_loras" --max-lora-rank 16 --max-cpu-loras 380 \
      --lora-target-modules q_proj k_proj v_proj o_proj gate_proj up_proj down_proj
  done
fi
python3 bench/beside_vllm.py table "$out/rows.jsonl"
exit "$failed"

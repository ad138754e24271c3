#!/bin/sh
# The figures of docs/benchmarks.md (CPU) on this machine: `make bench`. Each ratio is between runs of
# one invocation; a machine that does other work meanwhile, or real-time priority, which starves the
# bench's own client, spoils them. GRAFT names another graft, whose graft-bench lies beside it.
set -eu
cd "$(dirname "$0")/.."
bench=${GRAFT:-build/release/graft}-bench
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

echo "== TinyLlama-1.1B's shape, batch 8, 8 distinct rank-16 adapters"
"$bench" serve --shape bench/shapes/tinyllama-1.1b.json --device cpu --adapters 8 --rank 16 --batch 8 \
  --prompt-tokens 32 --output-tokens 48 --rounds "${ROUNDS:-3}" --context-tokens-max 256 --json "$out/serve.json"

echo
echo "== kernels, with their share of the peak measured beside them"
for op in gemm lora attention; do
  "$bench" ops --device cpu --filter "$op" --json "$out/$op.json"
done

echo
python3 - "$out/serve.json" <<'TABLE'
import json, sys

run = json.load(open(sys.argv[1]))
wanted = {"lora_over_base": 0.85, "base_in_lora_over_base": 0.99, "batch_over_one_at_a_time": 4.0,
          "http_step_over_executor": 1.05, "base_decode_share_of_bandwidth": 0.75}
print(f"== {run['machine']}, {run['dtype']}, read bandwidth {run['read_gbytes_per_s']:.1f} GB/s")
if run["rounds_unsteady"]:
    print(f"   the bandwidth changed during {run['rounds_unsteady']} of {run['rounds']} rounds: measure again")
print(f"{'figure':34}{'wanted':>9}{'measured':>10}")
for name, bound in wanted.items():
    sign = "<=" if name == "http_step_over_executor" else ">="
    print(f"{name:34}{sign:>4}{bound:>5}{run['ratios'][name]:>10.3f}")
TABLE

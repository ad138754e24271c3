#!/usr/bin/env bash
# same_behaviour.sh OLD_BUILD NEW_BUILD [SEEDS]: whether two builds decide alike, for changes that are to change no
# decision. Each build folder has hostile_test, engine_test and graft. Compared byte for byte:
#   - what happens in SEEDS (200) clusters among faults: a hash a seed of requests, their runners, tokens and ends;
#   - the plans of engine_random_test: a hash a shape and seed;
#   - graft simulate's figures: the nine settings of docs/inside/simulation.md by shorter runs, then settings in which
#     adapters are fetched, runners fail, frontends share runners, prompts begin alike and the number of runners changes.
# Prints what differs and exits with 1. All that the programs printed stays in the folders' same_behaviour/, and a build
# that has not changed since is not run again.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9s/^# //p' "$0"; exit 2; }
old=$(realpath "$1") new=$(realpath "$2") seeds=${3:-200}
placements=most-idle,punica,first-fit,random,rendezvous,min-cost-flow,caraserve,auto

# paper_costs PADS BASE_MS MS_PER_UNIT, as bench/placement_figures.py has them.
paper_costs() {
  cat <<END
{"pads": $1, "decode": {"base_ms": $2, "ms_per_unit": $3, "r_squared": 1.0},
 "prompt": {"base_ms": $2, "ms_per_unit": 0.2, "r_squared": 1.0},
 "step": {"base_ms": $2, "ms_per_row": 0.0, "ms_per_unit": $3, "ms_per_prompt_token": 0.2, "ms_per_context_token": 0.0,
          "r_squared": 1.0},
 "load": {"base_ms": 1.0, "ms_per_rank": 0.1, "fetch_ms": 0.0}}
END
}

simulate() {  # BUILD NAME OPTIONS...
  local build=$1 name=$2
  shift 2
  (cd "$build/same_behaviour" && "$build/graft" simulate --quiet --seed 7 --json "$name.json" "$@" >/dev/null)
}

run_all() {  # BUILD
  local build=$1 out=$1/same_behaviour load
  if [ -f "$out/done-$seeds" ] && [ "$out/done-$seeds" -nt "$build/hostile_test" ] &&
     [ "$out/done-$seeds" -nt "$build/graft" ] && [ "$out/done-$seeds" -nt "$build/engine_test" ]; then
    return
  fi
  rm -rf "$out" && mkdir -p "$out"
  GRAFT_HOSTILE_HASHES=$seeds "$build/hostile_test" --gtest_filter=HostileTest.Hashes >"$out/hostile.log" ||
    { echo "$build: hostile_test fails"; tail -5 "$out/hostile.log"; return 1; }
  grep '^hostile seed' "$out/hostile.log" >"$out/hostile.txt"
  GRAFT_RANDOM_SEEDS=3 "$build/engine_test" --gtest_filter='*EngineRandomTest*' >"$out/plans.log" ||
    { echo "$build: engine_test fails"; tail -5 "$out/plans.log"; return 1; }
  grep -E '^[a-z_]+, seed [0-9]+: ' "$out/plans.log" >"$out/plans.txt"
  paper_costs false 33.5 0.00234375 >"$out/costs-summed"
  paper_costs true 31.8 0.00390625 >"$out/costs-padded"
  for load in 0.6 0.8 0.95; do
    for costs in summed padded; do
      simulate "$build" "$costs-$load" --costs "costs-$costs" --load $load --zipf 1 --runners 60 --adapters 40000 \
        --requests 700 --warm-seconds 5 --placement most-idle,caraserve,auto
    done
    simulate "$build" "ours-$load" --load $load --zipf 1 --runners 60 --adapters 40000 --requests 700 \
      --warm-seconds 1 --placement most-idle,caraserve,auto
  done
  simulate "$build" all-placements --load 0.8 --zipf 1 --runners 8 --adapters 1250 --requests 600 --placement $placements
  simulate "$build" hot-spot --runners 16 --adapters 1000 --adapters-max 8 --host-adapters 8 --fetch-ms 300 --zipf 1 \
    --load 0.8 --load-of places --requests 800 --placement most-idle,auto
  simulate "$build" layerwise --runners 4 --adapters 200 --adapters-max 8 --pages 700 --cold-start layerwise --load 0.9 \
    --requests 500 --placement most-idle,auto
  simulate "$build" failures --load 0.8 --runners 20 --adapters 4000 --requests 800 --frontends 4 --view-ms 100 \
    --fail-seconds 1 --down-seconds 2 --slowness 2 --slow-seconds 4 --placement most-idle,auto
  simulate "$build" prefixes --runners 16 --adapters 100 --prefixes 4 --prefix-tokens 1500 --prompt-tokens 100 \
    --output-tokens 150 --load 0.7 --requests 600 --placement most-idle,auto
  simulate "$build" scale --runners 8 --adapters 100 --zipf 1.5 --load 0.8 --hill-seconds 60 --scale \
    --runner-startup-seconds 5 --placement auto
  touch "$out/done-$seeds"
}

run_all "$old" &
run_all "$new"
wait %1
differs=0
for file in "$old"/same_behaviour/*.txt "$old"/same_behaviour/*.json; do
  cmp "$file" "$new/same_behaviour/$(basename "$file")" || differs=1
done
if ! diff "$old/same_behaviour/hostile.txt" "$new/same_behaviour/hostile.txt" | sed -n '2,5p' | grep .; then
  echo "$(wc -l <"$new/same_behaviour/hostile.txt") clusters among faults do the same"
else
  echo "GRAFT_HOSTILE_SEED=N hostile_test --gtest_filter=HostileTest.OneSeed prints what happens in a seed"
fi
[ $differs = 0 ] || exit 1
echo "$(wc -l <"$new/same_behaviour/plans.txt") runs of the engine plan the same;" \
  "$(find "$new/same_behaviour" -name '*.json' | wc -l) simulations give the same figures"

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
script=$(realpath "$0")
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

# Each of these runs one program of the build $1 and leaves its results in the folder it is in.
hostile() {
  GRAFT_HOSTILE_HASHES=$seeds "$1/hostile_test" --gtest_filter=HostileTest.Hashes >../hostile.log ||
    { echo "$1: hostile_test fails"; tail -5 ../hostile.log; return 1; }
  grep '^hostile seed' ../hostile.log >hashes
}

plans() {
  GRAFT_RANDOM_SEEDS=3 "$1/engine_test" --gtest_filter='*EngineRandomTest*' >../plans.log ||
    { echo "$1: engine_test fails"; tail -5 ../plans.log; return 1; }
  grep -E '^[a-z_]+, seed [0-9]+: ' ../plans.log >hashes
}

simulate() {  # BUILD NAME OPTIONS...
  local build=$1 name=$2
  shift 2
  "$build/graft" simulate --quiet --seed 7 --json "$name.json" "$@" >/dev/null
}

simulations() {
  local load costs
  paper_costs false 33.5 0.00234375 >costs-summed
  paper_costs true 31.8 0.00390625 >costs-padded
  for load in 0.6 0.8 0.95; do
    for costs in summed padded; do
      simulate "$1" "$costs-$load" --costs "costs-$costs" --load $load --zipf 1 --runners 60 --adapters 40000 \
        --requests 400 --warm-seconds 5 --placement most-idle,caraserve,auto
    done
    simulate "$1" "ours-$load" --load $load --zipf 1 --runners 60 --adapters 40000 --requests 400 \
      --warm-seconds 1 --placement most-idle,caraserve,auto
  done
  simulate "$1" all-placements --load 0.8 --zipf 1 --runners 8 --adapters 1250 --requests 600 --placement $placements
  simulate "$1" hot-spot --runners 16 --adapters 1000 --adapters-max 8 --host-adapters 8 --fetch-ms 300 --zipf 1 \
    --load 0.8 --load-of places --requests 800 --placement most-idle,auto
  simulate "$1" layerwise --runners 4 --adapters 200 --adapters-max 8 --pages 700 --cold-start layerwise --load 0.9 \
    --requests 500 --placement most-idle,auto
  simulate "$1" failures --load 0.8 --runners 20 --adapters 4000 --requests 800 --frontends 4 --view-ms 100 \
    --fail-seconds 1 --down-seconds 2 --slowness 2 --slow-seconds 4 --placement most-idle,auto
  simulate "$1" prefixes --runners 16 --adapters 100 --prefixes 4 --prefix-tokens 1500 --prompt-tokens 100 \
    --output-tokens 150 --load 0.7 --requests 600 --placement most-idle,auto
  simulate "$1" scale --runners 8 --adapters 100 --zipf 1.5 --load 0.8 --hill-seconds 60 --scale \
    --runner-startup-seconds 5 --placement auto
}

run() {  # PART PROGRAM BUILD
  local out=$3/same_behaviour/$1
  local settings
  settings=$(cat "$script" "$3/$2" <(echo "$seeds") | sha256sum)
  [ "$(cat "$out.done" 2>/dev/null)" = "$settings" ] && return
  rm -rf "$out" "$out.done" && mkdir -p "$out" && cd "$out"
  "$1" "$3"
  echo "$settings" >"$out.done"
}

# compare PART PROGRAM WHAT: by both builds at once, unless their programs are the same bytes.
differs=0
compare() {
  local here first
  if cmp -s "$old/$2" "$new/$2"; then
    echo "$3: $2 is the same in both builds"
    return
  fi
  run "$1" "$2" "$old" &
  first=$!
  run "$1" "$2" "$new" &
  wait $first
  wait $!
  here=$new/same_behaviour/$1
  if diff -r "$old/same_behaviour/$1" "$here" >"$here.diff"; then
    echo "$3: the same, $(cat "$here"/* | wc -l) lines in $(find "$here" -type f | wc -l) files"
  else
    echo "$3 differ:"
    head -5 "$here.diff"
    differs=1
  fi
}

compare hostile hostile_test "clusters among faults"
compare plans engine_test "the engine's plans"
compare simulations graft "simulations"
exit $differs

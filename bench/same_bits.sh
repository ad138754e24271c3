#!/usr/bin/env bash
# same_bits.sh OLD NEW [serve and learn flags]: whether two builds of graft give the same bits, for a change that is to
# change none. Each learner's adapter of the demo's page is compared byte by byte, then what both serve with the demo's
# adapters and the learned ones beside each other: every log-probability of greedy and seeded answers, alone and in mixed
# batches, with drafts, in fp32, and by two ranks. On the CPU for each instruction set; with --device cuda:0 on a GPU.
# ISAS, LEARNERS and SETTINGS (one a line) pick less. Logs and answers go to $OUT (default build/same-bits).
set -euo pipefail
cd "$(dirname "$0")/.."
old=$1 new=$2
shift 2
out=${OUT:-build/same-bits}
isas=${ISAS:-portable avx2 avx512}
learners=${LEARNERS:-distill next-token memory prefix}
settings=${SETTINGS:-
--speculate 3
--dtype fp32
--tensor-parallel 2}
case " $* " in *" --device cuda"*) isas=gpu ;; esac
rm -rf "$out"
mkdir -p "$out"
failed=0

say() { # NAME A B: compares two files
  if cmp -s "$2" "$3"; then echo "same    $1"; else echo "DIFFER  $1"; failed=1; fi
}

for isa in $isas; do
  [ "$isa" = gpu ] || export GRAFT_CPU_ISA=$isa
  here=$out/$isa
  for which in old new; do
    mkdir -p "$here/$which"
    for learner in $learners; do
      "${!which}" learn demo/page.txt --model demo/base --name "learned-$learner" --adapters "$here/$which" \
        --learner "$learner" --passes 1 --questions 8 --keep 8 --output-tokens 32 --quiet "$@" \
        >"$here/learn-$which-$learner.log" 2>&1 || { cat "$here/learn-$which-$learner.log"; exit 1; }
    done
  done
  for learner in $learners; do
    for which in old new; do # of a bundle, its LoRA and its prompt
      find "$here/$which/learned-$learner" -name adapter_model.safetensors | sort | xargs cat >"$here/$which-$learner"
    done
    say "$isa, learned by $learner" "$here/old-$learner" "$here/new-$learner"
  done
  cp -r demo/adapters/* "$here/old"
  while read -r setting; do
    name=$(echo "$isa $setting" | tr -s ' -' '_')
    for which in old new; do
      # shellcheck disable=SC2086 # a setting is words
      python3 bench/same_bits.py "${!which}" "$here/$name-$which.json" --adapters "$here/old" -- $setting "$@" </dev/null
    done
    say "$isa, served ${setting:-as it is}" "$here/$name-old.json" "$here/$name-new.json"
  done <<<"$settings"
done
exit $failed

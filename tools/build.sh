#!/usr/bin/env bash
# build.sh PRESET "TARGETS" [cmake arguments]: configures build/PRESET where it was not, or was for other
# settings, presets or another GPU, and builds the targets.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 targets=$2
shift 2
folder=build/$preset
mkdir -p "$folder"
settings="$* $(cksum <CMakePresets.json) $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr '\n' ' ' || true)"
if [ ! -f "$folder/build.ninja" ] || [ "$settings" != "$(cat "$folder/settings" 2>/dev/null)" ]; then
  # Other settings than last time must not meet what CMake remembers of those.
  rm -f "$folder/CMakeCache.txt"
  cmake --preset "$preset" "$@" >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; exit 1; }
  echo "$settings" >"$folder/settings"
fi
echo "== building $targets in $folder: $(sed -n 's/^-- \(.*building for.*\)/\1/p; s/^-- \(.*CUDA code is.*\)/\1/p' "$folder/configure.log")"
# shellcheck disable=SC2086 # targets are words
cmake --build "$folder" --target $targets

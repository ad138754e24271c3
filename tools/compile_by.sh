#!/bin/sh
# compile_by.sh COMPILER [LAUNCHER ...] -- OTHER_COMPILER ARGUMENTS: a compiler launcher for CMake, which runs COMPILER
# in place of the one that the build was configured with.
compiler=$1
shift
launcher=
while [ "$1" != -- ]; do
  launcher="$launcher $1"
  shift
done
shift 2
# shellcheck disable=SC2086 # the launcher's words
exec $launcher "$compiler" "$@"

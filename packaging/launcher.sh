#!/bin/sh
# Starts the program of this name with the loader, the C library and all others that lie beside it in lib/,
# so that it runs where those are older. The driver of a GPU is the machine's own.
here=$(dirname "$(readlink -f "$0")")
lib=$(dirname "$here")/lib
GRAFT_LAUNCHER=$here/graft
export GRAFT_LAUNCHER
exec "$lib/ld-linux.so" --library-path "$lib" --argv0 "$0" "$lib/$(basename "$0")" "$@"

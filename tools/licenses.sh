#!/usr/bin/env bash
# licenses.sh FOLDER: writes the licences of libraries that Graft's programs bring along and that are no Debian packages.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf "$1"
mkdir -p "$1/lexbor" "$1/xgrammar"
cp build/lexbor/LICENSE build/lexbor/NOTICE "$1/lexbor"
name=xgrammar-$(sed -n 's/^version=//p' tools/grammar.sh)
tar -xf "build/grammar/$name.tar.gz" -C "$1/xgrammar" --strip-components 1 "$name/LICENSE" "$name/NOTICE"

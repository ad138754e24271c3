#!/usr/bin/env bash
# grammar.sh: builds build/grammar/libgraft_grammar.so, which answers in a given form need, of XGrammar's source
# distribution. Every build folder's programs find it there. A second run finds it built and does nothing.
# GRAFT_XGRAMMAR names a source distribution that lies here already.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.2.8
sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
folder=build/grammar
library=$folder/libgraft_grammar.so
sources=(src/grammar/grammar_library.cc src/grammar/grammar_library.h src/grammar/grammar.h src/base/token_mask.h
  src/grammar/grammar_work.h tools/grammar_patches.py)

settings="$version $(cat "$0" "${sources[@]}" | sha256sum)"
[ -f "$library" ] && [ "$settings" = "$(cat $folder/settings 2>/dev/null)" ] && exit
mkdir -p "$folder"

archive=$folder/xgrammar-$version.tar.gz
if [ -n "${GRAFT_XGRAMMAR:-}" ]; then
  cp "$GRAFT_XGRAMMAR" "$archive"
elif [ ! -f "$archive" ]; then
  python3 -m venv $folder/venv
  $folder/venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --no-binary xgrammar -d "$folder" "xgrammar==$version"
fi
echo "$sha256  $archive" | sha256sum -c --quiet || { rm "$archive"; exit 1; }
rm -rf "$folder/xgrammar-$version"
rm -rf "$folder/venv"
tar -xf "$archive" -C "$folder"
python3 tools/grammar_patches.py "$folder/xgrammar-$version"

# Objects do not depend on where the repository lies, so that clones share them.
echo "== building $library of XGrammar $version"
compiler=(g++)
command -v ccache >/dev/null && compiler=(env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$PWD" ccache g++)
source=$folder/xgrammar-$version
flags=(-std=c++20 -O1 -fPIC -fvisibility-inlines-hidden -ffile-prefix-map="$PWD"=. -I"$source/include" -Isrc
  -isystem "$source/3rdparty/picojson" -isystem "$source/3rdparty/dlpack/include"
  -DXGRAMMAR_ENABLE_CPPTRACE=0 -DXGRAMMAR_ENABLE_INTERNAL_CHECK=0)
objects=$folder/objects
rm -rf "$objects" && mkdir "$objects"
find "$source/cpp" -name '*.cc' -not -path '*/tvm_ffi/*' -printf '%s %p\n' | sort -rn | cut -d' ' -f2 >"$objects/files"
echo src/grammar/grammar_library.cc >>"$objects/files"
xargs -P "$(nproc)" -I{} sh -c 'out=$1/$(echo "$2" | tr / _).o; shift; file=$1; shift; exec "$@" -c "$file" -o "$out"' \
  sh "$objects" {} "${compiler[@]}" "${flags[@]}" <"$objects/files"
g++ -shared -Wl,-Bsymbolic -Wl,--no-undefined -o "$library.new" "$objects"/*.o -pthread
strip --strip-unneeded "$library.new"
mv "$library.new" "$library"
rm -rf "$objects" "$source"
echo "$settings" >"$folder/settings"

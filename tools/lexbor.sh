#!/usr/bin/env bash
# lexbor.sh: builds build/lexbor/liblexbor.a, which reads HTML's tokens (src/document/), of lexbor's C sources; they lie in
# the source distribution of PyPI's selectolax. Every build folder links it. A second run finds it built and does nothing.
#   lexbor.sh         by gcc, for the programs
#   lexbor.sh fuzz    by clang, build/lexbor/liblexbor_fuzz.a, whose steps the fuzzers see
# GRAFT_SELECTOLAX names a source distribution that lies here already.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.0.2
sha256=f0508ad927aa426425d4aa7a2bb2f8b21c01412534465bd227e241d4d0a6a418
kind=${1:-}
folder=build/lexbor
library=$folder/liblexbor${kind:+_$kind}.a

mkdir -p "$folder"
# Builds of several folders may begin at once.
exec 9>"$folder/lock" && flock 9
settings="$version $(sha256sum <"$0")"
[ -f "$library" ] && [ -d "$folder/include" ] && [ "$settings" = "$(cat "$library.settings" 2>/dev/null)" ] && exit

fetch() {
  python3 -m venv "$folder/venv" &&
    "$folder/venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps --no-binary selectolax \
      -d "$folder" "selectolax==$version"
}
archive=$folder/selectolax-$version.tar.gz
if [ -n "${GRAFT_SELECTOLAX:-}" ]; then
  cp "$GRAFT_SELECTOLAX" "$archive"
elif [ ! -f "$archive" ]; then
  fetch || {
    echo "lexbor's sources, by which HTML is read, could not be fetched from PyPI (python3-venv is needed, too). Where PyPI" >&2
    echo "cannot be reached, fetch them elsewhere and name the file in GRAFT_SELECTOLAX:" >&2
    echo "  pip download --no-deps --no-binary selectolax selectolax==$version" >&2
    echo "  GRAFT_SELECTOLAX=\$PWD/selectolax-$version.tar.gz make build" >&2
    exit 1
  }
fi
rm -rf "$folder/venv"
echo "$sha256  $archive" | sha256sum -c --quiet || { rm "$archive"; exit 1; }
rm -rf "$folder/selectolax-$version"
tar -xf "$archive" -C "$folder"

echo "== building $library of selectolax $version"
source=$folder/selectolax-$version/lexbor/source
compiler=(gcc -O2)
[ "$kind" != fuzz ] || compiler=(clang -O1 -g1 -fsanitize=address,fuzzer-no-link)
command -v ccache >/dev/null && compiler=(env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$PWD" ccache "${compiler[@]}")
flags=(-std=gnu11 -fPIC -fvisibility=hidden -fno-omit-frame-pointer -ffile-prefix-map="$PWD"=. -DLEXBOR_STATIC -I"$source")
objects=$folder/objects
rm -rf "$objects" && mkdir "$objects"
find "$source"/lexbor/{core,ns,tag} "$source"/lexbor/html/token* "$source"/lexbor/dom/interface{s,.c} \
  "$source"/lexbor/ports/posix/lexbor/core/memory.c -name '*.c' >"$objects/files"
# The tree builder stays out. The tokenizer asks it only where there is one.
echo 'void* lxb_html_tree_adjusted_current_node(void* tree) { return (void)tree, (void*)0; }' >"$objects/no_tree.c"
echo "$objects/no_tree.c" >>"$objects/files"
xargs -P "$(nproc)" -I{} sh -c 'out=$1/$(echo "$2" | tr / _).o; shift; file=$1; shift; exec "$@" -c "$file" -o "$out"' \
  sh "$objects" {} "${compiler[@]}" "${flags[@]}" <"$objects/files"
rm -f "$library.new"
ar rcs "$library.new" "$objects"/*.o
# The headers, and the licence, which goes with every program that is handed on. Headers of this version stay as they
# are, since builds that go on meanwhile read them. A run that ends on the way leaves no half of them in their place.
if [ ! -d "$folder/include" ] || [ "$version" != "$(cat "$folder/headers_version" 2>/dev/null)" ]; then
  rm -rf "$folder/headers_version" "$folder/include.new" && mkdir "$folder/include.new"
  (cd "$source" && find lexbor -name '*.h' -exec cp --parents {} "$OLDPWD/$folder/include.new" \;)
  rm -rf "$folder/include"
  mv "$folder/include.new" "$folder/include"
  echo "$version" >"$folder/headers_version"
fi
cp "$source/../LICENSE" "$source/../NOTICE" "$folder"
mv "$library.new" "$library"
rm -rf "$objects" "$folder/selectolax-$version"
echo "$settings" >"$library.settings"

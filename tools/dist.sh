#!/usr/bin/env bash
# dist.sh: builds the dist preset and packs build/dist/graft-VERSION-linux-ARCH.tar.zst: the program for every
# GPU architecture, stripped, with all libraries (loader and C library, too), the demo model and the
# license. With nvcc it checks by cuobjdump what the program has for GPUs (tools/cuda_code.py). Then starts it once from an empty folder: a server, one completion. graft.tar beside it is the
# same, for packaging/Containerfile.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dist graft
if grep -q '^CMAKE_CUDA_COMPILER:.*=/' build/dist/CMakeCache.txt; then python3 tools/cuda_code.py build/dist/graft; fi
tools/grammar.sh
cp build/grammar/libgraft_grammar.so build/dist/
version=$(build/dist/graft --version)
version=${version##* }
name=graft-$version-linux-$(uname -m)
stage=build/dist/stage/graft
rm -rf build/dist/stage
mkdir -p "$stage/bin" "$stage/lib"

strip -o "$stage/lib/graft" build/dist/graft
cp packaging/launcher.sh "$stage/bin/graft"
# What the program opens itself: for several machines, for tokenizers of sentencepiece, for answers in a given form.
modules=(libgraft_cluster.so libgraft_sentencepiece.so libgraft_grammar.so)
for module in "${modules[@]}"; do strip -o "$stage/lib/$module" "build/dist/$module"; done
for binary in graft "${modules[@]}"; do
  # "libx.so => /lib/libx.so (address)", and the loader, which has no arrow.
  ldd "build/dist/$binary" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | xargs -I{} cp -Lu {} "$stage/lib/"
done
# libcurl is opened by name, too, but is the machine's own library, with what it needs.
curl=$(ldconfig -p | awk '$1 == "libcurl.so.4" && !found {print $NF; found = 1}')
[ -n "$curl" ] || { echo "libcurl.so.4 is missing: tools/install.sh dist installs it" >&2; exit 1; }
cp -Lu "$curl" "$stage/lib/libcurl.so.4"
ldd "$curl" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | xargs -I{} cp -Lu {} "$stage/lib/"
loader=$(ldd build/dist/graft | awk '$2 != "=>" && $1 ~ /^\// {print $1}')
cp -Lu "$loader" "$stage/lib/ld-linux.so"
# What the C library opens by name: conversions of host names.
for library in libnss_dns.so.2 libnss_files.so.2 libresolv.so.2; do
  found=$(ldconfig -p | awk -v name="$library" '$1 == name {print $NF; exit}')
  [ -z "$found" ] || cp -Lu "$found" "$stage/lib/"
done
cp -r demo "$stage/demo"
tools/licenses.sh "$stage/licenses"
cp LICENSE README.md build/dist/graft*.service packaging/*.yaml "$stage/"
tar -C build/dist/stage --owner=0 --group=0 --sort=name -cf build/dist/graft.tar graft
zstd -q -f -T0 -15 build/dist/graft.tar -o "build/dist/$name.tar.zst"
echo "== build/dist/$name.tar.zst: $(du -h "build/dist/$name.tar.zst" | cut -f1)"

empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
zstd -q -d -c "build/dist/$name.tar.zst" | tar -C "$empty" -xf -
# Nothing of this machine may be needed but what the archive brings.
outside=$(for binary in graft "${modules[@]}" libcurl.so.4; do
  "$empty/graft/lib/ld-linux.so" --library-path "$empty/graft/lib" --list "$empty/graft/lib/$binary"
done | awk -v own="$empty/" '$2 == "=>" && index($3, own) != 1' | grep -v linux-vdso || true)
[ -z "$outside" ] || { echo "libraries from outside the archive: $outside" >&2; exit 1; }
cd "$empty"
python3 "$OLDPWD/tools/try_program.py" graft/bin/graft graft/demo

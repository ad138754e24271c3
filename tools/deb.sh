#!/usr/bin/env bash
# deb.sh: builds the dist preset and packs build/dist/graft_VERSION_ARCH.deb: /usr/bin/graft with its
# libraries, systemd units with their config files, the demo model.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dist graft
tools/grammar.sh
tools/licenses.sh build/dist/licenses
rm -f build/dist/*.deb
(cd build/dist && cpack -G DEB >cpack.log 2>&1) || { cat build/dist/cpack.log; exit 1; }
ls build/dist/*.deb

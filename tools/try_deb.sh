#!/usr/bin/env bash
# try_deb.sh: installs the package of tools/deb.sh with apt, serves from it once, and removes it. Needs to be
# root, or sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(ls "$PWD"/build/dist/*.deb)
sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo)
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --reinstall "$package" >/dev/null
trap '"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq graft >/dev/null' EXIT
python3 tools/try_program.py /usr/bin/graft /usr/share/graft/demo
# The unit's own command, as far as its config file goes.
grep -q '^ExecStart=/usr/bin/graft serve --config /etc/graft/graft.yaml$' /lib/systemd/system/graft.service
test -r /etc/graft/graft.yaml
if command -v systemd-analyze >/dev/null; then systemd-analyze verify graft.service; fi

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
units=(graft graft-runner graft-frontend)
for unit in "${units[@]}"; do
  systemd-analyze verify "$unit.service"
  # 0 is shut, 10 is open. What stays open is the network, the GPUs' devices and the loader's memory.
  systemd-analyze security --offline=yes --threshold=25 --no-pager "$unit.service" >/dev/null
done
# Their commands and config files, on ports that are free here.
port() { python3 -c 'import sys; sys.path.insert(0, "tools"); import local_server; print(local_server.free_port())'; }
GRAFT_PORT=$(port) python3 tools/try_units.py graft
rpc_port=$(port)
GRAFT_PORT=$(port) GRAFT_RPC_PORT=$rpc_port GRAFT_RUNNERS=127.0.0.1:$rpc_port python3 tools/try_units.py graft-runner graft-frontend

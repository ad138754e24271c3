#!/usr/bin/env bash
# Installs what is missing: `install.sh build` for the release binary, `install.sh test` for every check.
# Debian 12. A second run finds everything there and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(
  g++ cmake ninja-build ccache pkg-config git python3
  libboost1.81-dev libcli11-dev libpcre2-dev libsentencepiece-dev libspdlog-dev
  libicu-dev libsqlite3-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev
)
test_packages=(
  clang clang-format clang-tidy libclang-rt-14-dev libdnnl-dev libgtest-dev libgmock-dev openssl python3-venv
)

packages=("${build_packages[@]}")
[ "${1:-build}" = test ] && packages+=("${test_packages[@]}")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "== installing ${missing[*]}"
  sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "not root and no sudo: install these packages first" >&2; exit 1; }
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" > /dev/null
fi

if [ "${1:-build}" = test ] && ! cmp -s tests/requirements.txt build/venv/requirements.txt; then
  echo "== installing the Python clients that the whole-program tests use (build/venv)"
  rm -rf build/venv
  python3 -m venv build/venv
  build/venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt
  cp tests/requirements.txt build/venv/requirements.txt
fi

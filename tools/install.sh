#!/usr/bin/env bash
# Installs what is missing on Debian 12. A second run finds everything there and does nothing.
#   install.sh demo       for the release binary that serves by itself
#   install.sh build      and what several machines need: gRPC
#   install.sh grammar    what answers in a given form need: XGrammar, built (tools/grammar.sh)
#   install.sh test       for `make test`: and clang, a linker that is quick, Python clients with clang-format
#   install.sh test-all   for every check: and clang's tools and libraries to compare with
#   install.sh dist       for the archive and the package
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-build}

packages=(
  g++ cmake ninja-build ccache pkg-config git python3
  libboost1.81-dev libcli11-dev libpcre2-dev libsentencepiece-dev libspdlog-dev
  libicu-dev libsqlite3-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev libjs-dygraphs
  libcurl4-openssl-dev  # fetches models and adapters
  python3-venv  # fetches lexbor's sources (tools/lexbor.sh)
)
case $what in build | test | test-all | dist)
  # What it needs of protobuf libgrpc++-dev only recommends.
  packages+=(libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler) ;;
esac
case $what in test | test-all) packages+=(
  clang libclang-rt-14-dev libgtest-dev libgmock-dev mold openssl etcd-server etcd-client
  poppler-utils  # pdftotext, which reads documents that are PDFs
) ;; esac
case $what in dist | test-all) packages+=(dpkg-dev zstd) ;; esac
case $what in grammar) packages=(g++ ccache python3-venv) ;; esac
case $what in test-all) packages+=(clang-tidy libdnnl-dev chromium-headless-shell) ;; esac

installed=$(dpkg-query -W -f='${binary:Package} ${Status}\n' | sed -n 's/ install ok installed$//p' | sed 's/:.*//')
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "== installing ${missing[*]}"
  sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "not root and no sudo: install these packages first" >&2; exit 1; }
    sudo=(sudo)
  fi
  # Without writing each file through to the disk: a machine that fails meanwhile installs once more.
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Options::=--force-unsafe-io "${missing[@]}" > /dev/null
fi

python_packages() {  # FOLDER REQUIREMENTS WHAT
  cmp -s "$2" "$1/requirements.txt" && return
  echo "== installing $3 ($1)"
  rm -rf "$1"
  python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check -r "$2"
  cp "$2" "$1/requirements.txt"
}
# The one waits for the network, the other computes.
packages_of_tests=
case $what in test | test-all)
  python_packages build/venv tests/requirements.txt \
    "the Python clients that the whole-program tests use, and clang-format" &
  packages_of_tests=$! ;;
esac
case $what in grammar) ;; *) tools/lexbor.sh ;; esac
case $what in grammar | test | test-all) tools/grammar.sh ;; esac
[ -z "$packages_of_tests" ] || wait "$packages_of_tests"
# The toolkit has it, packages of the compiler alone do not.
case $what in dist | test-all)
  if { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null &&
    ! { command -v cuobjdump || [ -x /usr/local/cuda/bin/cuobjdump ]; } >/dev/null; then
    python_packages build/venv-cuda tools/cuda_code.requirements.txt "cuobjdump"
  fi ;;
esac
case $what in test-all)
  python_packages build/venv-ray tests/deploy_ray/requirements.txt "Ray"
  python_packages build/venv-agents tests/agent_clients/requirements.txt "libraries of agents"
  python_packages build/venv-stores tests/stores/requirements.txt "a store like S3" ;;
esac

#!/usr/bin/env bash
# Convert real assets to OpenUSD and compare the bridge with the originals.
#
# `tools/test_robots.sh robots` (make test-robots): URDFs, /tf against pinocchio.
# `tools/test_robots.sh assets` (make test-assets): URDFs and MJCFs, the bridge's MuJoCo against pinocchio and MuJoCo.
#
# Environment: VENV (the bridge's environment, default .venv), ROBOTS_PYTHON (a Python 3.10 to 3.12 for the conversion
# environment; searched if unset). Further arguments go to pytest: `tools/test_robots.sh robots -k ur5`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly REQUIREMENTS=tools/robots-requirements.txt
readonly MODELS=tools/robots-models.txt
readonly ROBOTS_VENV=.venv-robots
readonly BRIDGE_PYTHON="${VENV:-.venv}/bin/python"

suite="${1:-}"
fail() { echo "test-$suite: $*" >&2; exit 1; }
say() { echo "test-$suite: $*" >&2; }

case "$suite" in
  robots) tests=test/robots prepare=prepare_robots.py prepared=build/robots variable=USD_ROS_BRIDGE_ROBOTS ;;
  assets) tests=test/real_assets prepare=prepare_assets.py prepared=build/real_assets variable=USD_ROS_BRIDGE_ASSETS ;;
  *) echo "usage: tools/test_robots.sh robots|assets [PYTEST_ARGUMENT...]" >&2; exit 2 ;;
esac
shift

# Variables of a sourced ROS 2 or of the ROS wheels would make the conversion environment's Python use another pinocchio
# and other libraries.
clean() {
  env -u PYTHONPATH -u PYTHONHOME -u LD_LIBRARY_PATH -u AMENT_PREFIX_PATH -u CMAKE_PREFIX_PATH \
    -u _ROS_WHEELS_BOOTSTRAP_COMPLETE "$@"
}

# tinyobjloader, which the converter needs, has no wheel for Python 3.13.
usable_python() { clean "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null; }

find_python() {
  local candidate
  if [[ -n "${ROBOTS_PYTHON:-}" ]]; then
    usable_python "$ROBOTS_PYTHON" || fail "ROBOTS_PYTHON=$ROBOTS_PYTHON is no Python 3.10 to 3.12 with venv and ensurepip"
    echo "$ROBOTS_PYTHON"
    return
  fi
  for candidate in "$BRIDGE_PYTHON" python3 python3.12 python3.11 python3.10 /usr/bin/python3; do
    if usable_python "$candidate"; then
      # The base interpreter: an environment made from another environment breaks when that one is rebuilt.
      clean "$candidate" -c 'import os, sys; print(os.path.realpath(sys._base_executable))'
      return
    fi
  done
  fail "urdf-usd-converter needs a Python 3.10 to 3.12 with venv and ensurepip, and none was found; set ROBOTS_PYTHON"
}

make_environment() {
  local python stamp
  stamp="$ROBOTS_VENV/.installed-$(cat "$REQUIREMENTS" "$MODELS" | sha256sum | cut -c1-16)"
  if [[ -e "$stamp" ]] && "$ROBOTS_VENV/bin/python" -c '' 2>/dev/null; then
    return
  fi
  python=$(find_python)
  say "installing the converters, the robots and pinocchio into $ROBOTS_VENV (about 2 GB, once)"
  rm -rf "$ROBOTS_VENV"
  clean "$python" -m venv "$ROBOTS_VENV" || fail "could not create $ROBOTS_VENV with $python"
  clean "$ROBOTS_VENV/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --requirement "$REQUIREMENTS" \
    || fail "could not install $REQUIREMENTS"
  clean "$ROBOTS_VENV/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --no-deps --requirement "$MODELS" \
    || fail "could not install $MODELS"
  # Written last: an interrupted installation is repeated.
  touch "$stamp"
}

[[ -x "$BRIDGE_PYTHON" ]] || fail "$BRIDGE_PYTHON is missing: run 'make setup' first"
make_environment
clean "$ROBOTS_VENV/bin/python" "$tests/$prepare" "$prepared" || fail "the conversion failed"
exec env "$variable=$PWD/$prepared" "$BRIDGE_PYTHON" -m pytest "$tests" "$@"

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

readonly ROBOTS_VENV=.venv-robots
readonly BRIDGE_PYTHON="${VENV:-.venv}/bin/python"

suite="${1:-}"
fail() { echo "test-$suite: $*" >&2; exit 1; }

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

[[ -x "$BRIDGE_PYTHON" ]] || fail "$BRIDGE_PYTHON is missing: run 'make setup' first"
[[ -e "$ROBOTS_VENV" ]] || echo "test-$suite: installing the converters, the robots and pinocchio (about 2 GB, once)" >&2
"$BRIDGE_PYTHON" tools/robots_environment.py "$ROBOTS_VENV" || fail "could not make $ROBOTS_VENV"
clean "$ROBOTS_VENV/bin/python" "$tests/$prepare" "$prepared" || fail "the conversion failed"
exec env "$variable=$PWD/$prepared" "USD_ROS_CONVERTER=$PWD/$ROBOTS_VENV/bin/python" "$BRIDGE_PYTHON" -m pytest "$tests" "$@"

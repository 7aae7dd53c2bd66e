#!/usr/bin/env bash
# Test the example plug-ins as users get them, from wheels: `make test-plugins`.
#
# Each folder of examples/plugins/ is built into a wheel. A clean environment of its own gets this wheel with its extra
# `test`, and the wheels of dist/ (`make dist`). The plug-in's test/ then runs in a copy outside of the repository, so
# that nothing of the repository can be imported.
#
#     tools/test_plugins.sh [NAME...]     only the plug-ins in the folders of these names
#
# If a plug-in's folder has an executable prepare.sh, it is called before the tests, in their directory. Its argument is
# the environment's Python.
#
# Environment: VENV (the bridge's environment, default .venv), PYTEST_ARGS (more arguments for pytest).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Keep a sourced ROS 2 or an activated environment out of these environments.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH AMENT_PREFIX_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE
export ROS_PYTHON_CHECK_FIELDS=1 ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST

readonly ROOT=$PWD
readonly BUILD_PYTHON=$ROOT/.venv-dist/bin/python
readonly BRIDGE_PYTHON=$ROOT/${VENV:-.venv}/bin/python
readonly COUNT='
import sys
from xml.etree import ElementTree
suites = ElementTree.parse(sys.argv[1]).getroot().iter("testsuite")
numbers = [[int(each.get(key)) for key in ("tests", "failures", "errors", "skipped")] for each in suites]
tests, *others = map(sum, zip(*numbers))
print(tests - sum(others))'
fail() { echo "test-plugins: $*" >&2; exit 1; }

[[ -x "$BUILD_PYTHON" && -e dist ]] || fail "there are no wheels: run 'make dist' first"
bridge=("$ROOT"/dist/usd_ros_bridge-*.whl)
# Its interfaces are chosen by pip, of those for several distributions.
distro=$("$BRIDGE_PYTHON" -c '
from importlib.metadata import version
print({"7": "jazzy", "9": "kilted"}[version("ros-rclpy").split(".")[0]])')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Build the wheel of a copy: a build leaves folders in the source.
build() { # NAME
  cp -r "$ROOT/examples/plugins/$1" "$work/source"
  mkdir -p "$work/wheels"
  if ! "$BUILD_PYTHON" -m build --no-isolation --wheel --outdir "$work/wheels" "$work/source" >"$work/log" 2>&1; then
    tail -n 20 "$work/log" >&2
    return 1
  fi
}

install() {
  local wheels=("$work"/wheels/*.whl)
  "$("$BRIDGE_PYTHON" -c 'import sys; print(sys._base_executable)')" -m venv "$work/venv"
  "$work/venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --find-links "$ROOT/dist" \
    "${wheels[0]}[test]" "${bridge[0]}" "usd_ros_bridge[$distro]"
}

# Run its tests, and say on how many passed: a plug-in without any is a failure, too.
run() { # NAME
  mkdir "$work/tests"
  cp -r "$ROOT/examples/plugins/$1/test" "$work/tests/test"
  cd "$work/tests"
  "$work/venv/bin/python" -c '
import sys, usd_ros_bridge
sys.exit(None if usd_ros_bridge.__file__.startswith(sys.prefix) else f"imported from {usd_ros_bridge.__file__}")'
  if [[ -x "$ROOT/examples/plugins/$1/prepare.sh" ]]; then "$ROOT/examples/plugins/$1/prepare.sh" "$work/venv/bin/python"; fi
  # shellcheck disable=SC2086 # several arguments
  "$work/venv/bin/pytest" -q -p no:cacheprovider --import-mode=importlib --junitxml="$work/result.xml" test ${PYTEST_ARGS:-}
}

names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for folder in examples/plugins/*/; do [[ -e "$folder/pyproject.toml" ]] && names+=("$(basename "$folder")"); done
fi
[[ ${#names[@]} -gt 0 ]] || fail "there is no plug-in in examples/plugins"

failed=()
summary=()
for name in "${names[@]}"; do
  [[ -e "examples/plugins/$name/pyproject.toml" ]] || fail "examples/plugins/$name is no plug-in"
  begin=$SECONDS
  rm -rf "${work:?}"/*
  echo "== $name"
  if (build "$name" && install && run "$name") </dev/null; then passed=yes; else passed=; fi
  count=0
  if [[ -e "$work/result.xml" ]]; then count=$("$BRIDGE_PYTHON" -c "$COUNT" "$work/result.xml"); fi
  if [[ -z "$passed" || "$count" -eq 0 ]]; then failed+=("$name"); fi
  summary+=("$name: $count tests passed, $((SECONDS - begin)) s")
done

printf 'test-plugins: %s\n' "${summary[@]}"
[[ ${#failed[@]} -eq 0 ]] || fail "failed: ${failed[*]}"

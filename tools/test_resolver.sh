#!/usr/bin/env bash
# Build the compiled resolver for package://. Run the tests of packages with and without it, and those of the reader with it, on
# the same OpenUSD: `make test-resolver`. Needs a C++17 compiler and Python's headers. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/own_venv.sh
# Keep a sourced ROS 2 or an activated environment out of this environment.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE AMENT_PREFIX_PATH USD_ROS_PACKAGE_PATH
unset PXR_PLUGINPATH_NAME PXR_AR_DISABLE_PLUGIN_URI_RESOLVERS

readonly RESOLVER_VENV=.venv-resolver
readonly REQUIREMENTS=tools/resolver-requirements.txt

if needs_venv "$RESOLVER_VENV" "$REQUIREMENTS" setup.py; then
  echo "test-resolver: installing OpenUSD and its headers into $RESOLVER_VENV (about 280 MB, once)" >&2
  new_venv
  install --requirement "$REQUIREMENTS"
  install --no-deps --editable .
  venv_is_whole
fi
# Only in this environment: a developer's own build is not touched.
export XDG_DATA_HOME="$PWD/$RESOLVER_VENV/share"
built=$("$RESOLVER_VENV/bin/usd_ros_bridge" resolver --build)
say() { echo "test-resolver: $*" >&2; }
tests() { "$RESOLVER_VENV/bin/python" -m pytest -p no:cacheprovider -q -r fE "$@"; }
readonly PACKAGES=(test/unit/usd/test_packages.py test/unit/usd/test_resolver.py)

# EXPECTED_WAY makes tests fail if another way is in use, so no test is skipped silently.
say "links"
EXPECTED_WAY=links XDG_DATA_HOME="$PWD/$RESOLVER_VENV/nothing" tests "${PACKAGES[@]}" "$@"
say "the plugin, registered by the bridge"
EXPECTED_WAY=plugin tests "${PACKAGES[@]}" test/unit/usd/compiled_resolver.py "$@"
say "the plugin, registered as by a host, and all tests that read stages"
EXPECTED_WAY=plugin PXR_PLUGINPATH_NAME="$built" tests test/unit/usd --ignore test/unit/usd/test_resolver.py "$@"

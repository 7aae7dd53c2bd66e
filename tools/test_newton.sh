#!/usr/bin/env bash
# Test the newton backend, and the rules for all backends, in an environment with Newton: `make test-newton`.
# The first run installs about 1 GB and compiles Newton's kernels, which takes half a minute. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/own_venv.sh
# Keep a sourced ROS 2 or an activated environment out of Newton's environment.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE

readonly NEWTON_VENV=.venv-newton
readonly REQUIREMENTS=tools/newton-requirements.txt

if needs_venv "$NEWTON_VENV" "$REQUIREMENTS" setup.py; then
  echo "test-newton: installing Newton into $NEWTON_VENV (about 1 GB, once)" >&2
  new_venv
  install --requirement "$REQUIREMENTS"
  install --no-deps --editable .
  venv_is_whole
fi
exec "$NEWTON_VENV/bin/python" -m pytest -p no:cacheprovider test/newton test/conformance/test_backends.py "$@"

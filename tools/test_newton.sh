#!/usr/bin/env bash
# Test the newton backend, and the rules for all backends, in an environment with Newton: `make test-newton`.
# The first run installs about 1 GB and compiles Newton's kernels, which takes half a minute. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Keep a sourced ROS 2 or an activated environment out of Newton's environment.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE

readonly NEWTON_VENV=.venv-newton
readonly REQUIREMENTS=tools/newton-requirements.txt

stamp="$NEWTON_VENV/.installed-$(cat "$REQUIREMENTS" setup.py | sha256sum | cut -c1-16)"
if [[ ! -e "$stamp" ]] || ! "$NEWTON_VENV/bin/python" -c '' 2>/dev/null; then
  echo "test-newton: installing Newton into $NEWTON_VENV (about 1 GB, once)" >&2
  rm -rf "$NEWTON_VENV"
  "${PYTHON:-python3}" -m venv "$NEWTON_VENV"
  "$NEWTON_VENV/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --requirement "$REQUIREMENTS"
  "$NEWTON_VENV/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --no-deps --editable .
  # Written last: an interrupted installation is repeated.
  touch "$stamp"
fi
exec "$NEWTON_VENV/bin/python" -m pytest -p no:cacheprovider test/newton test/conformance/test_backends.py "$@"

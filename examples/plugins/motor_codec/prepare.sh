#!/usr/bin/env bash
# Build motor_msgs, and install it beside the plug-in: ./prepare.sh PYTHON, the Python of an environment with the bridge.
# With colcon, build motor_msgs as any other message package.
set -euo pipefail
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
here=$(dirname "${BASH_SOURCE[0]}")
"$1" "$here/../../../tools/message_packages.py" "$here/motor_msgs" --wheel-dir "$wheels"
"$1" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/*.whl

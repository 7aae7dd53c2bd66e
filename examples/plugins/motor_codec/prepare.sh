#!/usr/bin/env bash
# Build motor_msgs, and install it beside the plug-in: ./prepare.sh PYTHON, the Python of an environment with the bridge.
# With colcon, build motor_msgs as any other message package.
set -euo pipefail
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$1" -m usd_ros_bridge.testing.message_packages "$(dirname "${BASH_SOURCE[0]}")/motor_msgs" --wheel-dir "$wheels"
"$1" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/*.whl

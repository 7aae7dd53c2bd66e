#!/usr/bin/env bash
# Source ROS 2, OpenUSD's environment and the workspace, then become the command of the container.
set -eo pipefail
# shellcheck disable=SC1090,SC1091
source "/opt/ros/$ROS_DISTRO/setup.bash"
# shellcheck disable=SC1091
source /opt/usd/bin/activate
# shellcheck disable=SC1091
source /workspace/install/setup.bash
# `ros2 run` passes no signal on: started by its own name, the bridge gets that of `docker stop`.
PATH="$PATH:/workspace/install/usd_ros_bridge/lib/usd_ros_bridge"
exec "$@"

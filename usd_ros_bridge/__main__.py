"""Run the command line: `python -m usd_ros_bridge`."""

from usd_ros_bridge.entry_points import usd_ros_bridge

usd_ros_bridge()

"""Run the command line: `python -m usd_ros_bridge.cli`."""

from usd_ros_bridge.cli.main import main

main()

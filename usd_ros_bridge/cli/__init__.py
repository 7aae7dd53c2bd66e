"""The command line, `usd_ros_bridge`: its commands, and the views that they print."""

"""The command line, `usd_ros_bridge`: one module per command, and the views that they print."""

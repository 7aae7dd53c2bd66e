"""The page in a browser: a ROS 2 client in a process of its own that shows robots and drives them (viser)."""

"""ROS 2: the only package that imports rclpy and message packages."""

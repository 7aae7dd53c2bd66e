"""The commands topic, service, action and param: what ros2cli's do, where only rclpy is installed."""

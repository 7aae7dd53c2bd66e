"""Wire: serialized messages, written in place and sent. Numpy and rclpy, nothing of the bridge."""

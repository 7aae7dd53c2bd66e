"""Endpoints: the rclpy side of each kind of interface, opened, closed and shown by the bridge."""

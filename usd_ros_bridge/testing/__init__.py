"""Helpers for your own tests: reserved ROS domains, and the graph of a bridge as text."""

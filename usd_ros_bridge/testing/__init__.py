"""Helpers for your own tests: pytest fixtures and launch actions, ROS domains, the graph of a bridge as text."""

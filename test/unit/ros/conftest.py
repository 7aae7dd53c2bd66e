"""Tests of usd_ros_bridge.ros that open no node: they need rclpy's message types, and no middleware."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")

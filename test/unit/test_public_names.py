"""What `usd_ros_bridge` exports resolves when it is asked for: the names are loaded late, from texts."""

from __future__ import annotations

import pytest

import usd_ros_bridge


@pytest.mark.parametrize("name", usd_ros_bridge.__all__)
def test_a_public_name_resolves(name: str) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    if name in ("MujocoBackend", "build_spec", "compile_model"):
        pytest.importorskip("mujoco", reason="mujoco is not installed")
    assert getattr(usd_ros_bridge, name).__name__.rpartition(".")[2] == name

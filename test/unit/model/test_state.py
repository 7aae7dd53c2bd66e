"""Commands: what was written is cleared, and what nobody asked for need not be looked at."""

from __future__ import annotations

import numpy as np
import pytest

from usd_ros_bridge.model.state import Commands, Layout

ARRAYS = ("joint_position", "joint_velocity", "joint_effort", "actuator_control", "body_twist", "body_pose")


def new_commands() -> Commands:
    return Commands(Layout(dofs=("a", "b"), bodies=("/a", "/b", "/c")), actuators=2)


@pytest.mark.parametrize("name", ARRAYS)
def test_what_was_written_is_cleared(name: str) -> None:
    commands = new_commands()
    for _ in range(2):
        getattr(commands, name)[1] = 3.0
        commands.clear()
        assert all(np.isnan(getattr(commands, each)).all() for each in ARRAYS)


FLAGS = ("has_position", "has_velocity", "has_effort", "has_controls", "has_bodies")


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("joint_position", "has_position"),
        ("joint_velocity", "has_velocity"),
        ("joint_effort", "has_effort"),
        ("actuator_control", "has_controls"),
        ("body_twist", "has_bodies"),
        ("body_pose", "has_bodies"),
    ],
)
def test_who_asks_for_an_array_is_taken_to_write(name: str, flag: str) -> None:
    commands = new_commands()
    assert not any(getattr(commands, each) for each in FLAGS)
    getattr(commands, name)[0] = 1.0
    assert [each for each in FLAGS if getattr(commands, each)] == [flag]
    commands.clear()
    assert not any(getattr(commands, each) for each in FLAGS)

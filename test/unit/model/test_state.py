"""Commands: what was written is cleared, and what nobody asked for need not be looked at."""

from __future__ import annotations

import numpy as np
import pytest

from usd_ros_bridge.model.state import Commands, Layout

ARRAYS = ("joint_position", "joint_velocity", "joint_effort", "body_twist", "body_pose")


def new_commands() -> Commands:
    return Commands(Layout(dofs=("a", "b"), bodies=("/a", "/b", "/c")))


@pytest.mark.parametrize("name", ARRAYS)
def test_what_was_written_is_cleared(name: str) -> None:
    commands = new_commands()
    for _ in range(2):
        getattr(commands, name)[1] = 3.0
        commands.clear()
        assert all(np.isnan(getattr(commands, each)).all() for each in ARRAYS)


@pytest.mark.parametrize(
    ("name", "effort", "bodies"),
    [
        ("joint_position", False, False),
        ("joint_velocity", False, False),
        ("joint_effort", True, False),
        ("body_twist", False, True),
        ("body_pose", False, True),
    ],
)
def test_who_asks_for_an_array_is_taken_to_write(name: str, effort: bool, bodies: bool) -> None:
    commands = new_commands()
    assert (commands.has_effort, commands.has_bodies) == (False, False)
    getattr(commands, name)[0] = 1.0
    assert (commands.has_effort, commands.has_bodies) == (effort, bodies)
    commands.clear()
    assert (commands.has_effort, commands.has_bodies) == (False, False)

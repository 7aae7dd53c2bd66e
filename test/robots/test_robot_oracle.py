"""The measuring instruments of the robot tests: they see errors of the size they are to judge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from robot_oracle import (
    IDENTITY,
    MAX_ANGLE_ERROR,
    MAX_POSITION_ERROR,
    Configuration,
    Errors,
    Pose,
    distance,
    multiply,
    poses_from_tf,
)


def turn(axis: tuple[float, float, float], angle: float) -> Pose:
    return Pose(np.zeros(3), np.array([*(math.sin(angle / 2) * np.array(axis)), math.cos(angle / 2)]))


def shift(x: float, y: float, z: float) -> Pose:
    return Pose(np.array([x, y, z]), IDENTITY.rotation)


@pytest.mark.parametrize("angle", [1e-12, 1e-9, 1e-6, 1.0, math.pi])
def test_rotation_distance_keeps_its_digits(angle: float) -> None:
    start = turn((0.6, 0.0, 0.8), 2.1)
    assert distance(start, start @ turn((0.0, 1.0, 0.0), angle))[1] == pytest.approx(angle, rel=1e-3)


def test_a_quaternion_and_its_negative_are_the_same_rotation() -> None:
    pose = turn((1.0, 0.0, 0.0), 0.7)
    assert distance(pose, Pose(pose.translation, -pose.rotation)) == (0.0, pytest.approx(0.0, abs=1e-15))


def test_composition_turns_what_it_carries() -> None:
    quarter = turn((0.0, 0.0, 1.0), math.pi / 2)
    pose = quarter @ shift(1.0, 0.0, 0.0)
    np.testing.assert_allclose(pose.translation, [0.0, 1.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(multiply(quarter.rotation, quarter.rotation), [0.0, 0.0, 1.0, 0.0], atol=1e-15)


def test_chains_are_composed_from_the_root_whatever_the_order() -> None:
    transforms = {
        "tip": ("link", shift(0.0, 0.0, 1.0)),
        "link": ("base", turn((1.0, 0.0, 0.0), math.pi / 2)),
        "base": ("robot", shift(1.0, 0.0, 0.0)),
        "robot": ("world", shift(5.0, 5.0, 5.0)),
        "stray": ("elsewhere", IDENTITY),
    }
    poses = poses_from_tf(transforms, "robot")
    assert poses.keys() == {"robot", "base", "link", "tip"}
    np.testing.assert_allclose(poses["tip"].translation, [1.0, -1.0, 0.0], atol=1e-15)


def test_a_cycle_is_reported() -> None:
    with pytest.raises(ValueError, match="cycle"):
        poses_from_tf({"a": ("b", IDENTITY), "b": ("a", IDENTITY)}, "robot")


@pytest.mark.parametrize(
    "wrong",
    [
        shift(1.5 * MAX_POSITION_ERROR, 0.0, 0.0),
        turn((0.0, 1.0, 0.0), 1.5 * MAX_ANGLE_ERROR),
        shift(math.nan, 0.0, 0.0),
        Pose(np.zeros(3), np.full(4, math.nan)),
    ],
    ids=["position", "angle", "position NaN", "angle NaN"],
)
def test_one_wrong_pose_among_many_right_ones_is_found(wrong: Pose) -> None:
    configuration = Configuration({}, {}, {"a": IDENTITY, "b": IDENTITY})
    errors = Errors()
    errors.compare(configuration, {"a": IDENTITY, "b": IDENTITY})
    assert errors.small
    errors.compare(configuration, {"a": IDENTITY, "b": wrong})
    errors.compare(configuration, {"a": IDENTITY, "b": IDENTITY})
    assert not errors.small
    assert (errors.configurations, errors.poses, errors.frames) == (3, 6, 2)
    assert "b" in (errors.position_at, errors.angle_at)

"""Frames of headers against transforms composed by hand; trails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge import load_plan
from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.view.header_frames import HeaderFrames
from usd_ros_bridge.view.layer_drawings import TRAIL_POINTS, Trail
from usd_ros_bridge.view.tf_poses import FramePoses

pytestmark = pytest.mark.app

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def fleet():
    return load_plan(EXAMPLES / "fleet" / "fleet.usda")


def headers_of(plan):
    return HeaderFrames(plan, FramePoses(plan))


def test_at_rest_frames_are_where_the_asset_has_them(fleet):
    found = headers_of(fleet)
    for number, robot in enumerate(fleet.robots):
        for frame in robot.frames:
            if frame.carrier >= 0 and frame.path == fleet.layout.bodies[frame.carrier]:
                np.testing.assert_allclose(
                    found.pose(number, frame.id)[:3], fleet.layout.body_pose[frame.carrier][:3], atol=1e-6
                )


def test_odometry_begins_where_the_robot_stands(fleet):
    found = headers_of(fleet)
    poses = [found.pose(number, "odom")[:3].tolist() for number in range(2)]
    assert poses[0] != poses[1]
    for number in range(2):
        np.testing.assert_allclose(poses[number], found.pose(number, "base_link")[:3], atol=1e-9)


def test_a_frame_may_have_its_robots_prefix(fleet):
    robot = replace(
        fleet.robots[0], tf_outputs=(TfOutput(tf="/tf", tf_static="/tf_static", prefix="rover_1/"),)
    )
    plan = replace(fleet, robots=(robot, *fleet.robots[1:]))
    found = headers_of(plan)
    np.testing.assert_array_equal(found.pose(0, "rover_1/lidar_link"), found.pose(0, "lidar_link"))
    assert found.pose(0, "rover_2/lidar_link") is None


def test_the_fixed_frame_is_the_origin(fleet):
    assert headers_of(fleet).pose(2, "world").tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert headers_of(fleet).pose(-1, "world").tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_a_frame_that_nobody_knows_has_no_pose(fleet):
    assert headers_of(fleet).pose(0, "map") is None
    assert headers_of(fleet).pose(-1, "map") is None


def test_a_trail_has_points_apart_and_forgets_the_oldest():
    trail = Trail()
    for number in range(TRAIL_POINTS + 500):
        assert trail.add(np.array([0.02 * number, 0.0, 0.0]))
        assert not trail.add(np.array([0.02 * number + 0.001, 0.0, 0.0]))
    lines = trail.segments()
    assert lines.shape == (TRAIL_POINTS - 1, 2, 3)
    np.testing.assert_allclose(lines[0, 0, 0], 0.02 * 500, rtol=1e-5)
    np.testing.assert_array_equal(lines[1:, 0], lines[:-1, 1])


def test_a_trail_begins_anew_after_a_jump_and_ignores_what_is_no_place():
    trail = Trail()
    for x in (0.0, 0.1, 5.0, 5.1):
        trail.add(np.array([x, 0.0, 0.0]))
    assert not trail.add(np.array([np.nan, 0.0, 0.0]))
    np.testing.assert_allclose(trail.segments()[:, :, 0], [[5.0, 5.1]], rtol=1e-6)

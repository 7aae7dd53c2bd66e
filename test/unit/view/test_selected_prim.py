"""What the page says about a selection of the example rover and arm."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.plans import PlanBuilder
from usd_ros_bridge import load_plan
from usd_ros_bridge.model.physics import Body, Box, Capsule, Cylinder, PhysicsScene, Sphere, Visual
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import pose_array, rotate
from usd_ros_bridge.view.selected_prim import (
    MAX_INTERFACES,
    box_edges,
    frame_bounds,
    interface_rows,
    pose_text,
    qos_text,
    selection_rows,
)

pytestmark = pytest.mark.app

RANDOM = np.random.default_rng(3)
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def rover():
    return load_plan(EXAMPLES / "rover" / "world.usda", physics=True)


@pytest.fixture(scope="module")
def arm():
    return load_plan(EXAMPLES / "arm" / "arm.usda", physics=True)


def test_a_link_shows_its_prim_its_frame_and_its_joint(arm):
    rows = selection_rows(arm, 0, "link_2", "/arm/base_link/link_1/link_2/visuals/tube")
    assert rows == [
        ("prim", "/arm/base_link/link_1/link_2"),
        ("shape", "/arm/base_link/link_1/link_2/visuals/tube"),
        ("frame", "link_2 in link_1 (moving)"),
        ("joint", "joint_2 (revolute Y), -90 to 120 °"),
    ]


def test_limits_of_a_sliding_joint_are_in_metres_and_a_follower_says_so(arm):
    assert ("joint", "right_finger_joint (prismatic Y), 0 to 0.04 m, follows another") in selection_rows(
        arm, 0, "right_finger", ""
    )


def test_a_sensor_shows_its_topic_with_rate_and_qos(rover):
    rows = dict(selection_rows(rover, 0, "lidar_link", ""))
    assert rows["publisher"] == "/rover/scan, sensor_msgs/msg/LaserScan, 10 Hz, reliable depth 5"


def test_a_prim_has_the_interfaces_below_it_and_no_others(rover):
    whole = interface_rows(rover, "/World/rover")
    assert {name for name, _ in whole} == {"publisher", "subscription", "server"}
    assert len(whole) == 8
    assert interface_rows(rover, "/World/rove") == []
    assert interface_rows(rover, "") == []


def test_of_many_interfaces_some_are_listed(rover):
    many = replace(
        rover,
        topics=tuple(replace(rover.topics[0], path=f"/World/rover/topic_{i}") for i in range(50)),
        services=(),
    )
    rows = interface_rows(many, "/World/rover")
    assert len(rows) == MAX_INTERFACES + 1
    assert rows[-1] == ("...", "30 more interfaces")


def test_an_interface_that_is_off_says_why(rover):
    topic = replace(rover.topics[0], enabled=False, reason="its rate is 0")
    rows = interface_rows(replace(rover, topics=(topic,), services=()), "/World/rover")
    assert rows[0][1].endswith(", off: its rate is 0")


def test_scenery_shows_its_prim_alone(rover):
    assert selection_rows(rover, -1, "", "/World/walls/north") == [("prim", "/World/walls/north")]
    assert selection_rows(rover, 99, "base_link", "/World/x") == [("prim", "/World/x")]


def test_poses_are_metres_and_degrees():
    half = math.sqrt(0.5)
    pose = np.array([1.0, -2.5, -1e-9, 0.0, 0.0, half, half])
    assert pose_text(pose) == "xyz 1.000 -2.500 0.000 m, rpy 0.0 0.0 90.0°"


def test_qos_leaves_out_what_is_usual():
    assert qos_text(QosPlan()) == "reliable depth 10"
    latched = QosPlan(durability="transient_local", history="keep_all", reliability="best_effort")
    assert qos_text(latched) == "best effort transient local keep all"


def test_bounds_enclose_all_shapes_of_a_link(rover):
    low, high = frame_bounds(rover, 0, "left_wheel")
    np.testing.assert_allclose(high - low, [0.2, 0.04, 0.2], atol=0.02)
    np.testing.assert_allclose(0.5 * (low + high), 0.0, atol=0.02)


def test_bounds_are_those_of_the_body_in_the_frame_that_it_carries(rover):
    base, lidar = frame_bounds(rover, 0, "base_link"), frame_bounds(rover, 0, "lidar_link")
    offset = next(
        each for each in rover.robots[0].frames if each.id == "lidar_link"
    ).parent_from_frame.translation
    np.testing.assert_allclose(base[0] - offset, lidar[0], atol=1e-9)
    np.testing.assert_allclose(base[1] - offset, lidar[1], atol=1e-9)


def test_bounds_of_meshes_are_those_of_their_points(arm):
    low, high = frame_bounds(arm, 0, "link_2")
    assert np.isfinite([low, high]).all()
    assert (high > low).all()


def test_nothing_has_no_bounds(rover):
    assert frame_bounds(rover, 0, "nowhere") is None
    assert frame_bounds(rover, 5, "base_link") is None
    assert frame_bounds(replace(rover, physics=None), 0, "base_link") is None


@pytest.mark.parametrize(
    ("shape", "points"),
    [
        (Sphere(0.3), lambda n: 0.3 * unit(n)),
        (Box((0.1, 0.2, 0.3)), lambda n: RANDOM.choice([-1, 1], (n, 3)) * (0.1, 0.2, 0.3)),
        (Cylinder(0.2, 0.4), lambda n: np.column_stack([0.2 * circle(n), RANDOM.choice([-0.4, 0.4], n)])),
        (Capsule(0.2, 0.4), lambda n: 0.2 * unit(n) + np.outer(RANDOM.choice([-0.4, 0.4], n), (0, 0, 1))),
    ],
)
def test_bounds_touch_turned_shapes(shape, points):
    half = math.sqrt(0.5)
    for rotation in ((0.0, 0.0, 0.0, 1.0), (half, 0.0, 0.0, half), tuple(unit(1, 4)[0])):
        pose = Pose((1.0, 2.0, 3.0), rotation)
        body = Body(path="/body", row=0)
        physics = PhysicsScene(
            bodies=(body,), visuals=(Visual(path="/body/v", body=0, body_from_shape=pose, shape=shape),)
        )
        builder = PlanBuilder()
        builder.robot("/robot").body("base")
        plan = replace(builder.build(), physics=physics)
        low, high = frame_bounds(plan, 0, "base")
        at = pose_array(pose)
        surface = at[:3] + rotate(at[3:], points(200_000))
        np.testing.assert_allclose(low, surface.min(axis=0), atol=2e-3)
        np.testing.assert_allclose(high, surface.max(axis=0), atol=2e-3)


def unit(count, size=3):
    """Random unit vectors."""
    vectors = RANDOM.normal(size=(count, size))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def circle(count):
    angles = RANDOM.uniform(-math.pi, math.pi, count)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def test_a_box_has_twelve_edges_along_the_axes():
    edges = box_edges(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 6.0]))
    assert edges.shape == (12, 2, 3)
    lengths = np.abs(edges[:, 1] - edges[:, 0])
    assert ((lengths > 0).sum(axis=1) == 1).all()
    assert sorted(lengths.sum(axis=1)) == [1] * 4 + [2] * 4 + [4] * 4

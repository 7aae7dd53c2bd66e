"""Edges against products of their poses, whichever of their components the angle reaches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.plans import Axis, PlanBuilder
from case_tables import each_case
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.runtime.kinematics import group_edges
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, axis_rotation, compose, inverse, pose_array

HALF = 0.5**0.5
ALIGNED = (Pose(), Pose((0.1, -0.2, 0.3)))
TURNED = (
    Pose((0.1, 0.0, 0.0), (0.0, HALF, 0.0, HALF)),
    Pose((0.0, 0.0, 0.2), (0.5, -0.5, 0.5, 0.5)),
    Pose((0.0, 0.1, 0.0), (0.0, 1.0, 0.0, 0.0)),
    Pose((0.3, 0.2, 0.1), (0.1, 0.7, -0.1, 0.7)),
)
"""The last one is about no axis."""
CROSSED = (Pose((0.1, 0.0, 0.0), (0.0, 0.0, 0.6, 0.8)), Pose((0.0, 0.0, 0.0), (0.0, 0.0, -0.6, 0.8)))
"""About x or y, half a turn is one component, as of aligned joints, though nothing is aligned at zero."""


@st.composite
def joint_ends(draw: st.DrawFn) -> tuple[Pose, Pose]:
    """Where a joint sits in its bodies: without a turn, turned there and back as exporters do, or anyhow."""
    kind = draw(st.sampled_from(["aligned", "there and back", "crossed", "any"]))
    if kind == "aligned":
        return draw(st.sampled_from(ALIGNED)), Pose()
    if kind == "crossed":
        return CROSSED
    start = draw(st.sampled_from(TURNED))
    if kind == "there and back":
        return start, Pose((0.0, 0.0, 0.0), start.rotation)
    return start, draw(st.sampled_from((*ALIGNED, *TURNED)))


def chain(joints: list[tuple[Axis, bool, tuple[Pose, Pose]]]) -> BridgePlan:
    robot = PlanBuilder().robot()
    robot.body("body0")
    for index, (axis, inverted, ends) in enumerate(joints):
        robot.body(f"body{index + 1}")
        robot.joint(
            f"joint{index}",
            f"body{index}",
            f"body{index + 1}",
            axis=axis,
            body0_from_joint=ends[inverted],
            body1_from_joint=ends[not inverted],
            inverted=inverted,
        )
    return robot.plan.build()


def poses(plan: BridgePlan, position: FloatArray) -> FloatArray:
    robot = plan.robots[0]
    components, groups = group_edges([(robot, edge) for edge in robot.edges])
    for group in groups:
        group.write(position)
    return components.T


def expected(plan: BridgePlan, position: FloatArray) -> FloatArray:
    """`parent_from_child` of each joint by composition."""
    result = []
    for joint in plan.robots[0].joints:
        axis = np.eye(3)["XYZ".index(str(joint.axis))]
        turn = np.concatenate((np.zeros(3), axis_rotation(axis, position[joint.dofs[0].row])))
        body0_from_joint, body1_from_joint = map(pose_array, (joint.body0_from_joint, joint.body1_from_joint))
        body0_from_body1 = compose(compose(body0_from_joint, turn), inverse(body1_from_joint))
        result.append(inverse(body0_from_body1) if joint.inverted else body0_from_body1)
    return np.array(result)


AXES = st.sampled_from(["X", "Y", "Z"])
JOINTS = st.lists(st.tuples(AXES, st.booleans(), joint_ends()), min_size=1, max_size=6)
ALIGNED_JOINTS = st.lists(
    st.tuples(AXES, st.booleans(), st.tuples(st.sampled_from(ALIGNED), st.just(Pose()))),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(st.one_of(JOINTS, ALIGNED_JOINTS), st.data())
def test_rotations_are_exact_whatever_the_axes(
    joints: list[tuple[Axis, bool, tuple[Pose, Pose]]], data: st.DataObject
) -> None:
    plan = chain(joints)
    angle = st.one_of(st.floats(-10.0, 10.0), st.sampled_from([0.0, np.pi, -np.pi, 2.0 * np.pi]))
    position = np.array(data.draw(st.lists(angle, min_size=len(joints), max_size=len(joints))))
    np.testing.assert_allclose(poses(plan, position), expected(plan, position), rtol=0.0, atol=2e-15)


@pytest.mark.parametrize("turned", [False, True])
def test_joint_frames_turned_there_and_back_leave_clean_zeros(turned: bool) -> None:
    """A joint about y, authored so or as a turn about x in a frame that was turned: the same numbers either way."""
    y_from_x = Pose((0.0, 0.0, 0.1), (0.0, 0.0, HALF, HALF))
    ends = (y_from_x, Pose((0.0, 0.0, 0.0), y_from_x.rotation)) if turned else (Pose((0.0, 0.0, 0.1)), Pose())
    plan = chain([("X" if turned else "Y", False, ends)] * 3)
    actual = poses(plan, np.array([0.5, -1.0, 2.0]))
    assert (actual[:, [0, 1, 3, 5]] == 0.0).all()
    np.testing.assert_allclose(actual[:, 4], np.sin([0.25, -0.5, 1.0]), rtol=0.0, atol=1e-15)


@each_case("ends", [(ALIGNED[1], Pose()), CROSSED, (TURNED[3], TURNED[1])])
def test_an_unknown_position_spoils_its_own_edge_while_it_is_unknown(ends: tuple[Pose, Pose]) -> None:
    plan = chain([("X", False, ends), ("Y", False, ends), ("X", True, ends)])
    robot = plan.robots[0]
    components, groups = group_edges([(robot, edge) for edge in robot.edges])
    for middle in (np.nan, 0.3):
        position = np.array([0.1, middle, 0.2])
        for group in groups:
            group.write(position)
        known = np.isfinite(position)
        assert np.isfinite(components).all(axis=0).tolist() == known.tolist()
        np.testing.assert_allclose(components.T[known], expected(plan, position)[known], rtol=0.0, atol=2e-15)


def test_edges_with_and_without_levers_and_slides_share_the_array() -> None:
    """Groups whose edges do not lie side by side."""
    robot = PlanBuilder().robot()
    robot.body("body0")
    lever = Pose((0.0, 0.5, 0.1))
    for index, (kind, end) in enumerate(
        [
            ("revolute", Pose()),
            ("prismatic", Pose()),
            ("revolute", lever),
            ("fixed", lever),
            ("revolute", Pose()),
        ]
    ):
        robot.body(f"body{index + 1}")
        robot.joint(f"joint{index}", "body0", f"body{index + 1}", kind=kind, axis="X", body1_from_joint=end)
    plan = robot.plan.build()
    robot_plan = plan.robots[0]
    position = np.array([0.3, 0.4, 0.5, 0.6])
    components, groups = group_edges([(robot_plan, edge) for edge in robot_plan.edges])
    varying = np.zeros(components.shape, dtype=bool)
    for group in groups:
        group.mark_varying(varying)
    moving = set(np.flatnonzero(varying[:3].any(axis=0)).tolist())
    for group in groups:
        group.write(position)
    for edge, joint in enumerate(robot_plan.joints):
        value = position[joint.dofs[0].row] if joint.dofs else 0.0
        turn = axis_rotation(np.array([1.0, 0.0, 0.0]), np.array(value))
        slide = np.array([value, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        motion = slide if joint.type == "prismatic" else np.concatenate((np.zeros(3), turn))
        pose = compose(motion, inverse(pose_array(joint.body1_from_joint)))
        np.testing.assert_allclose(components[:, edge], pose, rtol=0.0, atol=2e-15)
    assert moving == {1, 2}

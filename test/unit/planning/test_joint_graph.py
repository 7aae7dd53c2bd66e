"""The joint graph: orientation, cycles, several joints on an edge, adoption; random trees against authored poses."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from builders.records import Stage, arm, found, frames, joints, turn
from usd_ros_bridge.model.plan import BridgePlan, EdgePlan, RobotPlan
from usd_ros_bridge.model.records import ArticulationRootRecord
from usd_ros_bridge.model.stage import XformRecord
from usd_ros_bridge.spatial import transforms as t
from usd_ros_bridge.spatial.pose import Pose

AXES = ["transX", "transY", "transZ", "rotX", "rotY", "rotZ"]


def as_array(pose: Pose) -> NDArray[np.float64]:
    return np.array([*pose.translation, *pose.rotation])


def motion(axis: str, value: float) -> NDArray[np.float64]:
    unit = np.eye(3)["XYZ".index(axis[-1])]
    return (
        t.pose(unit * value)
        if axis.startswith("trans")
        else t.pose(rotation=t.axis_rotation(unit, np.array(value)))
    )


def edge_pose(robot: RobotPlan, edge: EdgePlan) -> NDArray[np.float64]:
    """parent_from_child at rest, worked out from the plan alone as EdgePlan and JointPlan define it."""
    parts = [robot.joints[index] for index in edge.joints]
    if len(parts) == 1:
        (joint,) = parts
        moved = as_array(joint.body0_from_joint)
        for dof in joint.dofs:
            moved = t.compose(moved, motion(dof.axis, dof.position))
        body0_from_body1 = t.compose(moved, t.inverse(as_array(joint.body1_from_joint)))
        return t.inverse(body0_from_body1) if joint.inverted else body0_from_body1
    result = t.IDENTITY
    for joint in parts:
        frame = as_array(joint.body1_from_joint if joint.inverted else joint.body0_from_joint)
        for dof in joint.dofs[::-1] if joint.inverted else joint.dofs:
            step = motion(dof.axis, -dof.position if joint.inverted else dof.position)
            result = t.compose(result, t.compose(t.compose(frame, step), t.inverse(frame)))
    return t.compose(result, as_array(edge.rest))


def same(first: NDArray[np.float64], second: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(first[:3], second[:3], atol=1e-6)
    assert abs(np.dot(first[3:], second[3:])) > 1 - 1e-10


def world_poses(plan: BridgePlan) -> dict[str, NDArray[np.float64]]:
    return dict(zip(plan.layout.bodies, plan.layout.body_pose, strict=True))


coordinate = st.floats(-2.0, 2.0).map(lambda v: round(v, 3))
vector = st.tuples(coordinate, coordinate, coordinate)
quaternion = st.tuples(coordinate, coordinate, coordinate, st.floats(0.3, 2.0))


@st.composite
def trees(draw: st.DrawFn) -> tuple[Stage, int, bool]:
    """Bodies anywhere, each joined to an earlier one by consistent joint frames, either way round."""
    count = draw(st.integers(2, 8))
    stage = Stage()
    stage.xform("/robot", draw(vector), draw(quaternion))
    stage.context("/robot")
    bodies = [stage.body(f"/robot/b{number}", draw(vector), draw(quaternion)) for number in range(count)]
    world = [t.decompose(np.reshape(stage.xforms[body].world_from_prim, (4, 4)))[0] for body in bodies]
    anchored = draw(st.booleans())
    if anchored:
        stage.joint("/robot/anchor", None, bodies[draw(st.integers(0, count - 1))], "Fixed")
    for number in range(1, count):
        other = draw(st.integers(0, number - 1))
        first, second = (number, other) if draw(st.booleans()) else (other, number)
        kind = draw(st.sampled_from(["Revolute", "Prismatic", "Fixed", "Spherical"]))
        letter = draw(st.sampled_from("XYZ"))
        # Positions below float32's noise are taken for none, and a long lever would show that here.
        angle = draw(st.floats(-3.0, 3.0).map(lambda v: round(v, 3)))
        local0 = t.pose(draw(vector), t.normalized(np.array(draw(quaternion))))
        step = {
            "Revolute": motion(f"rot{letter}", angle),
            "Prismatic": motion(f"trans{letter}", angle),
            "Fixed": t.IDENTITY,
            "Spherical": t.compose(motion("rotX", angle), motion("rotY", angle / 3)),
        }[kind]
        joint = t.compose(t.compose(world[first], local0), step)
        local1 = t.relative(world[second], joint)
        stage.joint(
            f"/robot/j{number}",
            bodies[first],
            bodies[second],
            kind,
            axis=letter,
            local_pos0=tuple(local0[:3]),
            local_rot0=tuple(local0[3:]),
            local_pos1=tuple(local1[:3]),
            local_rot1=tuple(local1[3:]),
        )
    return stage, count, anchored


@settings(max_examples=25, deadline=None)
@given(trees())
def test_random_trees_are_oriented_and_meet_the_authored_poses(drawn: tuple[Stage, int, bool]) -> None:
    stage, count, anchored = drawn
    plan = stage.plan()
    (robot,) = plan.robots
    assert len(robot.edges) == len(robot.joints) == count - 1 + anchored
    assert found(plan, "1.3.cycle") == found(plan, "1.3.pose") == []
    reached = {"/robot"} if anchored else {plan.layout.bodies[robot.base_row]}
    authored = {p: t.decompose(np.reshape(x.world_from_prim, (4, 4)))[0] for p, x in stage.xforms.items()}
    for edge in robot.edges:
        assert edge.parent_path in reached
        assert edge.child_path not in reached
        reached.add(edge.child_path)
        (joint,) = (robot.joints[index] for index in edge.joints)
        record = next(r for r in stage.parts["joints"] if r.path == joint.path)
        assert joint.inverted is (record.body0 == (edge.child_path,))
        same(edge_pose(robot, edge), t.relative(authored[edge.parent_path], authored[edge.child_path]))
    for path, pose in world_poses(plan).items():
        same(pose, authored[path])
    by_index = list(robot.frames)
    for number, frame in enumerate(by_index):
        assert frame.parent_index < number
        parent = t.IDENTITY if frame.parent_index < 0 else authored[by_index[frame.parent_index].path]
        same(as_array(frame.parent_from_frame), t.relative(parent, authored[frame.path]))
    assert (robot.base == -1) is anchored


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25))
def test_random_graphs_become_forests_that_drop_the_last_joint_of_each_cycle(
    count: int, pairs: list[tuple[int, int]]
) -> None:
    stage = Stage()
    stage.context()
    for number in range(count):
        stage.body(f"/robot/b{number}")
    kept: list[set[int]] = []
    expected, groups = [], set()
    for number, pair in enumerate(pairs):
        first, second = (end % count for end in pair)
        stage.joint(f"/robot/j{number}", f"/robot/b{first}", f"/robot/b{second}", "Fixed")
        if first == second or frozenset((first, second)) in groups:
            continue
        groups.add(frozenset((first, second)))
        ours = [group for group in kept if group & {first, second}]
        if not any({first, second} <= group for group in ours):
            expected.append(f"/robot/j{number}")
            kept = [group for group in kept if group not in ours] + [set.union({first, second}, *ours)]
    (robot,) = stage.plan().robots
    assert [joint.path for joint in robot.joints] == expected


def test_the_last_joint_of_a_cycle_is_dropped_with_a_warning() -> None:
    stage = arm()
    stage.joint("/robot/closing", "/robot/link_2", "/robot/base", "Fixed")
    plan = stage.plan()
    assert "closing" not in joints(plan)
    (diagnostic,) = found(plan, "1.3.cycle")
    assert (diagnostic.severity, diagnostic.path) == ("warning", "/robot/closing")
    assert "excludeFromArticulation" in diagnostic.remedy


def test_a_second_anchor_closes_a_cycle_through_the_world() -> None:
    stage = arm()
    stage.joint("/robot/again", None, "/robot/link_2", "Fixed")
    assert found(stage.plan(), "1.3.cycle")[0].path == "/robot/again"


def several(
    *specs: tuple[str, str], swap: bool = False, rot: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0)
) -> Stage:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    stage.body("/robot/ball", (0.0, 0.0, 1.0), rot)
    if not swap:
        stage.joint("/robot/anchor", None, "/robot/base", "Fixed")
    else:
        stage.joint("/robot/anchor", None, "/robot/ball", "Fixed")
    for number, (kind, axis) in enumerate(specs):
        stage.joint(
            f"/robot/h{number}", "/robot/base", "/robot/ball", kind, axis=axis, local_pos0=(0.0, 0.0, 1.0)
        )
    return stage


def test_several_joints_between_two_bodies_are_one_edge() -> None:
    rot = t.quaternion_multiply(np.array(turn("X", 20.0)), np.array(turn("Y", -35.0)))
    for swap in (False, True):
        stage = several(
            ("Revolute", "X"), ("Revolute", "Y"), ("Revolute", "Z"), swap=swap, rot=tuple(rot.tolist())
        )
        plan = stage.plan()
        (robot,) = plan.robots
        edge = robot.edges[1]
        assert [robot.joints[index].name for index in edge.joints] == ["h0", "h1", "h2"]
        authored = {p: t.decompose(np.reshape(x.world_from_prim, (4, 4)))[0] for p, x in stage.xforms.items()}
        same(edge_pose(robot, edge), t.relative(authored[edge.parent_path], authored[edge.child_path]))
        if not swap:
            assert np.degrees([joints(plan)[f"h{i}"].dofs[0].position for i in range(3)]).round(
                6
            ).tolist() == [20.0, -35.0, 0.0]


def test_more_joints_than_freedoms_add_nothing() -> None:
    stage = Stage()
    stage.context()
    for name in ("base", "link"):
        stage.body(f"/robot/{name}")
    for number in range(40):
        stage.joint(
            f"/robot/j{number}", "/robot/base", "/robot/link", local_pos0=(0.0, float(number), 0.0), axis="X"
        )
    plan = stage.plan()
    assert len(joints(plan)) == 6
    assert len(found(plan, "1.3.joint.several")) == 34


def test_joints_that_are_together_freer_than_a_body_make_no_edge() -> None:
    plan = several(("Spherical", "X"), ("Revolute", "X"), ("Spherical", "X"), ("Revolute", "Y")).plan()
    assert len(plan.layout.dofs) == 5
    (diagnostic,) = found(plan, "1.3.joint.several")
    assert diagnostic.path == "/robot/h2"
    assert "more than 6 degrees of freedom" in diagnostic.message


def test_the_two_hinges_of_a_door_are_one_freedom() -> None:
    plan = several(("Revolute", "Z"), ("Revolute", "Z")).plan()
    assert len(plan.layout.dofs) == 1
    assert found(plan, "1.3.joint.several")[0].path == "/robot/h1"


def test_a_fixed_joint_beside_others_holds() -> None:
    plan = several(("Revolute", "Z"), ("Fixed", "Z")).plan()
    assert frames(plan)["ball"].static
    assert plan.layout.dofs == ()


def test_the_root_of_a_floating_tree() -> None:
    stage = Stage()
    stage.context()
    for name in ("wheel", "base", "arm"):
        stage.body(f"/robot/{name}")
    stage.joint("/robot/axle", "/robot/base", "/robot/wheel")
    stage.joint("/robot/shoulder", "/robot/base", "/robot/arm")
    plan = stage.plan()
    assert plan.layout.bodies[plan.robots[0].base_row] == "/robot/base"  # nobody's child
    stage.add("articulation_roots", ArticulationRootRecord(path="/robot/arm"))
    stage.add("articulation_roots", ArticulationRootRecord(path="/robot/wheel"))
    plan = stage.plan()
    assert plan.layout.bodies[plan.robots[0].base_row] == "/robot/wheel"
    assert joints(plan)["axle"].inverted
    assert found(plan, "1.3.articulation")[0].severity == "warning"


def test_a_joint_between_two_robots_makes_no_edge() -> None:
    stage = Stage(default_prim="/w")
    arm(stage, "/w/one")
    arm(stage, "/w/two")
    stage.joint("/w/bridge", "/w/one/link_2", "/w/two/base", "Fixed")
    plan = stage.plan()
    assert found(plan, "1.3.joint.robots")[0].path == "/w/bridge"
    assert [len(robot.edges) for robot in plan.robots] == [3, 3]


def test_a_body_outside_every_context_belongs_to_the_robot_it_is_joined_to() -> None:
    stage = Stage(default_prim="/w")
    arm(stage, "/w/robot")
    stage.body("/w/tool", (0.0, 0.0, 1.2))
    stage.joint("/w/mount", "/w/robot/link_2", "/w/tool", "Fixed", local_pos0=(0.0, 0.0, 0.2))
    stage.body("/w/door")
    stage.joint("/w/hinge", None, "/w/door")
    plan = stage.plan()
    assert frames(plan)["tool"].parent == "link_2"
    assert "/w/door" not in plan.layout.bodies


def test_a_body_with_an_unusable_transform_is_left_out_and_its_children_hang_further_up() -> None:
    stage = arm()
    broken = stage.xforms["/robot/link_1"]
    values = [float("nan"), *broken.world_from_prim[1:]]
    stage.xforms["/robot/link_1"] = XformRecord(
        path=broken.path, type_name="Xform", world_from_prim=tuple(values)
    )
    plan = stage.plan()
    assert set(frames(plan)) == {"robot", "base", "link_2"}
    assert frames(plan)["link_2"].parent == "base"
    assert frames(plan)["link_2"].edge == -1
    assert not frames(plan)["link_2"].static
    np.testing.assert_allclose(frames(plan)["link_2"].parent_from_frame.translation, (0.0, 0.0, 1.0))
    assert np.isfinite(plan.layout.body_pose).all()
    assert [d.path for d in found(plan, "1.1.transform")] == ["/robot/link_1"]

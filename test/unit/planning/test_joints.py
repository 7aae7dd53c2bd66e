"""Joints: ends, kinds, limits, names, order, mimic rules, initial positions (REP 0158 sections 1.3 and 2.10)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from builders.records import Stage, arm, found, frames, joints, turn
from case_tables import each_case
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import MimicPlan
from usd_ros_bridge.model.records import AxisLimitRecord, DriveRecord, IsaacJointRecord, IsaacRobotRecord
from usd_ros_bridge.model.stage import StageMetrics
from usd_ros_bridge.planning.kinematics.mimic import collapse_chains

INF = math.inf


def pair(
    type_name: str = "Revolute", *, at: Any = (0.0, 0.0, 0.0), rot: Any = (0.0, 0.0, 0.0, 1.0), **values: Any
) -> Stage:
    """Base fixed to the world, and a link on one joint called `j`."""
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    stage.body("/robot/link", at, rot)
    stage.joint("/robot/anchor", None, "/robot/base", "Fixed")
    stage.joint("/robot/j", "/robot/base", "/robot/link", type_name, **values)
    return stage


@each_case(
    ("type_name", "values", "kind", "axes"),
    [
        ("Revolute", {"axis": "X"}, "revolute", ["rotX"]),
        ("Revolute", {"lower_limit": None}, "continuous", ["rotZ"]),
        ("Revolute", {"lower_limit": 0.0, "upper_limit": INF}, "revolute", ["rotZ"]),
        ("Prismatic", {"axis": "Y"}, "prismatic", ["transY"]),
        ("Fixed", {}, "fixed", []),
        ("Spherical", {}, "spherical", ["rotX", "rotY", "rotZ"]),
        ("Distance", {}, "distance", []),
        (
            "Generic",
            {
                "limits": tuple(
                    AxisLimitRecord(path="/robot/j", axis=a, low=1.0, high=-1.0)
                    for a in ("transX", "transY", "transZ", "rotX", "rotY")
                )
            },
            "generic",
            ["rotZ"],
        ),
        ("Generic", {}, "generic", ["transX", "transY", "transZ", "rotX", "rotY", "rotZ"]),
    ],
)
def test_kinds_and_degrees_of_freedom(
    type_name: str, values: dict[str, Any], kind: str, axes: list[str]
) -> None:
    plan = pair(type_name, **values).plan()
    joint = joints(plan)["j"]
    assert joint.type == kind
    assert [dof.axis for dof in joint.dofs] == axes
    assert joint.axis == (axes[0][-1] if len(axes) == 1 else None)
    assert frames(plan)["link"].static is (kind == "fixed")
    assert plan.robots[0].edges[1].rigid is (kind == "fixed")


def test_limits_are_radians_and_metres() -> None:
    (dof,) = joints(pair(lower_limit=-45.0, upper_limit=90.0).plan())["j"].dofs
    assert (dof.lower, dof.upper) == pytest.approx((-math.pi / 4, math.pi / 2))
    stage = pair("Prismatic", lower_limit=-10.0, upper_limit=20.0)
    stage.metrics = StageMetrics(meters_per_unit=0.01, up_axis="Z", time_codes_per_second=1.0)
    (dof,) = joints(stage.plan())["j"].dofs
    assert (dof.lower, dof.upper) == pytest.approx((-0.1, 0.2))


def test_prismatic_limits_ignore_the_parents_scale() -> None:
    """As OpenUSD's own parser: limits are in stage units."""
    stage = Stage()
    stage.context()
    stage.body("/robot/base", scale=(1.0, 1.0, 3.0))
    stage.body("/robot/link", (0.0, 0.0, 0.3))
    stage.joint(
        "/robot/j",
        "/robot/base",
        "/robot/link",
        "Prismatic",
        axis="X",
        local_rot0=turn("Y", 90),
        local_rot1=turn("Y", 90),
        lower_limit=-1.0,
        upper_limit=1.0,
    )
    plan = stage.plan()
    (dof,) = joints(plan)["j"].dofs
    assert (dof.lower, dof.upper) == pytest.approx((-1.0, 1.0))
    assert abs(dof.position) == pytest.approx(0.3)
    assert found(plan, "1.1.scale")[0].path == "/robot/base"


@each_case("type_name", ["Revolute", "Prismatic"])
def test_crossed_limits_lock_the_axis(type_name: str) -> None:
    plan = pair(type_name, lower_limit=10.0, upper_limit=-10.0).plan()
    assert joints(plan)["j"].type == "fixed"
    assert joints(plan)["j"].dofs == ()
    assert frames(plan)["link"].static
    assert found(plan, "1.3.limits")[0].severity == "warning"


def test_limits_that_are_not_numbers_do_not_limit() -> None:
    plan = pair(lower_limit=math.nan, upper_limit=90.0).plan()
    (dof,) = joints(plan)["j"].dofs
    assert (dof.lower, dof.upper) == (-INF, pytest.approx(math.pi / 2))
    (diagnostic,) = [d for d in found(plan, "1.3.limits") if d.severity == "error"]
    assert "'nan'" in diagnostic.message


@each_case("far", [INF, 3.4e38])
def test_limits_as_far_out_as_the_axis_is_free_are_none(far: float) -> None:
    plan = pair(lower_limit=-far, upper_limit=far).plan()
    assert joints(plan)["j"].type == "continuous"
    assert found(plan, "1.3.limits") == []


@each_case("values", [{"lower_limit": INF}, {"upper_limit": -INF}, {"lower_limit": 3.4e38}])
def test_no_position_is_within_limits_at_the_wrong_end(values: dict[str, float]) -> None:
    plan = pair(**{"lower_limit": -90.0, "upper_limit": 90.0, **values}).plan()
    (dof,) = joints(plan)["j"].dofs
    assert math.isinf(dof.lower) is not math.isinf(dof.upper)
    assert dof.lower <= 0.0 <= dof.upper
    assert "error" in {d.severity for d in found(plan, "1.3.limits")}


def test_cone_angles_limit_the_other_two_axes() -> None:
    joint = joints(pair("Spherical", axis="X", cone_angle0=30.0, cone_angle1=60.0).plan())["j"]
    upper = {dof.axis: dof.upper for dof in joint.dofs}
    assert upper == pytest.approx({"rotX": INF, "rotZ": math.pi / 6, "rotY": math.pi / 3})
    assert [dof.name for dof in joint.dofs] == ["j_rx", "j_ry", "j_rz"]


def test_unknown_limit_axes_are_ignored() -> None:
    plan = pair("Generic", limits=(AxisLimitRecord(path="/robot/j", axis="roll", low=0.0),)).plan()
    assert len(joints(plan)["j"].dofs) == 6
    assert "'roll'" in found(plan, "1.3.limits")[0].message


# --- Ends -------------------------------------------------------------------------------------------------------


@each_case("name", ["physics:body0", "physics:localRot1", "physics:axis"])
def test_a_joint_that_could_be_anywhere_makes_no_edge(name: str) -> None:
    plan = pair(invalid=(name,)).plan()
    assert set(joints(plan)) == {"anchor"}


def test_an_end_resolves_to_the_nearest_body_above() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    stage.body("/robot/link", (1.0, 0.0, 0.0))
    stage.xform("/robot/base/mount", (1.0, 0.0, 0.0))
    stage.joint("/robot/j", "/robot/base/mount", "/robot/link")
    joint = joints(stage.plan())["j"]
    assert (joint.parent_path, joint.child_path) == ("/robot/base", "/robot/link")
    assert joint.body0_from_joint.translation == (1.0, 0.0, 0.0)


@each_case(
    ("ends", "what"),
    [
        ((None, None), "neither end"),
        (("/robot/base", "/robot/base"), "both ends"),
        (("/robot/base", "/robot/nowhere"), "'/robot/nowhere' does not exist"),
        (("/robot", None), "neither end"),
    ],
)
def test_ends_that_connect_nothing_are_errors(ends: tuple[Any, Any], what: str) -> None:
    stage = arm()
    stage.joint("/robot/bad", *ends)
    plan = stage.plan()
    assert "bad" not in joints(plan)
    (diagnostic,) = found(plan, "1.3.joint.target")
    assert diagnostic.severity == "error"
    assert what in diagnostic.message
    assert len(plan.robots[0].joints) == 3


def test_a_disabled_body_is_none() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    stage.body("/robot/off", enabled=False)
    stage.joint("/robot/j", "/robot/off", "/robot/base")
    plan = stage.plan()
    assert joints(plan)["j"].parent_path == "/robot"
    assert plan.layout.bodies == ("/robot/base",)


@each_case(
    ("values", "code", "severity"),
    [
        ({"enabled": False}, "1.3.joint.disabled", "info"),
        ({"exclude_from_articulation": True}, "1.3.joint.excluded", "info"),
        ({"axis": "W"}, "1.3.joint.axis", "error"),
        ({"local_pos0": (math.nan, 0.0, 0.0)}, "1.3.joint.frame", "error"),
        ({"local_rot1": (0.0, 0.0, 0.0, 0.0)}, "1.3.joint.frame", "error"),
        ({"type_name": "PhysxGear"}, "1.3.joint.type", "warning"),
    ],
)
def test_joints_that_make_no_edge(values: dict[str, Any], code: str, severity: str) -> None:
    plan = pair(**values).plan()
    assert "j" not in joints(plan)
    assert [d.severity for d in found(plan, code)] == [severity]
    assert "link" not in frames(plan)


def test_joints_to_the_world() -> None:
    """An empty end takes the authored pose; a prim as the end counts as authored."""
    stage = Stage()
    stage.context()
    stage.xform("/robot/stand", (0.0, 0.0, 1.0))
    stage.body("/robot/a", (5.0, 0.0, 0.0))
    stage.body("/robot/b", (0.0, 0.0, 1.5))
    stage.joint("/robot/empty", None, "/robot/a", "Fixed")
    stage.joint("/robot/prim", "/robot/stand", "/robot/b", local_pos0=(0.0, 0.0, 0.5))
    plan = stage.plan()
    assert {j.parent_path for j in plan.robots[0].joints} == {"/robot"}
    assert joints(plan)["empty"].body0_from_joint.translation == (5.0, 0.0, 0.0)
    assert joints(plan)["prim"].body0_from_joint.translation == (0.0, 0.0, 1.5)
    assert frames(plan)["a"].parent_from_frame.translation == (5.0, 0.0, 0.0)
    assert frames(plan)["a"].parent == frames(plan)["b"].parent == "robot"


@each_case("swapped", [False, True])
@each_case("moved", [False, True])
def test_an_anchored_hinge_keeps_its_angle_wherever_the_robot_stands(swapped: bool, moved: bool) -> None:
    """The empty end was authored in the asset's own world, so a referenced robot keeps its joint positions."""
    stage = Stage(default_prim="/w")
    stage.xform("/w/robot", (3.0, 1.0, 0.0) if moved else (0.0, 0.0, 0.0), turn("Z", 40.0 if moved else 0.0))
    stage.context("/w/robot", "robot")
    stage.body("/w/robot/door", (0.0, 2.0, 0.0), turn("Z", 30.0))
    ends = {"body0": "/w/robot/door"} if swapped else {"body1": "/w/robot/door"}
    stage.joint("/w/robot/hinge", **ends, **{f"local_pos{int(swapped)}": (0.0, 2.0, 0.0)})
    plan = stage.plan()
    (dof,) = joints(plan)["hinge"].dofs
    assert dof.position == pytest.approx(math.radians(-30.0 if swapped else 30.0), abs=1e-9)
    assert joints(plan)["hinge"].inverted is swapped
    np.testing.assert_allclose(
        frames(plan)["door"].parent_from_frame.translation, (0.0, 2.0, 0.0), atol=1e-12
    )
    np.testing.assert_allclose(frames(plan)["door"].parent_from_frame.rotation, turn("Z", 30.0), atol=1e-12)


def test_a_fixed_joint_of_a_context_that_is_the_body_starts_in_the_world() -> None:
    stage = Stage()
    stage.body("/robot", (1.0, 0.0, 0.0))
    stage.context()
    stage.joint("/robot/anchor", None, "/robot", "Fixed")
    plan = stage.plan()
    (joint,) = plan.robots[0].joints
    assert (joint.parent_path, joint.parent, joint.child) == ("", "world", "robot")
    assert plan.robots[0].frames[0].edge == 0
    assert plan.robots[0].frames[0].static
    assert plan.robots[0].base == -1


# --- Positions --------------------------------------------------------------------------------------------------


def test_positions_are_projected_from_the_authored_poses() -> None:
    plan = pair(at=(0.0, 0.0, 0.0), rot=turn("Z", 30.0)).plan()
    assert joints(plan)["j"].dofs[0].position == pytest.approx(math.radians(30))
    plan = pair("Prismatic", at=(0.0, 0.0, 0.25)).plan()
    assert joints(plan)["j"].dofs[0].position == pytest.approx(0.25)
    assert plan.layout.joint_position.tolist() == pytest.approx([0.25])


def test_an_authored_joint_state_wins_and_moves_the_body() -> None:
    plan = pair(solver_attributes={"state:angular:physics:position": 45.0}).plan()
    assert joints(plan)["j"].dofs[0].position == pytest.approx(math.pi / 4)
    np.testing.assert_allclose(frames(plan)["link"].parent_from_frame.rotation, turn("Z", 45.0), atol=1e-12)
    np.testing.assert_allclose(plan.layout.body_pose[1, 3:], turn("Z", 45.0), atol=1e-12)
    assert found(plan, "1.3.pose")[0].severity == "info"


def test_a_state_that_is_not_finite_is_ignored() -> None:
    plan = pair(solver_attributes={"state:angular:physics:position": math.nan}).plan()
    assert joints(plan)["j"].dofs[0].position == 0.0
    assert found(plan, "1.3.state")[0].severity == "error"


def test_positions_outside_the_limits_stay_as_authored() -> None:
    plan = pair(rot=turn("Z", 120.0)).plan()
    assert joints(plan)["j"].dofs[0].position == pytest.approx(math.radians(120))


def test_poses_that_joint_frames_do_not_meet_give_a_warning() -> None:
    plan = pair(at=(1.0, 0.0, 0.0)).plan()
    assert found(plan, "1.3.pose")[0].severity == "warning"
    assert frames(plan)["link"].parent_from_frame.translation == (0.0, 0.0, 0.0)


def test_a_ball_joints_pose_becomes_three_angles() -> None:
    plan = pair("Spherical", rot=turn("Y", 35.0)).plan()
    assert [dof.position for dof in joints(plan)["j"].dofs] == pytest.approx(
        [0.0, math.radians(35), 0.0], abs=1e-9
    )


# --- Names and order --------------------------------------------------------------------------------------------


def test_an_authored_name_is_never_changed_and_others_make_way() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for side in ("left", "right"):
        stage.body(f"/robot/{side}")
        stage.joint(f"/robot/{side}/finger", "/robot/base", f"/robot/{side}")
    stage.body("/robot/third")
    stage.joint("/robot/third/joint", "/robot/base", "/robot/third", ros_name="finger")
    plan = stage.plan()
    assert {j.path: j.name for j in plan.robots[0].joints} == {
        "/robot/left/finger": "left_finger",
        "/robot/right/finger": "right_finger",
        "/robot/third/joint": "finger",
    }
    assert [d.severity for d in found(plan, "2.10.name")] == ["warning", "warning"]


def test_of_two_prim_names_the_first_stays() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for side in ("left", "right"):
        stage.body(f"/robot/{side}")
        stage.joint(f"/robot/{side}/finger", "/robot/base", f"/robot/{side}")
    assert list(joints(stage.plan())) == ["finger", "right_finger"]


def test_names_that_converters_kept_are_joint_names() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for path, kept, authored in (
        ("left/tn__joint_00_nC", "joint_0.0", None),
        ("right/tn__joint_00_nC", "joint_0.0", None),
        ("left/lift_1", "lift", None),
        ("right/turn", "", None),
        ("right/turn_1", "turn", None),
        ("third/tn__leftarm_h7", "left arm", "arm"),
    ):
        stage.body(f"/robot/{path}_link")
        stage.joint(f"/robot/{path}", "/robot/base", f"/robot/{path}_link", kept_name=kept, ros_name=authored)
    plan = stage.plan()
    assert [joint.name for joint in plan.robots[0].joints] == [
        "joint_0.0",
        "right_joint_0.0",
        "lift",
        "turn",
        "turn_1",
        "arm",
    ]
    assert [finding.path for finding in found(plan, "2.10.name")] == ["/robot/right/tn__joint_00_nC"]


def test_fixed_joints_make_way_for_those_that_move_in_silence() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for side, kind in (("a", "Fixed"), ("b", "Revolute"), ("c", "Fixed")):
        stage.body(f"/robot/{side}")
        stage.joint(f"/robot/{side}/joint", "/robot/base", f"/robot/{side}", kind)
    plan = stage.plan()
    assert {joint.path: joint.name for joint in plan.robots[0].joints} == {
        "/robot/a/joint": "a_joint",
        "/robot/b/joint": "joint",
        "/robot/c/joint": "c_joint",
    }
    assert not found(plan, "2.10.name")


def test_the_second_of_two_equal_authored_names_in_one_context_gets_another() -> None:
    stage = Stage()
    stage.context()
    stage.body("/robot/base")
    for side in ("left", "right"):
        stage.body(f"/robot/{side}")
        stage.joint(f"/robot/{side}/joint", "/robot/base", f"/robot/{side}", ros_name="finger")
    plan = stage.plan()
    assert {joint.path: joint.name for joint in plan.robots[0].joints} == {
        "/robot/left/joint": "finger",
        "/robot/right/joint": "right_finger",
    }
    assert {"left", "right"} <= set(frames(plan))
    (diagnostic,) = found(plan, "2.10.name")
    assert (diagnostic.severity, diagnostic.path) == ("error", "/robot/right/joint")


@each_case("name", ["", "  ", "a\nb", "x" * 257])
def test_unusable_authored_names_fall_back_to_the_prim_name(name: str) -> None:
    plan = pair(ros_name=name).plan()
    assert "j" in joints(plan)
    assert found(plan, "2.10.name")[0].severity == "error"


@each_case("override", ["x" * 100_000, "\x1b[31m", "  "])
def test_unusable_isaac_names_give_way_to_the_prim_name(override: str) -> None:
    stage = pair()
    stage.add("isaac_joints", IsaacJointRecord(path="/robot/j", name_override=override))
    plan = stage.plan(isaac_names=True)
    assert set(joints(plan)) == {"anchor", "j"}
    assert [d.path for d in found(plan, "2.10.name")] == ["/robot/j"]


def test_prim_names_are_bounded() -> None:
    stage = pair()
    stage.joint("/robot/" + "x" * 100_000, "/robot/base", "/robot/other")
    stage.body("/robot/other")
    assert max(map(len, joints(stage.plan()))) == 256


def test_degree_of_freedom_names_stay_clear_of_joint_names() -> None:
    stage = pair("Spherical")
    stage.body("/robot/extra")
    stage.joint("/robot/j_rx", "/robot/base", "/robot/extra")
    plan = stage.plan()
    assert len(set(plan.layout.dofs)) == 4


@each_case(
    ("listed", "offsets", "expected"),
    [
        (None, {}, ["pan", "lift"]),
        (("/robot/lift", "/robot/pan"), {}, ["lift", "pan"]),
        (None, {"/robot/pan": 1, "/robot/lift": 0}, ["lift", "pan"]),
        (("/robot/lift",), {}, ["lift", "pan"]),
    ],
)
def test_joint_state_order(listed: Any, offsets: dict[str, int], expected: list[str]) -> None:
    stage = arm()
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot", joints=listed))
    for path, offset in offsets.items():
        field = "rot_z_offset" if path.endswith("pan") else "trans_z_offset"
        stage.add("isaac_joints", IsaacJointRecord(path=path, **{field: offset}))
    plan = stage.plan()
    assert [plan.layout.dofs[row] for row in plan.robots[0].joint_state_rows] == expected


def reported(stage: Stage) -> dict[str, list[str]]:
    plan = stage.plan()
    return {topic.name: [plan.layout.dofs[row] for row in topic.dofs] for topic in plan.topics}


def test_the_list_of_joints_limits_what_is_reported_and_not_what_is_commanded() -> None:
    stage = arm(context=False)
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot", joints=("/robot/lift",)))
    assert reported(stage) == {"/joint_states": ["lift"], "/joint_commands": ["lift", "pan"]}
    stage = arm()
    stage.topic("/robot/states", "sensor_msgs/msg/JointState", name="states")
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot", joints=("/robot/lift",)))
    assert reported(stage) == {"/robot/states": ["lift"]}
    (broadcaster,) = stage.plan().controllers
    assert broadcaster.joints == ("lift",)


def test_a_list_of_no_joint_limits_nothing() -> None:
    stage = arm(context=False)
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot", joints=("/robot/gone",)))
    assert reported(stage)["/joint_states"] == ["pan", "lift"]


def test_a_list_of_joints_may_name_another_robot() -> None:
    stage = arm(context=False)
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot", joints=("/robot/lift", "/robot/hand")))
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot/hand"))
    for name in ("a", "b"):
        stage.body(f"/robot/hand/{name}_link")
        stage.joint(f"/robot/hand/{name}", "/robot/base", f"/robot/hand/{name}_link")
    assert reported(stage)["/joint_states"] == ["lift", "a", "b"]
    stage.parts["isaac_robots"][-1] = IsaacRobotRecord(path="/robot/hand", joints=("/robot/hand/b",))
    assert reported(stage)["/joint_states"] == ["lift", "b"]


def test_dof_order_within_a_joint() -> None:
    stage = pair("Spherical")
    stage.add("isaac_joints", IsaacJointRecord(path="/robot/j", dof_offset_order=("RotZ", "RotX", "RotY")))
    plan = stage.plan()
    assert [plan.layout.dofs[row] for row in plan.robots[0].joint_state_rows] == ["j_rz", "j_rx", "j_ry"]


# --- Solver attributes ------------------------------------------------------------------------------------------

BOTH = {"newton:velocityLimit": 90.0, "physxJoint:maxJointVelocity": 180.0}


@each_case(
    ("order", "expected"),
    [(("newton", "physx", "mjc"), math.pi / 2), (("physx", "newton"), math.pi), (("mjc",), INF)],
)
def test_the_first_solver_that_authors_a_value_counts(order: tuple[str, ...], expected: float) -> None:
    plan = pair(solver_attributes=BOTH).plan(schema_resolvers=order)
    assert joints(plan)["j"].dofs[0].max_velocity == pytest.approx(expected)
    assert plan.layout.max_velocity.tolist() == pytest.approx([expected])


def test_effort_limits_come_from_the_drive_first() -> None:
    attributes = {"urdf:limit:effort": 87.0}
    assert joints(pair(solver_attributes=attributes).plan())["j"].dofs[0].max_effort == 87.0
    drive = DriveRecord(path="/robot/j", axis="angular", max_force=20.0)
    assert joints(pair(solver_attributes=attributes, drives=(drive,)).plan())["j"].dofs[0].max_effort == 20.0


def test_the_tighter_of_a_joints_and_its_drives_effort_counts() -> None:
    drive = DriveRecord(path="/robot/j", axis="angular", max_force=20.0)
    for most, expected in ((5.0, 5.0), (50.0, 20.0)):
        attributes = {"mjc:actuatorfrcrange:min": -most, "mjc:actuatorfrcrange:max": most}
        plan = pair(solver_attributes=attributes, drives=(drive,)).plan()
        assert joints(plan)["j"].dofs[0].max_effort == expected


@each_case(
    ("attributes", "expected"),
    [
        ({"urdf:limit:velocity": 2.5}, 2.5),
        ({"urdf:limit:velocity": 2.5, "newton:velocityLimit": 90.0}, math.pi / 2.0),
        ({"urdf:limit:velocity": 2.5, "physxJoint:maxJointVelocity": 180.0}, math.pi),
        # The attribute is required in a URDF: 0 stands for a limit that nobody knows.
        ({"urdf:limit:velocity": 0.0}, INF),
        ({"urdf:limit:velocity": "fast"}, INF),
    ],
)
def test_a_velocity_limit_of_a_urdf_counts_where_nothing_else_limits(
    attributes: dict[str, Any], expected: float
) -> None:
    plan = pair(solver_attributes=attributes).plan()
    assert joints(plan)["j"].dofs[0].max_velocity == pytest.approx(expected)
    assert plan.layout.max_velocity.tolist() == pytest.approx([expected])


def test_limits_that_are_negative_do_not_limit() -> None:
    plan = pair(solver_attributes={"newton:velocityLimit": -1.0}).plan()
    assert joints(plan)["j"].dofs[0].max_velocity == INF
    assert found(plan, "1.3.limits")[0].severity == "error"


def test_an_unknown_solver_is_the_callers_mistake() -> None:
    with pytest.raises(OptionError, match=r"bullet.*mjc, newton, physx"):
        Stage().plan(schema_resolvers=("bullet",))


def follower(type_name: str = "Revolute", applied: tuple[str, ...] = (), **attributes: Any) -> Stage:
    stage = arm()
    stage.body("/robot/finger")
    names = {key.replace("__", ":"): value for key, value in attributes.items()}
    stage.joint(
        "/robot/follow", "/robot/base", "/robot/finger", type_name, applied=applied, solver_attributes=names
    )
    return stage


@each_case(
    ("type_name", "applied", "attributes", "multiplier", "offset"),
    [
        ("Revolute", ("NewtonMimicAPI",), {"newton__mimicJoint": ("/robot/pan",)}, 1.0, 0.0),
        (
            "Revolute",
            (),
            {"newton__mimicJoint": ("/robot/pan",), "newton__mimicCoef1": -2.0, "newton__mimicCoef0": 90.0},
            -2.0,
            math.pi / 2,
        ),
        ("Prismatic", (), {"newton__mimicJoint": ("/robot/lift",), "newton__mimicCoef0": 0.01}, 1.0, 0.01),
        (
            "Revolute",
            ("PhysxMimicJointAPI:rotZ",),
            {
                "physxMimicJoint__rotZ__referenceJoint": ("/robot/pan",),
                "physxMimicJoint__rotZ__gearing": 2.0,
                "physxMimicJoint__rotZ__offset": 90.0,
            },
            -2.0,
            -math.pi / 2,
        ),
        (
            "Revolute",
            ("ExtendedPhysicsMimicAPI",),
            {"ext_physics__mimic__joint": ("/robot/pan",), "ext_physics__mimic__multiplier": 0.5},
            0.5,
            0.0,
        ),
        (
            "Revolute",
            ("MjcEqualityJointAPI",),
            {"mjc__target": ("/robot/pan",), "mjc__coef1": 3.0, "mjc__coef0": 0.25},
            3.0,
            0.25,
        ),
        (
            "Prismatic",
            ("PhysxMimicJointAPI:rotX",),
            {
                "physxMimicJoint__rotX__referenceJoint": ("/robot/pan",),
                "physxMimicJoint__rotX__gearing": -1.0,
            },
            180.0 / math.pi,
            0.0,
        ),
    ],
)
def test_mimic_rules(type_name: str, applied: Any, attributes: Any, multiplier: float, offset: float) -> None:
    plan = follower(type_name, applied, **attributes).plan()
    (dof,) = joints(plan)["follow"].dofs
    leader = attributes[next(key for key, value in attributes.items() if isinstance(value, tuple))][0]
    assert plan.layout.dof_joints[dof.mimic.leader] == leader
    assert (dof.mimic.multiplier, dof.mimic.offset) == pytest.approx((multiplier, offset))


def test_a_disabled_rule_is_none() -> None:
    plan = follower(newton__mimicJoint=("/robot/pan",), newton__mimicEnabled=False).plan()
    assert joints(plan)["follow"].dofs[0].mimic is None


@each_case(
    "attributes",
    [
        {"newton__mimicJoint": ("/robot/follow",)},
        {"newton__mimicJoint": ("/robot/nowhere",)},
        {"newton__mimicJoint": ()},
        {"newton__mimicJoint": ("/robot/pan",), "newton__mimicCoef1": math.nan},
    ],
)
def test_rules_that_cannot_be_followed_are_errors(attributes: Any) -> None:
    plan = follower(**attributes).plan()
    assert joints(plan)["follow"].dofs[0].mimic is None
    assert found(plan, "1.3.mimic")[0].severity == "error"


def test_who_follows_a_fixed_joint_stays_at_the_offset() -> None:
    plan = follower(newton__mimicJoint=("/robot/anchor",), newton__mimicCoef0=30.0).plan()
    (dof,) = joints(plan)["follow"].dofs
    assert dof.mimic is None
    assert (dof.lower, dof.position, dof.upper) == pytest.approx([math.radians(30.0)] * 3)
    (finding,) = found(plan, "1.3.mimic")
    assert (finding.severity, finding.path) == ("warning", "/robot/follow")
    assert "stays at the offset" in finding.message


def test_a_rule_on_a_fixed_joint_is_a_warning() -> None:
    plan = follower("Fixed", newton__mimicJoint=("/robot/pan",)).plan()
    assert joints(plan)["follow"].dofs == ()
    (finding,) = found(plan, "1.3.mimic")
    assert (finding.severity, finding.path) == ("warning", "/robot/follow")


def chain(*leaders: str) -> Stage:
    stage = arm()
    for number, leader in enumerate(leaders):
        stage.body(f"/robot/f{number}")
        stage.joint(
            f"/robot/m{number}",
            "/robot/base",
            f"/robot/f{number}",
            solver_attributes={
                "newton:mimicJoint": (leader,),
                "newton:mimicCoef1": 2.0,
                "newton:mimicCoef0": 10.0,
            },
        )
    return stage


def test_chains_of_rules_become_rules_about_the_head() -> None:
    plan = chain("/robot/pan", "/robot/m0").plan()
    mimic = joints(plan)["m1"].dofs[0].mimic
    assert plan.layout.dofs[mimic.leader] == "pan"
    assert (mimic.multiplier, mimic.offset) == pytest.approx((4.0, math.radians(30.0)))


class CountedRules(dict[int, MimicPlan]):
    """Counts how often a rule is looked up."""

    lookups = 0

    def get(self, row: int, default: Any = None) -> Any:
        self.lookups += 1
        return super().get(row, default)


@each_case("order", [1, -1])
def test_a_long_chain_of_rules_is_walked_once(order: int) -> None:
    count = 1000
    rules = CountedRules(
        {row: MimicPlan(leader=row - 1, multiplier=-1.0, offset=0.5) for row in range(1, count)[::order]}
    )
    collapsed = collapse_chains(rules, dict.fromkeys(rules, "/robot"), DiagnosticCollector())
    assert rules.lookups <= 2 * count
    assert list(collapsed) == list(rules)
    assert {rule.leader for rule in collapsed.values()} == {0}
    assert [(collapsed[row].multiplier, collapsed[row].offset) for row in (1, 2, 3)] == [
        (-1, 0.5),
        (1, 0),
        (-1, 0.5),
    ]


def test_what_follows_a_circle_follows_nothing_and_the_rest_does() -> None:
    leaders = {1: 0, 2: 3, 3: 4, 4: 2, 5: 4, 6: 5, 7: 1}
    findings = DiagnosticCollector()
    rules = {row: MimicPlan(leader=leader) for row, leader in leaders.items()}
    collapsed = collapse_chains(rules, {row: f"/{row}" for row in rules}, findings)
    assert {row: rule.leader for row, rule in collapsed.items()} == {1: 0, 7: 0}
    assert [finding.path for finding in findings.all()] == ["/2", "/3", "/4", "/5", "/6"]


def test_circles_of_rules_are_dropped() -> None:
    plan = chain("/robot/m1", "/robot/m0").plan()
    assert all(joints(plan)[name].dofs[0].mimic is None for name in ("m0", "m1"))
    assert len(found(plan, "1.3.mimic")) == 2


def test_units_and_axes_of_the_stage() -> None:
    stage = Stage(metrics=StageMetrics(meters_per_unit=0.01, up_axis="Y", time_codes_per_second=24.0))
    stage.context()
    stage.body("/robot/base")
    stage.body("/robot/link", (0.0, 50.0, 0.0))
    stage.joint("/robot/anchor", None, "/robot/base", "Fixed")
    stage.joint(
        "/robot/j", "/robot/base", "/robot/link", "Prismatic", axis="Y", lower_limit=0.0, upper_limit=100.0
    )
    plan = stage.plan()
    np.testing.assert_allclose(plan.layout.body_pose[1, :3], (0.0, 0.0, 0.5), atol=1e-12)
    np.testing.assert_allclose(frames(plan)["robot"].parent_from_frame.rotation, turn("X", 90.0), atol=1e-12)
    np.testing.assert_allclose(
        frames(plan)["link"].parent_from_frame.translation, (0.0, 0.5, 0.0), atol=1e-12
    )
    (dof,) = joints(plan)["j"].dofs
    assert (dof.position, dof.lower, dof.upper) == pytest.approx((0.5, 0.0, 1.0))


@each_case("value", [0.0, -1.0, math.nan, INF])
def test_impossible_units_count_as_one(value: float) -> None:
    stage = arm()
    stage.metrics = StageMetrics(meters_per_unit=value, up_axis="Z", time_codes_per_second=1.0)
    plan = stage.plan()
    assert found(plan, "1.1.units")[0].severity == "error"
    assert plan.layout.body_pose[1, 2] == 0.5

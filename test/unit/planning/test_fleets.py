"""Fleets: robots that are composed from the same specs are planned as if each were like no other."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pxr import Sdf, Usd
from reading import check_reading

from builders.stages import write_fleet
from case_tables import each_case
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.make_plan import make_plan
from usd_ros_bridge.usd import open_stage, read_stage

METRICS = 'upAxis = "Z"\n metersPerUnit = 1\n kilogramsPerUnit = 1\n timeCodesPerSecond = 1'

ARM = """
def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}
def Xform "upper" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    double3 xformOp:translate = (0, 0, 0.5)
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
def Xform "tool" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    double3 xformOp:translate = (0, 0, 1)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Xform "tip" (prepend apiSchemas = ["RosFrameAPI"]) {
        string ros:frame:id = "tip_frame"
        double3 xformOp:translate = (0, 0, 0.1)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
def PhysicsRevoluteJoint "shoulder" (prepend apiSchemas = ["PhysicsDriveAPI:angular"]) {
    uniform token physics:axis = "Z"
    rel physics:body0 = </robot/base>
    rel physics:body1 = </robot/upper>
    point3f physics:localPos0 = (0, 0, 0.5)
    float physics:lowerLimit = -90
    float physics:upperLimit = 90
    float drive:angular:physics:maxForce = 5
}
def PhysicsRevoluteJoint "wrist" {
    uniform token physics:axis = "X"
    rel physics:body0 = </robot/upper>
    rel physics:body1 = </robot/tool>
    point3f physics:localPos0 = (0, 0, 0.5)
    float physics:lowerLimit = -45
    float physics:upperLimit = 45
}
def Scope "note" {}
def Scope "joint_states" (prepend apiSchemas = ["RosTopicAPI"]) {
    token ros:topic:role = "publisher"
    string ros:topic:name = "joint_states"
    string ros:topic:type = "sensor_msgs/msg/JointState"
    double ros:topic:publish_rate = 100
}
"""

ANCHOR = 'def PhysicsFixedJoint "anchor" { rel physics:body1 = </robot/base> }\n'


OVER = "#over\n"
"""Stands before what overrides prims of ARM."""


def usda(body: str, metadata: str = "") -> str:
    """Returns a layer; a line may hold several properties, which the format does not allow."""
    return f"#usda 1.0\n{metadata}\n" + body.replace("{ ", "{\n").replace("} ", "}\n").replace(" }", "\n}")


def topic(name: str, type_name: str, role: str = "publisher", more: str = "") -> str:
    return f"""
def Xform "{name}_topic" (prepend apiSchemas = ["RosTopicAPI"]) {{
    token ros:topic:role = "{role}"
    string ros:topic:name = "{name}"
    string ros:topic:type = "{type_name}"
    double ros:topic:publish_rate = 10
    double3 xformOp:translate = (0.25, 0, 0)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    {more}
}}
"""


def module(name: str, joint: str) -> str:
    """A nested context with a joint of its own, that it names."""
    return f"""
def Xform "{name}" (prepend apiSchemas = ["RosContextAPI"]) {{
    string ros:context:namespace = "{name}"
    def Xform "{name}_tip" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{}}
    def PhysicsRevoluteJoint "joint" {{
        rel physics:body0 = </robot/base>
        rel physics:body1 = </robot/{name}/{name}_tip>
        string ros:joint:name = "{joint}"
    }}
    {topic("states", "sensor_msgs/msg/JointState")}
    {topic("commands", "sensor_msgs/msg/JointState", "subscription")}
}}
"""


EXTRAS = {
    "anchor": ANCHOR,
    "odometry": topic("odom", "nav_msgs/msg/Odometry"),
    "odometry_override": topic(
        "odom_in_map", "nav_msgs/msg/Odometry", more='string ros:topic:override_frame_id = "map"'
    ),
    "pose": topic("pose", "geometry_msgs/msg/PoseStamped"),
    "twist": topic("cmd_vel", "geometry_msgs/msg/Twist", "subscription"),
    "absolute": topic("scan", "sensor_msgs/msg/LaserScan").replace('= "scan"', '= "/scan"'),
    "faulty_type": topic("bad", "no_type"),
    "faulty_name": topic("x", "std_msgs/msg/String").replace('= "x"', '= "a b"'),
    "faulty_rate": topic("slow", "std_msgs/msg/String").replace("= 10", "= -1"),
    "switched_off": topic("off", "std_msgs/msg/String", more="bool ros:topic:starts_enabled = false"),
    "service": 'def Scope "s" (prepend apiSchemas = ["RosServiceAPI"]) { token ros:service:role = "server"\n'
    'string ros:service:name = "reset"\nstring ros:service:type = "std_srvs/srv/Trigger" }\n',
    "action": 'def Scope "a" (prepend apiSchemas = ["RosActionAPI"]) { token ros:action:role = "server"\n'
    'string ros:action:name = "go"\nstring ros:action:type = "control_msgs/action/FollowJointTrajectory" }\n',
    "nested": f'def Xform "arm" (prepend apiSchemas = ["RosContextAPI"])\n{{ string ros:context:namespace = "arm"\n'
    f"{topic('inner', 'sensor_msgs/msg/JointState')} }}\n",
    "empty_context": f'def Xform "eye" (prepend apiSchemas = ["RosContextAPI"])\n{{\n'
    f"{topic('none', 'sensor_msgs/msg/JointState')} }}\n",
    "joint_context": f"{module('claw', 'hinge')}",
    "modules": f"{module('left', 'finger')}{module('right', 'finger')}",
    "nested_absolute": 'def Xform "arm2" (prepend apiSchemas = ["RosContextAPI"])\n'
    f'{{ string ros:context:namespace = "/arm"\n{topic("inner", "std_msgs/msg/String")} }}\n',
    "camera": f'def Camera "cam" {{ float focalLength = 20\n{topic("info", "sensor_msgs/msg/CameraInfo")} }}\n',
    "same_name": 'def Xform "more" { def Xform "tip" (prepend apiSchemas = ["RosFrameAPI"]) {} '
    'def Xform "base" (prepend apiSchemas = ["RosFrameAPI"]) {} }\n',
    "taken_name": 'def Xform "r1" (prepend apiSchemas = ["RosFrameAPI"]) {}\n',
    "slider": 'def PhysicsPrismaticJoint "rail" { uniform token physics:axis = "X"\n'
    "rel physics:body1 = </robot/base> }\n",
    "broken_joint": 'def PhysicsRevoluteJoint "no" { rel physics:body0 = </robot/nothing>\n'
    "rel physics:body1 = </robot/tool> }\n",
    "loop": 'def PhysicsFixedJoint "loop" { rel physics:body0 = </robot/base>\nrel physics:body1 = </robot/tool> }\n',
    "disagreeing": 'over "wrist" { point3f physics:localPos0 = (0, 0.2, 0.5) }\n',
    "mimic": 'over "wrist" (prepend apiSchemas = ["NewtonMimicAPI"]) { rel newton:mimicJoint = </robot/shoulder>\n'
    "float newton:mimicCoef1 = -1 }\n",
    "unlimited": 'over "wrist" { float physics:upperLimit = inf }\n',
    "site": 'over "tool" { def Xform "tn__site_00_nC" (\nprepend apiSchemas = ["IsaacSiteAPI"]\n'
    'displayName = "site_0.0"\n) { uniform token isaac:forwardAxis = "Z" } }\n',
    "isaac": 'def Xform "hand" (prepend apiSchemas = ["IsaacRobotAPI"])\n'
    "{ rel isaac:physics:robotLinks = </robot/hand/palm>\n"
    'def Xform "palm" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}\n'
    'def PhysicsRevoluteJoint "grip" { rel physics:body0 = </robot/tool>\nrel physics:body1 = </robot/hand/palm> } }\n',
    "scaled": 'over "tool" { float3 xformOp:scale = (2, 2, 2)\n'
    'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"] }\n',
    "still": 'over "tool" { uniform token[] xformOpOrder = ["!resetXformStack!", "xformOp:translate"] }\n',
    "broadcaster": 'def Scope "jsb" (prepend apiSchemas = ["RosControlJointStateBroadcasterAPI"])\n'
    "{ rel ros:joint_state_broadcaster:publisher = </robot/joint_states>\n"
    "rel ros:joint_state_broadcaster:joints = </robot/wrist>\n"
    'string ros:joint_state_broadcaster:frame_id = "own" }\n',
    "diff_drive": topic("drive", "geometry_msgs/msg/Twist", "subscription")
    + topic("wheel_odom", "nav_msgs/msg/Odometry", more='string ros:topic:override_frame_id = "odom_frame"')
    + 'def Scope "dd" (prepend apiSchemas = ["RosControlDiffDriveAPI"])\n'
    "{ rel ros:diff_drive:subscriber = </robot/drive_topic>\nrel ros:diff_drive:odom = </robot/wheel_odom_topic>\n"
    "rel ros:diff_drive:left_wheels = </robot/shoulder>\nrel ros:diff_drive:right_wheels = </robot/wrist>\n"
    "double ros:diff_drive:wheel_separation = 0.4\ndouble ros:diff_drive:wheel_radius = 0.1 }\n",
    "gripper": 'def Scope "g" (prepend apiSchemas = ["RosActionAPI"]) { token ros:action:role = "server"\n'
    'string ros:action:name = "grip"\nstring ros:action:type = "control_msgs/action/GripperCommand" }\n',
    "gripper_joints": 'def Scope "gj" (prepend apiSchemas = ["RosActionAPI"]) { token ros:action:role = "server"\n'
    'string ros:action:name = "grip_too"\nstring ros:action:type = "control_msgs/action/ParallelGripperCommand"\n'
    "rel usd_ros_bridge:gripper:joints = </robot/wrist>\n"
    "custom double usd_ros_bridge:gripper:stall_timeout = 2 }\n",
    "trajectory_topic": topic("traj", "trajectory_msgs/msg/JointTrajectory", "subscription"),
    "trajectory": 'def Scope "jtc" (prepend apiSchemas = ["RosControlJointTrajectoryAPI"])\n'
    "{ rel ros:joint_trajectory:server = </robot/a>\nuniform bool control:starts_enabled = 0\n"
    "rel ros:joint_trajectory:command_joints = [</robot/wrist>, </robot/shoulder>] }\n",
    "external": 'def Scope "ext" (prepend apiSchemas = ["RosControlExternalAPI"]) {}\n',
    "twist_controller": topic("cmd", "geometry_msgs/msg/Twist", "subscription")
    + 'def Scope "tc" (prepend apiSchemas = ["RosControlRigidBodyTwistAPI"])\n'
    "{ rel ros:rigid_body_twist:subscriber = </robot/cmd_topic> }\n",
}
"""Parts of robots, right and wrong ones."""

OVERRIDES = {
    "limit": 'over "shoulder" { float physics:lowerLimit = -10 }',
    "topic_name": 'over "joint_states" { string ros:topic:name = "states" }',
    "absolute_name": 'over "joint_states" { string ros:topic:name = "/joint_states" }',
    "pose": 'over "tool" { double3 xformOp:translate = (0, 0.1, 1) }',
    "tiny_pose": 'over "tool" { double3 xformOp:translate = (0, 0, 1.000001) }',
    "no_prim": 'over "tool" (active = false) {}',
    "another_prim": 'def Xform "antenna" (prepend apiSchemas = ["RosFrameAPI"]) {}',
    "scenery": 'def Xform "lamp" { def Cube "bulb" {} }',
    "other_target": 'over "wrist" { rel physics:body0 = </w/r0/base> }',
    "samples": 'over "base" { double3 xformOp:translate.timeSamples = { 0: (0, 0, 0), 1: (1, 0, 0) }\n'
    'uniform token[] xformOpOrder = ["xformOp:translate"] }',
    "parent_frame": 'string ros:context:parent_frame = "hall"',
    "domain": "int ros:context:domain_id = 7",
    "hidden_quaternion": 'over "upper" { quatf xformOp:orient = (0, 0, 0, 0)\n'
    'uniform token[] xformOpOrder = ["xformOp:orient"] }',
    "flat": "float3 xformOp:scale = (1, 1, 0)\n"
    'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]',
    "frame_id": 'over "tool" { over "tip" { string ros:frame:id = "sharp" } }',
}
"""What one robot of a fleet may say differently."""


READ_EACH = (("broken_joint",),)
"""Robots that are read one by one: a joint of theirs ends at a prim that is not there."""

OF_THE_ROOT = ("domain", "flat", "parent_frame")
"""What is said at a robot's root, as its place is: the robot repeats another one all the same."""


def fleet_records(
    robot: str, members: list[str], *, metrics: str = METRICS, root_apis: str = "", distinct: bool = False
) -> StageRecords:
    """Return the records of a stage with references to one robot.

    Args:
        robot: Content of the robot.
        members: What each reference says of its own.
        metrics: Metadata of the stage.
        root_apis: More schemas of the robot's root.
        distinct: Give each robot a custom attribute that nothing reads: no two are composed from the same specs.
    """
    base = Sdf.Layer.CreateAnonymous("base.usda")
    own, *overs = robot.split(OVER)
    assert base.ImportFromString(
        usda(f'def Xform "robot" (prepend apiSchemas = ["RosContextAPI"{root_apis}]) {{ {own} }}')
    )
    # A layer has one spec of each prim: what overrides goes to layers of its own.
    layers = [base]
    for over in overs:
        layers.insert(0, Sdf.Layer.CreateAnonymous("over.usda"))
        assert layers[0].ImportFromString(usda(f'over "robot" {{ {over} }}'))
    layer = Sdf.Layer.CreateAnonymous("robot.usda")
    layer.subLayerPaths = [each.identifier for each in layers]
    text = "".join(
        f'def Xform "r{number}" (prepend references = @{layer.identifier}@</robot>) '
        f"{{ {own} {note(number, distinct)} }}\n"
        for number, own in enumerate(members)
    )
    stage = Usd.Stage.CreateInMemory()
    assert stage.GetRootLayer().ImportFromString(
        usda(f'def Xform "w" {{ {text} }}', f'( defaultPrim = "w"\n {metrics} )')
    )
    return check_reading(stage)


def note(number: int, distinct: bool) -> str:
    return f'over "note" {{ custom int number = {number} }}' if distinct else ""


def robot_with(*parts: str) -> str:
    """Returns the content of a robot: an arm and `parts` of EXTRAS."""
    chosen = [EXTRAS[part] for part in parts]
    own = "".join(part for part in chosen if not part.startswith("over"))
    return f"{ARM}{own}" + "".join(f"{OVER}{part}" for part in chosen if part.startswith("over"))


def member(
    number: int, *, at: tuple[float, float, float] = (0.0, 0.0, 0.0), turn: float = 0.0, more: str = ""
) -> str:
    return f"""
string ros:context:namespace = "robot_{number}"
double3 xformOp:translate = {at}
double xformOp:rotateZ = {turn}
uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
{more}
"""


def members(count: int, **more: str) -> list[str]:
    return [
        member(number, at=(2.0 * number, -number, 0.1), turn=30.0 * number, more=more.get(f"r{number}", ""))
        for number in range(count)
    ]


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 7) + 0.0
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value


def as_data(plan: BridgePlan) -> Any:
    data = rounded(plan_to_json(plan))
    layout = plan.layout
    data["layout_arrays"] = rounded(
        [
            array.tolist()
            for array in (
                layout.body_pose,
                layout.joint_position,
                layout.lower,
                layout.upper,
                layout.max_velocity,
            )
        ]
        + [layout.kinematic.tolist(), list(layout.dof_joints)]
    )
    data["controllers_more"] = [
        rounded(
            [
                c.path,
                list(c.dofs),
                list(map(str, c.claims)),
                c.switchable,
                c.robot,
                c.implied,
                str(c.parameters),
            ]
        )
        for c in plan.controllers
    ]
    data["topics_more"] = [
        [t.path, t.role, list(t.dofs), list(plan.joint_names(t)), t.robot, t.body, t.implicit]
        for t in plan.topics
    ]
    data["local_names"] = [[j.path, j.local_name] for robot in plan.robots for j in robot.joints]
    data["cameras"] = [rounded([c.path, c.fx]) for c in plan.scene.cameras]
    data["tracks"] = [(t.row, t.world_from_body.tolist()) for t in plan.scene.pose_tracks]
    return data


def check(
    robot: str,
    members: list[str],
    options: PlanOptions | None = None,
    *,
    repeats: int | None = None,
    metrics: str = METRICS,
    root_apis: str = "",
) -> BridgePlan:
    """Return the plan of a fleet, after a check that it is that of the same robots when no two are alike.

    Args:
        robot: Content of the robot.
        members: What each reference says of its own.
        options: How to plan.
        repeats: How many robots repeat another one; None where it does not matter.
        metrics: Metadata of the stage.
        root_apis: More schemas of the robot's root.
    """
    options = options or PlanOptions()
    records = fleet_records(robot, members, metrics=metrics, root_apis=root_apis)
    others = fleet_records(robot, members, metrics=metrics, root_apis=root_apis, distinct=True)
    assert not others.repeats
    if repeats is not None:
        assert len(records.repeats) == repeats
    plan = make_plan(records, options)
    assert as_data(plan) == as_data(make_plan(others, options))
    return plan


@each_case(
    "parts",
    [
        ("anchor",),
        (),
        ("anchor", "pose", "switched_off", "service"),
        ("odometry", "twist"),
        ("odometry_override",),
        ("nested",),
        ("joint_context", "external"),
        ("empty_context",),
        ("camera",),
        ("mimic",),
        ("faulty_type", "faulty_name", "faulty_rate"),
        ("broken_joint",),
        ("unlimited", "loop"),
        ("scaled",),
        ("broadcaster", "external"),
        ("twist_controller",),
        ("diff_drive",),
        ("action",),
        ("external",),
        ("action", "gripper_joints", "trajectory_topic"),
        ("gripper", "mimic"),
        ("action", "trajectory", "trajectory_topic", "twist", "nested"),
        ("trajectory_topic", "odometry"),
        ("absolute",),
        ("nested_absolute",),
        ("same_name",),
        ("taken_name",),
        ("slider",),
        ("disagreeing",),
        ("still",),
        ("modules",),
        ("isaac", "site"),
    ],
)
def test_equal_robots_are_planned_as_different_ones_are(parts: tuple[str, ...]) -> None:
    check(robot_with(*parts), members(3), repeats=0 if parts in READ_EACH else 2)


@each_case("override", sorted(OVERRIDES))
def test_a_robot_that_says_something_else_is_planned_as_it_says(override: str) -> None:
    repeats = 3 if override in OF_THE_ROOT else 2
    check(robot_with("anchor"), members(4, r2=OVERRIDES[override]), repeats=repeats)


def test_equal_robots_have_equal_numbers_to_the_last_bit() -> None:
    parts = ("anchor", "pose", "camera", "joint_context", "mimic")
    plan = check(robot_with(*parts), members(5), repeats=4)

    def numbers(number: int) -> list[Any]:
        robot = plan.robots[number]
        dofs = [dof for joint in robot.joints for dof in joint.dofs]
        return [
            [f.parent_from_frame for f in robot.frames if f.path != robot.path],
            [f.carrier_from_frame for f in robot.frames if f.carrier >= 0],
            [(j.body0_from_joint, j.body1_from_joint) for j in robot.joints],
            [(d.position, d.lower, d.upper) for d in dofs],
            [e.rest for e in robot.edges],
            [t.body_from_prim for t in plan.topics if t.robot == number and t.body >= 0],
        ]

    for number in range(1, 5):
        assert numbers(number) == numbers(0)


def test_an_override_shows_in_the_plan_of_its_robot_alone() -> None:
    records = fleet_records(
        robot_with("anchor"),
        members(4, r1=OVERRIDES["limit"], r2=OVERRIDES["topic_name"], r3=OVERRIDES["pose"]),
    )
    plan = make_plan(records, PlanOptions())
    shoulders = [robot.joints[0] for robot in plan.robots]
    assert [math.degrees(joint.dofs[0].lower) for joint in shoulders] == pytest.approx([-90, -10, -90, -90])
    assert [t.name for t in plan.topics if "states" in t.name][:3] == [
        "/robot_0/joint_states",
        "/robot_1/joint_states",
        "/robot_2/states",
    ]
    tools = [plan.layout.body_index[f"/w/r{number}/tool"] for number in range(4)]
    heights = plan.layout.body_pose[tools, 2]
    assert heights == pytest.approx([1.1, 1.1, 1.1, 1.1])


def test_a_robot_in_a_fleet_is_the_robot_alone() -> None:
    together = make_plan(fleet_records(robot_with("anchor", "pose"), members(3)), PlanOptions())
    alone = make_plan(fleet_records(robot_with("anchor", "pose"), [members(3)[2]]), PlanOptions())
    mine, own = together.robots[2], alone.robots[0]
    assert [f.id for f in mine.frames] == [f.id.replace("r0", "r2") for f in own.frames]
    assert [f.path for f in mine.frames] == [f.path.replace("/w/r0", "/w/r2") for f in own.frames]
    for one, other in zip(mine.frames, own.frames, strict=True):
        assert one.parent_from_frame.translation == pytest.approx(other.parent_from_frame.translation)
        assert one.carrier_from_frame.rotation == pytest.approx(other.carrier_from_frame.rotation)
    assert [d.row for j in mine.joints for d in j.dofs] == [4, 5]
    assert together.topics[-1].name == "/robot_2/pose"
    assert together.topics[-1].robot == 2


def test_a_joint_between_two_equal_robots_ties_these_alone() -> None:
    outside = """
}
def PhysicsFixedJoint "dock" { rel physics:body0 = </w/r1/tool>
rel physics:body1 = </w/r2/base> }
def Xform "rest" { """
    plan = check(robot_with(), [*members(3), outside])
    assert [d.path for d in plan.diagnostics if d.code == "1.3.joint.robots"] == ["/w/dock"]


def test_robots_between_and_after_equal_ones_keep_their_rows_right() -> None:
    own = members(6, r1=OVERRIDES["limit"], r3=OVERRIDES["pose"], r4=OVERRIDES["another_prim"])
    check(robot_with("anchor", "camera", "mimic", "pose"), own, repeats=2)


def test_equal_robots_may_have_a_body_for_their_root() -> None:
    robot = robot_with("pose", "odometry", "twist").replace(
        '"base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])', '"base"'
    )
    root_apis = ', "PhysicsRigidBodyAPI", "PhysicsArticulationRootAPI"'
    check(robot, members(3), repeats=2, root_apis=root_apis)


def test_equal_robots_may_share_a_namespace_or_have_none() -> None:
    plan = check(robot_with(), [member(0), member(0, at=(1.0, 0.0, 0.0))], repeats=1)
    assert [d.path for d in plan.diagnostics if d.code == "2.1.1"] == ["/w/r1"]
    inside = [member(0), member(1).replace("robot_1", "robot_0/joint_states"), member(2)]
    check(robot_with("nested").replace('"inner"', '"joint_states"'), inside, repeats=2)
    check(robot_with(), [member(0).replace("robot_0", ""), member(1), member(2)], repeats=2)


def test_an_equal_robot_of_another_scale_has_numbers_of_its_own() -> None:
    scaled = member(1).replace(
        'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]',
        'float3 xformOp:scale = (2, 2, 2)\nuniform token[] xformOpOrder = ["xformOp:scale"]',
    )
    plan = check(robot_with(), [member(0), scaled], repeats=1)
    tools = [next(f for f in robot.frames if f.id == "tip_frame") for robot in plan.robots]
    heights = [tool.carrier_from_frame.translation[2] for tool in tools]
    assert heights == pytest.approx([0.1, 0.2])


def test_names_that_grow_too_long_are_found() -> None:
    plan = check(robot_with(), [member(0), member(1).replace("robot_1", "n" * 235)], repeats=1)
    assert any(d.code == "2.3.name" for d in plan.diagnostics)


def test_what_is_wrong_with_equal_robots_is_said_of_each() -> None:
    plan = check(robot_with("faulty_rate", "faulty_type"), members(3))
    for number in range(3):
        codes = [d.code for d in plan.diagnostics if d.path.startswith(f"/w/r{number}/")]
        assert sorted(codes) == ["2.3.type", "2.4.publish_rate"]


def test_a_fleet_from_files_is_planned_as_one_written_in_full(tmp_path: Path) -> None:
    assets = [
        str(write_fleet(tmp_path / name, robots=5, links=4, flat=name == "flat"))
        for name in ("shared", "flat")
    ]
    records, flat = (read_stage(open_stage(asset), asset=asset) for asset in assets)
    assert len(records.repeats) == 4
    assert not flat.repeats
    plan, other = (as_data(make_plan(each, PlanOptions())) for each in (records, flat))
    assert {**plan, "asset": ""} == {**other, "asset": ""}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(st.sampled_from(sorted(EXTRAS)), max_size=5, unique=True),
    overrides=st.lists(st.sampled_from([*[""] * 15, *sorted(OVERRIDES)]), min_size=2, max_size=5),
    places=st.lists(st.tuples(*[st.integers(-1000, 1000)] * 4), min_size=5, max_size=5),
    options=st.builds(
        PlanOptions,
        namespace=st.sampled_from(["", "site"]),
        tf_output=st.sampled_from(["namespaced", "global", "both", "shared"]),
        frame_prefix=st.sampled_from(["", "p_"]),
        base_transform=st.sampled_from(["auto", "odometry", "none"]),
        external_joint_states=st.sampled_from(["robot_joint_states", "/robot_joint_states", "odom"]),
        frames_from_xforms=st.sampled_from(["auto", True, False]),
    ),
    up_axis_y=st.booleans(),
)
def test_any_fleet_is_planned_as_if_no_two_robots_were_alike(
    parts: list[str],
    overrides: list[str],
    places: list[tuple[int, int, int, int]],
    options: PlanOptions,
    up_axis_y: bool,
) -> None:
    of_each = [
        member(number, at=(x / 8, y / 8, z / 8), turn=turn / 3, more=OVERRIDES.get(override, ""))
        for number, (override, (x, y, z, turn)) in enumerate(zip(overrides, places, strict=False))
    ]
    metrics = METRICS.replace("= 1\n k", "= 0.01\n k") if up_axis_y else METRICS
    check(robot_with(*parts), of_each, options, metrics=metrics)

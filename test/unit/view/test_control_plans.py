"""Controls that plans give to the page: of the examples and of assets with one kind of interface each."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.plans import PlanBuilder
from usd_ros_bridge import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions, ReadOptions, parse_variants
from usd_ros_bridge.view.control_plans import (
    AS_DRIVEN,
    GripperControl,
    JointSlider,
    JointSourceControl,
    JointTopicControl,
    ServiceControl,
    TrajectoryControl,
    TwistControl,
    plan_controls,
)

pytestmark = pytest.mark.app

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "test" / "assets"
ARM = ROOT / "examples" / "arm" / "arm.usda"
ROVER = ROOT / "examples" / "rover" / "rover.usda"
FLEET = ROOT / "examples" / "fleet" / "fleet.usda"


TWO_DRIVES = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
)

def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
)
{
    def Xform "base" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    )
    {
    }

    def Xform "arm" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    )
    {
    }

    def Xform "disc" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    )
    {
    }

    def PhysicsFixedJoint "anchor"
    {
        rel physics:body1 = </robot/base>
    }

    def PhysicsRevoluteJoint "elbow" (
        prepend apiSchemas = ["PhysicsDriveAPI:angular"]
    )
    {
        rel physics:body0 = </robot/base>
        rel physics:body1 = </robot/arm>
        float drive:angular:physics:stiffness = 100
    }

    def PhysicsRevoluteJoint "wheel" (
        prepend apiSchemas = ["PhysicsDriveAPI:angular"]
    )
    {
        rel physics:body0 = </robot/base>
        rel physics:body1 = </robot/disc>
        float drive:angular:physics:damping = 10
    }

    def Scope "commands" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {
        token ros:topic:role = "subscription"
        string ros:topic:name = "joint_commands"
        string ros:topic:type = "sensor_msgs/msg/JointState"
    }
}
"""


def planned(asset: Path, *variants: str) -> BridgePlan:
    return load_plan(asset, read_options=ReadOptions(variants=parse_variants(variants)), physics=True)


def of_type(controls, kind):
    return [each for each in controls if isinstance(each, kind)]


def test_the_rover_has_a_pad_with_the_limits_of_its_drive_and_a_service():
    controls = plan_controls(planned(ROVER))
    assert [type(each) for each in controls] == [TwistControl, ServiceControl]
    pad, service = controls
    assert (pad.name, pad.linear, pad.angular, pad.lateral, pad.timeout) == (
        "/rover/cmd_vel",
        1.0,
        2.5,
        False,
        0.5,
    )
    assert (service.name, service.type) == ("/rover/set_headlights", "std_srvs/srv/SetBool")


def test_the_arm_has_joint_commands_a_trajectory_and_a_gripper():
    commands, trajectory, gripper = plan_controls(planned(ARM))
    assert isinstance(commands, JointTopicControl)
    assert commands.measured == "/arm/joint_states"
    assert [each.label for each in commands.sets] == ["position", "velocity", "effort"]
    assert "right_finger_joint" not in {each.name for each in commands.sets[0].sliders}
    assert isinstance(trajectory, TrajectoryControl)
    assert trajectory.is_action
    assert [each.name for each in trajectory.sliders] == [f"joint_{number}" for number in range(1, 7)]
    assert trajectory.sliders[0].upper == pytest.approx(math.radians(170.0))
    assert isinstance(gripper, GripperControl)
    assert gripper.opened == pytest.approx((0.04,))
    assert gripper.closed == (0.0,)


def test_a_variant_without_a_gripper_has_no_gripper_control():
    assert not of_type(plan_controls(planned(ARM, "/arm:gripper=none")), GripperControl)


def test_every_robot_of_a_fleet_has_its_own_controls():
    plan = planned(FLEET)
    controls = plan_controls(plan)
    assert {each.robot for each in controls} == {0, 1, 2}
    for each in controls:
        assert each.name.startswith(f"{plan.robots[each.robot].namespace}/")


def test_external_control_is_a_joint_topic():
    (control,) = plan_controls(planned(ASSETS / "controller_external_topics.usda"))
    assert isinstance(control, JointTopicControl)
    assert (control.name, control.measured) == ("/robot/hardware/commands", "/robot/hardware/states")
    assert {each.name for each in control.sets[0].sliders} == {"shoulder", "wrist", "left_finger"}


def test_a_trajectory_topic_alone_is_sent_without_a_goal():
    plan = planned(ASSETS / "controller_gripper.usda")
    no_actions = replace(plan, actions=())
    (control,) = of_type(plan_controls(no_actions), TrajectoryControl)
    assert not control.is_action
    assert control.name == "/robot/arm_controller/joint_trajectory"
    assert control.qos is not None


@pytest.mark.parametrize("backend", ["null", "playback", "joint_states"])
def test_a_backend_without_commands_has_services_only_or_sources(backend):
    rover = plan_controls(planned(ROVER), backend=backend)
    assert not of_type(rover, TwistControl)
    assert len(of_type(rover, ServiceControl)) == 1
    assert len(of_type(rover, JointSourceControl)) == (backend == "joint_states")


def test_sources_of_joint_states_have_no_slider_for_followers():
    (source,) = of_type(plan_controls(planned(ARM), backend="joint_states"), JointSourceControl)
    assert (source.name, source.type) == ("/arm/joint_states", "sensor_msgs/msg/JointState")
    assert "left_finger_joint" in {each.name for each in source.sliders}
    assert "right_finger_joint" not in {each.name for each in source.sliders}
    assert {each.kind for each in source.sliders} == {"position"}


@pytest.mark.parametrize(("topic", "name"), [("/all_joints", "/all_joints"), ("measured", "/arm/measured")])
def test_the_topic_of_the_backend_is_absolute_or_in_the_robots_namespace(topic, name):
    controls = plan_controls(planned(ARM), backend="joint_states", joint_states_topic=topic)
    assert [each.name for each in of_type(controls, JointSourceControl)] == [name]


def test_a_disabled_subscription_has_no_control():
    options = PlanOptions(enabled={"/rover/Interfaces/cmd_vel": False})
    assert not of_type(plan_controls(load_plan(ROVER, plan_options=options)), TwistControl)


def pendulum(**joint) -> BridgePlan:
    builder = PlanBuilder()
    robot = builder.robot("/robot", namespace="/robot")
    robot.body("base")
    robot.body("link")
    robot.joint("hinge", "base", "link", **joint)
    robot.topic("joint_commands", "sensor_msgs/msg/JointState", "subscription")
    robot.topic("targets", "std_msgs/msg/Float64MultiArray", "subscription")
    return builder.build()


def hinge(plan: BridgePlan, label: str) -> JointSlider:
    control = plan_controls(plan)[0]
    assert isinstance(control, JointTopicControl)
    return next(each for each in control.sets if each.label == label).sliders[0]


def test_limits_of_a_joint_are_those_of_its_slider():
    plan = pendulum(limits=(-0.5, 2.0), max_velocity=3.0, position=1.0)
    position, velocity = hinge(plan, "position"), hinge(plan, "velocity")
    assert (position.lower, position.upper, position.initial, position.unit) == (-0.5, 2.0, 1.0, "rad")
    assert (velocity.lower, velocity.upper, velocity.initial, velocity.unit) == (-3.0, 3.0, 0.0, "rad/s")


@pytest.mark.parametrize(
    ("limits", "shown"),
    [
        ((-math.inf, math.inf), (-math.pi, math.pi)),
        ((4.0, math.inf), (4.0, 4.0 + 2.0 * math.pi)),
        ((-math.inf, -4.0), (-4.0 - 2.0 * math.pi, -4.0)),
        ((1.0, -1.0), (1.0, 1.0)),
    ],
)
def test_a_joint_without_a_limit_has_a_slider_with_one(limits, shown):
    slider = hinge(pendulum(limits=limits), "position")
    assert (slider.lower, slider.upper) == pytest.approx(shown)
    assert slider.lower <= slider.initial <= slider.upper


@pytest.mark.parametrize(
    ("value", "kept"), [(5.0, 2.0), (-5.0, -0.5), (math.nan, 1.0), (math.inf, 1.0), (0.25, 0.25)]
)
def test_a_value_is_kept_within_the_limits(value, kept):
    slider = hinge(pendulum(limits=(-0.5, 2.0), position=1.0), "position")
    assert slider.clamp(value) == kept


def test_an_array_of_positions_has_one_slider_for_each_joint_and_positions_only():
    _, array = plan_controls(pendulum())
    assert isinstance(array, JointTopicControl)
    assert [each.label for each in array.sets] == ["position"]


@pytest.mark.parametrize(("interface", "unit"), [("velocity", "rad/s"), ("effort", "N m")])
def test_an_array_has_sliders_of_its_command_interface(interface, unit):
    builder = PlanBuilder()
    robot = builder.robot("/robot", namespace="/robot")
    robot.body("base")
    robot.body("arm")
    robot.joint("hinge", "base", "arm", limits=(-1.0, 1.0))
    robot.topic("targets", "std_msgs/msg/Float64MultiArray", "subscription", command_interface=interface)
    (array,) = of_type(plan_controls(builder.build()), JointTopicControl)
    assert [(each.label, [slider.unit for slider in each.sliders]) for each in array.sets] == [
        (interface, [unit])
    ]


def test_each_joint_has_the_kind_of_command_that_its_drive_takes(tmp_path):
    asset = tmp_path / "robot.usda"
    asset.write_text(TWO_DRIVES, encoding="utf-8")
    (commands,) = plan_controls(planned(asset), backend="mujoco")
    assert isinstance(commands, JointTopicControl)
    first = commands.sets[0]
    assert first.label == AS_DRIVEN
    assert {each.name: each.kind for each in first.sliders} == {"elbow": "position", "wheel": "velocity"}


def test_without_forces_every_joint_takes_positions():
    plan = planned(ASSETS / "actuation_drives.usda")
    controls = of_type(plan_controls(plan, backend="kinematic"), JointTopicControl)
    assert controls[0].sets[0].label == "position"
    assert {each.label for each in controls[0].sets} == {"position", "velocity"}


def test_fingers_that_turn_are_open_at_zero():
    builder = PlanBuilder()
    robot = builder.robot("/robot", namespace="/robot")
    robot.body("base")
    robot.body("finger")
    joint = robot.joint("knuckle", "base", "finger", limits=(0.0, 0.8))
    action = robot.action("grip", "control_msgs/action/GripperCommand")
    robot.controller("gripper", "gripper", (joint.name,), interfaces=(action,))
    (control,) = plan_controls(builder.build())
    assert isinstance(control, GripperControl)
    assert (control.opened, control.closed) == ((0.0,), (0.8,))

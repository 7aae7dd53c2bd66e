"""Which interfaces a controller uses, where its prim has others as well."""

from __future__ import annotations

from builders.records import Stage, arm
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS, GRIPPER, uses_interface


def acting_and_listening() -> Stage:
    """A prim with a trajectory's action and a topic of something else (allowed, REP 0158 section 2.2 warns)."""
    stage = arm()
    stage.action("/robot/both")
    stage.topic("/robot/both", "geometry_msgs/msg/Twist", role="subscription")
    return stage


def test_an_interface_beside_a_controllers_own_is_not_the_controllers() -> None:
    plan = acting_and_listening().plan()
    (controller,) = plan.controllers
    assert controller.interfaces == ("/robot/both",)
    assert uses_interface(controller.schema, plan.actions[0])
    assert not uses_interface(controller.schema, plan.topics[0])


def test_every_schema_serves_its_ports() -> None:
    stage = arm()
    stage.topic("/robot/command", "trajectory_msgs/msg/JointTrajectory", role="subscription")
    stage.action("/robot/grip", "control_msgs/action/GripperCommand", gripper_joints=("/robot/lift",))
    plan = stage.plan()
    by_path = {interface.path: interface for interface in (*plan.topics, *plan.actions)}
    assert len(plan.controllers) == 2
    for controller in plan.controllers:
        assert all(uses_interface(controller.schema, by_path[path]) for path in controller.interfaces)
    for schema in CONTROLLER_SCHEMAS.keys() - {GRIPPER}:
        assert not uses_interface(schema, by_path["/robot/grip"])


def test_a_schema_that_is_not_known_serves_what_it_names() -> None:
    assert uses_interface("Another", acting_and_listening().plan().topics[0])

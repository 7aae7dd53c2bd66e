"""Which interfaces a controller uses, where its prim has others as well."""

from __future__ import annotations

from planning_records import Stage, arm

from usd_ros_bridge.planning.controller_schemas import SCHEMAS, serves


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
    assert serves(controller.schema, plan.actions[0])
    assert not serves(controller.schema, plan.topics[0])


def test_every_schema_serves_its_ports() -> None:
    stage = arm()
    stage.topic("/robot/command", "trajectory_msgs/msg/JointTrajectory", role="subscription")
    stage.action("/robot/grip", "control_msgs/action/GripperCommand", gripper_joints=("/robot/lift",))
    plan = stage.plan()
    by_path = {interface.path: interface for interface in (*plan.topics, *plan.actions)}
    assert len(plan.controllers) == 2
    for controller in plan.controllers:
        assert all(serves(controller.schema, by_path[path]) for path in controller.interfaces)
    for schema in SCHEMAS.values():
        assert not serves(schema.name, by_path["/robot/grip"])


def test_a_schema_that_is_not_known_serves_what_it_names() -> None:
    assert serves("Another", acting_and_listening().plan().topics[0])

"""External control: joint commands by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from builders.plans import gripper, rest_of
from builders.samples import joint_sample
from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.forward_command import ExternalControls
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Commands

PALM, LEFT, RIGHT = "palm_joint", "left_finger_joint", "right_finger_joint"


class Rig:
    def __init__(self) -> None:
        builder = gripper()
        robot = builder.robots[0]
        topic = robot.topic("robot_joint_commands", "sensor_msgs/msg/JointState", "subscription")
        names = (PALM, LEFT, RIGHT)
        self.rows = [robot.row(name) for name in names]
        controller = ControllerPlan(
            path="/gripper/external",
            schema="RosControlExternalAPI",
            interfaces=(topic.path,),
            joints=names,
            dofs=tuple(self.rows),
            robot=0,
        )
        self.plan = replace(builder.build(), controllers=(controller,))
        self.reports: list[str] = []
        context = ControllerContext(plan=self.plan, report=lambda kind, _message: self.reports.append(kind))
        self.controls = ExternalControls(context, self.plan.controllers)
        self.state = rest_of(self.plan)
        self.commands = Commands(self.plan.layout)

    def send(
        self,
        *names: str,
        position: Sequence[float] = (),
        velocity: Sequence[float] = (),
        effort: Sequence[float] = (),
    ) -> None:
        self.controls.receive(0, joint_sample(names, position, velocity, effort), time_ns=0)

    def tick(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, velocities and efforts of palm, left and right finger."""
        self.commands.clear()
        self.controls.command(1, self.state, self.commands)
        rows = self.rows
        return (
            self.commands.joint_position[rows],
            self.commands.joint_velocity[rows],
            self.commands.joint_effort[rows],
        )


def same(actual: np.ndarray, expected: Sequence[float]) -> None:
    np.testing.assert_array_equal(actual, expected)


def test_targets_go_to_joints_by_name() -> None:
    rig = Rig()
    rig.send(LEFT, PALM, position=[0.02, 1.0], velocity=[0.1, 0.2], effort=[3.0, 4.0])
    assert rig.controls.busy
    position, velocity, effort = rig.tick()
    same(position, [1.0, 0.02, np.nan])
    same(velocity, [0.2, 0.1, np.nan])
    same(effort, [4.0, 3.0, np.nan])
    assert not rig.controls.busy
    same(rig.tick()[0], [np.nan] * 3)


def test_an_empty_array_and_values_that_are_not_finite_command_nothing() -> None:
    rig = Rig()
    rig.send(PALM, LEFT, position=[np.nan, 0.01], velocity=[1e308, -1e31], effort=[np.inf, np.nan])
    position, velocity, effort = rig.tick()
    same(position, [np.nan, 0.01, np.nan])
    same(velocity, [np.nan] * 3)
    same(effort, [np.nan] * 3)


def test_several_commands_of_a_tick_add_up() -> None:
    rig = Rig()
    rig.send(PALM, position=[1.0])
    rig.send(LEFT, position=[0.02])
    rig.send(PALM, position=[2.0])
    same(rig.tick()[0], [2.0, 0.02, np.nan])


def test_a_message_with_arrays_of_the_wrong_length_is_ignored_as_a_whole() -> None:
    rig = Rig()
    rig.send(PALM, LEFT, position=[1.0, 0.02], velocity=[1.0])
    same(rig.tick()[0], [np.nan] * 3)
    assert rig.reports == ["sink.length:/gripper/robot_joint_commands"]


def test_joints_that_follow_others_or_are_unknown_are_ignored_and_reported() -> None:
    rig = Rig()
    rig.send(RIGHT, PALM, "elbow", position=[0.01, 1.0, 2.0])
    same(rig.tick()[0], [1.0, np.nan, np.nan])
    assert rig.reports == ["sink.joint:/gripper/robot_joint_commands"]


def test_a_control_that_is_switched_off_holds_what_it_moved() -> None:
    rig = Rig()
    rig.send(PALM, position=[1.0])
    rig.send(LEFT, velocity=[0.1])
    rig.tick()
    rig.state.joint_position[rig.rows] = [0.7, 0.03, 0.03]
    rig.send(LEFT, velocity=[0.2])
    rig.controls.set_active(0, False, time_ns=0, state=rig.state)
    assert rig.controls.busy
    position, velocity, effort = rig.tick()
    same(position, [0.7, np.nan, np.nan])
    same(velocity, [np.nan, 0.0, np.nan])
    same(effort, [np.nan] * 3)
    assert not rig.controls.busy


def test_reset_forgets_what_waits() -> None:
    rig = Rig()
    rig.send(PALM, position=[1.0])
    rig.controls.reset()
    assert not rig.controls.busy
    same(rig.tick()[0], [np.nan] * 3)

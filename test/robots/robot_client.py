"""A plain rclpy node that moves a running robot: trajectories, a gripper, a base; and where its parts really are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import rclpy
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, ParallelGripperCommand
from geometry_msgs.msg import Twist
from live_bridge import BridgeProcess
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from simulation_interfaces.srv import GetEntities, GetEntityState
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectoryPoint

START_TIMEOUT = 60.0
GOAL_TIMEOUT = 60.0


class RobotClient:
    """A node beside a bridge, spun by the test's thread: nothing arrives unless it waits."""

    def __init__(self, bridge: BridgeProcess, *, domain_id: int, namespace: str) -> None:
        """Store whom to speak to: the robot's namespace."""
        self._bridge = bridge
        self._domain_id = domain_id
        self._namespace = namespace
        self._context = Context()
        self.positions: dict[str, float] = {}

    def __enter__(self) -> RobotClient:
        rclpy.init(
            context=self._context, domain_id=self._domain_id, signal_handler_options=SignalHandlerOptions.NO
        )
        self.node = Node("import_test", namespace=self._namespace, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.node.create_subscription(JointState, "joint_states", self._on_joint_states, 10)
        return self

    def __exit__(self, *exception: object) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = START_TIMEOUT) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, self._report(f"no {what} within {timeout} s")
            assert self._bridge.alive, self._report("the bridge ended by itself")
            self._executor.spin_once(timeout_sec=0.2)

    def follow(self, targets: Mapping[str, float], duration_s: int) -> Any:
        """Send a FollowJointTrajectory goal with one point. Return the result."""
        goal = FollowJointTrajectory.Goal()
        goal.trajectory.joint_names = list(targets)
        point = JointTrajectoryPoint(positions=[float(value) for value in targets.values()])
        point.time_from_start = Duration(sec=duration_s)
        goal.trajectory.points = [point]
        return self._act(FollowJointTrajectory, "joint_trajectory_controller/follow_joint_trajectory", goal)

    def grip(self, targets: Mapping[str, float]) -> Any:
        """Send a ParallelGripperCommand goal. Return the result."""
        goal = ParallelGripperCommand.Goal()
        goal.command.name = list(targets)
        goal.command.position = [float(value) for value in targets.values()]
        return self._act(ParallelGripperCommand, "gripper_controller/gripper_cmd", goal)

    def _act(self, action: Any, name: str, goal: Any) -> Any:
        client = ActionClient(self.node, action, name)
        self.wait_until(client.server_is_ready, name)
        sent = client.send_goal_async(goal)
        self.wait_until(sent.done, f"answer of {name}", GOAL_TIMEOUT)
        handle = sent.result()
        assert handle.accepted, self._report(f"{name} rejected the goal")
        result = handle.get_result_async()
        self.wait_until(result.done, f"result of {name}", GOAL_TIMEOUT)
        client.destroy()
        return result.result()

    def wait_for_fresh_positions(self) -> Mapping[str, float]:
        """Wait for a JointState that is sent from now on."""
        self.positions = {}
        self.wait_until(lambda: bool(self.positions), "joint_states")
        return self.positions

    def drive(self, speed: float, condition: Callable[[], bool]) -> None:
        """Command a speed (m/s) on cmd_vel until a condition holds; then 0."""
        publisher = self.node.create_publisher(Twist, "cmd_vel", 10)
        self.wait_until(lambda: publisher.get_subscription_count() > 0, "subscription of cmd_vel")
        command = Twist()
        command.linear.x = speed

        def drives_on() -> bool:
            publisher.publish(command)
            return condition()

        self.wait_until(drives_on, "end of the drive", GOAL_TIMEOUT)
        publisher.publish(Twist())

    def base_state(self) -> Any:
        """Return the header and the pose of the robot's base in the world, as the simulation has them."""
        entities = self._ask(GetEntities, "/get_entities").entities
        return self._ask(GetEntityState, "/get_entity_state", entity=entities[0]).state

    def play(self) -> None:
        """Let simulated time pass."""
        assert self._ask(SetBool, "/usd_ros_bridge/set_paused", data=False).success

    def _ask(self, service: Any, name: str, **fields: Any) -> Any:
        client = self.node.create_client(service, name)
        self.wait_until(client.service_is_ready, name)
        answer = client.call_async(service.Request(**fields))
        self.wait_until(answer.done, f"answer of {name}")
        self.node.destroy_client(client)
        return answer.result()

    def _on_joint_states(self, message: JointState) -> None:
        self.positions = dict(zip(message.name, message.position, strict=True))

    def _report(self, problem: str) -> str:
        return f"{problem}\n--- output of the bridge ---\n{self._bridge.output}"


def seconds(stamp: Any) -> float:
    return float(stamp.sec + 1e-9 * stamp.nanosec)


def tilt(orientation: Any) -> float:
    """Return the angle (rad) between the Z axis of an orientation and that of the world."""
    x, y = orientation.x, orientation.y
    return math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y))))

"""Attacks of a peer on a running bridge: what any node of the domain can send, chosen by a seed."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from action_plans import Client
from control_msgs.action import FollowJointTrajectory, ParallelGripperCommand
from geometry_msgs.msg import PoseStamped, TransformStamped, Twist, TwistStamped
from parameter_client import call
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy._rclpy_pybind11 import RCLError
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import SimulationState
from simulation_interfaces.srv import (
    DeleteEntity,
    GetEntities,
    GetEntitiesStates,
    GetSpawnables,
    ResetSimulation,
    SetEntityInfo,
    SetEntityState,
    SetSimulationState,
    SpawnEntity,
    StepSimulation,
)
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

NUMBERS = (
    0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-9, 1.0, -1.0, 1e9, 1e300, -1e300, sys.float_info.max, float("inf"),
    float("-inf"), float("nan"),
)  # fmt: skip
WORDS = (
    "", " ", "/", "~", "{node}", "a/b", "//", "\x1b[2J\x1b]0;title\x07", "\u202e", "[/red]", "[bold", "%s%n", "{0}",
    "../..", "x" * 10_000, "joint_1", "base_link", "caf\u00e9", "\x00", "'; --", "((.+)+)+X",
    "(" * 5_000, "a{1,65535}{1,65535}",
)  # fmt: skip
BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
ALL_QOS = [
    QoSProfile(depth=depth, reliability=reliability, durability=durability)
    for depth in (1, 100)
    for reliability in (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
    for durability in (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL)
]
CDR = b"\x00\x01\x00\x00"
"""What serialized messages begin with."""
ANSWER_S = 60.0


class Peer:
    """A node of the domain with bad intentions. Every request that is answered at all is answered in time."""

    def __init__(self, harness: Any, *, node: str, seed: int) -> None:
        self.harness = harness
        self.node = harness.node
        self.random = random.Random(seed)
        self._bridge = node

    @contextmanager
    def publisher(self, kind: Any, topic: str, qos: Any = 10) -> Iterator[Any]:
        publisher = self.node.create_publisher(kind, topic, qos)
        try:
            self.harness.wait_for(
                lambda: publisher.get_subscription_count() > 0,
                timeout=ANSWER_S,
                what=f"a subscription to {topic}",
            )
            yield publisher
        finally:
            self.node.destroy_publisher(publisher)

    def call(self, kind: Any, name: str, request: Any) -> Any:
        client = self.node.create_client(kind, name.replace("~", self._bridge))
        try:
            self.harness.wait_for(client.service_is_ready, timeout=ANSWER_S, what=name)
            future = client.call_async(request)
            self.harness.wait_for(future.done, timeout=ANSWER_S, what=f"the answer of {name}")
            return future.result()
        finally:
            self.node.destroy_client(client)

    def set_parameter(self, name: str, value: Any, *, kind: Any = SetParameters) -> None:
        message = Parameter(name, value=value).to_parameter_msg()
        suffix = "set_parameters_atomically" if kind is SetParametersAtomically else "set_parameters"
        call(self.harness, self._bridge, kind, suffix, kind.Request(parameters=[message]), timeout=ANSWER_S)

    def goal(self, kind: Any, name: str, goal: Any, *, cancel: bool = False) -> None:
        """Sends a goal and waits for its end, whatever that is."""
        client = Client(self.harness, kind, name)
        try:
            sent = client.send(goal)
            if not sent.handle.accepted:
                return
            if cancel:
                client.cancel(sent)
            client.wait(sent)
        finally:
            client.close()

    def spin(self, times: int = 10) -> None:
        for _ in range(times):
            self.harness.executor.spin_once(timeout_sec=0.0)

    def number(self) -> float:
        return self.random.choice(NUMBERS)

    def word(self) -> str:
        return self.random.choice(WORDS)


Attack = Callable[[Peer], None]


# --- On any bridge -------------------------------------------------------------------------------------------------


def publishers_come_and_go(kind: Any, topic: str, rounds: int = 30) -> Attack:
    """Publishers of every quality of service come, go and replace each other at once."""

    def attack(peer: Peer) -> None:
        there: list[Any] = []
        for _ in range(rounds):
            coming = [peer.random.choice(ALL_QOS) for _ in range(peer.random.randint(0, 3))]
            there.extend(peer.node.create_publisher(kind, topic, qos) for qos in coming)
            while len(there) > peer.random.randint(0, 4):
                peer.node.destroy_publisher(there.pop(peer.random.randrange(len(there))))
            for publisher in there:
                publisher.publish(kind())
            peer.spin(3)
        for publisher in there:
            peer.node.destroy_publisher(publisher)

    return attack


def garbage_bytes(kind: Any, topic: str) -> Attack:
    """Bytes that are no message: cut off, random, with lengths of gigabytes."""

    def attack(peer: Peer) -> None:
        with peer.publisher(kind, topic) as publisher:
            for length in (0, 1, 3, 4, 5, 8, 40, 400, 4000):
                lengths = struct.pack("<3I", 0, 0, 0xFFFFFFFF) * (length // 12 + 1)
                body = bytes(peer.random.randbytes(length))
                for message in (body, CDR + body, CDR + lengths):
                    # The middleware refuses what is longer than any message of the type.
                    with suppress(RCLError):
                        publisher.publish(message)
                peer.spin(1)

    return attack


def unlikely_parameters(peer: Peer) -> None:
    """Rates, factors and texts that no option can have; names that nobody knows."""
    for name in ("real_time_factor", "publish_frequency", "tf_rate", "clock_rate", "diagnostics_rate"):
        for value in NUMBERS:
            peer.set_parameter(name, value)
    for name in ("variants", "schema_resolvers"):
        peer.set_parameter(name, [peer.word() for _ in range(5)])
    for name in ("frame_prefix", "tf_output", "base_transform", "asset", "system_default_qos"):
        for value in WORDS:
            peer.set_parameter(name, value.replace("\x00", ""))
    for value in WORDS:
        peer.set_parameter(value.replace("\x00", ""), 1.0, kind=SetParametersAtomically)
    for kept, value in (("tf_rate", 50.0), ("publish_frequency", 0.0), ("real_time_factor", 1.0)):
        peer.set_parameter(kept, value)
    peer.set_parameter("frame_prefix", "")
    peer.set_parameter("tf_output", "namespaced")
    peer.set_parameter("base_transform", "auto")


def reload_again_and_again(peer: Peer) -> None:
    """Reloads while others wait for theirs."""
    client = peer.node.create_client(Trigger, "/usd_ros_bridge/reload")
    peer.harness.wait_for(client.service_is_ready, what="~/reload")
    futures = [client.call_async(Trigger.Request()) for _ in range(20)]
    # Queues of the middleware may drop requests: whoever hears nothing asks again.
    peer.harness.wait_for(lambda: any(each.done() for each in futures), timeout=ANSWER_S, what="an answer")
    peer.call(Trigger, "~/reload", Trigger.Request())
    peer.node.destroy_client(client)


def foreign_frames(topic: str, frames: int = 2_000) -> Attack:
    """Transforms with ever new names, those of the bridge's own frames among them."""

    def attack(peer: Peer) -> None:
        with peer.publisher(TFMessage, topic, 100) as publisher:
            for start in range(0, frames, 100):
                message = TFMessage()
                for index in range(start, start + 100):
                    each = TransformStamped(child_frame_id=f"frame_{index}")
                    each.header.frame_id = peer.word().replace("\x00", "")
                    each.transform.translation.x = peer.number()
                    each.transform.rotation.w = peer.number()
                    message.transforms.append(each)
                publisher.publish(message)
                peer.spin(1)

    return attack


# --- On joints -----------------------------------------------------------------------------------------------------


def unknown_joints(topic: str) -> Attack:
    """Names that nobody knows: new ones in each message, then a message of 200,000."""

    def attack(peer: Peer) -> None:
        with peer.publisher(JointState, topic) as publisher:
            for round_number in range(200):
                names = [f"joint_{round_number}_{index}" for index in range(100)]
                publisher.publish(JointState(name=names, position=[0.0] * 100))
                peer.spin(1)
            names = [f"other_{index}" for index in range(200_000)]
            publisher.publish(JointState(name=names, position=[0.0] * len(names)))

    return attack


def unlikely_joint_states(topic: str) -> Attack:
    """Arrays of other lengths, numbers that are none, names of any form."""

    def attack(peer: Peer) -> None:
        with peer.publisher(JointState, topic) as publisher:
            for _ in range(300):
                count = peer.random.randint(0, 4)
                message = JointState(
                    name=[peer.word().replace("\x00", "") for _ in range(count)] + ["joint_1", "joint_1"]
                )
                for field in ("position", "velocity", "effort"):
                    setattr(message, field, [peer.number() for _ in range(peer.random.randint(0, 6))])
                message.header.stamp.sec = peer.random.choice((-(2**31), -1, 0, 2**31 - 1))
                publisher.publish(message)
                peer.spin(1)

    return attack


def unlikely_arrays(topic: str) -> Attack:
    """Arrays that are empty, short, long, and a million numbers."""

    def attack(peer: Peer) -> None:
        with peer.publisher(Float64MultiArray, topic) as publisher:
            for count in (0, 1, 2, 3, 100, 1_000_000):
                publisher.publish(
                    Float64MultiArray(
                        data=[peer.number() for _ in range(min(count, 100))] * (count // 100 or 1)
                    )
                )
                peer.spin(1)

    return attack


def unlikely_twists(topic: str, kind: Any = Twist) -> Attack:
    """Speeds of any size, at a rate that no tick keeps up with."""

    def attack(peer: Peer) -> None:
        with peer.publisher(kind, topic, BEST_EFFORT) as publisher:
            for _ in range(500):
                message = kind()
                twist = message.twist if kind is TwistStamped else message
                for vector in (twist.linear, twist.angular):
                    vector.x, vector.y, vector.z = peer.number(), peer.number(), peer.number()
                publisher.publish(message)
                peer.spin(1)
            publisher.publish(kind())

    return attack


def unknown_frames(topic: str) -> Attack:
    """Poses in frames that nobody knows."""

    def attack(peer: Peer) -> None:
        with peer.publisher(PoseStamped, topic) as publisher:
            for index in range(1_000):
                message = PoseStamped()
                message.header.frame_id = f"frame_{index}" if index % 2 else peer.word().replace("\x00", "")
                message.pose.position.x, message.pose.orientation.w = peer.number(), peer.number()
                publisher.publish(message)
                peer.spin(1)

    return attack


def unlikely_trajectories(action: str, topic: str) -> Attack:
    """Goals and messages with points, times and names of any kind; then a goal that is preempted many times."""

    def trajectory(peer: Peer) -> JointTrajectory:
        names = peer.random.choice(
            (["joint_1", "joint_2"], [], ["joint_1"], [peer.word().replace("\x00", "")] * 2)
        )
        message = JointTrajectory(joint_names=names)
        for _ in range(peer.random.choice((0, 1, 2, 5))):
            point = JointTrajectoryPoint()
            for field in ("positions", "velocities", "accelerations"):
                setattr(point, field, [peer.number() for _ in range(peer.random.choice((0, 2, 2, 3)))])
            point.time_from_start.sec = peer.random.choice((-(2**31), -1, 0, 1, 2**31 - 1))
            point.time_from_start.nanosec = peer.random.choice((0, 1, 2**32 - 1))
            message.points.append(point)
        return message

    def attack(peer: Peer) -> None:
        with peer.publisher(JointTrajectory, topic) as publisher:
            for _ in range(100):
                publisher.publish(trajectory(peer))
                peer.spin(1)
            many = JointTrajectory(joint_names=["joint_1", "joint_2"])
            for index in range(20_000):
                point = JointTrajectoryPoint(positions=[0.0, 0.0])
                point.time_from_start.sec = index + 1
                many.points.append(point)
            publisher.publish(many)
        for _ in range(15):
            goal = FollowJointTrajectory.Goal(trajectory=trajectory(peer))
            goal.goal_time_tolerance.sec = peer.random.choice((-(2**31), -1, 0, 1))
            peer.goal(FollowJointTrajectory, action, goal, cancel=True)

    return attack


def unlikely_grips(action: str) -> Attack:
    """Gripper goals of any kind."""

    def attack(peer: Peer) -> None:
        for _ in range(10):
            goal = ParallelGripperCommand.Goal()
            goal.command.name = peer.random.choice((["finger"], [], [peer.word().replace("\x00", "")]))
            goal.command.position = [peer.number() for _ in range(peer.random.randint(0, 2))]
            peer.goal(ParallelGripperCommand, action, goal, cancel=True)

    return attack


def requests_without_end(service: str) -> Attack:
    """Hundreds of requests before the first answer is taken."""

    def attack(peer: Peer) -> None:
        client = peer.node.create_client(SetBool, service)
        peer.harness.wait_for(client.service_is_ready, what=service)
        futures = [client.call_async(SetBool.Request(data=bool(index % 2))) for index in range(300)]
        # Queues of the middleware may drop requests; clients that hear nothing ask again.
        peer.harness.wait_for(
            lambda: any(each.done() for each in futures), timeout=ANSWER_S, what="an answer"
        )
        peer.node.destroy_client(client)

    return attack


# --- On a simulation ---------------------------------------------------------------------------------------------


def expressions_without_end(peer: Peer) -> None:
    """Name filters that cost exponential time, or are none."""
    for pattern in WORDS:
        request = GetEntities.Request()
        request.filters.filter = pattern.replace("\x00", "")
        peer.call(GetEntities, "/get_entities", request)
        other = GetEntitiesStates.Request()
        other.filters.filter = pattern.replace("\x00", "")
        peer.call(GetEntitiesStates, "/get_entities_states", other)


def entities_anywhere(peer: Peer) -> None:
    """States of any size for bodies that there are and that there are not."""
    names = list(peer.call(GetEntities, "/get_entities", GetEntities.Request()).entities)
    for _ in range(60):
        request = SetEntityState.Request(entity=peer.random.choice([*names, peer.word().replace("\x00", "")]))
        state = request.state
        state.header.frame_id = peer.random.choice(("", "world", peer.word().replace("\x00", "")))
        for vector in (state.pose.position, state.twist.linear, state.twist.angular):
            vector.x, vector.y, vector.z = peer.number(), peer.number(), peer.number()
        turn = state.pose.orientation
        turn.x, turn.y, turn.z, turn.w = peer.number(), peer.number(), peer.number(), peer.number()
        peer.call(SetEntityState, "/set_entity_state", request)
    for index in range(100):
        request = SetEntityInfo.Request(entity=names[0])
        request.info.description = peer.word().replace("\x00", "") + str(index)
        request.info.tags = [f"tag_{index}_{number}" for number in range(100)]
        peer.call(SetEntityInfo, "/set_entity_info", request)
    peer.call(ResetSimulation, "/reset_simulation", ResetSimulation.Request(scope=0))


def steps_without_end(peer: Peer) -> None:
    """More steps than there is time for, and states that there are none."""
    for state in (2**8 - 1, SimulationState.STATE_PAUSED):
        peer.call(
            SetSimulationState,
            "/set_simulation_state",
            SetSimulationState.Request(state=SimulationState(state=state)),
        )
    client = peer.node.create_client(StepSimulation, "/step_simulation")
    peer.harness.wait_for(client.service_is_ready, what="step_simulation")
    client.call_async(StepSimulation.Request(steps=2**63))
    peer.goal(SimulateSteps, "simulate_steps", SimulateSteps.Goal(steps=2**63), cancel=True)
    peer.call(Trigger, "~/reset", Trigger.Request())
    peer.node.destroy_client(client)
    playing = SetSimulationState.Request(state=SimulationState(state=SimulationState.STATE_PLAYING))
    peer.call(SetSimulationState, "/set_simulation_state", playing)


def files_anywhere(*uris: str) -> Attack:
    """Spawns what is no file, no asset, or elsewhere, by names of any form; deletes what is not there."""

    def attack(peer: Peer) -> None:
        for uri in (
            "/etc/passwd",
            "/dev/zero",
            "../../../etc/passwd",
            "package://../x",
            "file:///etc/passwd",
            *uris,
        ):
            peer.call(
                SpawnEntity, "/spawn_entity", SpawnEntity.Request(name="thing", uri=uri, allow_renaming=True)
            )
        for word in WORDS:
            text = word.replace("\x00", "")
            peer.call(
                SpawnEntity, "/spawn_entity", SpawnEntity.Request(name=text, uri=text, entity_namespace=text)
            )
            peer.call(SpawnEntity, "/spawn_entity", SpawnEntity.Request(name="t", resource_string=text))
            peer.call(DeleteEntity, "/delete_entity", DeleteEntity.Request(entity=text))
        peer.call(GetSpawnables, "/get_spawnables", GetSpawnables.Request())

    return attack

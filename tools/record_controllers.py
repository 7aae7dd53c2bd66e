"""Record the rover with cmd_vel and the arm on trajectories, one of them canceled, and draw both.

`python tools/record_controllers.py DIRECTORY` writes the rosbag2s DIRECTORY/rover and DIRECTORY/arm from real bridges
with the kinematic backend, then rover_drive.svg and arm_trajectory.svg in docs/pictures from the bags. Bridges are
stepped, and each step waits for its messages: two recordings contain the same numbers.

It needs `pip install -r tools/recordings-requirements.txt`; without matplotlib, `--no-drawings` writes only the bags.
"""

from __future__ import annotations

import math
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# rclpy reads these when it makes a context. A recording needs no other node on the network.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("ROS_DOMAIN_ID", str(random.randint(1, 101)))

import click
import rclpy
from action_msgs.msg import GoalStatus, GoalStatusArray
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from recorder import DEPTH, Recorder, Topic
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage
from trajectory_msgs.msg import JointTrajectoryPoint
from unique_identifier_msgs.msg import UUID

from usd_ros_bridge import Bridge, load_plan

ROOT = Path(__file__).resolve().parents[1]
ROVER = ROOT / "examples" / "rover" / "rover.usda"
ARM = ROOT / "examples" / "arm" / "arm.usda"
PERIOD_NS = 10_000_000
START_NS = 1_000_000_000
TIMEOUT = 20.0
ACTION = "/arm/joint_trajectory_controller/follow_joint_trajectory"
LATCHED = QoSProfile(depth=DEPTH, durability=DurabilityPolicy.TRANSIENT_LOCAL)
DEGREE = math.pi / 180.0

COMMAND_PERIOD_TICKS = 10
DRIVE = ((0.5, 0.0, 0.0), (2.0, 0.6, 0.0), (4.0, 0.5, 0.7), (2.5, 0.4, -1.2))
"""Seconds, m/s and rad/s of each part of the rover's drive; the first is told nothing. Then the commands stop."""
REST_SECONDS = 1.5
"""Time of recording after the last command: time-out, braking, standstill."""

VIAS = (
    (1.0, (30.0, 20.0, -20.0, 0.0, 30.0, 40.0)),
    (2.0, (60.0, -10.0, -45.0, 40.0, 60.0, 90.0)),
    (3.0, (20.0, -30.0, 10.0, 80.0, -20.0, 30.0)),
    (4.0, (-40.0, 15.0, 25.0, 20.0, -50.0, -60.0)),
)
"""Seconds and degrees of the points of the first trajectory: the arm comes to rest at the last alone."""
RETURN_SECONDS = 4.0
CANCEL_AFTER_SECONDS = 1.5
HOLD_SECONDS = 1.0


class Stage:
    """A stepped bridge, and a node beside it that records what it sends.

    Attributes:
        bridge: Open.
        node: For publishers and clients.
        recorder: Of the node.
    """

    def __init__(self, bridge: Bridge, context: Any) -> None:
        self.bridge = bridge
        self.node = rclpy.create_node("recorder", context=context)
        self.recorder = Recorder(self.node)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._time_ns = self.recorder.now_ns = START_NS
        self._published: tuple[str, ...] = ()

    def listen(self, published: dict[str, Any], others: list[Topic]) -> None:
        """Records what the bridge publishes in steps, and other topics; returns when all are matched."""
        self._published = tuple(published)
        for name, message_class in published.items():
            self.recorder.listen(Topic(name, message_class))
        for topic in others:
            kept = topic.name.endswith(("tf_static", "status"))
            self.recorder.listen(topic, LATCHED if kept else None)
        self.wait(lambda: all(row.matched for row in self._rows()), "the bridge's topics do not match")
        latched = [topic.name for topic in others if topic.name.endswith("tf_static")]
        counts = self.recorder.counts
        self.wait(lambda: all(counts[name] for name in latched), "static transforms do not arrive")

    def step(self) -> None:
        """Steps by one period, and waits until all that was sent is recorded."""
        self.recorder.now_ns = self._time_ns
        self.bridge.step(self._time_ns)
        self._time_ns += PERIOD_NS
        sent = {row.name: row.count for row in self._rows()}
        counts = self.recorder.counts
        self.wait(lambda: all(counts[name] >= sent[name] for name in sent), "messages are missing")

    def run(self, seconds: float) -> None:
        """Steps for some seconds of bridge time."""
        for _ in range(round(seconds * 1e9 / PERIOD_NS)):
            self.step()

    def wait(self, happened: Callable[[], bool], otherwise: str) -> None:
        """Runs callbacks until something happened.

        Raises:
            RuntimeError: It did not, in TIMEOUT seconds.
        """
        deadline = time.monotonic() + TIMEOUT
        while not happened():
            if time.monotonic() > deadline:
                raise RuntimeError(otherwise)
            self._executor.spin_once(timeout_sec=0.05)

    def result_of(self, future: Any) -> Any:
        """Runs callbacks until a future is done, and returns its result."""
        self.wait(future.done, "no answer came")
        return future.result()

    def close(self) -> None:
        """Destroys the node."""
        self._executor.shutdown()
        self.node.destroy_node()

    def _rows(self) -> list[Any]:
        rows = self.bridge.status().interfaces
        return [row for row in rows if row.role == "publisher" and row.name in self._published]


@contextmanager
def open_stage(asset: Path) -> Iterator[Stage]:
    """Opens a bridge on an asset for the time of a `with` block; what it warns of is no part of a recording."""
    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        with Bridge(load_plan(asset), "kinematic", report=lambda *_: None, inform=lambda *_: None) as bridge:
            stage = Stage(bridge, context)
            try:
                yield stage
            finally:
                stage.close()
    finally:
        rclpy.shutdown(context=context)


# --- The rover ------------------------------------------------------------------------------------------------------


def record_rover(path: Path, *, drive: tuple[tuple[float, float, float], ...] = DRIVE) -> None:
    """Drives the rover, lets the commands stop, and writes the bag."""
    with open_stage(ROVER) as stage:
        publisher = stage.node.create_publisher(Twist, "/rover/cmd_vel", 10)
        stage.listen(
            {"/rover/odom": Odometry, "/rover/joint_states": JointState, "/rover/tf": TFMessage},
            [Topic("/rover/cmd_vel", Twist), Topic("/rover/tf_static", TFMessage)],
        )
        # Two subscriptions: the bridge's and the recorder's.
        stage.wait(lambda: publisher.get_subscription_count() >= 2, "the bridge does not listen to cmd_vel")
        for seconds, forward, turning in drive:
            for tick in range(round(seconds * 1e9 / PERIOD_NS)):
                if (forward or turning) and tick % COMMAND_PERIOD_TICKS == 0:
                    _command(stage, publisher, forward, turning)
                stage.step()
        stage.run(REST_SECONDS)
        stage.recorder.write(path)


def _command(stage: Stage, publisher: Any, forward: float, turning: float) -> None:
    """Publishes a command, and waits until both the bridge and the recorder have it."""
    message = Twist()
    message.linear.x, message.angular.z = forward, turning
    inbox, counts = stage.bridge.parts.runtime.inbox, stage.recorder.counts
    expected = counts["/rover/cmd_vel"] + 1
    publisher.publish(message)
    stage.wait(
        lambda: bool(inbox.pending) and counts["/rover/cmd_vel"] == expected, "a command did not arrive"
    )


# --- The arm --------------------------------------------------------------------------------------------------------


def record_arm(path: Path) -> None:
    """Let the arm follow a trajectory to its end, and a second one until it is canceled; write the bag."""
    with open_stage(ARM) as stage:
        client = ActionClient(stage.node, FollowJointTrajectory, ACTION)
        feedback = FollowJointTrajectory.Impl.FeedbackMessage
        stage.listen(
            {"/arm/joint_states": JointState, "/arm/tf": TFMessage},
            [
                Topic(f"{ACTION}/_action/feedback", feedback, stamp_of=_feedback_time),
                Topic(f"{ACTION}/_action/status", GoalStatusArray),
                Topic("/arm/tf_static", TFMessage),
            ],
        )
        stage.wait(client.server_is_ready, "nobody serves the action")
        arm = _Arm(stage, client)
        stage.run(0.5)
        handle = arm.start(1, [(seconds, degrees) for seconds, degrees in VIAS])
        arm.finish(handle, GoalStatus.STATUS_SUCCEEDED, within=VIAS[-1][0] + 1.0)
        stage.run(0.5)
        handle = arm.start(2, [(RETURN_SECONDS, (0.0,) * 6)])
        stage.run(CANCEL_AFTER_SECONDS)
        arm.cancel(handle)
        arm.finish(handle, GoalStatus.STATUS_CANCELED, within=0.5)
        stage.run(HOLD_SECONDS)
        client.destroy()
        stage.recorder.write(path)


class _Arm:
    """The arm's client, which waits for every answer before the next step."""

    def __init__(self, stage: Stage, client: Any) -> None:
        self._stage = stage
        self._client = client
        self._states: dict[bytes, int] = {}
        stage.node.create_subscription(GoalStatusArray, f"{ACTION}/_action/status", self._look, LATCHED)

    def start(self, number: int, vias: list[tuple[float, tuple[float, ...]]]) -> Any:
        """Sends a goal and returns its handle; `number` becomes its id, so that recordings are alike."""
        identity = UUID(uuid=list(uuid.UUID(int=number).bytes))
        future = self._client.send_goal_async(
            _goal(vias), feedback_callback=lambda _: None, goal_uuid=identity
        )
        handle = self._stage.result_of(future)
        if not handle.accepted:
            raise RuntimeError("the goal was rejected")
        self._wait_for(handle, GoalStatus.STATUS_EXECUTING)
        return handle

    def cancel(self, handle: Any) -> None:
        """Asks for the end of a goal."""
        answer = self._stage.result_of(handle.cancel_goal_async())
        if not answer.goals_canceling:
            raise RuntimeError("the goal cannot be cancelled")
        self._wait_for(handle, GoalStatus.STATUS_CANCELING)

    def finish(self, handle: Any, expected: int, *, within: float) -> None:
        """Steps until a goal is over.

        Raises:
            RuntimeError: It ends in another state, or not in time.
        """
        future = handle.get_result_async()
        controllers = self._stage.bridge.parts.runtime.controllers
        for _ in range(round(within * 1e9 / PERIOD_NS)):
            self._stage.step()
            # Not its status, which takes a moment: no further step is to be taken until that is recorded.
            if not controllers.busy:
                break
        self._wait_for(handle, expected)
        status = self._stage.result_of(future).status
        if status != expected:
            raise RuntimeError(f"the goal ended with status {status}, not {expected}")

    def _wait_for(self, handle: Any, state: int) -> None:
        key = bytes(handle.goal_id.uuid)
        self._stage.wait(
            lambda: self._states.get(key) == state,
            f"the goal did not come to status {state}, it has {self._states.get(key)}",
        )

    def _look(self, message: Any) -> None:
        for each in message.status_list:
            self._states[bytes(each.goal_info.goal_id.uuid)] = each.status


def _goal(vias: list[tuple[float, tuple[float, ...]]]) -> Any:
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = [f"joint_{number}" for number in range(1, 7)]
    for number, (seconds, degrees) in enumerate(vias):
        goal.trajectory.points.append(
            JointTrajectoryPoint(
                positions=[DEGREE * each for each in degrees],
                velocities=_velocities(vias, number),
                time_from_start=Duration(sec=int(seconds), nanosec=round(seconds % 1.0 * 1e9)),
            )
        )
    return goal


def _velocities(vias: list[tuple[float, tuple[float, ...]]], number: int) -> list[float]:
    """Returns the mean velocity about a point, zero at the last: what a simple planner gives."""
    if number == len(vias) - 1:
        return [0.0] * 6
    before, behind = vias[max(number - 1, 0)], vias[number + 1]
    seconds = behind[0] - before[0]
    return [DEGREE * (b - a) / seconds for a, b in zip(before[1], behind[1], strict=True)]


def _feedback_time(data: bytes) -> int:
    message = deserialize_message(data, FollowJointTrajectory.Impl.FeedbackMessage)
    stamp = message.feedback.header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


# --- The command line -----------------------------------------------------------------------------------------------


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--drawings/--no-drawings", default=True, help="Draw docs/*.svg from the recordings.")
def main(directory: Path, drawings: bool) -> None:
    """Write the recordings into DIRECTORY, which is made, and draw them."""
    directory.mkdir(parents=True, exist_ok=True)
    record_rover(directory / "rover")
    record_arm(directory / "arm")
    if drawings:
        from draw_recordings import draw_arm, draw_rover

        draw_rover(directory / "rover", ROOT / "docs" / "pictures" / "rover_drive.svg")
        draw_arm(directory / "arm", ROOT / "docs" / "pictures" / "arm_trajectory.svg")


if __name__ == "__main__":
    main()

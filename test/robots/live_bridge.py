"""The bridge in a process of its own, and a ROS node that sends it joint states and hears its /tf."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from robot_oracle import Pose
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

CONSOLE_SCRIPT = Path(sys.executable).with_name("usd_ros_bridge")
START_TIMEOUT = 40.0
ANSWER_TIMEOUT = 5.0
STOP_TIMEOUT = 10.0

Transforms = Mapping[str, tuple[str, Pose]]
"""Child frame -> parent frame and pose in it."""


class BridgeProcess:
    """`usd_ros_bridge run ASSET ARGUMENT...`, from `with` to `with`; interrupted at the end."""

    def __init__(
        self,
        asset: Path,
        *,
        domain_id: int,
        log: Path,
        arguments: Sequence[str] = ("--backend", "joint_states"),
    ) -> None:
        self._command = [str(CONSOLE_SCRIPT), "run", str(asset), *arguments]
        self._environment = {**os.environ, "ROS_DOMAIN_ID": str(domain_id)}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> BridgeProcess:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace", encoding="utf-8")

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def interrupt(self) -> int:
        """Sends SIGINT and returns the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(timeout=STOP_TIMEOUT)


class TfListener:
    """Publishes joint_states and gathers /tf by stamp and /tf_static, in one thread.

    Nothing arrives unless it waits.
    """

    def __init__(
        self, bridge: BridgeProcess, *, domain_id: int, namespace: str = "/", topic: str = "joint_states"
    ) -> None:
        """Stores whom to speak to: the robot's namespace, and where its joint states are awaited."""
        self._bridge = bridge
        self._namespace = namespace
        self._topic = topic
        self._domain_id = domain_id
        self._context = Context()
        self._by_stamp: dict[int, dict[str, tuple[str, Pose]]] = {}
        self._last_stamp = 0
        self.static: dict[str, tuple[str, Pose]] = {}

    def __enter__(self) -> TfListener:
        rclpy.init(
            context=self._context, domain_id=self._domain_id, signal_handler_options=SignalHandlerOptions.NO
        )
        self._node = Node("robot_test", namespace=self._namespace, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._publisher = self._node.create_publisher(JointState, self._topic, 10)
        self._node.create_subscription(TFMessage, "tf", self._on_tf, QoSProfile(depth=100))
        latched = QoSProfile(
            depth=100, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
        )
        self._node.create_subscription(TFMessage, "tf_static", self._on_tf_static, latched)
        return self

    def __exit__(self, *exception: object) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    def connect(self, positions: Mapping[str, float]) -> None:
        """Sends joint states until a /tf with the stamp of one of them is back: each side knows the other.

        Only here is anything sent twice: a best-effort subscription misses what is sent before it knows the
        publisher.

        Raises:
            AssertionError: nothing came back within START_TIMEOUT, or the bridge ended.
        """
        stamps: set[int] = set()
        deadline = time.monotonic() + START_TIMEOUT
        while not stamps & self._by_stamp.keys():
            assert time.monotonic() < deadline, self._report(f"no /tf within {START_TIMEOUT} s of the start")
            stamps.add(self.publish(positions))
            self._spin_until(lambda: bool(stamps & self._by_stamp.keys()), timeout=0.5)

    def publish(self, positions: Mapping[str, float]) -> int:
        """Publishes a JointState and returns its stamp in nanoseconds, later than any before."""
        self._last_stamp = max(self._node.get_clock().now().nanoseconds, self._last_stamp + 1)
        message = JointState(name=list(positions), position=[float(value) for value in positions.values()])
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self._last_stamp, 10**9)
        self._publisher.publish(message)
        return self._last_stamp

    def wait_for_transforms(self, stamp: int, children: Iterable[str]) -> Transforms:
        """Waits until /tf has shown all children with that stamp, and returns all that bears the stamp.

        Raises:
            AssertionError: some are missing after ANSWER_TIMEOUT.
        """
        wanted = set(children)
        self._spin_until(lambda: wanted <= self._by_stamp.get(stamp, {}).keys(), timeout=ANSWER_TIMEOUT)
        seen = self._by_stamp.get(stamp, {})
        missing = sorted(wanted - seen.keys())
        assert not missing, self._report(f"/tf with stamp {stamp} lacks {missing}; it has {sorted(seen)}")
        return seen

    def wait_for_static(self, children: Iterable[str]) -> None:
        """Waits until /tf_static has shown all children.

        Raises:
            AssertionError: some are missing after ANSWER_TIMEOUT.
        """
        wanted = set(children)
        self._spin_until(lambda: wanted <= self.static.keys(), timeout=ANSWER_TIMEOUT)
        missing = sorted(wanted - self.static.keys())
        assert not missing, self._report(f"/tf_static lacks {missing}; it has {sorted(self.static)}")

    def count_publishers(self, topic: str) -> int:
        return self._node.count_publishers(topic)

    def _spin_until(self, condition: Callable[[], bool], *, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition() and (left := deadline - time.monotonic()) > 0.0:
            # The bound lets a bridge that has ended be noticed; a message ends the wait at once.
            self._executor.spin_once(timeout_sec=min(left, 0.2))
            assert self._bridge.alive, self._report("the bridge ended by itself")

    def _on_tf(self, message: TFMessage) -> None:
        for transform in message.transforms:
            stamp = transform.header.stamp.sec * 10**9 + transform.header.stamp.nanosec
            transforms = self._by_stamp.setdefault(stamp, {})
            child = transform.child_frame_id
            assert child not in transforms, f"/tf shows {child} twice with stamp {stamp}"
            transforms[child] = (transform.header.frame_id, _pose(transform.transform))

    def _on_tf_static(self, message: TFMessage) -> None:
        for transform in message.transforms:
            self.static[transform.child_frame_id] = (transform.header.frame_id, _pose(transform.transform))

    def _report(self, problem: str) -> str:
        return f"{problem}\n--- output of the bridge ---\n{self._bridge.output}"


def _pose(transform: object) -> Pose:
    t, q = transform.translation, transform.rotation  # type: ignore[attr-defined]
    rotation = np.array([q.x, q.y, q.z, q.w])
    norm = float(np.linalg.norm(rotation))
    assert abs(norm - 1.0) < 1e-9, f"a quaternion of norm {norm} on TF"
    return Pose(np.array([t.x, t.y, t.z]), rotation)

"""Lockstep with MuJoCo: the example rover, driven twice by the same commands at the same times, says the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from sensor_msgs.msg import Image, Imu, JointState, LaserScan
from tf2_msgs.msg import TFMessage

from usd_ros_bridge import Bridge, BridgeOptions, load_plan

WORLD = Path(__file__).parents[2] / "examples" / "rover" / "world.usda"
MS = 1_000_000
TICKS = 100
RELIABLE = QoSProfile(depth=1000)
BEST_EFFORT = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
HEARD = {
    "/rover/tf": (TFMessage, RELIABLE),
    "/rover/joint_states": (JointState, RELIABLE),
    "/rover/odom": (Odometry, RELIABLE),
    "/rover/imu": (Imu, BEST_EFFORT),
    "/rover/scan": (LaserScan, BEST_EFFORT),
    "/rover/image_raw": (Image, BEST_EFFORT),
}

Recording = dict[str, list[tuple[bytes, str]]]
"""Stamp and digest of each message, by topic."""

# Behind the encapsulation header; TFMessage alone has a length before it.
STAMP = slice(4, 12)


@pytest.fixture
def drive(ros_harness: Any) -> Callable[[float], Recording]:
    """Drives the rover for half a second; returns what it said."""

    def run(speed: float) -> Recording:
        heard: Recording = {name: [] for name in HEARD}
        node = ros_harness.node

        def note(name: str) -> Callable[[bytes], None]:
            return lambda data: heard[name].append((data[STAMP], hashlib.sha256(data).hexdigest()))

        subscriptions = {
            name: node.create_subscription(message_class, name, note(name), qos, raw=True)
            for name, (message_class, qos) in HEARD.items()
        }
        commands = node.create_publisher(Twist, "/rover/cmd_vel", 10)
        plan = load_plan(WORLD)
        try:
            with Bridge(
                plan,
                "mujoco",
                options=BridgeOptions(backend_options={"lockstep": "true"}, threaded=False, seed=7),
                report=lambda *_: None,
                inform=lambda *_: None,
            ) as bridge:
                _meet(ros_harness, bridge, [commands, *subscriptions.values()])
                for number in range(1, TICKS + 1):
                    if number in (5, 50):
                        message = Twist()
                        message.linear.x = speed / number
                        message.angular.z = 0.3
                        commands.publish(message)
                        _deliver(ros_harness, bridge)
                    assert bridge.step(number * 6 * MS)
                    ros_harness.executor.spin_once(timeout_sec=0.0)
                sent = {row.name: row.count for row in bridge.status().interfaces}
                reliable = [name for name, (_, qos) in HEARD.items() if qos is RELIABLE]
                ros_harness.wait_for(lambda: all(len(heard[name]) == sent[name] for name in reliable))
                assert not bridge.status().backend_errors
        finally:
            for each in subscriptions.values():
                node.destroy_subscription(each)
            node.destroy_publisher(commands)
        assert all(sent[name] > 0 for name in HEARD), sent
        return heard

    return run


def _meet(harness: Any, bridge: Bridge, ends: Sequence[Any]) -> None:
    """Waits until the bridge and the ends of the harness know of each other: either may be the later one."""

    def met() -> bool:
        bridge.poll()
        rows = {row.name: row.matched for row in bridge.status().interfaces}
        bridge_knows = all(rows[name] == 1 for name in (*HEARD, "/rover/cmd_vel"))
        return bridge_knows and all(_peers(end) == 1 for end in ends)

    harness.wait_for(met, timeout=20.0, what="discovery")


def _peers(end: Any) -> int:
    return end.get_publisher_count() if isinstance(end, Subscription) else end.get_subscription_count()


def _deliver(harness: Any, bridge: Bridge) -> None:
    def arrived() -> bool:
        bridge.poll()
        return bridge.parts.runtime.inbox.pending

    harness.wait_for(arrived, what="the command")


@pytest.mark.process
def test_the_rover_says_the_same_bytes_again(drive: Callable[[float], Recording]) -> None:
    first, second, faster = drive(4.0), drive(4.0), drive(8.0)
    for name, (_, qos) in HEARD.items():
        assert len(first[name]) >= 3, name
        if qos is RELIABLE:
            assert first[name] == second[name], name
            assert first[name] != faster[name], f"{name}: commands count"
        else:
            # Some may be lost on the way: those of one stamp are compared.
            one, other = dict(first[name]), dict(second[name])
            both = one.keys() & other.keys()
            assert len(both) >= 3, name
            assert [stamp for stamp in both if one[stamp] != other[stamp]] == [], name

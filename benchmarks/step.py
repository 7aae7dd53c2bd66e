"""Steps: what `Bridge.step` costs a simulator, with nothing due and with all of one robot's publishers due."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from benchmarks.bridges import SteppedBridge, stepped
from benchmarks.harness import Options, Result, Target, interleaved, median_result
from benchmarks.robots import AXES, SwayingBackend, new_robot
from builders.plans import PlanBuilder
from usd_ros_bridge.model.plan import BridgePlan, Scene
from usd_ros_bridge.model.sensors import CameraModel

NOTHING_DUE = Target(0.7)
ALL_DUE = Target(45.0)
LINKS = 29
RATE = 100.0
_NOTHING_DUE_RATE = 0.001
_SHORT_NS = 1_000
_PERIOD_NS = int(1e9 / RATE)

PUBLISHERS = {
    "joint_states": "sensor_msgs/msg/JointState",
    "imu": "sensor_msgs/msg/Imu",
    "mast_imu": "sensor_msgs/msg/Imu",
    "odom": "nav_msgs/msg/Odometry",
    "pose": "geometry_msgs/msg/PoseStamped",
    "twist": "geometry_msgs/msg/TwistStamped",
    "transform": "geometry_msgs/msg/TransformStamped",
    "accel": "geometry_msgs/msg/AccelStamped",
    "left/camera_info": "sensor_msgs/msg/CameraInfo",
    "right/camera_info": "sensor_msgs/msg/CameraInfo",
}
"""The ten beside /tf."""


def run(options: Options) -> Iterator[Result]:
    """Yields a step with nothing due, and a tick in which all are due: written, and left out."""
    with _stepped(_NOTHING_DUE_RATE, "/robot", period_ns=_SHORT_NS, forced=True) as nothing:
        nothing.step()
        nothing.check_writes(0)
        runs = [values[0] * 1e6 for values in interleaved((nothing.step,), options)]
    yield median_result(
        "step.nothing_due",
        runs,
        "us",
        target=NOTHING_DUE,
        compared_with="the budget of a simulator that steps at 1 kHz; ten publishers and /tf open",
    )
    yield from _all_due(options)


def _all_due(options: Options) -> Iterator[Result]:
    messages = len(PUBLISHERS) + 1
    with (
        _stepped(RATE, "/forced", period_ns=_PERIOD_NS, forced=True) as forced,
        _stepped(RATE, "/idle", period_ns=_PERIOD_NS, forced=False) as idle,
    ):
        forced.step()
        idle.step()
        forced.check_writes(messages)
        idle.check_writes(0)
        runs = list(interleaved((forced.step, idle.step), options))
    yield median_result(
        "step.all_due",
        [values[0] * 1e6 for values in runs],
        "us",
        target=ALL_DUE,
        compared_with=f"{LINKS + 1} frames, {messages} messages a tick, no subscriber, write forced",
    )
    yield median_result(
        "step.all_due_idle",
        [values[1] * 1e6 for values in runs],
        "us",
        compared_with="the same tick with the writes left out, as nobody listens",
    )


def _stepped(
    rate: float, namespace: str, *, period_ns: int, forced: bool
) -> AbstractContextManager[SteppedBridge]:
    plan = robot_plan(rate, namespace)
    return stepped(plan, SwayingBackend(floating=(0,)), period_ns=period_ns, forced=forced, tf_rate=rate)


def robot_plan(rate: float, namespace: str) -> BridgePlan:
    """Returns a mobile robot of 30 frames, and the publishers at `rate` Hz."""
    builder = PlanBuilder()
    robot = new_robot(builder, namespace)
    robot.body("base_link")
    for number in range(LINKS):
        parent = f"link_{number - 1}" if number % 6 else "base_link"
        robot.body(f"link_{number}")
        robot.joint(f"joint_{number}", parent, f"link_{number}", axis=AXES[number % 3])
    mast = robot.body_row(f"link_{LINKS - 1}")
    for name, kind in PUBLISHERS.items():
        camera = {"left/camera_info": 0, "right/camera_info": 1}.get(name, -1)
        robot.topic(
            name,
            kind,
            "publisher",
            publish_rate=rate,
            body=mast if name == "mast_imu" else 0,
            frame_id="base_link",
            child_frame_id="base_link" if name in ("odom", "transform") else "",
            camera=camera,
        )
    cameras = tuple(
        CameraModel(
            path=f"/robot/{side}",
            width=640,
            height=480,
            fx=500.0,
            fy=500.0,
            cx=320.0,
            cy=240.0,
            near=0.1,
            far=100.0,
        )
        for side in ("left", "right")
    )
    return builder.build(Scene(cameras=cameras))

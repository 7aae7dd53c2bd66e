"""Drive the rover through its world under MuJoCo, and draw the messages of its camera, lidar and odometry.

`python tools/draw_world.py docs/pictures/rover_world.png` opens a real bridge in lockstep, sends `cmd_vel`, receives
`image_raw`, `scan` and `odom` over DDS like any node, and draws them. It needs
`pip install -r tools/recordings-requirements.txt`.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# rclpy reads these when it makes a context. The drive needs no other node on the network.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("ROS_DOMAIN_ID", str(random.randint(1, 101)))

import click
import numpy as np
import rclpy
from geometry_msgs.msg import Twist
from matplotlib import pyplot as plt
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image, LaserScan

from usd_ros_bridge import Bridge, BridgeOptions, load_plan

WORLD = Path(__file__).resolve().parents[1] / "examples" / "rover" / "world.usda"
TICK_NS = 5_000_000
TIMEOUT = 20.0
DRIVE = (
    (0.5, 0.0, 0.0),
    (4.2, 0.6, 0.0),
    (1.75, 0.4, -0.8),
    (1.0, 0.5, 0.0),
    (3.6, 0.5, 0.0),
    (1.6, -0.4, 0.0),
    (3.6, 0.4, 0.75),
    (4.5, 0.6, 0.0),
)
"""Seconds, m/s and rad/s of each part of the drive: round a corner, against the crate and on with it, back and away."""
PICTURE_PART = 3
"""The part of the drive at whose end the picture is taken."""
COMMAND_TICKS = 20


@dataclass
class Seen:
    """Received messages: pictures, scans with their poses, the path by odometry."""

    image: Any = None
    picture: Any = None
    scans: list[Any] = field(default_factory=list)
    odometry: list[tuple[float, float, float]] = field(default_factory=list)


def pose_of(message: Any) -> tuple[float, float, float]:
    """Returns x, y (m) and yaw (rad) of an Odometry."""
    position, q = message.pose.pose.position, message.pose.pose.orientation
    return position.x, position.y, yaw_of(q.x, q.y, q.z, q.w)


def yaw_of(x: float, y: float, z: float, w: float) -> float:
    """Returns the yaw of a quaternion, rad."""
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


class Drive:
    """A bridge in lockstep, a node beside it, and what that hears."""

    def __init__(self, bridge: Bridge, context: Any) -> None:
        self.bridge = bridge
        self.seen = Seen()
        self.truth: list[tuple[float, float, float]] = []
        self.node = rclpy.create_node("watcher", context=context)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._publisher = self.node.create_publisher(Twist, "/rover/cmd_vel", 10)
        self.counts: Counter[str] = Counter()
        self._listen(Image, "/rover/image_raw", lambda message: setattr(self.seen, "image", message))
        self._listen(LaserScan, "/rover/scan", self._on_scan)
        self._listen(Odometry, "/rover/odom", lambda message: self.seen.odometry.append(pose_of(message)))

    def _listen(self, message_class: Any, name: str, take: Callable[[Any], None]) -> None:
        self.counts[name] = 0

        def count(message: Any) -> None:
            self.counts[name] += 1
            take(message)

        self.node.create_subscription(message_class, name, count, qos_profile_sensor_data)

    def wait(self, happened: Callable[[], bool], otherwise: str) -> None:
        """Runs callbacks until something happened; raises RuntimeError where it does not."""
        deadline = time.monotonic() + TIMEOUT
        while not happened():
            if time.monotonic() > deadline:
                raise RuntimeError(otherwise)
            self._executor.spin_once(timeout_sec=0.02)

    def base(self) -> tuple[float, float, float]:
        """Returns where the rover's base is in MuJoCo: x, y (m) and yaw (rad)."""
        runtime = self.bridge.parts.runtime
        x, y, _, *q = runtime.snapshot.body(runtime.plan.robots[0].base_row)
        return x, y, yaw_of(*q)

    def catch_up(self) -> None:
        """Waits until what was sent has arrived: pictures that nobody takes in time would be lost."""
        sent = {row.name: row.count for row in self._rows()}
        self.wait(lambda: all(self.counts[name] >= sent[name] for name in sent), "messages are missing")

    def _rows(self) -> list[Any]:
        return [row for row in self.bridge.status().interfaces if row.name in self.counts]

    def run(self) -> None:
        """Drives all parts."""
        self.wait(lambda: self._publisher.get_subscription_count() > 0, "the bridge does not listen")
        self.wait(lambda: all(row.matched for row in self._rows()), "the bridge's topics do not match")
        tick = 0
        for number, (seconds, forward, turning) in enumerate(DRIVE):
            for _ in range(round(seconds * 1e9 / TICK_NS)):
                if tick % COMMAND_TICKS == 0:
                    message = Twist()
                    message.linear.x, message.angular.z = forward, turning
                    self._publisher.publish(message)
                    self.wait(
                        lambda: bool(self.bridge.parts.runtime.inbox.pending), "a command did not arrive"
                    )
                tick += 1
                self.bridge.step(tick * TICK_NS)
                self.truth.append(self.base())
                self.catch_up()
            if number == PICTURE_PART:
                self.seen.picture = self.seen.image
        self.wait(lambda: self.seen.image is not None and bool(self.seen.scans), "no picture or scan arrived")

    def _on_scan(self, message: Any) -> None:
        self.seen.scans.append((message, self.truth[-1]))

    def close(self) -> None:
        """Destroys the node."""
        self._executor.shutdown()
        self.node.destroy_node()


def draw(drive: Drive, path: Path) -> None:
    """Draws a picture, and all scans with the two ways over them."""
    figure, (camera, plan) = plt.subplots(
        1, 2, figsize=(11.0, 4.6), width_ratios=(1.25, 1.0), layout="constrained"
    )
    image = drive.seen.picture
    camera.imshow(np.frombuffer(image.data, np.uint8).reshape(image.height, image.width, 3))
    camera.set_title(f"/rover/image_raw, {image.width} x {image.height}")
    camera.axis("off")
    start = drive.truth[0]
    # The lidar's place on the rover, as /tf_static has it.
    lever = -0.05
    for message, (x, y, yaw) in drive.seen.scans:
        ranges = np.array(message.ranges)
        angles = message.angle_min + message.angle_increment * np.arange(len(ranges)) + yaw
        hit = np.isfinite(ranges)
        px = x + lever * math.cos(yaw) + ranges[hit] * np.cos(angles[hit])
        py = y + lever * math.sin(yaw) + ranges[hit] * np.sin(angles[hit])
        plan.plot(px, py, ".", ms=1.5, mew=0, color="#495057")
    odometry = np.array(drive.seen.odometry)
    truth = np.array(drive.truth)
    plan.plot(truth[:, 0], truth[:, 1], color="#2b8a3e", lw=3.0, alpha=0.5, label="way of the base in MuJoCo")
    plan.plot(
        start[0] + odometry[:, 0], start[1] + odometry[:, 1], "--", color="#1864ab", label="/rover/odom"
    )
    plan.plot(
        [],
        [],
        ".",
        color="#495057",
        label=f"/rover/scan, {len(drive.seen.scans)} scans, drawn where the base was",
    )
    plan.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
    plan.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


@click.command()
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
def main(picture: Path) -> None:
    """Drives, and writes PICTURE (png)."""
    plt.switch_backend("agg")
    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        plan = load_plan(WORLD, physics=True)
        with Bridge(plan, "mujoco", options=BridgeOptions(backend_options={"lockstep": "true"})) as bridge:
            drive = Drive(bridge, context)
            try:
                drive.run()
                draw(drive, picture)
            finally:
                drive.close()
    finally:
        rclpy.shutdown(context=context)


if __name__ == "__main__":
    main()

"""Draw docs/pictures/live.svg: the live view of a real bridge on the rover, while other nodes subscribe and drive."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
from pathlib import Path

# rclpy reads these when it makes a context. The picture needs no other node on the network.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_DOMAIN_ID"] = str(random.randint(1, 101))

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, Image, Imu, JointState, LaserScan
from tf2_msgs.msg import TFMessage

from usd_ros_bridge import Bridge, load_plan
from usd_ros_bridge.cli.live_app import LiveApp
from usd_ros_bridge.cli.live_view import ViewUpdate, update_of

ROOT = Path(__file__).parents[1]
SECONDS = 8.0


def main() -> None:
    """Runs the bridge for some seconds and draws its last moment; a slow listener would lose what it measures."""
    plan = load_plan("examples/rover/world.usda")
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("visitor", context=context)
    for topic, kind in (("joint_states", JointState), ("odom", Odometry), ("tf", TFMessage)):
        node.create_subscription(kind, f"/rover/{topic}", lambda _: None, 10)
    sensors = (("imu", Imu), ("scan", LaserScan), ("image_raw", Image), ("camera_info", CameraInfo))
    for topic, kind in sensors:
        node.create_subscription(kind, f"/rover/{topic}", lambda _: None, qos_profile_sensor_data, raw=True)
    driver = node.create_publisher(Twist, "/rover/cmd_vel", 10)
    command = Twist()
    command.linear.x, command.angular.z = 0.4, 0.3
    node.create_timer(0.1, lambda: driver.publish(command))
    executor = EventsExecutor(context=context)
    executor.add_node(node)
    with Bridge(plan, "auto", report=lambda *_: None, inform=lambda *_: None) as bridge:
        threading.Thread(target=bridge.spin, daemon=True).start()
        end = threading.Event()
        timer = threading.Timer(SECONDS, end.set)
        timer.start()
        while not end.is_set():
            executor.spin_once(timeout_sec=0.1)
        update = update_of(bridge.status(), with_robots=True, with_diagnostics=True, log=())
    # The reader's own monospaced font will do: a picture in a repository fetches nothing.
    drawing = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", asyncio.run(_picture(update)), flags=re.DOTALL)
    (ROOT / "docs" / "pictures" / "live.svg").write_text(re.sub(r"\n\s*\n+", "\n", drawing), encoding="utf-8")
    node.destroy_node()
    context.try_shutdown()


async def _picture(update: ViewUpdate) -> str:
    app = LiveApp(make_echo=lambda _row: None)
    async with app.run_test(size=(132, 28)) as pilot:
        app.show(update)
        await pilot.press("f")
        app.show(update)
        await pilot.pause()
        return app.export_screenshot(title="make run")


if __name__ == "__main__":
    main()

"""Sweeps whose driver is a launch file, by the real `ros2 launch`: each run has a domain of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
pytest.importorskip("ray", reason="ray is not installed: make setup-all")

from usd_ros_bridge import load_sweep, run_sweep

WORLD = Path(__file__).parents[2] / "examples/rover/world.usda"
SWEEP = f"""
name: launched
asset: {WORLD}
backend: mujoco
duration: 60.0
parameters:
  speed: [0.2, 0.4]
repeats: 2
driver:
  launch: drive.launch.py
  arguments: {{speed: "${{speed}}"}}
stop:
  moved: {{signal: displacement, body: /World/rover, above: 0.3}}
metrics:
  top_speed: {{signal: speed, body: /World/rover, statistic: max}}
  moved_after: {{time_to: moved}}
"""
LAUNCH = f"""
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import LaunchConfiguration

def generate_launch_description():
    return LaunchDescription([
        DeclareLaunchArgument("speed"),
        ExecuteProcess(cmd=[{sys.executable!r}, "NODE", LaunchConfiguration("speed")], output="screen"),
    ])
"""
NODE = """
import sys
import rclpy
from geometry_msgs.msg import Twist
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock

rclpy.init()
node = rclpy.create_node("driver")
publisher = node.create_publisher(Twist, "/rover/cmd_vel", 1)
message = Twist()
message.linear.x = float(sys.argv[1])
node.create_subscription(Clock, "/clock", lambda _: publisher.publish(message), qos_profile_sensor_data)
rclpy.spin(node)
"""


def test_runs_of_a_launch_file_side_by_side(tmp_path: Path) -> None:
    """Two at a time: a run that heard the commands of another one would have its speed."""
    (tmp_path / "drive.py").write_text(NODE, encoding="utf-8")
    (tmp_path / "drive.launch.py").write_text(
        LAUNCH.replace("NODE", str(tmp_path / "drive.py")), encoding="utf-8"
    )
    (tmp_path / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    result = run_sweep(load_sweep(tmp_path / "sweep.yaml"), output=tmp_path / "results", workers=2)
    rows = result.table().to_pylist()
    assert [row["outcome"] for row in rows] == ["stopped"] * 4, [row["reason"] for row in rows]
    for row in rows:
        # The wheels overshoot when they start.
        assert row["metrics.top_speed"] == pytest.approx(row["parameters.speed"], rel=0.33)
        # It starts when the node has come, after some simulated time.
        assert row["metrics.moved_after"] > 0.25 / row["parameters.speed"]

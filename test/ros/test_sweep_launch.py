"""A run whose driver is a ROS launch file: a live bridge, and nodes of another process in a domain of its own.

`ros2 launch` is on no package index: a program that starts the node which the launch file names stands for it. Node,
middleware and bridge are real.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from usd_ros_bridge.ros_domains import reserve_domain
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_description import LaunchDriver, RunMetric, Signal, StopCondition, Sweep
from usd_ros_bridge.sweep.sweep_run import RunOutcome, RunWorker

pytest.importorskip("mujoco")
pytest.importorskip("pxr")

pytestmark = pytest.mark.app

WORLD = Path(__file__).parents[2] / "examples/rover/world.usda"
ROVER = "/World/rover"
SPEC = RunSpec(index=0, id="run_0", parameters={}, seed=1)
ROS2 = """#!{python}
import os, runpy, sys
assert sys.argv[1] == "launch", sys.argv
os.environ["DRIVE_SPEED"] = dict(each.split(":=") for each in sys.argv[3:]).get("speed", "0")
runpy.run_path(sys.argv[2], run_name="__main__")
"""
NODE = """
import os, sys
import rclpy
from geometry_msgs.msg import Twist
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock

rclpy.init()
node = rclpy.create_node("driver")
publisher = node.create_publisher(Twist, "/rover/cmd_vel", 1)
message = Twist()
message.linear.x = float(os.environ["DRIVE_SPEED"])
END = {end}

def drive(clock):
    publisher.publish(message)
    if END and clock.clock.sec >= END:
        sys.exit({status})

node.create_subscription(Clock, "/clock", drive, qos_profile_sensor_data)
while rclpy.ok():
    rclpy.spin_once(node, timeout_sec=0.1)
"""


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a run of a launch file, in a domain of its own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ros2").write_text(ROS2.format(python=sys.executable), encoding="utf-8")
    (programs / "ros2").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")

    def make(text: str, *, stop: dict[str, StopCondition] | None = None, **driver: Any) -> RunOutcome:
        (tmp_path / "drive.launch.py").write_text(text, encoding="utf-8")
        sweep = Sweep(
            name="s",
            asset=str(WORLD),
            duration=driver.pop("duration", 3.0),
            backend="mujoco",
            directory=str(tmp_path),
            driver=LaunchDriver(launch="drive.launch.py", **driver),
            stop=stop or {},
            metrics={
                "top": RunMetric(signal=Signal(kind="speed", body=ROVER), statistic="max"),
                "x": RunMetric(signal=Signal(kind="displacement", body=ROVER)),
            },
        )
        worker = RunWorker(sweep)
        domain = reserve_domain()
        try:
            return worker.run(SPEC, domain_id=domain.domain_id)
        finally:
            worker.close()
            domain.close()

    return make


def test_a_node_of_a_launch_file_drives_the_robot(launched: Any) -> None:
    moved = StopCondition(signal=Signal(kind="displacement", body=ROVER), above=0.3)
    outcome = launched(
        NODE.format(end=0, status=0), arguments={"speed": 0.5}, stop={"moved": moved}, duration=30.0
    )
    assert outcome.outcome == "stopped", outcome.reason
    assert outcome.reason.startswith("moved: ")
    assert outcome.metrics["top"] == pytest.approx(0.5, rel=0.3)


def test_time_keeps_to_the_wall_clock(launched: Any) -> None:
    began = time.monotonic()
    outcome = launched(
        NODE.format(end=0, status=0), arguments={"speed": 0.0}, duration=1.0, real_time_factor=2.0
    )
    assert outcome.outcome == "completed", outcome.reason
    assert outcome.run_time >= 0.49
    assert time.monotonic() - began >= 0.49


@pytest.mark.parametrize(
    ("status", "outcome", "reason"),
    [(0, "stopped", "the launch file ended"), (3, "failed", "the launch file ended: status 3")],
)
def test_a_run_ends_with_its_launch_file(launched: Any, status: int, outcome: str, reason: str) -> None:
    done = launched(NODE.format(end=1, status=status), duration=60.0)
    assert (done.outcome, done.reason[: len(reason)]) == (outcome, reason)


def test_a_launch_file_that_fails_or_does_nothing_is_one_line(launched: Any) -> None:
    failed = launched("raise SystemExit('no such robot')\n")
    assert (failed.outcome, failed.reason) == (
        "failed",
        "the launch file ended at once: status 1: no such robot",
    )
    idle = launched("import time\ntime.sleep(100)\n", wait=0.3)
    assert idle.reason.startswith("no node of the launch file used an interface of the asset within 0.3 s")


def test_what_is_missing_is_one_line(launched: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launched("").reason.startswith("driver.launch: ros2 launch is not installed")
    sweep = Sweep(name="s", asset=str(WORLD), duration=1.0, driver=LaunchDriver(launch="none.launch.py"))
    worker = RunWorker(sweep)
    assert "such a run needs a DDS domain" in worker.run(SPEC).reason
    worker.close()

"""The pytest plug-in: it costs nothing until a fixture is asked for, and its fixtures without a middleware."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_runs import ROVER, Suite
from usd_ros_bridge.errors import BridgeError

COUNTER = """#usda 1.0
(
    defaultPrim = "Robot"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "Robot" (
    prepend apiSchemas = ["RosContextAPI"]
)
{
    string ros:context:namespace = "robot"
    def Xform "sensor" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {
        uniform token ros:topic:role = "publisher"
        string ros:topic:name = "count"
        string ros:topic:type = "std_msgs/msg/Int32"
    }
}
"""
HEAVY = ("rclpy", "pxr", "numpy", "mujoco", "foxglove", "mcap")
SPY = """
    import sys
    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(config):
        found = [name for name in {heavy!r} if name in sys.modules]
        parts = [name for name in sys.modules if name.startswith("usd_ros_bridge.")]
        print("LOADED", found, sorted(parts))
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def test_it_is_installed_with_the_package_and_inert(suite: Suite) -> None:
    suite.write("conftest.py", SPY.format(heavy=HEAVY))
    suite.write("test_nothing.py", "def test_nothing():\n    pass\n")
    suite.write("test_not_run.py", "def test_not_run(bridge, ros_node, tf_buffer):\n    pass\n")
    output = suite.passes("-s", "-k", "nothing")
    loaded = "LOADED [] ['usd_ros_bridge.testing', 'usd_ros_bridge.testing.pytest_plugin']"
    assert loaded in output, output


@pytest.mark.process
def test_importing_it_loads_little() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import usd_ros_bridge.testing.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "usd_ros_bridge",
        "usd_ros_bridge.testing",
        "usd_ros_bridge.testing.pytest_plugin",
    ]


def test_fixtures_are_listed_with_what_they_do(suite: Suite) -> None:
    suite.write("test_nothing.py", "def test_nothing():\n    pass\n")
    output = suite.passes("--fixtures")
    for name in (
        "ros_domain",
        "bridge_process",
        "bridge",
        "ros_node",
        "wait_for",
        "wait_for_message",
        "tf_buffer",
        "assert_transform",
        "assert_interfaces",
        "send_goal",
        "plan_snapshot",
        "record_on_failure",
    ):
        assert re.search(rf"^{name} -- .*pytest_plugin.py:\d+\n    \S", output, re.MULTILINE), name


def test_an_option_of_the_user_named_update_stays_theirs(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        """
        def pytest_addoption(parser):
            parser.addoption("--update", action="store_true", help="theirs")
        """,
    )
    suite.write("test_it.py", "def test_it(request):\n    assert request.config.getoption('--update')\n")
    suite.passes("--update")


def test_domains_differ_between_tests_and_workers(suite: Suite) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    suite.write(
        "test_domains.py",
        """
        import os
        import pathlib
        import time
        import pytest

        FOLDER = pathlib.Path(__file__).parent

        @pytest.mark.parametrize("number", range(2))
        def test_domain(ros_domain, wait_for, number, worker_id):
            assert os.environ["ROS_DOMAIN_ID"] == str(ros_domain)
            assert os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
            (FOLDER / f"{worker_id}.domain").write_text(str(ros_domain))
            # Both workers hold theirs at this moment.
            wait_for(lambda: len(list(FOLDER.glob("*.domain"))) == 2, timeout=60.0, what="the other worker")
        """,
    )
    suite.passes("-n", "2")
    domains = [path.read_text(encoding="utf-8") for path in suite.folder.glob("*.domain")]
    assert len(set(domains)) == 2


def test_the_environment_is_restored(suite: Suite) -> None:
    suite.write(
        "test_domains.py",
        """
        import os

        def test_first(ros_domain):
            global before
            before = ros_domain

        def test_without():
            assert os.environ.get("ROS_DOMAIN_ID") == "7"
            assert os.environ["ROS_STATIC_PEERS"] == "10.0.0.1"

        def test_second(ros_domain):
            assert "ROS_STATIC_PEERS" not in os.environ
        """,
    )
    suite.write(
        "conftest.py",
        "import os\nos.environ['ROS_DOMAIN_ID'] = '7'\nos.environ['ROS_STATIC_PEERS'] = '10.0.0.1'\n",
    )
    suite.passes()


# --- A bridge in the process of the test ---------------------------------------------------------------------------


WORLD = ROVER.with_name("world.usda")


@pytest.fixture
def rover(bridge: Callable[..., Any]) -> Any:
    """The rover in lockstep, without a middleware."""
    needs_messages()
    return bridge(ROVER, backend="kinematic")


def needs_messages() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")


def test_a_rover_drives_in_lockstep(
    rover: Any, wait_for_message: Any, assert_transform: Any, tf_buffer: Any, wait_for: Any
) -> None:
    from nav_msgs.msg import Odometry

    assert rover.time == rover.last("/rover/odom").pose.pose.position.x == 0.0
    rover.run_for(2.0, commands={"/rover/cmd_vel": {"linear": {"x": 0.5}}})
    assert rover.time == 2.0
    odometry = rover.messages("/rover/odom")
    assert len(odometry) == 101
    assert odometry[-1].header.stamp.sec == 2
    assert rover.last("/rover/odom") == odometry[-1]
    driven = odometry[-1].pose.pose.position.x
    assert driven == pytest.approx(2.0 * 0.5, rel=0.3)
    assert_transform("odom", "base_link", xyz=(driven, 0.0, 0.0), rpy=(0.0, 0.0, 0.0))
    assert_transform("base_link", "odom", xyz=(-driven, 0.0, 0.0), tolerance=1e-9)
    turned = (-math.pi / 2, 0.0, -math.pi / 2)
    assert_transform("base_link", "camera_optical_frame", xyz=(0.145, 0.0, 0.165), rpy=turned)
    assert tf_buffer().can_transform("left_wheel", "lidar_link")
    assert not tf_buffer("rover").can_transform("left_wheel", "nowhere")
    later = wait_for_message(
        "/rover/odom", Odometry, where=lambda message: message.twist.twist.linear.x == 0.0
    )
    assert later.header.stamp.sec >= 2
    end = rover.time + 1.0
    wait_for(lambda: rover.time >= end, timeout=1.5)
    assert 'name="rover"' in wait_for_message("rover/robot_description").data


def test_an_engine_with_steps_of_its_own(bridge: Any, wait_for_message: Any) -> None:
    needs_messages()
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    rover = bridge(WORLD, backend="mujoco", backend_options={"gl": "none"})
    assert 0.0 < rover.time < 0.01
    rover.run_for(0.2)
    assert rover.time == pytest.approx(0.2, abs=1e-9)
    assert len(wait_for_message("/rover/scan", "sensor_msgs/msg/LaserScan").ranges) == 360
    assert 0.2 < rover.time <= 0.3, "the lidar has 10 Hz"
    assert rover.messages("/rover/scan")[0].header.stamp.nanosec > 0
    assert not [message for kind, message in rover.warnings if kind.startswith("schedule.rate")]


def test_the_same_in_every_run(bridge: Any) -> None:
    needs_messages()
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    found = []
    for _ in range(2):
        rover = bridge(WORLD, backend="mujoco", backend_options={"gl": "none"})
        rover.run_for(0.25, commands={"/rover/cmd_vel": {"linear": {"x": 0.5}, "angular": {"z": 0.3}}})
        found.append({name: rover.messages(name) for name in rover.topics()})
        rover.close()
    assert found[0] == found[1]
    assert len(found[0]["/rover/scan"]) > 1


def test_no_participant(rover: Any, ros_domain: int) -> None:
    rover.run_for(0.1)
    ports = Path("/proc/net/udp").read_text(encoding="utf-8")
    assert f":{7410 + 250 * ros_domain:04X} " not in ports


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda test: test.wait_for_message("/rover/scan", timeout=0.5),
        r"no message on /rover/scan within 0.5 s of bridge time",
    ),
    (
        lambda test: test.wait_for_message("/rover/odomm"),
        r"has no publisher of '/rover/odomm'; did you mean '?/rover/odom'?",
    ),
    (
        lambda test: test.wait_for_message("/rover/odom", "sensor_msgs/msg/Imu"),
        r"/rover/odom is of type nav_msgs/msg/Odometry, not sensor_msgs/msg/Imu",
    ),
    (
        lambda test: test.wait_for_message("/rover/odom", where=lambda _: False, timeout=0.1),
        r"none of \d+ messages on /rover/odom within 0.1 s of bridge time is as awaited; the last one: nav",
    ),
    (
        lambda test: test.wait_for(lambda: False, timeout=0.3, what="the end of days"),
        r"the end of days: not within 0.3 s of bridge time",
    ),
    (
        lambda test: test.assert_transform("odom", "base_link", xyz=(1, 0, 0)),
        r"xyz difference +-1.0000 +0.0000 +0.0000 m, 1 m in all",
    ),
    (
        lambda test: test.assert_transform("odom", "base_link", rpy=(0, 0, 1)),
        r"rpy difference +0.0000 +0.0000 +-1.0000 rad, 1 rad in all",
    ),
    (
        lambda test: test.assert_transform("odom", "bse_link", xyz=(1, 0, 0)),
        r"there is no frame 'bse_link' on /rover/tf; did you mean '?base_link'?",
    ),
    (
        lambda test: test.assert_transform("odom", "base_link", xyz=(1, 0, 0), namespace="arm"),
        r"no transforms of .+ in /arm; namespaces with some: /rover",
    ),
    (
        lambda test: test.assert_transform("odom", "base_link"),
        r"assert_transform needs xyz, rpy or both",
    ),
    (
        lambda test: test.assert_transform("odom", "base_link", xyz=(1, 0)),
        r"xyz is three numbers, not \(1, 0\)",
    ),
    (
        lambda test: test.send_goal("/x", "control_msgs/action/GripperCommand", {}),
        r"/x: there are no actions without ROS: open the bridge with ros=True",
    ),
    (
        lambda test: test.assert_interfaces(ROVER),
        r"assert_interfaces needs bridge\(..., ros=True\) or bridge_process",
    ),
]


def test_a_mistake_is_one_line_that_ends_in_the_users_test(rover: Any, active_test: Any) -> None:
    for call, message in MISTAKES:
        with pytest.raises(pytest.fail.Exception, match=message) as caught:
            call(active_test)
        assert caught.traceback.filter(caught)[-1].path == Path(__file__), message


def test_a_wait_without_a_bridge_takes_real_time(wait_for: Any) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"a miracle: not within 0.05 s"):
        wait_for(lambda: False, timeout=0.05, what="a miracle")


def test_mistaken_arguments_of_a_bridge_raise(bridge: Any) -> None:
    needs_messages()
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'tf_rat'"):
        bridge(ROVER, "kinematic", tf_rat=3)
    with pytest.raises(BridgeError, match="kinematic"):
        bridge(ROVER, "kinematik")


def test_the_report_of_a_failed_test_gets_each_warning_once(rover: Any, active_test: Any) -> None:
    rover.run_for(0.1)
    ((title, text),) = active_test.sections()
    assert title == f"warnings of the bridge of {rover.plan.asset}"
    assert "the publisher /rover/scan is silent" in text
    assert active_test.sections() == []


def test_a_failed_test_shows_warnings_and_the_last_seconds_as_mcap(suite: Suite) -> None:
    needs_messages()
    pytest.importorskip("foxglove", reason="foxglove-sdk is not installed")
    reader = pytest.importorskip("mcap.reader", reason="mcap is not installed")
    suite.write(
        "test_rover.py",
        """
        def test_fails(bridge, record_on_failure):
            record_on_failure.seconds = 1.0
            rover = bridge(ROVER, backend="kinematic")
            rover.run_for(5.0)
            assert rover.time == 4.0

        def test_passes(bridge, record_on_failure):
            bridge(ROVER, backend="kinematic").run_for(0.1)
        """,
    )
    output = suite.fails()
    path = suite.folder / "test-results" / "test_rover-test_fails.mcap"
    assert f"{path}: the last 1 s" in output
    assert "the publisher /rover/scan is silent" in output
    assert list(path.parent.iterdir()) == [path]
    with path.open("rb") as file:
        found = [
            (channel.topic, message.log_time)
            for _, channel, message in reader.make_reader(file).iter_messages()
        ]
    stamps = [stamp for topic, stamp in found if topic == "/rover/odom"]
    assert min(stamps) == 4_000_000_000
    assert max(stamps) == 5_000_000_000
    assert "/rover/robot_description" in {topic for topic, _ in found}, "latched messages are kept"


def test_a_snapshot_is_compared_and_written_again(
    plan_snapshot: Any, active_test: Any, tmp_path: Path
) -> None:
    pytest.importorskip("pxr", reason="usd-core is not installed")
    from usd_ros_bridge.testing.plan_snapshots import check_snapshot

    asset, snapshot = tmp_path / "robot.usda", tmp_path / "plan_snapshots" / "robot.json"

    def check(*, update: bool = False) -> None:
        check_snapshot(active_test.load_plan(asset), snapshot, update=update)

    asset.write_text(COUNTER, encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=r"there is no snapshot .*: `pytest --update` writes it"):
        check()
    check(update=True)
    check()
    text = snapshot.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert json.loads(text)["asset"] == "robot.usda"
    asset.write_text(COUNTER.replace('"count"', '"number"'), encoding="utf-8")
    with pytest.raises(pytest.fail.Exception) as caught:
        check()
    assert '-   "name": "/robot/count",' in str(caught.value)
    assert '+   "name": "/robot/number",' in str(caught.value)
    assert "`pytest --update` writes it" in str(caught.value)
    with pytest.raises(pytest.fail.Exception, match=r"there is no snapshot .*plan_snapshots/no_such.json"):
        plan_snapshot(asset, name="no_such")


def test_update_writes_a_snapshot(suite: Suite) -> None:
    pytest.importorskip("pxr", reason="usd-core is not installed")
    suite.write("robot.usda", COUNTER)
    suite.write("test_plan.py", "def test_plan(plan_snapshot):\n    plan_snapshot('robot.usda')\n")
    suite.passes("--update")
    suite.passes()
    assert (suite.folder / "plan_snapshots" / "robot.json").exists()

"""The pytest plug-in: it costs nothing until a fixture is asked for, and its fixtures without a middleware."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_runs import ROVER, Suite

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


def needs_messages() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")


def test_a_rover_in_lockstep(suite: Suite) -> None:
    needs_messages()
    suite.write(
        "test_rover.py",
        """
        import math
        import pytest
        from nav_msgs.msg import Odometry

        def test_it_drives(bridge, wait_for_message, assert_transform, tf_buffer, wait_for):
            rover = bridge(ROVER, backend="kinematic")
            assert rover.time == 0.0
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
            assert_transform(
                "base_link", "camera_optical_frame", xyz=(0.145, 0.0, 0.165), rpy=(-math.pi / 2, 0.0, -math.pi / 2)
            )
            assert tf_buffer().can_transform("left_wheel", "lidar_link")
            assert not tf_buffer("rover").can_transform("left_wheel", "nowhere")
            later = wait_for_message("/rover/odom", Odometry, where=lambda message: message.twist.twist.linear.x == 0.0)
            assert later.header.stamp.sec >= 2
            end = rover.time + 1.0
            wait_for(lambda: rover.time >= end, timeout=1.5)
            assert 'name="rover"' in wait_for_message("rover/robot_description").data

        def test_an_engine_with_steps_of_its_own(bridge, wait_for_message):
            pytest.importorskip("mujoco")
            rover = bridge(ROVER.replace("rover.usda", "world.usda"), backend="mujoco")
            assert 0.0 < rover.time < 0.01
            rover.run_for(1.0)
            assert rover.time == pytest.approx(1.0, abs=1e-9)
            assert len(wait_for_message("/rover/scan", "sensor_msgs/msg/LaserScan").ranges) == 360
            assert 1.0 < rover.time <= 1.1, "the lidar has 10 Hz"
            assert rover.messages("/rover/scan")[0].header.stamp.nanosec > 0
            assert not [message for kind, message in rover.warnings if kind.startswith("schedule.rate")]

        def test_the_same_in_every_run(bridge):
            pytest.importorskip("mujoco")
            found = []
            for _ in range(2):
                rover = bridge(ROVER.replace("rover.usda", "world.usda"), backend="mujoco")
                rover.run_for(0.5, commands={"/rover/cmd_vel": {"linear": {"x": 0.5}, "angular": {"z": 0.3}}})
                found.append({name: rover.messages(name) for name in rover.topics()})
                rover.close()
            assert found[0] == found[1]
            assert len(found[0]["/rover/scan"]) > 3

        def test_nothing_of_another_test_is_left(bridge):
            assert bridge(ROVER, backend="kinematic").last("/rover/odom").pose.pose.position.x == 0.0

        def test_no_participant(bridge, ros_domain):
            import pathlib
            bridge(ROVER, backend="kinematic").run_for(0.1)
            ports = pathlib.Path("/proc/net/udp").read_text()
            assert f":{7410 + 250 * ros_domain:04X} " not in ports
        """,
    )
    suite.passes()


FAULTS = [
    (
        "bridge(ROVER, 'kinematic'); wait_for_message('/rover/scan', timeout=0.5)",
        r"no message on /rover/scan within 0.5 s of bridge time",
    ),
    (
        "bridge(ROVER, 'kinematic'); wait_for_message('/rover/odomm')",
        r"has no publisher of '/rover/odomm'; did you mean '?/rover/odom'?",
    ),
    (
        "bridge(ROVER, 'kinematic'); wait_for_message('/rover/odom', 'sensor_msgs/msg/Imu')",
        r"/rover/odom is of type nav_msgs/msg/Odometry, not sensor_msgs/msg/Imu",
    ),
    (
        "bridge(ROVER, 'kinematic'); wait_for_message('/rover/odom', where=lambda m: False, timeout=0.1)",
        r"none of \d+ messages on /rover/odom within 0.1 s of bridge time is as awaited; the last one: nav",
    ),
    (
        "bridge(ROVER, 'kinematic'); wait_for(lambda: False, timeout=0.3, what='the end of days')",
        r"the end of days: not within 0.3 s of bridge time",
    ),
    ("wait_for(lambda: False, timeout=0.1, what='a miracle')", r"a miracle: not within 0.1 s"),
    (
        "bridge(ROVER, 'kinematic'); assert_transform('odom', 'base_link', xyz=(1, 0, 0))",
        r"xyz difference +-1.0000 +0.0000 +0.0000 m, 1 m in all",
    ),
    (
        "bridge(ROVER, 'kinematic'); assert_transform('odom', 'base_link', rpy=(0, 0, 1))",
        r"rpy difference +0.0000 +0.0000 +-1.0000 rad, 1 rad in all",
    ),
    (
        "bridge(ROVER, 'kinematic'); assert_transform('odom', 'bse_link', xyz=(1, 0, 0))",
        r"there is no frame 'bse_link' on /rover/tf; did you mean '?base_link'?",
    ),
    (
        "bridge(ROVER, 'kinematic'); assert_transform('odom', 'base_link', xyz=(1, 0, 0), namespace='arm')",
        r"no transforms of \S+ in /arm; namespaces with some: /rover",
    ),
    ("assert_transform('odom', 'base_link')", r"assert_transform needs xyz, rpy or both"),
    (
        "bridge(ROVER, 'kinematic'); send_goal('/x', 'control_msgs/action/GripperCommand', {})",
        r"/x: there are no actions without ROS: open the bridge with ros=True",
    ),
    (
        "bridge(ROVER, 'kinematic'); assert_interfaces(ROVER)",
        r"assert_interfaces needs bridge\(..., ros=True\) or bridge_process",
    ),
    ("bridge(ROVER, 'kinematic', tf_rat=3)", r"unexpected keyword argument 'tf_rat'"),
    ("bridge(ROVER, 'kinematik')", r"kinematic"),
]


def test_faults_are_one_clear_line(suite: Suite) -> None:
    needs_messages()
    fixtures = "bridge, wait_for, wait_for_message, assert_transform, assert_interfaces, send_goal"
    tests = [f"def test_{number}({fixtures}):\n    {body}\n" for number, (body, _) in enumerate(FAULTS)]
    suite.write("test_faults.py", "\n".join(tests))
    output = suite.fails("--tb=short")
    parts = re.split(r"^_+ test_(\d+) _+$", output.partition("short test summary")[0], flags=re.MULTILINE)
    shown = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    for number, (body, message) in enumerate(FAULTS):
        assert re.search(rf"^E .*{message}", shown[number], re.MULTILINE), (body, shown[number])
        # What a mistaken argument raises may be expected by a test; the rest ends in the line of the user's test.
        assert "Error" in shown[number] or "testing/" not in shown[number], shown[number]


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


def test_a_snapshot_is_compared_and_written_again(suite: Suite) -> None:
    pytest.importorskip("pxr", reason="usd-core is not installed")
    asset = suite.write(
        "robot.usda",
        """
        #usda 1.0
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
        """,
    )
    suite.write("test_plan.py", "def test_plan(plan_snapshot):\n    plan_snapshot('robot.usda')\n")
    snapshot = suite.folder / "plan_snapshots" / "robot.json"
    assert f"there is no snapshot {snapshot}: `pytest --update` writes it" in suite.fails()
    suite.passes("--update")
    suite.passes()
    text = snapshot.read_text(encoding="utf-8")
    assert str(suite.folder) not in text
    assert json.loads(text)["asset"] == "robot.usda"
    asset.write_text(asset.read_text(encoding="utf-8").replace('"count"', '"number"'), encoding="utf-8")
    output = suite.fails()
    assert '-   "name": "/robot/count",' in output
    assert '+   "name": "/robot/number",' in output
    assert "`pytest --update` writes it" in output
    suite.passes("--update")
    suite.passes()
    assert ROVER.exists()

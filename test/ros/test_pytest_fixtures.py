"""The fixtures of the pytest plug-in over ROS 2: in this process, and in runs of pytest of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from sensor_msgs.msg import JointState

from markdown_docs import blocks, page_path
from pytest_runs import ROOT, ROVER, Suite
from usd_ros_bridge.testing import ros_observer

ARM = ROOT / "examples" / "arm" / "arm.usda"
TIMEOUT_S = 60.0


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


# --- In this process -----------------------------------------------------------------------------------------------


@pytest.fixture
def rover(bridge: Callable[..., Any]) -> Any:
    """The rover in lockstep, with a node."""
    return bridge(ROVER, "kinematic", ros=True)


def test_a_goal_in_bridge_time(
    bridge: Any, send_goal: Any, assert_interfaces: Any, wait_for_message: Any
) -> None:
    arm = bridge(ARM, "kinematic", ros=True)
    assert_interfaces(arm.plan, timeout=TIMEOUT_S)
    name, kind = next((each.name, each.type) for each in arm.plan.actions if "Trajectory" in each.type)
    names = list(arm.last("/arm/joint_states").name)[:6]
    point = {"positions": [0.1] * 6, "time_from_start": {"nanosec": 500_000_000}}
    begin, feedback = arm.time, []
    goal = {"trajectory": {"joint_names": names, "points": [point]}}
    done = send_goal(name, kind, goal, feedback=feedback.append)
    assert done.status == GoalStatus.STATUS_SUCCEEDED, done
    assert arm.time - begin >= 0.5, "half a second of bridge time"
    assert feedback
    state = wait_for_message("/arm/joint_states", JointState, timeout=TIMEOUT_S)
    assert all(abs(position - 0.1) < 0.01 for position in state.position[:6])
    assert arm.bridge.status().backend == "kinematic"


def test_messages_and_transforms(
    rover: Any,
    ros_node: Any,
    wait_for: Any,
    wait_for_message: Any,
    tf_buffer: Any,
    assert_transform: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    latched = wait_for_message("rover/robot_description", timeout=TIMEOUT_S)
    assert 'name="rover"' in latched.data
    odometry = wait_for_message("/rover/odom", "nav_msgs/msg/Odometry", timeout=TIMEOUT_S)
    assert odometry.child_frame_id == "base_link"
    assert_transform("odom", "base_link", xyz=(0.0, 0.0, 0.0), rpy=(0.0, 0.0, 0.0), timeout=TIMEOUT_S)
    assert tf_buffer("/rover") is tf_buffer(), "the only robot"
    heard: list[Any] = []
    ros_node.create_subscription(JointState, "/rover/joint_states", heard.append, 1)
    assert wait_for(lambda: heard, timeout=TIMEOUT_S) is heard
    with pytest.raises(pytest.fail.Exception, match=r"xyz difference [^\n]*, 1 m in all\n  after 0 s"):
        assert_transform("odom", "base_link", xyz=(1.0, 0.0, 0.0), timeout=0.0)
    with pytest.raises(pytest.fail.Exception, match=r"a miracle: not within 0 s"):
        wait_for(lambda: False, timeout=0.0, what="a miracle")
    with pytest.raises(
        pytest.fail.Exception, match=r"/rover/odom is of type nav_msgs/msg/Odometry, not sensor_"
    ):
        wait_for_message("/rover/odom", JointState, timeout=0.0)
    seen: list[Any] = []
    # The time-out is over when a message has come, however long that takes.
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 2.0 * TIMEOUT_S * bool(seen))
    monkeypatch.setattr(ros_observer, "time", clock)
    unlike = r"none of \d+ messages on /rover/odom within 60 s is as awaited; the last one: nav_msgs"
    with pytest.raises(pytest.fail.Exception, match=unlike):
        wait_for_message("/rover/odom", where=seen.append, timeout=TIMEOUT_S)


def test_interfaces_that_are_not_as_planned(rover: Any, assert_interfaces: Any) -> None:
    plan = rover.plan
    assert_interfaces(plan, timeout=TIMEOUT_S)
    first, second, *others = plan.topics
    wrong = (replace(first, name=f"{first.name}x"), replace(second, type="std_msgs/msg/Empty"), *others)
    with pytest.raises(pytest.fail.Exception) as caught:
        assert_interfaces(replace(plan, topics=wrong), timeout=0.0)
    text = str(caught.value)
    assert re.search(r"^2 of \d+ interfaces are not as planned after 0 s:$", text, re.MULTILINE), text
    assert re.search(r"^  topic \S+x \[\S+\] of \S+: no (publisher|subscription)$", text, re.MULTILINE), text
    assert re.search(r"^  topic \S+ \[\S+\] of \S+: \w+s are of type \S+$", text, re.MULTILINE), text


def test_nobody_is_there(
    wait_for_message: Any, send_goal: Any, tf_buffer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("usd_ros_bridge.testing.active_test.TIMEOUT_S", 0.0)
    with pytest.raises(pytest.fail.Exception, match=r"there are no transforms of the ROS graph yet"):
        tf_buffer()
    with pytest.raises(pytest.fail.Exception, match=r"/nothing has no publisher after 0.05 s; "):
        wait_for_message("/nothing", timeout=0.05)
    with pytest.raises(pytest.fail.Exception, match=r"action /arm/move: no server within 0.05 s"):
        send_goal("/arm/move", "control_msgs/action/GripperCommand", {}, timeout=0.05)


# --- In runs of pytest ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(240)
def test_a_bridge_in_a_process_of_its_own(suite: Suite) -> None:
    suite.write(
        "test_rover.py",
        """
        from geometry_msgs.msg import Twist
        from rclpy.qos import qos_profile_sensor_data
        from sensor_msgs.msg import JointState

        def test_run(bridge_process, wait_for_message, wait_for, ros_node, assert_transform, assert_interfaces,
                     tf_buffer):
            process = bridge_process(ROVER, "--backend", "kinematic")
            assert process.is_running
            assert process.wait_for_line("7 topics")
            assert_interfaces(ROVER, timeout=60.0)
            best_effort = wait_for_message("/rover/joint_states", JointState, timeout=60.0)
            assert set(best_effort.name) == {"left_wheel_joint", "right_wheel_joint"}
            latched = wait_for_message("/rover/robot_description", timeout=60.0)
            assert 'name="rover"' in latched.data
            assert_transform("base_link", "lidar_link", xyz=tf_xyz(tf_buffer), rpy=(0.0, 0.0, 0.0))
            publisher = ros_node.create_publisher(Twist, "/rover/cmd_vel", 1)
            command = Twist()
            command.linear.x = 0.5
            ros_node.create_timer(0.05, lambda: publisher.publish(command))
            odometry = wait_for_message(
                "/rover/odom", where=lambda m: m.pose.pose.position.x > 0.2, timeout=60.0
            )
            assert odometry.child_frame_id == "base_link"
            wait_for(lambda: tf_buffer("rover").pose("odom", "base_link")[0] > 0.2, timeout=60.0)
            assert process.end() == 0

        def tf_xyz(tf_buffer):
            buffer = tf_buffer()
            import time
            end = time.monotonic() + 60.0
            while not buffer.can_transform("base_link", "lidar_link"):
                assert time.monotonic() < end
            place = buffer.lookup_transform("base_link", "lidar_link").transform.translation
            return place.x, place.y, place.z

        def test_node(bridge_process, wait_for_message):
            bridge_process(ROVER, "--ros-args", "-p", "backend:=kinematic", "-p", "tf_rate:=20.0", node=True)
            odometry = wait_for_message("/rover/odom", "nav_msgs/msg/Odometry", timeout=60.0)
            assert odometry.header.frame_id == "odom"
        """,
    )
    suite.passes()


@pytest.mark.timeout(240)
def test_what_fails_shows_log_and_recording(suite: Suite) -> None:
    pytest.importorskip("foxglove", reason="foxglove-sdk is not installed")
    reader = pytest.importorskip("mcap.reader", reason="mcap is not installed")
    suite.write(
        "test_fails.py",
        """
        import os
        import signal

        def test_message(bridge_process, wait_for_message, record_on_failure):
            bridge_process(ROVER, "--backend", "kinematic")
            wait_for_message("/rover/odom", timeout=60.0)
            wait_for_message("/rover/odom", where=lambda m: m.pose.pose.position.x > 100.0, timeout=5.0)

        def test_status(bridge_process, ros_domain):
            open("killed.domain", "w").write(str(ros_domain))
            process = bridge_process(ROVER, "--backend", "kinematic")
            held = [line.split()[-1] for line in open(f"/proc/{process.pid}/maps")]
            held += map(os.path.realpath, os.scandir(f"/proc/{process.pid}/fd"))
            names = ("/dev/shm/fast", "/dev/shm/sem.fast")
            files = {each for each in held if each.startswith(names) and os.path.exists(each)}
            open("killed.files", "w").writelines(f"{os.stat(each).st_ino} {each}\\n" for each in files)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

        def test_another_status(bridge_process):
            bridge_process(ROVER, "--backend", "kinematic", exit_status=3)

        def test_start(bridge_process):
            bridge_process("no_such.usda")

        def test_expected_start(bridge_process):
            process = bridge_process("no_such.usda", ready=False, exit_status=2)
            assert process.wait() == 2
            assert "no_such.usda" in process.log
        """,
    )
    output = suite.fails()
    failed = set(re.findall(r"^(?:FAILED|ERROR) test_fails.py::(\w+)", output, re.MULTILINE))
    assert failed == {
        "test_message",
        "test_status",
        "test_another_status",
        "test_start",
    }
    for line in (
        r"none of \d+ messages on /rover/odom within 5 s is as awaited; the last one: nav_msgs",
        r"-+ usd_ros_bridge run \S+rover.usda --backend kinematic -+",
        r"\[INFO\].* ready$",
        r"usd_ros_bridge run \S+ --backend kinematic ended by itself with status -9, not 0: ",
        r"usd_ros_bridge run \S+ --backend kinematic ended after SIGINT with status 0, not 3",
        r"usd_ros_bridge run no_such.usda ended with status 2 without a line ': ready\S*: .*no_such.usda",
    ):
        assert re.search(line, output, re.MULTILINE), (line, output)
    files = dict(
        line.split() for line in (suite.folder / "killed.files").read_text(encoding="utf-8").splitlines()
    )
    ports = range(
        *(
            7400 + 250 * (int((suite.folder / "killed.domain").read_text(encoding="utf-8")) + each)
            for each in (0, 1)
        )
    )
    # Fast DDS also has ports of no domain, which the next process of any domain takes over.
    own = {path: int(number) for number, path in files.items() if port_of(path) in (-1, *ports)}
    assert any("_port" in path for path in own), "it had no shared memory: this would show nothing"
    # By number: another test, which got the domain after it, may have files of the same names.
    left = [path for path, number in own.items() if inode(path) == number]
    assert not left, "shared memory of a killed process is removed"
    path = suite.folder / "test-results" / "test_fails-test_message.mcap"
    assert f"{path}: the last 10 s" in output
    with path.open("rb") as file:
        topics = {channel.topic for _, channel, _ in reader.make_reader(file).iter_messages()}
    assert {"/rover/odom", "/rover/tf_static", "/rover/robot_description"} <= topics


def port_of(path: str) -> int:
    found = re.search(r"_port(\d+)", path)
    return int(found[1]) if found else -1


def inode(path: str) -> int | None:
    try:
        return Path(path).stat().st_ino
    except FileNotFoundError:
        return None


@pytest.mark.timeout(240)
def test_the_documented_tests_pass(suite: Suite) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    pytest.importorskip("foxglove", reason="foxglove-sdk is not installed")
    (suite.folder / "examples").symlink_to(ROOT / "examples")
    pages = [block for block in blocks(page_path("testing.md")) if block.language == "python"]
    documented = [block for block in pages if "testing.launch" not in block.text]
    for number, block in enumerate(documented):
        (suite.folder / f"test_block_{number}.py").write_text(block.text, encoding="utf-8")
    assert len(documented[0].text.splitlines()) <= 25
    assert "1 passed" in suite.passes("--update", "-k", "plan", "--ignore=examples")
    assert "5 passed" in suite.passes("--ignore=examples")
    assert (suite.folder / "plan_snapshots" / "world.json").exists()


@pytest.mark.timeout(240)
def test_the_example_package_is_installed_and_passes(suite: Suite, tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    pytest.importorskip("setuptools", minversion="64", reason="setuptools 64 or newer is not installed")
    source = tmp_path / "rover_test"
    shutil.copytree(ROOT / "examples" / "testing", source)
    options = [
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(tmp_path / "target"),
    ]
    install = [sys.executable, "-m", "pip", "install", *options, str(source)]
    done = subprocess.run(install, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "target" / "share" / "rover_test" / "package.xml").exists()
    assert "2 passed" in suite.passes(str(source / "test" / "test_rover.py"))

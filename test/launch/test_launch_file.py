"""The launch file from the command line: its arguments, `ros2 run`, and Ctrl-C on `ros2 launch`."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("ros2launch", reason="ros2 launch comes with a full ROS 2 installation only")

import rclpy
from launch import LaunchContext, LaunchDescription
from launch.launch_description_sources import get_launch_description_from_python_launch_file
from launch_ros.utilities import evaluate_parameters, normalize_parameters
from rclpy.context import Context
from rclpy.qos import qos_profile_sensor_data
from rclpy.wait_for_message import wait_for_message
from tf2_msgs.msg import TFMessage

REPOSITORY = Path(__file__).resolve().parents[2]
ROVER = REPOSITORY / "examples" / "rover" / "rover.usda"
LAUNCH_FILE = REPOSITORY / "launch" / "bridge.launch.py"
LAUNCH = ["launch", "usd_ros_bridge", "bridge.launch.py"]
ARGUMENTS = {
    "asset",
    "strict",
    "degraded",
    "packages",
    "backend",
    "real_time_factor",
    "start_paused",
    "publish_clock",
    "clock_rate",
    "simulation_services",
    "namespace",
    "node_name",
    "variants",
    "contexts",
    "shard",
    "tf_rate",
    "tf_output",
    "publish_tf",
    "base_transform",
    "frame_prefix",
    "publish_description",
    "mesh_directory",
    "mesh_uris",
    "publish_plan",
    "publish_diagnostics",
    "controller_rate",
    "record",
    "duration",
    "foxglove",
    "foxglove_host",
    "foxglove_control",
    "foxglove_origins",
    "beyond_limits",
    "massless_bodies",
    "payloads",
    "interfaces",
    "spawn_roots",
    "use_sim_time",
    "watch",
    "reload_timeout",
    "max_prims",
    "max_layers",
    "max_bytes",
    "max_nesting",
    "max_arcs",
    "remote_control",
    "params_file",
    "respawn",
    "log_level",
    "rviz",
    "rviz_config",
}
TIMEOUT_S = 90.0


def ros2(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a ros2 command to its end and return it with its output."""
    return subprocess.run(
        ["ros2", *arguments], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.fixture
def description() -> LaunchDescription:
    """The launch file of this source tree, loaded."""
    return get_launch_description_from_python_launch_file(str(LAUNCH_FILE))


def test_every_argument_is_described(description: LaunchDescription) -> None:
    arguments = description.get_launch_arguments()
    assert {argument.name for argument in arguments} == ARGUMENTS
    for argument in arguments:
        assert len(argument.description.split()) > 3, argument.name
    assert [argument.name for argument in arguments if argument.default_value is None] == ["asset"]


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ({}, {}),
        ({"tf_rate": "25", "publish_tf": "false", "tf_output": ""}, {"tf_rate": 25.0, "publish_tf": False}),
        ({"real_time_factor": "0", "start_paused": "true"}, {"real_time_factor": 0.0, "start_paused": True}),
        ({"controller_rate": "200"}, {"controller_rate": 200.0}),
        ({"variants": "/Arm:gripper=none"}, {"variants": ["/Arm:gripper=none"]}),
        ({"variants": "/World/a:x=1,/World/b:x=2"}, {"variants": ["/World/a:x=1", "/World/b:x=2"]}),
        ({"variants": "['/Arm:gripper=none']"}, {"variants": ["/Arm:gripper=none"]}),
        ({"contexts": "/World/a,/World/b"}, {"contexts": ["/World/a", "/World/b"]}),
        ({"contexts": "['/World/a', '!/World/b*']"}, {"contexts": ["/World/a", "!/World/b*"]}),
        ({"contexts": "*, !robot_[0-4]"}, {"contexts": ["*", "!robot_[0-4]"]}),
        ({"contexts": "[ab]*", "shard": "2/4"}, {"contexts": ["[ab]*"], "shard": "2/4"}),
        ({"asset": "42"}, {"asset": "42"}),
        ({"packages": "a=/x,b=/y", "strict": "true"}, {"packages": ["a=/x", "b=/y"], "strict": True}),
        ({"max_prims": "100", "max_layers": "3"}, {"max_prims": 100, "max_layers": 3}),
        ({"max_bytes": "5000000000", "max_arcs": "64"}, {"max_bytes": 5000000000, "max_arcs": 64}),
        (
            {"reload_timeout": "2", "remote_control": "read_only"},
            {"reload_timeout": 2.0, "remote_control": "read_only"},
        ),
        ({"interfaces": "none", "spawn_roots": "/x"}, {"interfaces": "none", "spawn_roots": ["/x"]}),
    ],
)
def test_only_what_was_typed_becomes_a_parameter(
    description: LaunchDescription, typed: dict[str, str], given: dict[str, object]
) -> None:
    context = LaunchContext()
    for argument in description.get_launch_arguments():
        if argument.name not in ("asset", "params_file"):
            argument.execute(context)
    context.launch_configurations.update({"asset": "robot.usda", **typed})
    parameters = runpy.run_path(str(LAUNCH_FILE))["given_parameters"](context)
    (evaluated,) = evaluate_parameters(context, normalize_parameters([parameters]))
    assert evaluated == {"asset": "robot.usda", **given}


@pytest.mark.parametrize(
    "typed", [{"tf_rate": "abc"}, {"publish_tf": "maybe"}, {"variants": "[a"}, {"max_prims": "1.5"}]
)
def test_a_value_of_another_type_names_its_argument(
    description: LaunchDescription, typed: dict[str, str]
) -> None:
    context = LaunchContext()
    for argument in description.get_launch_arguments():
        if argument.name != "asset":
            argument.execute(context)
    context.launch_configurations.update({"asset": "robot.usda", **typed})
    ((name, text),) = typed.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}:={text}")):
        runpy.run_path(str(LAUNCH_FILE))["given_parameters"](context)


SET_PARAMETER = """
from launch import LaunchDescription
from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import SetParameter

def generate_launch_description():
    source = PythonLaunchDescriptionSource({file!r})
    arguments = {{"asset": {asset!r}, "node_name": "named"}}.items()
    bridge = IncludeLaunchDescription(source, launch_arguments=arguments)
    return LaunchDescription([GroupAction([SetParameter("tf_rate", 12.5), bridge])])
"""


def test_set_parameter_around_the_launch_file_has_its_effect(tmp_path: Path) -> None:
    """Also that the node has the name that the argument gives it."""
    around = tmp_path / "around.launch.py"
    around.write_text(SET_PARAMETER.format(file=str(LAUNCH_FILE), asset=str(ROVER)), encoding="utf-8")
    launched = subprocess.Popen(["ros2", "launch", str(around)], cwd=tmp_path)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        value = ""
        while not value and time.monotonic() < deadline:
            asked = ros2("param", "get", "--no-daemon", "/named", "tf_rate", cwd=tmp_path)
            value = asked.stdout.strip() if asked.returncode == 0 else ""
        assert value == "Double value is: 12.5"
    finally:
        launched.send_signal(signal.SIGINT)
        launched.wait(timeout=TIMEOUT_S)


def test_show_args(tmp_path: Path) -> None:
    shown = ros2(*LAUNCH, "--show-args", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for argument in ARGUMENTS:
        assert f"'{argument}':" in shown.stdout


def test_asset_is_required(tmp_path: Path) -> None:
    launched = ros2(*LAUNCH, cwd=tmp_path)
    assert launched.returncode != 0
    assert "'asset'" in launched.stdout + launched.stderr


def test_run_needs_an_asset(tmp_path: Path) -> None:
    ran = ros2("run", "usd_ros_bridge", "bridge", cwd=tmp_path)
    assert ran.returncode != 0
    # Where ROS 2 takes long to load, a line says so before.
    *_, line = [line for line in (ran.stdout + ran.stderr).splitlines() if line and "[ros2run]" not in line]
    assert "asset" in line


def test_interrupt_of_ros2_launch(tmp_path: Path) -> None:
    """Ctrl-C on `ros2 launch` reaches the bridge, which ends cleanly before launch has to insist."""
    # On a busy machine the end may take longer than the 5 s after which launch insists.
    command = ["ros2", *LAUNCH, f"asset:={ROVER}", f"sigterm_timeout:={TIMEOUT_S}"]
    output = tmp_path / "output"
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node("waits_for_the_rover", context=context)
    try:
        with output.open("w", encoding="utf-8") as stream:
            launched = subprocess.Popen(command, cwd=tmp_path, stdout=stream, stderr=subprocess.STDOUT)
            try:
                heard, _ = wait_for_message(
                    TFMessage, node, "/rover/tf", qos_profile=qos_profile_sensor_data, time_to_wait=TIMEOUT_S
                )
                launched.send_signal(signal.SIGINT)
                status = launched.wait(timeout=TIMEOUT_S)
            finally:
                launched.kill()
                launched.wait()
    finally:
        node.destroy_node()
        rclpy.shutdown(context=context)
    text = output.read_text(encoding="utf-8")
    assert heard, text
    assert status == 0, text
    assert "process has finished cleanly" in text
    assert "Traceback" not in text
    assert "escalating" not in text

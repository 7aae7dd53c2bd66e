"""The node in a process of its own: parameters, signals, exit status, what it says."""

from __future__ import annotations

import gc
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from parameter_client import ParameterClient
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from tf2_msgs.msg import TFMessage

import usd_ros_bridge
from effort import examples
from usd_ros_bridge.cli.main import main as cli_main
from usd_ros_bridge.options import BRIDGE, ROBOT_STATE_PUBLISHER
from usd_ros_bridge.ros import node

PACKAGE = Path(usd_ros_bridge.__file__).parent
ASSETS = Path(__file__).parents[1] / "assets"
ROBOT = ASSETS / "implicit_robot.usda"
ARM = Path(__file__).parents[2] / "examples" / "arm" / "arm.usda"
SWITCHED_OFF = ASSETS / "controller_switched_off.usda"
NODE = [sys.executable, "-m", "usd_ros_bridge.ros.node"]
CLI = [sys.executable, "-m", "usd_ros_bridge.cli", "run"]
STARTS = examples(6)
PARAMETER_FILE = Path(__file__).parents[2] / "config" / "bridge.yaml"


def ros_args(*parameters):
    return ["--ros-args", *(part for each in parameters for part in ("-p", each))]


def node_command(*parameters):
    return [*NODE, *ros_args(*parameters)]


@pytest.fixture
def call(capfd):
    """`call(main, *arguments, ...)`: the exit status and the output of an executable's `main`, run in this process."""

    def run(main, *arguments, **options):
        with mock.patch.dict(os.environ), pytest.raises(SystemExit) as ended:
            main([str(each) for each in arguments], **options)
        written = capfd.readouterr()
        return ended.value.code, written.out + written.err

    return run


def fast_dds_files(process_id):
    """Shared-memory files that a process maps."""
    maps = Path(f"/proc/{process_id}/maps").read_text(encoding="utf-8")
    return {line.split()[-1] for line in maps.splitlines() if "/dev/shm/fast" in line}


def test_an_asset_with_many_faults_does_not_flood_the_log(program, tmp_path):
    topic = """
    def Scope "t{index}" (prepend apiSchemas = ["RosTopicAPI"])
    {{
        string ros:topic:name = "no name"
    }}"""
    topics = "".join(topic.format(index=index) for index in range(150))
    head = '#usda 1.0\n(defaultPrim = "robot")\ndef Xform "robot" (prepend apiSchemas = ["RosContextAPI"])\n{'
    asset = tmp_path / "faulty.usda"
    asset.write_text(f"{head}{topics}\n}}\n", encoding="utf-8")
    process = program(node_command(f"asset:={asset}"))
    process.wait_for_line("more diagnostics of the asset are not shown")
    process.process.send_signal(signal.SIGINT)
    assert process.wait(timeout=90.0) == 0
    counts = Counter(re.findall(r"(?:error|warning|info) \[[\w.]+\]", process.output))
    assert counts
    assert max(counts.values()) <= 100, counts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("kind", ["node", "node that waits for a state", "cli"])
def test_signals_end_it_as_a_success_and_leave_no_shared_memory(program, number, kind):
    waits = ["backend:=joint_states"] if kind == "node that waits for a state" else []
    # A context of a test before may not be gone yet: then its segment is mapped, too.
    before = {str(path) for path in Path("/dev/shm").glob("fast*")}
    process = program([*CLI, str(ROBOT)] if kind == "cli" else node_command(f"asset:={ROBOT}", *waits))
    process.wait_for_line("ready")
    files = fast_dds_files(process.pid)
    process.process.send_signal(number)
    assert process.wait(timeout=60.0) == 0, process.output
    assert "Traceback" not in process.output
    own = {name for name in files - before if "port" not in name}
    assert own, "the process made no shared memory: this test would show nothing"
    assert not {name for name in own if Path(name).exists()}, process.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("library", ["_rclpy_pybind11", "_multiarray_umath"], ids=["rclpy", "numpy"])
@pytest.mark.parametrize("kind", ["node", "cli"])
def test_a_signal_while_modules_are_imported_ends_it_as_a_success(program, number, library, kind):
    command = node_command(f"asset:={ROBOT}") if kind == "node" else [*CLI, str(ROBOT)]
    interpreter, _, *module_and_arguments = command
    process = program([interpreter, "-c", SIGNAL_AT_IMPORT, library, str(int(number)), *module_and_arguments])
    assert process.wait(timeout=90.0) == 0, process.output
    assert process.output.replace(LOADING_LINE, "") == f"importing {library}\n"


SIGNAL_AT_IMPORT = """
import os
import runpy
import sys

library, number, module, *arguments = sys.argv[1:]


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.rpartition(".")[2] == library:
            print("importing", library, flush=True)
            os.kill(os.getpid(), int(number))


sys.meta_path.insert(0, Finder())
sys.argv = [module, *arguments]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""Runs a module, and sends its own process a signal where that imports a library. Sent from outside, it may come later,
on a busy machine even when the node has started."""


LOADING_LINE = "[INFO] [usd_ros_bridge]: loading ROS 2\n"
"""Printed meanwhile where ROS 2 takes long to load."""

SCRIPT = """
import re
import sys
from usd_ros_bridge.entry_points import {name}
if __name__ == "__main__":
    sys.argv[0] = re.sub(r"(-script\\.pyw|\\.exe)?$", "", sys.argv[0])
    sys.exit({name}())
"""
"""An executable as pip writes it."""


@pytest.mark.random
@pytest.mark.timeout(max(120, 10 * STARTS))
@pytest.mark.parametrize(("name", "arguments"), [("bridge", ()), ("usd_ros_bridge", ("run",))])
def test_sigint_in_the_first_second_is_no_traceback_of_the_package(tmp_path, name, arguments):
    """What Python prints of its own start, with the .pth files of the environment, is not the package's."""
    script = tmp_path / name
    script.write_text(SCRIPT.format(name=name), encoding="utf-8")
    numbers = random.Random(name)
    for _ in range(STARTS):
        delay = numbers.uniform(0.02, 1.0)
        child = subprocess.Popen(
            [sys.executable, script, *arguments, ROBOT],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        try:
            _, errors = child.communicate(timeout=15.0)
        except subprocess.TimeoutExpired:
            # Python reports what a .pth file raised, a KeyboardInterrupt too, and goes on.
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=15.0)
            assert "Remainder of file ignored" in errors
            continue
        # The few lines that run before the handlers are set: ours, but nothing can come before them.
        files = {Path(file).name for file in re.findall(r'File "([^"]+)"', errors) if str(PACKAGE) in file}
        assert files <= {"__init__.py", "entry_points.py"}, (delay, errors)
        if child.returncode not in (0, 130):
            # Python itself answered, before those lines.
            assert child.returncode == -signal.SIGINT or "KeyboardInterrupt" in errors, (delay, errors)


@pytest.mark.parametrize("kind", ["node", "cli"])
def test_signals_that_repeat_until_the_process_is_gone_change_nothing(program, kind):
    process = program(node_command(f"asset:={ROBOT}") if kind == "node" else [*CLI, str(ROBOT)])
    process.wait_for_line("ready")
    for number in itertools.cycle((signal.SIGINT, signal.SIGTERM)):
        process.process.send_signal(number)
        try:
            process.process.wait(0.005)
        except subprocess.TimeoutExpired:
            continue
        break
    assert process.wait(timeout=1.0) == 0, process.output
    assert "Traceback" not in process.output


@pytest.mark.sample
def test_parameters_shape_the_plan_of_a_started_node_and_sigterm_ends_it(program, ros_harness):
    given = (f"asset:={ROBOT}", "tf_rate:=10.0", "tf_output:=global", "frame_prefix:=left_", "backend:=null")
    # Later ROS arguments win over earlier ones: the file goes first.
    command = [*NODE, "--ros-args", "--params-file", str(PARAMETER_FILE), *ros_args(*given)[1:]]
    process = program([*command, "-r", "__ns:=/fleet", "-r", "__node:=left"])
    process.wait_for_line("ready")
    transforms, states = [], []
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    ros_harness.node.create_subscription(TFMessage, "/tf", transforms.append, 10)
    ros_harness.node.create_subscription(TFMessage, "/tf_static", transforms.append, latched)
    ros_harness.node.create_subscription(JointState, "/fleet/joint_states", states.append, 10)
    ros_harness.wait_for(lambda: transforms and states, what="transforms and joint states")
    assert all("left_" in each.child_frame_id for each in transforms[0].transforms)
    # A node's name arrives by another topic than its data.
    ros_harness.wait_for(
        lambda: ("left", "/fleet") in ros_harness.node.get_node_names_and_namespaces(), what="the node's name"
    )
    assert process.interrupt(signal.SIGTERM) == 0, process.output


def test_parameters_are_described_and_refuse_changes_that_would_do_nothing(program, ros_harness):
    program(node_command(f"asset:={ROBOT}")).wait_for_line("ready")

    def call(service_class, name, request):
        client = ros_harness.node.create_client(service_class, name)
        ros_harness.wait_for(client.service_is_ready, what=name)
        future = client.call_async(request)
        ros_harness.wait_for(future.done, what=f"the answer of {name}")
        return future.result()

    names = ["asset", "tf_rate", "tf_output"]
    described = call(
        DescribeParameters, "/usd_ros_bridge/describe_parameters", DescribeParameters.Request(names=names)
    )
    asset, tf_rate, tf_output = described.descriptors
    assert asset.read_only
    assert asset.description
    assert tf_rate.floating_point_range[0].to_value > 0.0
    assert "namespaced" in tf_output.additional_constraints
    listed = call(ListParameters, "/usd_ros_bridge/list_parameters", ListParameters.Request()).result.names
    every = GetParameters.Request(names=[name for name in listed if not name.startswith("start_type")])
    values = call(GetParameters, "/usd_ros_bridge/get_parameters", every).values
    # As `ros2 param dump` asks: one parameter without a value would leave this empty.
    assert len(values) == len(every.names)
    assert all(value.type != ParameterType.PARAMETER_NOT_SET for value in values)
    value = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=5.0)
    request = SetParameters.Request(
        parameters=[Parameter(name=name, value=value) for name in ("tf_rate", "clock_rate")]
    )
    live, fixed = call(SetParameters, "/usd_ros_bridge/set_parameters", request).results
    assert live.successful
    assert not fixed.successful
    assert "starts" in fixed.reason


def test_wrong_input_is_one_line_and_status_two(call):
    for parameters, texts in (
        (("asset:=/nowhere/robot.usda",), ("/nowhere/robot.usda",)),
        ((f"asset:={ROBOT}", "backend:=hydraulic"), ("hydraulic", "kinematic")),
        ((f"asset:={ROBOT}", "real_time_factor:=-1.0"), ("real_time_factor",)),
        ((f"asset:={ROBOT}", "clock_rate:=0.0"), ("clock_rate",)),
        ((f"asset:={ROBOT}", "tf_output:=sideways"), ("sideways", "namespaced")),
        ((f"asset:={ROBOT}", "tf_rate:=fast"), ("tf_rate",)),
        ((f"asset:={ROBOT}", "tf_rate:=-1.0"), ("tf_rate",)),
        ((f"asset:={ROBOT}", "variants:=[nonsense]"), ("nonsense", "set=choice")),
        ((f"asset:={ROBOT}", "backend:="), ("backend:=",)),
        ((f"asset:={ROBOT}", "schema_resolvers:=[bullet]"), ("bullet", "newton")),
        ((f"asset:={ROBOT}", "packages:=[demo=/nowhere]"), ("demo", "/nowhere")),
        ((f"asset:={ROBOT}", "controller_rate:=0.0"), ("controller_rate",)),
        ((f"asset:={ROBOT}", "handlers:=[nobody]"), ("handlers", "nobody")),
        ((f"asset:={ROBOT}", "external_joint_states:=a b"), ("external_joint_states", "a b")),
        ((f"asset:={SWITCHED_OFF}", "enabled./robot/wrist_only:=true"), ("wrist", "/robot/arm")),
        ((f"asset:={SWITCHED_OFF}", "/robot/arm.timeout:=-1.0"), ("/robot/arm.timeout", "-1.0")),
    ):
        status, output = call(node.main, *ros_args(*parameters))
        check_refusal(status, output, texts)


def test_a_process_without_an_asset_ends_with_one_line_and_status_two(program):
    process = program(NODE)
    check_refusal(process.wait(timeout=90.0), process.output, ("asset",))


def check_refusal(status, output, texts):
    assert status == 2, output
    lines = [line for line in output.splitlines() if line.startswith("usd_ros_bridge: ")]
    assert len(lines) == 1, output
    assert all(text in lines[0] for text in texts), lines[0]
    assert "Traceback" not in output


def test_arrays_of_nothing_are_taken_for_nothing(program, tmp_path):
    names = ("variants", "packages", "backend_options")
    lines = [f"    {name}: {value}\n" for name, value in zip(names, ("[]", "['']", "[]"), strict=True)]
    file = tmp_path / "parameters.yaml"
    file.write_text("/**:\n  ros__parameters:\n" + "".join(lines), encoding="utf-8")
    program([*node_command(f"asset:={ROBOT}"), "--params-file", str(file)]).wait_for_line("ready")


def test_no_handlers_and_another_controller_are_possible_from_the_start(program):
    parameters = [
        "handlers:=[none]",
        "controller_rate:=250.0",
        "enabled./robot/arm:=false",
        "enabled./robot/wrist_only:=true",
    ]
    process = program(node_command(f"asset:={SWITCHED_OFF}", *parameters))
    process.wait_for_line("ready")


def test_a_node_says_what_is_wrong_what_it_serves_and_ends_after_its_duration(call, request):
    # A node freezes what there is once it runs.
    request.addfinalizer(gc.unfreeze)
    parameters = (
        f"asset:={ASSETS / 'error_topic_name.usda'}",
        "tf_rat:=3.0",
        "start_paused:=true",
        "duration:=0.1",
    )
    status, output = call(node.main, *ros_args(*parameters))
    assert status == 0, output
    assert re.search(r"\[ERROR\] .*error \[2\.3\.name\] /", output), output
    for text in ("no parameter 'tf_rat'", "pause mean nothing here", "RViz: rviz2", "started in", ": ready"):
        assert text in output
    assert "Traceback" not in output


def test_strict_refuses_an_asset_with_errors_after_saying_which(program):
    process = program(node_command(f"asset:={ASSETS / 'error_topic_name.usda'}", "strict:=true"))
    assert process.wait(timeout=90.0) == 1, process.output
    assert "[ERROR]" in process.output
    assert "Traceback" not in process.output


def test_degraded_refuses_an_asset_that_is_not_simulated_as_authored(program):
    asset = ASSETS / "findings" / "1.4.degraded.usda"
    process = program(node_command(f"asset:={asset}", "degraded:=error", "backend:=mujoco"))
    assert process.wait(timeout=90.0) == 1, process.output
    assert "degraded is error" in process.output
    assert "Traceback" not in process.output


@pytest.mark.process
def test_a_wrong_option_of_run_is_all_that_is_printed(call):
    for option, text in (
        (["--real-time-factor", "-1"], "--real-time-factor"),
        (["--namespace", "1st"], "starts with a digit"),
        (["--package", "demo"], "name=directory"),
    ):
        check_one_line(*call(cli_main, "run", ROBOT, *option), text)


@pytest.mark.process
def test_a_wrong_variant_is_the_last_line_after_the_phases(call):
    status, output = call(cli_main, "run", ROBOT, "--variant", "/robot:size=huge")
    *phases, error = output.splitlines(keepends=True)
    check_one_line(status, error, "size")
    assert all("[INFO]" in line for line in phases)


def test_a_wrong_option_is_all_that_a_process_prints(program):
    process = program([*CLI, str(ROBOT), "--backend", "hydraulic"])
    status = process.wait(timeout=90.0)
    check_one_line(status, process.output.removeprefix(LOADING_LINE), "kinematic")


def check_one_line(status, output, text):
    assert status == 2, output
    assert len(output.splitlines()) == 1, output
    assert output.startswith("usd_ros_bridge: ")
    assert text in output


@pytest.mark.parametrize(("executable", "option"), [("bridge", "--help"), ("robot_state_publisher", "-h")])
def test_help_names_arguments_and_parameters(program, executable, option):
    code = f"from usd_ros_bridge.entry_points import {executable}; {executable}()"
    process = program([sys.executable, "-c", code, option])
    assert process.wait(timeout=90.0) == 0
    check_help(process.output)


def test_each_role_has_help(call):
    for option in ("--help", "-h"):
        for role in (BRIDGE, ROBOT_STATE_PUBLISHER):
            status, output = call(node.main, option, role=role)
            assert status == 0
            check_help(output)


def check_help(output):
    assert "ASSET" in output
    assert "--ros-args" in output
    assert "tf_rate" in output


def test_the_first_argument_is_the_asset(program, call):
    program([*NODE, str(ROBOT)]).wait_for_line("ready")
    status, output = call(node.main, ROBOT, "--strickt")
    assert status == 2
    assert "unexpected argument '--strickt'" in output


def test_time_that_the_node_owns(program, ros_harness):
    """The example arm by its default backend: simulated as fast as possible, from a pause on, told on /clock."""
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    process = program([*CLI, str(ARM), "--real-time-factor", "0", "--paused"])
    process.wait_for_line("backend mujoco: the asset has drives")
    process.wait_for_line("ready")
    times = []
    ros_harness.node.create_subscription(
        Clock, "/clock", lambda message: times.append(message.clock.sec), qos_profile_sensor_data
    )
    ros_harness.wait_for(lambda: len(times) > 1, what="/clock in a pause")
    assert set(times) == {0}
    client = ros_harness.node.create_client(SetBool, "/usd_ros_bridge/set_paused")
    ros_harness.wait_for(client.service_is_ready, what="set_paused")
    future = client.call_async(SetBool.Request(data=False))
    ros_harness.wait_for(future.done, what="the answer")
    ros_harness.wait_for(lambda: times[-1] >= 20, timeout=90.0, what="20 s of simulated time")
    client = ros_harness.node.create_client(SetParameters, "/usd_ros_bridge/set_parameters")
    ros_harness.wait_for(client.service_is_ready, what="set_parameters")
    value = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=True)
    future = client.call_async(
        SetParameters.Request(parameters=[Parameter(name="use_sim_time", value=value)])
    )
    ros_harness.wait_for(future.done, what="the answer")
    (result,) = future.result().results
    assert not result.successful
    assert "owns time" in result.reason


def test_a_node_that_follows_the_clock_does_not_simulate(program):
    process = program(node_command(f"asset:={ARM}", "use_sim_time:=true", "start_paused:=true"))
    process.wait_for_line("backend kinematic: use_sim_time is true")
    process.wait_for_line("pause mean nothing here: the backend kinematic follows time")
    process.wait_for_line("ready")


@pytest.mark.parametrize("sim_time", [False, True])
def test_a_running_node_refuses_another_kind_of_time(program, ros_harness, sim_time):
    """It would go on with the time that it has, or stand still, and say that it was set."""
    process = program(node_command(f"asset:={ROBOT}", f"use_sim_time:={str(sim_time).lower()}"))
    process.wait_for_line("ready")
    client = ParameterClient(ros_harness)
    assert "use_sim_time is read when the bridge starts" in client.set("use_sim_time", not sim_time)
    assert client.get("use_sim_time") is sim_time
    assert client.set("use_sim_time", sim_time) == ""


def test_following_the_clock_and_owning_time_is_a_mistake(call):
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    status, output = call(node.main, *ros_args(f"asset:={ARM}", "use_sim_time:=true", "backend:=mujoco"))
    check_refusal(status, output, ("use_sim_time is true, but the backend MujocoBackend owns time",))

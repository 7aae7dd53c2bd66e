"""The node with a planner process: what it loads, what it does if that process dies, how it ends."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
from parameter_client import ParameterClient
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import SetBool

from programs import run_python
from usd_ros_bridge.options import PlanOptions, ReadOptions
from usd_ros_bridge.planner_process import PlanJob, start_planner
from usd_ros_bridge.testing.logged_process import LoggedProcess

pytestmark = pytest.mark.process

ASSETS = Path(__file__).parents[1] / "assets"
EXAMPLES = Path(__file__).parents[2] / "examples"
ARM = EXAMPLES / "arm" / "arm.usda"
ROVER = EXAMPLES / "rover" / "world.usda"
NODE = [sys.executable, "-m", "usd_ros_bridge.ros.node"]
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
WAIT_S = 30.0
JOB_S = 10.0
"""How long a planner that was stopped waits for its job: the node imports ROS 2 before it writes one."""
STOPS = 5
"""How often a planner is stopped before the test gives up."""
WARNING = "the asset is planned in the node's own process"


class Node(LoggedProcess):
    """A node in a process of its own, with its output."""

    def __init__(self, asset, *parameters):
        given = [part for each in (f"asset:={asset}", *parameters) for part in ("-p", each)]
        super().__init__([*NODE, "--ros-args", *given], title="the node", exit_status=None)

    @property
    def output(self):
        return self.log

    def has_openusd(self):
        return "/pxr/" in Path(f"/proc/{self.pid}/maps").read_text(encoding="utf-8")

    def planner(self):
        """The planner process, as soon as it runs its program."""
        return until(self._find_planner, "the planner process")

    def planner_now(self):
        """The planner process, None if there is none."""
        return self._find_planner()

    def had_child(self):
        """Whether the node had a process of its own that has ended, and was waited for."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        # Times of the children, in user and kernel mode: fields 16 and 17 of proc(5).
        return int(fields[13]) + int(fields[14]) > 0

    def _find_planner(self):
        for number in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="utf-8").split():
            # A process that has ended since then has no files there.
            with suppress(OSError):
                if b"planner_process" in Path(f"/proc/{number}/cmdline").read_bytes():
                    return int(number)
        return None


def until(found, what):
    deadline = time.monotonic() + WAIT_S
    while not (value := found()):
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_S} s"
        time.sleep(0.005)
    return value


def waiting_bytes(process):
    """Bytes that wait on the standard input of a process that is stopped."""
    with Path(f"/proc/{process}/fd/0").open("rb", buffering=0) as pipe:
        count = array.array("i", [0])
        fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


@pytest.fixture
def start_node():
    started = []

    def begin(*arguments):
        started.append(Node(*arguments))
        return started[-1]

    yield begin
    for node in started:
        node.end()


@pytest.fixture
def stopped(start_node):
    """A node whose planner is stopped, and has got its job."""

    def begin(*arguments):
        # Where the test gets no time to run, the planner is found too late: it has read its job, or has ended.
        for _ in range(STOPS):
            node = start_node(*arguments)
            planner = stop_before_its_job(node)
            if planner is not None:
                return node, planner
            node.end()
        pytest.fail(f"none of {STOPS} planners could be stopped before it read its job")

    return begin


def stop_before_its_job(node):
    """Stop a node's planner. Return it as soon as its job waits; None if it does not get one any more."""
    until(lambda: node.planner_now() or "ready" in node.output, "the planner process")
    planner = node.planner_now()
    if planner is None:
        return None
    with suppress(OSError):
        os.kill(planner, signal.SIGSTOP)
        deadline = time.monotonic() + JOB_S
        while is_alive(planner) and time.monotonic() < deadline:
            if waiting_bytes(planner):
                return planner
            time.sleep(0.005)
        os.kill(planner, signal.SIGCONT)
    return None


def is_alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def listen(harness, name):
    received = []
    harness.node.create_subscription(String, name, received.append, LATCHED)
    return received


def test_openusd_is_loaded_for_the_first_change(start_node, ros_harness):
    node = start_node(ARM, "backend:=joint_states", "tf_rate:=50.0")
    described = listen(ros_harness, "/arm/robot_description")
    node.wait_for_line("ready")
    ros_harness.wait_for(lambda: described, what="the description")
    until(node.had_child, "the end of the planner")
    assert not node.has_openusd()
    client = ParameterClient(ros_harness)
    assert "suction" in client.set("variants", ["/arm:gripper=no_such"])
    assert node.has_openusd()
    assert client.set("variants", ["/arm:gripper=suction"]) == ""
    ros_harness.wait_for(lambda: len(described) > 1, what="the next description")
    assert "suction" in described[-1].data
    assert node.end() == 0
    assert WARNING not in node.output


def test_a_service_that_switches_a_light_opens_the_stage(start_node, ros_harness):
    node = start_node(ROVER, "backend:=kinematic")
    node.wait_for_line("ready")
    assert not node.has_openusd()
    client = ros_harness.node.create_client(SetBool, "/rover/set_headlights")
    ros_harness.wait_for(client.service_is_ready, what="the service")
    future = client.call_async(SetBool.Request(data=False))
    ros_harness.wait_for(future.done, what="the answer")
    assert future.result().success, future.result().message
    assert node.has_openusd()


@pytest.mark.parametrize("parameter", ["watch:=true", f"spawn_roots:=['{ASSETS}']"], ids=["watch", "spawn"])
def test_who_needs_the_stage_plans_in_its_own_process(start_node, parameter):
    node = start_node(ROVER, "backend:=kinematic", parameter)
    node.wait_for_line("ready")
    assert node.has_openusd()
    until(lambda: not node.planner_now(), "the end of the planner")
    assert WARNING not in node.output


def test_a_planner_that_dies_is_replaced_by_the_process_itself(stopped):
    node, planner = stopped(ARM)
    os.kill(planner, signal.SIGKILL)
    node.wait_for_line("ready")
    assert node.has_openusd()
    assert node.output.count(WARNING) == 1
    assert "was ended by signal 9" in node.output
    assert node.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_during_planning_ends_both_as_a_success(stopped, number):
    node, planner = stopped(ARM)
    assert node.end(number=number) == 0
    assert not is_alive(planner)
    assert node.output == ""


def test_a_planner_does_not_outlive_a_process_that_is_killed(start_node):
    node = start_node(ARM)
    planner = node.planner()
    node.end(number=signal.SIGKILL)
    until(lambda: not is_alive(planner), "the end of the planner")


def test_descriptions_come_from_the_stage_if_the_planner_dies(start, ros_harness):
    with start_planner() as planner:
        plan = planner.plan(
            PlanJob(
                asset=str(ARM),
                read_options=ReadOptions(),
                plan_options=PlanOptions(),
                catalog=None,
                physics=False,
                describes=True,
                mesh_directory=None,
            )
        )
    described = listen(ros_harness, "/arm/robot_description")
    start(plan)
    ros_harness.wait_for(lambda: described, what="the description")
    assert plan.stage.is_open


def test_the_node_imports_neither_openusd_nor_planning():
    loaded = run_python("import sys, usd_ros_bridge.ros.node; print([*sys.modules])").stdout
    assert "'rclpy'" in loaded
    assert "'pxr'" not in loaded
    assert "usd_ros_bridge.planning.make_plan" not in loaded

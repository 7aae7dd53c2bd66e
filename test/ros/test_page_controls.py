"""The page's controls drive real bridges; a plain rclpy node says what came of it."""

from __future__ import annotations

import math
import statistics
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("viser", reason="viser is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from page_controls import control_page
from parameter_client import ParameterClient, call
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from usd_ros_bridge import Bridge, load_plan
from usd_ros_bridge.options import PlanOptions, ReadOptions
from usd_ros_bridge.ros.endpoints import action_client
from usd_ros_bridge.view import node_parameters, service_buttons, simulation_controls, variant_controls
from usd_ros_bridge.view.drive_controls import DriveControls
from usd_ros_bridge.view.plan_follower import PlanSource
from usd_ros_bridge.view.simulation_controls import FASTEST, SimulationControls
from usd_ros_bridge.view.variant_controls import VariantControls

pytestmark = pytest.mark.app

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "test" / "assets"
ARM = ROOT / "examples" / "arm" / "arm.usda"
ROVER = ROOT / "examples" / "rover" / "rover.usda"
JOINTS = "joint_commands"
TRAJECTORY = "joint_trajectory_controller/follow_joint_trajectory"
GRIPPER = "gripper_controller/gripper_cmd"
FLEET = ROOT / "examples" / "fleet" / "fleet.usda"


class Heard:
    """What a topic carried."""

    def __init__(self, harness, kind, topic):
        self.messages = []
        self.subscription = harness.node.create_subscription(
            kind, topic, self.messages.append, qos_profile_sensor_data
        )

    @property
    def last(self):
        return self.messages[-1] if self.messages else None

    def position(self, joint):
        if not self.messages:
            return math.nan
        return dict(zip(self.last.name, self.last.position, strict=True)).get(joint, math.nan)


@pytest.fixture
def hear(ros_harness):
    return lambda kind, topic: Heard(ros_harness, kind, topic)


@pytest.fixture
def patient(monkeypatch):
    """The page waits longer for a bridge: on a busy machine, one takes a while to be found and to answer."""
    for module in (service_buttons, node_parameters, simulation_controls):
        monkeypatch.setattr(module, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(action_client, "SERVER_WAIT_S", 60.0)


def connect(page, running, topic, *others):
    """Wait until what the page sends on a topic reaches the bridge, and those of the test that listen."""
    page.wait_for(lambda: page.is_heard(topic, 1 + len(others)), what=f"who listens to {topic}")
    page.wait_for(lambda: running.row(topic, "subscription").matched > 0, what="the page's publisher")
    page.wait_for(lambda: all(each.subscription.get_publisher_count() for each in others))


def meet(page, running, service):
    """Wait until the page has found a service of the bridge, and the bridge a client of it."""
    page.wait_for(lambda: page.graph.has_service(service), what=service)
    page.wait_for(lambda: running.bridge.node.count_clients(service) > 0, what=f"a client of {service}")


def test_a_slider_moves_a_joint(start, ros_harness, hear):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    states = hear(JointState, "/arm/joint_states")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/arm/joint_commands")
        page.handle("joint_2", JOINTS).value = 0.7
        for _ in range(3):
            page.update()
        assert states.position("joint_2") != pytest.approx(0.7), "sent without being asked"
        page.click("Send", JOINTS)
        page.wait_for(lambda: states.position("joint_2") == pytest.approx(0.7), what="the joint")
        assert page.faults == []


def test_a_live_slider_moves_its_joint_and_no_other(start, ros_harness, hear):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    states = hear(JointState, "/arm/joint_states")
    commands = hear(JointState, "/arm/joint_commands")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/arm/joint_commands", commands)
        page.handle("Live", JOINTS).value = True
        page.handle("joint_3", JOINTS).value = -0.4
        page.wait_for(lambda: states.position("joint_3") == pytest.approx(-0.4), what="the joint")
        assert {name for each in commands.messages for name in each.name} == {"joint_3"}
        assert states.position("joint_2") == pytest.approx(0.0)


def test_sliders_begin_where_the_robot_is_and_show_where_it_is(start, ros_harness, hear):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    states = hear(JointState, "/arm/joint_states")
    commander = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    ros_harness.wait_for(lambda: ros_harness.are_connected(commander, running.bridge))
    commander.publish(JointState(name=["joint_1"], position=[1.25]))
    ros_harness.wait_for(lambda: states.position("joint_1") == pytest.approx(1.25))
    with control_page(plan, ros_harness, DriveControls()) as page:
        page.wait_for(lambda: page.handle("joint_1", JOINTS).value == pytest.approx(1.25), what="the slider")
        page.wait_for(lambda: page.handle("joint_1", JOINTS).label == "joint_1 [1.250 rad]", what="the label")
        commander.publish(JointState(name=["joint_1"], position=[-0.5]))
        page.wait_for(
            lambda: page.handle("joint_1", JOINTS).label == "joint_1 [-0.500 rad]", what="the label"
        )
        assert page.handle("joint_1", JOINTS).value == pytest.approx(1.25)


def test_angles_in_degrees_are_sent_in_radians(start, ros_harness, hear):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    states = hear(JointState, "/arm/joint_states")
    with control_page(plan, ros_harness, DriveControls()) as page:
        page.handle("Angles in degrees").value = True
        page.update()
        connect(page, running, "/arm/joint_commands")
        page.handle("Live", JOINTS).value = True
        assert page.handle("joint_2", JOINTS).max == pytest.approx(120.0)
        page.handle("joint_2", JOINTS).value = 45.0
        page.wait_for(lambda: states.position("joint_2") == pytest.approx(math.pi / 4), what="the joint")


@pytest.mark.parametrize("value", [1e9, -1e9, math.nan, math.inf])
def test_a_value_that_no_slider_has_is_kept_within_the_limits(start, ros_harness, hear, value):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    commands = hear(JointState, "/arm/joint_commands")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/arm/joint_commands", commands)
        page.wait_for(lambda: page.handle("joint_2", JOINTS).label == "joint_2 [0.000 rad]", what="a state")
        page.handle("joint_2", JOINTS).value = value
        page.handle("Send", JOINTS).value = True
        page.wait_for(lambda: bool(commands.messages), what="a command")
        sent = commands.position("joint_2")
        assert -math.pi / 2 - 1e-9 <= sent <= math.radians(120.0) + 1e-9
        assert page.faults == []


def test_a_control_sends_thirty_messages_a_second_at_most(start, ros_harness, hear):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    commands = hear(JointState, "/arm/joint_commands")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/arm/joint_commands", commands)
        page.handle("Live", JOINTS).value = True
        began, moved = time.monotonic(), 0
        # More often than it may send, also where a turn takes long.
        while time.monotonic() - began < 1.0 or moved <= 31:
            moved += 1
            page.handle("joint_2", JOINTS).value = 0.1 + 0.001 * moved
            page.update()
            ros_harness.executor.spin_once(timeout_sec=0.0)
        page.wait_for(
            lambda: (
                commands.position("joint_2") == pytest.approx(page.handle("joint_2", JOINTS).value, abs=1e-3)
            )
        )
        passed = time.monotonic() - began
        assert len(commands.messages) <= 31 * max(passed, 1.0)


def test_velocities_end_with_the_last_browser(start, ros_harness, hear):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    commands = hear(JointState, "/arm/joint_commands")
    drive = DriveControls()
    with control_page(plan, ros_harness, drive) as page:
        connect(page, running, "/arm/joint_commands", commands)
        page.handle("Command").value = "velocity"
        page.update()
        slider = page.handle("joint_1")
        page.handle("Live", JOINTS).value = True
        slider.value = 0.5
        page.wait_for(lambda: bool(commands.messages), what="a velocity")
        assert list(commands.last.velocity) == [0.5]
        assert list(commands.last.position) == []
        drive.pause()
        page.wait_for(lambda: not any(commands.last.velocity), what="the stop")
        assert slider.value == 0.0


def test_an_array_of_positions_has_all_joints(start, ros_harness, hear):
    plan = load_plan(ASSETS / "actuation_drives.usda")
    running = start(plan, "kinematic")
    heard = hear(Float64MultiArray, "/robot/positions")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/robot/positions", heard)
        page.click("Send", "positions")
        page.wait_for(lambda: bool(heard.messages), what="an array")
        assert len(heard.last.data) == 2


# --- Sources of joint states -----------------------------------------------------------------------------------------


def test_without_physics_the_sliders_are_the_joint_states(start, ros_harness, hear):
    plan = load_plan(ARM)
    running = start(plan, "joint_states")
    states = hear(JointState, "/arm/joint_states")
    with control_page(plan, ros_harness, DriveControls(), joint_source="joint_states") as page:
        assert page.folders() == ["joint_states"]
        page.wait_for(lambda: bool(states.messages), what="the first joint states, without a touch")
        page.handle("joint_4").value = 0.3
        page.wait_for(lambda: states.position("joint_4") == pytest.approx(0.3), what="the slider")
        page.click("Centre")
        middle = 0.5 * (page.handle("joint_2").min + page.handle("joint_2").max)
        page.wait_for(lambda: states.position("joint_2") == pytest.approx(middle), what="the middle")
        page.click("Randomise")
        page.wait_for(lambda: states.position("joint_2") != pytest.approx(middle), what="chance")
        page.click("Zero")
        page.wait_for(lambda: not any(states.last.position), what="zeros")
        assert "right_finger_joint" not in states.last.name
        # The bridge merges the follower in: its frame moves with the leader.
        status = running.bridge.status()
        assert not [row for row in status.interfaces if row.errors]


def test_a_bridge_says_that_its_backend_takes_joint_states(start, ros_harness, hear):
    plan = load_plan(ROVER)
    start(plan, "joint_states")
    with control_page(plan, ros_harness, DriveControls()) as page:
        # A bridge in a host has no parameter `backend`: the page shows what the asset declares.
        assert "cmd_vel" in page.folders()
        assert page.faults == []


def test_the_page_leaves_the_topic_to_another_publisher(start, ros_harness, hear):
    plan = load_plan(ARM)
    start(plan, "joint_states")
    other = ros_harness.node.create_publisher(JointState, "/arm/joint_states", 10)
    states = hear(JointState, "/arm/joint_states")
    with control_page(plan, ros_harness, DriveControls(), joint_source="joint_states") as page:
        page.wait_for(lambda: page.is_heard("/arm/joint_states", 2))
        page.handle("joint_1").value = 0.5
        page.wait_for(lambda: states.position("joint_1") == pytest.approx(0.5), what="what was moved")
        # Until it knows the other publisher, the page repeats its values: the line appears when it does so no more.
        page.wait_for(
            lambda: (
                page.shows("Another node publishes /arm/joint_states")
                and states.subscription.get_publisher_count() == 2
            ),
            what="both publishers",
        )
        other.publish(JointState(name=["joint_1"], position=[1.0]))
        page.wait_for(lambda: states.position("joint_1") == pytest.approx(1.0), what="the other")
        count, until = len(states.messages), time.monotonic() + 0.5
        page.wait_for(lambda: time.monotonic() > until)
        assert len(states.messages) == count


# --- Pads ------------------------------------------------------------------------------------------------------------


def test_a_pad_drives_and_stops(start, ros_harness, hear):
    plan = load_plan(ROVER)
    running = start(plan, "kinematic")
    twists, odometry = hear(Twist, "/rover/cmd_vel"), hear(Odometry, "/rover/odom")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/rover/cmd_vel", twists)
        assert not twists.messages
        page.handle("Speed").value = 0.4
        page.handle("Turn").value = -0.5
        page.wait_for(
            lambda: odometry.last is not None and odometry.last.twist.twist.linear.x > 0.35, what="speed"
        )
        assert twists.last.linear.x == pytest.approx(0.4)
        assert twists.last.angular.z == pytest.approx(-0.5)
        page.click("Stop")
        page.wait_for(lambda: abs(odometry.last.twist.twist.linear.x) < 1e-6, what="standstill")
        assert page.handle("Speed").value == 0.0
        zeros = [each for each in twists.messages if not each.linear.x and not each.angular.z]
        count, until = len(twists.messages), time.monotonic() + 0.4
        page.wait_for(lambda: time.monotonic() > until)
        assert len(zeros) == 1
        assert len(twists.messages) == count


@pytest.mark.parametrize("end", ["pause", "close"])
def test_a_pad_stops_when_nobody_holds_it(start, ros_harness, hear, end):
    plan = load_plan(ROVER)
    running = start(plan, "kinematic")
    twists = hear(Twist, "/rover/cmd_vel")
    drive = DriveControls()
    with control_page(plan, ros_harness, drive) as page:
        connect(page, running, "/rover/cmd_vel", twists)
        page.handle("Speed").value = 1.0
        page.wait_for(lambda: bool(twists.messages), what="a twist")
        getattr(drive, end)()
        ros_harness.wait_for(lambda: twists.last.linear.x == 0.0, what="zero")


def test_a_pad_sends_ten_times_a_second(start, ros_harness, hear):
    plan = load_plan(ROVER)
    running = start(plan, "kinematic")
    twists = hear(Twist, "/rover/cmd_vel")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/rover/cmd_vel", twists)
        page.handle("Speed").value = 1.0
        began, times = time.monotonic(), []

        def has_ten():
            times.extend([time.monotonic()] * (len(twists.messages) - len(times)))
            return len(times) >= 10

        page.wait_for(has_ten, what="ten twists")
        assert len(twists.messages) <= 10.5 * (time.monotonic() - began) + 1
        # Of most of them: the test may get no time to run between two.
        assert statistics.median(later - earlier for earlier, later in pairwise(times)) < 0.5


def test_a_fleet_shows_one_robot_at_a_time(start, ros_harness, hear):
    plan = load_plan(FLEET)
    running = start(plan, "kinematic")
    with control_page(plan, ros_harness, DriveControls()) as page:
        connect(page, running, "/rover_1/cmd_vel")
        assert running.row("/rover_2/cmd_vel", "subscription").matched == 0
        choice = page.handle("Robot")
        choice.value = next(each for each in choice.options if each.startswith("/rover_2 "))
        connect(page, running, "/rover_2/cmd_vel")
        page.wait_for(lambda: running.row("/rover_1/cmd_vel", "subscription").matched == 0)


# --- Goals and services ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("patient")
def test_a_trajectory_is_followed_and_its_result_is_shown(start, ros_harness, hear):
    plan = load_plan(ARM)
    start(plan, "kinematic")
    states = hear(JointState, "/arm/joint_states")
    with control_page(plan, ros_harness, DriveControls()) as page:
        page.wait_for(lambda: bool(states.messages))
        page.handle("Duration").value = 0.6
        page.handle("joint_5", TRAJECTORY).value = 0.9
        page.click("Send", TRAJECTORY)
        # Feedback is on the page for 0.6 s only, or never. The next test, whose goal lasts, waits for it.
        page.wait_for(lambda: page.says("Succeeded"), what="the result")
        page.wait_for(lambda: states.position("joint_5") == pytest.approx(0.9, abs=1e-3), what="the pose")


@pytest.mark.usefixtures("patient")
def test_a_trajectory_is_canceled(start, ros_harness):
    plan = load_plan(ARM)
    start(plan, "kinematic")
    with control_page(plan, ros_harness, DriveControls()) as page:
        page.handle("Duration").value = 30.0
        page.click("Cancel", TRAJECTORY)
        page.wait_for(lambda: page.says("No goal to cancel"))
        page.click("Send", TRAJECTORY)
        page.wait_for(lambda: page.says("Running: "), what="feedback")
        page.click("Cancel", TRAJECTORY)
        page.wait_for(lambda: page.says("Canceled"), what="the result")


@pytest.mark.usefixtures("patient")
def test_a_gripper_opens_and_closes(start, ros_harness, hear):
    plan = load_plan(ARM)
    start(plan, "kinematic")
    states = hear(JointState, "/arm/joint_states")
    with control_page(plan, ros_harness, DriveControls()) as page:
        for label, position in (("Open", 0.04), ("Close", 0.0)):
            page.click(label)
            page.wait_for(
                lambda position=position: (
                    states.position("left_finger_joint") == pytest.approx(position, abs=1.1e-3)
                ),
                what=label,
            )
            page.wait_for(lambda: page.says("Succeeded") and page.says("reached its goal"), what=label)


def test_a_goal_without_a_server_is_one_line(ros_harness):
    plan = load_plan(ARM)
    with control_page(plan, ros_harness, DriveControls()) as page:
        page.click("Open")
        page.wait_for(lambda: page.says("Sent"))
        page.wait_for(lambda: page.says("no server within 10 s"), timeout=30.0, what="the time-out")


@pytest.mark.usefixtures("patient")
def test_a_rejected_goal_is_one_line(start, ros_harness):
    plan = load_plan(ARM)
    running = start(plan, "null")
    with control_page(plan, ros_harness, DriveControls()) as page:
        page.wait_for(lambda: bool(running.bridge.status().interfaces))
        page.click("Open")
        page.wait_for(lambda: page.says("rejected"), what="the refusal")


@pytest.mark.usefixtures("patient")
def test_a_service_is_called_and_its_answer_is_shown(start, ros_harness):
    plan = load_plan(ROVER)
    running = start(plan, "kinematic")
    with control_page(plan, ros_harness, DriveControls()) as page:
        meet(page, running, "/rover/set_headlights")
        page.click("Off")
        page.wait_for(lambda: page.says("Done: 2 lights are off"), what="the answer")
        page.click("On")
        page.wait_for(lambda: page.says("Done: 2 lights are on"), what="the answer")


def test_a_service_without_a_server_is_one_line(ros_harness):
    plan = load_plan(ROVER)
    with control_page(plan, ros_harness, DriveControls()) as page:
        page.click("Off")
        page.wait_for(lambda: page.says("there is none"), what="the time-out")


def test_a_page_that_only_shows_has_no_controls(start, ros_harness):
    plan = load_plan(ARM)
    start(plan, "kinematic")
    components = DriveControls(), SimulationControls(), VariantControls()
    with control_page(plan, ros_harness, *components, drives=False) as page:
        page.update()
        assert page.server.gui.handles == []


# --- Time and variants -----------------------------------------------------------------------------------------------


def now_ns(clock):
    return clock.last.clock.sec * 1_000_000_000 + clock.last.clock.nanosec


@pytest.mark.usefixtures("patient")
def test_time_is_paused_stepped_reset_and_made_faster(start, ros_harness, hear):
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    plan = load_plan(ARM)
    running = start(plan, "mujoco")
    # As the node does.
    running.bridge.node.declare_parameter("real_time_factor", 1.0)
    clock = hear(Clock, "/clock")
    with control_page(plan, ros_harness, SimulationControls()) as page:
        folder = page.handle("Time")
        page.wait_for(lambda: folder.visible, what="the controls")
        page.wait_for(lambda: page.says(" s, factor "), what="the time")
        page.handle("Paused").value = True
        page.wait_for(lambda: running.bridge.time.state == "paused", what="the pause")
        page.wait_for(lambda: page.says(" s, paused"), what="the pause on the page")
        page.wait_for(
            lambda: len(clock.messages) > 1 and clock.messages[-1] == clock.messages[-2],
            what="the stamp that is sent again while time is paused",
        )
        expected = now_ns(clock) + 5 * running.bridge.time.step_ns
        page.handle("Steps").value = 5
        page.click("Step")
        page.wait_for(lambda: now_ns(clock) == expected, what="five steps")
        page.click("Reset")
        page.wait_for(lambda: now_ns(clock) < expected, what="the reset")
        # Nor do those of others end the pause, once the page has no longer to assume what it asked for.
        until, shown = time.monotonic() + 1.5, set()
        page.wait_for(lambda: page.says(" s, paused") and time.monotonic() > until, what="the pause")
        for name in ("step", "reset"):
            assert call(ros_harness, "/usd_ros_bridge", Trigger, name, Trigger.Request()).success
            more = len(clock.messages) + 2
            page.wait_for(
                lambda more=more: shown.add(page.handle("Paused").value) or len(clock.messages) >= more
            )
        assert shown == {True}
        page.handle("Paused").value = False
        page.wait_for(lambda: running.bridge.time.state == "playing", what="the end of the pause")
        page.wait_for(lambda: page.handle("Real-time factor").visible, what="the factor's drop-down")
        page.handle("Real-time factor").value = FASTEST
        page.wait_for(lambda: running.bridge.time.real_time_factor == 0.0, what="the factor")
        ParameterClient(ros_harness).set("real_time_factor", 0.75)
        page.wait_for(lambda: page.handle("Real-time factor").value == "0.75", what="another's factor")
        assert page.browser.notices == []


@pytest.mark.usefixtures("patient")
def test_a_refused_step_is_a_notification(start, ros_harness):
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    plan = load_plan(ARM)
    running = start(plan, "mujoco")
    with control_page(plan, ros_harness, SimulationControls()) as page:
        meet(page, running, "/usd_ros_bridge/step")
        page.click("Step")
        page.wait_for(lambda: bool(page.browser.notices), what="the refusal")
        title, text = page.browser.notices[0]
        assert title == "step failed"
        assert "paused" in text


def test_a_backend_that_follows_time_has_no_controls_of_time(start, ros_harness):
    plan = load_plan(ARM)
    running = start(plan, "kinematic")
    with control_page(plan, ros_harness, SimulationControls()) as page:
        until = time.monotonic() + 1.5
        page.wait_for(lambda: time.monotonic() > until)
        assert running.bridge.time is None
        assert not page.handle("Time").visible


def page_plan(asset):
    """Return a plan as the page makes it: on a stage of its own, as in another process."""
    return PlanSource(asset=str(asset), read=ReadOptions(), options=PlanOptions()).load()


@pytest.mark.usefixtures("patient")
def test_a_variant_switches_the_bridge(start, ros_harness):
    running = start(load_plan(ARM), "kinematic")
    parameters = ParameterClient(ros_harness)
    parameters.wait("variants", [""])
    with control_page(page_plan(ARM), ros_harness, VariantControls()) as page:
        choice = page.handle("gripper")
        assert set(choice.options) >= {"parallel", "suction", "none"}
        # The page does it at its next update, before it reads the event of the change.
        page.click("As authored")
        assert parameters.set("variants", ["/arm:gripper=none"]) == ""
        page.wait_for(lambda: parameters.get("variants") == [""], what="the authored one")
        choice.value = "suction"
        page.wait_for(lambda: parameters.get("variants") == ["/arm:gripper=suction"], what="the variant")
        page.wait_for(lambda: running.bridge.plan.variants != (), what="the change")
        page.click("As authored")
        page.wait_for(lambda: parameters.get("variants") == [""], what="the authored one")
        parameters.set("variants", ["/arm:gripper=none"])
        page.wait_for(lambda: choice.value == "none", what="another's choice")
        assert page.browser.notices == []


@pytest.mark.usefixtures("patient")
def test_a_refused_variant_is_a_notification_and_the_drop_down_shows_what_is_live(start, ros_harness):
    running = start(load_plan(ARM), "kinematic", remote_control="read_only")
    with control_page(page_plan(ARM), ros_harness, VariantControls()) as page:
        meet(page, running, "/usd_ros_bridge/set_parameters")
        choice = page.handle("gripper")
        live = choice.value
        choice.value = "suction"
        page.wait_for(lambda: bool(page.browser.notices), what="the refusal")
        assert page.browser.notices[0] == (
            "The variant stays",
            "remote_control is read_only: variants cannot be set",
        )
        assert choice.value == live


def test_without_a_bridge_a_variant_stays(ros_harness):
    with control_page(page_plan(ARM), ros_harness, VariantControls()) as page:
        choice = page.handle("gripper")
        live = choice.value
        choice.value = "suction"
        page.wait_for(lambda: bool(page.browser.notices), what="the time-out")
        assert "there is none" in page.browser.notices[0][1]
        assert choice.value == live


CONTEXT_AS_A_VARIANT = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "robot" (
    variants = {
        string kind = "robot"
    }
    prepend variantSets = "kind"
)
{
    variantSet "kind" = {
        "prop" {
        }
        "robot" (
            prepend apiSchemas = ["RosContextAPI"]
        ) {
        }
    }
}
"""


def hears_log(page, bridge):
    """Return whether page and bridge have found each other's ends of /rosout: a line is sent once."""
    node = page.graph.node()
    ends = [each for each in node.subscriptions if each.topic_name == "/rosout"]
    publishers = node.get_publishers_info_by_topic("/rosout")
    return (
        any(each.node_name == bridge.node.get_name() for each in publishers)
        and any(each.get_publisher_count() == len(publishers) for each in ends)
        and bridge.node.count_subscribers("/rosout") > 0
    )


@pytest.mark.usefixtures("patient")
def test_a_variant_that_planning_refuses_is_set_back_with_the_reason(ros_harness, tmp_path, monkeypatch):
    # The reason comes by another topic, and may be late.
    monkeypatch.setattr(variant_controls, "_REASON_S", 60.0)
    asset = tmp_path / "robot.usda"
    asset.write_text(CONTEXT_AS_A_VARIANT, encoding="utf-8")
    bridge = Bridge(load_plan(asset), "kinematic")
    thread = threading.Thread(target=bridge.spin)
    bridge.open()
    thread.start()
    try:
        with control_page(page_plan(asset), ros_harness, VariantControls()) as page:
            choice = page.handle("kind")
            page.wait_for(lambda: hears_log(page, bridge), what="the bridge's log")
            choice.value = "prop"
            page.wait_for(lambda: bool(page.browser.notices), what="the refusal")
            title, reason = page.browser.notices[0]
            assert title == "The bridge set the variant back"
            assert reason == "no RosContextAPI is left of '/robot'"
            page.wait_for(lambda: choice.value == "robot", what="the choice as it was")
    finally:
        bridge.close()
        thread.join(10.0)

"""The page's controls in a browser: a hand on a slider or a button moves the robot, and ROS says so."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import pytest
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState

from page_runs import ARM, EXAMPLES

ROVER = EXAMPLES / "rover" / "rover.usda"
WAIT_S = 60.0
RELIABLE = QoSProfile(depth=10)
ALL = QoSProfile(depth=1000)
# A browser without a graphics card takes its time, and two take more.
pytestmark = pytest.mark.timeout(400)


class Heard:
    """What a topic carried, also with loss; what a robot's driver gets, with `RELIABLE`."""

    def __init__(
        self, harness: Any, kind: Any, topic: str, qos: QoSProfile = qos_profile_sensor_data
    ) -> None:
        self.messages: list[Any] = []
        self._harness = harness
        self._topic = topic
        harness.node.create_subscription(kind, topic, self.messages.append, qos)

    @property
    def last(self) -> Any:
        return self.messages[-1]

    def wait_for_any(self, since: int, condition: Any, what: str) -> None:
        """Wait until a message has come that meets a condition, not before that of a number."""
        self._harness.wait_for(
            lambda: any(map(condition, self.messages[since:])), timeout=WAIT_S, what=f"{what} ({self._topic})"
        )

    def wait_for(self, condition: Any, what: str) -> None:
        """Wait for a message that meets a condition."""
        self._harness.wait_for(
            lambda: bool(self.messages) and condition(self.last),
            timeout=WAIT_S,
            what=f"{what} ({self._topic})",
        )


@pytest.fixture
def hear(ros_harness):
    return partial(Heard, ros_harness)


def position(state: JointState, joint: str) -> float:
    return dict(zip(state.name, state.position, strict=True)).get(joint, math.nan)


class Controls:
    """The page's controls, by their labels; the first one of a label."""

    def __init__(self, page: Any) -> None:
        self.tab = page.tab

    def input(self, label: str) -> Any:
        """Return the element that a label is for: of a slider, its root."""
        named = self.tab.locator("label", has_text=label).first
        named.wait_for(timeout=1000.0 * WAIT_S)
        return self.tab.locator(f"[id='{named.get_attribute('for')}']")

    def drag(self, label: str, share: float) -> None:
        """Drag a slider to a share of its range."""
        slider = self.input(label)
        thumb = slider.get_by_role("slider")
        thumb.scroll_into_view_if_needed()
        track, hand = slider.bounding_box(), thumb.bounding_box()
        height = hand["y"] + 0.5 * hand["height"]
        self.tab.mouse.move(hand["x"] + 0.5 * hand["width"], height)
        self.tab.mouse.down()
        self.tab.mouse.move(track["x"] + share * track["width"], height, steps=5)
        self.tab.mouse.up()

    def value(self, label: str) -> float:
        """Return the number beside a slider."""
        return float(self.input(label).locator("xpath=following-sibling::*//input").input_value())

    def button(self, label: str) -> Any:
        return self.tab.get_by_role("button", name=label, exact=True).first

    def open_tab(self, label: str) -> None:
        self.tab.get_by_role("tab", name=label).click()

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a drop-down."""
        self.input(label).click()
        self.tab.get_by_role("option", name=option, exact=True).click()


def test_a_slider_moves_a_joint(run_bridge, open_page, hear) -> None:
    run = run_bridge("run", ARM, "--no-live", "--view", "--backend", "kinematic")
    states = hear(JointState, "/arm/joint_states")
    page = open_page(run.url)
    controls = Controls(page)
    states.wait_for(lambda state: position(state, "joint_2") == pytest.approx(0.0), "rest")
    controls.input("Live").check()
    controls.drag("joint_2", 0.9)
    states.wait_for(lambda state: position(state, "joint_2") > 1.0, "the joint")
    wanted = controls.value("joint_2")
    states.wait_for(lambda state: position(state, "joint_2") == pytest.approx(wanted, abs=1e-6), "the value")
    # The label beside the slider says where the joint is.
    page.text(f"joint_2 [{wanted:.3f} rad]")


def test_the_sliders_of_view_are_the_joint_states(run_bridge, open_page, hear) -> None:
    run = run_bridge("view", ARM)
    states = hear(JointState, "/arm/joint_states")
    page = open_page(run.url)
    controls = Controls(page)
    states.wait_for(lambda state: position(state, "joint_2") == pytest.approx(0.0), "rest")
    before = page.picture()
    controls.drag("joint_2", 0.9)
    states.wait_for(lambda state: position(state, "joint_2") > 1.0, "the slider")
    page.wait_for_picture(
        lambda picture: (abs(picture.astype(int) - before.astype(int)).max(axis=-1) > 40).sum() > 300,
        "another pose",
    )
    controls.button("Zero").click()
    states.wait_for(lambda state: not any(state.position), "zero")


def test_a_pad_drives_while_its_button_is_held(run_bridge, open_page, hear) -> None:
    run = run_bridge("run", ROVER, "--no-live", "--view", "--backend", "kinematic")
    odometry = hear(Odometry, "/rover/odom", ALL)
    page = open_page(run.url)
    forward = Controls(page).button("Forward")
    forward.hover()
    page.tab.mouse.down()
    odometry.wait_for(lambda message: message.twist.twist.linear.x > 0.45, "half of the greatest speed")
    page.tab.mouse.up()
    odometry.wait_for(lambda message: abs(message.twist.twist.linear.x) < 1e-6, "standstill")
    # The key drives for a moment only, which may be over when this test has its turn.
    before = len(odometry.messages)
    page.tab.keyboard.press("Shift+ArrowDown")
    odometry.wait_for_any(before, lambda message: message.twist.twist.linear.x < -0.1, "the key")
    odometry.wait_for(lambda message: abs(message.twist.twist.linear.x) < 1e-6, "standstill")


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "another browser stays"])
def test_a_rover_stops_when_the_browser_that_drives_it_closes(run_bridge, open_page, hear, others) -> None:
    run = run_bridge("run", ROVER, "--no-live", "--view", "--backend", "kinematic")
    odometry, twists = hear(Odometry, "/rover/odom"), hear(Twist, "/rover/cmd_vel", RELIABLE)
    for _ in range(others):
        open_page(run.url)
    page = open_page(run.url)
    Controls(page).drag("Speed [m/s]", 0.9)
    odometry.wait_for(lambda message: message.twist.twist.linear.x > 0.5, "speed")
    page.tab.close()
    twists.wait_for(lambda message: message.linear.x == 0.0, "zero")
    odometry.wait_for(lambda message: abs(message.twist.twist.linear.x) < 1e-6, "standstill")


def test_a_rover_stops_when_the_page_is_interrupted(run_bridge, open_page, hear, ros_harness) -> None:
    run = run_bridge("run", ROVER, "--no-live", "--view", "--backend", "kinematic")
    twists = hear(Twist, "/rover/cmd_vel", RELIABLE)
    page = open_page(run.url)
    Controls(page).drag("Speed [m/s]", 0.9)
    twists.wait_for(lambda message: message.linear.x > 0.5, "speed")
    assert run.interrupt() == 0
    ros_harness.wait_for(lambda: twists.last.linear.x == 0.0, what="zero")


def test_a_service_is_called_and_answers(run_bridge, open_page) -> None:
    run = run_bridge("run", ROVER, "--no-live", "--view", "--backend", "kinematic")
    page = open_page(run.url)
    controls = Controls(page)
    controls.button("Off").click()
    page.text("Done: 2 lights are off: /rover/headlights/left_lamp, /rover/headlights/right_lamp")
    controls.button("On").click()
    page.text("Done: 2 lights are on")


def test_a_gripper_and_a_trajectory_say_how_they_ended(run_bridge, open_page, hear) -> None:
    run = run_bridge("run", ARM, "--no-live", "--view", "--backend", "kinematic")
    states = hear(JointState, "/arm/joint_states")
    page = open_page(run.url)
    controls = Controls(page)
    controls.button("Open").click()
    page.text("reached its goal")
    states.wait_for(
        lambda state: position(state, "left_finger_joint") == pytest.approx(0.04, abs=1.1e-3), "the finger"
    )
    controls.button("Cancel").click()
    page.text("No goal to cancel")


def test_a_variant_switches_the_bridge_and_its_controls(run_bridge, open_page, hear) -> None:
    run = run_bridge("run", ARM, "--no-live", "--view", "--backend", "kinematic")
    states = hear(JointState, "/arm/joint_states")
    page = open_page(run.url)
    controls = Controls(page)
    page.text("gripper_controller/gripper_cmd")
    states.wait_for(lambda state: "left_finger_joint" in state.name, "fingers")
    controls.open_tab("Simulation")
    controls.choose("gripper", "none")
    states.wait_for(lambda state: "left_finger_joint" not in state.name, "no fingers")
    controls.open_tab("Drive")
    page.tab.get_by_text("gripper_controller/gripper_cmd").wait_for(state="hidden", timeout=1000.0 * WAIT_S)


def test_time_is_paused_and_a_refusal_is_one_line(run_bridge, open_page, hear) -> None:
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    run = run_bridge("run", ARM, "--no-live", "--view", "--backend", "mujoco")
    page = open_page(run.url)
    controls = Controls(page)
    controls.open_tab("Simulation")
    controls.button("Step").click()
    page.text("step failed")
    controls.input("Paused").check()
    page.text("s, paused")


def test_two_browsers_show_the_same_controls(run_bridge, open_page, hear) -> None:
    run = run_bridge("run", ARM, "--no-live", "--view", "--backend", "kinematic")
    states = hear(JointState, "/arm/joint_states")
    first, second = open_page(run.url), open_page(run.url)
    Controls(first).input("Live").check()
    Controls(first).drag("joint_2", 0.9)
    states.wait_for(lambda state: position(state, "joint_2") > 1.0, "the first")
    Controls(second).drag("joint_2", 0.2)
    states.wait_for(lambda state: position(state, "joint_2") < 0.0, "the second")
    wanted = Controls(second).value("joint_2")
    states.wait_for(lambda state: position(state, "joint_2") == pytest.approx(wanted, abs=1e-6), "the value")
    first.text(f"joint_2 [{wanted:.3f} rad]")
    # It comes as another update than the label.
    end = time.monotonic() + WAIT_S
    while (shown := Controls(first).value("joint_2")) != wanted:
        assert time.monotonic() < end, (shown, wanted)
        first.tab.wait_for_timeout(200.0)

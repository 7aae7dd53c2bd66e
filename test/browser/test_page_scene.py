"""The page in a browser: the robot is to be seen, moves with /tf, and the page says when nobody answers."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import JointState

from free_ports import free_port
from page_runs import ARM, ROVER
from usd_ros_bridge.api import load_plan

# A browser without a graphics card takes its time, and a test waits for it more than once.
pytestmark = pytest.mark.timeout(400)


def orange(picture: np.ndarray) -> int:
    """Return how many pixels have the colour of the rover's hull (hsv 20 to 40 degrees, lit or in the shade)."""
    red, green, blue = (picture[..., i].astype(int) for i in range(3))
    return int(((red > 110) & (red > green + 25) & (green > blue + 25)).sum())


def differing(first: np.ndarray, second: np.ndarray) -> int:
    """Return how many pixels differ to be seen."""
    return int((np.abs(first.astype(int) - second.astype(int)).max(axis=-1) > 40).sum())


def test_the_robot_is_seen_and_gone_when_hidden_or_looked_away_from(own_page, open_page) -> None:
    page, url = own_page(ROVER)
    shown = open_page(url)
    seen = shown.wait_for_picture(lambda picture: orange(picture) > 1500, "an orange rover")
    page.layers.set("meshes", False)
    shown.wait_for_picture(lambda picture: orange(picture) < orange(seen) / 20, "no rover, as it is hidden")
    page.layers.set("meshes", True)
    shown.wait_for_picture(lambda picture: orange(picture) > 1500, "the rover again")
    (client,) = page.server.get_clients().values()
    # Up into the sky.
    client.camera.look_at = client.camera.position + np.array([0.0, 0.01, 5.0])
    shown.wait_for_picture(lambda picture: orange(picture) < orange(seen) / 20, "the sky")


def test_a_hidden_robot_leaves_the_others(own_page, open_page) -> None:
    page, url = own_page(ROVER)
    shown = open_page(url)
    seen = shown.wait_for_picture(lambda picture: orange(picture) > 1500, "an orange rover")
    page.hidden_robots.add(0)
    gone = shown.wait_for_picture(lambda picture: orange(picture) < orange(seen) / 20, "no rover")
    # The ground and the walls are still there.
    assert (gone.astype(int).max(axis=-1) < 250).mean() > 0.5


def test_the_picture_follows_the_joints_and_stays_while_nothing_moves(
    run_bridge, open_page, ros_harness
) -> None:
    run = run_bridge("view", ARM)
    shown = open_page(run.url)
    publisher = ros_harness.node.create_publisher(JointState, "/arm/joint_states", 1)
    ros_harness.wait_for(lambda: publisher.get_subscription_count() > 0, timeout=30.0, what="the bridge")
    shown.wait_for_picture(lambda picture: (picture.max(axis=-1) < 60).sum() > 200, "the arm's dark base")
    # Until it has discovered this publisher, the page itself publishes joint states. From now on it does not.
    shown.text("Another node publishes /arm/joint_states")
    names = joint_names()

    def picture_of(angle: float, seconds: float) -> np.ndarray:
        """Return a picture at rest after joint states of a pose for some time, again and again, as of a robot."""
        end = time.monotonic() + seconds

        def has_published(_: np.ndarray) -> bool:
            message = JointState(name=names, position=[angle] * len(names))
            message.header.stamp = ros_harness.node.get_clock().now().to_msg()
            publisher.publish(message)
            return time.monotonic() > end

        shown.wait_for_picture(has_published, "anything")
        return shown.picture_at_rest()

    # How long a browser needs to draw a pose is anybody's guess on a busy machine: each try gives it more time.
    tries = []
    for seconds in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0):
        turned, back, again = (picture_of(angle, seconds) for angle in (0.9, 0.1, 0.9))
        tries.append((differing(turned, back), differing(turned, again)))
        if tries[-1][0] > 500 and tries[-1][1] < 50:
            return
    pytest.fail(f"pixels that differ from another pose, and from the same one: {tries}")


def joint_names() -> list[str]:
    plan = load_plan(ARM)
    return [dof.name for joint in plan.robots[0].joints for dof in joint.dofs if dof.mimic is None]


def test_a_page_whose_bridge_has_ended_recovers_with_the_next_one(run_bridge, open_page) -> None:
    port = free_port()
    run = run_bridge("run", ROVER, "--no-live", "--view", port=port)
    shown = open_page(run.url)
    shown.wait_for_picture(lambda picture: orange(picture) > 1500, "an orange rover")
    shown.wait_until_connected(True)
    assert run.interrupt() == 0
    shown.wait_until_connected(False)
    # The last picture is still there.
    assert orange(shown.picture()) > 1500
    run_bridge("run", ROVER, "--no-live", "--view", port=port)
    shown.wait_until_connected(True)
    shown.wait_for_picture(lambda picture: orange(picture) > 1500, "the rover of the new bridge")


def test_the_page_says_that_a_silent_bridge_does_not_answer(run_bridge, open_page) -> None:
    run = run_bridge("run", ARM, "--no-live", "--view")
    shown = open_page(run.url)
    # Transforms that are late at the start let it say so for a moment.
    shown.tab.get_by_text("does not answer").first.wait_for(state="hidden", timeout=90_000.0)
    run.process.send_signal(signal.SIGSTOP)
    try:
        shown.text("/usd_ros_bridge does not answer: what is shown is")
    finally:
        run.process.send_signal(signal.SIGCONT)
    shown.tab.get_by_text("does not answer").first.wait_for(state="hidden", timeout=90_000.0)


def test_another_variant_of_the_bridge_is_another_picture(run_bridge, open_page, ros_harness) -> None:
    run = run_bridge("run", ARM, "--no-live", "--view")
    shown = open_page(run.url)
    first = shown.wait_for_picture(
        lambda picture: (picture.max(axis=-1) < 60).sum() > 200, "the arm's dark base"
    )
    client = ros_harness.node.create_client(SetParameters, "/usd_ros_bridge/set_parameters")
    ros_harness.wait_for(client.service_is_ready, timeout=30.0, what="parameters")
    value = ParameterValue(
        type=ParameterType.PARAMETER_STRING_ARRAY, string_array_value=["/arm:gripper=suction"]
    )
    answer = client.call_async(SetParameters.Request(parameters=[Parameter(name="variants", value=value)]))
    ros_harness.wait_for(answer.done, timeout=60.0, what="the variant")
    assert answer.result().results[0].successful, answer.result().results[0].reason
    shown.wait_for_picture(lambda picture: differing(first, picture) > 100, "another gripper")

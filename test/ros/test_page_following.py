"""What the page asks a bridge for: its plan, where free bodies are, and whether it answers at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from simulation_interfaces.srv import SetEntityState
from std_msgs.msg import String

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.view.bridge_monitor import BridgeMonitor
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.page import RunningComponents
from usd_ros_bridge.view.plan_follower import PlanFollower, PlanSource, _is_same_asset
from usd_ros_bridge.view.world import EntityStates

pytestmark = pytest.mark.app

EXAMPLES = Path(__file__).parents[2] / "examples"
ARM = EXAMPLES / "arm" / "arm.usda"
FLEET = EXAMPLES / "fleet" / "fleet.usda"
WORLD = EXAMPLES / "rover" / "world.usda"
CRATE = "/World/Environment/crate"
BRIDGE = "/usd_ros_bridge"
WAIT_S = 60.0


@pytest.fixture
def reports() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def graph(reports: list[tuple[str, str]]) -> Iterator[GraphClient]:
    client = GraphClient(report=lambda *report: reports.append(report)).open()
    yield client
    client.close()


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"no {what} in {WAIT_S} s"
        time.sleep(0.02)
    return found


@pytest.fixture
def follow(graph: GraphClient, reports: list[tuple[str, str]]) -> Iterator[Callable[[Path], PlanFollower]]:
    followers: list[PlanFollower] = []

    def run(asset: Path) -> PlanFollower:
        source = PlanSource(asset=str(asset), read=ReadOptions(), options=PlanOptions())
        follower = PlanFollower(graph, BRIDGE, source, report=lambda *report: reports.append(report))
        followers.append(follower)
        follower.resume()
        return follower

    yield run
    for follower in followers:
        # Pytest shows it where a test fails: what the page has heard, and what it waits for.
        print(vars(follower), reports)
        follower.pause()


# --- The plan ---


def test_the_page_plans_again_with_the_variants_of_the_bridge(start: Callable, follow: Callable) -> None:
    running = start(load_plan(str(ARM)), "kinematic")
    follower = follow(ARM)
    suction = VariantSelection("/arm", "gripper", "suction")
    change = running.bridge.change(variants=[suction])
    wait_for(change.done, "change")
    plan = wait_for(follower.take, "plan")
    assert suction in plan.variants
    assert plan.physics is not None
    frames = {frame.id for frame in plan.robots[0].frames}
    assert frames == {frame.id for frame in running.bridge.plan.robots[0].frames}
    assert follower.take() is None


def test_the_page_plans_again_with_the_parameters_of_the_bridge(start: Callable, follow: Callable) -> None:
    running = start(load_plan(str(FLEET), plan_options=PlanOptions(tf_output="global")), "kinematic")
    follower = follow(FLEET)
    # It was started with other options, as `view --no-bridge` may be.
    plan = wait_for(follower.take, "plan")
    assert [robot.tf_outputs for robot in plan.robots] == [
        robot.tf_outputs for robot in running.bridge.plan.robots
    ]
    assert plan.robots[0].tf_outputs[0].tf == "/tf"


def test_the_plan_that_the_bridge_has_already_is_not_planned_again(
    start: Callable, follow: Callable, ros_harness
) -> None:
    start(load_plan(str(ARM)), "kinematic")
    follower = follow(ARM)
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    received: list[String] = ros_harness.listen(String, f"{BRIDGE}/plan", latched)
    ros_harness.wait_for(lambda: bool(received), timeout=WAIT_S, what="the summary")
    time.sleep(0.5)
    assert follower.take() is None


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[1]", '{"asset": 3, "variants": "no"}', '{"variants": {"/p": 1}}']
)
def test_something_else_than_a_plan_is_one_report(
    text: str, follow: Callable, ros_harness, reports: list[tuple[str, str]]
) -> None:
    follower = follow(ARM)
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    publisher = ros_harness.node.create_publisher(String, f"{BRIDGE}/plan", latched)
    publisher.publish(String(data=text))
    wait_for(lambda: reports, "report")
    assert {kind for kind, _ in reports} == {"view.plan"}
    assert follower.take() is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("arm.usda", "arm.usda", True),
        ("arm.usda", "./arm.usda", True),
        ("sub/../arm.usda", str(Path("arm.usda").absolute()), True),
        ("arm.usda", "rover.usda", False),
        ("https://host/arm.usda", "https://host/./arm.usda", False),
        (None, "arm.usda", False),
        (3, "arm.usda", False),
    ],
)
def test_an_asset_may_be_spelled_in_several_ways(one: object, other: str, same: bool) -> None:
    assert _is_same_asset(one, other) is same


def test_a_bridge_that_runs_another_asset_is_reported(
    start: Callable, follow: Callable, reports: list[tuple[str, str]]
) -> None:
    start(load_plan(str(ARM)), "kinematic")
    follower = follow(WORLD)
    wait_for(lambda: reports, "report")
    assert reports[0] == ("view.asset", f"{BRIDGE} runs {ARM}, and the page shows {WORLD}")
    assert follower.take() is None


# --- Free bodies ---


def test_free_bodies_are_where_the_simulation_has_them(
    start: Callable, graph: GraphClient, ros_harness
) -> None:
    start(load_plan(str(WORLD), physics=True), "mujoco")
    states = EntityStates(SimpleNamespace(bridge=BRIDGE, graph=graph), (CRATE,))
    states.resume()
    wait_for(lambda: states.take().get(CRATE) is not None, "pose of the crate")
    client = ros_harness.node.create_client(SetEntityState, "/set_entity_state")
    ros_harness.wait_for(client.service_is_ready, timeout=WAIT_S, what="the service")
    request = SetEntityState.Request(entity=CRATE)
    position = request.state.pose.position
    position.x, position.y, position.z = 0.5, 2.0, 0.2
    answer = client.call_async(request)
    ros_harness.wait_for(answer.done, timeout=WAIT_S, what="an answer")

    def is_there() -> bool:
        pose = states.take().get(CRATE)
        return pose is not None and bool(np.allclose(pose[:2], (0.5, 2.0), atol=0.05))

    wait_for(is_there, "crate at its new place")
    states.pause()
    assert states.take() == {}


def test_without_a_simulation_free_bodies_stay(graph: GraphClient) -> None:
    states = EntityStates(SimpleNamespace(bridge=BRIDGE, graph=graph), (CRATE,))
    states.resume()
    assert states.take() == {}
    states.pause()


# --- Whether it answers ---


def test_a_bridge_that_is_paused_answers_and_one_that_is_not_there_does_not(
    start: Callable, graph: GraphClient
) -> None:
    monitor = BridgeMonitor(graph, BRIDGE)
    monitor.resume()
    long_ago = time.monotonic()
    assert monitor.fault(long_ago) == ""
    text = wait_for(lambda: monitor.fault(long_ago), "fault")
    assert text == f"{BRIDGE} is not running: waiting for it"
    running = start(load_plan(str(ARM), physics=True), "mujoco", start_paused=True)
    wait_for(lambda: not monitor.fault(long_ago), "answer")
    # It goes on to answer, although no transforms arrive: longer than a silent bridge is waited for. Where the whole
    # process gets no time to run for that long, there is a fault for a moment.
    since = time.monotonic()

    def answers_all_the_time() -> bool:
        nonlocal since
        if monitor.fault(long_ago):
            since = time.monotonic()
        return time.monotonic() > since + 4.0

    wait_for(answers_all_the_time, "4 s without a fault")
    assert running.bridge is not None
    monitor.pause()
    assert monitor.fault(0.0) == ""


# --- Components ---


class Part:
    """A component that notes what is called."""

    calls: list[str]

    def open(self, context: Any) -> None:
        self.calls = context.calls
        self.calls.append("open")

    def resume(self) -> None:
        self.calls.append("resume")

    def update(self) -> None:
        self.calls.append("update")

    def pause(self) -> None:
        self.calls.append("pause")

    def close(self) -> None:
        self.calls.append("close")


class BrokenPart(Part):
    def update(self) -> None:
        raise ValueError("it is broken")


def test_a_part_that_fails_is_reported_once_and_ends_alone(reports: list[tuple[str, str]]) -> None:
    nothing = SimpleNamespace(
        update=lambda: None, close=lambda: None, pause=lambda: None, resume=lambda _: None
    )
    context = SimpleNamespace(
        calls=[],
        server=SimpleNamespace(atomic=nullcontext),
        frames=nothing,
        nodes=nothing,
        graph=None,
        report=lambda *report: reports.append(report),
    )
    running = RunningComponents(context, (BrokenPart, Part))
    running.open()
    running.resume()
    running.update()
    running.update()
    running.close()
    assert reports == [
        ("view.component:BrokenPart", "the page's BrokenPart is off: ValueError: it is broken")
    ]
    # The broken one is closed at its first update; the other one is updated twice.
    assert " ".join(context.calls) == "open open resume resume close update update pause close"

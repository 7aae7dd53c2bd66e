"""A part of a change that raises: before the plan is live everything rolls back; afterwards the rest goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from live_changes import TIMEOUT_S, names
from pxr import Sdf, Usd
from rclpy.exceptions import InvalidTopicNameException

from usd_ros_bridge import Bridge, BridgeError, load_plan
from usd_ros_bridge.backends.base import BackendInput
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.ros.endpoints.factory import EndpointFactory
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.tf.broadcaster import TfTopic
from usd_ros_bridge.runtime.plan_binding import PreparedChange
from usd_ros_bridge.testing.graphs import graph_of, settled_difference

MAST = "/World/mast"
STEPS = ("commit", "rollback", "cleanup", "finish")
FAULT = "gives up"


def without_mast(stage: Any, *, active: bool = False) -> None:
    """Remove a robot: the backend needs a successor. A refused change takes back what the session layer has."""
    with Usd.EditContext(stage, stage.GetSessionLayer()):
        stage.GetPrimAtPath(MAST).SetActive(active)


class Faulty:
    """A component one of whose steps raises."""

    def __init__(self, faulty: str = "") -> None:
        self.ran: list[str] = []
        self._faulty = faulty

    def prepare(self, plan: Any, binding: Any) -> PreparedChange:
        del plan, binding
        self._run("prepare")
        steps: dict[str, Callable[..., Any]] = {name: partial(self._run, name) for name in STEPS}
        for name in ("opened", "closed"):
            if name == self._faulty:
                steps[name] = partial(self._run, name)
        return PreparedChange(**steps)

    def _run(self, name: str) -> None:
        self.ran.append(name)
        if name == self._faulty:
            raise RuntimeError(f"{name} {FAULT}")


class Tracked(KinematicBackend):
    """Notes which instances are open."""

    instances: list[Tracked]
    faulty = False

    def __init__(self, instances: list[Tracked], on_close: Callable[[Tracked], object]) -> None:
        super().__init__()
        self.instances, self._on_close = instances, on_close

    def open(self, context: Any) -> None:
        super().open(context)
        self.instances.append(self)

    def close(self) -> None:
        self._on_close(self)
        if self in self.instances:
            self.instances.remove(self)
        super().close()

    def new_instance(self) -> Tracked:
        made = Tracked(self.instances, self._on_close)
        made.faulty = self.faulty
        return made

    def transfer_state(self, old: KinematicBackend) -> None:
        if self.faulty:
            raise RuntimeError(f"the transfer {FAULT}")
        super().transfer_state(old)


@pytest.fixture
def closings() -> list[Callable[[Tracked], object]]:
    """Called for each backend that closes."""
    return []


@pytest.fixture
def tracked(closings: list[Callable[[Tracked], object]]) -> Tracked:
    return Tracked([], lambda backend: [call(backend) for call in closings])


@pytest.fixture
def running(start: Any, edited_asset: Any, tracked: Tracked) -> Iterator[Any]:
    return start(load_plan(edited_asset), tracked)


def register(bridge: Bridge, *components: Faulty) -> None:
    for each in components:
        bridge.changes.register(each)


def change(bridge: Bridge) -> Any:
    return bridge.change(edit=without_mast).result(TIMEOUT_S)


# --- Once the plan is live -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["commit", "cleanup", "finish", "opened", "closed"])
def test_a_component_that_raises_once_the_plan_is_live_stops_no_other(running, tracked, step):
    bridge = running.bridge
    first, last = Faulty(step), Faulty()
    register(bridge, first, last)
    report = change(bridge)
    assert "publisher /mast/view" in report.closed
    assert [each for each in first.ran if each in STEPS] == ["commit", "cleanup", "finish"]
    assert last.ran == ["prepare", "commit", "cleanup", "finish"]
    assert running.warnings.containing(step, FAULT)
    assert not any(name.startswith("/mast/") for name in names(bridge))
    # The stage is as the plan says, and only the live backend is open.
    assert not bridge.plan.stage.GetPrimAtPath(MAST).IsActive()
    assert tracked.instances == [bridge.parts.runtime.backend]
    bridge.change(edit=partial(without_mast, active=True)).result(TIMEOUT_S)
    assert "/mast/view" in names(bridge)
    assert tracked.instances == [bridge.parts.runtime.backend]


# --- Before it is live -----------------------------------------------------------------------------------------------


def refuse(bridge: Bridge, edit: Callable[[Any], object] = without_mast) -> None:
    """A change is refused, and the graph, the stage and the domains are as before."""
    before, domains = graph_of(bridge), bridge.parts.domains.opened
    with pytest.raises(BridgeError, match=FAULT):
        bridge.change(edit=edit).result(TIMEOUT_S)
    assert not settled_difference(bridge, before)
    assert bridge.plan.stage.GetPrimAtPath(MAST).IsActive()
    assert bridge.parts.domains.opened == domains


def test_a_backend_whose_state_cannot_be_transferred_is_rolled_back(running, tracked):
    bridge = running.bridge
    component = Faulty()
    register(bridge, component)
    tracked.faulty = True
    refuse(bridge)
    assert component.ran == ["prepare", "rollback"]
    assert tracked.instances == [bridge.parts.runtime.backend] == [tracked]
    tracked.faulty = False
    change(bridge)


def test_a_rollback_that_raises_keeps_no_other_from_its_own(running, tracked):
    bridge = running.bridge
    first, second = Faulty(), Faulty("rollback")
    register(bridge, first, second, Faulty("prepare"))
    refuse(bridge)
    assert first.ran == second.ran == ["prepare", "rollback"]
    assert tracked.instances == [tracked]


def test_callbacks_run_while_a_refused_backend_closes(running, closings):
    bridge = running.bridge
    called: list[bool] = []

    def run_callback(_backend: Tracked) -> None:
        event = threading.Event()
        bridge.parts.domains.main.defer(event.set)
        called.append(event.wait(TIMEOUT_S))

    closings.append(run_callback)
    register(bridge, Faulty("prepare"))
    refuse(bridge)
    closings.clear()
    assert called == [True]


def test_a_domain_that_was_opened_for_a_refused_change_is_closed(running, other_domain_id):
    bridge = running.bridge
    register(bridge, Faulty("prepare"))

    def move(stage: Any) -> None:
        mast = stage.GetPrimAtPath(MAST)
        mast.CreateAttribute("ros:context:domain_id", Sdf.ValueTypeNames.Int, custom=False).Set(
            other_domain_id
        )

    refuse(bridge, move)


def rename(stage: Any) -> None:
    """All interfaces of the arm, and its transforms, open anew."""
    stage.GetPrimAtPath("/World/arm").GetAttribute("ros:context:namespace").Set("moved")


def test_transforms_that_open_half_way_are_closed_again(running, monkeypatch):
    open_topic = TfTopic.open

    def open_some(topic: TfTopic) -> None:
        if topic.name == "/moved/tf_static":
            raise RuntimeError(f"{topic.name} {FAULT}")
        open_topic(topic)

    monkeypatch.setattr(TfTopic, "open", open_some)
    refuse(running.bridge, rename)


def test_interfaces_that_open_half_way_are_closed_again(running, monkeypatch):
    make = EndpointFactory.make

    def make_some(factory: EndpointFactory, plan: Any, *arguments: Any) -> Any:
        if plan.name == "/moved/upper_pose":
            raise RuntimeError(f"{plan.name} {FAULT}")
        return make(factory, plan, *arguments)

    monkeypatch.setattr(EndpointFactory, "make", make_some)
    refuse(running.bridge, rename)


# --- Inputs of the backend -------------------------------------------------------------------------------------------


class Hearing(KinematicBackend):
    """Listens to a topic."""

    def inputs(self) -> tuple[BackendInput, ...]:
        return (BackendInput(key="", robot=0, topic="heard", type="sensor_msgs/msg/JointState"),)


def test_an_input_that_cannot_be_subscribed_to_is_not_bound(start, edited_asset, monkeypatch):
    open_subscription = TopicSubscription.open

    def open_some(subscription: TopicSubscription) -> None:
        if subscription.name == "/arm/heard":
            raise InvalidTopicNameException(subscription.name, FAULT, 0)
        open_subscription(subscription)

    monkeypatch.setattr(TopicSubscription, "open", open_some)
    running = start(load_plan(edited_asset), Hearing())
    assert running.warnings.containing("/arm/heard", FAULT)
    assert "heard" not in {each.name for each in running.bridge.parts.runtime.status().sinks}

"""Overrides: what the caller switches, and rates that the caller sets (PlanOptions.enabled and rates)."""

from __future__ import annotations

import math

from builders.records import Stage, found
from case_tables import each_case
from usd_ros_bridge.model.plan import STARTS_DISABLED, SWITCHED_OFF, BridgePlan


def robot(path: str = "/robot", namespace: str = "robot") -> Stage:
    stage = Stage()
    stage.context(path, namespace)
    return stage


def by_path(plan: BridgePlan) -> dict[str, tuple[bool, str]]:
    return {each.path: (each.enabled, each.reason) for each in (*plan.topics, *plan.services, *plan.actions)}


def test_interfaces_are_switched_whatever_the_asset_says() -> None:
    stage = robot()
    stage.topic("/robot/on")
    stage.topic("/robot/off", starts_enabled=False)
    stage.topic("/robot/left", starts_enabled=False)
    stage.service("/robot/service", name="service")
    stage.action("/robot/action", "example_interfaces/action/Fibonacci", name="action")
    enabled = {"/robot/on": False, "/robot/off": True, "/robot/service": False, "/robot/action": False}
    plan = stage.plan(enabled=enabled)
    assert by_path(plan) == {
        "/robot/on": (False, SWITCHED_OFF),
        "/robot/off": (True, ""),
        "/robot/left": (False, STARTS_DISABLED),
        "/robot/service": (False, SWITCHED_OFF),
        "/robot/action": (False, SWITCHED_OFF),
    }
    assert not found(plan, "2.3.enabled")
    # What the asset says stays to be seen.
    assert [topic.starts_enabled for topic in plan.topics] == [True, False, False]


def test_a_faulty_interface_stays_off_for_its_fault() -> None:
    stage = robot()
    stage.topic("/robot/bad", name="a b")
    for wanted in (True, False):
        (topic,) = stage.plan(enabled={"/robot/bad": wanted}).topics
        assert not topic.enabled
        assert "a b" in topic.reason


def test_what_is_switched_on_counts_as_a_duplicate() -> None:
    stage = robot()
    stage.service("/robot/first", name="same")
    stage.service("/robot/second", name="same", starts_enabled=False)
    assert not found(stage.plan(), "2.3.duplicate")
    plan = stage.plan(enabled={"/robot/second": True})
    assert [service.enabled for service in plan.services] == [True, False]
    assert len(found(plan, "2.3.duplicate")) == 1
    plan = stage.plan(enabled={"/robot/first": False, "/robot/second": True})
    assert [service.enabled for service in plan.services] == [False, True]


def test_rates_replace_authored_ones() -> None:
    stage = robot()
    stage.topic("/robot/a", publish_rate=10.0)
    stage.topic("/robot/b", publish_rate=None, invalid=("ros:topic:publish_rate",))
    plan = stage.plan(rates={"/robot/a": 25.0, "/robot/b": 5.0})
    assert [(topic.publish_rate, topic.enabled) for topic in plan.topics] == [(25.0, True), (5.0, True)]
    assert not found(plan, "2.4.rate")


@each_case("rate", [0.0, -1.0, math.nan, math.inf, 1e5])
def test_an_impossible_rate_is_said_and_the_authored_one_counts(rate: float) -> None:
    stage = robot()
    stage.topic("/robot/a", publish_rate=10.0)
    plan = stage.plan(rates={"/robot/a": rate})
    assert plan.topics[0].publish_rate == 10.0
    (diagnostic,) = found(plan, "2.4.rate")
    assert (diagnostic.severity, diagnostic.path) == ("warning", "/robot/a")


def test_a_path_without_an_interface_is_said_once() -> None:
    stage = robot()
    stage.topic("/robot/a")
    stage.topic("/robot/in", role="subscription", publish_rate=None)
    plan = stage.plan(enabled={"/robot/x": True}, rates={"/robot/in": 5.0, "/robot/x": 5.0})
    assert [each.path for each in found(plan, "2.3.enabled")] == ["/robot/x"]
    assert [each.path for each in found(plan, "2.4.rate")] == ["/robot/in", "/robot/x"]
    assert {each.severity for each in found(plan, "2.4.rate")} == {"warning"}
    assert plan.topics[1].publish_rate is None


def arms(count: int) -> Stage:
    """Robots with a joint each and no interface of their own: they get implicit ones."""
    stage = Stage()
    for number in range(count):
        root = stage.context(f"/arm_{number}", f"arm_{number}")
        stage.body(f"{root}/base")
        stage.body(f"{root}/link", at=(0.0, 0.0, 1.0))
        stage.joint(f"{root}/joint", f"{root}/base", f"{root}/link", specs=7)
    return stage


def test_interfaces_that_the_bridge_adds_are_switched_too() -> None:
    plan = arms(1).plan(enabled={"/arm_0": False}, rates={"/arm_0": 20.0})
    assert [(topic.enabled, topic.reason, topic.publish_rate) for topic in plan.topics] == [
        (False, SWITCHED_OFF, 20.0),
        (False, SWITCHED_OFF, None),
    ]
    assert not plan.diagnostics or not found(plan, "2.4.rate")


def test_one_of_several_equal_robots_is_switched_alone() -> None:
    plan = arms(4).plan(rates={"/arm_2": 20.0}, enabled={"/arm_3": False})
    publishers = [topic for topic in plan.topics if topic.role == "publisher"]
    assert [(topic.path, topic.publish_rate, topic.enabled) for topic in publishers] == [
        ("/arm_0", 50.0, True),
        ("/arm_1", 50.0, True),
        ("/arm_2", 20.0, True),
        ("/arm_3", 50.0, False),
    ]

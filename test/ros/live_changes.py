"""What tests of live change share: a bridge on a host's stage that a test steps, and looks at what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile

from usd_ros_bridge import Bridge, BridgeError, BridgeOptions, PlanOptions, VariantSelection, load_plan
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.testing.graphs import Graph, graph_of

STEP_NS = 10_000_000
STATES, SCAN, POINTS, STATIC = "/arm/joint_states", "/rover/scan", "/rover/points", "/rover/tf_static"
FOLLOW = "/arm/follow_joint_trajectory"
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
ROVER, HEAD = "/World/rover", "head"
TIMEOUT_S = 20.0


def head(variant: str) -> list[VariantSelection]:
    return [VariantSelection(ROVER, HEAD, variant)]


def fresh(stage: Any, *, plan_options: PlanOptions | None = None, **options: Any) -> Graph:
    """What a bridge has that starts on a stage now; in a domain that nobody else of the test is in."""
    plan = load_plan(stage, plan_options=plan_options)
    with Bridge(
        plan, options=BridgeOptions(**options), report=lambda *_: None, inform=lambda *_: None
    ) as bridge:
        return graph_of(bridge)


def publishers(bridge: Bridge) -> dict[str, Any]:
    return {each.topic_name: each for each in bridge.node.publishers}


def gids(node: Any, name: str) -> list[bytes]:
    """The identities of a topic's publishers as the middleware of another node knows them."""
    return [bytes(each.endpoint_gid) for each in node.get_publishers_info_by_topic(name)]


def names(bridge: Bridge) -> set[str]:
    return {row.name for row in bridge.status().interfaces if row.state != "disabled"}


class Stepped:
    """A bridge on a host's stage, stepped by the test."""

    def __init__(
        self, stage: Any, harness: Any, *, backend: str = "kinematic", node: Any = None, **options: Any
    ) -> None:
        self.stage = stage
        self.told: list[tuple[str, str]] = []
        self._harness = harness
        self.time_ns = 0
        plan = load_plan(stage, physics=backend == "mujoco")
        self.bridge = Bridge(
            plan,
            backend,
            options=BridgeOptions(**options),
            node=node,
            report=lambda *told: self.told.append(told),
            inform=lambda *_: None,
        ).open()
        self.step()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.time_ns += STEP_NS
            self.bridge.poll()
            self.bridge.step(self.time_ns)

    def until(self, condition: Callable[[], Any], what: str = "") -> None:
        def done() -> bool:
            self.step()
            return bool(condition())

        self._harness.wait_for(done, timeout=TIMEOUT_S, what=what)

    def finish(self, call: Any) -> ChangeReport:
        self.until(call.done, "the change")
        report = call.result(0.0)
        assert isinstance(report, ChangeReport)
        return report

    def refusal(self, call: Any) -> str:
        self.until(call.done, "the refusal")
        with pytest.raises(BridgeError) as refused:
            call.result(0.0)
        return str(refused.value)

    def reported(self, text: str) -> bool:
        return any(kind.startswith("change") and text in message for kind, message in self.told)

"""The recipe of docs/architecture.md: a controller is a record, a row of its schema, and a group."""

# ruff: noqa: ARG002 - the signatures are the protocol's
from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from planning_records import Stage, arm

from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS, ControllerSchema, Port
from usd_ros_bridge.model.message_types import FLOAT64_MULTI_ARRAY
from usd_ros_bridge.model.records import ControllerRecord, attribute
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.runtime.runtime import Runtime

NAME = "RosControlScaledPositionAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPositionRecord(ControllerRecord):
    subscriber: tuple[str, ...] | None = attribute("ros:scaled_position:subscriber", "rel")
    joints: tuple[str, ...] | None = attribute("ros:scaled_position:joints", "rel")
    scale: float | None = attribute("ros:scaled_position:scale", "double", 2.0)


class ScaledPositions:
    """The group: numbers in, position targets out."""

    dynamic = frozenset({"scale"})
    observes_at_rest = False

    def __init__(self, context: Any, plans: Any) -> None:
        self._rows = [list(plan.dofs) for plan in plans]
        self._scale = [plan.parameters["scale"] for plan in plans]
        self._pending: dict[int, Any] = {}

    @property
    def busy(self) -> bool:
        return bool(self._pending)

    def set_active(self, row: int, active: bool, *, time_ns: int, state: Any) -> None:
        self._pending.pop(row, None)

    def set_parameter(self, row: int, name: str, value: float) -> None:
        self._scale[row] = value

    def receive(self, row: int, sample: ArraySample, *, time_ns: int) -> None:
        self._pending[row] = self._scale[row] * np.asarray(sample.values)

    def command(self, time_ns: int, state: Any, commands: Any) -> None:
        for row, values in self._pending.items():
            commands.joint_position[self._rows[row]] = values
        self._pending.clear()

    def observe(self, state: Any) -> None:
        pass

    def reset(self) -> None:
        self._pending.clear()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    module = ModuleType("usd_ros_bridge.controllers.scaled_position")
    module.ScaledPositions = ScaledPositions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    row = ControllerSchema(
        record=ScaledPositionRecord,
        group="scaled_position:ScaledPositions",
        ports=(
            Port(
                field="subscriber",
                kind="topic",
                role="subscription",
                types=frozenset({FLOAT64_MULTI_ARRAY}),
            ),
        ),
        joints=("joints",),
    )
    monkeypatch.setitem(CONTROLLER_SCHEMAS, NAME, row)
    stage = arm()
    stage.topic("/robot/command", FLOAT64_MULTI_ARRAY, role="subscription")
    return stage


def test_a_record_a_row_and_a_group_add_a_controller(stage: Stage) -> None:
    stage.xform("/robot/scaled")
    stage.controller(
        ScaledPositionRecord(
            path="/robot/scaled", subscriber=("/robot/command",), joints=("/robot/pan", "/robot/lift")
        )
    )
    plan = stage.plan()
    (controller,) = (each for each in plan.controllers if each.schema == NAME)
    assert (controller.enabled, controller.joints, controller.parameters) == (
        True,
        ("pan", "lift"),
        {"scale": 2.0},
    )
    assert controller.claims == controller.dofs
    runtime = Runtime(plan, KinematicBackend()).open()
    try:
        (topic,) = (each for each in plan.topics if each.path == "/robot/command")
        binding = runtime.bind_sink(topic)
        runtime.tick(1_000_000_000)
        binding.deliver(ArraySample(values=np.array([0.25, 0.125])))
        runtime.tick(1_010_000_000)
        runtime.tick(1_020_000_000)
        assert runtime.snapshot.state.joint_position[list(controller.dofs)].tolist() == [0.5, 0.25]
        runtime.controllers.set_parameter("/robot/scaled", "scale", 1.0)
        binding.deliver(ArraySample(values=np.array([0.25, 0.125])))
        runtime.tick(1_030_000_000)
        runtime.tick(1_040_000_000)
        assert runtime.snapshot.state.joint_position[list(controller.dofs)].tolist() == [0.25, 0.125]
    finally:
        runtime.close()


def test_what_its_row_asks_for_is_checked(stage: Stage) -> None:
    stage.xform("/robot/scaled")
    stage.controller(ScaledPositionRecord(path="/robot/scaled", joints=("/robot/pan",)))
    (controller,) = (each for each in stage.plan().controllers if each.schema == NAME)
    assert controller.reason == "ros:scaled_position:subscriber names no interface"

"""Conformance tests of controllers, for authors of plug-ins.

Subclass `ControllerConformance` in a test module, and pytest collects its tests:

    class TestMyController(ControllerConformance):
        asset = Path(__file__).parent / "robot.usda"
        schema = "MyControllerAPI"
        samples = (TwistSample(stamp_ns=0, twist=np.array([0.5, 0, 0, 0, 0, 0.2])),)
        stops_after = 2.0

They need OpenUSD, and neither ROS nor a physics engine: joints do at once what they are commanded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pxr import Sdf, Usd

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.controllers.controller_group import (
    ControllerContext,
    MadeGroup,
    OdometryGroup,
    References,
    StatefulGroup,
    make_groups,
)
from usd_ros_bridge.model.controller_schemas import CONTROLLERS
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import FloatArray

_TICK_NS = 10_000_000
_SECONDS = 1e-9
_ROBOTS = 100
_INTERVAL = 10
"""Ticks between two samples."""
_ROOT = "/robots"
_KINDS = ("joint_position", "joint_velocity", "joint_effort")


class GroupRun:
    """Run the group of one schema at 100 Hz, with joints that do at once what they are commanded.

    Attributes:
        plan: The plan.
        plans: The controllers of the schema.
        group: Their group.
        state: What joints do.
        reports: What the group reported.
        history: (D,) commanded positions, velocities and efforts of each tick, by kind.
        bodies: Layout rows of the bodies that were commanded.
    """

    def __init__(self, plan: BridgePlan, schema: str, previous: GroupRun | None = None) -> None:
        """Make the group. The robots stand still, or continue as in the run of a plan before."""
        self.plan = plan
        self.reports: list[str] = []
        references = References(plan.controllers)
        context = ControllerContext(
            plan=plan,
            report=lambda kind, message: self.reports.append(f"{kind}: {message}"),
            inform=lambda _kind, _message: None,
            kinematic=True,
            references=references,
        )
        self.made: list[MadeGroup] = make_groups(context)
        made = next(each for each in self.made if each.schema == schema)
        self.plans, self.group = made.plans, made.group
        self.state = State.initial(plan.layout)
        self.commands = Commands(plan.layout)
        self.history: dict[str, list[FloatArray]] = {kind: [] for kind in _KINDS}
        self.bodies: set[int] = set()
        if previous is None:
            self._observe()
            return
        self.state = previous.state
        assert isinstance(self.group, StatefulGroup)
        for row in range(len(self.plans)):
            self.group.transfer_state(row, previous.group, row)
        self._observe()

    def send(self, sample: object, rows: Sequence[int] | None = None) -> None:
        """Let a sample arrive at some controllers, or all."""
        for row in range(len(self.plans)) if rows is None else rows:
            self.group.receive(row, sample, time_ns=self.state.time_ns + _TICK_NS)

    def tick(self, count: int = 1) -> None:
        """Run some ticks."""
        for _ in range(count):
            now = self.state.time_ns + _TICK_NS
            self.commands.clear()
            for each in self.made:
                each.group.command(now, self.state, self.commands)
            written = {kind: getattr(self.commands, kind).copy() for kind in _KINDS}
            for kind, values in written.items():
                self.history[kind].append(values)
            self.bodies.update(np.flatnonzero(np.isfinite(self.commands.body_twist).any(axis=1)).tolist())
            self._move(written, now)
            self._observe()

    def run(self, samples: Sequence[object]) -> None:
        """Let samples arrive, ten ticks apart."""
        for sample in samples:
            self.send(sample)
            self.tick(_INTERVAL)

    def numbers(self, row: int) -> tuple[Any, ...]:
        """Return all that one controller commanded, in the order of its joints, and its odometry."""
        dofs = list(self.plans[row].dofs)
        commanded = [np.array(self.history[kind])[:, dofs] for kind in _KINDS if self.history[kind]]
        group = self.group
        if isinstance(group, OdometryGroup):
            return (*commanded, group.odom_from_base[row].copy(), group.base_twist[row].copy())
        return tuple(commanded)

    def restart(self) -> None:
        """Reset the group, and begin at time 0."""
        self.group.reset()
        self.state = State.initial(self.plan.layout)
        self.history = {kind: [] for kind in _KINDS}
        self._observe()

    def _observe(self) -> None:
        for each in self.made:
            each.group.observe(self.state)

    def _move(self, written: Mapping[str, FloatArray], now: int) -> None:
        state = self.state
        velocity, position = written["joint_velocity"], written["joint_position"]
        given = np.isfinite(velocity)
        state.joint_velocity[given] = velocity[given]
        state.joint_position += state.joint_velocity * _TICK_NS * _SECONDS
        placed = np.isfinite(position)
        state.joint_velocity[placed & ~given] = 0.0
        state.joint_position[placed] = position[placed]
        state.time_ns = now


class ControllerConformance:
    """What every controller does. Subclasses say which, and what commands it.

    Attributes:
        asset: File with one robot, whose default prim has RosContextAPI, and one controller.
        schema: Its API schema.
        samples: What arrives at its command topic, 0.1 s apart.
        stops_after: Seconds after the last sample by which joints stand still; None if they need not.
    """

    asset: ClassVar[str | Path]
    schema: ClassVar[str]
    samples: ClassVar[Sequence[object]]
    stops_after: ClassVar[float | None] = None

    def test_the_plan_has_it(self) -> None:
        """The asset is without errors, and the controller starts active."""
        plan = load_plan(self.asset)
        assert not [str(each) for each in plan.diagnostics if each.severity == "error"]
        assert self._controller(plan).enabled

    def test_its_plug_in_has_no_fault(self) -> None:
        """The entry point gives a ControllerSchema."""
        assert CONTROLLERS.fault(self.schema) == ""
        assert self.schema in CONTROLLERS

    def test_it_claims_what_it_writes(self) -> None:
        """Only joints and bodies of the plan are written: others may be another controller's."""
        run = self._run(load_plan(self.asset))
        controller = run.plans[0]
        claimed = [row for row in controller.claims if isinstance(row, int)]
        for kind, values in run.history.items():
            written = np.flatnonzero(np.isfinite(np.array(values)).any(axis=0))
            assert set(written.tolist()) <= set(claimed), (
                f"{kind} of {written} is written, {claimed} are claimed"
            )
        bodies = {run.plan.layout.bodies[row] for row in run.bodies}
        assert bodies <= set(controller.claims), f"the bodies {bodies} are moved, and not claimed"

    def test_a_second_one_of_the_same_joints_is_refused(self) -> None:
        """Two active controllers never have one joint."""
        if not CONTROLLERS[self.schema].joints:
            return
        layer = Sdf.Layer.CreateAnonymous(".usda")
        layer.TransferContent(Usd.Stage.Open(str(self.asset)).Flatten())
        path = self._controller(load_plan(self.asset)).path
        assert Sdf.CopySpec(layer, path, layer, f"{path}_copy")
        plan = load_plan(Usd.Stage.Open(layer))
        assert [each.path for each in plan.controllers if each.schema == self.schema and each.enabled] == [
            path
        ]
        assert [each for each in plan.diagnostics if each.path == f"{path}_copy" and each.severity == "error"]

    def test_it_moves_something(self) -> None:
        """The samples of this test command it, or the other tests say nothing."""
        run = self._run(load_plan(self.asset))
        rest = State.initial(run.plan.layout)
        assert (run.state.joint_position != rest.joint_position).any(), run.reports

    def test_nothing_is_commanded_before_the_first_sample(self) -> None:
        """A controller at rest leaves the joints alone, and needs no ticks."""
        run = GroupRun(load_plan(self.asset), self.schema)
        run.tick(3)
        assert not run.group.busy
        assert not any(np.isfinite(np.array(values)).any() for values in run.history.values())

    def test_one_robot_has_the_numbers_of_a_hundred(self) -> None:
        """Rows of arrays do not know of one another: to the last bit."""
        one = self._run(load_plan(self.asset))
        many = self._run(load_plan(self._fleet()))
        assert len(many.plans) == _ROBOTS
        expected = one.numbers(0)
        for row in range(_ROBOTS):
            for mine, theirs in zip(many.numbers(row), expected, strict=True):
                np.testing.assert_array_equal(mine, theirs)

    def test_a_sample_for_one_robot_moves_that_robot(self) -> None:
        """What arrives at a row is for that row."""
        run = GroupRun(load_plan(self._fleet(3)), self.schema)
        rest = run.state.joint_position.copy()
        for sample in self.samples:
            run.send(sample, [1])
            run.tick(_INTERVAL)
        moved = np.flatnonzero(run.state.joint_position != rest)
        assert set(moved.tolist()) <= set(run.plans[1].dofs)
        assert moved.size

    def test_the_same_samples_give_the_same_numbers(self) -> None:
        """No clock of the machine and no random number has a part."""
        plan = load_plan(self.asset)
        first, second = self._run(plan), self._run(plan)
        for mine, theirs in zip(first.numbers(0), second.numbers(0), strict=True):
            np.testing.assert_array_equal(mine, theirs)

    def test_after_a_reset_all_begins_anew(self) -> None:
        """Time starts over, and so does everything else."""
        run = self._run(load_plan(self.asset))
        expected = run.numbers(0)
        run.restart()
        run.run(self.samples)
        for mine, theirs in zip(run.numbers(0), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)

    def test_numbers_that_are_not_finite_command_nothing_of_the_kind(self) -> None:
        """NaN and infinity of a client never reach a joint."""
        for wrong in (math.nan, math.inf, -math.inf):
            run = self._run(load_plan(self.asset))
            for sample in self.samples:
                run.send(_filled(sample, wrong))
                run.tick(_INTERVAL)
            for values in run.history.values():
                assert not np.isinf(np.array(values)).any()
            assert np.isfinite(run.state.joint_position).all()
            group = run.group
            if isinstance(group, OdometryGroup):
                assert np.isfinite(group.odom_from_base).all()
                assert np.isfinite(group.base_twist).all()

    def test_limits_of_joints_are_kept(self) -> None:
        """Commands are within the limits of position and velocity of the plan, for huge samples too."""
        run = self._run(load_plan(self.asset))
        run.run([_scaled(sample, 1e3) for sample in self.samples])
        layout = run.plan.layout
        dofs = list(run.plans[0].dofs)
        velocity = np.abs(np.array(run.history["joint_velocity"])[:, dofs])
        limit = layout.max_velocity[dofs]
        limited = limit > 0.0
        assert not (velocity[:, limited] > limit[limited] * (1.0 + 1e-9)).any()
        position = np.array(run.history["joint_position"])[:, dofs]
        lower, upper = layout.lower[dofs], layout.upper[dofs]
        bounded = lower <= upper
        slack = 1e-9
        assert not (position[:, bounded] < lower[bounded] - slack).any()
        assert not (position[:, bounded] > upper[bounded] + slack).any()

    def test_it_stops_without_samples(self) -> None:
        """After its time-out, joints stand still and no tick is needed."""
        if self.stops_after is None:
            return
        run = self._run(load_plan(self.asset))
        run.tick(math.ceil(self.stops_after / (_TICK_NS * _SECONDS)))
        before = run.state.joint_position.copy()
        run.tick(_INTERVAL)
        np.testing.assert_array_equal(run.state.joint_position, before)
        assert not run.group.busy

    def test_switched_off_it_stands_still(self) -> None:
        """A controller that is inactive moves nothing; switched on again, it waits for a sample."""
        run = self._run(load_plan(self.asset))
        run.group.set_active(0, False, time_ns=run.state.time_ns, state=run.state)
        run.tick(1)
        before = run.state.joint_position.copy()
        run.tick(_INTERVAL)
        run.group.set_active(0, True, time_ns=run.state.time_ns, state=run.state)
        run.tick(_INTERVAL)
        np.testing.assert_array_equal(run.state.joint_position, before)
        ticks = len(run.history["joint_position"])
        run.run(self.samples)
        assert any(np.isfinite(values[ticks:]).any() for values in run.history.values())

    def test_a_group_of_another_plan_continues(self) -> None:
        """When a variant changes, the new group continues as the old one would have."""
        plan = load_plan(self.asset)
        old, expected = self._run(plan), self._run(plan)
        if not isinstance(old.group, StatefulGroup):
            return
        new = GroupRun(load_plan(self.asset), self.schema, old)
        new.tick(_INTERVAL)
        expected.history = {kind: [] for kind in _KINDS}
        expected.tick(_INTERVAL)
        for mine, theirs in zip(new.numbers(0), expected.numbers(0), strict=True):
            # Odometry may begin a new interval.
            np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=1e-4)

    # --- Helpers ------------------------------------------------------------------------------------------------

    def _run(self, plan: BridgePlan) -> GroupRun:
        run = GroupRun(plan, self.schema)
        run.run(self.samples)
        return run

    def _controller(self, plan: BridgePlan) -> ControllerPlan:
        (found,) = (each for each in plan.controllers if each.schema == self.schema)
        return found

    def _fleet(self, count: int = _ROBOTS) -> Usd.Stage:
        """Return a stage with robots, each a reference to the asset in a namespace of its own."""
        stage = Usd.Stage.CreateInMemory()
        stage.GetRootLayer().TransferContent(Sdf.Layer.FindOrOpen(str(self.asset)))
        for prim in tuple(stage.GetRootLayer().rootPrims):
            del stage.GetRootLayer().rootPrims[prim.name]
        stage.SetDefaultPrim(stage.DefinePrim(_ROOT, "Xform"))
        for number in range(count):
            prim = stage.DefinePrim(f"{_ROOT}/robot_{number:03}", "Xform")
            prim.GetReferences().AddReference(str(self.asset))
            prim.CreateAttribute("ros:context:namespace", Sdf.ValueTypeNames.String).Set(f"robot_{number:03}")
        return stage


def _filled(sample: Any, value: float) -> Any:
    """Return a sample with a value in place of all its numbers."""
    return _changed(sample, lambda array: np.full_like(array, value))


def _scaled(sample: Any, factor: float) -> Any:
    return _changed(sample, lambda array: array * factor)


def _changed(sample: Any, change: Any) -> Any:
    if not is_dataclass(sample):
        raise TypeError(f"a sample is a dataclass, not a {type(sample).__name__}")
    arrays = {
        each.name: change(value)
        for each in fields(sample)
        if isinstance(value := getattr(sample, each.name), np.ndarray) and value.dtype.kind == "f"
    }
    return replace(sample, **arrays)  # type: ignore[type-var]

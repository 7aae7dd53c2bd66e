"""Callbacks around the steps of the backend: what they see, in which order, and that a fault of one stays its own."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from builders.plans import gripper, rover
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import StepCommands
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.step_callbacks import StepState

MS = 1_000_000


@pytest.fixture
def plan() -> BridgePlan:
    return gripper(rover()).build()


def test_commands_before_and_the_state_after_the_step(plan: BridgePlan) -> None:
    seen: list[object] = []
    wheel = plan.layout.dofs.index("left_wheel_joint")
    with Runtime(plan, KinematicBackend()) as runtime:
        runtime.step_callbacks.add_before(
            lambda time_ns, commands: seen.append(("before", time_ns, commands.joint_velocity[wheel]))
        )
        runtime.step_callbacks.add_after(
            lambda time_ns, state: seen.append(("after", time_ns, state.time_ns, state.joint_velocity[wheel]))
        )
        runtime.tick(10 * MS)
        runtime.commands.joint_velocity[wheel] = 2.0
        runtime.tick(20 * MS)
        runtime.tick(30 * MS)
    shown = [[each if isinstance(each, str) else float(each) for each in row] for row in seen]  # type: ignore[attr-defined]
    nan = float("nan")
    expected = [
        ["before", 10 * MS, nan], ["after", 10 * MS, 10 * MS, 0.0],
        ["before", 20 * MS, 2.0], ["after", 20 * MS, 20 * MS, 2.0],
        ["before", 30 * MS, nan], ["after", 30 * MS, 30 * MS, 2.0],
    ]  # fmt: skip
    assert [row[0] for row in shown] == [row[0] for row in expected]
    for row, wanted in zip(shown, expected, strict=True):
        assert_array_equal(np.array(row[1:], float), np.array(wanted[1:], float))


def test_what_was_commanded_earlier_is_no_command(plan: BridgePlan) -> None:
    seen: list[StepCommands] = []

    def keep(_: int, commands: StepCommands) -> None:
        seen.append(StepCommands(**{name: getattr(commands, name).copy() for name in StepCommands.__slots__}))

    with Runtime(plan, KinematicBackend()) as runtime:
        runtime.step_callbacks.add_before(keep)
        for name in ("joint_position", "joint_velocity", "joint_effort", "body_twist", "body_pose"):
            getattr(runtime.commands, name)[:] = 0.25 if name != "body_pose" else plan.layout.body_pose
        runtime.tick(10 * MS)
        runtime.tick(20 * MS)
    first, second = seen
    assert (first.body_twist == 0.25).all()
    for name in StepCommands.__slots__:
        assert getattr(first, name).shape == getattr(second, name).shape
        assert np.isnan(getattr(second, name)).all(), name
    assert first.joint_position.shape == (len(plan.layout.dofs),)


def test_the_state_has_all_bodies_and_no_array_can_be_written(plan: BridgePlan) -> None:
    shown: list[np.ndarray] = []
    errors: list[str] = []

    def look(_: int, state: StepState) -> None:
        shown.append(state.body_pose.copy())
        for name in ("joint_position", "joint_velocity", "joint_effort", "body_pose", "body_twist"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(state, name)[:] = 1.0

    def look_before(_: int, commands: StepCommands) -> None:
        for name in StepCommands.__slots__:
            with pytest.raises(ValueError, match="read-only"):
                getattr(commands, name)[...] = 1.0

    reporter = OnceReporter(lambda _, message: errors.append(message))
    with Runtime(plan, KinematicBackend(), reporter=reporter) as runtime:
        runtime.step_callbacks.add_before(look_before)
        runtime.step_callbacks.add_after(look)
        runtime.tick(10 * MS)
        runtime.commands.joint_position[plan.layout.dofs.index("palm_joint")] = 0.4
        for tick in range(2, 100):
            runtime.tick(tick * 10 * MS)
        assert_allclose(shown[-1], runtime.snapshot.body_pose)
        palm = plan.layout.bodies.index("/gripper/palm")
        # Below a joint: the pose follows from its position.
        assert not np.allclose(shown[-1][palm], shown[0][palm])
    assert errors == []


def test_the_hosts_own_arrays_stay_writable(plan: BridgePlan) -> None:
    position = plan.layout.joint_position.copy()
    with Runtime(plan, ArrayBackend(plan.layout, joint_position=position)) as runtime:
        runtime.step_callbacks.add_after(lambda _, state: state.joint_position)
        runtime.tick(10 * MS)
        position[0] = 0.5
        runtime.tick(20 * MS)
        assert runtime.snapshot.state.joint_position[0] == 0.5


def test_callbacks_run_in_order_until_they_are_removed(plan: BridgePlan) -> None:
    calls: list[str] = []
    with Runtime(plan, KinematicBackend()) as runtime:
        callbacks = runtime.step_callbacks
        removals = [
            callbacks.add_before(lambda *_: calls.append("a")),
            callbacks.add_before(lambda *_: calls.append("b")),
            callbacks.add_after(lambda *_: calls.append("c")),
            callbacks.add_after(lambda *_: calls.append("d")),
        ]
        runtime.tick(10 * MS)
        for remove in removals[1:3]:
            remove()
            remove()
        runtime.tick(20 * MS)
        assert calls == ["a", "b", "c", "d", "a", "d"]
        callbacks.clear()
        runtime.tick(30 * MS)
        assert len(calls) == 6


def test_an_exception_is_reported_once_and_stops_nothing(plan: BridgePlan) -> None:
    reports: list[tuple[str, str]] = []
    calls: list[int] = []

    def faulty(time_ns: int, _: object) -> None:
        raise RuntimeError(f"at {time_ns}")

    reporter = OnceReporter(lambda kind, message: reports.append((kind, message)))
    with Runtime(plan, KinematicBackend(), reporter=reporter) as runtime:
        for add in (runtime.step_callbacks.add_before, runtime.step_callbacks.add_after):
            add(faulty)
            add(lambda time_ns, _: calls.append(time_ns))
        for tick in (1, 2, 3):
            assert runtime.tick(tick * MS)
    assert calls == [MS, MS, 2 * MS, 2 * MS, 3 * MS, 3 * MS]
    assert [kind.partition(":")[0] for kind, _ in reports] == ["step.before", "step.after"]
    assert all("faulty" in message and "at 1000000" in message for _, message in reports)


def test_no_step_is_skipped_while_there_are_callbacks(plan: BridgePlan) -> None:
    calls: list[int] = []
    with Runtime(plan, KinematicBackend()) as runtime:
        runtime.tick(MS)
        for tick in (2, 3):
            runtime.tick(tick * MS)
        remove = runtime.step_callbacks.add_after(lambda time_ns, _: calls.append(time_ns))
        # As `Bridge.after_step` does: the next tick is not skipped either.
        runtime.post(lambda: None)
        for tick in (4, 5, 6):
            runtime.tick(tick * MS)
        remove()
        runtime.tick(7 * MS)
    assert calls == [4 * MS, 5 * MS, 6 * MS]

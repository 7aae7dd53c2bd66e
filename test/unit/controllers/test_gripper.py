"""Grippers: the rules of parallel_gripper_controller and gripper_controllers of ros2_controllers, one test each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.physics import with_physics
from builders.plans import PlanBuilder, gripper, rest_of
from case_tables import each_case
from open_backends import OpenBackend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.controllers.controller_group import ControllerContext, GoalGroup
from usd_ros_bridge.controllers.gripper import Grippers
from usd_ros_bridge.model.goals import GripperGoal, GripperState
from usd_ros_bridge.model.physics import Drive
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.options import PlanOptions

PALM, LEFT, RIGHT = "palm_joint", "left_finger_joint", "right_finger_joint"
MS = 1_000_000
PERIOD = 10 * MS


class Port:
    """A client that remembers what it was told."""

    def __init__(self) -> None:
        self.states: list[GripperState] = []
        self.ends: list[tuple[str, GripperState]] = []

    def feedback(self, feedback: object) -> None:
        assert isinstance(feedback, GripperState)
        self.states.append(feedback)

    def finish(self, outcome: str, result: object) -> None:
        assert isinstance(result, GripperState)
        self.ends.append((outcome, result))


def goal(
    *position: float, names: Sequence[str] = (), velocity: Sequence[float] = (), effort: Sequence[float] = ()
) -> GripperGoal:
    return GripperGoal(
        names=tuple(names),
        position=np.array(position, dtype=np.float64),
        velocity=np.array(velocity, dtype=np.float64),
        effort=np.array(effort, dtype=np.float64),
    )


class Rig:
    """A gripper whose state the test makes, or a kinematic backend."""

    def __init__(
        self,
        *joints: str,
        kinematic: bool = False,
        beyond: Any = "reject",
        builder: PlanBuilder | None = None,
        **parameters: Any,
    ) -> None:
        builder = builder or gripper()
        self.rows = [builder.robots[0].row(name) for name in joints or (LEFT,)]
        builder.robots[0].controller("hand", "gripper", joints or (LEFT,), parameters=parameters)
        self.plan = replace(builder.build(), options=PlanOptions(beyond_limits=beyond))
        self.reports: list[tuple[str, str]] = []
        self.clock_period_ns = 0
        self.grippers = Grippers(
            ControllerContext(
                plan=self.plan,
                report=lambda *r: self.reports.append(r),
                kinematic=kinematic,
                clock_period_ns=lambda: self.clock_period_ns,
            ),
            self.plan.controllers,
        )
        self.commands = Commands(self.plan.layout)
        self.state: State = rest_of(self.plan)
        self.backend = OpenBackend(self.plan, KinematicBackend()).backend if kinematic else None
        self.now = 0
        if self.backend is not None:
            self.state = self.backend.step(0, self.commands)

    def check(self, wanted: object) -> str:
        return self.grippers.check(0, wanted, time_ns=self.now)

    def start(self, wanted: GripperGoal) -> Port:
        port = Port()
        assert self.check(wanted) == ""
        self.grippers.start(0, wanted, port, time_ns=self.now + PERIOD, state=self.state)
        return port

    def tick(self, count: int = 1, *, early_ns: int = 0) -> list[float]:
        """Runs ticks, `early_ns` before whole periods; returns the positions that the last one wrote."""
        for _ in range(count):
            self.now = (self.now // PERIOD + (2 if self.now % PERIOD else 1)) * PERIOD - early_ns
            self.commands.clear()
            self.grippers.command(self.now, self.state, self.commands)
            if self.backend is not None:
                self.state = self.backend.step(self.now, self.commands)
            self.state.time_ns = self.now
            self.grippers.observe(self.state)
        return self.written

    @property
    def written(self) -> list[float]:
        return self.commands.joint_position[self.rows].tolist()

    def measure(self, position: float, velocity: float = 0.0, effort: float = np.nan) -> None:
        self.state.joint_position[self.rows] = position
        self.state.joint_velocity[self.rows] = velocity
        self.state.joint_effort[self.rows] = effort

    def measure_each(self, positions: Sequence[float]) -> None:
        self.state.joint_position[self.rows] = positions
        self.state.joint_velocity[self.rows] = 0.0


def finger(limits: tuple[float, float], max_effort: float = np.inf) -> PlanBuilder:
    """Returns a builder with a gripper of one sliding finger."""
    builder = PlanBuilder()
    robot = builder.robot("/gripper", namespace="/gripper")
    robot.body("mount")
    robot.joint("mount_joint", "", "mount", kind="fixed")
    robot.body("finger")
    robot.joint(LEFT, "mount", "finger", axis="Y", kind="prismatic", limits=limits, max_effort=max_effort)
    return builder


def test_the_group_is_what_the_protocol_asks_for() -> None:
    group: GoalGroup = Rig().grippers
    assert isinstance(group, GoalGroup)


# --- Acceptance -----------------------------------------------------------------------------------------------


@each_case(
    ("joints", "wanted", "why"),
    [
        ((LEFT,), goal(), "wrong number of position values: expects 1, got 0"),
        ((LEFT,), goal(0.1, 0.1), "wrong number of position values: expects 1, got 2"),
        ((LEFT, PALM), goal(0.1, 0.1, 0.1), "wrong number of position values: expects 2, got 3"),
        ((LEFT, PALM), goal(0.1, names=(LEFT, PALM)), "wrong number of position values: expects 2, got 1"),
        (
            (LEFT,),
            goal(0.1, names=("elbow",)),
            "'elbow' is none of the gripper's joints; there are: left_finger_joint",
        ),
        ((LEFT,), goal(0.1, 0.1, names=(LEFT, RIGHT)), "'right_finger_joint' is none of"),
        ((LEFT, PALM), goal(0.1, names=(LEFT,)), "the joint 'palm_joint' is missing"),
        ((LEFT, PALM), goal(0.1, 0.1, 0.1, names=(LEFT, PALM, LEFT)), "a joint is named twice"),
        ((LEFT,), goal(np.nan), "not every position value is finite"),
        ((LEFT,), goal(np.inf), "not every position value is finite"),
        ((LEFT,), goal(0.1, velocity=[np.nan]), "not every velocity value is finite"),
        ((LEFT,), goal(0.1, velocity=[-0.1]), "a velocity is negative"),
        ((LEFT,), goal(0.1, velocity=[0.1, 0.1]), "wrong number of velocity values"),
        ((LEFT,), goal(0.1, effort=[np.inf]), "not every effort value is finite"),
        ((LEFT,), goal(0.1, effort=[1.0, 1.0]), "wrong number of effort values"),
    ],
)
def test_a_malformed_goal_is_rejected(joints: tuple[str, ...], wanted: GripperGoal, why: str) -> None:
    assert Rig(*joints).check(wanted).startswith(why)


def test_a_goal_of_something_else_is_rejected() -> None:
    assert Rig().check("close") == "str is no goal of a gripper"


def test_the_joints_of_a_goal_may_come_in_another_order() -> None:
    rig = Rig(LEFT, PALM)
    rig.start(goal(1.0, 0.02, names=(PALM, LEFT)))
    assert rig.tick() == [0.02, 1.0]


def test_one_position_without_names_is_for_all_joints() -> None:
    rig = Rig(LEFT, PALM)
    rig.start(goal(0.02, velocity=[0.0], effort=[5.0]))
    assert rig.tick() == [0.02, 0.02]


ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)


@settings(max_examples=200, deadline=None)
@given(
    names=st.lists(st.sampled_from([LEFT, PALM, RIGHT, "", "x"]), max_size=3),
    position=st.lists(ANY, max_size=3),
    velocity=st.lists(ANY, max_size=3),
    effort=st.lists(ANY, max_size=3),
)
def test_whatever_a_goal_holds_it_is_rejected_or_ends_once(
    names: list[str], position: list[float], velocity: list[float], effort: list[float]
) -> None:
    rig = Rig(LEFT, PALM, kinematic=True, stall_timeout=0.05)
    wanted = goal(*position, names=names, velocity=velocity, effort=effort)
    if rig.check(wanted):
        return
    port = rig.start(wanted)
    rig.tick(4)
    if not port.ends:
        rig.grippers.cancel(0, port)
        rig.tick()
    assert len(port.ends) == 1
    assert np.isfinite(rig.state.joint_position).all()


# --- Motion ---------------------------------------------------------------------------------------------------


def test_the_position_is_commanded_and_reaching_it_succeeds() -> None:
    rig = Rig()
    port = rig.start(goal(0.03))
    assert rig.grippers.busy
    assert rig.tick() == [0.03]
    rig.measure(0.0295, 0.02)
    rig.tick()
    ((outcome, result),) = port.ends
    assert outcome == "succeeded"
    assert (result.reached_goal, result.stalled) == (True, False)
    assert (result.names, result.position.tolist()) == ((LEFT,), [0.0295])
    assert not rig.grippers.busy


def test_without_a_tolerance_a_fiftieth_of_the_stroke_is_near_enough() -> None:
    """The finger's stroke is 0.04: the tolerance is 0.0008, open."""
    rig = Rig()
    port = rig.start(goal(0.03))
    rig.measure(0.03 - 0.00081)
    rig.tick()
    assert not port.ends
    rig.measure(0.03 - 0.00079)
    rig.tick()
    assert port.ends[0][0] == "succeeded"


@pytest.mark.parametrize("limits", [(-3.0, 3.0), (-np.inf, np.inf), (0.0, np.inf), (0.2, -0.2), (0.3, 0.3)])
def test_without_a_tolerance_a_long_stroke_or_none_has_that_of_ros2_control(
    limits: tuple[float, float],
) -> None:
    rig = Rig(builder=finger(limits))
    port = rig.start(goal(0.3))
    rig.measure(0.3 - 0.0101)
    rig.tick()
    assert not port.ends
    rig.measure(0.3 - 0.0099)
    rig.tick()
    assert port.ends[0][0] == "succeeded"


def test_each_joint_has_the_tolerance_of_its_own_stroke() -> None:
    rig = Rig(PALM, LEFT)
    port = rig.start(goal(0.3, 0.03))
    rig.measure_each([0.3 - 0.009, 0.03 - 0.0009])
    rig.tick()
    assert not port.ends
    rig.measure_each([0.3 - 0.009, 0.03 - 0.0007])
    rig.tick()
    assert port.ends[0][0] == "succeeded"


def test_the_tolerance_is_open() -> None:
    rig = Rig(goal_tolerance=0.015625)
    port = rig.start(goal(0.03125))
    rig.measure(0.015625)
    rig.tick()
    assert not port.ends
    rig.measure(0.0156251)
    rig.tick()
    assert port.ends[0][0] == "succeeded"


def test_the_velocity_of_a_goal_limits_how_fast_the_command_moves() -> None:
    rig = Rig()
    rig.start(goal(0.03, velocity=[0.5]))
    written = [rig.tick()[0] for _ in range(8)]
    assert written[:7] == pytest.approx([0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03])
    assert written[6] == 0.03
    assert np.isnan(written[7])


def test_the_command_goes_all_the_way_though_the_goal_was_reached_within_its_tolerance() -> None:
    rig = Rig(kinematic=True, goal_tolerance=0.01)
    port = rig.start(goal(0.03, velocity=[0.05]))
    while not port.ends:
        rig.tick()
    assert rig.state.joint_position[rig.rows[0]] < 0.025
    assert rig.grippers.busy
    rig.tick(60)
    assert rig.state.joint_position[rig.rows[0]] == 0.03
    assert not rig.grippers.busy


def test_a_velocity_of_zero_is_no_limit() -> None:
    rig = Rig()
    rig.start(goal(0.03, velocity=[0.0]))
    assert rig.tick() == [0.03]


# --- Stalling -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("allowed", "outcome"), [(False, "aborted"), (True, "succeeded")])
def test_a_joint_that_does_not_move_has_stalled_after_the_time_out(allowed: bool, outcome: str) -> None:
    rig = Rig(allow_stalling=allowed, stall_timeout=0.5)
    port = rig.start(goal(0.03))
    rig.measure(0.01, 0.0009)
    rig.tick(51)
    assert not port.ends
    rig.tick()
    ((ended, result),) = port.ends
    assert ended == outcome
    assert (result.reached_goal, result.stalled) == (False, True)
    assert result.position.tolist() == [0.01]


def test_a_joint_that_moves_has_not_stalled() -> None:
    rig = Rig()
    port = rig.start(goal(0.03))
    rig.measure(0.0, -0.0011)
    rig.tick(500)
    assert not port.ends
    rig.measure(0.0, 0.0)
    rig.tick(101)
    assert port.ends[0][1].stalled


FULL = 40.0
"""Greatest effort of the finger, N."""


def bang_bang(rig: Rig, middle: float, effort: float, ticks: int) -> None:
    """Moves the finger back and forth about a position."""
    for tick in range(ticks):
        sign = 1.0 if tick % 2 else -1.0
        rig.measure(middle + sign * 0.003, sign * 1.5, -sign * effort)
        rig.tick()


@pytest.mark.parametrize(("allowed", "outcome"), [(False, "aborted"), (True, "succeeded")])
def test_a_joint_that_swings_with_full_effort_has_stalled_after_the_time_out(
    allowed: bool, outcome: str
) -> None:
    rig = Rig(allow_stalling=allowed, stall_timeout=0.5)
    port = rig.start(goal(0.03))
    # The first tick brings it nearer; 0.5 s later it has come no nearer.
    bang_bang(rig, 0.01, FULL, 52)
    assert not port.ends
    bang_bang(rig, 0.01, FULL, 1)
    ((ended, result),) = port.ends
    assert ended == outcome
    assert (result.reached_goal, result.stalled) == (False, True)


def test_a_joint_that_swings_with_less_than_full_effort_has_not_stalled() -> None:
    """As in parallel_gripper_controller: it moves."""
    rig = Rig(stall_timeout=0.5)
    port = rig.start(goal(0.03))
    bang_bang(rig, 0.01, 0.9 * FULL, 500)
    assert not port.ends


def test_a_joint_that_pushes_with_full_effort_and_comes_nearer_has_not_stalled() -> None:
    rig = Rig(stall_timeout=0.5)
    port = rig.start(goal(0.03))
    for tick in range(1000):
        rig.measure(tick * 0.002 * 0.01, 0.002, FULL)
        rig.tick()
    assert not port.ends


def test_a_joint_that_full_effort_pushes_out_of_its_limits_has_stalled() -> None:
    rig = Rig(stall_timeout=0.5)
    port = rig.start(goal(0.03))
    for tick in range(60):
        rig.measure(-0.4 * tick, -40.0, FULL)
        rig.tick()
    ((ended, result),) = port.ends
    assert (ended, result.stalled, result.reached_goal) == ("aborted", True, False)


def test_a_joint_that_an_object_blocks_under_full_effort_has_stalled() -> None:
    rig = Rig(stall_timeout=0.5, allow_stalling=True)
    port = rig.start(goal(0.03))
    rig.measure(0.012, 0.0, FULL)
    rig.tick(52)
    ((ended, result),) = port.ends
    assert (ended, result.stalled, result.reached_goal) == ("succeeded", True, False)


@pytest.mark.parametrize(
    ("stiff_drives", "end"), [("false", ("aborted", True, False)), ("true", ("succeeded", False, True))]
)
def test_a_gripper_on_a_stiff_drive_ends_its_goal(stiff_drives: str, end: tuple[str, bool, bool]) -> None:
    """A finger of 1 kg on a drive of 2e6 N/m and 800 N. As actuators it swings about the target for ever."""
    mujoco = pytest.importorskip("usd_ros_bridge.backends.mujoco", exc_type=ImportError)
    builder = finger((0.0, 0.1), max_effort=800.0)
    builder.robots[0].controller("hand", "gripper", (LEFT,), parameters={"goal_tolerance": 1e-7})
    plan = with_physics(builder.build(), drives={LEFT: Drive(stiffness=2e6, damping=2e5, max_force=800.0)})
    opened = OpenBackend(plan, mujoco.MujocoBackend(), stiff_drives=stiff_drives)
    grippers = Grippers(
        ControllerContext(plan=plan, report=lambda *_: None, clock_period_ns=lambda: 0), plan.controllers
    )
    port, commands = Port(), opened.commands
    state = opened.after(PERIOD)
    grippers.start(0, goal(0.06), port, time_ns=2 * PERIOD, state=state)
    for tick in range(2, 300):
        commands.clear()
        grippers.command(tick * PERIOD, state, commands)
        state = opened.after(tick * PERIOD)
        grippers.observe(state)
    ((outcome, result),) = port.ends
    assert (outcome, result.stalled, result.reached_goal) == end


def test_one_joint_that_comes_nearer_keeps_the_goal_of_all() -> None:
    rig = Rig(PALM, LEFT, stall_timeout=0.1)
    port = rig.start(goal(2.0, 0.03))
    rows = rig.rows
    for tick in range(100):
        sign = 1.0 if tick % 2 else -1.0
        rig.state.joint_position[rows] = [0.3 + tick * 0.01, 0.01 + sign * 0.003]
        rig.state.joint_velocity[rows] = [1.0, 1.5 * sign]
        rig.state.joint_effort[rows] = [5.0, -sign * FULL]
        rig.tick()
    assert not port.ends


def test_a_joint_that_is_commanded_to_move_slowly_has_not_stalled() -> None:
    rig = Rig(kinematic=True, goal_tolerance=0.0001)
    port = rig.start(goal(0.002, velocity=[0.0005]))
    rig.tick(395)
    assert port.ends[0][0] == "succeeded"


def test_where_velocities_are_unknown_positions_tell() -> None:
    rig = Rig(stall_timeout=0.1)
    port = rig.start(goal(0.03))
    for step in range(30):
        rig.measure(step * 1e-4, np.nan)
        rig.tick()
    assert not port.ends
    rig.tick(11)
    assert port.ends[0][1].stalled
    assert port.ends[0][1].velocity.tolist() == [0.0]


def test_a_joint_that_cannot_be_measured_stalls() -> None:
    rig = Rig(stall_timeout=0.1)
    rig.measure(np.nan, np.nan)
    port = rig.start(goal(0.03, velocity=[0.1]))
    assert rig.tick() == [0.03]
    rig.tick(15)
    assert port.ends[0][1].stalled


def test_a_kinematic_gripper_reaches_its_goal() -> None:
    rig = Rig(kinematic=True)
    port = rig.start(goal(0.04))
    rig.tick(50)
    assert [outcome for outcome, _ in port.ends] == ["succeeded"]
    assert rig.state.joint_position[rig.rows[0]] == 0.04


def test_a_goal_beyond_a_limit_is_rejected() -> None:
    rig = Rig()
    reason = "the position of joint 'left_finger_joint' is 0.08, beyond its upper limit 0.04"
    assert rig.check(goal(0.08)) == reason
    assert rig.check(goal(-0.01)).endswith("beyond its lower limit 0")
    assert rig.check(goal(0.0409)) == ""
    two = Rig(LEFT, PALM)
    assert LEFT in two.check(goal(0.0, 0.08, names=(PALM, LEFT)))


@pytest.mark.parametrize("beyond", ["reject", "clamp"])
def test_limits_of_followers_are_not_those_of_goals(beyond: str) -> None:
    """As in ros2_control, where a mimic joint has no command interface and its limits limit no command."""
    builder = PlanBuilder()
    robot = builder.robot("/gripper", namespace="/gripper")
    for body in ("palm", "left_finger", "right_finger"):
        robot.body(body)
    robot.joint(LEFT, "palm", "left_finger", limits=(0.0, 1.0))
    robot.joint(RIGHT, "palm", "right_finger", limits=(0.0, 1.0), mimic=(LEFT, 3.0, 0.0))
    rig = Rig(kinematic=True, beyond=beyond, builder=builder)
    port = rig.start(goal(0.9))
    rig.tick(50)
    assert [outcome for outcome, _ in port.ends] == ["succeeded"]
    assert rig.state.joint_position.tolist() == pytest.approx([0.9, 2.7])
    assert rig.reports == []


def test_a_goal_beyond_a_limit_is_clamped_where_that_is_wanted() -> None:
    rig = Rig(kinematic=True, beyond="clamp")
    port = rig.start(goal(0.08))
    rig.tick(50)
    ((outcome, result),) = port.ends
    assert (outcome, result.reached_goal) == ("succeeded", True)
    assert result.position.tolist() == pytest.approx([0.04], abs=0.01)
    assert rig.backend is not None
    assert rig.reports == [
        (
            "gripper.clamped:/gripper/hand",
            "/gripper/hand: clamped: the position of joint 'left_finger_joint' is 0.08, beyond its upper limit 0.04",
        )
    ]


# --- Feedback -------------------------------------------------------------------------------------------------


def test_feedback_comes_at_the_monitor_rate() -> None:
    rig = Rig(action_monitor_rate=20.0)
    port = rig.start(goal(0.03))
    rig.measure(0.01, 0.05)
    rig.state.joint_effort[rig.rows] = 3.0
    rig.tick(100)
    assert len(port.states) == 19
    state = port.states[0]
    assert (state.position.tolist(), state.velocity.tolist(), state.effort.tolist()) == (
        [0.01],
        [0.05],
        [3.0],
    )
    assert (state.stalled, state.reached_goal) == (False, False)


def test_feedback_keeps_its_rate_where_that_is_the_clocks() -> None:
    """Stamps that are early by a nanosecond, every other one, serve the deadline that they just miss."""
    rig = Rig(action_monitor_rate=100.0)
    rig.clock_period_ns = PERIOD
    port = rig.start(goal(0.03))
    rig.measure(0.01, 0.05)
    for early in [0, 1] * 50:
        rig.tick(1, early_ns=early)
    assert len(port.states) == 99


def test_feedback_is_a_snapshot() -> None:
    rig = Rig()
    port = rig.start(goal(0.03))
    rig.measure(0.01, 0.05)
    rig.tick(6)
    rig.measure(0.02, 0.05)
    rig.tick(1)
    assert port.states[0].position.tolist() == [0.01]


# --- Ends -----------------------------------------------------------------------------------------------------


def test_a_new_goal_ends_the_old_one_aborted() -> None:
    rig = Rig()
    first = rig.start(goal(0.03))
    rig.tick()
    second = rig.start(goal(0.01))
    assert rig.tick() == [0.01]
    assert [(outcome, r.reached_goal, r.stalled) for outcome, r in first.ends] == [("aborted", False, False)]
    assert not second.ends


def test_a_goal_that_is_canceled_holds_the_position() -> None:
    rig = Rig()
    port = rig.start(goal(0.03, velocity=[0.01]))
    rig.measure(0.004, 0.01)
    rig.tick()
    rig.grippers.cancel(0, port)
    assert [(outcome, r.position.tolist()) for outcome, r in port.ends] == [("canceled", [0.004])]
    assert rig.grippers.busy
    rig.measure(0.005, 0.01)
    assert rig.tick() == [0.005]
    assert not rig.grippers.busy
    assert np.isnan(rig.tick()).all()


def test_canceling_a_goal_that_ended_changes_nothing() -> None:
    rig = Rig()
    first = rig.start(goal(0.03))
    second = rig.start(goal(0.02))
    rig.grippers.cancel(0, first)
    assert len(first.ends) == 1
    assert not second.ends
    assert rig.tick() == [0.02]


def test_a_gripper_that_is_switched_off_aborts_and_holds() -> None:
    rig = Rig()
    port = rig.start(goal(0.03))
    rig.tick()
    rig.measure(0.01, 0.1)
    rig.grippers.set_active(0, False, time_ns=rig.now, state=rig.state)
    assert [outcome for outcome, _ in port.ends] == ["aborted"]
    assert rig.tick() == [0.01]
    assert not rig.grippers.busy


def test_a_goal_for_a_gripper_that_is_off_ends_aborted_at_once() -> None:
    rig = Rig()
    rig.grippers.set_active(0, False, time_ns=0, state=None)
    port = rig.start(goal(0.03))
    assert [outcome for outcome, _ in port.ends] == ["aborted"]
    assert np.isnan(rig.tick()).all()


def test_reset_aborts_goals_and_commands_nothing() -> None:
    rig = Rig()
    port = rig.start(goal(0.03, velocity=[0.01]))
    rig.tick()
    rig.grippers.reset()
    assert [outcome for outcome, _ in port.ends] == ["aborted"]
    assert not rig.grippers.busy
    assert np.isnan(rig.tick()).all()

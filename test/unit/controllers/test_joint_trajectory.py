"""Following: one rule of joint_trajectory_controller a test, tick by tick."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from trajectory_bench import JOINTS, MS, TICK, Bench, Port, S, arm, goal, trajectory

from case_tables import each_case
from usd_ros_bridge.controllers.controller_group import load_factory
from usd_ros_bridge.model.goals import GripperGoal
from usd_ros_bridge.options import BeyondLimits, PlanOptions

INVALID_GOAL = -1


def test_the_registry_has_the_group() -> None:
    assert load_factory("RosControlJointTrajectoryAPI") is type(Bench().group)


# --- Interpolation ------------------------------------------------------------------------------------------------


def test_positions_are_followed_in_lines_from_the_current_state() -> None:
    bench = Bench(start=(0.5, 0.0, -0.5))
    bench.send(goal(trajectory([1.0, 2.0], [[1.5, 0.0, -0.5], [1.5, 1.0, -0.5]])))
    bench.tick()
    assert_allclose(bench.command, [0.5, 0.0, -0.5])
    bench.tick(50)
    assert_allclose(bench.command, [1.0, 0.0, -0.5])
    assert_allclose(bench.velocity_command, [1.0, 0.0, 0.0], atol=1e-12)
    bench.tick(100)
    assert_allclose(bench.command, [1.5, 0.5, -0.5])


def test_velocities_make_cubics_from_the_current_state() -> None:
    bench = Bench()
    bench.send(goal(trajectory([1.0], [[1.0, 2.0, 0.0]], [[0.0, 0.0, 0.0]])))
    bench.tick()
    for tick in range(1, 101):
        bench.tick()
        t = tick * TICK / S
        assert_allclose(bench.command[:2], np.array([1.0, 2.0]) * (3 * t**2 - 2 * t**3), atol=1e-12)
        if tick < 100:
            assert_allclose(bench.velocity_command[0], 6 * t - 6 * t**2, atol=1e-12)


def test_accelerations_make_quintics_from_the_current_state() -> None:
    bench = Bench()
    bench.send(goal(trajectory([1.0], [[1.0, 2.0, 0.0]], [[0.0] * 3], [[0.0] * 3])))
    bench.tick()
    for tick in range(1, 101):
        bench.tick()
        t = tick * TICK / S
        assert_allclose(bench.command[0], 10 * t**3 - 15 * t**4 + 6 * t**5, atol=1e-12)


def test_the_order_of_the_goals_joints_does_not_matter() -> None:
    bench = Bench()
    bench.send(goal(trajectory([1.0], [[3.0, 1.0, 2.0]], names=("wrist", "shoulder", "elbow"))))
    bench.tick(101)
    assert_allclose(bench.command, [1.0, 2.0, 3.0])
    assert np.isnan(bench.commanded.joint_position[0]), "the joint that is not the controller's"


def test_a_first_point_at_time_zero_is_taken_at_once() -> None:
    bench = Bench()
    bench.send(goal(trajectory([0.0, 1.0], [[0.5, 0.0, 0.0], [1.5, 0.0, 0.0]])))
    bench.tick()
    assert_allclose(bench.command[0], 0.5)
    bench.tick(50)
    assert_allclose(bench.command[0], 1.0)


def test_a_single_point_is_a_way_from_here_to_there() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.5], [[1.0, 1.0, 1.0]])))
    bench.tick(26)
    assert_allclose(bench.command, 0.5)
    bench.run(port)
    assert port.outcome == "succeeded"
    assert_allclose(bench.position, 1.0)


def test_a_single_point_at_time_zero_is_a_step() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.0], [[0.25, 0.0, 0.0]])))
    bench.tick()
    assert_allclose(bench.command, [0.25, 0.0, 0.0])
    bench.tick()
    assert port.outcome == "succeeded"


def test_a_stamp_in_the_future_waits_where_it_is() -> None:
    bench = Bench(start=(0.5, 0.0, 0.0))
    begin = bench.now + TICK + S
    port = bench.send(goal(trajectory([1.0], [[1.5, 0.0, 0.0]], stamp_ns=begin)))
    bench.tick(100)
    assert_allclose(bench.command, [0.5, 0.0, 0.0])
    assert not bench.velocity_command.any()
    bench.tick()
    assert bench.now == begin
    assert port.fed_back[0].time_from_start_ns == -S
    bench.tick(50)
    assert_allclose(bench.command[0], 1.0)
    bench.run(port)
    assert port.outcome == "succeeded"


def test_what_waits_begins_from_rest_though_it_moved_before() -> None:
    bench = Bench()
    bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(51)
    where = bench.position
    bench.send(goal(trajectory([1.0], [where], [[0.0] * 3], stamp_ns=bench.now + TICK + S)))
    for _ in range(202):
        bench.tick()
        assert_allclose(bench.position, where, atol=1e-12)


def test_a_stamp_in_the_past_joins_the_trajectory_where_it_should_be() -> None:
    bench = Bench()
    sample = trajectory(
        [0.0, 1.0, 2.0], [[0.0] * 3, [1.0] * 3, [3.0] * 3], stamp_ns=bench.now + TICK - 3 * S // 2
    )
    port = bench.send(goal(sample))
    bench.tick()
    assert_allclose(bench.command, 2.0)
    assert port.fed_back[0].index == 2
    bench.run(port)
    assert bench.now == sample.stamp_ns + 2 * S + TICK


def test_a_stamp_in_the_past_whose_first_point_is_ahead_goes_there_from_here() -> None:
    bench = Bench()
    bench.send(goal(trajectory([2.0], [[1.0] * 3], stamp_ns=bench.now + TICK - S)))
    bench.tick(51)
    assert_allclose(bench.command, 0.5)


def test_efforts_are_fed_forward_and_taken_back_when_a_goal_is_given_up() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3], efforts=[[2.0, 0.0, -2.0]])))
    bench.tick(51)
    assert_allclose(bench.commanded.joint_effort[bench.rows], [1.0, 0.0, -1.0])
    bench.group.cancel(0, port)
    bench.tick()
    assert_allclose(bench.commanded.joint_effort[bench.rows], 0.0)


def test_efforts_do_not_outlive_the_next_trajectory_that_has_none() -> None:
    bench = Bench()
    bench.run(bench.send(goal(trajectory([0.1], [[1.0] * 3], efforts=[[2.0, 0.0, -2.0]]))))
    assert_allclose(bench.commanded.joint_effort[bench.rows], [2.0, 0.0, -2.0])
    bench.send(goal(trajectory([1.0], [[0.0] * 3])))
    bench.tick()
    assert_allclose(bench.commanded.joint_effort[bench.rows], 0.0)
    bench.tick()
    assert np.isnan(bench.commanded.joint_effort).all()


def test_without_efforts_none_are_commanded() -> None:
    bench = Bench()
    bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(200)
    assert np.isnan(bench.commanded.joint_effort).all()


# --- The end ------------------------------------------------------------------------------------------------------


def test_success_holds_the_last_point_and_stops() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3])))
    bench.run(port)
    assert (port.outcome, port.code, port.text) == ("succeeded", 0, "goal reached")
    assert_allclose(bench.command, 1.0)
    assert_allclose(bench.velocity_command, 0.0)
    assert not bench.group.busy
    bench.tick()
    assert np.isnan(bench.commanded.joint_position).all(), "a command holds until it is replaced"
    assert_allclose(bench.position, 1.0)


def test_a_goal_is_reached_only_when_the_joints_stand_still() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3])))
    bench.tick(11)
    assert bench.now == 100 * S + TICK + 100 * MS
    assert abs(bench.state.joint_velocity[bench.rows]).min() > 1.0
    assert port.outcome == "in progress"
    bench.tick()
    assert port.outcome == "succeeded"


def test_the_stopped_velocity_is_a_parameter_that_holds_from_the_next_goal_on() -> None:
    bench = Bench(stopped_velocity_tolerance=20.0)
    bench.group.set_parameter(0, "stopped_velocity_tolerance", 5.0)
    first = bench.send(goal(trajectory([0.1], [[1.0] * 3])))
    bench.group.set_parameter(0, "stopped_velocity_tolerance", 20.0)
    bench.tick(11)
    assert first.outcome == "in progress"
    bench.run(first)
    second = bench.send(goal(trajectory([0.1], [[0.0] * 3])))
    bench.tick(11)
    assert second.outcome == "succeeded"


def test_a_stopped_velocity_of_zero_is_not_checked() -> None:
    bench = Bench(stopped_velocity_tolerance=0.0)
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3])))
    bench.tick(11)
    assert port.outcome == "succeeded"


# --- Who ends what ------------------------------------------------------------------------------------------------


def test_a_new_goal_ends_the_old_one_aborted_as_preempted() -> None:
    bench = Bench()
    old = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(31)
    new = bench.send(goal(trajectory([1.0], [[0.0] * 3])))
    assert (old.outcome, old.code) == ("aborted", INVALID_GOAL)
    assert "preempted" in old.text
    bench.run(new)
    assert new.outcome == "succeeded"
    assert_allclose(bench.position, 0.0)


def test_a_new_goal_goes_on_from_the_measured_state_without_a_jerk() -> None:
    bench = Bench()
    bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(51)
    before = bench.command
    bench.send(goal(trajectory([0.5], [[1.0] * 3], [[0.0] * 3])))
    bench.tick()
    # One more tick at about the speed it had: neither a stop nor a jump.
    assert_allclose(bench.command - before, 0.01, rtol=0.05)
    assert_allclose(bench.velocity_command, 1.0, rtol=0.1)


def test_a_goal_after_a_rest_takes_its_time_however_old_the_state_is() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(51)
    bench.group.cancel(0, port)
    frozen = bench.state
    bench.tick()
    bench.now += 10 * S
    bench.state = frozen
    bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick()
    assert_allclose(bench.command, 0.5)


def test_of_two_goals_in_one_tick_the_last_is_followed() -> None:
    bench = Bench()
    first, second = (bench.send(goal(trajectory([0.1], [[x] * 3]))) for x in (1.0, 2.0))
    assert first.outcome == "aborted"
    bench.run(second)
    assert_allclose(bench.position, 2.0)


def test_a_cancel_ends_canceled_and_holds_the_current_position() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(31)
    where = bench.position
    bench.stuck = set()
    bench.group.cancel(0, port)
    assert (port.outcome, port.code) == ("canceled", 0)
    assert bench.group.busy
    bench.tick()
    assert_allclose(bench.command, where)
    assert_allclose(bench.velocity_command, 0.0)
    assert not bench.group.busy


def test_a_cancel_before_the_first_tick_holds() -> None:
    bench = Bench(start=(0.1, 0.2, 0.3))
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.group.cancel(0, port)
    assert port.outcome == "canceled"
    bench.tick()
    assert_allclose(bench.command, [0.1, 0.2, 0.3])


def test_a_cancel_of_a_goal_that_ended_is_ignored() -> None:
    bench = Bench()
    old = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    new = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick()
    bench.group.cancel(0, old)
    assert (old.outcome, new.outcome) == ("aborted", "in progress")
    bench.run(new)
    bench.group.cancel(0, new)
    assert new.outcome == "succeeded"
    assert not bench.group.busy


def test_deactivation_aborts_and_holds_the_current_position() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(31)
    where = bench.position
    bench.group.set_active(0, False, time_ns=bench.now, state=bench.state)
    assert (port.outcome, port.code) == ("aborted", INVALID_GOAL)
    assert "deactivated" in port.text
    bench.tick()
    assert_allclose(bench.command, where)
    assert_allclose(bench.velocity_command, 0.0)
    assert not bench.group.busy


def test_an_idle_controller_that_is_deactivated_commands_nothing() -> None:
    bench = Bench()
    bench.group.set_active(0, False, time_ns=bench.now, state=None)
    assert not bench.group.busy


def test_activation_holds_the_current_position() -> None:
    bench = Bench(start=(0.1, 0.2, 0.3))
    bench.group.set_active(0, False, time_ns=bench.now, state=bench.state)
    bench.group.set_active(0, True, time_ns=bench.now, state=bench.state)
    bench.tick()
    assert_allclose(bench.command, [0.1, 0.2, 0.3])
    bench.run(bench.send(goal(trajectory([0.1], [[1.0] * 3]))))


def test_a_goal_for_an_inactive_controller_ends_aborted() -> None:
    bench = Bench()
    bench.group.set_active(0, False, time_ns=bench.now, state=bench.state)
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    assert (port.outcome, port.text) == ("aborted", "the controller is not active")


def test_a_goal_that_was_not_checked_ends_aborted_and_disturbs_nothing() -> None:
    bench = Bench()
    good = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick()
    bad = Port()
    gripper = GripperGoal(names=(), position=np.zeros(1), velocity=np.zeros(0), effort=np.zeros(0))
    bench.group.start(0, gripper, bad, time_ns=bench.now, state=bench.state)
    assert (bad.outcome, bad.code) == ("aborted", INVALID_GOAL)
    assert good.outcome == "in progress"


def test_a_reset_aborts_and_commands_nothing() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(31)
    bench.group.reset()
    assert (port.outcome, port.code) == ("aborted", INVALID_GOAL)
    assert not bench.group.busy
    bench.now = 0
    bench.tick()
    assert np.isnan(bench.commanded.joint_position).all()
    bench.group.set_active(0, False, time_ns=bench.now, state=bench.state)
    assert not bench.group.busy, "there is nothing left to hold"
    bench.group.set_active(0, True, time_ns=bench.now, state=bench.state)
    assert bench.send(goal(trajectory([0.1], [[1.0] * 3]))).outcome == "in progress"


def test_a_goal_sent_when_another_ends_is_followed() -> None:
    """The client answers a result with the next goal, from within."""
    bench = Bench()

    class Chain(Port):
        def finish(self, outcome: object, result: object) -> None:
            super().finish(outcome, result)  # type: ignore[arg-type]
            bench.group.start(
                0, goal(trajectory([0.1], [[2.0] * 3])), second, time_ns=bench.now, state=bench.state
            )

    first, second = Chain(), Port()
    bench.group.start(0, goal(trajectory([0.1], [[1.0] * 3])), first, time_ns=bench.now, state=bench.state)
    while not first.ends:
        bench.tick()
    bench.tick()
    assert_allclose(bench.command, 1.0, err_msg="the next one has yet to begin")
    bench.run(second)
    assert (first.outcome, second.outcome) == ("succeeded", "succeeded")
    assert_allclose(bench.position, 2.0)


def test_a_client_that_answers_preemption_with_another_goal_preempts_in_turn() -> None:
    bench = Bench()
    last = Port()

    class Stubborn(Port):
        def finish(self, outcome: object, result: object) -> None:
            super().finish(outcome, result)  # type: ignore[arg-type]
            bench.group.start(
                0, goal(trajectory([0.1], [[3.0] * 3])), last, time_ns=bench.now, state=bench.state
            )

    first = Stubborn()
    bench.group.start(0, goal(trajectory([1.0], [[1.0] * 3])), first, time_ns=bench.now, state=bench.state)
    bench.tick()
    second = bench.send(goal(trajectory([1.0], [[2.0] * 3])))
    bench.run(last)
    assert [port.outcome for port in (first, second, last)] == ["aborted", "aborted", "succeeded"]
    assert_allclose(bench.position, 3.0)


# --- The topic ----------------------------------------------------------------------------------------------------


def test_a_trajectory_on_the_topic_is_followed_to_its_end() -> None:
    bench = Bench()
    bench.receive(trajectory([0.5, 1.0], [[1.0] * 3, [2.0] * 3]))
    assert bench.group.busy
    bench.tick(101)
    assert_allclose(bench.command, 2.0)
    assert_allclose(bench.velocity_command, 0.0)
    assert not bench.group.busy
    assert bench.reports == []


def test_an_empty_trajectory_on_the_topic_is_ignored_with_an_error() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.5], [[1.0] * 3])))
    bench.tick()
    bench.receive(trajectory([], []))
    assert bench.reports == [
        (
            "joint_trajectory.ignored:/arm/controller",
            "/arm/controller: a trajectory was ignored: the trajectory has no points",
        )
    ]
    bench.run(port)
    assert port.outcome == "succeeded"


@each_case(
    ("sample", "reason"),
    [
        (trajectory([1.0], [[1.0]], names=("elbow",)), "'shoulder' is missing"),
        (trajectory([1.0], [[np.nan] * 3]), "is nan"),
        (trajectory([1.0], [[0.0] * 3], stamp_ns=S), "ended"),
        ("text", "'str' is no JointTrajectory"),
    ],
)
def test_a_faulty_trajectory_on_the_topic_is_ignored_with_an_error(sample: object, reason: str) -> None:
    bench = Bench()
    bench.receive(sample)
    assert reason in bench.reports[0][1]
    assert not bench.group.busy


def test_a_trajectory_on_the_topic_preempts_a_goal() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(31)
    bench.receive(trajectory([0.1], [[0.0] * 3]))
    assert (port.outcome, port.code) == ("aborted", INVALID_GOAL)
    assert "preempted" in port.text
    bench.tick(30)
    assert_allclose(bench.position, 0.0)


def test_a_goal_preempts_a_trajectory_on_the_topic() -> None:
    bench = Bench()
    bench.receive(trajectory([1.0], [[1.0] * 3]))
    bench.tick(31)
    bench.run(bench.send(goal(trajectory([0.1], [[0.0] * 3]))))
    assert_allclose(bench.position, 0.0)
    assert bench.reports == []


# --- Idleness -----------------------------------------------------------------------------------------------------


def test_an_idle_controller_is_not_busy_and_commands_nothing() -> None:
    bench = Bench()
    assert not bench.group.busy
    bench.tick(3)
    assert np.isnan(bench.commanded.joint_position).all()
    assert np.isnan(bench.commanded.joint_velocity).all()


def test_a_goal_makes_it_busy_until_it_ends() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.2], [[1.0] * 3])))
    while not port.ends:
        assert bench.group.busy
        bench.tick()
    assert not bench.group.busy


# --- Feedback -----------------------------------------------------------------------------------------------------


def test_feedback_comes_at_the_monitor_rate_on_bridge_time() -> None:
    bench = Bench(action_monitor_rate=10.0)
    port = bench.send(goal(trajectory([2.0], [[1.0] * 3])))
    bench.tick(101)
    assert np.diff([f.stamp_ns for f in port.fed_back]).tolist() == [100 * MS] * 10


def test_feedback_comes_at_20_hz_by_default() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([2.0], [[1.0] * 3])))
    bench.tick(101)
    assert np.diff([f.stamp_ns for f in port.fed_back]).tolist() == [50 * MS] * 20


@each_case(("rate", "count"), [(1e-300, 1), (0.0, 3), (1e12, 11)])
def test_a_monitor_rate_that_makes_no_sense_disturbs_nothing(rate: float, count: int) -> None:
    bench = Bench(action_monitor_rate=rate)
    port = bench.send(goal(trajectory([2.0], [[1.0] * 3])))
    bench.tick(11)
    assert len(port.fed_back) == count


@each_case("seed", range(3))
@each_case("rate", [20.0, 19.0, 21.0, 10.0])
def test_feedback_keeps_its_rate_next_to_that_of_the_clock(rate: float, seed: int) -> None:
    """A clock of 20 Hz whose stamps are off by up to 2 ms: those before a deadline serve it."""
    bench = Bench(action_monitor_rate=rate)
    bench.clock_period_ns = 50 * MS
    port = bench.send(goal(trajectory([10.0], [[1.0] * 3])))
    jitter = np.random.default_rng(seed).integers(-2 * MS, 2 * MS, 181)
    stamps = 50 * MS * np.arange(181) + jitter
    bench.tick_after([TICK, *np.diff(stamps).tolist()])
    expected = 9.0 * min(rate, 20.0)
    assert abs(len(port.fed_back) - expected) <= 3, len(port.fed_back)
    assert len({f.stamp_ns for f in port.fed_back}) == len(port.fed_back)


def test_feedback_says_where_it_should_be_and_is() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0, 2.0], [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])))
    bench.stuck = {bench.rows[1]}
    bench.true_position[bench.rows[1]] = 0.25
    bench.tick(101 + 50)
    last = port.fed_back[-1]
    assert last.joint_names == JOINTS
    assert last.stamp_ns == bench.now
    assert last.time_from_start_ns == 1500 * MS
    assert last.index == 1
    assert_allclose(last.desired, [[1.5, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-12)
    assert_allclose(last.actual[:2], [[1.5, 0.25, 0.0], [1.0, 0.0, 0.0]], atol=1e-9)
    assert_allclose(last.error[:2], [[0.0, -0.25, 0.0], [0.0, 0.0, 0.0]], atol=1e-9)
    assert np.isnan(last.actual[2]).all()
    assert port.fed_back[3].index == 0


def test_what_was_fed_back_does_not_change_later() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(6)
    kept = port.fed_back[-1].actual.copy()
    bench.tick(20)
    index = next(i for i, f in enumerate(port.fed_back) if np.array_equal(f.actual, kept, equal_nan=True))
    assert index == 1


# --- Limits -------------------------------------------------------------------------------------------------------


def limited(beyond: BeyondLimits, **parameters: Any) -> Bench:
    """Returns a bench whose shoulder has limits, and whose wrist has a lower one above the upper one."""
    plan = arm(**parameters)
    layout = plan.layout
    lower, upper = layout.lower.copy(), layout.upper.copy()
    shoulder, elbow, wrist = plan.controllers[0].dofs
    lower[[shoulder, elbow, wrist]] = (-1.0, -np.inf, 1.0)
    upper[[shoulder, elbow, wrist]] = (2.967, np.inf, -1.0)
    return Bench(
        replace(
            plan,
            layout=replace(layout, lower=lower, upper=upper),
            options=PlanOptions(beyond_limits=beyond),
        )
    )


@each_case(
    ("position", "words"),
    [
        (9.5, "the position of joint 'shoulder' in point 1 is 9.5, beyond its upper limit 2.967"),
        (-1.0011, "the position of joint 'shoulder' in point 1 is -1.0011, beyond its lower limit -1"),
        (2.9679, ""),
        (-1.0009, ""),
    ],
)
def test_a_point_beyond_a_limit_rejects_the_goal(position: float, words: str) -> None:
    bench = limited("reject")
    wanted = goal(trajectory([1.0, 2.0], [[0.5, 9.5, 9.5], [position, 9.5, 9.5]]))
    assert bench.group.check(0, wanted, time_ns=bench.now) == words


def test_a_trajectory_beyond_a_limit_is_ignored_and_the_limit_named() -> None:
    bench = limited("reject")
    bench.receive(trajectory([1.0], [[9.5, 0.0, 0.0]]))
    bench.tick(3)
    assert np.isnan(bench.command).all()
    ((kind, message),) = bench.reports
    assert kind == "joint_trajectory.ignored:/arm/controller"
    assert "'shoulder' in point 0 is 9.5, beyond its upper limit 2.967" in message


def test_a_goal_beyond_a_limit_is_clamped_and_the_result_says_so() -> None:
    bench = limited("clamp")
    points = [[9.5, 1.0, 0.0], [1.0, 1.0, 0.0]]
    speeds = [[3.0, 0.5, 0.0], [0.0, 0.0, 0.0]]
    port = bench.send(goal(trajectory([1.0, 2.0], points, speeds)))
    highest = 0.0
    while not port.ends:
        bench.tick()
        if not port.ends:
            highest = max(highest, float(bench.command[0]))
    assert (port.outcome, port.code) == ("succeeded", 0)
    words = "clamped: the position of joint 'shoulder' in point 0 is 9.5, beyond its upper limit 2.967"
    assert port.text == f"goal reached; {words}"
    assert bench.reports == [("joint_trajectory.clamped:/arm/controller", f"/arm/controller: {words}")]
    assert highest == pytest.approx(2.967, abs=1e-9)
    assert_allclose(bench.position, points[1])


def test_a_trajectory_on_the_topic_is_clamped_with_a_report() -> None:
    bench = limited("clamp")
    bench.receive(trajectory([0.5], [[-9.5, 0.0, 0.0]]))
    bench.tick(60)
    assert_allclose(bench.position, [-1.0, 0.0, 0.0])
    assert [kind for kind, _ in bench.reports] == ["joint_trajectory.clamped:/arm/controller"]


def test_what_the_asset_says_of_one_controller_counts() -> None:
    beyond = goal(trajectory([1.0], [[9.5, 0.0, 0.0]]))
    cases: list[tuple[BeyondLimits, str, bool]] = [
        ("reject", "clamp", False),
        ("clamp", "reject", True),
        ("clamp", "", False),
    ]
    for parameter, asset, rejected in cases:
        bench = limited(parameter, beyond_limits=asset)
        assert bool(bench.group.check(0, beyond, time_ns=bench.now)) is rejected

"""What goes wrong on the way and at the goal: tolerances, time-outs, joints that turn, states that are not known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from trajectory_bench import MS, TICK, Bench, S, arm, goal, trajectory

from usd_ros_bridge.model.goals import JointTolerance

INVALID_GOAL, PATH_TOLERANCE_VIOLATED, GOAL_TOLERANCE_VIOLATED = -1, -4, -5
ELBOW = 1


def stick(bench: Bench, joint: int = ELBOW) -> None:
    bench.stuck = {int(bench.rows[joint])}


# --- On the way -----------------------------------------------------------------------------------------------------


def test_without_path_tolerances_nothing_on_the_way_aborts() -> None:
    bench = Bench()
    stick(bench)
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(100)
    assert port.outcome == "in progress"


def test_a_path_violation_aborts_names_joint_value_and_limit_and_holds() -> None:
    bench = Bench()
    stick(bench)
    port = bench.send(
        goal(trajectory([1.0], [[1.0] * 3]), path=[JointTolerance(name="elbow", position=0.305)])
    )
    bench.run(port)
    assert (port.outcome, port.code) == ("aborted", PATH_TOLERANCE_VIOLATED)
    assert (
        port.text == "path tolerance violated: the position error of joint 'elbow' is 0.31, the limit 0.305"
    )
    where = bench.position
    bench.tick()
    assert_allclose(bench.command, where)
    assert_allclose(bench.velocity_command, 0.0)
    assert not bench.group.busy


def test_path_tolerances_are_each_joints_own() -> None:
    bench = Bench()
    stick(bench)
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3]), path=[JointTolerance(name="wrist", position=0.1)]))
    bench.tick(100)
    assert port.outcome == "in progress"


def test_path_tolerances_hold_for_velocities() -> None:
    bench = Bench()
    stick(bench)
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3]), path=[JointTolerance(name="elbow", velocity=0.5)]))
    bench.run(port)
    assert port.code == PATH_TOLERANCE_VIOLATED
    assert "the velocity error of joint 'elbow' is 1, the limit 0.5" in port.text


def test_a_first_step_beyond_the_path_tolerance_aborts_though_it_is_the_last_point() -> None:
    bench = Bench()
    stick(bench)
    port = bench.send(goal(trajectory([0.0], [[1.0] * 3]), path=[JointTolerance(name="elbow", position=0.1)]))
    bench.tick()
    assert (port.outcome, port.code) == ("aborted", PATH_TOLERANCE_VIOLATED)


def test_after_the_last_point_the_path_tolerance_does_not_count() -> None:
    bench = Bench()
    port = bench.send(
        goal(
            trajectory([0.1], [[1.0] * 3]),
            path=[JointTolerance(name="elbow", position=0.1)],
            end=[JointTolerance(name="elbow", position=0.01)],
        )
    )
    bench.tick(10)
    stick(bench)
    bench.true_position[bench.rows[ELBOW]] = 0.5
    bench.tick(50)
    assert port.outcome == "in progress"


def test_illegal_tolerances_are_reported_and_the_defaults_hold() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3]), path=[JointTolerance(name="thumb", position=0.1)]))
    assert bench.reports[0][0] == "joint_trajectory.tolerances:/arm/controller"
    assert "'thumb'" in bench.reports[0][1]
    bench.run(port)
    assert port.outcome == "succeeded"


# --- At the goal ------------------------------------------------------------------------------------------------------


def test_without_a_goal_time_it_waits_for_the_goal_without_end() -> None:
    bench = Bench()
    stick(bench)
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3]), end=[JointTolerance(name="elbow", position=0.1)]))
    bench.tick(1000)
    assert port.outcome == "in progress"
    assert_allclose(bench.command, 1.0)
    bench.stuck = set()
    bench.tick(2)
    assert port.outcome == "succeeded"


def test_without_goal_tolerances_a_goal_that_stands_still_elsewhere_is_reached() -> None:
    bench = Bench()
    stick(bench)
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3])))
    bench.run(port)
    assert port.outcome == "succeeded"


def test_a_goal_missed_for_longer_than_the_goal_time_aborts_and_holds() -> None:
    bench = Bench()
    stick(bench)
    end = [JointTolerance(name="elbow", position=0.1)]
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3]), end=end, goal_time=0.5))
    begin = bench.now + TICK
    bench.run(port)
    assert bench.now == begin + 100 * MS + 500 * MS + TICK
    assert (port.outcome, port.code) == ("aborted", GOAL_TOLERANCE_VIOLATED)
    assert port.text == (
        "goal tolerance violated 0.51 s after the last point: "
        "the position error of joint 'elbow' is 1, the limit 0.1"
    )
    bench.tick()
    assert_allclose(bench.command, [1.0, 0.0, 1.0])
    assert not bench.group.busy


def test_a_goal_reached_within_the_goal_time_succeeds() -> None:
    bench = Bench()
    stick(bench)
    end = [JointTolerance(name="elbow", position=0.1)]
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3]), end=end, goal_time=0.5))
    bench.tick(40)
    bench.stuck = set()
    bench.run(port)
    assert port.outcome == "succeeded"


def test_goal_tolerances_hold_for_velocities() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3]), end=[JointTolerance(name="elbow", velocity=-1.0)]))
    bench.tick(11)
    assert port.outcome == "in progress", "the others have the default"
    fast = [JointTolerance(name=name, velocity=20.0) for name in ("shoulder", "elbow", "wrist")]
    bench.run(port)
    port = bench.send(goal(trajectory([0.1], [[0.0] * 3]), end=fast))
    bench.tick(11)
    assert port.outcome == "succeeded"


@pytest.mark.parametrize(
    ("goal_time", "timeout", "ended"),
    [(0.0, 0.0, False), (0.5, 0.0, True), (0.0, 0.5, True), (0.0, 60.0, False)],
)
def test_joints_that_never_come_to_rest_end_a_goal_by_a_time_alone(
    goal_time: float, timeout: float, ended: bool
) -> None:
    """As in joint_trajectory_controller: there is no stall, unlike with grippers."""
    bench = Bench(timeout=timeout)
    near = [JointTolerance(name="elbow", position=0.01)]
    port = bench.send(goal(trajectory([0.1], [[0.0] * 3]), end=near, goal_time=goal_time))
    elbow = bench.rows[1]
    bench.stuck = {elbow}
    for tick in range(2000):
        bench.tick()
        bench.true_position[elbow] = 0.05 if tick % 2 else -0.05
    assert (port.outcome, bench.group.busy) == (("aborted", False) if ended else ("in progress", True))


# --- Time-outs ----------------------------------------------------------------------------------------------------


def test_the_timeout_aborts_a_goal_that_takes_longer_and_holds() -> None:
    bench = Bench(timeout=0.3)
    begin = bench.now + TICK
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.run(port)
    assert bench.now == begin + 300 * MS + TICK
    assert (port.outcome, port.code) == ("aborted", GOAL_TOLERANCE_VIOLATED)
    assert "0.3 s" in port.text
    where = bench.position
    bench.tick()
    assert_allclose(bench.command, where)


def test_the_timeout_counts_from_the_start_of_a_trajectory_that_waits() -> None:
    bench = Bench(timeout=0.3)
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3], stamp_ns=bench.now + S)))
    bench.run(port)
    assert port.outcome == "succeeded"


def test_the_timeout_says_what_is_missing_at_the_goal() -> None:
    bench = Bench(timeout=0.3)
    stick(bench)
    port = bench.send(goal(trajectory([0.1], [[1.0] * 3]), end=[JointTolerance(name="elbow", position=0.1)]))
    bench.run(port)
    assert port.code == GOAL_TOLERANCE_VIOLATED
    assert "'elbow'" in port.text


def test_the_timeout_is_a_parameter_that_holds_at_once() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([10.0], [[1.0] * 3])))
    bench.tick(100)
    bench.group.set_parameter(0, "timeout", 0.5)
    bench.tick()
    assert port.code == GOAL_TOLERANCE_VIOLATED
    bench.group.set_parameter(0, "timeout", 0.0)
    port = bench.send(goal(trajectory([10.0], [[1.0] * 3])))
    bench.tick(900)
    assert port.outcome == "in progress"


def test_a_trajectory_on_the_topic_that_takes_too_long_is_reported_and_held() -> None:
    bench = Bench(timeout=0.3)
    bench.receive(trajectory([1.0], [[1.0] * 3]))
    bench.tick(40)
    assert [kind for kind, _ in bench.reports] == ["joint_trajectory.held:/arm/controller"]
    assert "timeout" in bench.reports[0][1]
    assert_allclose(bench.position, 0.31)
    assert not bench.group.busy


# --- Joints that turn -----------------------------------------------------------------------------------------------

TURN = 2.0 * math.pi


def turning(**start: float) -> Bench:
    """Returns an arm whose elbow turns without limits."""
    return Bench(arm(("revolute", "continuous", "revolute")), start=(0.0, start["elbow"], 0.0))


def commands(bench: Bench, ticks: int) -> np.ndarray:
    found = []
    for _ in range(ticks):
        bench.tick()
        found.append(bench.command)
    return np.array(found)


def test_a_continuous_joint_goes_the_short_way() -> None:
    bench = turning(elbow=3.0)
    port = bench.send(goal(trajectory([1.0], [[0.0, -3.0, 0.0]])))
    found = commands(bench, 110)
    assert port.outcome == "succeeded"
    assert_allclose(
        bench.command if not np.isnan(bench.command).any() else bench.position, [0.0, TURN - 3.0, 0.0]
    )
    assert np.nanmax(np.abs(np.diff(found[:, ELBOW]))) < 0.01


def test_a_continuous_joint_that_made_many_turns_goes_on_from_there() -> None:
    bench = turning(elbow=10 * TURN + 0.5)
    port = bench.send(goal(trajectory([1.0], [[0.0, 1.0, 0.0]])))
    bench.run(port)
    assert_allclose(bench.position[ELBOW], 10 * TURN + 1.0)


def test_turns_between_points_are_kept() -> None:
    bench = turning(elbow=4 * TURN)
    sample = trajectory([1.0, 3.0], [[0.0, 0.1, 0.0], [0.0, 0.1 + 2 * TURN, 0.0]])
    port = bench.send(goal(sample))
    found = commands(bench, 310)
    assert port.outcome == "succeeded"
    assert_allclose(bench.position[ELBOW], 6 * TURN + 0.1)
    assert np.nanmax(np.abs(np.diff(found[:, ELBOW]))) < 0.07, "two turns in two seconds, never one in a tick"


def test_a_trajectory_joined_on_its_way_is_shifted_by_where_it_is_joined() -> None:
    bench = turning(elbow=0.0)
    # Half way through two turns: the elbow is where it should be, but for one turn.
    sample = trajectory([0.0, 2.0], [[0.0, 0.0, 0.0], [0.0, 2 * TURN, 0.0]], stamp_ns=bench.now + TICK - S)
    bench.send(goal(sample))
    bench.tick()
    assert_allclose(bench.command[ELBOW], 0.0, atol=1e-9)


def test_other_joints_are_never_shifted() -> None:
    bench = turning(elbow=0.0)
    port = bench.send(goal(trajectory([1.0], [[TURN + 0.5, TURN + 0.5, 4.0]])))
    bench.run(port)
    assert_allclose(bench.position, [TURN + 0.5, 0.5, 4.0])


def test_the_error_of_a_continuous_joint_is_wrapped() -> None:
    bench = turning(elbow=0.0)
    tight = [JointTolerance(name=name, position=0.01) for name in ("shoulder", "elbow", "wrist")]
    port = bench.send(goal(trajectory([1.0], [[0.0, 1.0, 0.0]]), path=tight, end=tight))
    bench.tick(50)
    # A measuring system that counts from elsewhere: a whole turn is no error.
    bench.stuck = {int(bench.rows[ELBOW])}
    bench.true_position[bench.rows[ELBOW]] = 0.5 - TURN
    bench.tick()
    assert port.outcome == "in progress"
    bench.true_position[bench.rows[0]] += TURN
    bench.stuck.add(int(bench.rows[0]))
    bench.tick()
    assert port.code == PATH_TOLERANCE_VIOLATED
    assert "'shoulder'" in port.text


# --- States that are not known ----------------------------------------------------------------------------------------


def test_a_goal_is_aborted_where_the_position_is_not_known() -> None:
    bench = Bench()
    bench.unmeasured = {int(bench.rows[ELBOW])}
    bench.tick()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick()
    assert (port.outcome, port.code) == ("aborted", INVALID_GOAL)
    assert port.text == "the position of joint 'elbow' is nan, not known"
    assert not bench.group.busy


def test_a_position_that_is_lost_on_the_way_aborts_holds_the_others_and_stops() -> None:
    bench = Bench()
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick(31)
    bench.unmeasured = {int(bench.rows[ELBOW])}
    bench.tick()
    assert (port.outcome, port.code) == ("aborted", PATH_TOLERANCE_VIOLATED)
    assert "'elbow' is nan" in port.text
    bench.tick()
    assert_allclose(bench.command, [0.31, np.nan, 0.31])
    assert_allclose(bench.velocity_command, 0.0)


def test_a_robot_that_nothing_is_known_of_aborts() -> None:
    bench = Bench()
    bench.state.robot_time_ns = np.array([-1], dtype=np.int64)
    port = bench.send(goal(trajectory([1.0], [[1.0] * 3])))
    bench.tick()
    assert port.text == "the robot's state is not known"


def test_an_unknown_velocity_counts_as_standing_still() -> None:
    bench = Bench()
    bench.state.joint_velocity[:] = np.nan
    bench.send(goal(trajectory([1.0], [[1.0] * 3], [[0.0] * 3])))
    bench.tick(51)
    assert_allclose(bench.command, 0.5)


@pytest.mark.parametrize("parameters", [{}, {"timeout": None, "stopped_velocity_tolerance": None}])
def test_what_the_asset_does_not_say_has_defaults(parameters: dict[str, None]) -> None:
    bench = Bench(action_monitor_rate=None, **parameters)
    port = bench.send(goal(trajectory([0.2], [[1.0] * 3])))
    bench.run(port)
    assert port.outcome == "succeeded"
    assert len(port.fed_back) == 5

"""Acceptance and rejection of trajectories, rule by rule, and whatever garbage hypothesis thinks of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.testing import assert_array_equal
from trajectory_bench import JOINTS, TICK, Bench, S, goal, trajectory

from case_tables import each_case
from usd_ros_bridge.controllers.joint_commands import BOUND
from usd_ros_bridge.controllers.trajectory.goal import read_goal
from usd_ros_bridge.model.goals import FollowTrajectoryGoal, GripperGoal, JointTolerance, TrajectorySample

NOW = 50 * S
P2 = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]
V2 = [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]


def why(sample: TrajectorySample, **fields: Any) -> str:
    """Returns why a controller of shoulder, elbow and wrist rejects a goal at NOW."""
    return Bench().group.check(0, replace(goal(sample), **fields), time_ns=NOW)


def test_a_well_formed_goal_is_accepted() -> None:
    assert why(trajectory([1.0, 2.0], P2)) == ""
    assert why(trajectory([1.0, 2.0], P2, V2)) == ""
    assert why(trajectory([1.0, 2.0], P2, V2, V2, V2)) == ""
    assert why(trajectory([0.0], P2[:1])) == ""


def test_points_are_put_into_the_controllers_order() -> None:
    sample = trajectory(
        [1.0], [[1, 2, 3]], [[0, 0, 0]], [[4, 5, 6]], [[7, 8, 9]], names=("wrist", "shoulder", "elbow")
    )
    knots = read_goal(goal(sample), JOINTS, time_ns=NOW)
    assert_array_equal(knots.position, [[2, 3, 1]])
    assert_array_equal(knots.acceleration, [[5, 6, 4]])
    assert knots.effort is not None
    assert_array_equal(knots.effort, [[8, 9, 7]])


def test_empty_joint_names_are_rejected() -> None:
    assert why(trajectory([1.0], [[]], names=())) == "no joint names"


def test_unknown_joints_are_rejected() -> None:
    reason = why(trajectory([1.0], [[0, 0, 0]], names=("shoulder", "elbow", "thumb")))
    assert reason == "joint 'thumb' is none of the controller's; there are: elbow, shoulder, wrist"
    assert "'spare'" in why(trajectory([1.0], [[0] * 4], names=(*JOINTS, "spare")))


def test_partial_joints_are_rejected() -> None:
    assert "'elbow' is missing" in why(trajectory([1.0], [[0, 0]], names=("shoulder", "wrist")))


def test_joints_named_twice_are_rejected() -> None:
    assert why(trajectory([1.0], [[0] * 4], names=(*JOINTS, "elbow"))) == "joint 'elbow' is named twice"
    assert "'wrist' is named twice" in why(trajectory([1.0], [[0] * 3], names=("shoulder", "wrist", "wrist")))


def test_empty_points_are_rejected() -> None:
    assert why(trajectory([], [])) == "the trajectory has no points"


def test_missing_positions_are_rejected() -> None:
    sample = replace(trajectory([1.0, 2.0], P2, V2), positions=(np.zeros(3), np.zeros(0)))
    assert why(sample) == "point 1 has no positions"


@each_case("field", ["positions", "velocities", "accelerations", "efforts"])
@each_case("length", [1, 2, 4])
def test_fields_of_wrong_length_are_rejected(field: str, length: int) -> None:
    sample = replace(trajectory([1.0, 2.0], P2, V2), **{field: (np.zeros(3), np.zeros(length))})
    assert why(sample) == f"point 1 has {length} {field} for 3 joints"


def test_wrong_lengths_that_add_up_are_rejected() -> None:
    sample = replace(trajectory([1.0, 2.0], P2), positions=(np.zeros(2), np.zeros(4)))
    assert why(sample) == "point 0 has 2 positions for 3 joints"


@each_case("field", ["velocities", "accelerations", "efforts"])
def test_points_may_disagree_about_what_they_give(field: str) -> None:
    sample = replace(trajectory([1.0, 2.0], P2), **{field: (np.ones(3), np.zeros(0))})
    assert why(sample) == ""


@each_case("field", ["positions", "velocities", "accelerations", "efforts"])
@each_case("value", [math.nan, math.inf, -math.inf, 1e31])
def test_numbers_that_no_joint_can_take_are_rejected(field: str, value: float) -> None:
    rows = (np.array([0.0, 0.0, value]), np.zeros(3))
    reason = why(replace(trajectory([1.0, 2.0], P2, V2), **{field: rows}))
    assert reason == f"{field} of joint 'wrist' in point 0 is {value:g}, no number that can be followed"


@each_case("times", [[1.0, 1.0], [2.0, 1.0], [0.0, 0.0]])
def test_times_that_do_not_strictly_increase_are_rejected(times: list[float]) -> None:
    reason = why(trajectory(times, P2))
    assert "not strictly increasing" in reason
    assert f"{times[1]:g} s at point 1 after {times[0]:g} s" in reason


def test_negative_times_are_rejected() -> None:
    assert why(trajectory([-0.5, 1.0], P2)) == "time_from_start of point 0 is -0.5 s, negative"


def test_an_end_in_the_past_is_rejected_where_the_stamp_is_not_zero() -> None:
    late = trajectory([1.0, 2.0], P2, stamp_ns=NOW - 3 * S)
    assert why(late) == "the trajectory ended 1 s ago (stamp 47.000000000)"
    assert why(trajectory([1.0, 2.0], P2, stamp_ns=NOW - 2 * S)) == ""
    assert why(trajectory([1.0, 2.0], P2, stamp_ns=0)) == ""


def test_a_last_point_that_moves_is_rejected() -> None:
    reason = why(trajectory([1.0, 2.0], P2, [[0, 0, 0], [0, -0.25, 0]]))
    assert reason == "the last point's velocity of joint 'elbow' is -0.25, not zero"
    assert why(trajectory([1.0, 2.0], P2, [[9, 9, 9], [0, 1e-8, 0]])) == ""


def test_joints_with_several_degrees_of_freedom_are_rejected() -> None:
    assert "several degrees of freedom" in why(trajectory([1.0], P2[:1]), multi_dof=True)


def test_goals_of_another_action_are_rejected() -> None:
    gripper = GripperGoal(names=(), position=np.zeros(1), velocity=np.zeros(0), effort=np.zeros(0))
    assert "'GripperGoal'" in Bench().group.check(0, gripper, time_ns=NOW)


def test_reasons_quote_names_safely_and_bounded() -> None:
    reason = why(trajectory([1.0], [[0.0]], names=("\x1b[31m" + "x" * 1000,)))
    assert "\x1b" not in reason
    assert len(reason) < 400


def test_illegal_tolerances_do_not_reject() -> None:
    wish = (JointTolerance(name="thumb", position=math.nan),)
    assert why(trajectory([1.0], P2[:1]), path_tolerance=wish, goal_tolerance=wish) == ""


# --- Whatever ---------------------------------------------------------------------------------------------------------

finite = st.floats(-1e3, 1e3)
anything = st.one_of(st.floats(), finite)
names = st.one_of(st.sampled_from([*JOINTS, "spare", "", "ä\x00"]), st.text(max_size=4))


def arrays(elements: st.SearchStrategy[float], length: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    lists = length.flatmap(lambda n: st.lists(elements, min_size=n, max_size=n))
    return lists.map(lambda values: np.array(values, dtype=np.float64))


@st.composite
def well_formed(draw: DrawFn) -> FollowTrajectoryGoal:
    """Any goal that the rules allow."""
    count = draw(st.integers(1, 6))
    gaps = draw(st.lists(st.integers(1, 10 * S), min_size=count, max_size=count))
    gaps[0] = draw(st.sampled_from([0, gaps[0]]))
    times_ns = np.cumsum(np.array(gaps, dtype=np.int64))

    def rows(empty: bool, last: np.ndarray[Any, Any] | None = None) -> tuple[Any, ...]:
        lengths = st.sampled_from([0, 3]) if empty else st.just(3)
        values = [draw(arrays(finite, lengths)) for _ in range(count)]
        if last is not None and values[-1].size:
            values[-1] = last
        return tuple(values)

    sample = TrajectorySample(
        stamp_ns=draw(st.sampled_from([0, NOW, NOW + S, NOW - int(times_ns[-1])])),
        joint_names=tuple(draw(st.permutations(JOINTS))),
        times_ns=times_ns,
        positions=rows(empty=False),
        velocities=rows(empty=True, last=np.zeros(3)),
        accelerations=rows(empty=True),
        efforts=rows(empty=True),
    )
    return FollowTrajectoryGoal(trajectory=sample)


@st.composite
def garbage(draw: DrawFn) -> FollowTrajectoryGoal:
    """A goal whose fields have nothing to do with one another."""
    lists = st.lists(arrays(anything, st.sampled_from([0, 2, 3, 3, 3])), max_size=4).map(tuple)
    stamps = st.integers(-(2**63), 2**63 - 1)
    tolerances = st.lists(
        st.builds(JointTolerance, name=names, position=anything, velocity=anything, acceleration=anything),
        max_size=3,
    ).map(tuple)
    sample = TrajectorySample(
        stamp_ns=draw(st.one_of(st.just(0), stamps)),
        joint_names=draw(st.one_of(st.just(JOINTS), st.lists(names, max_size=4).map(tuple))),
        times_ns=np.array(draw(st.lists(st.integers(-S, 2**62), max_size=4)), dtype=np.int64),
        positions=draw(lists),
        velocities=draw(lists),
        accelerations=draw(lists),
        efforts=draw(lists),
    )
    return FollowTrajectoryGoal(
        trajectory=sample,
        path_tolerance=draw(tolerances),
        goal_tolerance=draw(tolerances),
        goal_time_tolerance_ns=draw(stamps),
        multi_dof=draw(st.booleans()),
    )


@given(well_formed())
def test_every_well_formed_goal_is_accepted(wish: FollowTrajectoryGoal) -> None:
    assert Bench().group.check(0, wish, time_ns=NOW) == ""


FAULTS: dict[str, st.SearchStrategy[Any]] = {
    "joint_names": st.lists(names, max_size=4)
    .map(tuple)
    .filter(lambda given: sorted(given) != sorted(JOINTS)),
    "times_ns": st.sampled_from([[], [-1], [0, 0], [5, 4], [1, 2, 3, 4, 5, 6, 7]]).map(np.array),
    "positions": st.sampled_from([(), (np.zeros(0),), (np.zeros(2),), (np.array([0.0, math.nan, 0.0]),)]),
    "velocities": st.sampled_from(
        [(np.zeros(1),), (np.array([0.0, 0.1, 0.0]),), (np.array([math.inf] * 3),)]
    ),
    "accelerations": st.sampled_from([(np.zeros(4),), (np.array([math.nan] * 3),)]),
    "efforts": st.sampled_from([(np.zeros(7),), (np.array([2 * BOUND] * 3),)]),
    "stamp_ns": st.integers(-NOW, -1),
}


@given(st.data(), st.sampled_from(sorted(FAULTS)))
def test_every_kind_of_malformed_field_is_rejected_with_a_reason(data: st.DataObject, field: str) -> None:
    count = data.draw(st.integers(1, 3))
    sound = trajectory(list(range(1, count + 1)), [[0.0] * 3] * count, [[0.0] * 3] * count)
    fault = data.draw(FAULTS[field])
    if isinstance(fault, tuple) and field not in ("joint_names", "times_ns"):
        fault = getattr(sound, field)[: count - 1] + fault
    assert why(replace(sound, **{field: fault})) != ""


@given(garbage())
def test_no_goal_raises_and_whatever_is_accepted_ends_once_without_a_command_that_is_not_finite(
    wish: FollowTrajectoryGoal,
) -> None:
    bench = Bench(timeout=0.2)
    reason = bench.group.check(0, wish, time_ns=bench.now + TICK)
    assert isinstance(reason, str)
    bench.receive(wish.trajectory)
    if reason:
        return
    port = bench.send(wish)
    for _ in range(30):
        bench.tick()
        assert np.isfinite(bench.position).all()
        assert not np.isinf(bench.command).any()
    if wish.trajectory.stamp_ns <= bench.now:
        assert len(port.ends) == 1

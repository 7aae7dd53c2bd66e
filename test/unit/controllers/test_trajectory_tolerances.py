"""Tolerances: defaults, what a goal asks for, and what exceeds them."""

from __future__ import annotations

import math

import numpy as np
from numpy.testing import assert_array_equal
from trajectory_bench import JOINTS, S, goal, trajectory

from case_tables import each_case
from usd_ros_bridge.controllers.trajectory.goal import (
    Tolerances,
    default_tolerances,
    resolve_tolerances,
    violation,
)
from usd_ros_bridge.model.goals import FollowTrajectoryGoal, JointTolerance

INF = math.inf


def resolved(asked: FollowTrajectoryGoal, stopped: float = 0.01) -> tuple[Tolerances, str]:
    return resolve_tolerances(default_tolerances(3, stopped), asked, JOINTS)


def asked(
    *, path: tuple[JointTolerance, ...] = (), end: tuple[JointTolerance, ...] = (), time: float = 0.0
) -> FollowTrajectoryGoal:
    return goal(trajectory([1.0], [[0.0] * 3]), path=path, end=end, goal_time=time)


def test_by_default_only_the_velocity_at_the_goal_is_checked() -> None:
    tolerances, fault = resolved(asked())
    assert not fault
    assert np.isinf(tolerances.path).all()
    assert not tolerances.checks_path
    assert_array_equal(tolerances.goal, [[INF] * 3, [0.01] * 3, [INF] * 3])
    assert tolerances.goal_time_ns is None


def test_a_stopped_velocity_of_zero_is_unchecked() -> None:
    assert np.isinf(resolved(asked(), stopped=0.0)[0].goal).all()


def test_positive_values_are_limits_zero_is_the_default_and_minus_one_is_none() -> None:
    tolerances, fault = resolved(
        asked(
            path=(JointTolerance(name="elbow", position=0.1, velocity=0.2, acceleration=0.3),),
            end=(
                JointTolerance(name="wrist", position=0.5, velocity=0.0),
                JointTolerance(name="shoulder", velocity=-1.0),
            ),
            time=2.5,
        )
    )
    assert not fault
    assert tolerances.checks_path
    assert_array_equal(tolerances.path, [[INF, 0.1, INF], [INF, 0.2, INF], [INF, 0.3, INF]])
    assert_array_equal(tolerances.goal, [[INF, INF, 0.5], [INF, 0.01, 0.01], [INF] * 3])
    assert tolerances.goal_time_ns == 2.5 * S


def test_a_goal_time_of_minus_one_second_is_unlimited() -> None:
    defaults = Tolerances(path=np.zeros((3, 3)), goal=np.zeros((3, 3)), goal_time_ns=5, checks_path=True)
    assert resolve_tolerances(defaults, asked(time=-1.0), JOINTS)[0].goal_time_ns is None
    assert resolve_tolerances(defaults, asked(time=0.0), JOINTS)[0].goal_time_ns == 5


@each_case(
    ("wish", "reason"),
    [
        (asked(path=(JointTolerance(name="thumb", position=0.1),)), "path_tolerance names the joint 'thumb'"),
        (asked(end=(JointTolerance(name="", position=0.1),)), "goal_tolerance names the joint ''"),
        (
            asked(path=(JointTolerance(name="elbow", velocity=-0.5),)),
            "path_tolerance of joint 'elbow' is -0.5",
        ),
        (
            asked(end=(JointTolerance(name="elbow", position=-INF),)),
            "goal_tolerance of joint 'elbow' is -inf",
        ),
        (asked(time=-0.25), "goal_time_tolerance is -0.25 s"),
    ],
)
def test_with_one_illegal_tolerance_all_are_the_defaults(wish: FollowTrajectoryGoal, reason: str) -> None:
    legal = JointTolerance(name="wrist", position=0.1, velocity=0.1)
    wish = FollowTrajectoryGoal(
        trajectory=wish.trajectory,
        path_tolerance=(legal, *wish.path_tolerance),
        goal_tolerance=(legal, *wish.goal_tolerance),
        goal_time_tolerance_ns=wish.goal_time_tolerance_ns or S,
    )
    tolerances, fault = resolved(wish)
    assert reason in fault
    assert np.isinf(tolerances.path).all()
    assert np.isinf(tolerances.goal[0]).all()
    assert tolerances.goal_time_ns is None


def test_nan_counts_as_zero_the_default() -> None:
    tolerances, fault = resolved(
        asked(end=(JointTolerance(name="elbow", position=math.nan, velocity=math.nan),))
    )
    assert not fault
    assert_array_equal(tolerances.goal, [[INF] * 3, [0.01] * 3, [INF] * 3])


def test_a_violation_names_joint_kind_value_and_limit() -> None:
    error, limits = np.zeros((3, 3)), np.full((3, 3), 0.1)
    assert violation(error, limits, JOINTS) == ""
    error[1, 2] = -0.25
    assert violation(error, limits, JOINTS) == "the velocity error of joint 'wrist' is -0.25, the limit 0.1"


def test_what_is_exactly_at_its_limit_or_unknown_violates_nothing() -> None:
    error, limits = np.full((3, 3), 0.1), np.full((3, 3), 0.1)
    error[2] = np.nan
    assert violation(error, limits, JOINTS) == ""

"""Limits of speed and acceleration."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.controllers.joint_commands import common_scale, largest_step, limit_change


def test_a_change_is_limited_in_both_directions() -> None:
    limited = limit_change(np.array([1.0, -1.0, 0.05]), np.zeros(3), np.full(3, 0.1))
    assert limited.tolist() == [0.1, -0.1, 0.05]


def test_a_target_within_reach_is_met_to_the_last_bit() -> None:
    target, previous = np.array([0.1 + 0.2, 5.0]), np.array([0.7, 0.0])
    assert limit_change(target, previous, np.array([1.0, 0.1])).tolist() == [0.1 + 0.2, 0.1]


def test_no_limit_is_no_limit_even_in_no_time() -> None:
    assert largest_step(np.array([np.inf, 2.0]), 0.5).tolist() == [np.inf, 1.0]
    assert largest_step(np.array([np.inf, 2.0]), 0.0).tolist() == [np.inf, 0.0]


def test_rows_are_scaled_as_a_whole() -> None:
    values = np.array([[4.0, 2.0], [1.0, -1.0], [0.0, -8.0]])
    limits = np.array([[2.0, 2.0], [np.inf, np.inf], [3.0, 2.0]])
    assert common_scale(values, limits).tolist() == [0.5, 1.0, 0.25]
    assert common_scale(values, np.full((3, 2), np.inf)).tolist() == [1.0, 1.0, 1.0]


def test_a_limit_of_zero_lets_nothing_through() -> None:
    assert common_scale(np.array([[1.0, 0.0]]), np.zeros((1, 2))).tolist() == [0.0]

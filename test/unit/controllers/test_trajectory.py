"""Piecewise polynomials against scipy's, and turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.interpolate import BPoly, CubicHermiteSpline

from case_tables import each_case
from usd_ros_bridge.controllers.trajectory.spline import Knots, Spline, turns_towards, wrapped
from usd_ros_bridge.spatial.transforms import FloatArray

S = 1_000_000_000
WALL = 1_795_000_000 * S
"""A wall clock's time: what is relative in seconds must not lose digits to it."""

JOINTS, POINTS = 7, 500


def knots(
    seed: int = 0, *, count: int = POINTS, velocity: bool = True, acceleration: bool = True, **fields: Any
) -> Knots:
    rng = np.random.default_rng(seed)
    times_ns = (WALL + np.cumsum(rng.integers(1_000_000, 200_000_000, count))).tolist()
    values: dict[str, Any] = {
        "times_ns": times_ns,
        "position": rng.normal(scale=2.0, size=(count, JOINTS)),
        "velocity": rng.normal(size=(count, JOINTS)),
        "acceleration": rng.normal(scale=5.0, size=(count, JOINTS)),
        "effort": None,
        "has_velocity": np.full(count, velocity),
        "has_acceleration": np.full(count, acceleration),
        **fields,
    }
    return Knots(**values)


def ticks(given_knots: Knots) -> list[int]:
    """Times of a 500 Hz loop over all of a trajectory, on a grid of its own."""
    first, last = given_knots.times_ns[0], given_knots.times_ns[-1]
    return list(range((first // 2_000_000 + 1) * 2_000_000, last, 2_000_000))


def seconds(times_ns: list[int]) -> FloatArray:
    return (np.array(times_ns) - WALL) / S


def sampled(spline: Spline, times_ns: list[int]) -> FloatArray:
    return np.array([spline.sample(time_ns) for time_ns in times_ns])


def test_points_with_velocities_are_joined_by_cubic_hermite_splines() -> None:
    given_knots = knots(acceleration=False)
    spline = Spline(given_knots, np.zeros(JOINTS))
    times_ns = ticks(given_knots)
    assert len(times_ns) > 10_000
    truth = CubicHermiteSpline(
        seconds(list(given_knots.times_ns)), given_knots.position, given_knots.velocity
    )
    found = sampled(spline, times_ns)
    assert np.abs(found[:, 0] - truth(seconds(times_ns))).max() <= 1e-9
    assert_allclose(found[:, 1], truth(seconds(times_ns), 1), atol=1e-6)
    assert_allclose(found[:, 2], truth(seconds(times_ns), 2), rtol=1e-6, atol=1e-3)


def test_points_with_accelerations_too_are_joined_by_quintic_splines() -> None:
    given_knots = knots(seed=1)
    spline = Spline(given_knots, np.zeros(JOINTS))
    times_ns = ticks(given_knots)
    truth = BPoly.from_derivatives(
        seconds(list(given_knots.times_ns)),
        np.stack((given_knots.position, given_knots.velocity, given_knots.acceleration), axis=1),
    )
    found = sampled(spline, times_ns)
    assert np.abs(found[:, 0] - truth(seconds(times_ns))).max() <= 1e-9
    assert_allclose(found[:, 1], truth.derivative()(seconds(times_ns)), atol=1e-6)


def test_points_with_positions_only_are_joined_by_lines() -> None:
    given_knots = knots(seed=2, velocity=False, acceleration=False)
    spline = Spline(given_knots, np.zeros(JOINTS))
    times_ns = ticks(given_knots)
    found = sampled(spline, times_ns)
    grid = seconds(list(given_knots.times_ns))
    for joint in range(JOINTS):
        truth = np.interp(seconds(times_ns), grid, given_knots.position[:, joint])
        assert np.abs(found[:, 0, joint] - truth).max() <= 1e-9
    middle = (given_knots.times_ns[3] + given_knots.times_ns[4]) // 2
    slope = (given_knots.position[4] - given_knots.position[3]) / (grid[4] - grid[3])
    assert_allclose(spline.sample(middle)[1], slope)
    assert not spline.sample(middle)[2].any()


def test_each_segment_has_the_degree_that_both_of_its_ends_allow() -> None:
    has_velocity = np.array([True, True, True, True, False, True])
    has_acceleration = np.array([True, True, False, True, True, True])
    given_knots = knots(count=6, has_velocity=has_velocity, has_acceleration=has_acceleration)
    spline = Spline(given_knots, np.zeros(JOINTS))
    degrees = []
    for begin, end in zip(given_knots.times_ns, given_knots.times_ns[1:], strict=False):
        times_ns = [begin + (end - begin) * part // 9 for part in range(9)]
        values = sampled(spline, times_ns)[:, 0, 0]
        grid = (np.array(times_ns) - begin) / (end - begin)
        fits = [np.abs(np.polyval(np.polyfit(grid, values, d), grid) - values).max() < 1e-6 for d in range(6)]
        degrees.append(fits.index(True))
    assert degrees == [5, 3, 3, 1, 1]


def test_it_rests_where_it_was_before_the_first_knot_and_at_the_last_after_the_end() -> None:
    given_knots, before = knots(), np.arange(7.0)
    spline = Spline(given_knots, before)
    assert_allclose(spline.sample(given_knots.times_ns[0] - 1), [before, np.zeros(7), np.zeros(7)])
    assert_allclose(spline.sample(spline.end_ns), [given_knots.position[-1], np.zeros(7), np.zeros(7)])
    assert spline.sample(spline.end_ns + 10**18)[0] is not None
    assert_allclose(spline.sample(given_knots.times_ns[0])[0], given_knots.position[0])


def test_a_single_knot_is_a_step() -> None:
    given_knots = knots(count=1)
    spline = Spline(given_knots, np.zeros(JOINTS))
    assert not spline.sample(spline.end_ns - 1).any()
    assert_allclose(spline.sample(spline.end_ns)[0], given_knots.position[0])


def test_efforts_are_linear_zero_before_and_stay_after() -> None:
    effort = np.array([[1.0] * 7, [3.0] * 7, [2.0] * 7])
    given_knots = knots(count=3, times_ns=[S, 2 * S, 3 * S], effort=effort)
    spline = Spline(given_knots, np.zeros(JOINTS))
    found = [spline.effort(int(time * S)) for time in (0.5, 1.0, 1.25, 2.0, 2.5, 3.0, 9.0)]
    assert [float(e[0]) for e in found if e is not None] == [0.0, 1.0, 1.5, 3.0, 2.5, 2.0, 2.0]
    assert Spline(knots(), np.zeros(JOINTS)).effort(WALL) is None


def test_a_shift_moves_all_but_what_was_before() -> None:
    given_knots = knots(count=4)
    spline, still = Spline(given_knots, np.zeros(JOINTS)), Spline(given_knots, np.zeros(JOINTS))
    spline.shift(np.full(JOINTS, 2.0))
    for time_ns in (*given_knots.times_ns, (given_knots.times_ns[1] + given_knots.times_ns[2]) // 2):
        assert_allclose(spline.sample(time_ns)[0], still.sample(time_ns)[0] + 2.0)
    assert not spline.sample(WALL).any()


@each_case("scale_ns", [1, 1000, 3_600 * S])
def test_segments_of_a_nanosecond_and_of_hours_stay_finite(scale_ns: int) -> None:
    given_knots = knots(count=4, times_ns=[0, scale_ns, 2 * scale_ns, 3 * scale_ns])
    spline = Spline(given_knots, np.zeros(JOINTS))
    for time_ns in range(0, 3 * scale_ns + 1, max(scale_ns // 4, 1)):
        assert np.isfinite(spline.sample(time_ns)).all()


@given(st.floats(-50.0, 50.0), st.floats(-50.0, 50.0))
def test_whole_turns_bring_a_joint_that_wraps_within_half_a_turn(position: float, reference: float) -> None:
    wraps = np.array([True, False])
    turns = turns_towards(np.full(2, position), np.full(2, reference), wraps)
    assert turns[1] == 0.0
    assert turns[0] / (2.0 * np.pi) == pytest.approx(round(turns[0] / (2.0 * np.pi)), abs=1e-12)
    assert abs(position + turns[0] - reference) <= np.pi + 1e-8


@each_case(
    ("position", "shifted"), [(np.pi, np.pi), (-np.pi, -np.pi), (3 * np.pi, np.pi), (-5 * np.pi, -np.pi)]
)
def test_half_a_turn_goes_the_way_that_the_numbers_say(position: float, shifted: float) -> None:
    turns = turns_towards(np.array([position]), np.zeros(1), np.array([True]))
    assert position + turns[0] == pytest.approx(shifted)


def test_errors_of_joints_that_wrap_are_within_half_a_turn() -> None:
    error = wrapped(np.array([6.0, 6.0, -6.5, 0.25]), np.array([True, False, True, True]))
    assert_allclose(error, [6.0 - 2 * np.pi, 6.0, -6.5 + 2 * np.pi, 0.25])

"""Wheel odometry against closed forms, with exact wheel positions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import fresnel

from case_tables import each_case
from usd_ros_bridge.controllers.wheel_odometry import WheelOdometry, Wheels, arc, varying_twist

RADIUS = 0.1
SEPARATION = 0.4
PERIOD_NS = 10_000_000


def wheels(count: int = 1, *, per_side: int = 1) -> Wheels:
    slots = np.repeat(np.arange(2 * count), per_side)
    return Wheels(
        rows=np.arange(len(slots)),
        slots=slots,
        signs=np.ones(len(slots)),
        radius=np.full(count, RADIUS),
        separation=np.full(count, SEPARATION),
    )


def turned(way: float, heading: float) -> np.ndarray:
    """Wheel positions after a path length and a change of heading."""
    return np.array([way - heading * SEPARATION / 2, way + heading * SEPARATION / 2]) / RADIUS


def follow(
    way: Callable[[float], float],
    heading: Callable[[float], float],
    times_ns: np.ndarray,
    odometry: WheelOdometry | None = None,
) -> WheelOdometry:
    odometry = odometry or WheelOdometry(wheels())
    for time_ns in times_ns:
        seconds = time_ns * 1e-9
        odometry.update(turned(way(seconds), heading(seconds)), np.array([time_ns]))
    return odometry


def standing(_seconds: float) -> float:
    return 2.0


def grid(seconds: float) -> np.ndarray:
    return np.arange(0, round(seconds * 1e9) + 1, PERIOD_NS)


def error(odometry: WheelOdometry, x: float, y: float, heading: float) -> float:
    pose = odometry.odom_from_base[0]
    assert pose[[2, 3, 4]].tolist() == [0.0, 0.0, 0.0]
    assert pose[5:] == pytest.approx([math.sin(heading / 2), math.cos(heading / 2)], abs=1e-9)
    return math.hypot(pose[0] - x, pose[1] - y)


@each_case(("speed", "rate"), [(1.0, 0.7), (-1.0, 0.7), (1.0, -2.5), (0.3, 6.0)])
def test_a_circle_is_exact(speed: float, rate: float) -> None:
    odometry = follow(lambda t: speed * t, lambda t: rate * t, grid(20.0))
    radius, heading = speed / rate, rate * 20.0
    x, y = radius * math.sin(heading), radius * (1.0 - math.cos(heading))
    assert error(odometry, x, y, heading) <= 1e-9 * abs(speed) * 20.0
    assert odometry.base_twist[0] == pytest.approx([speed, 0, 0, 0, 0, rate], abs=1e-9)


@each_case("speed", [1.0, -1.0])
@each_case("sharpness", [1.0, -0.25])
def test_a_clothoid_is_within_a_micrometre_per_metre(speed: float, sharpness: float) -> None:
    """Heading sharpness * t^2 / 2: scipy's Fresnel integrals of sin and cos of pi u^2 / 2."""
    length = 5.0
    odometry = follow(lambda t: speed * t, lambda t: 0.5 * sharpness * t * t, grid(length))
    scale = math.sqrt(math.pi / abs(sharpness))
    sine, cosine = fresnel(length / scale)
    x, y = speed * scale * cosine, speed * scale * sine * math.copysign(1.0, sharpness)
    assert error(odometry, x, y, 0.5 * sharpness * length**2) <= 1e-6 * length


def test_a_clothoid_that_slows_down_is_within_a_micrometre_per_metre() -> None:
    def heading(t: float) -> float:
        return 0.3 * t + 0.4 * t * t

    odometry = follow(lambda t: 2.0 * t - 0.2 * t * t, heading, grid(4.0))
    x = quad(lambda t: (2.0 - 0.4 * t) * math.cos(heading(t)), 0.0, 4.0, epsabs=1e-12)[0]
    y = quad(lambda t: (2.0 - 0.4 * t) * math.sin(heading(t)), 0.0, 4.0, epsabs=1e-12)[0]
    assert error(odometry, x, y, heading(4.0)) <= 1e-6 * 4.8


def clothoid_error(steps: int) -> float:
    """How far off the end is of four metres of a clothoid in so many steps."""
    step = 4.0 / steps
    # The first step leads up to the clothoid's start: it tells the slope of the one after it.
    times = np.round(np.arange(steps + 2) * step * 1e9).astype(np.int64)

    def heading(t: float) -> float:
        return 0.5 * (t - step) ** 2

    odometry = follow(lambda t: t, heading, times[:2])
    begun = odometry.odom_from_base[0].copy()
    follow(lambda t: t, heading, times[2:], odometry)
    turn = -2.0 * math.atan2(begun[5], begun[6])
    dx, dy = odometry.odom_from_base[0, :2] - begun[:2]
    sine, cosine = fresnel(4.0 / math.sqrt(math.pi))
    return math.hypot(
        math.cos(turn) * dx - math.sin(turn) * dy - math.sqrt(math.pi) * cosine,
        math.sin(turn) * dx + math.cos(turn) * dy - math.sqrt(math.pi) * sine,
    )


def test_the_error_on_a_clothoid_falls_with_the_fourth_power_of_the_step() -> None:
    errors = [clothoid_error(steps) for steps in (50, 100, 200)]
    assert errors[0] / errors[1] > 12.0
    assert errors[1] / errors[2] > 12.0


def test_steps_of_unequal_length_keep_the_order() -> None:
    random = np.random.default_rng(1)
    times = np.concatenate(([0], np.cumsum(random.integers(5_000_000, 15_000_000, 500))))
    odometry = follow(lambda t: t, lambda t: 0.5 * t * t, times)
    length = times[-1] * 1e-9
    scale = math.sqrt(math.pi)
    sine, cosine = fresnel(length / scale)
    assert error(odometry, scale * cosine, scale * sine, 0.5 * length**2) <= 1e-6 * length


def test_straight_ahead_and_back() -> None:
    odometry = follow(lambda t: 1.5 * math.sin(t), standing, grid(1.0))
    assert error(odometry, 1.5 * math.sin(1.0), 0.0, 0.0) <= 1e-12
    odometry = follow(lambda t: -0.5 * t, standing, grid(2.0))
    assert error(odometry, -1.0, 0.0, 0.0) <= 1e-12
    assert odometry.base_twist[0, 0] == pytest.approx(-0.5)


def test_spinning_in_place_does_not_travel() -> None:
    odometry = follow(standing, lambda t: 3.0 * t, grid(10.0))
    assert error(odometry, 0.0, 0.0, 30.0) <= 1e-12
    assert odometry.base_twist[0] == pytest.approx([0, 0, 0, 0, 0, 3.0])


def test_the_first_state_is_the_start() -> None:
    odometry = follow(lambda t: 7.0 + t, standing, grid(1.0))
    assert error(odometry, 1.0, 0.0, 0.0) <= 1e-12


def test_the_wheels_of_a_side_are_averaged() -> None:
    odometry = WheelOdometry(wheels(per_side=2))
    odometry.update(np.zeros(4), np.array([0]))
    odometry.update(np.array([1.0, 3.0, 2.0, 2.0]), np.array([PERIOD_NS]))
    assert odometry.odom_from_base[0, :2] == pytest.approx([2.0 * RADIUS, 0.0])


def test_a_wheel_that_rolls_backwards_when_it_turns_positively_counts_reversed() -> None:
    one = wheels()
    odometry = WheelOdometry(
        Wheels(
            rows=one.rows,
            slots=one.slots,
            signs=np.array([1.0, -1.0]),
            radius=one.radius,
            separation=one.separation,
        )
    )
    odometry.update(np.zeros(2), np.array([0]))
    odometry.update(np.array([1.0, -1.0]), np.array([PERIOD_NS]))
    assert odometry.odom_from_base[0, :2] == pytest.approx([RADIUS, 0.0])


def test_a_state_without_a_finite_position_is_passed_over() -> None:
    odometry = WheelOdometry(wheels(2))
    odometry.update(np.zeros(4), np.array([0, 0]))
    odometry.update(np.array([np.nan, 1.0, 1.0, 1.0]), np.full(2, PERIOD_NS))
    assert odometry.odom_from_base[:, 0].tolist() == pytest.approx([0.0, RADIUS])
    odometry.update(np.array([2.0, 2.0, np.inf, 1.0]), np.full(2, 2 * PERIOD_NS))
    assert odometry.odom_from_base[:, 0].tolist() == pytest.approx([2 * RADIUS, RADIUS])
    assert odometry.base_twist[0, 0] == pytest.approx(2 * RADIUS / 0.02)


def test_a_state_that_shows_no_new_time_says_nothing() -> None:
    odometry = WheelOdometry(wheels())
    odometry.update(np.zeros(2), np.array([5]))
    odometry.update(np.ones(2), np.array([5]))
    assert odometry.odom_from_base[0, 0] == 0.0
    odometry.update(np.ones(2), np.array([5 + PERIOD_NS]))
    assert odometry.odom_from_base[0, 0] == pytest.approx(RADIUS)


def test_a_robot_of_which_nothing_is_known_waits() -> None:
    odometry = WheelOdometry(wheels())
    odometry.update(np.full(2, 9.0), np.array([-1]))
    odometry.update(np.ones(2), np.array([0]))
    odometry.update(np.full(2, 2.0), np.array([PERIOD_NS]))
    assert odometry.odom_from_base[0, 0] == pytest.approx(RADIUS)


def test_time_that_goes_back_begins_a_new_stretch_from_the_same_pose() -> None:
    odometry = follow(lambda t: t, standing, grid(1.0))
    odometry.update(np.full(2, 50.0), np.array([0]))
    assert odometry.odom_from_base[0, 0] == pytest.approx(1.0)
    assert not odometry.base_twist.any()
    odometry.update(np.full(2, 51.0), np.array([PERIOD_NS]))
    assert odometry.odom_from_base[0, 0] == pytest.approx(1.0 + RADIUS)


def test_reset_starts_over_at_the_identity() -> None:
    odometry = follow(lambda t: t, lambda t: t, grid(1.0))
    odometry.reset()
    assert odometry.odom_from_base.tolist() == [[0, 0, 0, 0, 0, 0, 1]]
    assert not odometry.base_twist.any()
    odometry.update(np.full(2, 50.0), np.array([0]))
    assert odometry.odom_from_base.tolist() == [[0, 0, 0, 0, 0, 0, 1]]


def test_after_a_pause_the_interval_before_it_does_not_count() -> None:
    one = np.ones(1)
    before = varying_twist(one, one, 0.01 * one, 0.5 * one, one, 0.01 * one)
    assert before == pytest.approx([(1.0 - 0.5) / 12.0])
    assert varying_twist(one, one, 0.01 * one, 0.5 * one, one, np.nan * one) == 0.0
    assert varying_twist(one, one, 0.1 * one, 0.5 * one, one, 0.01 * one) == 0.0
    assert varying_twist(one, one, 0.01 * one, 0.5 * one, one, 0.1 * one) == 0.0


def test_an_arc_is_smooth_where_it_becomes_straight() -> None:
    turns = np.array([0.0, 1e-300, 1e-17, 1e-12, 1e-8, 1e-6])
    x, y = arc(np.ones(6), np.zeros(6), turns, np.zeros(6))
    assert x == pytest.approx(np.ones(6), abs=1e-12)
    assert y == pytest.approx(turns / 2, abs=1e-16)


def test_a_drive_without_wheels_stays_where_it_is() -> None:
    odometry = WheelOdometry(
        Wheels(
            rows=np.array([0, 1]),
            slots=np.array([2, 3]),
            signs=np.ones(2),
            radius=np.ones(2),
            separation=np.ones(2),
        )
    )
    for tick in range(3):
        odometry.update(np.full(2, float(tick)), np.full(2, tick * PERIOD_NS))
    assert odometry.odom_from_base[:, 0].tolist() == [0.0, 2.0]

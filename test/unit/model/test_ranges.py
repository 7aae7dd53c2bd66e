"""Ranges of numbers: what is in them, what they say, and that each option has one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge import ranges
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.periods import checked_period_ns, period_ns
from usd_ros_bridge.ranges import NumberRange, controller_range

ALL = [value for value in vars(ranges).values() if isinstance(value, NumberRange)]
EXTREMES = (math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1e-300, -1.0, 1e300, 1.7e308)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_what_is_in_a_range_is_finite_and_between_its_limits(value: float) -> None:
    for each in ALL:
        if value in each:
            assert math.isfinite(value)
            low, high = each.limits
            assert low <= value <= high
            if each.low > 0.0 and value != 0.0:
                assert abs(value) >= each.low


@pytest.mark.parametrize("value", [None, True, False, "1", [1.0], object()])
def test_nothing_but_numbers_is_in_a_range(value: object) -> None:
    assert not any(value in each for each in ALL)


def test_a_refusal_names_value_and_range() -> None:
    with pytest.raises(OptionError, match=r"^tf_rate 5e-324 is not possible: 0\.001 to 10000 Hz$"):
        ranges.RATE.check("tf_rate", 5e-324)
    with pytest.raises(OptionError, match=r"^factor 'nan' is not possible: 0, or 0\.001 to 1000$"):
        ranges.FACTOR.check("factor", math.nan)
    ranges.FACTOR.check("factor", 0)
    ranges.RATE.check("rate", 10_000)


@given(st.floats(min_value=ranges.RATE.low, max_value=ranges.RATE.high))
def test_every_possible_rate_has_a_period(rate: float) -> None:
    assert period_ns(rate) * rate == pytest.approx(1e9, rel=1e-4)


@pytest.mark.parametrize("rate", EXTREMES)
def test_impossible_rates_are_refused_and_no_period_overflows(rate: float) -> None:
    with pytest.raises(OptionError, match=r"0\.001 to 10000 Hz"):
        checked_period_ns("rate", rate)


@pytest.mark.parametrize("name", ["wheel_radius", "cmd_vel_timeout", "action_monitor_rate", "max_effort"])
def test_numbers_of_controllers_have_ranges(name: str) -> None:
    possible = controller_range(name)
    assert not any(value in possible for value in EXTREMES)
    assert 1.0 in possible

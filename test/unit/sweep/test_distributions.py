"""Distributions of sweeps. Oracle: scipy's distributions, by Kolmogorov-Smirnov tests with fixed seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.sweep.distributions import Discrete, LogUniform, Normal, Uniform, parse_distribution

pytestmark = pytest.mark.app

stats = pytest.importorskip("scipy.stats")


def drawn(distribution: Any, count: int = 4000) -> list[Any]:
    """Return values of a distribution, of a fixed seed."""
    return [distribution.quantile(each) for each in np.random.default_rng(7).random(count).tolist()]


@pytest.mark.parametrize(
    ("distribution", "oracle"),
    [
        (Uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
        (LogUniform(0.01, 10.0), stats.loguniform(0.01, 10.0)),
        (Normal(mean=2.0, stddev=0.5), stats.norm(2.0, 0.5)),
        (Normal(mean=0.0, stddev=1.0, low=-0.5, high=2.0), stats.truncnorm(-0.5, 2.0)),
        (Normal(mean=1.0, stddev=2.0, low=0.0), stats.truncnorm(-0.5, np.inf, loc=1.0, scale=2.0)),
    ],
    ids=["uniform", "loguniform", "normal", "truncated", "one bound"],
)
def test_values_are_distributed_as_scipy_says(distribution: Any, oracle: Any) -> None:
    values = drawn(distribution)
    assert stats.kstest(values, oracle.cdf).pvalue > 0.01
    shares = np.linspace(0.001, 0.999, 101).tolist()
    np.testing.assert_allclose(
        [distribution.quantile(share) for share in shares], oracle.ppf(shares), rtol=1e-9, atol=1e-9
    )


def test_each_value_of_a_choice_is_as_likely() -> None:
    values = drawn(Discrete(("a", "b", "b", True)), 6000)
    counts = [sum(each is True for each in values), values.count("a"), values.count("b")]
    assert stats.chisquare(counts, [1500, 1500, 3000]).pvalue > 0.01


def test_a_normal_distribution_stays_within_its_bounds() -> None:
    values = drawn(Normal(mean=0.0, stddev=10.0, low=-0.25, high=0.25))
    assert min(values) >= -0.25
    assert max(values) <= 0.25
    assert Normal(mean=3.0, stddev=0.0, high=2.0).quantile(0.3) == 2.0


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (Uniform(2.0, 1.0), "uniform: 2 is above 1"),
        (Uniform("a", 1.0), "uniform: 'a' is no finite number"),
        (Uniform(0.0, float("inf")), "uniform: 'inf' is no finite number"),
        (LogUniform(0.0, 1.0), "is no interval of positive numbers"),
        (Normal(mean=0.0, stddev=-1.0), "the standard deviation -1 is negative"),
        (Normal(mean=0.0, stddev=1.0, low=2.0, high=1.0), "low 2 is above high 1"),
        (Normal(mean=0.0, stddev=1e-3, low=1.0), "no value around 0 lies between 1 and inf"),
        (Discrete(()), "nothing to choose from"),
    ],
)
def test_an_impossible_distribution_is_refused(distribution: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        distribution.quantile(0.5)


def test_a_mapping_is_parsed_as_a_distribution() -> None:
    assert parse_distribution({"uniform": [0, 1]}) == Uniform(0, 1)
    assert parse_distribution({"normal": {"mean": 0, "stddev": 1}}) == Normal(mean=0, stddev=1)
    assert parse_distribution({"choice": ["a", "b"]}) == Discrete(("a", "b"))
    assert parse_distribution(3.0) == 3.0

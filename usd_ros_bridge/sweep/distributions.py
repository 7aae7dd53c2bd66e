"""Distributions of parameters and of randomised properties. Each is its quantile function.

One number in [0, 1) gives one value. So a random sample, a Latin hypercube and a Sobol sequence are drawn alike, and
the same numbers give the same values on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

from usd_ros_bridge.errors import OptionError, quoted

Scalar = bool | int | float | str
"""Value of a parameter."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform distribution over an interval.

    Attributes:
        low: Smallest value, or `${parameter}`.
        high: Values are below it.
    """

    low: Any
    high: Any

    def quantile(self, share: float) -> float:
        """Return the value below which a share of all values lies.

        Raises:
            OptionError: The interval is empty, or an end is no finite number.
        """
        low, high = _number(self.low, "uniform"), _number(self.high, "uniform")
        if high < low:
            raise OptionError(f"uniform: {low:g} is above {high:g}; write [low, high]")
        return low + (high - low) * share


@dataclass(frozen=True, slots=True)
class LogUniform:
    """Distribution whose logarithm is uniform: each decade is as likely as another.

    Attributes:
        low: Smallest value, above 0, or `${parameter}`.
        high: Values are below it.
    """

    low: Any
    high: Any

    def quantile(self, share: float) -> float:
        """Return the value below which a share of all values lies.

        Raises:
            OptionError: The interval is empty, or an end is no positive number.
        """
        low, high = _number(self.low, "loguniform"), _number(self.high, "loguniform")
        if not 0.0 < low <= high:
            raise OptionError(f"loguniform: [{low:g}, {high:g}] is no interval of positive numbers")
        return low * math.exp(math.log(high / low) * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """Normal distribution, truncated where bounds are given.

    Attributes:
        mean: Mean before truncation, or `${parameter}`.
        stddev: Standard deviation before truncation; 0 for the mean alone.
        low: No value is below it.
        high: No value is above it.
    """

    mean: Any
    stddev: Any
    low: Any = -math.inf
    high: Any = math.inf

    def quantile(self, share: float) -> float:
        """Return the value below which a share of all values lies.

        Raises:
            OptionError: A number is missing, the deviation is negative, or nothing lies between the bounds.
        """
        mean, stddev = _number(self.mean, "normal"), _number(self.stddev, "normal")
        low, high = _bound(self.low), _bound(self.high)
        if stddev < 0.0:
            raise OptionError(f"normal: the standard deviation {stddev:g} is negative")
        if low > high:
            raise OptionError(f"normal: low {low:g} is above high {high:g}")
        if stddev == 0.0:
            return min(max(mean, low), high)
        unit = NormalDist()
        below, above = unit.cdf((low - mean) / stddev), unit.cdf((high - mean) / stddev)
        if not above > below:
            raise OptionError(f"normal: no value around {mean:g} lies between {low:g} and {high:g}")
        probability = min(max(below + (above - below) * share, _LEAST), 1.0 - _LEAST)
        return min(max(mean + stddev * unit.inv_cdf(probability), low), high)


@dataclass(frozen=True, slots=True)
class Discrete:
    """One of several values, each as likely as another.

    Attributes:
        values: The values; write one twice to make it twice as likely.
    """

    values: tuple[Any, ...]

    def quantile(self, share: float) -> Scalar:
        """Return the value at a share of the list.

        Raises:
            OptionError: There are no values.
        """
        if not self.values:
            raise OptionError("choice: there is nothing to choose from")
        value: Scalar = self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        return value


Distribution = Uniform | LogUniform | Normal | Discrete
DISTRIBUTIONS: Final = (Uniform, LogUniform, Normal, Discrete)
_LEAST: Final = 1e-16


def parse_distribution(value: Any) -> Any:
    """Return the distribution that a mapping of one key describes, anything else as it is.

    Args:
        value: `{uniform: [low, high]}`, `{loguniform: [low, high]}`, `{normal: {mean:, stddev:, low:, high:}}`,
            `{choice: [...]}`, or a value.
    """
    if not (isinstance(value, dict) and len(value) == 1):
        return value
    ((kind, arguments),) = value.items()
    made = _PARSERS.get(kind)
    return value if made is None else made(arguments)


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise OptionError(f"{what}: {quoted(value)} is no finite number")
    return float(value)


def _bound(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise OptionError(f"normal: the bound {quoted(value)} is no number")
    return float(value)


_PARSERS: Final[dict[str, Callable[[Any], Distribution]]] = {
    "uniform": lambda ends: Uniform(*ends),
    "loguniform": lambda ends: LogUniform(*ends),
    "normal": lambda fields: Normal(**fields),
    "choice": lambda values: Discrete(tuple(values)),
}

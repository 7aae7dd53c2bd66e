"""Ranges of numbers that callers, peers and assets may give: rates, factors, times and others.

Each number has one range for all sources: asset attribute, node parameter, command line, service or argument of a
function. The limits are far beyond useful values and far below overflows: a rate next to zero has a period that no
clock reaches.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.errors import OptionError, quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRange:
    """A range of finite numbers.

    Attributes:
        low: The lowest number.
        high: The highest number.
        unit: Their unit.
        zero: 0 is possible, too.
    """

    low: float
    high: float
    unit: str = ""
    zero: bool = False

    def __contains__(self, value: object) -> bool:
        """Return whether `value` is a number in the range. NaN and infinity never are."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return self.low <= value <= self.high or (self.zero and value == 0)

    def __str__(self) -> str:
        """Describe the range: "0, or 0.001 to 1000 s"."""
        zero = "0, or " if self.zero and self.low > 0.0 else ""
        unit = f" {self.unit}" if self.unit else ""
        return f"{zero}{self.low:g} to {self.high:g}{unit}"

    def check(self, name: str, value: object) -> None:
        """Check the number of an option.

        Raises:
            OptionError: It is not in the range. The message gives the range.
        """
        if value not in self:
            raise OptionError(f"{name} {shown(value)} is not possible: {self}")

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest number, with 0 if that is possible."""
        return (0.0 if self.zero else self.low), self.high


def shown(value: object) -> str:
    """Return a value for a message: a number as it is, anything else in quotes."""
    return repr(value) if isinstance(value, (int, float)) and math.isfinite(value) else quoted(value)


RATE: Final = NumberRange(low=1e-3, high=1e4, unit="Hz")
"""Rates of publishers, transforms, controllers and clocks."""
FREQUENCY: Final = NumberRange(low=1e-3, high=1e3, unit="Hz", zero=True)
"""robot_state_publisher's publish_frequency; 0: use tf_rate."""
DIAGNOSTICS_RATE: Final = NumberRange(low=1e-3, high=10.0, unit="Hz")
FACTOR: Final = NumberRange(low=1e-3, high=1e3, zero=True)
"""Seconds of bridge time in a second; 0: as many as possible."""
PLAYBACK_RATE: Final = NumberRange(low=1e-6, high=1e6)
PLAYBACK_TIME: Final = NumberRange(low=-1e9, high=1e9, unit="s")
POSITION: Final = NumberRange(low=-1e9, high=1e9, unit="m")
"""Positions of entities; their squares do not overflow."""
SPEED: Final = NumberRange(low=-1e6, high=1e6, unit="m/s or rad/s")
"""Velocities and accelerations of entities."""
STEP: Final = NumberRange(low=1e-6, high=0.1, unit="s")
"""Time steps of physics."""
DURATION: Final = NumberRange(low=1e-3, high=1e9, unit="s", zero=True)
"""Bridge time of a run; 0: for ever."""
TIMEOUT: Final = NumberRange(low=1e-6, high=1e6, unit="s")
"""Time-outs of callers and handlers."""
WAIT: Final = NumberRange(low=0.0, high=1e6, unit="s")
"""Time that a caller waits for an answer."""
DECOMPOSITION_TIME: Final = NumberRange(low=1e-3, high=1e5, unit="s")
RELOAD_TIME: Final = NumberRange(low=1e-3, high=3600.0, unit="s")
"""Time to read an asset's files again."""
LIMIT: Final = NumberRange(low=1, high=10**15)
"""Limits of an asset: prims, layers, bytes, levels."""
HULLS: Final = NumberRange(low=1, high=1e4)
SAMPLES: Final = NumberRange(low=0, high=16)

MAGNITUDE: Final = NumberRange(low=1e-9, high=1e12, zero=True)
"""Other numbers of controllers: limits, tolerances, efforts."""
_LENGTH: Final = NumberRange(low=1e-6, high=1e6)
_TIME: Final = NumberRange(low=1e-6, high=1e6, unit="s", zero=True)
_COVARIANCE: Final = NumberRange(low=0.0, high=sys.float_info.max)
_MONITOR_RATE: Final = NumberRange(low=1e-3, high=1e4, unit="Hz", zero=True)

_CONTROLLERS: Final[Mapping[str, NumberRange]] = {
    "action_monitor_rate": _MONITOR_RATE,
    "cmd_vel_timeout": _TIME,
    "pose_covariance_diagonal": _COVARIANCE,
    "stall_timeout": _TIME,
    "timeout": _TIME,
    "twist_covariance_diagonal": _COVARIANCE,
    "wheel_radius": _LENGTH,
    "wheel_separation": _LENGTH,
}


def controller_range(name: str) -> NumberRange:
    """Return the range of a controller's number, by its name in ControllerPlan."""
    return _CONTROLLERS.get(name, MAGNITUDE)

"""What is authored for one sensor under `usd_ros_bridge:`: checked value by value, the default where one is no good."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.planning.findings import Findings

PREFIX = "usd_ros_bridge:"
MAX_SIZE = 1e9
"""Largest number that is taken for meant; limits may be infinite."""


class SensorValues:
    """The attributes of one group (`lidar`, `imu`, ...) of one prim, by their last name.

    Every getter returns the default where nothing is authored, and where what is authored is not possible: with an
    error that quotes it.
    """

    def __init__(self, path: str, group: str, values: Mapping[str, Any], findings: Findings) -> None:
        """Stores what is authored.

        Args:
            path: Prim path.
            group: Second part of the names.
            values: By USD name; other groups are left alone.
            findings: Takes what is wrong.
        """
        self.path = path
        self._prefix = f"{PREFIX}{group}:"
        self._findings = findings
        self._values = {
            name[len(self._prefix) :]: value
            for name, value in values.items()
            if name.startswith(self._prefix)
        }
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def number(
        self,
        name: str,
        default: float,
        *,
        low: float = 0.0,
        high: float = MAX_SIZE,
        endless: bool = False,
    ) -> float:
        """Returns a number of `low` to `high`, or inf where that is possible (`endless`)."""
        value = self.raw(name)
        if value is None:
            return default
        if _is_number(value) and (low <= value <= high or (endless and value == math.inf)):
            return float(value)
        self.refuse(name, f"a number of {low:g} to {high:g}", default)
        return default

    def count(self, name: str, default: int, *, high: int) -> int:
        """Returns a whole number of 1 to `high`."""
        value = self.raw(name)
        if value is None:
            return default
        if _is_number(value) and 1 <= value <= high and value == int(value):
            return int(value)
        self.refuse(name, f"a whole number of 1 to {high:,}", default)
        return default

    def flag(self, name: str, default: bool) -> bool:
        """Returns a truth value."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.refuse(name, "true or false", default)
        return default

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        """Returns one of several words."""
        value = self.raw(name)
        if value is None or value in choices:
            return default if value is None else str(value)
        self.refuse(name, " or ".join(choices), default)
        return default

    def three(
        self, name: str, default: Sequence[float], *, low: float = -MAX_SIZE, high: float = MAX_SIZE
    ) -> tuple[float, float, float]:
        """Returns three numbers of `low` to `high`."""
        value = self.raw(name)
        if value is not None:
            if _is_three(value) and all(low <= each <= high for each in value):
                return (float(value[0]), float(value[1]), float(value[2]))
            self.refuse(name, f"three numbers of {low:g} to {high:g}", tuple(default))
        return (float(default[0]), float(default[1]), float(default[2]))

    def path_of(self, name: str) -> str:
        """Returns the first target of a relationship, or a path that is text; "" where there is none."""
        value = self.raw(name)
        if isinstance(value, str):
            return value
        if isinstance(value, (tuple, list)) and value and isinstance(value[0], str):
            return value[0]
        if value:
            self.refuse(name, "a relationship", "none")
        return ""

    def raw(self, name: str) -> Any:
        """Returns a value as it is authored, None where it is not."""
        self._read.add(name)
        return self._values.get(name)

    def refuse(self, name: str, wanted: str, default: object) -> None:
        """Reports that a value is not possible."""
        self._findings.error(
            "1.4.sensor",
            self.path,
            f"{quoted(self._values.get(name))} is not {wanted}; {default} is used",
            f"author {wanted}",
            attribute=self._prefix + name,
        )

    def close(self) -> None:
        """Reports authored names of the group that nobody asked for: they do nothing."""
        for name in sorted(self._values.keys() - self._read):
            known = ", ".join(sorted(self._read))
            self._findings.warning(
                "1.4.sensor.name",
                self.path,
                f"{quoted(self._prefix + name)} means nothing on an interface of this type",
                f"known here: {known}",
                attribute=self._prefix + name,
            )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _is_three(value: object) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 3 and all(_is_number(each) for each in value)

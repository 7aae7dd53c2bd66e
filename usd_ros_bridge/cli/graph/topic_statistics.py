"""Rates and sizes of messages that arrive, and how ros2cli prints them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import fmean, pstdev

_UNITS = ((1e3, 1.0, "{:.0f} B"), (1e6, 1e3, "{:.2f} KB"), (float("inf"), 1e6, "{:.2f} MB"))
"""Sizes below, their unit in bytes, and its form."""


class MessageArrivals:
    """The times between messages that arrive."""

    def __init__(self, window: int) -> None:
        """Args: window: The most times to average over."""
        self._times: deque[int] = deque(maxlen=window)
        self._last = -1
        self._shown = -1

    def add(self, time_ns: int) -> None:
        """Note a message that arrived at a time, in nanoseconds. A time that goes back starts again; 0 is none yet."""
        if not time_ns:
            return
        if 0 <= self._last <= time_ns:
            self._times.append(time_ns - self._last)
        else:
            self._times.clear()
        self._last = time_ns

    def take(self) -> tuple[float, float, float, float, int] | None:
        """Return rate (Hz), least and longest time, standard deviation (s) and number; None without a new one."""
        if not self._times or self._last == self._shown:
            return None
        self._shown = self._last
        mean = fmean(self._times)
        rate = 1e9 / mean if mean else 0.0
        return (
            rate,
            min(self._times) * 1e-9,
            max(self._times) * 1e-9,
            pstdev(self._times) * 1e-9,
            len(self._times),
        )


def rate_text(arrivals: Mapping[str, MessageArrivals]) -> str:
    """Return what `hz` prints: two lines for one topic, a table for several; "" where no message arrived."""
    found = {name: each.take() for name, each in arrivals.items()}
    new = {name: numbers for name, numbers in found.items() if numbers is not None}
    if not new:
        return ""
    if len(arrivals) == 1:
        ((rate, least, longest, deviation, count),) = new.values()
        return (
            f"average rate: {rate:.3f}\n"
            f"\tmin: {least:.3f}s max: {longest:.3f}s std dev: {deviation:.5f}s window: {count}"
        )
    return _table(
        [
            ["topic", "rate", "min_delta", "max_delta", "std_dev", "window"],
            *(
                [name, f"{rate:.3f}", f"{least:.3f}", f"{longest:.3f}", f"{deviation:.5f}", str(count)]
                for name, (rate, least, longest, deviation, count) in new.items()
            ),
        ]
    )


def _table(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *body = lines
    rows = [
        "   ".join(cell.center(width) for cell, width in zip(head, widths, strict=True)),
        "=" * (sum(widths) + 3 * (len(widths) - 1)),
        *("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in body),
    ]
    return "\n".join(rows) + "\n"


class Sizes:
    """The sizes of messages that arrive."""

    def __init__(self, window: int) -> None:
        """Args: window: The most messages to average over."""
        self._found: deque[tuple[int, int]] = deque(maxlen=window)

    def add(self, time_ns: int, size: int) -> None:
        """Note a message that arrived at a time, in nanoseconds, and its size in bytes."""
        self._found.append((time_ns, size))

    def text(self, time_ns: int) -> str:
        """Return what `bw` prints at a time, in nanoseconds; "" with less than two messages."""
        if len(self._found) < 2:
            return ""
        elapsed = (time_ns - self._found[0][0]) * 1e-9
        if elapsed <= 0.0:
            self._found.clear()
            return "WARNING: time is reset!"
        sizes = [size for _, size in self._found]
        rate = sum(sizes) / elapsed
        unit, form = next((unit, form) for limit, unit, form in _UNITS if rate < limit)
        shown, mean, least, most = (
            form.format(value / unit) for value in (rate, fmean(sizes), min(sizes), max(sizes))
        )
        return f"{shown}/s from {len(sizes)} messages\n\tMessage size mean: {mean} min: {least} max: {most}"

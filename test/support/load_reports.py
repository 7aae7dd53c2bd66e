"""Reports of a bridge that say that the machine is busy: other tests may run on it."""

from __future__ import annotations

LOAD_KINDS = frozenset({"schedule.stall", "loop.overrun", "time.slow", "sensor.slow", "source.slow"})


def says_busy(kind: str) -> bool:
    """Return whether a report of a kind, as `time.slow:1`, says no more than that."""
    return kind.partition(":")[0] in LOAD_KINDS

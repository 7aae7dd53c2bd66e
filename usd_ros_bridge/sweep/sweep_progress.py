"""Progress of a sweep: what is done, how fast, and how long the rest takes."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from usd_ros_bridge.sweep.run_record import RunRecord

_WINDOW: Final = 200
"""Runs by which the speed is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """State of a sweep at one moment.

    Attributes:
        total: Number of runs.
        done: Runs that are over, those of before included.
        resumed: Runs that were over before.
        outcomes: Number of runs by outcome.
        running: Runs in progress.
        retries: Attempts that were lost and tried again.
        workers: Process of each worker that is ready, by its number.
        steps: Steps of the runs that ended now.
        elapsed: Seconds since the sweep began, this time.
        runs_per_minute: Speed of the last runs.
        steps_per_second: Speed of the last runs, all workers together.
        remaining: Estimated seconds to the end, None if nothing is known.
        last: The run that ended last, None for none.
    """

    total: int
    done: int
    resumed: int
    outcomes: Mapping[str, int]
    running: int
    retries: int
    workers: Mapping[int, int]
    steps: int
    elapsed: float
    runs_per_minute: float
    steps_per_second: float
    remaining: float | None
    last: RunRecord | None = None


ProgressView = Callable[[SweepProgress], None]


@dataclass
class ProgressMeter:
    """Count runs, and measure their speed.

    Attributes:
        total: Number of runs.
        clock: Seconds, monotonic.
        running: Runs in progress.
        retries: Attempts that were tried again.
        workers: Process of each worker that is ready.
    """

    total: int
    clock: Callable[[], float] = time.monotonic
    running: int = 0
    retries: int = 0
    workers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._outcomes: Counter[str] = Counter()
        self._resumed = 0
        self._steps = 0
        self._ends: deque[tuple[float, int]] = deque([(self._began, 0)], maxlen=_WINDOW + 1)

    def resume(self, records: Iterable[RunRecord]) -> None:
        """Count runs that were over before."""
        self._outcomes.update(record.outcome for record in records)
        self._resumed = self._outcomes.total()

    def begin(self) -> None:
        """Begin to measure: a worker is ready for the first time. Its start does not count as that of a run."""
        if len(self._ends) == 1:
            self._ends[0] = (self.clock(), 0)

    def count(self, record: RunRecord) -> None:
        """Count a run that ended."""
        self._outcomes[record.outcome] += 1
        self._steps += record.steps
        self._ends.append((self.clock(), self._steps))

    def state(self, last: RunRecord | None = None) -> SweepProgress:
        """Return the state now.

        Args:
            last: The run that ended.
        """
        now = self.clock()
        since, steps = self._ends[0]
        seconds = max(now - since, 1e-9)
        runs = len(self._ends) - 1
        done = self._outcomes.total()
        return SweepProgress(
            total=self.total,
            done=done,
            resumed=self._resumed,
            outcomes=dict(self._outcomes),
            running=self.running,
            retries=self.retries,
            workers=dict(self.workers),
            steps=self._steps,
            elapsed=now - self._began,
            runs_per_minute=60.0 * runs / seconds,
            steps_per_second=(self._steps - steps) / seconds,
            remaining=(self.total - done) * seconds / runs if runs else None,
            last=last,
        )

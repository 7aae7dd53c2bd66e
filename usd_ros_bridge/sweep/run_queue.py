"""Queue of a sweep: which runs are still to be made, and how often each was begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from usd_ros_bridge.sweep.run_specs import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttempt:
    """A run as a worker gets it.

    Attributes:
        spec: The run.
        number: 1 for the first attempt.
    """

    spec: RunSpec
    number: int


class RunQueue:
    """Runs that wait. A run whose worker was lost comes next again, a limited number of times."""

    def __init__(self, specs: Iterable[RunSpec], *, retries: int) -> None:
        """Queue all runs.

        Args:
            specs: The runs, in the order in which they begin.
            retries: How often a run is tried again.
        """
        self._waiting = deque(RunAttempt(spec=spec, number=1) for spec in specs)
        self._retries = retries

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> RunAttempt:
        """Return the next run. There must be one."""
        return self._waiting.popleft()

    def put_back(self, attempt: RunAttempt) -> None:
        """Queue a run that never began, before all others."""
        self._waiting.appendleft(attempt)

    def retry(self, attempt: RunAttempt) -> bool:
        """Queue a run whose worker was lost, before all others. Return False if it was tried often enough."""
        if attempt.number > self._retries:
            return False
        self._waiting.appendleft(RunAttempt(spec=attempt.spec, number=attempt.number + 1))
        return True

"""Places: where parts of a change are done, and waited for from a thread beside."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.runtime.between import BetweenTicks

T = TypeVar("T")

_LOOK_S = 0.1


class Places:
    """Has jobs done where they may be done, as long as the bridge is open."""

    def __init__(self, between: BetweenTicks, domains: Domains, *, closed: str) -> None:
        """Stores where.

        Args:
            between: The runtime's.
            domains: Whose callbacks a job may have to wait for.
            closed: What is raised where nobody comes to a job any more.
        """
        self._between = between
        self._domains = domains
        self._reason = closed
        self._closed = False

    def close(self) -> None:
        """Ends the wait for jobs that nobody comes to any more. Idempotent."""
        self._closed = True

    def between_ticks(self, job: Callable[[], T]) -> T:
        """Has a job done between two ticks, and waits for it.

        Raises:
            BridgeError: The bridge is closed.
        """
        result: list[T] = []
        self._wait(self._between.ask(lambda: result.append(job())))
        return result[0]

    def among_callbacks(self, job: Callable[[], None]) -> None:
        """Has a job done where no callback of any domain runs meanwhile: entities may be destroyed there.

        Raises:
            BridgeError: The bridge is closed.
        """
        self._nested(list(self._domains.opened), job)

    def _nested(self, domains: list[Domain], job: Callable[[], None]) -> None:
        done: Future[None] = Future()
        domain, rest = domains[0], domains[1:]

        def run() -> None:
            try:
                if rest:
                    self._nested(rest, job)
                else:
                    job()
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                done.set_exception(error)
            else:
                done.set_result(None)

        domain.defer(run)
        self._wait(done)

    def _wait(self, future: Future[T]) -> T:
        while not wait((future,), _LOOK_S).done:
            if self._closed and future.cancel():
                raise BridgeError(self._reason)
        return future.result()

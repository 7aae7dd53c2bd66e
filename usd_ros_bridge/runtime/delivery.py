"""The way of one subscription's samples: from any thread through the inbox to what takes them in the tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.runtime.inbox import Inbox, Take, Wakeup
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.status import SinkStatus

if TYPE_CHECKING:
    from usd_ros_bridge.runtime.controllers import Route


class Delivery:
    """Where samples of one subscription go. `deliver` may be called from any thread; the tick takes what waits.

    Attributes:
        take: Takes one sample, in the tick.
    """

    def __init__(
        self,
        inbox: Inbox,
        name: str,
        take: Callable[[object], None] | None,
        reason: str = "",
        *,
        route: Route | None = None,
        report: Report | None = None,
    ) -> None:
        """Makes a delivery; the runtime does.

        Args:
            inbox: Where samples wait for the tick.
            name: For people.
            take: Takes one sample in the tick; None where nothing does.
            reason: Why not.
            route: The way to controllers, where `take` is theirs.
            report: For what `take` raises.
        """
        self.name = name
        self._reason = reason
        self._route = route
        self._report = report
        self._inbox = inbox
        self._accepted = take is not None
        self.take: Callable[[object], None] = take or _refuse
        self.errors = 0
        self.last_error = ""
        self._refused = 0

    def become(self, other: Delivery) -> None:
        """Has samples taken as another delivery has them taken, those that wait included; the counters go on."""
        self.name, self._reason, self._route = other.name, other._reason, other._route
        self.take, self._accepted = other.take, other._accepted

    @property
    def accepted(self) -> bool:
        """Whether anything takes the samples."""
        return self._accepted

    @property
    def reason(self) -> str:
        """Why samples are dropped now, "" where something takes them."""
        return self._reason if self._route is None or self._reason else self._route.reason

    def deliver(self, sample: object) -> None:
        """Puts one decoded sample into the inbox; drops and counts it where nothing takes it."""
        if self._accepted:
            self._inbox.put(self, sample)
        else:
            self._refused += 1

    @property
    def wakeup(self) -> Wakeup:
        """What to set when a source that is attached has something."""
        return self._inbox.wakeup

    def attach(self, source: Take) -> None:
        """Lets every tick ask `source` for samples, in the tick's own thread, instead of waiting for `deliver`."""
        self._inbox.add_source(self, source)

    def detach(self, source: Take) -> None:
        """Asks it no more. Idempotent."""
        self._inbox.remove_source(self, source)

    def failed(self, error: Exception) -> None:
        """Counts and reports what `take` raised."""
        self.errors += 1
        self.last_error = describe(error)
        if self._report is not None:
            self._report(f"sink.error:{self.name}", f"what takes {self.name} failed: {self.last_error}")

    def status(self) -> SinkStatus:
        """Returns the counters."""
        counts = self._inbox.counts(self)
        unheard = 0 if self._route is None else self._route.dropped
        return SinkStatus(
            name=self.name,
            received=counts.received + self._refused,
            dropped=counts.dropped + self._refused + unheard,
            errors=self.errors,
            last_error=self.last_error,
            reason=self.reason,
        )


def _refuse(_: object) -> None:
    """Takes what was accepted and arrived before nothing took it any more."""

"""The way of one subscription's samples: from any thread through the inbox to what takes them in the tick."""

from __future__ import annotations

from collections.abc import Callable

from usd_ros_bridge.runtime.inbox import Inbox, Take, Wakeup
from usd_ros_bridge.runtime.status import SinkStatus


class Delivery:
    """Where samples of one subscription go. `deliver` may be called from any thread; the tick takes what waits.

    Attributes:
        take: Takes one sample, in the tick.
    """

    def __init__(
        self, inbox: Inbox, name: str, take: Callable[[object], None] | None, reason: str = ""
    ) -> None:
        """Makes a delivery; the runtime does.

        Args:
            inbox: Where samples wait for the tick.
            name: For people.
            take: Takes one sample in the tick; None where nothing does.
            reason: Why not.
        """
        self.name = name
        self.reason = reason
        self._inbox = inbox
        self._accepted = take is not None
        self.take: Callable[[object], None] = take or _refuse
        self.errors = 0
        self.last_error = ""
        self._refused = 0

    @property
    def accepted(self) -> bool:
        """Whether anything takes the samples."""
        return self._accepted

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

    def status(self) -> SinkStatus:
        """Returns the counters."""
        counts = self._inbox.counts(self)
        return SinkStatus(
            name=self.name,
            received=counts.received + self._refused,
            dropped=counts.dropped + self._refused,
            errors=self.errors,
            last_error=self.last_error,
            reason=self.reason,
        )


def _refuse(_: object) -> None:
    raise AssertionError("nothing takes these samples")

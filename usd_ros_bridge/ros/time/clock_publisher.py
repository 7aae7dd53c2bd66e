"""Publisher of /clock, where the backend owns time. Once per domain, best effort, depth 1."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterable

from rosgraph_msgs.msg import Clock

from usd_ros_bridge.model.message_types import CLOCK
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER
from usd_ros_bridge.ros.wire.publisher_handle import PublisherHandle
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.schedule import RateMeter
from usd_ros_bridge.runtime.snapshot import Snapshot

CLOCK_TOPIC = "/clock"
CLOCK_QOS = QosPlan(reliability="best_effort", durability="volatile", depth=1)
_CHECK_NS = SECOND_NS

# Plain CDR, little endian: builtin_interfaces/Time of whole seconds and nanoseconds.
_LAYOUT = struct.Struct("<4siI")
_LITTLE_ENDIAN = b"\x00\x01\x00\x00"


class ClockPublisher(Publication):
    """Publish bridge time in each domain, also while it stands still."""

    def __init__(self, *, rate: float, now_ns: Callable[[], int], report: Report) -> None:
        """Store the arguments.

        Args:
            rate: Hz of bridge time, for status.
            now_ns: Return bridge time, nanoseconds.
            report: For others that publish /clock, too.
        """
        super().__init__()
        self._rate = rate
        self._now_ns = now_ns
        self._report = report
        self._handles: list[tuple[Domain, PublisherHandle, RateMeter]] = []
        self._data = bytearray(_LAYOUT.size)
        self._next_check_ns = 0

    def open(self, domains: Iterable[Domain]) -> None:
        """Create a publisher in each domain that has none yet."""
        there = {id(domain) for domain, _, _ in self._handles}
        for domain in domains:
            if id(domain) in there:
                continue
            publisher = domain.node.create_publisher(Clock, CLOCK_TOPIC, qos_profiles.profile(CLOCK_QOS))
            self._handles.append((domain, PublisherHandle(publisher), RateMeter()))

    def publish(self, snapshot: Snapshot) -> bool:
        """Publish the time of the state."""
        self._publish(snapshot.time_ns)
        return True

    def publish_now(self) -> None:
        """Publish bridge time at once: its rate does not pass while time stands still."""
        self._publish(self._now_ns())

    def reset(self) -> None:
        """Publish the time that starts over."""
        self.publish_now()

    def _publish(self, time_ns: int) -> None:
        _LAYOUT.pack_into(self._data, 0, _LITTLE_ENDIAN, *divmod(time_ns, SECOND_NS))
        for _, handle, meter in self._handles:
            handle.send(self._data)
            meter.mark(time_ns)
        now = time.monotonic_ns()
        if now >= self._next_check_ns:
            self._next_check_ns = now + _CHECK_NS
            self._find_other_clocks()

    def close_in(self, domains: Collection[Domain]) -> None:
        """Destroy the publishers in some domains."""
        left = [each for each in self._handles if each[0] in domains]
        self._handles = [each for each in self._handles if each[0] not in domains]
        for domain, handle, _ in left:
            handle.close(domain.destroy)

    def close(self) -> None:
        """Destroy the publishers. Idempotent."""
        handles, self._handles = self._handles, []
        for domain, handle, _ in handles:
            handle.close(domain.destroy)

    def status(self, time_ns: int) -> list[InterfaceStatus]:
        """Return a row of the status for each domain, at a bridge time in nanoseconds."""
        return [self._row(domain, handle, meter, time_ns) for domain, handle, meter in tuple(self._handles)]

    def _row(
        self, domain: Domain, handle: PublisherHandle, meter: RateMeter, time_ns: int
    ) -> InterfaceStatus:
        rate, matched = meter.rate(time_ns), handle.subscriptions()
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path="",
            name=handle.publisher.topic_name,
            type=CLOCK,
            domain_id=domain.domain_id,
            authored_rate=self._rate,
            achieved_rate=rate,
            matched=matched,
            count=meter.count,
            state="active" if rate > 0.0 else "idle",
            reason="" if matched else NO_SUBSCRIBER,
        )

    def _find_other_clocks(self) -> None:
        """Report a second clock: nodes that follow both see time jump back and forth."""
        for domain, handle, _ in self._handles:
            name = handle.publisher.topic_name
            if domain.node.count_publishers(name) > 1:
                self._report(
                    f"clock.taken:{domain.domain_id}",
                    f"another node publishes {name} in domain {domain.domain_id}, too: whoever follows it sees time "
                    "jump back and forth (publish_clock:=false switches this one off)",
                )

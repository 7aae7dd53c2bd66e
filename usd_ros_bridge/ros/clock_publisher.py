"""/clock: what everybody else's time is where the bridge owns it. Once per domain, best effort, depth 1."""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Iterable

from rosgraph_msgs.msg import Clock

from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.cdr import Outlet
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.schedule import SECOND_NS
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import RateMeter

CLOCK = "/clock"
CLOCK_TYPE = "rosgraph_msgs/msg/Clock"
CLOCK_QOS = QosPlan(reliability="best_effort", durability="volatile", depth=1)
_LOOK_NS = SECOND_NS

# Plain CDR, little endian: builtin_interfaces/Time of whole seconds and nanoseconds.
_LAYOUT = struct.Struct("<4siI")
_LITTLE_ENDIAN = b"\x00\x01\x00\x00"


class ClockPublisher:
    """An `Emitter` that tells bridge time in each domain, also while it stands still."""

    def __init__(self, *, rate: float, report: Report) -> None:
        """Has no domain yet.

        Args:
            rate: Hz of bridge time, for status.
            report: For others that publish /clock, too.
        """
        self._rate = rate
        self._report = report
        self._outlets: list[tuple[Domain, Outlet, RateMeter]] = []
        self._data = bytearray(_LAYOUT.size)
        self._look_ns = 0

    def open(self, domains: Iterable[Domain]) -> None:
        """Creates a publisher in each domain that has none yet."""
        there = {id(domain) for domain, _, _ in self._outlets}
        for domain in domains:
            if id(domain) in there:
                continue
            publisher = domain.node.create_publisher(Clock, CLOCK, qos.profile(CLOCK_QOS))
            self._outlets.append((domain, Outlet(publisher), RateMeter()))

    def emit(self, snapshot: Snapshot) -> bool:
        """Tells the time of the state."""
        self.tell(snapshot.time_ns)
        return True

    def tell(self, time_ns: int) -> None:
        """Tells the time.

        Args:
            time_ns: Bridge time, nanoseconds.
        """
        _LAYOUT.pack_into(self._data, 0, _LITTLE_ENDIAN, *divmod(time_ns, SECOND_NS))
        for _, outlet, meter in self._outlets:
            outlet.send(self._data)
            meter.mark(time_ns)
        now = time.monotonic_ns()
        if now >= self._look_ns:
            self._look_ns = now + _LOOK_NS
            self._look_for_others()

    def leave(self, domains: Collection[Domain]) -> None:
        """Destroys the publishers in domains that nothing else lives in any more."""
        left = [each for each in self._outlets if each[0] in domains]
        self._outlets = [each for each in self._outlets if each[0] not in domains]
        for domain, outlet, _ in left:
            outlet.close(domain.destroy)

    def close(self) -> None:
        """Destroys the publishers. Idempotent."""
        outlets, self._outlets = self._outlets, []
        for domain, outlet, _ in outlets:
            outlet.close(domain.destroy)

    def status(self, time_ns: int) -> list[InterfaceStatus]:
        """Returns a row for each domain, at a bridge time in nanoseconds."""
        return [self._row(domain, outlet, meter, time_ns) for domain, outlet, meter in tuple(self._outlets)]

    def _row(self, domain: Domain, outlet: Outlet, meter: RateMeter, time_ns: int) -> InterfaceStatus:
        rate, matched = meter.rate(time_ns), outlet.subscriptions()
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path="",
            name=outlet.publisher.topic_name,
            type=CLOCK_TYPE,
            domain_id=domain.domain_id,
            authored_rate=self._rate,
            achieved_rate=rate,
            matched=matched,
            count=meter.count,
            state="active" if rate > 0.0 else "idle",
            reason="" if matched else NO_SUBSCRIBER,
        )

    def _look_for_others(self) -> None:
        """Reports a second clock: who follows both sees time jump back and forth."""
        for domain, outlet, _ in self._outlets:
            name = outlet.publisher.topic_name
            if domain.node.count_publishers(name) > 1:
                self._report(
                    f"clock.taken:{domain.domain_id}",
                    f"another node publishes {name} in domain {domain.domain_id}, too: whoever follows it sees time "
                    "jump back and forth (publish_clock:=false switches this one off)",
                )

"""Domains without a middleware: publishers that only a recording receives, for runs without a participant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.message_tap import MessageTap
from usd_ros_bridge.ros.publisher_handle import PublisherHandle, TapHandle


class OfflineDomain(Domain):
    """A domain in which nobody is: publishers write to the tap, and jobs run at once."""

    def __init__(self, number: int, node_name: str) -> None:
        """Args: number: The domain's id. node_name: Name for topics that begin with ~."""
        # Not the constructor of the base, which needs a node.
        self.node = None
        self.owned = False
        self.tap: MessageTap | None = None
        self._number = number
        self._node_name = node_name

    @property
    def domain_id(self) -> int:
        """The domain's id."""
        return self._number

    @property
    def threaded(self) -> bool:
        """Return False: nothing waits for a thread."""
        return False

    @property
    def deferred(self) -> bool:
        """Return False: jobs run at once."""
        return False

    def open_publisher(
        self, message_class: Any, topic: str, profile: Any, *, event_callbacks: Any = None
    ) -> PublisherHandle:
        """Return a handle that writes to the tap; arguments as those of `Domain.open_publisher`."""
        del event_callbacks
        name = self.resolve(topic)
        channel = None
        if self.tap is not None:
            channel = self.tap.open_channel(
                topic=name, message_class=message_class, profile=profile, domain_id=self._number
            )
        return TapHandle(name, channel)

    def resolve(self, topic: str) -> str:
        """Return the absolute name of a topic."""
        if topic.startswith("~/"):
            return f"/{self._node_name}{topic[1:]}"
        return topic if topic.startswith("/") else f"/{topic}"

    def defer(self, job: Callable[[], None], *, urgent: bool = True) -> None:
        """Run a job."""
        del urgent
        job()

    def destroy(self, entity: Any) -> None:
        """Do nothing: there are no entities."""

    def start(self) -> None:
        """Do nothing: there are no callbacks."""

    def poll(self, *, callbacks: bool = True) -> None:
        """Do nothing: there are no callbacks."""

    def stop(self) -> None:
        """Do nothing: there is no thread."""

    def close(self) -> None:
        """Do nothing: there is no node."""


class OfflineDomains(Domains):
    """Domains of a run without a middleware."""

    def __init__(self, tap: MessageTap, *, node_name: str, domain_id: int = 0) -> None:
        """Args: tap: Gets all messages. node_name: Name for topics that begin with ~. domain_id: The default domain."""
        self.polled = ()
        self._tap = tap
        self._threaded = False
        self._node_name = node_name
        self._domains: dict[int, Domain] = {}
        self._main: Domain | None = self._offline(domain_id)

    def get(self, domain_id: int | None) -> Domain:
        """Return the domain with that id, None for the default one."""
        main = self.main
        if domain_id is None:
            return main
        return self._domains.get(domain_id) or self._offline(domain_id)

    def _offline(self, domain_id: int) -> Domain:
        domain = self._domains[domain_id] = OfflineDomain(domain_id, self._node_name)
        domain.tap = self._tap
        return domain

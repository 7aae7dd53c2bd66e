"""What the runtime asks of the outer layer: protocols that ros/ implements."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from usd_ros_bridge.model.state import Commands
from usd_ros_bridge.runtime.snapshot import Snapshot


@runtime_checkable
class Emitter(Protocol):
    """Sends something of a snapshot out: a publisher, a transform broadcaster."""

    def emit(self, snapshot: Snapshot) -> bool:
        """Sends what it is there for; called from the thread that ticks, when it is due.

        Args:
            snapshot: The state of this tick. It is reused at the next tick: neither it nor its arrays are kept.

        Returns:
            Whether anything was published.
        """
        ...


@runtime_checkable
class Sink(Protocol):
    """Turns samples that arrived into commands."""

    def apply(self, sample: object, commands: Commands) -> None:
        """Writes what `sample` asks for into `commands`; called from the thread that ticks."""
        ...

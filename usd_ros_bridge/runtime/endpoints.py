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


@runtime_checkable
class SceneAccess(Protocol):
    """What may be done to the stage while the bridge runs; called from the thread that ticks. usd/ implements it."""

    def switchable(self, prim: str) -> tuple[str, ...]:
        """Returns the prim paths of what services at `prim` switch: lights at or beside it, else visible geometry."""
        ...

    def switch(self, prim: str, visible: bool | None) -> tuple[bool, str]:
        """Shows or hides what `switchable` names, on the session layer; None for the opposite of what is.

        Returns:
            Whether it was done, and what became of it or why not, for people.
        """
        ...

"""What the runtime asks of the outer layer: protocols that ros/ implements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

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


class Chorus(Protocol):
    """Asks several emitters at once."""

    def __call__(self, snapshot: Snapshot) -> Sequence[int] | None:
        """Sends what they are there for, as `Emitter.emit`.

        Returns:
            Which of them published, by their places in the chorus; None where they are to be asked one after another.
        """
        ...


@runtime_checkable
class RowEmitter(Emitter, Protocol):
    """An emitter that can be asked along with others whose messages are made with its own."""

    @property
    def row(self) -> object | None:
        """What those have in common that can be asked along with it; None while nobody can.

        Where it is another one than before, a chorus of the old row returns None, or sends what each would send.
        """
        ...

    def chorus(self, emitters: Sequence[Any], failed: Callable[[int, Exception], None]) -> Chorus:
        """Returns what asks emitters at once.

        Args:
            emitters: Those of this emitter's row that are asked, itself among them.
            failed: Told of each that could not publish, by its place among them.
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
        """Returns the prim paths of what services at `prim` switch: lights, else geometry, there or above it."""
        ...

    def switch(self, prim: str, visible: bool | None) -> tuple[bool, str]:
        """Shows or hides what `switchable` names, on the session layer; None for the opposite of what is.

        Returns:
            Whether it was done, and what became of it or why not, for people.
        """
        ...

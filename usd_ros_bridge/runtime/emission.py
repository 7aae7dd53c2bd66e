"""An emission: an emitter and its counters."""

from __future__ import annotations

from collections.abc import Callable

from usd_ros_bridge.runtime.endpoints import Emitter, RowEmitter
from usd_ros_bridge.runtime.gate import Gate
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import EmitterStatus, RateMeter


class Emission(RateMeter):
    """An emitter and its counters: one object, because a tick may look at thousands.

    Attributes:
        name: For status and reports.
        emitter: Who is asked.
        emit: The emitter's, while its gate is open.
        row: Returns the emitter's row while its gate is open; None where it has none.
        asked_rate: Hz, None for every tick.
        entry: In the schedule, -1 where it has none.
        errors: How often it raised.
        last_error: One line, "" where it never did.
        removed: Whether it is asked no more.
    """

    __slots__ = (
        "_changed", "_row_emitter", "asked_rate", "emit", "emitter", "entry", "errors", "gate", "last_error", "name",
        "removed",
    )  # fmt: skip

    def __init__(
        self, name: str, emitter: Emitter, rate: float | None, entry: int, gate: Gate | None,
        changed: Callable[[], None],
    ) -> None:  # fmt: skip
        """Has counted nothing yet.

        Args:
            name: For status and reports.
            emitter: Who is asked.
            rate: Hz, None for every tick.
            entry: In the schedule, -1 where it has none.
            gate: While it is closed, the emitter is not asked; None for none.
            changed: Called when the gate turns.
        """
        super().__init__()
        self.name = name
        self.emitter = emitter
        self.emit: Callable[[Snapshot], bool] = emitter.emit
        self.asked_rate = rate
        self.entry = entry
        self.errors = 0
        self.last_error = ""
        self.removed = False
        self._changed = changed
        # Once: to look whether an object has what a protocol asks for takes longer than to use it.
        self._row_emitter = emitter if isinstance(emitter, RowEmitter) else None
        self.gate = gate
        if gate is not None:
            gate.watch(self._gate_turned)

    def set_gate(self, gate: Gate | None) -> None:
        """Is behind another gate from here on, None for none."""
        if gate is self.gate:
            return
        if self.gate is not None:
            self.gate.leave(self._gate_turned)
        self.gate = gate
        if gate is not None:
            gate.watch(self._gate_turned)
        else:
            self.emit = self.emitter.emit

    def row(self) -> object | None:
        """Returns the row of emitters that the emitter is in; None where it has none, or is not asked."""
        emitter = self._row_emitter
        return emitter.row if emitter is not None and (self.gate is None or self.gate.open) else None

    def remove(self) -> None:
        """Is asked no more."""
        self.removed = True
        if self.gate is not None:
            self.gate.leave(self._gate_turned)

    def status(self, time_ns: int, skipped: int) -> EmitterStatus:
        """Returns the counters at bridge time `time_ns`, from any thread."""
        return EmitterStatus(
            name=self.name,
            rate=self.asked_rate,
            published=self.count,
            achieved_rate=self.rate(time_ns),
            skipped=skipped,
            errors=self.errors,
            last_error=self.last_error,
            asked=self.gate is None or self.gate.open,
        )

    def _gate_turned(self, is_open: bool) -> None:
        """Asks the emitter from now on, or not."""
        self.emit = self.emitter.emit if is_open else _nothing
        self._changed()


def _nothing(_: Snapshot) -> bool:
    return False

"""Emissions: who is asked to publish at which tick, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.runtime.endpoints import Emitter
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.schedule import Schedule
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import EmitterStatus, RateMeter

LOOK_AGAIN_NS = 100_000_000
"""How long an emitter that waits for an arrival goes unasked without one: it may also wait for a subscriber."""


@dataclass(slots=True, eq=False)
class _Emission:
    """An emitter and its counters."""

    name: str
    emitter: Emitter
    rate: float | None
    entry: int
    meter: RateMeter = field(default_factory=RateMeter)
    errors: int = 0
    last_error: str = ""
    removed: bool = False


class Emissions:
    """Asks emitters at their rates. One that raises is counted and reported once, and stops no other.

    Attributes:
        quiet_until_ns: Bridge time before which no emitter is asked anything unless something arrives; 0 where one is
            asked at every tick, or where there is none: then the caller looks at snapshots itself.
    """

    def __init__(self, report: Report) -> None:
        """Has no emitters yet.

        Args:
            report: For emitters that raise, and for rates that cannot be met.
        """
        self.quiet_until_ns = 0
        self._report = report
        self._schedule = Schedule(report)
        self._all: list[_Emission] = []
        self._scheduled: dict[int, _Emission] = {}
        self._every_tick: list[_Emission] = []
        self._waiting: dict[int, _Emission] = {}

    @property
    def next_due_ns(self) -> int | None:
        """Bridge time at which the next emitter is due; 0 means at once, None that none ever is."""
        return self._schedule.next_due_ns

    @property
    def shortest_period_ns(self) -> int | None:
        """Nanoseconds between two ticks that the fastest emitter asks for; None where none has a rate."""
        return self._schedule.shortest_period_ns

    def add(self, emitter: Emitter, *, name: str, rate: float | None = None) -> None:
        """Adds an emitter; `rate` in Hz, None asks it at every tick."""
        entry = -1 if rate is None else self._schedule.add(name, rate)
        emission = _Emission(name, emitter, rate, entry)
        self.quiet_until_ns = 0
        self._all.append(emission)
        if rate is None:
            self._every_tick.append(emission)
        else:
            self._scheduled[entry] = emission

    def remove(self, emitter: Emitter) -> None:
        """Removes an emitter; one that is not there is ignored."""
        for emission in [e for e in self._all if e.emitter is emitter]:
            emission.removed = True
            self._waiting.pop(emission.entry, None)
            self._all.remove(emission)
            if emission.entry < 0:
                self._every_tick.remove(emission)
            else:
                self._schedule.remove(emission.entry)
                del self._scheduled[emission.entry]

    def due(self, time_ns: int, previous_ns: int | None = None) -> Sequence[int]:
        """Returns what is due at a tick, for `emit`, in the order of addition.

        Args:
            time_ns: The tick.
            previous_ns: The tick before, where it was a quiet one and this was not called.
        """
        self.quiet_until_ns = 0
        return self._schedule.due(time_ns, previous_ns)

    def emit(self, snapshot: Snapshot, entries: Sequence[int], *, time_ns: int, keep_waiting: bool) -> None:
        """Asks those that are due.

        Args:
            snapshot: The state of this tick.
            entries: What `due` returned for this tick.
            time_ns: Bridge time of this tick, nanoseconds.
            keep_waiting: Ask those that had nothing new again at each tick, until they have: for states that arrive.
                Their deadlines wake nobody meanwhile.
        """
        for emission in tuple(self._every_tick):
            self._emit(emission, snapshot)
        if self._waiting:
            self._emit_waiting(snapshot, entries, time_ns)
        state_ns = snapshot.time_ns
        for entry in entries:
            # An emitter that is asked may remove another.
            due = self._scheduled.get(entry)
            if due is None:
                continue
            # Spelled out, and not by `_emit`: thousands may be due at once.
            try:
                if due.emitter.emit(snapshot):
                    due.meter.mark(state_ns)
                    continue
            except Exception as error:  # noqa: BLE001 - the runtime's edge
                self._count_error(due, error)
            if keep_waiting:
                self._waiting[entry] = due
                self._schedule.postpone(entry, time_ns + LOOK_AGAIN_NS)
        asked_anyway = self._every_tick or self._waiting or not self._all
        self.quiet_until_ns = 0 if asked_anyway else self._schedule.earliest_ns

    def reset(self) -> None:
        """Makes everything due again, at any time."""
        self._schedule.reset()
        self._waiting.clear()
        self.quiet_until_ns = 0

    def status(self, time_ns: int) -> tuple[EmitterStatus, ...]:
        """Returns the counters at bridge time `time_ns`, from any thread."""
        return tuple(
            EmitterStatus(
                name=emission.name,
                rate=emission.rate,
                published=emission.meter.count,
                achieved_rate=emission.meter.rate(time_ns),
                skipped=self._schedule.skipped(emission.entry) if emission.entry >= 0 else 0,
                errors=emission.errors,
                last_error=emission.last_error,
            )
            for emission in tuple(self._all)
        )

    def _emit_waiting(self, snapshot: Snapshot, due: Sequence[int], time_ns: int) -> None:
        """Asks those again that had nothing new when they were due: a state that arrives is shown at once.

        Their rate is an upper bound, as robot_state_publisher's publish_frequency is: from here they count anew.
        """
        asked = frozenset(due)
        for entry in tuple(self._waiting):
            emission = self._waiting[entry]
            if entry in asked:
                del self._waiting[entry]
                continue
            if emission.removed or self._emit(emission, snapshot):
                del self._waiting[entry]
                self._schedule.postpone(entry, time_ns)

    def _emit(self, emission: _Emission, snapshot: Snapshot) -> bool:
        if emission.removed:
            return False
        try:
            if emission.emitter.emit(snapshot):
                emission.meter.mark(snapshot.time_ns)
                return True
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self._count_error(emission, error)
        return False

    def _count_error(self, emission: _Emission, error: Exception) -> None:
        """Counts and reports what an emitter raised: one publisher's fault stops nothing else."""
        emission.errors += 1
        emission.last_error = describe(error)
        self._report(
            f"emitter.error:{emission.name}", f"publishing {emission.name} failed: {emission.last_error}"
        )

"""Emissions: who is asked to publish at which tick, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.runtime.arrivals import Arrivals
from usd_ros_bridge.runtime.endpoints import Emitter
from usd_ros_bridge.runtime.gate import Gate
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.schedule import NEVER_NS, Schedule
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import EmitterStatus, RateMeter


class _Emission(RateMeter):
    """An emitter and its counters: one object, because a tick may look at thousands.

    Attributes:
        emit: The emitter's, while its gate is open.
        asked_rate: Hz, None for every tick.
    """

    __slots__ = ("asked_rate", "emit", "emitter", "entry", "errors", "gate", "last_error", "name", "removed")

    def __init__(
        self, name: str, emitter: Emitter, rate: float | None, entry: int, gate: Gate | None = None
    ) -> None:
        super().__init__()
        self.name = name
        self.emitter = emitter
        self.emit: Callable[[Snapshot], bool] = emitter.emit
        self.gate = gate
        if gate is not None:
            gate.watch(self.turn)
        self.asked_rate = rate
        self.entry = entry
        self.errors = 0
        self.last_error = ""
        self.removed = False

    def turn(self, is_open: bool) -> None:
        """Asks the emitter from now on, or not."""
        self.emit = self.emitter.emit if is_open else _nothing


class Emissions:
    """Asks emitters at their rates. One that raises is counted and reported once, and stops no other.

    Attributes:
        wake_ns: Bridge time at which a tick is needed; 0 means at once, NEVER_NS not before something arrives.
        quiet_until_ns: Bridge time before which no emitter is asked anything unless something arrives; 0 where one is
            asked at every tick, or where there is none: then the caller looks at snapshots itself.
    """

    def __init__(self, report: Report) -> None:
        """Has no emitters yet.

        Args:
            report: For emitters that raise, and for rates that cannot be met.
        """
        self.wake_ns = NEVER_NS
        self.quiet_until_ns = 0
        self._report = report
        self._schedule = Schedule(report)
        self._all: dict[_Emission, None] = {}
        # By entry in the schedule.
        self._scheduled: list[_Emission | None] = []
        self._every_tick: list[_Emission] = []
        self._arrivals: Arrivals[_Emission] = Arrivals()
        self._on_arrival = False
        self._due: Sequence[int] = ()
        self._due_by_arrival: Sequence[_Emission] = ()

    @property
    def shortest_period_ns(self) -> int | None:
        """Nanoseconds between two ticks that the fastest emitter asks for; None where none has a rate."""
        return self._schedule.shortest_period_ns

    def add(
        self,
        emitter: Emitter,
        *,
        name: str,
        rate: float | None = None,
        on_arrival: bool = False,
        gate: Gate | None = None,
    ) -> None:
        """Adds an emitter.

        Args:
            emitter: Asked when it is due.
            name: For status and reports.
            rate: Hz; None asks it at every tick.
            on_arrival: It shows what arrives: it is asked when something did, at most at its rate.
            gate: While it is closed, the emitter is not asked; None for none.
        """
        scheduled = rate is not None and not on_arrival
        entry = self._schedule.add(name, rate) if rate is not None and scheduled else -1
        emission = _Emission(name, emitter, rate, entry, gate)
        self._all[emission] = None
        if rate is None:
            self._every_tick.append(emission)
        elif scheduled:
            self._scheduled.append(emission)
        else:
            self._arrivals.add(emission, rate)
            self._on_arrival = True
        self.move_on()

    def remove(self, emitter: Emitter) -> None:
        """Removes an emitter; one that is not there is ignored."""
        for emission in [e for e in self._all if e.emitter is emitter]:
            emission.removed = True
            if emission.gate is not None:
                emission.gate.leave(emission.turn)
            del self._all[emission]
            self._arrivals.remove(emission)
            if emission.asked_rate is None:
                self._every_tick.remove(emission)
            elif emission.entry >= 0:
                self._schedule.remove(emission.entry)
                self._scheduled[emission.entry] = None
            self.move_on()

    def choose(self, time_ns: int, *, previous_ns: int | None = None, arrived: bool = False) -> None:
        """Finds out who is due at a tick; then comes `emit`, or `move_on` where nothing comes of the tick.

        Args:
            time_ns: Bridge time of the tick, nanoseconds.
            previous_ns: The tick before, where it was a quiet one and this was not called.
            arrived: Whether anything arrived in the tick.
        """
        schedule = self._schedule
        self._due = schedule.due(time_ns, previous_ns) if time_ns >= schedule.earliest_ns else ()
        if self._on_arrival:
            self._due_by_arrival = self._arrivals.due(time_ns, arrived=arrived)

    def emit(self, snapshot: Snapshot, time_ns: int) -> None:
        """Asks those that `choose` found, in the order of addition and last those that show what arrives.

        Args:
            snapshot: The state of this tick.
            time_ns: Bridge time of this tick, nanoseconds.
        """
        for emission in tuple(self._every_tick):
            self._emit(emission, snapshot)
        state_ns = snapshot.time_ns
        for entry in self._due:
            # An emitter that is asked may remove another.
            due = self._scheduled[entry]
            if due is None:
                continue
            # Spelled out, and not by `_emit`: thousands may be due at once.
            try:
                if due.emit(snapshot):
                    due.mark(state_ns)
            except Exception as error:  # noqa: BLE001 - the runtime's edge
                self._count_error(due, error)
        if self._on_arrival:
            for emission in self._due_by_arrival:
                if self._emit(emission, snapshot):
                    self._arrivals.shown(emission, time_ns)
        self.move_on()

    def move_on(self) -> None:
        """Finds out when a tick is needed next."""
        wake_ns = self._schedule.earliest_ns
        if self._on_arrival and (arrival_ns := self._arrivals.wake_ns) < wake_ns:
            wake_ns = arrival_ns
        self.wake_ns = wake_ns
        self.quiet_until_ns = 0 if self._every_tick or not self._all else wake_ns

    def reset(self) -> None:
        """Makes everything due again, at any time."""
        self._schedule.reset()
        self._arrivals.reset()
        self.move_on()

    def status(self, time_ns: int) -> tuple[EmitterStatus, ...]:
        """Returns the counters at bridge time `time_ns`, from any thread."""
        return tuple(
            EmitterStatus(
                name=emission.name,
                rate=emission.asked_rate,
                published=emission.count,
                achieved_rate=emission.rate(time_ns),
                skipped=self._schedule.skipped(emission.entry) if emission.entry >= 0 else 0,
                errors=emission.errors,
                last_error=emission.last_error,
            )
            for emission in tuple(self._all)
        )

    def _emit(self, emission: _Emission, snapshot: Snapshot) -> bool:
        if emission.removed:
            return False
        try:
            if emission.emit(snapshot):
                emission.mark(snapshot.time_ns)
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


def _nothing(_: Snapshot) -> bool:
    return False

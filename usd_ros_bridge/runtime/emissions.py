"""Emissions: who is asked to publish at which tick, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.runtime.arrivals import Arrivals
from usd_ros_bridge.runtime.emission import Emission
from usd_ros_bridge.runtime.endpoints import Emitter
from usd_ros_bridge.runtime.gate import Gate
from usd_ros_bridge.runtime.lanes import Lane, Lanes
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.schedule import NEVER_NS, Schedule
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import EmitterStatus, mark_each


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
        self._all: dict[Emission, None] = {}
        # By entry in the schedule.
        self._scheduled: dict[int, Emission] = {}
        self._every_tick: list[Emission] = []
        self._lanes = Lanes(partial(_count_error, report))
        self._arrivals: Arrivals[Emission] = Arrivals()
        self._on_arrival = False
        self._due: Sequence[int] = ()
        self._due_by_arrival: Sequence[Emission] = ()

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
        emission = Emission(name, emitter, rate, entry, gate, self._lanes.forget)
        self._all[emission] = None
        if rate is None:
            self._every_tick.append(emission)
        elif scheduled:
            self._scheduled[entry] = emission
        else:
            self._arrivals.add(emission, rate)
            self._on_arrival = True
        self._lanes.forget()
        self.move_on()

    def remove(self, emitter: Emitter) -> None:
        """Removes an emitter; one that is not there is ignored."""
        for emission in [e for e in self._all if e.emitter is emitter]:
            emission.remove()
            del self._all[emission]
            self._arrivals.remove(emission)
            if emission.asked_rate is None:
                self._every_tick.remove(emission)
            elif emission.entry >= 0:
                self._schedule.remove(emission.entry)
                del self._scheduled[emission.entry]
            self._lanes.forget()
            self.move_on()

    def change(self, emitter: Emitter, *, rate: float | None, on_arrival: bool) -> None:
        """Changes when an emitter is asked, arguments as those of `add`; where they are as they were, nothing changes.

        Its counters go on. With another rate it is due at the next tick.
        """
        for emission in [each for each in self._all if each.emitter is emitter]:
            arrives = rate is not None and on_arrival
            if emission.asked_rate == rate and arrives == (rate is not None and emission.entry < 0):
                continue
            if emission.entry >= 0 and rate is not None and not arrives:
                self._schedule.set_rate(emission.entry, rate)
                emission.asked_rate = rate
            else:
                count, errors, last_error = emission.count, emission.errors, emission.last_error
                self.remove(emitter)
                self.add(emitter, name=emission.name, rate=rate, on_arrival=on_arrival, gate=emission.gate)
                added = next(reversed(self._all))
                added.count, added.errors, added.last_error = count, errors, last_error
            self._lanes.forget()
            self.move_on()

    def set_gates(self, find: Callable[[str], Gate | None]) -> None:
        """Gives every emitter the gate that it has from here on.

        Args:
            find: Returns the gate of an emitter by its name, None for none.
        """
        for emission in self._all:
            emission.set_gate(find(emission.name))
        self._lanes.forget()

    def regroup(self) -> None:
        """Finds out before long who is asked together: to be called when a `RowEmitter` has got a row."""
        self._lanes.grow()

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
        """Asks those that `choose` found, and last those that show what arrives.

        They are asked in the order of addition. Those in a row are asked at once, where the first of them is.

        Args:
            snapshot: The state of this tick.
            time_ns: Bridge time of this tick, nanoseconds.
        """
        if self._lanes.useful(self._all):
            due = self._due
            self._emit_lanes(self._lanes.of("every tick", lambda: self._every_tick), snapshot)
            self._emit_lanes(self._lanes.of(tuple(due), lambda: self._of(due)), snapshot)
        else:
            for emission in tuple(self._every_tick):
                self._emit(emission, snapshot)
            self._emit_due(snapshot)
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

    def close(self) -> None:
        """Lets go of all emitters. Idempotent."""
        for emitter in [emission.emitter for emission in self._all]:
            self.remove(emitter)
        self._due = self._due_by_arrival = ()
        self._lanes.clear()

    def set_clock_period(self, period_ns: int) -> None:
        """Change the period of the clock that the ticks follow, nanoseconds; 0 where ticks come when asked for."""
        self._schedule.set_clock_period(period_ns)
        self._arrivals.clock_period_ns = period_ns
        self.move_on()

    def reset(self) -> None:
        """Makes everything due again, at any time."""
        self._schedule.reset()
        self._arrivals.reset()
        self._lanes.forget()
        self.move_on()

    def status(self, time_ns: int) -> tuple[EmitterStatus, ...]:
        """Returns the counters at bridge time `time_ns`, from any thread."""
        return tuple(self.status_of(emission, time_ns) for emission in tuple(self._all))

    def named(self) -> dict[str, Emission]:
        """Returns all by name, from any thread."""
        return {emission.name: emission for emission in tuple(self._all)}

    def status_of(self, emission: Emission, time_ns: int) -> EmitterStatus:
        """Returns the counters of one at bridge time `time_ns`, from any thread."""
        return emission.status(time_ns, self._schedule.skipped(emission.entry) if emission.entry >= 0 else 0)

    def _of(self, entries: Sequence[int]) -> list[Emission]:
        return [self._scheduled[entry] for entry in entries if entry in self._scheduled]

    def _emit_due(self, snapshot: Snapshot) -> None:
        state_ns = snapshot.time_ns
        for entry in self._due:
            # An emitter that is asked may remove another.
            due = self._scheduled.get(entry)
            if due is None:
                continue
            # Spelled out, and not by `_emit`: hundreds may be due at once.
            try:
                if due.emit(snapshot):
                    due.mark(state_ns)
            except Exception as error:  # noqa: BLE001 - the runtime's edge
                _count_error(self._report, due, error)

    def _emit_lanes(self, lanes: Iterable[Lane], snapshot: Snapshot) -> None:
        state_ns = snapshot.time_ns
        for lane in lanes:
            emissions, sent = lane.emissions, None
            # Those that were asked before may have changed whom to ask.
            if lane.chorus is not None and self._lanes.fresh:
                # Whoever is at fault raises again when it is asked alone, and is counted then.
                with suppress(Exception):
                    sent = lane.chorus(snapshot)
            if sent is None:
                for emission in emissions:
                    self._emit(emission, snapshot)
            else:
                mark_each(emissions, sent, state_ns)

    def _emit(self, emission: Emission, snapshot: Snapshot) -> bool:
        if emission.removed:
            return False
        try:
            if emission.emit(snapshot):
                emission.mark(snapshot.time_ns)
                return True
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            _count_error(self._report, emission, error)
        return False


def _count_error(report: Report, emission: Emission, error: Exception) -> None:
    """Counts and reports what an emitter raised: one publisher's fault stops nothing else."""
    emission.errors += 1
    emission.last_error = describe(error)
    report(f"emitter.error:{emission.name}", f"publishing {emission.name} failed: {emission.last_error}")

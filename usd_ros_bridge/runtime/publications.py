"""Publications: publish what is due in a tick, alone or in batches, and count it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.schedule import NEVER_NS, Arrivals, RateMeter, Schedule
from usd_ros_bridge.runtime.snapshot import Snapshot

Publish = Callable[[Snapshot], object]
"""Publishes what a snapshot shows."""

EVERY_TICK = "every tick"
"""Key of what is published in every tick."""
MAX_PROGRAMS = 32
"""Sets of publications that are due together to remember: as many as the meetings of five rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationStatus:
    """Counters of one publication.

    Attributes:
        name: As given to `Runtime.add_publication`: a prim's path or a topic.
        rate: Hz asked for; None: every tick.
        published: Messages since the runtime was opened.
        achieved_rate: Hz over the last seconds of bridge time, 0 where nothing was published in them.
        skipped: Periods that passed without a tick of their own.
        errors: How often it raised.
        last_error: One line, "" where it never raised.
        enabled: Whether it may publish: not while the controller that it shows is inactive.
    """

    name: str
    rate: float | None
    published: int
    achieved_rate: float
    skipped: int
    errors: int
    last_error: str
    enabled: bool = True


class Publication(RateMeter):
    """One publisher in the tick, and its counters. Subclasses override `publish`.

    Attributes:
        name: Prim path or topic, for status and reports; set by `Publications.add`.
        target_rate: Hz; None: every tick.
        enabled: Whether it may publish: not while its controller is inactive.
        errors: Number of exceptions.
        last_error: The last of them in one line, "" before the first.
        batch_key: Equal for publications that `make_batch` can put together; None: it is published alone.
        sequence_key: Equal for publications that `make_sequence` publishes one after another; None: `publish` does.
    """

    __slots__ = ("enabled", "entry", "errors", "is_added", "last_error", "name", "target_rate")

    batch_key: Hashable | None = None
    sequence_key: Hashable | None = None

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self.target_rate: float | None = None
        self.enabled = True
        self.errors = 0
        self.last_error = ""
        self.entry = -1
        self.is_added = False

    def publish(self, snapshot: Snapshot) -> bool:
        """Publish what a snapshot shows; called in the tick, when it is due.

        Args:
            snapshot: State of this tick. The next tick reuses it: keep neither it nor its arrays.

        Returns:
            Whether anything was published.
        """
        raise NotImplementedError

    def reset(self) -> None:
        """Allow the last stamp again: time starts over."""

    def make_batch(self, members: Sequence[Publication], publications: Publications) -> Publish:
        """Return a function that publishes publications with the same `batch_key` as each of them would, and counts it.

        Args:
            members: In the order in which they were added, this one first.
            publications: Counts what fails, and publishes members alone that cannot be published together.
        """
        raise NotImplementedError

    def make_sequence(self, members: Sequence[Publication], publications: Publications) -> Publish:
        """Return a function that publishes each of some publications as `publish` does, and counts it.

        It may look up once what stays until the next `regroup`.

        Args:
            members: With the same `sequence_key`, in the order in which they were added, this one first.
            publications: Counts what fails.
        """
        raise NotImplementedError


class Publications:
    """Publish at each publication's rate. An exception is counted, reported once, and stops no other publication.

    What is due in a tick is grouped into batches when it is due together for the first time, and again after
    publications were added, removed, changed, enabled or disabled.

    Attributes:
        wake_ns: Bridge time at which a tick is needed; 0: at once, NEVER_NS: not before something arrives.
        quiet_until_ns: Bridge time before which nothing is due unless something arrives; 0 if something is due in every
            tick, or if there are no publications: then the caller reads snapshots itself.
        generation: Counts changes after which batches are made again; one of an older generation may not be right.
    """

    def __init__(self, report: Report) -> None:
        """Store the arguments.

        Args:
            report: For exceptions, and for rates that cannot be met.
        """
        self.wake_ns = NEVER_NS
        self.quiet_until_ns = 0
        self.generation = 0
        self._report = report
        self._schedule = Schedule(report)
        self._arrivals: Arrivals[Publication] = Arrivals()
        self._all: dict[Publication, None] = {}
        self._every_tick: list[Publication] = []
        self._scheduled: dict[int, Publication] = {}
        self._disabled: Collection[str] = frozenset()
        self._programs: dict[Hashable, list[Publish]] = {}
        self._due: Sequence[int] = ()
        self._due_on_arrival: Sequence[Publication] = ()

    @property
    def shortest_period_ns(self) -> int | None:
        """Period of the highest rate, nanoseconds; None without rates."""
        return self._schedule.shortest_period_ns

    # --- Which, and when ---------------------------------------------------------------------------------------

    def add(
        self, publication: Publication, *, name: str, rate: float | None = None, on_arrival: bool = False
    ) -> None:
        """Add a publication.

        Args:
            publication: Not added yet.
            name: Prim path or topic, for status and reports.
            rate: Hz; None: every tick.
            on_arrival: Publish when something arrived, at `rate` at most.
        """
        publication.name = name
        publication.is_added = True
        publication.enabled = name not in self._disabled
        publication.target_rate = rate
        self._all[publication] = None
        if rate is None:
            self._every_tick.append(publication)
        elif on_arrival:
            self._arrivals.add(publication, rate)
        else:
            publication.entry = self._schedule.add(name, rate)
            self._scheduled[publication.entry] = publication
        self.regroup()
        self.update_wake_time()

    def remove(self, publication: Publication) -> None:
        """Remove a publication; one that is not there is ignored."""
        if not publication.is_added:
            return
        publication.is_added = False
        del self._all[publication]
        self._arrivals.remove(publication)
        if publication.target_rate is None:
            self._every_tick.remove(publication)
        elif publication.entry >= 0:
            self._schedule.remove(publication.entry)
            del self._scheduled[publication.entry]
            publication.entry = -1
        self.regroup()
        self.update_wake_time()

    def change(self, publication: Publication, *, rate: float | None, on_arrival: bool) -> None:
        """Change when a publication is due, arguments as those of `add`. With another rate it is due at once."""
        if not publication.is_added:
            return
        on_arrival = on_arrival and rate is not None
        was_on_arrival = publication.target_rate is not None and publication.entry < 0
        if (publication.target_rate, was_on_arrival) == (rate, on_arrival):
            return
        if publication.entry >= 0 and rate is not None and not on_arrival:
            self._schedule.set_rate(publication.entry, rate)
            publication.target_rate = rate
            self.regroup()
            self.update_wake_time()
        else:
            self.remove(publication)
            self.add(publication, name=publication.name, rate=rate, on_arrival=on_arrival)

    def regroup(self) -> None:
        """Make batches again: the `batch_key` of a publication changed."""
        self._programs.clear()
        self.generation += 1

    def disable(self, names: Collection[str]) -> None:
        """Disable the publications of these names, and enable all others.

        Args:
            names: The same object as before changes nothing.
        """
        if names is self._disabled:
            return
        self._disabled = names
        for publication in self._all:
            publication.enabled = publication.name not in names
        self.regroup()

    def close(self) -> None:
        """Remove all publications. Idempotent."""
        for publication in tuple(self._all):
            self.remove(publication)
        self._due = self._due_on_arrival = ()

    def set_clock_period(self, period_ns: int) -> None:
        """Change the period of the clock that ticks follow, nanoseconds; 0 without one."""
        self._schedule.set_clock_period(period_ns)
        self._arrivals.clock_period_ns = period_ns
        self.update_wake_time()

    def reset(self) -> None:
        """Make everything due at any time, also with the stamp of the last message."""
        self._schedule.reset()
        self._arrivals.reset()
        self.regroup()
        for publication in self._all:
            publication.reset()
        self.update_wake_time()

    # --- The tick ----------------------------------------------------------------------------------------------

    def choose(self, time_ns: int, *, previous_ns: int | None = None, arrived: bool = False) -> None:
        """Find what is due in a tick. `publish` follows, or `update_wake_time` if there is nothing to show.

        Args:
            time_ns: Bridge time of the tick, nanoseconds.
            previous_ns: Time of the tick before, if that was skipped.
            arrived: Whether anything arrived in the tick.
        """
        schedule = self._schedule
        self._due = schedule.due(time_ns, previous_ns) if time_ns >= schedule.earliest_ns else ()
        if self._arrivals.periods:
            self._due_on_arrival = self._arrivals.due(time_ns, arrived=arrived)

    def publish(self, snapshot: Snapshot, time_ns: int) -> None:
        """Publish what `choose` found, in the order of addition; a batch is published where its first member is.

        Publications on arrival come last, in the order of waiting.

        Args:
            snapshot: State of this tick.
            time_ns: Bridge time of this tick, nanoseconds.
        """
        if self._every_tick:
            for publish in self._programs.get(EVERY_TICK) or self._program(EVERY_TICK):
                publish(snapshot)
        if self._due:
            for publish in self._program(tuple(self._due)):
                publish(snapshot)
        if self._due_on_arrival:
            for publication in self._due_on_arrival:
                if publication.enabled and self.publish_each((publication,), snapshot):
                    self._arrivals.mark_published(publication, time_ns)
            self._due_on_arrival = ()
        self.update_wake_time()

    def publish_each(self, members: Iterable[Publication], snapshot: Snapshot) -> int:
        """Publish some publications one by one, and count it. Return how many published."""
        published = 0
        state_ns = snapshot.time_ns
        for each in members:
            try:
                if each.is_added and each.publish(snapshot):
                    each.mark(state_ns)
                    published += 1
            except Exception as error:  # noqa: BLE001 - the runtime's edge
                self.fail(each, error)
        return published

    def fail(self, publication: Publication, error: Exception) -> None:
        """Count and report an exception of a publication."""
        publication.errors += 1
        publication.last_error = describe(error)
        self._report(
            f"emitter.error:{publication.name}",
            f"publishing {publication.name} failed: {publication.last_error}",
        )

    def update_wake_time(self) -> None:
        """Find when the next tick is needed."""
        self.wake_ns = self._schedule.earliest_ns
        if self._arrivals.periods:
            self.wake_ns = min(self.wake_ns, self._arrivals.wake_ns)
        self.quiet_until_ns = 0 if self._every_tick or not self._all else self.wake_ns

    def lone_arrival(self) -> tuple[Publication, int, int] | None:
        """Return the only publication on arrival, its period, and the time until which it pauses, nanoseconds.

        None if there are more or none, or if anything is due in every tick.
        """
        periods = self._arrivals.periods
        if self._every_tick or len(periods) != 1:
            return None
        ((publication, period_ns),) = periods.items()
        return publication, period_ns, self._arrivals.paused_until_ns(publication)

    def mark_relayed(
        self,
        publication: Publication,
        *,
        stamp_ns: int,
        time_ns: int,
        published: int,
        arrivals: int,
        waiting: bool,
    ) -> None:
        """Count messages of a publication on arrival that were sent without ticks.

        Args:
            publication: The one of `lone_arrival`.
            stamp_ns: Stamp of the last message, nanoseconds.
            time_ns: Bridge time at which that was sent.
            published: How many were sent.
            arrivals: How many states arrived.
            waiting: Whether one of these arrived after that, and is still to be published.
        """
        if published:
            publication.mark(stamp_ns, published)
        self._arrivals.mark_relayed(publication, time_ns=time_ns, arrivals=arrivals, waiting=waiting)
        self.update_wake_time()

    # --- Status ------------------------------------------------------------------------------------------------

    def status(self, time_ns: int) -> tuple[PublicationStatus, ...]:
        """Return the counters of all publications at bridge time `time_ns`, from any thread."""
        return tuple(self.status_of(publication, time_ns) for publication in tuple(self._all))

    def status_of(self, publication: Publication, time_ns: int) -> PublicationStatus:
        """Return the counters of one at bridge time `time_ns`, from any thread."""
        return PublicationStatus(
            name=publication.name,
            rate=publication.target_rate,
            published=publication.count,
            achieved_rate=publication.rate(time_ns),
            skipped=self._schedule.skipped(publication.entry),
            errors=publication.errors,
            last_error=publication.last_error,
            enabled=publication.enabled,
        )

    # --- Own ---------------------------------------------------------------------------------------------------

    def _program(self, key: Hashable) -> list[Publish]:
        """Return what publishes all that is due: batches, and in between publications one by one."""
        program = self._programs.get(key)
        if program is None:
            if len(self._programs) >= MAX_PROGRAMS:
                self._programs.clear()
            due: Iterable[Publication] = self._every_tick
            if key != EVERY_TICK:
                # One that was published before may have removed another.
                due = [self._scheduled[entry] for entry in self._due if entry in self._scheduled]
            program = self._programs[key] = self._group([each for each in due if each.enabled])
        return program

    def _group(self, due: Iterable[Publication]) -> list[Publish]:
        groups: dict[Hashable, list[Publication]] = {}
        for publication in due:
            # A publication without a key is a group of its own.
            key = publication if publication.batch_key is None else publication.batch_key
            groups.setdefault(key, []).append(publication)
        program: list[Publish] = []
        alone: list[Publication] = []
        for group in groups.values():
            if len(group) > 1:
                program += self._one_by_one(alone)
                alone = []
                program.append(group[0].make_batch(group, self))
            else:
                alone += group
        return program + self._one_by_one(alone)

    def _one_by_one(self, publications: Iterable[Publication]) -> list[Publish]:
        program: list[Publish] = []
        for key, run in groupby(publications, lambda each: each.sequence_key):
            members = list(run)
            if key is None:
                program.append(partial(self.publish_each, members))
            else:
                program.append(members[0].make_sequence(members, self))
        return program

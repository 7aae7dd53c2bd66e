"""Lockstep: one clock for the bridges of a fleet. The leader grants time; followers go there and report that they did.

Each bridge is a shard with a number. Shards stop at the same times: at the state at rest, after the first step, then
every exchange period, and where requested steps end. At a stop each one sends a report with the poses of its robots.
Once all reports are there, the leader grants time up to the next stop. Poses of an exchange are used by everybody
before anybody continues, so that results depend on neither the machines nor their load.

A report or grant has a session (one run of the leader) and an epoch (the resets in it): what was sent before a reset
counts for nothing after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from usd_ros_bridge.reporting import Report

JOIN_S: Final = 60.0
"""How long the leader waits for a shard that has not reported yet, wall seconds: large stages take long to open."""
HEARTBEAT_S: Final = 1.0
"""How often the leader repeats its grant while time stands still, wall seconds."""
NEWS_S: Final = 2.0
"""How long a bridge waits for others at the start before it says so, wall seconds."""
SILENCE_S: Final = 3.0 * HEARTBEAT_S
"""The shortest silence of the leader that says anything, wall seconds."""


class Epoch(NamedTuple):
    """The time between two resets.

    Attributes:
        session: Number of the leader's run: greater in each later one.
        number: Resets in the session.
    """

    session: int
    number: int


class Grant(NamedTuple):
    """What the leader lets all shards do.

    Attributes:
        epoch: Current epoch.
        from_ns: Bridge time of the last stop, which all members have reached.
        limit_ns: Bridge time to go to, at least `from_ns`.
        stops: Everybody ticks at `limit_ns`, and reports.
        exchanges: The poses of the stop at `from_ns` are to be used.
        members: Shards that reported the stop at `from_ns`, the leader among them.
    """

    epoch: Epoch
    from_ns: int
    limit_ns: int
    stops: bool
    exchanges: bool
    members: tuple[int, ...]


class ShardReport(NamedTuple):
    """What a shard has reached.

    Attributes:
        shard: Its number, from 1 on.
        epoch: Epoch that it is in.
        time_ns: Bridge time of its stop.
        leaves: It closes.
    """

    shard: int
    epoch: Epoch
    time_ns: int
    leaves: bool = False


class FleetLink(Protocol):
    """Connection to the other shards. All methods are called from the thread that ticks."""

    def poll(self) -> None:
        """Take what has arrived: reports and grants go to the shard's lockstep, poses are kept."""
        ...

    def send_grant(self, grant: Grant) -> None:
        """Send a grant to all shards."""
        ...

    def send_report(self, report: ShardReport) -> None:
        """Send a report, with the poses of this shard's robots now."""
        ...

    def has_poses(self, shard: int, epoch: Epoch, time_ns: int) -> bool:
        """Return whether the poses of a shard at a stop have arrived."""
        ...

    def use_poses(self, members: Iterable[int], epoch: Epoch, time_ns: int, *, exact: bool) -> None:
        """Put obstacles where the robots of other shards are; those of shards that are no members stop.

        Args:
            members: Shards.
            epoch: The epoch of the poses.
            time_ns: The time of the poses.
            exact: Use the poses of that time; False: the newest ones, as this shard has missed stops.
        """
        ...

    def use_newest(self, time_ns: int) -> None:
        """Put obstacles where they are by the newest messages, without lockstep."""
        ...


class Lockstep(Protocol):
    """What decides how far a shard's time may go.

    Attributes:
        waiting: Time could pass, but waits for other shards.
        follows: Another bridge decides about pauses, steps and resets.
        pending_reset_ns: Reset to this bridge time first, nanoseconds; None: no reset is due.
    """

    waiting: bool
    follows: bool
    pending_reset_ns: int | None

    def poll(self) -> None:
        """Take what has arrived; between two ticks."""
        ...

    def next_ns(self, now_ns: int, wanted_ns: int, end_ns: int | None) -> int | None:
        """Return the bridge time of the next tick, None while other shards must come first.

        Args:
            now_ns: Bridge time now.
            wanted_ns: When this shard would tick.
            end_ns: Where requested steps end, at which all shards stop; None for none.
        """
        ...

    def begin(self, now_ns: int, time_ns: int) -> None:
        """Prepare for the tick at `time_ns`, which `next_ns` returned: use poses, grant time."""
        ...

    def end(self, now_ns: int) -> None:
        """Report the end of a tick."""
        ...

    def is_complete(self, now_ns: int) -> bool:
        """Return whether all shards have reached the present time."""
        ...

    def restart(self, start_ns: int) -> None:
        """Begin again after a reset to the state at rest, which is that of `start_ns`."""
        ...

    def stand(self) -> None:
        """Note that time stands still because nobody requests that it passes."""
        ...

    def send_heartbeat(self) -> None:
        """Repeat what others must know while nothing happens; called about once a second."""
        ...

    def close(self) -> None:
        """Take leave of the others. Idempotent."""
        ...


class FreeRunning:
    """No lockstep: time passes as this bridge alone decides. Obstacles are where the newest messages say."""

    follows = False
    waiting = False
    pending_reset_ns: int | None = None

    def __init__(self, link: FleetLink | None = None) -> None:
        """Args: link: Where poses of other shards come from; None: nowhere."""
        self._link = link

    def poll(self) -> None:
        """Take what has arrived."""
        if self._link is not None:
            self._link.poll()

    def next_ns(self, now_ns: int, wanted_ns: int, end_ns: int | None) -> int | None:
        """Return when this bridge would tick; None where it is there."""
        del end_ns
        return wanted_ns if wanted_ns != now_ns else None

    def begin(self, now_ns: int, time_ns: int) -> None:
        """Put obstacles where they are."""
        del time_ns
        if self._link is not None:
            self._link.use_newest(now_ns)

    def end(self, now_ns: int) -> None:
        """Do nothing."""

    def is_complete(self, now_ns: int) -> bool:  # noqa: ARG002 - the protocol's
        """Return True: there is nobody to wait for."""
        return True

    def restart(self, start_ns: int) -> None:
        """Do nothing."""

    def stand(self) -> None:
        """Do nothing."""

    def send_heartbeat(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeTimes:
    """When shards exchange poses: after the first step from the state at rest, then every period.

    These are the ticks that controllers need in any case.

    Attributes:
        start_ns: Bridge time of the state at rest.
        step_ns: Length of a step.
        period_ns: Exchange period, a multiple of the step.
    """

    start_ns: int
    step_ns: int
    period_ns: int

    def after(self, now_ns: int) -> int:
        """Return the first exchange after a bridge time."""
        first = self.start_ns + self.step_ns
        return first if now_ns < first else now_ns + self.period_ns - (now_ns - first) % self.period_ns

    def __contains__(self, time_ns: int) -> bool:
        """Return whether poses are exchanged at a bridge time, the state at rest included."""
        return time_ns == self.start_ns or self.after(time_ns - 1) == time_ns


@dataclass(slots=True)
class _Member:
    """A shard that the leader waits for.

    Attributes:
        reached_ns: Its last stop in the current epoch, -1 for none.
        heard_s: When it last reported in this session, wall seconds; None: not yet.
    """

    reached_ns: int = -1
    heard_s: float | None = None


class LockstepLeader:
    """Lockstep of the shard that owns the clock.

    Attributes:
        waiting: As `Lockstep.waiting`.
        times: When shards exchange poses in this epoch.
    """

    follows = False
    pending_reset_ns: int | None = None

    def __init__(
        self,
        *,
        shard: int,
        shards: int,
        times: ExchangeTimes,
        timeout_s: float,
        link: FleetLink,
        report: Report,
        inform: Report,
        session: int | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the arguments; `restart` begins.

        Args:
            shard: Number of this shard, from 1 on.
            shards: How many there are.
            times: When shards exchange poses.
            timeout_s: How long to wait for a shard that reported before, wall seconds.
            link: Connection to the other shards.
            report: For shards that are lost.
            inform: For shards that join.
            session: Number of this run; None: from the system's clock.
            now_s: Wall clock, seconds.
        """
        self.waiting = False
        self.times = times
        self._shard = shard
        self._shards = shards
        self._timeout_s = timeout_s
        self._link = link
        self._report = report
        self._inform = inform
        self._now_s = now_s
        # Milliseconds fit into the numbers of any message.
        self._session = time.time_ns() // 1_000_000 if session is None else session
        self._epoch = Epoch(self._session, -1)
        self._members = {number: _Member() for number in range(1, shards + 1) if number != shard}
        self._stop_ns: int | None = None
        self._end_ns: int | None = None
        self._from_ns = 0
        self._arrived: tuple[int, ...] = ()
        self._grant: Grant | None = None
        self._sent_s = 0.0
        self._losses = 0
        self._said_waiting = False
        self._waits_since: float | None = None

    @property
    def members(self) -> tuple[int, ...]:
        """Return the shards that take part, this one included."""
        return tuple(sorted((self._shard, *self._members)))

    def poll(self) -> None:
        """Take what has arrived."""
        self._link.poll()

    def receive(self, report: ShardReport) -> None:
        """Take the report of a shard; one of another session says nothing."""
        number, epoch = report.shard, report.epoch
        if epoch.session != self._session or not (1 <= number <= self._shards) or number == self._shard:
            return
        if report.leaves:
            if self._members.pop(number, None) is not None:
                self._inform(f"lockstep.left:{number}", f"shard {number} has left")
            return
        member = self._members.get(number)
        if member is None:
            member = self._members[number] = _Member()
            at = f"{self._from_ns * 1e-9:.3f} s"
            self._inform(f"lockstep.joined:{number}", f"shard {number} takes part again, at {at}")
        member.heard_s = self._now_s()
        if epoch == self._epoch:
            member.reached_ns = max(member.reached_ns, report.time_ns)

    def next_ns(self, now_ns: int, wanted_ns: int, end_ns: int | None) -> int | None:
        """Return when to tick; None while members have not reached the stop at which this shard is."""
        self.waiting = self._stop_ns == now_ns and not self._all_reached(now_ns)
        limit = min(wanted_ns, self.times.after(now_ns))
        self._end_ns = end_ns
        if end_ns is not None:
            limit = min(limit, end_ns)
        return None if self.waiting or limit <= now_ns else limit

    def begin(self, now_ns: int, time_ns: int) -> None:
        """Use the poses of the stop, and grant the time up to the tick."""
        exchanges = self._grant is not None and self._grant.exchanges
        if self._stop_ns == now_ns:
            self._from_ns, self._arrived = now_ns, self.members
            exchanges = now_ns in self.times
            if exchanges:
                self._link.use_poses(self._arrived, self._epoch, now_ns, exact=True)
        stops = time_ns in (self.times.after(now_ns), self._end_ns)
        self._stop_ns = time_ns if stops else None
        self._send(Grant(self._epoch, self._from_ns, time_ns, stops, exchanges, self._arrived))

    def end(self, now_ns: int) -> None:
        """Report a stop."""
        if now_ns == self._stop_ns:
            self._link.send_report(ShardReport(self._shard, self._epoch, now_ns))

    def is_complete(self, now_ns: int) -> bool:
        """Return whether all members have reached the stop at which this shard is."""
        return self._stop_ns != now_ns or self._all_reached(now_ns)

    def restart(self, start_ns: int) -> None:
        """Begin an epoch at the state at rest."""
        self._epoch = Epoch(self._session, self._epoch.number + 1)
        self.times = ExchangeTimes(
            start_ns=start_ns, step_ns=self.times.step_ns, period_ns=self.times.period_ns
        )
        for member in self._members.values():
            member.reached_ns = -1
        self._stop_ns = self._from_ns = start_ns
        self._waits_since = self._end_ns = None
        self._arrived = self.members
        self._send(Grant(self._epoch, start_ns, start_ns, True, False, self._arrived))
        self.end(start_ns)

    def stand(self) -> None:
        """Wait for nobody while time is paused."""
        self.waiting = False
        self._waits_since = None

    def send_heartbeat(self) -> None:
        """Repeat the grant."""
        if self._grant is not None and self._now_s() - self._sent_s >= 0.5 * HEARTBEAT_S:
            self._send(self._grant)

    def close(self) -> None:
        """Take leave of the others."""
        self._link.send_report(ShardReport(self._shard, self._epoch, self._from_ns, leaves=True))

    def _send(self, grant: Grant) -> None:
        self._grant, self._sent_s = grant, self._now_s()
        self._link.send_grant(grant)

    def _all_reached(self, stop_ns: int) -> bool:
        """Return whether all members have reached a stop; those that take too long are members no more."""
        missing = [number for number, each in self._members.items() if each.reached_ns < stop_ns]
        if not missing:
            self._waits_since = None
            return True
        now = self._now_s()
        if self._waits_since is None:
            self._waits_since = now
        if now - self._waits_since >= NEWS_S and not self._said_waiting:
            self._said_waiting = True
            self._inform("lockstep.waiting", f"time waits for shard {', '.join(map(str, missing))}")
        for number in missing:
            heard = self._members[number].heard_s
            patience = JOIN_S if heard is None else self._timeout_s
            if now - max(self._waits_since, heard or 0.0) < patience:
                return False
        waited = now - self._waits_since
        for number in missing:
            del self._members[number]
            self._losses += 1
            self._report(
                f"lockstep.lost:{self._losses}",
                f"shard {number} has not reached {stop_ns * 1e-9:.3f} s for {waited:.0f} s: time continues without it, "
                "and its robots stand still for the others; it takes part again when it is back",
            )
        self._waits_since = None
        return True


class LockstepFollower:
    """Lockstep of a shard that follows the leader's clock.

    Attributes:
        waiting: As `Lockstep.waiting`.
        pending_reset_ns: As `Lockstep.pending_reset_ns`.
    """

    follows = True

    def __init__(
        self,
        *,
        shard: int,
        timeout_s: float,
        link: FleetLink,
        report: Report,
        inform: Report,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the arguments.

        Args:
            shard: Number of this shard, from 1 on.
            timeout_s: How long the leader may be silent, wall seconds.
            link: Connection to the other shards.
            report: For a leader that is silent.
            inform: For a leader that is back.
            now_s: Wall clock, seconds.
        """
        self.waiting = True
        self.pending_reset_ns: int | None = None
        self._shard = shard
        self._timeout_s = timeout_s
        self._link = link
        self._report = report
        self._inform = inform
        self._now_s = now_s
        self._grant: Grant | None = None
        self._epoch: Epoch | None = None
        self._stop_ns = -1
        self._used: tuple[Epoch, int] | None = None
        self._ticks_to: Grant | None = None
        self._announced_ns = -1
        self._heard_s = now_s()
        self._lost = False
        self._losses = 0
        self._said_waiting = False
        self._waits_since: float | None = None

    def poll(self) -> None:
        """Take what has arrived."""
        self._link.poll()
        self._check_leader()

    def receive(self, grant: Grant) -> None:
        """Take a grant; of another epoch, it asks for a reset to the present time."""
        latest = self._grant
        is_older = latest is not None and grant.epoch < latest.epoch
        # A leader that was started after the system's clock was set back has a smaller number.
        if is_older and not (self._lost and self._is_other_session(grant)):
            return
        if self._lost:
            self._lost = False
            self._inform("lockstep.leader_back", "the leader is back: time continues")
        self._heard_s = self._now_s()
        self._grant = grant
        if grant.epoch != self._epoch:
            self.pending_reset_ns = grant.from_ns
        elif self._stop_ns < grant.from_ns != self._announced_ns and self._shard not in grant.members:
            # The others have gone on without this shard: it is alive, and on its way.
            self._announced_ns = grant.from_ns
            self._link.send_report(ShardReport(self._shard, grant.epoch, self._stop_ns))

    def next_ns(self, now_ns: int, wanted_ns: int, end_ns: int | None) -> int | None:
        """Return when to tick; None without a grant for it."""
        del end_ns
        found = self._next_ns(now_ns, wanted_ns)
        self.waiting = found is None
        return found

    def begin(self, now_ns: int, time_ns: int) -> None:
        """Use the poses of the last stop."""
        del time_ns
        grant = self._ticks_to = self._grant
        if grant is None or self._used == (grant.epoch, grant.from_ns):
            return
        self._used = (grant.epoch, grant.from_ns)
        exact = grant.from_ns == now_ns
        if grant.exchanges or not exact:
            self._link.use_poses(grant.members, grant.epoch, grant.from_ns, exact=exact)

    def end(self, now_ns: int) -> None:
        """Report a stop."""
        grant = self._ticks_to
        if grant is not None and grant.stops and now_ns == grant.limit_ns:
            self._stop(now_ns, grant.epoch)

    def is_complete(self, now_ns: int) -> bool:  # noqa: ARG002 - the protocol's
        """Return True: nobody requests steps here."""
        return True

    def restart(self, start_ns: int) -> None:
        """Take part from the state at rest at the present time on."""
        self.pending_reset_ns = None
        self._ticks_to = None
        if self._grant is not None:
            self._epoch = self._grant.epoch
            self._stop(start_ns, self._epoch)

    def stand(self) -> None:
        """Do nothing."""

    def send_heartbeat(self) -> None:
        """Do nothing: a report is kept for shards that come later."""

    def close(self) -> None:
        """Take leave of the others."""
        if self._epoch is not None:
            self._link.send_report(ShardReport(self._shard, self._epoch, self._stop_ns, leaves=True))

    def _stop(self, now_ns: int, epoch: Epoch) -> None:
        self._stop_ns = now_ns
        self._link.send_report(ShardReport(self._shard, epoch, now_ns))

    def _next_ns(self, now_ns: int, wanted_ns: int) -> int | None:
        grant = self._grant
        if grant is None or grant.epoch != self._epoch or grant.limit_ns <= now_ns:
            self._waits_since = None
            return None
        if wanted_ns <= now_ns or (wanted_ns > grant.limit_ns and not grant.stops):
            return None
        if grant.exchanges and grant.from_ns == now_ns and not self._has_poses(grant):
            return None
        return min(wanted_ns, grant.limit_ns)

    def _has_poses(self, grant: Grant) -> bool:
        """Return whether the poses of all members at the last stop are there, or one of them must be dead."""
        if self._used == (grant.epoch, grant.from_ns):
            return True
        missing = [
            number
            for number in grant.members
            if number != self._shard and not self._link.has_poses(number, grant.epoch, grant.from_ns)
        ]
        now = self._now_s()
        if not missing:
            self._waits_since = None
            return True
        if self._waits_since is None:
            self._waits_since = now
        # The leader waits for this shard meanwhile.
        if now - self._waits_since < 0.5 * self._timeout_s:
            return False
        self._waits_since = None
        names = ", ".join(map(str, missing))
        self._losses += 1
        self._report(
            f"lockstep.poses:{self._losses}",
            f"the poses of shard {names} at {grant.from_ns * 1e-9:.3f} s have not arrived: its robots stay where "
            "they were",
        )
        return True

    def _is_other_session(self, grant: Grant) -> bool:
        return self._grant is None or grant.epoch.session != self._grant.epoch.session

    def _check_leader(self) -> None:
        """Report a leader that is silent."""
        silent = self._now_s() - self._heard_s
        if self._grant is None and silent >= NEWS_S and not self._said_waiting:
            self._said_waiting = True
            self._inform("lockstep.waiting", "time waits for the leader")
        if self._lost or silent < (JOIN_S if self._grant is None else max(self._timeout_s, SILENCE_S)):
            return
        self._lost = True
        self._losses += 1
        self._report(
            f"lockstep.leader:{self._losses}",
            f"the leader has been silent for {silent:.0f} s: time stands still until it is back",
        )

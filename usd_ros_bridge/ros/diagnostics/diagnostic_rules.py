"""Rules of /diagnostics: levels and messages for interfaces, the backend and the rest. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan
from usd_ros_bridge.planning.conflicts import NO_INTERFACES
from usd_ros_bridge.reporting import Reported
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.tf.monitor import TfFinding
from usd_ros_bridge.runtime.controller_manager import ControllerStatus

SLOW = 0.9
"""Part of the authored rate below which a publisher with subscribers is slow."""
MEASURED = 0.5
"""Authored rate from which the achieved one is known at any time, Hz: below, a period is longer than its window."""
SETTLED_NS = 5_000_000_000
"""Bridge time that a publisher has to reach its rate, and without a message after which it is stale."""
HELD_S = 10.0
"""How long an error, or a loss, shows after the last one."""
STILL_S = 5.0
"""Wall time without a tick after which the bridge is stale."""
MAX_VALUES = 20


class Level(IntEnum):
    """Level of diagnostic_msgs/DiagnosticStatus."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


Values = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Level and message of one status.

    Attributes:
        level: Level.
        message: A few words.
        values: Keys and values, in a fixed order.
    """

    level: Level
    message: str
    values: Values = ()


class GrowthDetector:
    """Detect recent growth of a count."""

    __slots__ = ("_count", "_since")

    def __init__(self) -> None:
        self._count = 0
        self._since = -HELD_S

    def look(self, count: int, now_s: float) -> bool:
        """Return whether the count grew within the last seconds. A count that fell has started over.

        Args:
            count: The count.
            now_s: Time, seconds of a monotonic clock.
        """
        if count > self._count:
            self._since = now_s
        elif count < self._count:
            self._since = -HELD_S
        self._count = count
        return now_s - self._since < HELD_S


class InterfaceWatch:
    """Judge one interface by its status over time."""

    __slots__ = ("_count", "_dropped", "_errors", "_quiet_ns", "_settling_ns")

    def __init__(self) -> None:
        self._errors = GrowthDetector()
        self._dropped = GrowthDetector()
        self._count = -1
        # Bridge time since when it has been without a message, and since when it has had a peer.
        self._quiet_ns = -1
        self._settling_ns = -1

    def judge(self, row: InterfaceStatus, *, wanted: bool, time_ns: int, now_s: float) -> Verdict:
        """Return the verdict.

        Args:
            row: Status of the interface.
            wanted: Whether it should exist; False if it is disabled on purpose.
            time_ns: Bridge time, nanoseconds.
            now_s: Wall time, seconds of a monotonic clock.
        """
        level, message = self._judge(row, wanted=wanted, time_ns=time_ns, now_s=now_s)
        return Verdict(level, message, _values(row))

    def _judge(self, row: InterfaceStatus, *, wanted: bool, time_ns: int, now_s: float) -> tuple[Level, str]:
        failed, lost = self._errors.look(row.errors, now_s), self._dropped.look(row.dropped, now_s)
        pace = self._pace(row, time_ns)
        if row.state == "disabled":
            return (Level.ERROR if wanted else Level.OK), f"disabled: {row.reason}"
        if failed:
            # A goal that is rejected or aborted is no fault of the bridge.
            level = Level.WARN if row.kind == "action" else Level.ERROR
            return level, row.last_error or f"{row.errors} errors"
        if row.state == "silent" and row.role != "client":
            return Level.WARN, f"silent: {row.reason}"
        if pace is not None:
            return pace
        if lost:
            word = "periods passed without a message" if row.role == "publisher" else "messages dropped"
            return Level.WARN, f"{row.dropped} {word}"
        return Level.OK, _well(row)

    def _pace(self, row: InterfaceStatus, time_ns: int) -> tuple[Level, str] | None:
        """Return the fault of a publisher's rate, None if there is none or it is not known yet."""
        asked = row.authored_rate is not None and row.matched > 0 and not (row.reason or row.served_by)
        if not asked or time_ns < max(self._settling_ns, self._quiet_ns):
            self._settling_ns = self._quiet_ns = -1
        if not asked:
            return None
        if self._settling_ns < 0:
            self._settling_ns = time_ns
        if row.count != self._count or self._quiet_ns < 0:
            self._count, self._quiet_ns = row.count, time_ns
        assert row.authored_rate is not None
        quiet_ns = time_ns - self._quiet_ns
        if quiet_ns >= SETTLED_NS and quiet_ns * 1e-9 * row.authored_rate > 2.0:
            return Level.STALE, f"nothing was sent for {quiet_ns * 1e-9:.0f} s"
        slow = row.authored_rate >= MEASURED and row.achieved_rate < SLOW * row.authored_rate
        if slow and time_ns - self._settling_ns >= SETTLED_NS:
            return Level.WARN, f"{row.achieved_rate:.4g} Hz of {row.authored_rate:.4g} Hz"
        return None


def _well(row: InterfaceStatus) -> str:
    if row.reason:
        return row.reason
    if row.role == "publisher" and row.achieved_rate:
        return f"{row.achieved_rate:.4g} Hz"
    return row.state


def _values(row: InterfaceStatus) -> Values:
    rates = [] if row.authored_rate is None else [("authored rate (Hz)", f"{row.authored_rate:.6g}")]
    texts = [
        (key, text)
        for key, text in (("prim", row.path), ("last error", row.last_error), ("served by", row.served_by))
        if text
    ]
    return (
        ("kind", f"{row.kind} {row.role}"),
        ("type", row.type),
        ("state", row.state),
        *rates,
        ("achieved rate (Hz)", f"{row.achieved_rate:.4g}"),
        (_PEERS[row.role], str(row.matched)),
        ("count", str(row.count)),
        ("dropped", str(row.dropped)),
        ("errors", str(row.errors)),
        *texts,
    )


_PEERS = {
    "publisher": "subscribers",
    "subscription": "publishers",
    "server": "clients",
    "client": "servers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFigures:
    """Counters of a backend.

    Attributes:
        name: Name of its class.
        steps: Number of steps.
        seconds: Wall time of all steps.
        longest_s: Wall time of the longest step since the last round.
        errors: Number of exceptions.
        last_error: The last one in one line, "" without any.
        overruns: Number of ticks that had too little time.
    """

    name: str
    steps: int
    seconds: float
    longest_s: float
    errors: int
    last_error: str
    overruns: int


class BackendWatch:
    """Judge the backend by its counters over time."""

    def __init__(self) -> None:
        self._errors = GrowthDetector()
        self._overruns = GrowthDetector()
        self._before = (0, 0.0)

    def judge(self, now: BackendFigures, now_s: float) -> Verdict:
        """Return the verdict. Times are those since the last round."""
        failed, late = self._errors.look(now.errors, now_s), self._overruns.look(now.overruns, now_s)
        steps, seconds = now.steps - self._before[0], now.seconds - self._before[1]
        if steps < 0:
            # Another backend took its place.
            steps, seconds = now.steps, now.seconds
        self._before = (now.steps, now.seconds)
        mean_ms = f"{seconds / steps * 1e3:.4g}" if steps else ""
        values = (
            ("backend", now.name),
            ("step time, mean (ms)", mean_ms),
            ("step time, longest (ms)", f"{now.longest_s * 1e3:.4g}" if steps else ""),
            ("steps", str(now.steps)),
            ("errors", str(now.errors)),
            ("last error", now.last_error),
            ("overruns", str(now.overruns)),
        )
        if failed:
            return Verdict(Level.ERROR, now.last_error, values)
        if late:
            return Verdict(Level.WARN, "there is too little time for its steps", values)
        return Verdict(Level.OK, f"{mean_ms} ms a step" if steps else "no steps", values)


class LoopWatch:
    """Judge the ticks, and the diagnostics of the asset."""

    def __init__(self) -> None:
        self._ticks = -1
        self._since_s = 0.0

    def judge(
        self,
        plan: BridgePlan,
        *,
        ticks: int,
        tick_seconds: float,
        time_ns: int | None,
        reports: Sequence[Reported],
        owns_time: bool,
        now_s: float,
    ) -> Verdict:
        """Return the verdict on the bridge as a whole.

        Args:
            plan: The plan.
            ticks: Number of ticks.
            tick_seconds: Mean wall time of recent ticks.
            time_ns: Bridge time, nanoseconds.
            reports: Reports at run time.
            owns_time: Whether the backend owns time, which may stand still.
            now_s: Wall time, seconds of a monotonic clock.
        """
        if ticks != self._ticks:
            self._ticks, self._since_s = ticks, now_s
        counts = {each: _count(plan.diagnostics, each) for each in ("error", "warning")}
        values = (
            ("asset", plan.asset),
            ("bridge time (s)", "" if time_ns is None else f"{time_ns * 1e-9:.3f}"),
            ("ticks", str(ticks)),
            ("tick time, mean (ms)", f"{tick_seconds * 1e3:.4g}"),
            ("robots", str(len(plan.robots))),
            ("errors of the asset", str(counts["error"])),
            ("warnings of the asset", str(counts["warning"])),
            ("kinds of reports", str(len(reports))),
            *((each.kind, f"{each.message} ({each.count})") for each in reports[-MAX_VALUES:]),
        )
        still_s = now_s - self._since_s
        if still_s >= STILL_S:
            if owns_time and ticks:
                return Verdict(Level.OK, "time stands still", values)
            return Verdict(Level.STALE, f"no tick for {still_s:.0f} s", values)
        if counts["error"]:
            return Verdict(Level.WARN, f"errors of the asset: {counts['error']}", values)
        return Verdict(Level.OK, "running", values)


def judge_tf(findings: Sequence[TfFinding], watched: int) -> Verdict:
    """Return the verdict on the TF trees.

    Args:
        findings: Findings of the monitor.
        watched: Number of topics that it watches.
    """
    values = (
        ("topics watched", str(watched)),
        *((f"{each.kind} {each.topic}", each.message) for each in findings[:MAX_VALUES]),
    )
    if not findings:
        return Verdict(Level.OK, "one sender and one parent for each frame", values)
    # Trees that do not meet may be meant not to.
    level = Level.WARN if all(each.kind == "split" for each in findings) else Level.ERROR
    more = f" ({len(findings) - 1} more)" if len(findings) > 1 else ""
    return Verdict(level, findings[0].message + more, values)


def judge_controllers(controllers: Sequence[ControllerStatus]) -> Verdict:
    """Return the verdict on the controllers: which are active, and why the others are not."""
    inactive = [each for each in controllers if not each.active]
    shown = [*inactive, *(each for each in controllers if each.active)][:MAX_VALUES]
    values = tuple((each.path, "active" if each.active else f"inactive: {each.reason}") for each in shown)
    message = f"{len(controllers) - len(inactive)} of {len(controllers)} active"
    faulty = [each for each in controllers if each.fault]
    if faulty:
        return Verdict(Level.WARN, f"{message}; {faulty[0].path}: {faulty[0].fault}", values)
    return Verdict(Level.OK, message, values)


def switched_off(plan: BridgePlan, live: BridgePlan) -> Collection[str]:
    """Return the prim paths of interfaces that are disabled on purpose.

    Args:
        plan: The plan.
        live: The plan without publishers of topics that the backend needs.
    """
    asked = plan.options.enabled

    def wanted_so(each: InterfacePlan) -> bool:
        return each.enabled or each.reason == NO_INTERFACES or not asked.get(each.path, each.starts_enabled)

    pairs = zip(_interfaces(plan), _interfaces(live), strict=True)
    return {here.path for each, here in pairs if not here.enabled and wanted_so(each)}


def _interfaces(plan: BridgePlan) -> Iterable[InterfacePlan]:
    return (*plan.topics, *plan.services, *plan.actions)


def _count(diagnostics: Iterable[Diagnostic], severity: str) -> int:
    return sum(each.severity == severity for each in diagnostics)

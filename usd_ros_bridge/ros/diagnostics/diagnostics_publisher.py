"""Publisher of /diagnostics: interfaces, backend, TF trees and the rest, while somebody subscribes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import PublisherEventCallbacks

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.diagnostics.diagnostic_rules import (
    BackendFigures,
    BackendWatch,
    InterfaceWatch,
    LoopWatch,
    Verdict,
    judge_controllers,
    judge_tf,
    switched_off,
)
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.tf.monitor import TfMonitor
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.runtime import Runtime

TOPIC = "/diagnostics"
TURN_ROWS = 100
"""Interfaces in a message. Making it takes milliseconds, during which no other Python code runs."""
TURN_S = 0.1
MAX_TURNS = 40
"""Turns in a round, at most: diagnostic_aggregator marks a status as stale after five seconds."""
_QOS = QosPlan(reliability="reliable", durability="volatile", depth=100)
_LEVELS = (DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE)
_OVERRUNS = ("loop.overrun", "time.slow")

Rows = Callable[[], Iterator[InterfaceStatus]]
_Key = tuple[str, str, str, str, int | None]


class DiagnosticsPublisher:
    """Publish /diagnostics in the main domain, from a wall timer of its node, while somebody subscribes.

    A round covers all interfaces, some hundred in a message. The round of a fleet takes several turns of the timer, so
    that ticks and callbacks run in between.
    """

    def __init__(
        self,
        plan: BridgePlan,
        live: BridgePlan,
        main: Domain,
        runtime: Runtime,
        *,
        rows: Rows,
        monitor: TfMonitor,
    ) -> None:
        """Store the arguments.

        Args:
            plan: The plan.
            live: The plan without publishers of topics that the backend needs.
            main: Domain of the topic, for the interfaces of all domains.
            runtime: Open.
            rows: Yield the status of each interface, made on demand.
            monitor: Monitor of the TF topics.
        """
        self._main = main
        self._runtime = runtime
        self._rows = rows
        self._monitor = monitor
        self._options = runtime.options
        self._plan = plan
        self._off = switched_off(plan, live)
        self._robots = frozenset(robot.path for robot in plan.robots)
        self._handle: PublisherHandle | None = None
        self._timer: Any = None
        self._round: Iterator[Any] | None = None
        self._records: dict[_Key, _InterfaceRecord] = {}
        self._names: set[str] = set()
        self._general: dict[str, _Status] = {}
        self._backend = BackendWatch()
        self._loop = LoopWatch()
        self._turns = 1
        self._rows_a_turn = TURN_ROWS

    def open(self) -> None:
        """Create the publisher and the timer."""
        if not self._options.publish_diagnostics:
            return
        callbacks = PublisherEventCallbacks(use_default_callbacks=False)
        self._handle = self._main.open_publisher(
            DiagnosticArray, TOPIC, qos_profiles.profile(_QOS), event_callbacks=callbacks
        )
        self._set_timer()

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare for another plan, as `PlanComponent.prepare`."""
        return PreparedChange(cleanup=partial(self._set_plans, binding.plan, plan))

    def _set_plans(self, plan: BridgePlan, live: BridgePlan) -> None:
        self._plan, self._off, self._round = plan, switched_off(plan, live), None
        self._robots = frozenset(robot.path for robot in plan.robots)
        if self._handle is not None:
            self._set_timer()

    def close(self) -> None:
        """Destroy the publisher and the timer. Idempotent."""
        timer, self._timer = self._timer, None
        handle, self._handle = self._handle, None
        # Break reference cycles: a round refers to this object.
        self._rows, self._round = _no_rows, None
        if timer is not None:
            self._main.destroy(timer)
        if handle is not None:
            handle.close(self._main.destroy)

    @property
    def subscribers(self) -> int:
        """Return the number of subscribers."""
        handle = self._handle
        return 0 if handle is None else handle.matched()

    # --- Own ---------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Set the timer so that a round ends within a period, unless there are too many rows."""
        plan = self._plan
        rows = len(plan.topics) + len(plan.services) + len(plan.actions)
        rows += sum(2 * len(robot.tf_outputs) for robot in plan.robots)
        self._rows_a_turn = max(TURN_ROWS, math.ceil(rows / MAX_TURNS))
        turns = max(1, math.ceil(rows / self._rows_a_turn))
        if self._timer is not None:
            if turns == self._turns:
                return
            self._main.destroy(self._timer)
        self._turns = turns
        period_s = 1.0 / self._options.diagnostics_rate
        turn_s = period_s if turns == 1 else max(period_s / turns, TURN_S)
        # Not the node's clock: /diagnostics go on while time stands still.
        self._timer = self._main.node.create_timer(
            turn_s, self._turn, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )

    def _turn(self) -> None:
        handle = self._handle
        # An exception in a callback would end the spinning of a host's executor.
        try:
            if handle is None or not (handle.matched() or handle.subscriptions()):
                self._round = None
                return
            if self._round is None:
                self._round = self._statuses()
            some = list(islice(self._round, self._rows_a_turn))
            if len(some) < self._rows_a_turn:
                self._round = None
            if some:
                array = DiagnosticArray(status=some)
                array.header.stamp = self._main.node.get_clock().now().to_msg()
                handle.publish(array)
        except Exception as error:  # noqa: BLE001 - the edge to ROS
            self._round = None
            self._runtime.reporter.report("diagnostics", f"{TOPIC} cannot be published: {describe(error)}")

    def _statuses(self) -> Iterator[Any]:
        """Yield the statuses of one round, made on demand."""
        name = self._main.node.get_fully_qualified_name().lstrip("/")
        yield from self._general_statuses(name)
        main, time_ns = self._main.domain_id, self._runtime.time_ns or 0
        before = self._records
        here: dict[_Key, _InterfaceRecord] = {}
        for row in self._rows():
            key: _Key = (row.kind, row.role, row.path, row.name, row.domain_id)
            record = before.get(key)
            if record is None:
                free = _free(f"{name}: {_shown(row, main)}", row, self._names)
                self._names.add(free)
                record = before[key] = _InterfaceRecord(free, self._robot(row))
            here[key] = record
            wanted = row.path not in self._off
            record.status.show(
                record.watch.judge(row, wanted=wanted, time_ns=time_ns, now_s=time.monotonic())
            )
            yield record.status.message
        self._records, self._names = here, {each.name for each in here.values()}

    def _general_statuses(self, name: str) -> Iterator[Any]:
        runtime, now_s = self._runtime, time.monotonic()
        backend_runner, reporter = runtime.binding.backend_runner, runtime.reporter
        own_time = runtime.capabilities.step_ns > 0
        figures = BackendFigures(
            name=type(runtime.backend).__name__,
            steps=backend_runner.steps,
            seconds=backend_runner.seconds,
            longest_s=backend_runner.reset_longest(),
            errors=backend_runner.errors,
            last_error=backend_runner.last_error,
            overruns=sum(map(reporter.count, _OVERRUNS)),
        )
        loop = self._loop.judge(
            self._plan,
            ticks=runtime.ticks,
            tick_seconds=runtime.tick_seconds,
            time_ns=runtime.time_ns,
            reports=reporter.reported(),
            owns_time=own_time,
            now_s=now_s,
        )
        verdicts = {
            "bridge": loop,
            "backend": self._backend.judge(figures, now_s),
            "tf": judge_tf(self._monitor.findings(), self._monitor.watched),
        }
        if runtime.controllers.present:
            verdicts["controllers"] = judge_controllers(runtime.controllers.status())
        for what, verdict in verdicts.items():
            status = self._general.setdefault(what, _Status(f"{name}: {what}", ""))
            status.message.hardware_id = self._plan.asset
            status.show(verdict)
            yield status.message

    def _robot(self, row: InterfaceStatus) -> str:
        """Return the prim path of the robot that an interface belongs to, else the asset."""
        path = row.path
        while path and path not in self._robots:
            path = path.rpartition("/")[0]
        return path or self._plan.asset


class _Status:
    """A DiagnosticStatus that is kept, as little of it changes from round to round."""

    __slots__ = ("_keys", "_values", "message")

    def __init__(self, name: str, hardware_id: str) -> None:
        self.message = DiagnosticStatus(name=escaped(name), hardware_id=escaped(hardware_id))
        self._keys: list[str] = []
        self._values: list[str] = []

    def show(self, verdict: Verdict) -> None:
        """Fill a status from a verdict."""
        message = self.message
        message.level = _LEVELS[verdict.level]
        message.message = escaped(verdict.message)
        keys = [key for key, _ in verdict.values]
        values = [escaped(value) for _, value in verdict.values]
        if keys != self._keys:
            message.values = [KeyValue(key=key, value=value) for key, value in zip(keys, values, strict=True)]
            self._keys, self._values = keys, values
        elif values != self._values:
            for item, old, new in zip(message.values, self._values, values, strict=True):
                if old != new:
                    item.value = new
            self._values = values


class _InterfaceRecord:
    """Record of an interface that is kept between two rounds."""

    __slots__ = ("name", "status", "watch")

    def __init__(self, name: str, hardware_id: str) -> None:
        self.name = name
        self.status = _Status(name, hardware_id)
        self.watch = InterfaceWatch()


def _shown(row: InterfaceStatus, main: int) -> str:
    """Return a label of an interface: role and name, and its domain unless that is the main one."""
    where = "" if row.domain_id in (None, main) else f" in domain {row.domain_id}"
    return f"{row.role} {row.name}{where}"


def _free(name: str, row: InterfaceStatus, taken: set[str]) -> str:
    """Return a name that no other interface has, as several may share topic and role."""
    if name in taken:
        name = f"{name} of {row.path or row.kind}"
    number = 2
    while name in taken:
        name, number = f"{name} ({number})", number + 1
    return name


def _no_rows() -> Iterator[InterfaceStatus]:
    return iter(())

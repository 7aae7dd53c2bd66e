"""Controller manager: which controllers are active, run them in the tick, and switch them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan

from usd_ros_bridge.backends.base import Capabilities
from usd_ros_bridge.controllers.controller_group import (
    ControllerContext,
    MadeGroup,
    OdometryGroup,
    References,
    StatefulGroup,
    make_groups,
)
from usd_ros_bridge.errors import BridgeError, alternatives, quoted
from usd_ros_bridge.model.actuation import ActuationFault, controller_fault
from usd_ros_bridge.model.controller_schemas import (
    CONTROLLERS,
    JOINT_STATE_BROADCASTER,
    parameter_range,
    uses_interface,
)
from usd_ros_bridge.model.periods import checked_period_ns
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, TopicPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.ranges import NumberRange
from usd_ros_bridge.reporting import Report, describe, log_info
from usd_ros_bridge.runtime.group_runner import (
    ASSET_CHANGED,
    SWITCHED_OFF,
    ControllerGroupRunner,
    ControllerSlot,
    GoalQueue,
    TickContext,
    any_active,
    inactivity,
)
from usd_ros_bridge.runtime.inbox import Inbox
from usd_ros_bridge.runtime.odometry import OdometryTable
from usd_ros_bridge.runtime.schedule import NEVER_NS

GroupMaker = Callable[[ControllerContext], "list[MadeGroup]"]
"""Make the groups of a plan."""

_NO_COMMANDS = "the backend takes no commands"
_SHOWN = 5
"""Controllers that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """Status of one controller.

    Attributes:
        path: Its prim path.
        schema: The schema it is declared by or stands for.
        active: Whether it commands, or lets its publisher publish.
        reason: Why not, "" where active.
        joints: Names of the joints it claims.
        fault: What it cannot move, and why; "" where it can move all that it is for.
    """

    path: str
    schema: str
    active: bool
    reason: str
    joints: tuple[str, ...]
    fault: str = ""


class ControllerManager:
    """All controllers of a plan, in groups by schema.

    `status`, `active` and `refusal` may be called from any thread, everything else from the one that ticks.

    Attributes:
        present: Whether there is any.
        runs: Whether any needs ticks. Broadcasters do not, nor those that the backend takes no commands of.
        busy: Whether one needs the next tick, as of the end of the last one.
        disabled: Prim paths of the publishers that must not publish now; another object after each switch.
        odometry: What controllers know of their robots' bases.
    """

    def __init__(
        self,
        plan: BridgePlan,
        capabilities: Capabilities,
        *,
        report: Report,
        inbox: Inbox,
        now_ns: Callable[[], int],
        clock_period_ns: Callable[[], int],
        inform: Report = log_info,
        make: GroupMaker = make_groups,
    ) -> None:
        """Make the groups of a plan, and report the controllers that cannot move what they are for.

        Args:
            plan: The plan.
            capabilities: What the open backend can do.
            report: For warnings.
            inbox: Where goals wait for the tick.
            now_ns: Returns the bridge time, nanoseconds; from any thread.
            clock_period_ns: As that of ControllerContext.
            inform: For news.
            make: Makes the groups.
        """
        self._report, self._inform = report, inform
        self._takes_commands = capabilities.commands
        self._tick = TickContext()
        self._references = References(plan.controllers)
        context = ControllerContext(
            plan=plan,
            report=report,
            inform=inform,
            kinematic=capabilities.kinematic,
            clock_period_ns=clock_period_ns,
            references=self._references,
        )
        self._faults = _find_faults(plan, capabilities)
        self._runners = self._make_runners(context, make)
        self._by_path: dict[str, list[ControllerSlot]] = {}
        self._by_interface: dict[str, list[ControllerSlot]] = {}
        for slot in self._slots():
            self._by_path.setdefault(slot.plan.path, []).append(slot)
            for path in slot.plan.interfaces:
                self._by_interface.setdefault(path, []).append(slot)
        self.disabled = self._find_disabled()
        self._announced = threading.Lock()
        self._waiting_queues: set[GoalQueue] = set()
        self._goal_queues = self._make_goal_queues(plan, inbox, now_ns)
        self.present = bool(self._runners)
        self.runs = any(map(self._needs_ticks, self._slots()))
        self.busy = False
        self.odometry = OdometryTable(
            (runner.group, _reckoning_rows(plan, runner, capabilities))
            for runner in self._runners
            if isinstance(runner.group, OdometryGroup)
        )
        self._report_idle()

    # --- Who is active -----------------------------------------------------------------------------------------

    def status(self) -> tuple[ControllerStatus, ...]:
        """Return all controllers, group by group; from any thread."""
        return tuple(
            ControllerStatus(
                path=slot.plan.path,
                schema=slot.plan.schema,
                active=slot.active,
                reason=slot.reason,
                joints=slot.plan.joints,
                fault=str(self._faults.get(_key(slot.plan), "")),
            )
            for slot in self._slots()
        )

    def active(self, path: str) -> bool:
        """Return whether a controller at a prim path is active; from any thread."""
        return any_active(self._by_path.get(path, ()))

    def refusal(self, activate: Iterable[str], deactivate: Iterable[str]) -> str:
        """Return why controllers cannot be switched like that, "" where they can; from any thread.

        Args:
            activate: Prim paths of controllers to switch on. One that is in both starts over.
            deactivate: Prim paths of controllers to switch off.
        """
        on, off = list(activate), list(deactivate)
        for path in (*on, *off):
            if path not in self._by_path:
                return f"there is no controller at {quoted(path)}; {alternatives(path, self._by_path)}"
        for slot in self._at(on):
            reason = self._impossible(slot.plan)
            if reason:
                return f"controller {slot.plan.path} cannot be switched on: {reason}"
        return self._conflict(set(on), set(off))

    def announce(self, activate: Iterable[str], deactivate: Iterable[str], post: Callable[[], None]) -> None:
        """Post a switch for the next tick; goals that arrive from here on find it done. From any thread.

        Args:
            activate: As for `refusal`.
            deactivate: As for `refusal`.
            post: Posts the job that calls `switch` with these.
        """
        with self._announced:
            # A goal that is accepted must come after the job: off is known before it is posted, on after that.
            self._request(deactivate, False)
            post()
            self._request(activate, True)

    def _request(self, paths: Iterable[str], requested: bool) -> None:
        for path in paths:
            for slot in self._by_path.get(path, ()):
                slot.requested = requested

    def withdraw(self, activate: Iterable[str], deactivate: Iterable[str]) -> None:
        """Drop an announced switch that is done or canceled; keep those announced since."""
        with self._announced:
            for paths, requested in ((activate, True), (deactivate, False)):
                for path in paths:
                    for slot in self._by_path.get(path, ()):
                        if slot.requested is requested:
                            slot.requested = None

    def switch(self, activate: Iterable[str], deactivate: Iterable[str]) -> None:
        """Switch controllers off and on, all of them between two commands.

        Args:
            activate: As for `refusal`.
            deactivate: As for `refusal`.

        Raises:
            BridgeError: It is impossible; nothing was switched.
        """
        on, off = list(activate), list(deactivate)
        try:
            self._switch(on, off)
        finally:
            self.withdraw(on, off)

    def _switch(self, on: list[str], off: list[str]) -> None:
        reason = self.refusal(on, off)
        if reason:
            raise BridgeError(reason)
        for slot in self._at(off):
            slot.chosen = False
            if slot.active:
                slot.switch(False, SWITCHED_OFF)
                self._release_references(slot)
        for slot in self._at(on):
            slot.chosen = True
            if not slot.active:
                slot.switch(True)
        self.disabled = self._find_disabled()

    def _release_references(self, slot: ControllerSlot) -> None:
        """Give the controllers free that one commanded; they brake or follow their own topics."""
        self._references.clear(slot.plan.chained)
        for path in slot.plan.chained:
            for follower in self._by_path.get(path, ()):
                follower.runner.touched = True

    # --- Parameters --------------------------------------------------------------------------------------------

    def parameter_names(self) -> Mapping[str, frozenset[str]]:
        """Return the names of parameters that may change at run time, by prim path of the controller."""
        return {
            path: frozenset().union(*(slot.runner.group.dynamic for slot in slots))
            for path, slots in self._by_path.items()
        }

    def parameter(self, path: str, name: str) -> float:
        """Return a parameter's value; NaN where the asset gives none and the controller's default holds.

        Raises:
            BridgeError: There is no such parameter.
        """
        slot = self._with_parameter(path, name)
        value = slot.values.get(name, slot.plan.parameters.get(name))
        return nan if value is None else float(value)

    def parameter_range(self, path: str, name: str) -> NumberRange:
        """Return the range of a parameter.

        Raises:
            BridgeError: There is no such parameter.
        """
        return parameter_range(self._with_parameter(path, name).plan.schema, name)

    def set_parameter(self, path: str, name: str, value: float) -> None:
        """Change a parameter.

        Raises:
            BridgeError: There is no such parameter.
        """
        slot = self._with_parameter(path, name)
        slot.values[name] = value
        slot.runner.call(lambda: slot.runner.group.set_parameter(slot.row, name, value))

    # --- What reaches them -------------------------------------------------------------------------------------

    def route(self, topic: TopicPlan) -> Route | None:
        """Return the way of a subscription's samples to the controllers that name it, None where none does."""
        slots = [m for m in self._by_interface.get(topic.path, ()) if uses_interface(m.plan.schema, topic)]
        return Route(slots, self._impossible) if slots else None

    def goal_queue(self, path: str) -> GoalQueue | None:
        """Return where goals of an action go, None where no controller serves it."""
        return self._goal_queues.get(path)

    # --- The tick ----------------------------------------------------------------------------------------------

    def begin(self, time_ns: int) -> None:
        """Begin a tick, before anything that arrived is taken."""
        self._tick.time_ns = time_ns

    def command(self, time_ns: int, commands: Commands) -> None:
        """Command the step to come, with groups that are busy or received something.

        Args:
            time_ns: Bridge time of the tick, nanoseconds.
            commands: Written to.
        """
        for queue in tuple(self._waiting_queues):
            queue.begin_waiting()
        state = self._tick.state
        if state is None or not self._takes_commands:
            return
        for runner in self._runners:
            if runner.busy or runner.touched or self._is_commanded(runner):
                runner.touched, runner.busy = False, True
                commands.silent = False
                try:
                    runner.group.command(time_ns, state, commands)
                except Exception as error:  # noqa: BLE001 - the runtime's edge
                    for slot in runner.slots:
                        self._references.clear(slot.plan.chained)
                    runner.fail(error)

    def _is_commanded(self, runner: ControllerGroupRunner) -> bool:
        """Return whether other controllers command some of a group."""
        return runner.references is not None and self._references.has_values(runner.references)

    def observe(self, state: State) -> None:
        """Show the state that a step left to controllers that have commanded it or measure odometry."""
        self._tick.state = state
        for runner in self._runners:
            if not (runner.busy or runner.observes_at_rest):
                continue
            try:
                runner.group.observe(state)
            except Exception as error:  # noqa: BLE001 - the runtime's edge
                runner.fail(error)

    def end(self, state: State | None) -> None:
        """End a tick, and find out who needs the next one.

        Args:
            state: What is shown; what `observe` was given, or what holds where the backend gave none.
        """
        self._tick.state = state
        takes_commands = state is not None and self._takes_commands
        busy = bool(self._waiting_queues)
        for runner in self._runners:
            # Only what reaches a group makes it busy.
            if runner.busy or runner.touched or runner.observes_at_rest:
                busy = runner.update_busy() or (takes_commands and runner.touched) or busy
        self.busy = busy

    def reset(self) -> None:
        """Start over: goals end aborted, and time may be anything."""
        self._tick.state = None
        self._references.clear()
        for queue in self._goal_queues.values():
            queue.end_waiting("time starts over")
        for runner in self._runners:
            runner.call(runner.group.reset)
            runner.end_all("time starts over")

    def transfer_state(self, old: ControllerManager) -> None:
        """Continue from the controllers of the plan before: which are active, parameters, poses of bases."""
        self._tick.time_ns = old._tick.time_ns
        switched: dict[str, bool] = {}
        for slot in self._slots():
            for before in old._by_path.get(slot.plan.path, ()):
                if before.plan.schema != slot.plan.schema:
                    continue
                # A controller that nobody switched starts as its plan says: others of its prim may be new, and its
                # joints may have drives now.
                if before.plan.enabled == slot.plan.enabled and before.chosen is not None:
                    switched[slot.plan.path] = slot.chosen = before.chosen
                for name, value in before.values.items():
                    if name in slot.runner.group.dynamic:
                        self.set_parameter(slot.plan.path, name, value)
                self._transfer_group_state(slot, before)
        on = [
            path
            for path, active in switched.items()
            if active
            and not self.active(path)
            and not any(self._impossible(slot.plan) for slot in self._by_path[path])
        ]
        off = [path for path, active in switched.items() if not active and self.active(path)]
        if not self.refusal(on, off):
            self.switch(on, off)

    def leave(self, successor: ControllerManager, commands: Commands) -> Sequence[ControllerSlot]:
        """Stop what controllers move that the next plan does not continue: nobody could stop it any more.

        Called before the backend's state is transferred.

        Args:
            successor: The controllers of the next plan; it has no state of these yet.
            commands: Written to.

        Returns:
            The controllers that were switched off, for `stay`.
        """
        state = self._tick.state
        if state is None or not self._takes_commands:
            return ()
        left = [slot for slot in self._slots() if slot.active and not successor._continues(slot)]
        for slot in left:
            for run in slot.runner.goals_of(slot):
                run.end("aborted", ASSET_CHANGED)
            slot.switch(False, ASSET_CHANGED)
            # Those that it commanded may go on: they brake.
            self._release_references(slot)
        for runner in self._runners:
            if runner.touched and runner.schema != JOINT_STATE_BROADCASTER:
                runner.touched, commands.silent = False, False
                try:
                    runner.group.command(self._tick.time_ns, state, commands)
                except Exception as error:  # noqa: BLE001 - the runtime's edge
                    runner.fail(error)
        return left

    def stay(self, left: Iterable[ControllerSlot]) -> None:
        """Switch controllers on again that `leave` has switched off, at rest: there is no next plan."""
        for slot in left:
            slot.switch(True)

    def _continues(self, before: ControllerSlot) -> bool:
        """Return whether an active controller here takes over what one of the plan before moves."""
        return any(
            slot.active
            and slot.plan.schema == before.plan.schema
            and slot.plan.joints == before.plan.joints
            and slot.plan.parameters.get("body") == before.plan.parameters.get("body")
            and isinstance(slot.runner.group, StatefulGroup)
            and type(slot.runner.group) is type(before.runner.group)
            for slot in self._by_path.get(before.plan.path, ())
        )

    def _transfer_group_state(self, slot: ControllerSlot, before: ControllerSlot) -> None:
        group, row = slot.runner.group, slot.row
        if isinstance(group, StatefulGroup) and type(before.runner.group) is type(group):
            slot.runner.call(lambda: group.transfer_state(row, before.runner.group, before.row))

    def close(self, why: str = "the bridge is closed") -> None:
        """End all goals, those to come included."""
        for queue in self._goal_queues.values():
            queue.close(why)
        for runner in self._runners:
            runner.end_all(why)
            # Slots and their runner refer to each other, and groups may hold the plan: nothing waits for the collector.
            runner.slots.clear()

    # --- Own ---------------------------------------------------------------------------------------------------

    def _make_runners(
        self, context: ControllerContext, make: GroupMaker
    ) -> tuple[ControllerGroupRunner, ...]:
        if not context.plan.controllers:
            return ()
        try:
            made = make(context)
        except Exception as error:  # noqa: BLE001 - the runtime's edge: the rest of the bridge works without
            self._report("controller.error", f"controllers could not be made: {describe(error)}")
            return ()
        runners = tuple(
            ControllerGroupRunner(each, self._tick, self._report, self._inactive) for each in made
        )
        for runner in runners:
            slots = self._references.all_slots({slot.plan.path for slot in runner.slots})
            row = CONTROLLERS.get(runner.schema)
            if slots.size and row is not None and row.references:
                runner.references = slots
        return runners

    def _make_goal_queues(
        self, plan: BridgePlan, inbox: Inbox, now_ns: Callable[[], int]
    ) -> dict[str, GoalQueue]:
        queues = {}
        for action in plan.actions:
            named = (
                m for m in self._by_interface.get(action.path, ()) if uses_interface(m.plan.schema, action)
            )
            slots = [m for m in named if m.runner.goals is not None]
            if slots and action.role == "server":
                queues[action.path] = GoalQueue(
                    action.path,
                    slots,
                    inbox,
                    self._tick,
                    self._waiting_queues,
                    now_ns,
                    refusal=_refusal(slots, self._impossible),
                )
        return queues

    def _find_disabled(self) -> frozenset[str]:
        """Return the publishers that joint state broadcasters name, none of which is active."""
        broadcasters = [slot for slot in self._slots() if slot.plan.schema == JOINT_STATE_BROADCASTER]
        enabled = {path for slot in broadcasters if slot.active for path in slot.plan.interfaces}
        return frozenset(path for slot in broadcasters for path in slot.plan.interfaces) - enabled

    def _slots(self) -> Iterable[ControllerSlot]:
        return (slot for runner in self._runners for slot in runner.slots)

    def _at(self, paths: Iterable[str]) -> list[ControllerSlot]:
        return [slot for path in dict.fromkeys(paths) for slot in self._by_path[path]]

    def _inactive(self, plan: ControllerPlan) -> str:
        """Return why a controller does not start active, "" where it does."""
        if not plan.enabled:
            return plan.reason or "it cannot work"
        return self._impossible(plan)

    def _needs_ticks(self, slot: ControllerSlot) -> bool:
        """Return whether a controller measures odometry, or can be active and do more than enable its publisher."""
        if slot.runner.observes_at_rest:
            return True
        return slot.plan.schema != JOINT_STATE_BROADCASTER and not self._impossible(slot.plan)

    def _impossible(self, plan: ControllerPlan) -> str:
        """Return why a controller cannot be active at all, "" where it can."""
        if not plan.switchable:
            return plan.reason or "it cannot work"
        if plan.claims and not self._takes_commands:
            return _NO_COMMANDS
        fault = self._faults.get(_key(plan))
        return str(fault) if fault is not None and not fault.acts else ""

    def _report_idle(self) -> None:
        """Report the controllers that would be active, and cannot move what they are for."""
        plans = [slot.plan for slot in self._slots() if slot.plan.enabled]
        idle = [] if self._takes_commands else [plan.path for plan in plans if plan.claims]
        if idle:
            more = f" and {len(idle) - _SHOWN} more" if len(idle) > _SHOWN else ""
            self._inform(
                "controller.no_commands",
                f"{_NO_COMMANDS}: inactive, and refusing goals: {', '.join(idle[:_SHOWN])}{more}",
            )
        for plan in plans:
            fault = self._faults.get(_key(plan))
            if fault is not None and not fault.remark:
                self._report(f"controller.cannot_move:{plan.path}", f"{plan.path}: {fault}")

    def _conflict(self, on: set[str], off: set[str]) -> str:
        """Return which two controllers would write the same, "" where none would."""
        owners: dict[int | str, ControllerSlot] = {}
        for slot in self._slots():
            path = slot.plan.path
            if not (path in on or (slot.active and path not in off)):
                continue
            for claim in slot.plan.claims:
                other = owners.setdefault(claim, slot)
                if other is not slot:
                    what = claim if isinstance(claim, str) else _joint(slot.plan, claim)
                    return f"{quoted(what)} would be commanded by {other.plan.path} and {path}"
        return ""

    def _with_parameter(self, path: str, name: str) -> ControllerSlot:
        for slot in self._by_path.get(path, ()):
            if name in slot.runner.group.dynamic:
                return slot
        possible = self.parameter_names().get(path)
        there = alternatives(name, possible) if possible else "there is no such controller"
        raise BridgeError(
            f"the controller at {quoted(path)} has no parameter {quoted(name)} that can change; {there}"
        )


class Route:
    """The way of one subscription's samples to the controllers that name it.

    Attributes:
        refusal: Why none of them can ever be active, "" where one can.
        is_reported: Whether that has been reported: it is the backend that does not move what they command.
        dropped: Samples that came while none was active.
    """

    def __init__(self, slots: list[ControllerSlot], impossible: Callable[[ControllerPlan], str]) -> None:
        """Make the way to `slots`."""
        self._slots = slots
        self.refusal = _refusal(slots, impossible)
        self.is_reported = bool(self.refusal) and all(slot.plan.enabled for slot in slots)
        self.dropped = 0

    @property
    def reason(self) -> str:
        """Why samples are dropped now, "" where they are not."""
        return inactivity(self._slots)

    def receive(self, sample: object) -> None:
        """Give a sample to those that are active."""
        received = False
        for slot in self._slots:
            if slot.active:
                received = True
                slot.receive(sample)
        if not received:
            self.dropped += 1


def _refusal(slots: Iterable[ControllerSlot], impossible: Callable[[ControllerPlan], str]) -> str:
    """Return why none of the controllers of an interface can ever be active, "" where one can."""
    reasons = [impossible(slot.plan) for slot in slots]
    return "" if "" in reasons else reasons[0]


def _find_faults(plan: BridgePlan, capabilities: Capabilities) -> dict[tuple[str, str], ActuationFault]:
    """Return what controllers cannot move, by path and schema; nothing where the backend takes no commands."""
    if not capabilities.commands:
        return {}
    found = {}
    for controller in plan.controllers:
        if controller.switchable:
            fault = controller_fault(plan, controller, capabilities.unmoved, kinematic=capabilities.kinematic)
            if fault is not None:
                found[_key(controller)] = fault
    return found


def _reckoning_rows(plan: BridgePlan, runner: ControllerGroupRunner, capabilities: Capabilities) -> list[int]:
    """Return the rows of a group that measure odometry: not those of robots whose odometry the backend gives."""
    measured = {index for index, robot in enumerate(plan.robots) if robot.path in capabilities.odometry}
    return [slot.row for slot in runner.slots if slot.plan.switchable and slot.plan.robot not in measured]


def _key(plan: ControllerPlan) -> tuple[str, str]:
    return plan.path, plan.schema


def _joint(plan: ControllerPlan, row: int) -> str:
    return plan.joints[plan.dofs.index(row)] if row in plan.dofs else str(row)


class ControlGrid:
    """The times at which busy controllers are run.

    Attributes:
        origin_ns: Where the grid begins, nanoseconds of bridge time.
        due_ns: When the next tick is needed, NEVER_NS while no controller is busy.
        clock_period_ns: Period of the clock that the ticks follow, nanoseconds, as that of `Schedule`.
    """

    def __init__(self, rate: float) -> None:
        """Store how often controllers run, Hz.

        Raises:
            BridgeError: It is no positive number.
        """
        self._period_ns = checked_period_ns("controller_rate", rate)
        self.origin_ns = 0
        self.clock_period_ns = 0
        self.due_ns = NEVER_NS

    def end_tick(
        self, controllers: ControllerManager, time_ns: int, state: State | None, *, stepped: bool
    ) -> None:
        """Show controllers what the step left, and find out when they need the next tick.

        Args:
            controllers: Commanded in this tick.
            time_ns: Bridge time of the tick, nanoseconds.
            state: The state that is shown, None before the first.
            stepped: Whether the backend gave it in this tick.
        """
        if stepped and state is not None:
            controllers.observe(state)
        controllers.end(state)
        period, origin = self._period_ns, self.origin_ns
        early = self.clock_period_ns // 2
        passed = (time_ns + early - origin) // period
        self.due_ns = origin + (passed + 1) * period - early if controllers.busy else NEVER_NS

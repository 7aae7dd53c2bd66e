"""Controllers in the tick: who is active, what reaches them, when they command, and who may be switched on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import nan

from usd_ros_bridge.backends.protocol import Capabilities, Report
from usd_ros_bridge.controllers.protocol import ControllerContext, OdometryGroup, SuccessorGroup
from usd_ros_bridge.controllers.registry import MadeGroup, make_groups
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, TopicPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.planning.controller_schemas import serves
from usd_ros_bridge.runtime.gate import Gate
from usd_ros_bridge.runtime.goals import GoalDesk
from usd_ros_bridge.runtime.hosting import SWITCHED_OFF, Host, Member, Moment, any_active
from usd_ros_bridge.runtime.inbox import Inbox
from usd_ros_bridge.runtime.odometry import OdometryTable
from usd_ros_bridge.runtime.report import describe

GroupMaker = Callable[[ControllerContext], "list[MadeGroup]"]
"""Makes the groups of a plan."""

_NO_COMMANDS = "the backend takes no commands"
_BROADCASTER = "RosControlJointStateBroadcasterAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """One controller.

    Attributes:
        path: Its prim path.
        schema: The schema it is declared by or stands for.
        active: Whether it commands, or lets its publisher publish.
        reason: Why not, "" where active.
        joints: Names of the joints it claims.
    """

    path: str
    schema: str
    active: bool
    reason: str
    joints: tuple[str, ...]


class Controllers:
    """All controllers of a plan, in groups by schema.

    `status`, `active` and `refusal` may be called from any thread, everything else from the one that ticks.

    Attributes:
        present: Whether there is any.
        busy: Whether one needs the next tick, as of the end of the last one.
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
        make: GroupMaker = make_groups,
    ) -> None:
        """Makes the groups of a plan.

        Args:
            plan: The plan.
            capabilities: What the open backend can do.
            report: For warnings.
            inbox: Where goals wait for the tick.
            now_ns: Returns the bridge time, nanoseconds; from any thread.
            clock_period_ns: As that of ControllerContext.
            make: Makes the groups.
        """
        self._report = report
        self._takes_commands = capabilities.commands
        self._moment = Moment()
        context = ControllerContext(
            plan=plan, report=report, kinematic=capabilities.kinematic, clock_period_ns=clock_period_ns
        )
        self._hosts = self._make_hosts(context, make)
        self._by_path: dict[str, list[Member]] = {}
        self._by_interface: dict[str, list[Member]] = {}
        for member in self._members():
            self._by_path.setdefault(member.plan.path, []).append(member)
            for path in member.plan.interfaces:
                self._by_interface.setdefault(path, []).append(member)
        paths = [path for m in self._members() if m.plan.schema == _BROADCASTER for path in m.plan.interfaces]
        self._gates = {path: Gate(self._broadcasts(path)) for path in paths}
        self._announced = threading.Lock()
        self._crowded: set[GoalDesk] = set()
        self._desks = self._make_desks(plan, inbox, now_ns)
        self.present = bool(self._hosts)
        self.busy = False
        self.odometry = OdometryTable(
            (host.group, [member.row for member in host.members if member.plan.switchable])
            for host in self._hosts
            if isinstance(host.group, OdometryGroup)
        )

    # --- Who is active -----------------------------------------------------------------------------------------

    def status(self) -> tuple[ControllerStatus, ...]:
        """Returns all controllers, group by group; from any thread."""
        return tuple(
            ControllerStatus(
                path=member.plan.path,
                schema=member.plan.schema,
                active=member.active,
                reason=member.reason,
                joints=member.plan.joints,
            )
            for member in self._members()
        )

    def active(self, path: str) -> bool:
        """Returns whether a controller at a prim path is active; from any thread."""
        return any_active(self._by_path.get(path, ()))

    def refusal(self, activate: Iterable[str], deactivate: Iterable[str]) -> str:
        """Returns why controllers cannot be switched like that, "" where they can; from any thread.

        Args:
            activate: Prim paths of controllers to switch on. One that is in both starts over.
            deactivate: Prim paths of controllers to switch off.
        """
        on, off = list(activate), list(deactivate)
        for path in (*on, *off):
            if path not in self._by_path:
                return f"there is no controller at {quoted(path)}"
        for member in self._at(on):
            reason = self._impossible(member.plan)
            if reason:
                return f"controller {member.plan.path} cannot be switched on: {reason}"
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
            self._ask(deactivate, False)
            post()
            self._ask(activate, True)

    def _ask(self, paths: Iterable[str], asked: bool) -> None:
        for path in paths:
            for member in self._by_path.get(path, ()):
                member.asked = asked

    def withdraw(self, activate: Iterable[str], deactivate: Iterable[str]) -> None:
        """Forget a switch that was announced and is done, or is not to be; one that was announced since stays."""
        with self._announced:
            for paths, asked in ((activate, True), (deactivate, False)):
                for path in paths:
                    for member in self._by_path.get(path, ()):
                        if member.asked is asked:
                            member.asked = None

    def switch(self, activate: Iterable[str], deactivate: Iterable[str]) -> None:
        """Switches controllers off and on, all of them between two commands.

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
        for member in self._at(off):
            if member.active:
                member.switch(False, SWITCHED_OFF)
        for member in self._at(on):
            if not member.active:
                member.switch(True)
        for path, gate in self._gates.items():
            gate.turn(self._broadcasts(path))

    # --- Parameters --------------------------------------------------------------------------------------------

    def parameter_names(self) -> Mapping[str, frozenset[str]]:
        """Returns the names of parameters that may change at run time, by prim path of the controller."""
        return {
            path: frozenset().union(*(member.host.group.dynamic for member in members))
            for path, members in self._by_path.items()
        }

    def parameter(self, path: str, name: str) -> float:
        """Returns a parameter's value; NaN where the asset gives none and the controller's default holds.

        Raises:
            BridgeError: There is no such parameter.
        """
        member = self._with_parameter(path, name)
        value = member.values.get(name, member.plan.parameters.get(name))
        return nan if value is None else float(value)

    def set_parameter(self, path: str, name: str, value: float) -> None:
        """Changes a parameter.

        Raises:
            BridgeError: There is no such parameter.
        """
        member = self._with_parameter(path, name)
        member.values[name] = value
        member.host.call(lambda: member.host.group.set_parameter(member.row, name, value))

    # --- What reaches them -------------------------------------------------------------------------------------

    def route(self, topic: TopicPlan) -> Route | None:
        """Returns the way of a subscription's samples to the controllers that name it, None where none does."""
        members = [m for m in self._by_interface.get(topic.path, ()) if serves(m.plan.schema, topic)]
        return Route(members, self._impossible) if members else None

    def desk(self, path: str) -> GoalDesk | None:
        """Returns where goals of an action go, None where no controller serves it."""
        return self._desks.get(path)

    def gate(self, path: str) -> Gate | None:
        """Returns what is open while a publisher may publish, None where no controller has a say in it.

        Args:
            path: Prim path of the publisher.
        """
        return self._gates.get(path)

    # --- The tick ----------------------------------------------------------------------------------------------

    def begin(self, time_ns: int) -> None:
        """Begins a tick, before anything that arrived is taken."""
        self._moment.time_ns = time_ns

    def command(self, time_ns: int, commands: Commands) -> None:
        """Has controllers command the step to come: those that are busy, and those that something reached.

        Args:
            time_ns: Bridge time of the tick, nanoseconds.
            commands: Written to.
        """
        for desk in tuple(self._crowded):
            desk.begin_waiting()
        state = self._moment.state
        if state is None or not self._takes_commands:
            return
        for host in self._hosts:
            if host.busy or host.touched:
                host.touched = False
                commands.silent = False
                try:
                    host.group.command(time_ns, state, commands)
                except Exception as error:  # noqa: BLE001 - the runtime's edge
                    host.fail(error)

    def observe(self, state: State) -> None:
        """Shows controllers the state that a step left."""
        self._moment.state = state
        for host in self._hosts:
            try:
                host.group.observe(state)
            except Exception as error:  # noqa: BLE001 - the runtime's edge
                host.fail(error)

    def end(self, state: State | None) -> None:
        """Ends a tick: finds out who needs the next one.

        Args:
            state: What is shown; what `observe` was given, or what holds where the backend gave none.
        """
        self._moment.state = state
        heard = state is not None and self._takes_commands
        busy = bool(self._crowded)
        for host in self._hosts:
            busy = host.look() or (heard and host.touched) or busy
        self.busy = busy

    def reset(self) -> None:
        """Starts over: goals end aborted, and time may be anything."""
        self._moment.state = None
        for desk in self._desks.values():
            desk.end_waiting("time starts over")
        for host in self._hosts:
            host.call(host.group.reset)
            host.end_all("time starts over")

    def take_over(self, other: Controllers) -> None:
        """Goes on where the controllers of the plan before stand: who is active, what was set, where bases are."""
        self._moment.time_ns = other._moment.time_ns
        switched: dict[str, bool] = {}
        for member in self._members():
            for old in other._by_path.get(member.plan.path, ()):
                if old.plan.schema != member.plan.schema:
                    continue
                # What nobody switched starts as its plan says: others of its prim may be new.
                if old.plan.enabled == member.plan.enabled != old.active:
                    switched[member.plan.path] = old.active
                for name, value in old.values.items():
                    if name in member.host.group.dynamic:
                        self.set_parameter(member.plan.path, name, value)
                self._continue(member, old)
        on = [path for path, active in switched.items() if active and not self.active(path)]
        off = [path for path, active in switched.items() if not active and self.active(path)]
        if not self.refusal(on, off):
            self.switch(on, off)

    def _continue(self, member: Member, old: Member) -> None:
        group, row = member.host.group, member.row
        if isinstance(group, SuccessorGroup) and type(old.host.group) is type(group):
            member.host.call(lambda: group.take_over(row, old.host.group, old.row))

    def close(self, why: str = "the bridge is closed") -> None:
        """Ends all goals, those to come included."""
        for desk in self._desks.values():
            desk.close(why)
        for host in self._hosts:
            host.end_all(why)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _make_hosts(self, context: ControllerContext, make: GroupMaker) -> tuple[Host, ...]:
        if not context.plan.controllers:
            return ()
        try:
            made = make(context)
        except Exception as error:  # noqa: BLE001 - the runtime's edge: the rest of the bridge works without
            self._report("controller.error", f"controllers could not be made: {describe(error)}")
            return ()
        return tuple(Host(each, self._moment, self._report, self._inactive) for each in made)

    def _make_desks(self, plan: BridgePlan, inbox: Inbox, now_ns: Callable[[], int]) -> dict[str, GoalDesk]:
        desks = {}
        for action in plan.actions:
            named = (m for m in self._by_interface.get(action.path, ()) if serves(m.plan.schema, action))
            members = [m for m in named if m.host.goals is not None]
            if members and action.role == "server":
                desks[action.path] = GoalDesk(
                    action.path, members, inbox, self._moment, self._crowded, now_ns
                )
        return desks

    def _broadcasts(self, path: str) -> bool:
        """Returns whether a joint state broadcaster that names a publisher is active."""
        return any_active(m for m in self._by_interface[path] if m.plan.schema == _BROADCASTER)

    def _members(self) -> Iterable[Member]:
        return (member for host in self._hosts for member in host.members)

    def _at(self, paths: Iterable[str]) -> list[Member]:
        return [member for path in dict.fromkeys(paths) for member in self._by_path[path]]

    def _inactive(self, plan: ControllerPlan) -> str:
        """Returns why a controller does not start active, "" where it does."""
        if not plan.enabled:
            return plan.reason or "it cannot work"
        return self._impossible(plan)

    def _impossible(self, plan: ControllerPlan) -> str:
        """Returns why a controller cannot be active at all, "" where it can."""
        if not plan.switchable:
            return plan.reason or "it cannot work"
        return _NO_COMMANDS if plan.claims and not self._takes_commands else ""

    def _conflict(self, on: set[str], off: set[str]) -> str:
        """Returns which two controllers would write the same, "" where none would."""
        owners: dict[int | str, Member] = {}
        for member in self._members():
            path = member.plan.path
            if not (path in on or (member.active and path not in off)):
                continue
            for claim in member.plan.claims:
                other = owners.setdefault(claim, member)
                if other is not member:
                    what = claim if isinstance(claim, str) else _joint(member.plan, claim)
                    return f"{quoted(what)} would be commanded by {other.plan.path} and {path}"
        return ""

    def _with_parameter(self, path: str, name: str) -> Member:
        for member in self._by_path.get(path, ()):
            if name in member.host.group.dynamic:
                return member
        raise BridgeError(f"the controller at {quoted(path)} has no parameter {quoted(name)} that can change")


class Route:
    """The way of one subscription's samples to the controllers that name it.

    Attributes:
        refusal: Why none of them can ever be active, "" where one can.
        dropped: Samples that came while none was active.
    """

    def __init__(self, members: list[Member], impossible: Callable[[ControllerPlan], str]) -> None:
        """Makes the way to `members`."""
        self._members = members
        reasons = [impossible(member.plan) for member in members]
        self.refusal = "" if "" in reasons else reasons[0]
        self.dropped = 0

    @property
    def reason(self) -> str:
        """Why samples are dropped now, "" where they are not."""
        if any_active(self._members):
            return ""
        return f"controller {self._members[0].plan.path} is inactive: {self._members[0].reason}"

    def take(self, sample: object) -> None:
        """Gives a sample to those that are active."""
        taken = False
        for member in self._members:
            if member.active:
                taken = True
                member.take(sample)
        if not taken:
            self.dropped += 1


def _joint(plan: ControllerPlan, row: int) -> str:
    return plan.joints[plan.dofs.index(row)] if row in plan.dofs else str(row)

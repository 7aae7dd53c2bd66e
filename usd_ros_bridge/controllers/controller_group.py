"""Controller groups: all controllers of one schema are one group, whose numbers lie in arrays together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.controller_schemas import CONTROLLERS, load_class
from usd_ros_bridge.model.goals import Outcome
from usd_ros_bridge.model.periods import is_reached, period_ns, periods_missed
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.reporting import Report, log_info
from usd_ros_bridge.spatial.transforms import FloatArray


class References:
    """Reference interfaces of all controllers of a plan, as those of chainable controllers in ros2_control.

    Numbers that one controller writes and another follows in the same tick, instead of its command topic. All of them
    lie in one array; a controller finds its own, or those that it commands, once, as slots.

    Attributes:
        count: How many there are; 0 if no controller commands another.
    """

    def __init__(self, plans: Sequence[ControllerPlan] = ()) -> None:
        """Make the references of the controllers that others command, without values."""
        commanded = {path for plan in plans for path in plan.chained}
        self._slots: dict[tuple[str, str], int] = {}
        for plan in plans:
            row = CONTROLLERS.get(plan.schema)
            if plan.path in commanded and row is not None:
                for name in row.references:
                    self._slots.setdefault((plan.path, name), len(self._slots))
        self.count = len(self._slots)
        # One more, which is never written, for those that do not exist.
        self._values = np.full(self.count + 1, np.nan)

    def slots(self, paths: Sequence[Sequence[str]], names: Sequence[str]) -> NDArray[np.intp]:
        """Return (K, R) slots of the references `names` of controllers.

        Args:
            paths: For each of K rows, prim paths of controllers; the first with a reference of the name counts. For
                a controller's own references, its path; for those that it commands, `ControllerPlan.chained`.
            names: R names of references.
        """
        found = [
            [
                next(
                    (slot for path in each if (slot := self._slots.get((path, name))) is not None), self.count
                )
                for name in names
            ]
            for each in paths
        ]
        return np.array(found, dtype=np.intp).reshape(len(paths), len(names))

    def read(self, slots: NDArray[np.intp]) -> FloatArray:
        """Return the values of some slots; NaN where no active controller gives one."""
        return self._values[slots]

    def write(self, slots: NDArray[np.intp], values: FloatArray) -> None:
        """Write the values of some slots. They hold until others are written; NaN gives the controller free."""
        self._values[slots] = values
        self._values[-1] = np.nan

    def all_slots(self, paths: Collection[str]) -> NDArray[np.intp]:
        """Return the slots of all references of the controllers at some prim paths."""
        return np.array([slot for (path, _), slot in self._slots.items() if path in paths], dtype=np.intp)

    def clear(self, paths: Collection[str] | None = None) -> None:
        """Give controllers free: those at some prim paths, or all."""
        self._values[slice(None) if paths is None else self.all_slots(paths)] = np.nan

    def has_values(self, slots: NDArray[np.intp]) -> bool:
        """Return whether one of some slots has a value."""
        return bool(np.isfinite(self._values[slots]).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """Arguments of controller groups.

    Attributes:
        plan: The plan, with its layout.
        report: For warnings at run time.
        inform: For news.
        kinematic: Whether the backend moves joints and bodies as commanded: without contact between wheel and floor,
            a drive's controller moves the base itself.
        clock_period_ns: Returns the period of the clock that ticks follow, nanoseconds; 0 where ticks come when they
            are asked for. Periodic work counts as reached at the tick nearest to it.
        references: What controllers command others.
    """

    plan: BridgePlan
    report: Report
    inform: Report = log_info
    kinematic: bool = False
    clock_period_ns: Callable[[], int] = lambda: 0
    references: References = field(default_factory=References)


class ControllerGroup(Protocol):
    """All controllers of one schema in a plan; `row` is an index into the plans that it was made with.

    All methods run in the tick thread, except `GoalGroup.check`. In each tick `receive` and `start` come first, then
    `command`, and after the backend's step `observe`. None of them may wait.
    """

    dynamic: ClassVar[frozenset[str]]
    """Names of ControllerPlan.parameters that may change at run time."""

    observes_at_rest: ClassVar[bool]
    """Whether `observe` is needed while the group is not `busy`, for odometry."""

    @property
    def busy(self) -> bool:
        """Return whether the next tick matters though nothing arrives: a motion, a time-out, a goal in progress.

        Read at the end of ticks in which the group was busy or something reached it, or of every tick with
        `observes_at_rest`: a group does not become busy by itself.
        """
        ...

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:
        """Switch a controller on, from the state that there is, or off.

        Switched off, its goals end aborted and what it moved stands still. Controllers whose plan is enabled are
        active from the start. `state` is None before the first.
        """
        ...

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Change one of the parameters in `dynamic`; the value was checked."""
        ...

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Receive a sample of a controller's command topic. Never called for one that is inactive."""
        ...

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Write what active controllers want at `time_ns`, the end of the step to come.

        Called if the group is `busy` or something reached it in the tick (`receive`, `start`, a switch, a parameter).
        The step to come began at `state.time_ns`, which may be long ago where nothing happened since.

        Args:
            time_ns: Bridge time of the tick, nanoseconds; not less than at the last call except after `reset`.
            state: The state that the last step left.
            commands: Only rows that a controller has something to say about are written.
        """
        ...

    def observe(self, state: State) -> None:
        """Evaluate the state after a step: tolerances, results, feedback, odometry. Keep none of its arrays.

        Called in ticks in which `command` was called, or in every tick with `observes_at_rest`.
        """
        ...

    def reset(self) -> None:
        """Start over: goals end aborted, nothing is commanded, time may be anything, who is active stays so."""
        ...


class GoalPort(Protocol):
    """The way back to the client of one accepted goal. Called from the tick's thread; does not wait."""

    def feedback(self, feedback: object) -> None:
        """Pass feedback on: FollowTrajectoryFeedback or GripperState."""
        ...

    def finish(self, outcome: Outcome, result: object) -> None:
        """End the goal, exactly once: FollowTrajectoryResult or GripperState."""
        ...


@runtime_checkable
class GoalGroup(ControllerGroup, Protocol):
    """Controllers that follow goals. Whatever a goal holds, it ends with exactly one `GoalPort.finish`."""

    def check(self, row: int, goal: object, *, time_ns: int) -> str:
        """Return why a goal is to be rejected, "" where it is acceptable. From any thread: it reads plans only.

        Args:
            row: Which controller.
            goal: FollowTrajectoryGoal or GripperGoal.
            time_ns: Bridge time.
        """
        ...

    def start(self, row: int, goal: object, port: GoalPort, *, time_ns: int, state: State) -> None:
        """Begin a goal that was checked; the one in progress, if any, ends aborted as preempted."""
        ...

    def cancel(self, row: int, port: GoalPort) -> None:
        """End the goal of `port` canceled and hold the current position; one that ended already is ignored."""
        ...


@runtime_checkable
class OdometryGroup(ControllerGroup, Protocol):
    """Controllers that measure their robot's base. Arrays have a row per controller and change in `observe`."""

    odometry_robots: NDArray[np.intp]
    """(K,) index in BridgePlan.robots, -1 for a controller that can never run."""

    odom_from_base: FloatArray
    """(K, 7) pose of the base in its odometry frame: where it stood at the start or the last reset (REP 105)."""

    base_twist: FloatArray
    """(K, 6) linear then angular velocity in the base's own frame."""

    pose_covariance: FloatArray
    """(K, 6) variances of x, y, z, m^2, and of the rotations about them, rad^2: the diagonal of Odometry's."""

    twist_covariance: FloatArray
    """(K, 6) variances of the linear velocity, (m/s)^2, and of the angular one, (rad/s)^2."""


@runtime_checkable
class StatefulGroup(ControllerGroup, Protocol):
    """Controllers that continue from the group of the plan before, of the same schema.

    Those of any other group are switched off before the plan changes, and so are those that do not stay.
    """

    def transfer_state(self, row: int, other: Any, other_row: int) -> None:
        """Continue the state of a controller of another group of this class. Called before the first tick."""
        ...


class GroupFactory(Protocol):
    """Make the group of one schema."""

    def __call__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> ControllerGroup:
        """Return a group of `plans`; those that cannot run (`enabled` false with a fault) are never activated."""
        ...


SLOWEST_RATE = 0.1
"""Hz. Of anything slower nobody would see a second message."""


class FeedbackTimer:
    """The feedback of one goal. A rate that the states cannot meet gets one message for each state."""

    __slots__ = ("_clock_period_ns", "_last_ns", "_next_ns", "_period_ns")

    def __init__(self, rate: float, first_ns: int, clock_period_ns: Callable[[], int]) -> None:
        """Arm the timer.

        Args:
            rate: Hz; what is below SLOWEST_RATE counts as that.
            first_ns: When feedback is due first, nanoseconds of bridge time.
            clock_period_ns: As that of ControllerContext.
        """
        self._period_ns = feedback_period_ns(rate)
        self._next_ns = first_ns
        self._last_ns: int | None = None
        self._clock_period_ns = clock_period_ns

    def is_due(self, time_ns: int) -> bool:
        """Return whether the state of a time is one to feed back; never twice for one time."""
        return time_ns != self._last_ns and is_reached(self._next_ns, time_ns, self._clock_period_ns())

    def advance(self, time_ns: int) -> None:
        """Note that the state of a time was fed back."""
        missed = periods_missed(self._next_ns, self._period_ns, time_ns, self._clock_period_ns())
        self._next_ns += (missed + 1) * self._period_ns
        self._last_ns = time_ns


def feedback_period_ns(rate: float) -> int:
    """Return the period of a monitor rate (Hz), nanoseconds."""
    return period_ns(max(rate, SLOWEST_RATE))


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeGroup:
    """A group and its controllers.

    Attributes:
        schema: ControllerPlan.schema that all have.
        plans: The controllers; a `row` of the group is an index here.
        group: The group.
    """

    schema: str
    plans: tuple[ControllerPlan, ...]
    group: ControllerGroup


def make_groups(context: ControllerContext) -> list[MadeGroup]:
    """Make one group of each schema among the plan's controllers, in the order of their first controllers.

    A group comes before those whose references it commands. Controllers of a schema that nothing here serves are
    reported and left out. So are the controllers of a plug-in that fails, but they stay known, as inactive ones.
    """
    by_schema: dict[str, list[ControllerPlan]] = {}
    for plan in context.plan.controllers:
        by_schema.setdefault(plan.schema, []).append(plan)
    made = []
    for schema in _in_chain_order(by_schema):
        plans = by_schema[schema]
        if schema not in CONTROLLERS:
            why = CONTROLLERS.fault(schema) or f"no controller here serves the schema {quoted(schema)}"
            context.report(f"controller.schema:{schema}", f"{plans[0].path}: {why}")
            continue
        try:
            group = load_factory(schema)(context, plans)
        except Exception as error:
            if not CONTROLLERS.is_foreign(schema):
                raise
            why = CONTROLLERS.failure(schema, error)
            context.report(f"controller.schema:{schema}", f"{plans[0].path}: {why}")
            plans = [replace(plan, enabled=False, switchable=False, reason=why) for plan in plans]
            group = PassiveGroup(context, plans)
        made.append(MadeGroup(schema=schema, plans=tuple(plans), group=group))
    return made


def _in_chain_order(by_schema: Mapping[str, Sequence[ControllerPlan]]) -> list[str]:
    """Return the schemas, each before those whose controllers its own command.

    Two schemas that command each other, on different robots, stay in order: one of them is followed a tick later.
    """
    owners = {
        plan.path: schema
        for schema, plans in by_schema.items()
        if (row := CONTROLLERS.get(schema)) is not None and row.references
        for plan in plans
    }
    before: dict[str, set[str]] = {schema: set() for schema in by_schema}
    for schema, plans in by_schema.items():
        for plan in plans:
            for path in plan.chained:
                if path in owners and owners[path] != schema:
                    before[owners[path]].add(schema)
    order: list[str] = []
    while len(order) < len(before):
        left = [schema for schema in before if schema not in order]
        order.append(next((each for each in left if before[each] <= set(order)), left[0]))
    return order


def load_factory(schema: str) -> GroupFactory:
    """Return the factory of a schema's groups; KeyError where there is none."""
    factory: GroupFactory = load_class(CONTROLLERS[schema].group)
    return factory


class PassiveGroup:
    """A group that commands nothing: a base of groups, which override what they need.

    Attributes:
        context: That of the group.
        plans: Its controllers.
    """

    dynamic: ClassVar[frozenset[str]] = frozenset()
    observes_at_rest: ClassVar[bool] = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Store what the group is made of."""
        self.context = context
        self.plans = plans

    @property
    def busy(self) -> bool:
        """Return False: no tick is needed."""
        return False

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:
        """Do nothing: there is nothing to start or stop."""

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Do nothing: no parameter is dynamic."""

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Do nothing: there is no command topic."""

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Command nothing."""

    def observe(self, state: State) -> None:
        """Do nothing with the state."""

    def reset(self) -> None:
        """Do nothing: there is no state to forget."""


class JointStateBroadcasters(PassiveGroup):
    """All joint state broadcasters of a plan. The publisher reads the state; that of an inactive one is silent."""

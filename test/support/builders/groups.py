"""Groups of controllers and goal ports that write down what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from usd_ros_bridge.controllers.controller_group import ControllerContext, GoalPort, MadeGroup
from usd_ros_bridge.model.goals import Outcome
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import FloatArray

Call = tuple[object, ...]


class NotingPort:
    """A client that notes what it is told."""

    def __init__(self, raises: bool = False) -> None:
        """Raises, having noted, where it is told to."""
        self.raises = raises
        self.told: list[object] = []
        self.ends: list[tuple[Outcome, object]] = []

    def feedback(self, feedback: object) -> None:
        """Notes feedback."""
        self.told.append(feedback)
        self._raise()

    def finish(self, outcome: Outcome, result: object) -> None:
        """Notes an end."""
        self.ends.append((outcome, result))
        self._raise()

    def _raise(self) -> None:
        if self.raises:
            raise RuntimeError("the client is gone")


class NotingGroup:
    """Takes numbers and follows goals that are numbers: they are commanded of the first joint of a controller.

    Attributes:
        calls: What was called, in order, `command` and `observe` with the time that they were told.
        raises: Names of methods that raise.
        busy: As a group's.
        ports: Of goals that have begun and not ended, by row.
    """

    dynamic: ClassVar[frozenset[str]] = frozenset({"timeout"})
    observes_at_rest: ClassVar[bool] = True

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Starts with what is enabled."""
        self.context = context
        self.plans = tuple(plans)
        self.calls: list[Call] = []
        self.raises: set[str] = set()
        self.busy = False
        self.ports: dict[int, GoalPort] = {}
        self._targets: dict[int, float] = {}

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Ends the goal of a controller that is switched off."""
        self._note("set_active", row, active)
        if not active:
            self._end(row, "switched off")

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Notes a parameter."""
        self._note("set_parameter", row, name, value)

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Takes a target."""
        self._note("receive", row, sample, time_ns)
        assert isinstance(sample, float)
        self._targets[row] = sample

    def check(self, row: int, goal: object, *, time_ns: int) -> str:  # noqa: ARG002
        """Takes numbers alone."""
        if "check" in self.raises:
            raise RuntimeError("check")
        return "" if isinstance(goal, float) else "no number"

    def start(self, row: int, goal: object, port: GoalPort, *, time_ns: int, state: State) -> None:  # noqa: ARG002
        """Begins a goal."""
        self._end(row, "preempted")
        self._note("start", row, goal, time_ns)
        assert isinstance(goal, float)
        self.ports[row] = port
        self._targets[row] = goal
        self.busy = True

    def cancel(self, row: int, port: GoalPort) -> None:
        """Ends a goal."""
        self._note("cancel", row)
        if self.ports.get(row) is port:
            del self.ports[row]
            self.busy = bool(self.ports)
            port.finish("canceled", "canceled")

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Commands what is new."""
        self._note("command", time_ns, state.time_ns)
        for row, target in self._targets.items():
            commands.joint_position[self.plans[row].dofs[0]] = target
        self._targets.clear()

    def observe(self, state: State) -> None:
        """Notes the state's time."""
        self._note("observe", state.time_ns)

    def reset(self) -> None:
        """Ends all goals."""
        self._note("reset")
        for row in tuple(self.ports):
            self._end(row, "reset")
        self._targets.clear()

    def named(self, *names: str) -> list[Call]:
        """Returns the calls of methods."""
        return [call for call in self.calls if call[0] in names]

    def _end(self, row: int, why: str) -> None:
        port = self.ports.pop(row, None)
        self.busy = bool(self.ports)
        if port is not None:
            port.finish("aborted", why)

    def _note(self, name: str, *what: object) -> None:
        self.calls.append((name, *what))
        if name in self.raises:
            raise RuntimeError(name)


class NotingOdometry(NotingGroup):
    """Reckons that every base goes a metre in x with each state."""

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Starts at the origin."""
        super().__init__(context, plans)
        count = len(plans)
        self.odometry_robots = np.array([plan.robot for plan in plans], dtype=np.intp)
        self.odom_from_base: FloatArray = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (count, 1))
        self.base_twist: FloatArray = np.zeros((count, 6))
        self.pose_covariance: FloatArray = np.full((count, 6), 0.001)
        self.twist_covariance: FloatArray = np.full((count, 6), 0.002)

    def observe(self, state: State) -> None:
        """Goes on."""
        super().observe(state)
        self.odom_from_base[:, 0] += 1.0
        self.base_twist[:, 0] += 0.5


GroupKind = Callable[[ControllerContext, Sequence[ControllerPlan]], NotingGroup]


def noting(
    kind: GroupKind = NotingGroup,
) -> tuple[Callable[[ControllerContext], list[MadeGroup]], list[NotingGroup]]:
    """Returns what makes a group of `kind` of each schema, and the list that it puts them into."""
    groups: list[NotingGroup] = []

    def make(context: ControllerContext) -> list[MadeGroup]:
        result = []
        for schema in dict.fromkeys(plan.schema for plan in context.plan.controllers):
            plans = tuple(plan for plan in context.plan.controllers if plan.schema == schema)
            groups.append(kind(context, plans))
            result.append(MadeGroup(schema=schema, plans=plans, group=groups[-1]))
        return result

    return make, groups

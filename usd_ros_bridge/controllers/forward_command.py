"""Forward commands: targets of joints by name and twists of bodies, written once and held by the backend.

RosControlExternalAPI, for controllers that run elsewhere (topic-based ros2_control hardware), and
RosControlRigidBodyTwistAPI, of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.joint_commands import NamedTargets, actuators_of
from usd_ros_bridge.controllers.twist_commands import FASTEST
from usd_ros_bridge.model.plan import ControllerPlan, followers_of
from usd_ros_bridge.model.state import Commands, JointStateSample, State, TwistSample
from usd_ros_bridge.spatial.transforms import FloatArray

_POSITION, _VELOCITY, _EFFORT = range(3)


class ExternalControls:
    """All external controls of a plan: joint commands by name. A command holds until the next one."""

    dynamic: ClassVar[frozenset[str]] = frozenset()
    observes_at_rest: ClassVar[bool] = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Make the controls of `plans`, active where their plans are enabled."""
        layout = context.plan.layout
        followers = followers_of(context.plan)
        topics = {topic.path: topic.name for topic in context.plan.topics if topic.role == "subscription"}
        self._targets = []
        for plan in plans:
            label = next((topics[path] for path in plan.interfaces if path in topics), plan.path)
            names = zip(plan.joints, plan.dofs, strict=True)
            rows = {name: row for name, row in names if row not in followers}
            topic = next((each for each in context.plan.topics if each.path in plan.interfaces), None)
            actuators = actuators_of(context.plan, plan.robot, topic.context_path if topic else "")
            self._targets.append(NamedTargets(label, rows, context.plan, context.report, actuators=actuators))
        self._rows = tuple(
            np.array([row for row in plan.dofs if row not in followers], dtype=np.intp) for plan in plans
        )
        self._pending = np.full((3, len(layout.dofs)), np.nan)
        self._controls: dict[int, float] = {}
        self._commanded = np.zeros((3, len(layout.dofs)), dtype=bool)
        self._stop: list[int] = []
        self._waiting = False

    @property
    def busy(self) -> bool:
        """Return whether a command waits to be written. The backend holds it from then on."""
        return self._waiting

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Stop what a control that is switched off has moved."""
        if not active:
            self._pending[:, self._rows[row]] = np.nan
            self._stop.append(row)
            self._waiting = True

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Do nothing: no parameter is dynamic."""

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:  # noqa: ARG002
        """Receive a JointState whose positions, velocities and efforts are targets."""
        assert isinstance(sample, JointStateSample)
        if self._targets[row].write(sample, self._pending):
            actuators, controls = self._targets[row].find_controls(sample)
            self._controls.update(zip(actuators.tolist(), controls.tolist(), strict=True))
        self._waiting = True

    def command(self, time_ns: int, state: State, commands: Commands) -> None:  # noqa: ARG002
        """Write what arrived since the last tick, and stop what was let go."""
        if not self._waiting:
            return
        written = (commands.joint_position, commands.joint_velocity, commands.joint_effort)
        for row in self._stop:
            self._hold(self._rows[row], state, written)
        self._stop.clear()
        given = ~np.isnan(self._pending)
        for values, which, target in zip(self._pending, given, written, strict=True):
            np.copyto(target, values, where=which)
        if self._controls:
            commands.actuator_control[list(self._controls)] = list(self._controls.values())
            self._controls.clear()
        self._commanded |= given
        self._pending.fill(np.nan)
        self._waiting = False

    def observe(self, state: State) -> None:
        """Do nothing: a publisher sends the joint states."""

    def reset(self) -> None:
        """Drop the pending command; the backend drops its own, too."""
        self._controls.clear()
        self._pending.fill(np.nan)
        self._commanded[:] = False
        self._stop.clear()
        self._waiting = False

    def transfer_state(self, row: int, other: ExternalControls, other_row: int) -> None:
        """Know what a control of another group has moved: the backend goes on with it."""
        rows, other_rows = self._rows[row], other._rows[other_row]
        if rows.size == other_rows.size:
            self._commanded[:, rows] = other._commanded[:, other_rows]

    def _hold(self, rows: NDArray[np.intp], state: State, written: tuple[FloatArray, ...]) -> None:
        commanded = self._commanded[:, rows]
        measured = np.isfinite(state.joint_position[rows])
        placed = rows[commanded[_POSITION] & measured]
        written[_POSITION][placed] = state.joint_position[placed]
        written[_VELOCITY][rows[commanded[_VELOCITY]]] = 0.0
        written[_EFFORT][rows[commanded[_EFFORT]]] = 0.0
        self._commanded[:, rows] = False


class RigidBodyTwists:
    """All rigid body twist controllers of a plan. They move bodies with a velocity in the body's own frame.

    A twist holds until the next one. One whose body the backend does not move so is never active.
    """

    dynamic: ClassVar[frozenset[str]] = frozenset()
    observes_at_rest: ClassVar[bool] = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Make the controllers of `plans`, active where their plans are enabled."""
        self._report = context.report
        self._paths = tuple(plan.path for plan in plans)
        index = context.plan.layout.body_index
        self._bodies = tuple(index.get(plan.parameters.get("body", ""), -1) for plan in plans)
        self._moved = [False] * len(plans)
        self._pending: dict[int, FloatArray] = {}

    @property
    def busy(self) -> bool:
        """Return whether a twist waits to be written. The backend holds it from then on."""
        return bool(self._pending)

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Stop the body of a controller that is switched off, if it was commanded."""
        if not active and self._moved[row]:
            self._pending[self._bodies[row]] = np.zeros(6)
            self._moved[row] = False

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Do nothing: no parameter is dynamic."""

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:  # noqa: ARG002
        """Receive a Twist or TwistStamped. Ignore one that is not finite, or beyond `FASTEST`."""
        assert isinstance(sample, TwistSample)
        path = self._paths[row]
        if not (np.abs(sample.twist) <= FASTEST).all():
            self._report(
                f"twist.finite:{path}",
                f"{path}: a twist that is not finite, or beyond {FASTEST:g}, is ignored",
            )
            return
        self._pending[self._bodies[row]] = sample.twist
        self._moved[row] = True

    def command(self, time_ns: int, state: State, commands: Commands) -> None:  # noqa: ARG002
        """Write the twists that arrived since the last tick."""
        for body, twist in self._pending.items():
            commands.body_twist[body] = twist
        self._pending.clear()

    def observe(self, state: State) -> None:
        """Do nothing: nothing is measured."""

    def reset(self) -> None:
        """Drop the pending command; the backend drops its own, too."""
        self._pending.clear()
        self._moved = [False] * len(self._moved)

    def transfer_state(self, row: int, other: RigidBodyTwists, other_row: int) -> None:
        """Know whether a controller of another group has moved its body."""
        self._moved[row] = other._moved[other_row]

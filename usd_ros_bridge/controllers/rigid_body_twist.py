"""Rigid body twists: move a body with the last commanded velocity, in its own frame.

RosControlRigidBodyTwistAPI of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State, TwistSample
from usd_ros_bridge.spatial.transforms import FloatArray


class RigidBodyTwists:
    """All rigid body twist controllers of a plan.

    A twist holds until the next one. Bodies that hang from joints are not moved, and under physics only kinematic
    bodies are (REP 0158 section 4.2.3).
    """

    dynamic: ClassVar[frozenset[str]] = frozenset()
    observes_at_rest: ClassVar[bool] = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Make the controllers of `plans`, active where their plans are enabled."""
        self._report = context.report
        self._paths = tuple(plan.path for plan in plans)
        index = context.plan.layout.body_index
        self._bodies = tuple(index.get(plan.parameters.get("body", ""), -1) for plan in plans)
        self._refusals = tuple(_refusal(context, body) for body in self._bodies)
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
        """Receive a Twist or TwistStamped. Ignore one that is not finite."""
        assert isinstance(sample, TwistSample)
        path = self._paths[row]
        if self._refusals[row]:
            self._report(f"twist.body:{path}", f"{path}: {self._refusals[row]}")
            return
        if not np.isfinite(sample.twist).all():
            self._report(f"twist.finite:{path}", f"{path}: a twist that is not finite is ignored")
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


def _refusal(context: ControllerContext, body: int) -> str:
    """Return why a body cannot be moved, "" where it can."""
    if body < 0:
        return "there is no body to move"
    layout = context.plan.layout
    if layout.bodies[body] in _driven(context.plan):
        return "the body hangs from a joint, and its twist is ignored"
    if not (context.kinematic or layout.kinematic[body]):
        return "physics moves the body, and its twist is ignored"
    return ""


def _driven(plan: BridgePlan) -> set[str]:
    """Return the bodies whose poses follow from joints."""
    return {
        edge.child_path
        for robot in plan.robots
        for edge in robot.edges
        if edge.rigid or any(robot.joints[index].dofs for index in edge.joints)
    }

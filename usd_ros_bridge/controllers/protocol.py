"""The protocol of controllers: all controllers of one schema are one group, whose numbers lie in arrays together.

A group runs in the tick, in the tick's thread: `take` and `start` bring what arrived, `command` writes targets for the
step to come, `observe` looks at the state that the step left. Nothing in a group waits, and none sees ROS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.goals import Outcome
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, FloatArray, State

Report = Callable[[str, str], None]
"""`report(kind, message)`: a warning for people, shown once per kind and counted after that. Any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What groups are made with.

    Attributes:
        plan: The plan, with its layout.
        report: For warnings at run time.
        kinematic: Whether the backend moves joints and bodies as it is told: without contact between wheel and floor,
            a drive's controller moves the base itself.
        clock_period_ns: Returns the period of the clock that ticks follow, nanoseconds; 0 where ticks come when they
            are asked for. What is due periodically counts as reached at the tick nearest to it.
    """

    plan: BridgePlan
    report: Report
    kinematic: bool = False
    clock_period_ns: Callable[[], int] = lambda: 0


class ControllerGroup(Protocol):
    """All controllers of one schema in a plan; `row` is an index into the plans that it was made with."""

    dynamic: ClassVar[frozenset[str]]
    """Names of ControllerPlan.parameters that may change at run time."""

    @property
    def busy(self) -> bool:
        """Whether the next tick matters though nothing arrives: a motion, a time-out, a goal in progress."""
        ...

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:
        """Switches a controller on, from the state that there is, or off.

        Switched off, its goals end aborted and what it moved stands still. Controllers whose plan is enabled are
        active from the start. `state` is None before the first.
        """
        ...

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Changes one of the parameters in `dynamic`; the value was checked."""
        ...

    def take(self, row: int, sample: object, *, time_ns: int) -> None:
        """Takes what arrived on a controller's command topic; one that is inactive is never given any."""
        ...

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Writes what active controllers want at `time_ns`, the end of the step to come.

        Called in ticks in which the group is `busy` or something reached it (`take`, `start`, a switch, a parameter).
        The step to come began at `state.time_ns`, which may be long ago where nothing happened since.

        Args:
            time_ns: Bridge time of the tick, nanoseconds; not less than at the last call except after `reset`.
            state: The state that the last step left.
            commands: Only rows that a controller has something to say about are written.
        """
        ...

    def observe(self, state: State) -> None:
        """Looks at the state that a step left: tolerances, results, feedback, odometry. Its arrays are not kept."""
        ...

    def reset(self) -> None:
        """Starts over: goals end aborted, nothing is commanded, time may be anything, who is active stays so."""
        ...


class GoalPort(Protocol):
    """The way back to the client of one accepted goal. Called from the tick's thread; does not wait."""

    def feedback(self, feedback: object) -> None:
        """Passes feedback on: FollowTrajectoryFeedback or GripperState."""
        ...

    def finish(self, outcome: Outcome, result: object) -> None:
        """Ends the goal, exactly once: FollowTrajectoryResult or GripperState."""
        ...


@runtime_checkable
class GoalGroup(ControllerGroup, Protocol):
    """Controllers that follow goals. Whatever a goal holds, it ends with exactly one `GoalPort.finish`."""

    def check(self, row: int, goal: object, *, time_ns: int) -> str:
        """Returns why a goal is to be rejected, "" where it is acceptable. From any thread: it reads plans only.

        Args:
            row: Which controller.
            goal: FollowTrajectoryGoal or GripperGoal.
            time_ns: Bridge time.
        """
        ...

    def start(self, row: int, goal: object, port: GoalPort, *, time_ns: int, state: State) -> None:
        """Begins a goal that was checked; the one in progress, if any, ends aborted as preempted."""
        ...

    def cancel(self, row: int, port: GoalPort) -> None:
        """Ends the goal of `port` canceled and holds the current position; one that ended already is ignored."""
        ...


@runtime_checkable
class OdometryGroup(ControllerGroup, Protocol):
    """Controllers that know where their robot's base is. Arrays have a row per controller and change in `observe`."""

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
class SuccessorGroup(ControllerGroup, Protocol):
    """Controllers that go on where those of a group before stand, of the same schema, whose plan has changed."""

    def take_over(self, row: int, other: Any, other_row: int) -> None:
        """Has one controller go on as one of another group of its class does; before the first tick."""
        ...


class GroupFactory(Protocol):
    """Makes the group of one schema."""

    def __call__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> ControllerGroup:
        """Returns a group of `plans`; those that cannot run (`enabled` false with a fault) are never activated."""
        ...

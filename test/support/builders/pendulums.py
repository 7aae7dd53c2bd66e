"""A backend that owns time and needs no engine: every joint is a damped pendulum, integrated at a fixed step."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.backends.base import BackendContext, BackendInput, Capabilities, parse_options
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import FloatArray

STIFFNESS, DAMPING, WEIGHT = 40.0, 4.0, 9.81


class PendulumBackend:
    """Joints of inertia 1 that hang from their zero, and servos (40 N m/rad, 4 N m s/rad) for commanded positions.

    Small, real and deterministic: what the bridge does about time can be tested with it, and nothing else is in the
    way. Semi-implicit Euler, as engines do. A commanded position holds until the next; an effort acts for one interval.

    Attributes:
        steps: How many steps of its own it took since it was opened.
        resets: How often it was reset.
        intervals: Lengths of the intervals that it was stepped by, in steps.
    """

    def __init__(self, step_ns: int = 2_000_000, *, start: float = 0.0) -> None:
        """Stores what to simulate by.

        Args:
            step_ns: Length of a step, nanoseconds.
            start: Added to the positions at rest, rad.
        """
        self.capabilities = Capabilities(step_ns=step_ns)
        self.steps = 0
        self.resets = 0
        self.intervals: list[int] = []
        self._start = start
        self._context: BackendContext | None = None
        self._state: State | None = None
        self._target: FloatArray = np.zeros(0)
        self._time_ns: int | None = None

    def open(self, context: BackendContext) -> None:
        """Takes the state at rest from the plan."""
        parse_options("pendulum", context.options, {})
        self._context = context
        self._rest()

    def inputs(self) -> tuple[BackendInput, ...]:
        """Needs nothing."""
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Never called: there are no inputs."""

    def step(self, time_ns: int, commands: Commands) -> State:
        """Takes as many steps as there are until `time_ns`; one at first.

        Raises:
            BackendError: The time lies between two steps, or before the last.
        """
        assert self._state is not None, "the backend is not open"
        step_ns = self.capabilities.step_ns
        start = time_ns - step_ns if self._time_ns is None else self._time_ns
        steps, rest = divmod(time_ns - start, step_ns)
        if rest or steps < 0 or time_ns % step_ns:
            raise BackendError(f"{time_ns} ns is no end of a step of {step_ns} ns after {start} ns")
        effort = np.zeros_like(self._target)
        if not commands.silent:
            given = ~np.isnan(commands.joint_position)
            self._target[given] = commands.joint_position[given]
            if commands.has_effort:
                effort = np.nan_to_num(commands.joint_effort)
        self._integrate(self._state, steps, effort)
        self._state.time_ns = self._time_ns = time_ns
        self.intervals.append(steps)
        return self._state

    def reset(self) -> None:
        """Goes back to the state at rest."""
        self.resets += 1
        self._rest()

    def close(self) -> None:
        """Lets the state go."""
        self._state = None

    def _rest(self) -> None:
        assert self._context is not None
        self._state = State.initial(self._context.plan.layout)
        self._state.joint_position += self._start
        self._target = np.full_like(self._state.joint_position, np.nan)
        self._time_ns = None

    def _integrate(self, state: State, steps: int, effort: FloatArray) -> None:
        seconds = self.capabilities.step_ns * 1e-9
        position, velocity = state.joint_position, state.joint_velocity
        for _ in range(steps):
            servo = np.nan_to_num(STIFFNESS * (self._target - position) - DAMPING * velocity)
            torque = effort + servo - WEIGHT * np.sin(position)
            velocity += torque * seconds
            position += velocity * seconds
            state.joint_effort[:] = effort + servo
        self.steps += steps

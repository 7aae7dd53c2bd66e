"""Signals: one number after each step, for stop conditions and metrics.

A signal is made once per run, as a function without arguments that reads the runtime's snapshot. Single numbers are
Python floats: for a few of them, that is many times as fast as arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from usd_ros_bridge.backends.base import ContactBackend
from usd_ros_bridge.errors import BridgeError, OptionError, one_of, quoted
from usd_ros_bridge.model.path_globs import glob_pattern
from usd_ros_bridge.spatial.transforms import FloatArray
from usd_ros_bridge.sweep.sweep_description import Signal

if TYPE_CHECKING:
    from usd_ros_bridge.sweep.run_context import MeasuredBody, RunContext

Measure = Callable[[], float]
"""Returns a number of the current state."""
AXES: Final = ("x", "y", "z")


def make_signal(signal: Signal, run: RunContext) -> Measure:
    """Return what measures a signal.

    Args:
        signal: The signal, with the parameters of the run.
        run: The run, whose bridge is open.

    Raises:
        OptionError: The kind is unknown, or a body, joint or argument is missing or does not exist.
    """
    make = SIGNALS.get(signal.kind)
    if make is None:
        raise OptionError(f"there is no signal {quoted(signal.kind)}; {one_of(signal.kind, SIGNALS)}")
    try:
        return make(signal, run)
    except OptionError:
        raise
    except BridgeError as error:
        raise OptionError(f"signal {signal.kind}: {error}") from None


# --- Bodies --------------------------------------------------------------------------------------------------------


def _position(signal: Signal, run: RunContext) -> Measure:
    pose, axis = _body(signal, run).pose, _axis(signal)
    return lambda: pose()[axis]


def _velocity(signal: Signal, run: RunContext) -> Measure:
    twist, axis = _body(signal, run).twist, _axis(signal)
    return lambda: twist()[axis]


def _speed(signal: Signal, run: RunContext) -> Measure:
    twist = _body(signal, run).twist

    def measure() -> float:
        x, y, z, _, _, _ = twist()
        return math.sqrt(x * x + y * y + z * z)

    return measure


def _angular_speed(signal: Signal, run: RunContext) -> Measure:
    twist = _body(signal, run).twist

    def measure() -> float:
        _, _, _, x, y, z = twist()
        return math.sqrt(x * x + y * y + z * z)

    return measure


def _tilt(signal: Signal, run: RunContext) -> Measure:
    pose = _body(signal, run).pose

    def measure() -> float:
        _, _, _, x, y, _, _ = pose()
        # Of the body's z axis from the world's: exact next to 0, where acos is not.
        return 2.0 * math.asin(min(math.sqrt(x * x + y * y), 1.0))

    return measure


def _travelled(signal: Signal, run: RunContext) -> Measure:
    body = _body(signal, run)
    pose, last, total = body.pose, body.start, 0.0

    def measure() -> float:
        nonlocal last, total
        now = pose()
        x, y, z = now[0] - last[0], now[1] - last[1], now[2] - last[2]
        total += math.sqrt(x * x + y * y + z * z)
        last = now
        return total

    return measure


def _displacement(signal: Signal, run: RunContext) -> Measure:
    body = _body(signal, run)
    return _to_point(body, body.start)


def _distance(signal: Signal, run: RunContext) -> Measure:
    body = _body(signal, run)
    if not isinstance(signal.goal, str):
        return _to_point(body, _point(signal.goal, "goal", signal))
    pose, other = body.pose, run.body_motion(signal.goal).pose

    def measure() -> float:
        one, two = pose(), other()
        x, y, z = one[0] - two[0], one[1] - two[1], one[2] - two[2]
        return math.sqrt(x * x + y * y + z * z)

    return measure


def _to_point(body: MeasuredBody, point: Sequence[float]) -> Measure:
    pose = body.pose
    to_x, to_y, to_z = point[:3]

    def measure() -> float:
        now = pose()
        x, y, z = now[0] - to_x, now[1] - to_y, now[2] - to_z
        return math.sqrt(x * x + y * y + z * z)

    return measure


def _outside(signal: Signal, run: RunContext) -> Measure:
    pose = _body(signal, run).pose
    low, high = _point(signal.low, "low", signal), _point(signal.high, "high", signal)

    def measure() -> float:
        now = pose()
        x, y, z = (max(low[i] - now[i], now[i] - high[i], 0.0) for i in range(3))
        return math.sqrt(x * x + y * y + z * z)

    return measure


# --- Joints --------------------------------------------------------------------------------------------------------


def _joint_array(name: str) -> Callable[[Signal, RunContext], Measure]:
    def make(signal: Signal, run: RunContext) -> Measure:
        row, snapshot = _joint(signal, run), run.snapshot
        return lambda: float(getattr(snapshot.state, name)[row])

    return make


def _joint_speed(signal: Signal, run: RunContext) -> Measure:
    rows, snapshot = _joints(signal, run), run.snapshot
    return lambda: float(np.abs(snapshot.state.joint_velocity[rows]).max(initial=0.0))


def _limit_margin(signal: Signal, run: RunContext) -> Measure:
    rows, snapshot, layout = _joints(signal, run), run.snapshot, run.plan.layout
    lower, upper = layout.lower[rows], layout.upper[rows]

    def measure() -> float:
        position = snapshot.state.joint_position[rows]
        return float(np.minimum(position - lower, upper - position).min(initial=math.inf))

    return measure


def _power(signal: Signal, run: RunContext) -> Measure:
    rows, snapshot = _joints(signal, run), run.snapshot
    return lambda: float(snapshot.state.joint_effort[rows] @ snapshot.state.joint_velocity[rows])


def _absolute_power(signal: Signal, run: RunContext) -> Measure:
    rows, snapshot = _joints(signal, run), run.snapshot

    def measure() -> float:
        state = snapshot.state
        # A few numbers: lists are three times as fast as arrays.
        efforts: list[float] = state.joint_effort[rows].tolist()
        velocities: list[float] = state.joint_velocity[rows].tolist()
        return float(sum(map(abs, map(mul, efforts, velocities))))

    return measure


def _tracking_error(name: str) -> Callable[[Signal, RunContext], Measure]:
    """Return the maker of the distance between joints and their last targets; 0 before the first target."""

    def make(signal: Signal, run: RunContext) -> Measure:
        rows, snapshot = _joints(signal, run), run.snapshot
        targets: FloatArray = run.follow_targets(name)

        def measure() -> float:
            error = np.abs(targets[rows] - getattr(snapshot.state, name)[rows])
            return float(np.nan_to_num(error, nan=0.0).max(initial=0.0))

        return measure

    return make


# --- Contacts, time, functions -------------------------------------------------------------------------------------


def _contacts(signal: Signal, run: RunContext) -> Measure:
    touching = _touching(signal, run)
    return lambda: float(len(touching()))


def _contact_force(signal: Signal, run: RunContext) -> Measure:
    touching = _touching(signal, run)
    return lambda: float(sum(touching()))


def _touching(signal: Signal, run: RunContext) -> Callable[[], list[float]]:
    """Return what gives the normal forces, N, of the contacts of a body."""
    backend = run.backend
    if not isinstance(backend, ContactBackend):
        raise OptionError(f"signal {signal.kind}: the backend knows no contacts; use the backend mujoco")
    path = signal.body
    _body(signal, run)
    matches = None
    if signal.other:
        matches = glob_pattern(signal.other).fullmatch

    def touching() -> list[float]:
        found = backend.contacts(path)
        forces: list[float] = found.normal_force.tolist()
        if matches is None:
            return forces
        return [force for force, surface in zip(forces, found.surfaces, strict=True) if matches(surface)]

    return touching


def _time(signal: Signal, run: RunContext) -> Measure:
    del signal
    return lambda: run.time


def _function(signal: Signal, run: RunContext) -> Measure:
    function = run.load_function(signal.function)
    arguments = dict(signal.arguments)
    return lambda: float(function(run, **arguments))


# --- Arguments -----------------------------------------------------------------------------------------------------


def _body(signal: Signal, run: RunContext) -> MeasuredBody:
    if not signal.body:
        raise OptionError(f"signal {signal.kind}: name the body (body: /Prim/path)")
    return run.body_motion(signal.body)


def _axis(signal: Signal) -> int:
    if signal.axis not in AXES:
        raise OptionError(f"signal {signal.kind}: axis: {one_of(signal.axis, AXES)}")
    return AXES.index(signal.axis)


def _joint(signal: Signal, run: RunContext) -> int:
    if not signal.joint:
        raise OptionError(f"signal {signal.kind}: name the joint (joint: NAME)")
    return run.joint_row(signal.joint)


def _joints(signal: Signal, run: RunContext) -> Any:
    """Return the row of a joint, or all."""
    return [run.joint_row(signal.joint)] if signal.joint else slice(None)


def _point(value: Any, name: str, signal: Signal) -> tuple[float, float, float]:
    try:
        x, y, z = map(float, value)
    except (TypeError, ValueError):
        raise OptionError(
            f"signal {signal.kind}: {name}: {quoted(value)} is no position [x, y, z] in metres"
        ) from None
    return x, y, z


SIGNALS: Final[dict[str, Callable[[Signal, Any], Measure]]] = {
    "position": _position,
    "velocity": _velocity,
    "speed": _speed,
    "angular_speed": _angular_speed,
    "tilt": _tilt,
    "travelled": _travelled,
    "displacement": _displacement,
    "distance": _distance,
    "outside": _outside,
    "joint_position": _joint_array("joint_position"),
    "joint_velocity": _joint_array("joint_velocity"),
    "joint_effort": _joint_array("joint_effort"),
    "joint_speed": _joint_speed,
    "limit_margin": _limit_margin,
    "power": _power,
    "absolute_power": _absolute_power,
    "position_error": _tracking_error("joint_position"),
    "velocity_error": _tracking_error("joint_velocity"),
    "contacts": _contacts,
    "contact_force": _contact_force,
    "time": _time,
    "function": _function,
}
"""What makes each kind of signal."""

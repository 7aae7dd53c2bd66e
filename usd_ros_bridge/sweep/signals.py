"""Signals: one number after each step, for stop conditions and metrics.

A signal is made once per run, as a function without arguments that reads the runtime's snapshot. Single numbers are
Python floats: for a few of them, that is many times as fast as arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from usd_ros_bridge.backends.base import ContactBackend
from usd_ros_bridge.errors import BridgeError, OptionError, one_of, quoted
from usd_ros_bridge.spatial.transforms import FloatArray
from usd_ros_bridge.sweep.sweep_description import Signal

if TYPE_CHECKING:
    from usd_ros_bridge.sweep.run_context import RunContext

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
    row, axis, body = _body(signal, run), _axis(signal), run.snapshot.body
    return lambda: body(row)[axis]


def _velocity(signal: Signal, run: RunContext) -> Measure:
    row, axis, twist = _body(signal, run), _axis(signal), run.snapshot.twist
    return lambda: twist(row)[axis]


def _speed(signal: Signal, run: RunContext) -> Measure:
    row, twist = _body(signal, run), run.snapshot.twist
    return lambda: _length(*twist(row)[:3])


def _angular_speed(signal: Signal, run: RunContext) -> Measure:
    row, twist = _body(signal, run), run.snapshot.twist
    return lambda: _length(*twist(row)[3:])


def _tilt(signal: Signal, run: RunContext) -> Measure:
    row, body = _body(signal, run), run.snapshot.body

    def measure() -> float:
        _, _, _, x, y, _, _ = body(row)
        # The z axis of the body upwards: exact next to 0, where acos is not.
        return 2.0 * math.asin(min(math.sqrt(x * x + y * y), 1.0))

    return measure


def _travelled(signal: Signal, run: RunContext) -> Measure:
    row, body = _body(signal, run), run.snapshot.body
    last, total = run.rest_position(row), 0.0

    def measure() -> float:
        nonlocal last, total
        now = body(row)
        total += _length(now[0] - last[0], now[1] - last[1], now[2] - last[2])
        last = now
        return total

    return measure


def _displacement(signal: Signal, run: RunContext) -> Measure:
    row, body = _body(signal, run), run.snapshot.body
    x, y, z = run.rest_position(row)[:3]

    def measure() -> float:
        now = body(row)
        return _length(now[0] - x, now[1] - y, now[2] - z)

    return measure


def _distance(signal: Signal, run: RunContext) -> Measure:
    row, body = _body(signal, run), run.snapshot.body
    if isinstance(signal.goal, str):
        other = run.body_row(signal.goal)

        def between() -> float:
            one, two = body(row), body(other)
            return _length(one[0] - two[0], one[1] - two[1], one[2] - two[2])

        return between
    x, y, z = _point(signal.goal, "goal", signal)

    def to_point() -> float:
        now = body(row)
        return _length(now[0] - x, now[1] - y, now[2] - z)

    return to_point


def _outside(signal: Signal, run: RunContext) -> Measure:
    row, body = _body(signal, run), run.snapshot.body
    low, high = _point(signal.low, "low", signal), _point(signal.high, "high", signal)

    def measure() -> float:
        now = body(row)
        beyond = [max(low[i] - now[i], now[i] - high[i], 0.0) for i in range(3)]
        return _length(*beyond)

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
        return float(np.abs(state.joint_effort[rows] * state.joint_velocity[rows]).sum())

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
        from usd_ros_bridge.model.path_globs import glob_pattern

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


def _body(signal: Signal, run: RunContext) -> int:
    if not signal.body:
        raise OptionError(f"signal {signal.kind}: name the body (body: /Prim/path)")
    return run.body_row(signal.body)


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


def _length(x: float, y: float, z: float) -> float:
    return math.sqrt(x * x + y * y + z * z)


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

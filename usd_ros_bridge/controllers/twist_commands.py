"""Twist commands: velocities for all mobile bases of a group, with their time-out and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.joint_commands import common_scale, largest_step, limit_change
from usd_ros_bridge.model.message_types import TWIST_STAMPED
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import TwistSample
from usd_ros_bridge.spatial.transforms import FloatArray

_SECONDS = 1e-9
_NANOSECONDS = 1e9
_DEFAULT_TIMEOUT = 0.5
FASTEST = 1e6
"""m/s or rad/s of a base, rad/s of a wheel. No robot is faster, and squares of much greater numbers overflow, which
would leave NaN in poses for ever."""
FIRST_STEP_NS = 10_000_000
"""Longest time that a drive at rest takes to have accelerated in for: ticks may have been far apart until then."""
AHEAD_NS = 100_000_000
"""By how much a stamp may lie in the future without a report: clocks of two machines differ."""


class TwistAxis(NamedTuple):
    """One component of the velocity of a base.

    Attributes:
        row: Row of a twist: 0, 1, 2 linear x, y, z; 3, 4, 5 angular x, y, z.
        max_velocity: Name of the controllers' parameter with the largest velocity, m/s or rad/s.
        max_acceleration: Name of that with the largest acceleration, m/s^2 or rad/s^2.
    """

    row: int
    max_velocity: str
    max_acceleration: str


class WheelCommands(NamedTuple):
    """What drives are commanded in one tick.

    Attributes:
        drives: (K,) whether a drive is commanded at all.
        velocity: (K, C) velocity of the base, a column per axis, m/s and rad/s.
        speeds: (K, W) speeds of the wheels that this needs, rad/s.
    """

    drives: NDArray[np.bool_]
    velocity: FloatArray
    speeds: FloatArray


class TwistCommands:
    """Commands of K drives, each a base velocity of C components.

    A command is brought within the limits of velocity, then within what the fastest wheel can do (as a whole, so that
    the curvature stays), then approached within the limits of acceleration. Without a new one it becomes 0 after
    `cmd_vel_timeout`. The references of a controller that commands a drive count instead of its topic. Nothing is
    commanded before the first command.

    Attributes:
        busy: Whether a drive moves or has a command. One at rest costs nothing.
        last_ns: Bridge time of the last tick, nanoseconds; None before the first.
    """

    def __init__(
        self,
        context: ControllerContext,
        plans: Sequence[ControllerPlan],
        *,
        axes: Sequence[TwistAxis],
        references: Sequence[str],
        wheel_speeds: Callable[[FloatArray], FloatArray],
        max_wheel_speed: FloatArray,
        levers: FloatArray,
    ) -> None:
        """Start at rest, without commands.

        Args:
            context: That of the group.
            plans: The drives, active where their plans are enabled.
            axes: Components of the velocity.
            references: Names of the reference interfaces, one per axis.
            wheel_speeds: Return (K, W) wheel speeds, rad/s, for (K, C) velocities: a linear function.
            max_wheel_speed: (K, W) rad/s; inf for none.
            levers: (K, C) the largest wheel speed that one unit of a component needs, rad/s per m/s or rad/s.
        """
        count = len(plans)
        self._report, self._inform = context.report, context.inform
        self._paths = tuple(plan.path for plan in plans)
        self._stamped = np.array([_is_stamped(context.plan, plan) for plan in plans], dtype=bool)
        self._wheel_speeds, self._max_wheel_speed = wheel_speeds, max_wheel_speed
        rows = [axis.row for axis in axes]
        self._levers = [tuple(zip(range(len(rows)), rows, each, strict=True)) for each in levers.tolist()]
        self._max_velocity = _limits(plans, [axis.max_velocity for axis in axes])
        self._max_acceleration = _limits(plans, [axis.max_acceleration for axis in axes])
        self._timeout = np.array([_timeout_ns(_timeout(plan)) for plan in plans], dtype=np.int64)
        self._references = context.references
        self._slots = context.references.slots([(plan.path,) for plan in plans], references)
        self._chained = np.zeros(count, dtype=bool)
        self._active = np.array([plan.enabled for plan in plans], dtype=bool)
        self._halt = np.zeros(count, dtype=bool)
        self._target = np.full((count, len(axes)), np.nan)
        self._stamp = np.zeros(count, dtype=np.int64)
        self._last = np.zeros((count, len(axes)))
        self._live = np.zeros(count, dtype=bool)
        self.busy = False
        self.last_ns: int | None = None

    def set_active(self, row: int, active: bool) -> None:
        """Switch a drive on, at rest and without a command, or stop its wheels."""
        if self._active[row] and not active:
            self._halt[row] = self.busy = True
        self._active[row] = active
        self._clear(row)

    def set_timeout(self, row: int, seconds: float) -> None:
        """Change `cmd_vel_timeout`; 0 is none."""
        self._timeout[row] = _timeout_ns(seconds)
        if not np.isnan(self._target[row, 0]):
            self._live[row] = self.busy = True

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Receive a Twist or TwistStamped. Ignore one that is beyond `FASTEST` or too old, or while references count.

        A Twist is as old as its arrival; so is a TwistStamped without a stamp or with one from the future.
        """
        assert isinstance(sample, TwistSample)
        path = self._paths[row]
        # Plain floats, at a tenth of what numpy takes for them: hundreds of drives may be commanded in one tick.
        item, needed = sample.twist.item, 0.0
        for _, component, lever in self._levers[row]:
            needed += abs(item(component)) * lever
        if not needed <= FASTEST:
            self._report(
                f"drive.finite:{path}",
                f"{path}: a velocity that is not finite, or beyond {FASTEST:g}, is ignored",
            )
            return
        stamp = time_ns
        if self._stamped[row]:
            stamp = self._checked_stamp(row, sample.stamp_ns, time_ns)
            timeout = int(self._timeout[row])
            if timeout and time_ns - stamp >= timeout:
                self._report(
                    f"drive.old:{path}",
                    f"{path}: a command that is {(time_ns - stamp) * _SECONDS:.3f} s old is ignored; "
                    f"cmd_vel_timeout is {timeout * _SECONDS:g} s",
                )
                return
        if self._chained[row]:
            return
        target = self._target
        for column, component, _ in self._levers[row]:
            target[row, column] = item(component)
        self._stamp[row] = stamp
        self._live[row] = self.busy = True

    def update(self, time_ns: int) -> WheelCommands | None:
        """Return what the step that ends at `time_ns` (bridge time, nanoseconds) is commanded; None for nothing."""
        seconds = self._elapsed(time_ns)
        self._take_references(time_ns)
        if not self.busy:
            return None
        commanded = self._live & self._active & ~np.isnan(self._target[:, 0])
        velocity, speeds = self._next(time_ns, seconds)
        drives = commanded | self._halt
        self._halt[:] = False
        self._last = np.where(commanded[:, None], velocity, self._last)
        self._live = commanded & (self._last.any(axis=1) | self._target.any(axis=1))
        self.busy = bool(self._live.any())
        return WheelCommands(drives, velocity, speeds)

    def reset(self) -> None:
        """Forget commands; time may be anything."""
        for row in range(len(self._paths)):
            self._clear(row)
        self._halt[:] = False
        self.busy = False
        self.last_ns = None

    def transfer_state(self, row: int, other: TwistCommands, other_row: int) -> None:
        """Continue the command of a drive of another group."""
        for name in ("_target", "_stamp", "_last", "_live"):
            getattr(self, name)[row] = getattr(other, name)[other_row]
        self.busy = self.busy or bool(self._live[row])
        self.last_ns = other.last_ns

    def _clear(self, row: int) -> None:
        self._target[row] = np.nan
        self._last[row] = 0.0
        self._live[row] = self._chained[row] = False

    def _take_references(self, time_ns: int) -> None:
        """Take the references that other controllers give for commands; where they end, brake."""
        if not self._references.count:
            return
        wanted = self._references.read(self._slots)
        given = self._active & np.isfinite(wanted).all(axis=1)
        changed = given | self._chained
        if changed.any():
            self._target[changed] = np.where(given[:, None], wanted, 0.0)[changed]
            self._stamp[changed] = time_ns
            self._live |= changed
            self.busy = True
        self._chained = given

    def _checked_stamp(self, row: int, stamp_ns: int, time_ns: int) -> int:
        path = self._paths[row]
        if stamp_ns == 0:
            self._report(f"drive.stamp:{path}", f"{path}: a TwistStamped without a stamp is taken for new")
            return time_ns
        if stamp_ns > time_ns + AHEAD_NS:
            self._report(
                f"drive.future:{path}",
                f"{path}: a command's stamp is {(stamp_ns - time_ns) * _SECONDS:.3f} s in the future; "
                "it is taken for new",
            )
        return min(stamp_ns, time_ns)

    def _elapsed(self, time_ns: int) -> float:
        """Return the seconds that drives may have accelerated in since the last tick."""
        elapsed = FIRST_STEP_NS if self.last_ns is None else max(time_ns - self.last_ns, 0)
        self.last_ns = time_ns
        if not self._last.any():
            elapsed = min(elapsed, FIRST_STEP_NS)
        return elapsed * _SECONDS

    def _next(self, time_ns: int, seconds: float) -> tuple[FloatArray, FloatArray]:
        """Return (K, C) velocities and (K, W) wheel speeds."""
        stale = (self._timeout > 0) & (time_ns - self._stamp > self._timeout) & self._live
        if stale.any():
            self._brake(stale)
        # np.clip(np.nan_to_num(...)) without its checks, which take longer than this.
        target = np.where(np.isnan(self._target), 0.0, self._target)
        np.maximum(target, -self._max_velocity, out=target)
        np.minimum(target, self._max_velocity, out=target)
        target *= common_scale(self._wheel_speeds(target), self._max_wheel_speed)[:, None]
        step = largest_step(self._max_acceleration, seconds)
        velocity = limit_change(target, self._last, step)
        # On the way from one velocity that the wheels can do to another, each component changes at its own pace.
        speeds = self._wheel_speeds(velocity)
        scale = common_scale(speeds, self._max_wheel_speed)[:, None]
        return velocity * scale, speeds * scale

    def _brake(self, stale: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(stale & self._target.any(axis=1)):
            path = self._paths[row]
            seconds = int(self._timeout[row]) * _SECONDS
            self._inform(f"drive.timeout:{path}", f"{path}: no cmd_vel for {seconds:g} s: the robot brakes")
        self._target[stale & ~np.isnan(self._target[:, 0])] = 0.0


def _is_stamped(plan: BridgePlan, drive: ControllerPlan) -> bool:
    return any(topic.type == TWIST_STAMPED and topic.path in drive.interfaces for topic in plan.topics)


def _timeout(plan: ControllerPlan) -> float:
    value = plan.parameters.get("cmd_vel_timeout")
    return _DEFAULT_TIMEOUT if value is None else float(value)


def _timeout_ns(seconds: float) -> int:
    return round(min(seconds, 1e9) * _NANOSECONDS)


def _limits(plans: Sequence[ControllerPlan], names: Sequence[str]) -> FloatArray:
    """Return (K, len(names)) parameters; inf where none is authored."""
    values = [[plan.parameters.get(name) for name in names] for plan in plans]
    unlimited = [[np.inf if value is None else float(value) for value in row] for row in values]
    return np.array(unlimited, dtype=np.float64).reshape(-1, len(names))

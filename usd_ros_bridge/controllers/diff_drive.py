"""Differential drives: velocity commands to wheel speeds, and wheel odometry, for all drives of a plan at once.

diff_drive_controller of ros2_controllers; RosControlDiffDriveAPI of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.joint_commands import common_scale, largest_step, limit_change
from usd_ros_bridge.controllers.wheel_odometry import WheelOdometry, Wheels
from usd_ros_bridge.model.message_types import TWIST_STAMPED
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, JointPlan
from usd_ros_bridge.model.records import DofAxis
from usd_ros_bridge.model.state import Commands, State, TwistSample
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, pose_array, rotate

_SECONDS = 1e-9
_NANOSECONDS = 1e9
_DEFAULT_TIMEOUT = 0.5
_LINEAR_X, _ANGULAR_Z = 0, 5
FIRST_STEP_NS = 10_000_000
"""Longest time that a drive at rest takes to have accelerated in for: ticks may have been far apart until then."""
AHEAD_NS = 100_000_000
"""By how much a stamp may lie in the future without a report: clocks of two machines differ."""


class DiffDrives:
    """All differential drives of a plan.

    A command (v, w) is brought within the limits of speed, then within what the fastest wheel can do (as a whole, so
    that the curvature stays), then approached within the limits of acceleration. The wheels of a side turn at
    (v -/+ w L / 2) / r. Nothing is commanded before the first command.

    Attributes:
        odometry_robots: (K,) index in BridgePlan.robots, -1 for a drive that cannot run.
        odom_from_base: (K, 7) pose of the base in its odometry frame.
        base_twist: (K, 6) linear then angular velocity in the base's own frame.
        pose_covariance: (K, 6) variances of x, y, z and of the rotations about them, m^2 and rad^2.
        twist_covariance: (K, 6) variances of the twist, (m/s)^2 and (rad/s)^2.
    """

    dynamic: ClassVar[frozenset[str]] = frozenset({"cmd_vel_timeout"})
    observes_at_rest: ClassVar[bool] = True

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Make the drives of `plans`, active where their plans are enabled."""
        count = len(plans)
        self._report, self._inform = context.report, context.inform
        self._paths = tuple(plan.path for plan in plans)
        self._stamped = np.array([_is_stamped(context.plan, plan) for plan in plans], dtype=bool)
        self._wheels = find_wheels(context.plan, plans)
        self._arm = np.column_stack((-0.5 * self._wheels.separation, 0.5 * self._wheels.separation))
        self._per_metre = 1.0 / self._wheels.radius[:, None]
        self._levers = list(zip(self._arm[:, 1].tolist(), self._per_metre[:, 0].tolist(), strict=True))
        self._side_limit = _side_limits(context.plan, self._wheels.slots, self._wheels.rows, count)
        self._max_velocity = _limits(plans, "linear_max_velocity", "angular_max_velocity")
        self._max_acceleration = _limits(plans, "linear_max_acceleration", "angular_max_acceleration")
        self._timeout = np.array([_timeout_ns(_timeout(plan)) for plan in plans], dtype=np.int64)
        self._bases = _base_rows(context, plans)
        self._active = np.array([plan.enabled for plan in plans], dtype=bool)
        self._halt = np.zeros(count, dtype=bool)
        self._target = np.full((count, 2), np.nan)
        self._stamp = np.zeros(count, dtype=np.int64)
        self._last = np.zeros((count, 2))
        self._live = np.zeros(count, dtype=bool)
        self._busy = False
        self.last_ns: int | None = None
        self.wheel_odometry = WheelOdometry(self._wheels)
        self.odometry_robots = np.array(
            [plan.robot if plan.switchable else -1 for plan in plans], dtype=np.intp
        )
        self.odom_from_base = self.wheel_odometry.odom_from_base
        self.base_twist = self.wheel_odometry.base_twist
        self.pose_covariance = _diagonals(plans, "pose_covariance_diagonal")
        self.twist_covariance = _diagonals(plans, "twist_covariance_diagonal")

    @property
    def busy(self) -> bool:
        """Return whether a drive moves or has a command. One at rest costs nothing."""
        return self._busy

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Switch a drive on, at rest and without a command, or stop its wheels."""
        if self._active[row] and not active:
            self._halt[row] = self._busy = True
        self._active[row] = active
        self._clear(row)

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Change `cmd_vel_timeout`, seconds; 0 is none."""
        assert name in self.dynamic
        self._timeout[row] = _timeout_ns(value)
        if not np.isnan(self._target[row, 0]):
            self._live[row] = self._busy = True

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Receive a Twist or TwistStamped: linear.x and angular.z. Ignore one that is not finite or too old.

        A Twist is as old as its arrival; so is a TwistStamped without a stamp or with one from the future.
        """
        assert isinstance(sample, TwistSample)
        path = self._paths[row]
        # Plain floats, at a tenth of what numpy takes for two numbers: hundreds of drives may be commanded in one tick.
        linear, angular = sample.twist.item(_LINEAR_X), sample.twist.item(_ANGULAR_Z)
        lever, per_metre = self._levers[row]
        if not isfinite((abs(linear) + abs(angular) * lever) * per_metre):
            self._report(f"drive.finite:{path}", f"{path}: a velocity that is not finite is ignored")
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
        self._target[row, 0], self._target[row, 1] = linear, angular
        self._stamp[row] = stamp
        self._live[row] = self._busy = True

    def command(self, time_ns: int, state: State, commands: Commands) -> None:  # noqa: ARG002
        """Write wheel speeds, and base twists where the backend has no contact between wheel and floor."""
        seconds = self._elapsed(time_ns)
        if not self._busy:
            return
        if self._halt.any():
            self._write(self._halt, np.zeros_like(self._last), np.zeros_like(self._last), commands)
            self._halt[:] = False
        commanded = self._live & self._active & ~np.isnan(self._target[:, 0])
        velocity, turning = self._next(time_ns, seconds)
        self._write(commanded, velocity, turning, commands)
        self._last = np.where(commanded[:, None], velocity, self._last)
        self._live = commanded & (self._last.any(axis=1) | self._target.any(axis=1))
        self._busy = bool(self._live.any())

    def observe(self, state: State) -> None:
        """Integrate the motion of the wheels, of inactive drives too."""
        time_ns = np.full(len(self._paths), state.time_ns, dtype=np.int64)
        if state.robot_time_ns is not None:
            time_ns = np.where(self.odometry_robots >= 0, state.robot_time_ns[self.odometry_robots], -1)
        self.wheel_odometry.update(state.joint_position, time_ns)

    def reset(self) -> None:
        """Forget commands; odometry starts over at the origin."""
        for row in range(len(self._paths)):
            self._clear(row)
        self._halt[:] = False
        self._busy = False
        self.last_ns = None
        self.wheel_odometry.reset()

    def transfer_state(self, row: int, other: Any, other_row: int) -> None:
        """Continue the odometry and the command of a drive of another group."""
        self.wheel_odometry.transfer_state(row, other.wheel_odometry, other_row)
        for name in ("_target", "_stamp", "_last", "_live"):
            getattr(self, name)[row] = getattr(other, name)[other_row]
        self._busy = self._busy or bool(self._live[row])
        self.last_ns = other.last_ns

    # --- Commands ---------------------------------------------------------------------------------------------

    def _clear(self, row: int) -> None:
        self._target[row] = np.nan
        self._last[row] = 0.0
        self._live[row] = False

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
        """Return (K, 2) velocities, linear and angular, and (K, 2) wheel speeds, left and right."""
        stale = (self._timeout > 0) & (time_ns - self._stamp > self._timeout) & self._live
        if stale.any():
            self._brake(stale)
        # np.clip(np.nan_to_num(...)) without its checks, which take longer than this.
        target = np.where(np.isnan(self._target), 0.0, self._target)
        np.maximum(target, -self._max_velocity, out=target)
        np.minimum(target, self._max_velocity, out=target)
        target *= common_scale(self._turning(target), self._side_limit)[:, None]
        step = largest_step(self._max_acceleration, seconds)
        velocity = limit_change(target, self._last, step)
        # On the way from one velocity that the wheels can do to another, v and w change each at its own pace.
        turning = self._turning(velocity)
        scale = common_scale(turning, self._side_limit)[:, None]
        return velocity * scale, turning * scale

    def _brake(self, stale: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(stale & self._target.any(axis=1)):
            path = self._paths[row]
            seconds = int(self._timeout[row]) * _SECONDS
            self._inform(f"drive.timeout:{path}", f"{path}: no cmd_vel for {seconds:g} s: the robot brakes")
        self._target[stale & ~np.isnan(self._target[:, 0])] = 0.0

    def _turning(self, velocity: FloatArray) -> FloatArray:
        """Return (K, 2) speeds of the left and right wheels, rad/s."""
        return (velocity[:, :1] + velocity[:, 1:] * self._arm) * self._per_metre

    def _write(
        self, drives: NDArray[np.bool_], velocity: FloatArray, turning: FloatArray, commands: Commands
    ) -> None:
        wheels = self._wheels
        speeds = turning.ravel()[wheels.slots] * wheels.signs
        bases = drives & (self._bases >= 0)
        if drives.all():
            commands.joint_velocity[wheels.rows] = speeds
        else:
            chosen = drives[wheels.slots // 2]
            commands.joint_velocity[wheels.rows[chosen]] = speeds[chosen]
        if bases.any():
            twist = np.zeros((int(bases.sum()), 6))
            twist[:, _LINEAR_X], twist[:, _ANGULAR_Z] = velocity[bases].T
            commands.body_twist[self._bases[bases]] = twist


def _is_stamped(plan: BridgePlan, drive: ControllerPlan) -> bool:
    return any(topic.type == TWIST_STAMPED and topic.path in drive.interfaces for topic in plan.topics)


def _timeout(plan: ControllerPlan) -> float:
    value = plan.parameters.get("cmd_vel_timeout")
    return _DEFAULT_TIMEOUT if value is None else float(value)


def _timeout_ns(seconds: float) -> int:
    return round(min(seconds, 1e9) * _NANOSECONDS)


def _limits(plans: Sequence[ControllerPlan], *names: str) -> FloatArray:
    """Return (K, len(names)) parameters; inf where none is authored."""
    values = [[plan.parameters.get(name) for name in names] for plan in plans]
    unlimited = [[np.inf if value is None else float(value) for value in row] for row in values]
    return np.array(unlimited, dtype=np.float64).reshape(-1, len(names))


def _side_limits(plan: BridgePlan, slots: NDArray[np.intp], rows: NDArray[np.intp], count: int) -> FloatArray:
    """Return (K, 2) the largest speeds that all wheels of a side can do, rad/s."""
    limits = np.full(2 * count, np.inf)
    of_wheel = plan.layout.max_velocity[rows]
    np.minimum.at(limits, slots, np.where(of_wheel > 0.0, of_wheel, np.inf))
    return limits.reshape(-1, 2)


def _base_rows(context: ControllerContext, plans: Sequence[ControllerPlan]) -> NDArray[np.intp]:
    """Return (K,) rows of bodies that drives move themselves, -1 where wheels do."""
    rows = np.full(len(plans), -1, dtype=np.intp)
    if context.kinematic:
        for index, plan in enumerate(plans):
            robot = context.plan.robots[plan.robot] if plan.robot >= 0 else None
            if robot is not None and robot.base >= 0:
                rows[index] = robot.base_row
    return rows


def _diagonals(plans: Sequence[ControllerPlan], name: str) -> FloatArray:
    """Return (K, 6) variances; 0 where none are given, as diff_drive_controller's defaults are."""
    zeros = (0.0,) * 6
    return np.array([plan.parameters.get(name) or zeros for plan in plans], dtype=np.float64).reshape(-1, 6)


_AXES: dict[DofAxis, FloatArray] = {
    "rotX": np.array([1.0, 0.0, 0.0]),
    "rotY": np.array([0.0, 1.0, 0.0]),
    "rotZ": np.array([0.0, 0.0, 1.0]),
}
_CLEAR = 0.5
"""Cosine of the angle between a wheel's axis and the line from right to left, from which on the axis tells a sense."""


def find_wheels(plan: BridgePlan, drives: Sequence[ControllerPlan]) -> Wheels:
    """Return the wheels of drives that can run; the others have none.

    Which way a wheel rolls follows from its axis at rest: about the direction from the right to the left wheels a
    positive turn rolls ahead (right-hand rule; body1 turns relative to body0). diff_drive_controller takes every
    positive turn for ahead; an asset whose axes are mirrored from side to side would spin there.
    """
    rows: list[int] = []
    slots: list[int] = []
    signs: list[float] = []
    for index, drive in enumerate(drives):
        sides = [_side_rows(drive, name) for name in ("left_wheels", "right_wheels")]
        if not (drive.switchable and all(sides)):
            continue
        for side, of_side in enumerate(sides):
            rows += of_side
            slots += [2 * index + side] * len(of_side)
        signs += _signs(plan, drive, sides)
    return Wheels(
        rows=np.array(rows, dtype=np.intp),
        slots=np.array(slots, dtype=np.intp),
        signs=np.array(signs, dtype=np.float64),
        radius=np.array([drive.parameters.get("wheel_radius") or 1.0 for drive in drives], dtype=np.float64),
        separation=np.array(
            [drive.parameters.get("wheel_separation") or 1.0 for drive in drives], dtype=np.float64
        ),
    )


def _side_rows(drive: ControllerPlan, parameter: str) -> list[int]:
    """Return the rows of a side's wheels; those that follow another are not commanded and are none of them."""
    row_by_name = dict(zip(drive.joints, drive.dofs, strict=True))
    return [row_by_name[name] for name in drive.parameters.get(parameter) or () if name in row_by_name]


def _signs(plan: BridgePlan, drive: ControllerPlan, sides: Sequence[list[int]]) -> list[float]:
    joints = {dof.row: (joint, dof.axis) for joint in plan.robots[drive.robot].joints for dof in joint.dofs}
    frames = [np.array([_world_from_joint(plan, joints[row][0]) for row in rows]) for rows in sides]
    to_left = frames[0][:, :3].mean(axis=0) - frames[1][:, :3].mean(axis=0)
    length = float(np.linalg.norm(to_left))
    signs = []
    for rows, of_side in zip(sides, frames, strict=True):
        for row, world_from_joint in zip(rows, of_side, strict=True):
            joint, axis = joints[row]
            along = float(rotate(world_from_joint[3:], _AXES[axis]) @ to_left) if axis in _AXES else 0.0
            backwards = (-along if joint.inverted else along) < -_CLEAR * length
            signs.append(-1.0 if backwards and length > 0.0 else 1.0)
    return signs


def _world_from_joint(plan: BridgePlan, joint: JointPlan) -> FloatArray:
    """Return where the joint's frame in body0 is at rest."""
    body0 = joint.child_path if joint.inverted else joint.parent_path
    row = plan.layout.body_index.get(body0, -1)
    world_from_body = plan.layout.body_pose[row] if row >= 0 else IDENTITY
    return compose(world_from_body, pose_array(joint.body0_from_joint))

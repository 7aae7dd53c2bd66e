"""The group of MecanumDriveAPI: velocity commands to wheel speeds, and wheel odometry, for all robots at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mecanum_drive import MECANUM_DRIVE
from usd_ros_bridge import (
    Commands,
    ControllerContext,
    ControllerPlan,
    State,
    TwistAxis,
    TwistCommands,
    arc,
    base_rows,
    wheel_signs,
)

_AXES = (
    TwistAxis(0, "x_max_velocity", "x_max_acceleration"),
    TwistAxis(1, "y_max_velocity", "y_max_acceleration"),
    TwistAxis(5, "yaw_max_velocity", "yaw_max_acceleration"),
)
_MIX = np.array([(1.0, -1.0, -1.0), (1.0, 1.0, 1.0), (1.0, 1.0, -1.0), (1.0, -1.0, 1.0)])
"""What forward, leftward and turning speed add to the front left, front right, rear left and rear right wheel."""


class MecanumDrives:
    """All mecanum drives of a plan: K robots, 4 wheels each.

    Attributes:
        odometry_robots: (K,) index of the robot in the plan, -1 for a drive that cannot run.
        odom_from_base: (K, 7) pose of the base in its odometry frame.
        base_twist: (K, 6) linear then angular velocity in the base's own frame.
        pose_covariance: (K, 6) zeros: unknown.
        twist_covariance: (K, 6) zeros: unknown.
        twist_commands: What the drives are commanded.
        last: Positions of the wheels (K, 4), rad, times (K,), nanoseconds, and headings (K,), rad, of the last state.
    """

    dynamic = frozenset({"cmd_vel_timeout"})
    observes_at_rest = True

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Read what the drives are like from their plans."""
        usable = [plan.switchable for plan in plans]
        rows = [plan.dofs if plan.switchable else (0, 0, 0, 0) for plan in plans]
        self._rows = np.array(rows, dtype=np.intp).reshape(-1, 4)
        self._signs = np.array([_signs(context, plan) for plan in plans]).reshape(-1, 4)
        sizes = [_sizes(plan) for plan in plans]
        self._radius, self._arm = np.array(sizes).reshape(-1, 2).T
        limits = context.plan.layout.max_velocity[self._rows] if any(usable) else np.zeros(self._rows.shape)
        self.twist_commands = TwistCommands(
            context,
            plans,
            axes=_AXES,
            references=MECANUM_DRIVE.references,
            wheel_speeds=self._wheel_speeds,
            max_wheel_speed=np.where(limits > 0.0, limits, np.inf),
            levers=np.column_stack((np.ones_like(self._arm), np.ones_like(self._arm), self._arm))
            / self._radius[:, None],
        )
        self._usable = np.array(usable, dtype=bool)
        self._bases = base_rows(context, plans)
        count = len(plans)
        self.odometry_robots = np.where(self._usable, [plan.robot for plan in plans], -1).astype(np.intp)
        self.odom_from_base = np.zeros((count, 7))
        self.base_twist = np.zeros((count, 6))
        self.pose_covariance, self.twist_covariance = np.zeros((count, 6)), np.zeros((count, 6))
        self.last = np.full((count, 4), np.nan), np.full(count, -1, dtype=np.int64), np.zeros(count)
        self.reset()

    @property
    def busy(self) -> bool:
        """Return whether a drive moves or has a command."""
        return self.twist_commands.busy

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Switch a drive on, at rest, or stop its wheels."""
        self.twist_commands.set_active(row, active)

    def set_parameter(self, row: int, name: str, value: float) -> None:  # noqa: ARG002
        """Change `cmd_vel_timeout`, seconds."""
        self.twist_commands.set_timeout(row, value)

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Receive a Twist or TwistStamped."""
        self.twist_commands.receive(row, sample, time_ns=time_ns)

    def command(self, time_ns: int, state: State, commands: Commands) -> None:  # noqa: ARG002
        """Write wheel speeds, and base twists where the backend has no contact between wheel and floor."""
        wanted = self.twist_commands.update(time_ns)
        if wanted is None:
            return
        drives = wanted.drives & self._usable
        commands.joint_velocity[self._rows[drives]] = (wanted.speeds * self._signs)[drives]
        bases = drives & (self._bases >= 0)
        twist = np.zeros((int(bases.sum()), 6))
        twist[:, [axis.row for axis in _AXES]] = wanted.velocity[bases]
        commands.body_twist[self._bases[bases]] = twist

    def observe(self, state: State) -> None:
        """Integrate the motion of the wheels; a state with a wheel that has no position is passed over."""
        turned, times, heading = self.last
        now = state.joint_position[self._rows] * self._signs
        time_ns = np.full(len(now), state.time_ns)
        if state.robot_time_ns is not None:
            time_ns = state.robot_time_ns[self.odometry_robots]
        known = np.isfinite(now).all(axis=1) & (time_ns >= 0) & self._usable
        seconds = (time_ns - times) * 1e-9
        step = known & (times >= 0) & (seconds > 0.0)
        # The pseudo-inverse of the wheels' Jacobian: its columns are orthogonal.
        motion = np.where(step[:, None], now - turned, 0.0) * self._radius[:, None] @ _MIX * 0.25
        motion[:, 2] /= self._arm
        x, y = arc(*motion.T, heading)
        self.odom_from_base[:, 0] += x
        self.odom_from_base[:, 1] += y
        heading += motion[:, 2]
        self.odom_from_base[:, 5], self.odom_from_base[:, 6] = np.sin(0.5 * heading), np.cos(0.5 * heading)
        self.base_twist[np.ix_(step, [0, 1, 5])] = motion[step] / seconds[step, None]
        turned[known], times[known] = now[known], time_ns[known]

    def reset(self) -> None:
        """Forget commands; odometry starts over at the origin."""
        self.twist_commands.reset()
        turned, times, heading = self.last
        turned[:], times[:], heading[:] = np.nan, -1, 0.0
        self.odom_from_base[:] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
        self.base_twist[:] = 0.0

    def transfer_state(self, row: int, other: MecanumDrives, other_row: int) -> None:
        """Continue the command and the odometry of a drive of the group before, when a variant changes."""
        self.twist_commands.transfer_state(row, other.twist_commands, other_row)
        for mine, theirs in zip(
            (*self.last, self.odom_from_base, self.base_twist),
            (*other.last, other.odom_from_base, other.base_twist),
            strict=True,
        ):
            mine[row] = theirs[other_row]

    def _wheel_speeds(self, velocity: np.ndarray) -> np.ndarray:
        """Return (K, 4) speeds, rad/s, of wheels that roll ahead, for (K, 3) velocities."""
        parts = velocity.copy()
        parts[:, 2] *= self._arm
        return parts @ _MIX.T / self._radius[:, None]


def _sizes(plan: ControllerPlan) -> tuple[float, float]:
    """Return the radius of the wheels and half of the sum of wheel base and separation, m."""
    given = [plan.parameters.get(name) or 1.0 for name in ("wheel_radius", "wheel_base", "wheel_separation")]
    return given[0], 0.5 * (given[1] + given[2])


def _signs(context: ControllerContext, plan: ControllerPlan) -> list[float]:
    """Return, for each wheel, 1 where a positive turn rolls it ahead, else -1."""
    if not plan.switchable:
        return [1.0] * 4
    front_left, front_right, rear_left, rear_right = plan.dofs
    signs = wheel_signs(context.plan, plan, [[front_left, rear_left], [front_right, rear_right]])
    return [signs[0], signs[2], signs[1], signs[3]]

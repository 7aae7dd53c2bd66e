"""Differential drives: velocity commands to wheel speeds, and wheel odometry, for all drives of a plan at once.

diff_drive_controller of ros2_controllers; RosControlDiffDriveAPI of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.twist_commands import TwistAxis, TwistCommands
from usd_ros_bridge.controllers.wheel_odometry import WheelOdometry, Wheels
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS, DIFF_DRIVE
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, JointPlan
from usd_ros_bridge.model.records import DofAxis
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, pose_array, rotate

_LINEAR_X, _ANGULAR_Z = 0, 5
_AXES_OF_A_DRIVE = (
    TwistAxis(_LINEAR_X, "linear_max_velocity", "linear_max_acceleration"),
    TwistAxis(_ANGULAR_Z, "angular_max_velocity", "angular_max_acceleration"),
)


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
        twist_commands: What the drives are commanded.
        wheel_odometry: What the wheels report.
    """

    dynamic: ClassVar[frozenset[str]] = frozenset({"cmd_vel_timeout"})
    observes_at_rest: ClassVar[bool] = True

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Make the drives of `plans`, active where their plans are enabled."""
        count = len(plans)
        self._wheels = find_wheels(context.plan, plans)
        self._arm = np.column_stack((-0.5 * self._wheels.separation, 0.5 * self._wheels.separation))
        self._per_metre = 1.0 / self._wheels.radius[:, None]
        self.twist_commands = TwistCommands(
            context,
            plans,
            axes=_AXES_OF_A_DRIVE,
            references=CONTROLLER_SCHEMAS[DIFF_DRIVE].references,
            wheel_speeds=self._turning,
            max_wheel_speed=_side_limits(context.plan, self._wheels.slots, self._wheels.rows, count),
            levers=np.column_stack((np.ones(count), self._arm[:, 1])) * self._per_metre,
        )
        self._bases = base_rows(context, plans)
        self.wheel_odometry = WheelOdometry(self._wheels)
        self.odometry_robots = np.array(
            [plan.robot if plan.switchable else -1 for plan in plans], dtype=np.intp
        )
        self.odom_from_base = self.wheel_odometry.odom_from_base
        self.base_twist = self.wheel_odometry.base_twist
        self.pose_covariance = diagonals(plans, "pose_covariance_diagonal")
        self.twist_covariance = diagonals(plans, "twist_covariance_diagonal")

    @property
    def busy(self) -> bool:
        """Return whether a drive moves or has a command. One at rest costs nothing."""
        return self.twist_commands.busy

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Switch a drive on, at rest and without a command, or stop its wheels."""
        self.twist_commands.set_active(row, active)

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Change `cmd_vel_timeout`, seconds; 0 is none."""
        assert name in self.dynamic
        self.twist_commands.set_timeout(row, value)

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Receive a Twist or TwistStamped: linear.x and angular.z."""
        self.twist_commands.receive(row, sample, time_ns=time_ns)

    def command(self, time_ns: int, state: State, commands: Commands) -> None:  # noqa: ARG002
        """Write wheel speeds, and base twists where the backend has no contact between wheel and floor."""
        wanted = self.twist_commands.update(time_ns)
        if wanted is not None:
            self._write(wanted.drives, wanted.velocity, wanted.speeds, commands)

    def observe(self, state: State) -> None:
        """Integrate the motion of the wheels, of inactive drives too."""
        time_ns = np.full(len(self.odometry_robots), state.time_ns, dtype=np.int64)
        if state.robot_time_ns is not None:
            time_ns = np.where(self.odometry_robots >= 0, state.robot_time_ns[self.odometry_robots], -1)
        self.wheel_odometry.update(state.joint_position, time_ns)

    def reset(self) -> None:
        """Forget commands; odometry starts over at the origin."""
        self.twist_commands.reset()
        self.wheel_odometry.reset()

    def transfer_state(self, row: int, other: Any, other_row: int) -> None:
        """Continue the odometry and the command of a drive of another group."""
        self.wheel_odometry.transfer_state(row, other.wheel_odometry, other_row)
        self.twist_commands.transfer_state(row, other.twist_commands, other_row)

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


def _side_limits(plan: BridgePlan, slots: NDArray[np.intp], rows: NDArray[np.intp], count: int) -> FloatArray:
    """Return (K, 2) the largest speeds that all wheels of a side can do, rad/s."""
    limits = np.full(2 * count, np.inf)
    of_wheel = plan.layout.max_velocity[rows]
    np.minimum.at(limits, slots, np.where(of_wheel > 0.0, of_wheel, np.inf))
    return limits.reshape(-1, 2)


def base_rows(context: ControllerContext, plans: Sequence[ControllerPlan]) -> NDArray[np.intp]:
    """Return (K,) rows of bodies that drives move themselves, -1 where wheels do."""
    rows = np.full(len(plans), -1, dtype=np.intp)
    if context.kinematic:
        for index, plan in enumerate(plans):
            robot = context.plan.robots[plan.robot] if plan.robot >= 0 else None
            if robot is not None and robot.base >= 0:
                rows[index] = robot.base_row
    return rows


def diagonals(plans: Sequence[ControllerPlan], name: str) -> FloatArray:
    """Return (K, 6) variances; 0 where none are given, as diff_drive_controller's defaults are."""
    zeros = (0.0,) * 6
    return np.array([plan.parameters.get(name) or zeros for plan in plans], dtype=np.float64).reshape(-1, 6)


_AXES: dict[DofAxis, FloatArray] = {
    "rotX": np.array([1.0, 0.0, 0.0]),
    "rotY": np.array([0.0, 1.0, 0.0]),
    "rotZ": np.array([0.0, 0.0, 1.0]),
}
_CLEAR = 0.5
"""Cosine of the angle between a wheel's axis and the line from right to left, from which on the axis has a sense."""


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
        sides = [side_rows(drive, name) for name in ("left_wheels", "right_wheels")]
        if not (drive.switchable and all(sides)):
            continue
        for side, of_side in enumerate(sides):
            rows += of_side
            slots += [2 * index + side] * len(of_side)
        signs += wheel_signs(plan, drive, sides)
    return Wheels(
        rows=np.array(rows, dtype=np.intp),
        slots=np.array(slots, dtype=np.intp),
        signs=np.array(signs, dtype=np.float64),
        radius=np.array([drive.parameters.get("wheel_radius") or 1.0 for drive in drives], dtype=np.float64),
        separation=np.array(
            [drive.parameters.get("wheel_separation") or 1.0 for drive in drives], dtype=np.float64
        ),
    )


def side_rows(drive: ControllerPlan, parameter: str) -> list[int]:
    """Return the rows of a side's wheels; those that follow another are not commanded and are none of them."""
    row_by_name = dict(zip(drive.joints, drive.dofs, strict=True))
    return [row_by_name[name] for name in drive.parameters.get(parameter) or () if name in row_by_name]


def wheel_signs(plan: BridgePlan, drive: ControllerPlan, sides: Sequence[list[int]]) -> list[float]:
    """Return 1 for wheels that a positive turn rolls ahead, -1 for others, side by side.

    Args:
        plan: The plan.
        drive: The controller of the wheels.
        sides: Layout rows of the left, then of the right wheels.
    """
    joints = {dof.row: (joint, dof.axis) for joint in plan.robots[drive.robot].joints for dof in joint.dofs}
    frames = [np.array([world_from_joint(plan, joints[row][0]) for row in rows]) for rows in sides]
    to_left = frames[0][:, :3].mean(axis=0) - frames[1][:, :3].mean(axis=0)
    length = float(np.linalg.norm(to_left))
    signs = []
    for rows, of_side in zip(sides, frames, strict=True):
        for row, frame in zip(rows, of_side, strict=True):
            joint, axis = joints[row]
            along = float(rotate(frame[3:], _AXES[axis]) @ to_left) if axis in _AXES else 0.0
            backwards = (-along if joint.inverted else along) < -_CLEAR * length
            signs.append(-1.0 if backwards and length > 0.0 else 1.0)
    return signs


def world_from_joint(plan: BridgePlan, joint: JointPlan) -> FloatArray:
    """Return where the joint's frame in body0 is at rest."""
    body0 = joint.child_path if joint.inverted else joint.parent_path
    row = plan.layout.body_index.get(body0, -1)
    world_from_body = plan.layout.body_pose[row] if row >= 0 else IDENTITY
    return compose(world_from_body, pose_array(joint.body0_from_joint))

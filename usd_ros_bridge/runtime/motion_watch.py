"""Motion watch: say once what no robot does, joint by joint and base by base. It changes nothing.

It reads the state that every backend gives, between two ticks: twice a second until it finds something, then at
20 Hz, and efforts at every read while a joint pushes with full effort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.diff_drive import find_wheels, world_from_joint
from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.actuation import full_efforts, is_full_effort
from usd_ros_bridge.model.controller_schemas import DIFF_DRIVE
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, DofPlan, JointPlan, RobotPlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray, quaternion_conjugate, rotate

BoolArray = NDArray[np.bool_]

_CHECK_NS, _FOUND_NS = 500_000_000, 50_000_000
"""Time between two checks, nanoseconds: without a finding, and with one."""
_BEYOND_NS: Final = 500_000_000
_FAST_NS: Final = 1_000_000_000
_SWINGS_NS: Final = 1_000_000_000
_SWING_NS: Final = 100_000_000
"""Longest time between two changes of the sign, nanoseconds."""
_OF_THE_RANGE: Final = 0.1
_BEYOND_ANGLE, _BEYOND_LENGTH = 0.1, 0.01
"""rad and m. A joint is beyond a limit by more than this, and by more than `_OF_THE_RANGE`."""
_FASTER: Final = 1.5
_SLOWEST: Final = 0.05
"""m/s. A base that is slower stands: wheels that are still have no speed to compare with."""
_MOVES: Final = 0.01
"""rad/s or m/s."""
_NEVER: Final = -1


class MotionWatch:
    """Watch all joints and bases of a plan.

    Attributes:
        watches: Whether there is anything to watch.
    """

    def __init__(self, plan: BridgePlan, report: Report, *, kinematic: bool = False) -> None:
        """Find what to watch.

        Args:
            plan: The plan.
            report: Receives one report for each joint or base.
            kinematic: The backend moves joints and bases as commanded: only limits matter.
        """
        self._limits = _Limits(plan, report)
        self._efforts = _Efforts(plan, report, watched=not kinematic)
        self._bases = _Bases(plan, report, watched=not kinematic)
        # Nearly always no joint is beyond a limit or pushes with full effort: one look at both.
        self._count = self._limits.rows.size
        self._least = np.concatenate((self._limits.least, self._efforts.least))
        self._most = np.concatenate((self._limits.most, self._efforts.most))
        self._values, self._beyond = np.empty(self._least.size), np.empty((2, self._least.size), dtype=bool)
        self._due_ns = _NEVER
        self._pushes = False
        self.watches = bool(self._least.size or self._bases.rows.size)

    def observe(self, state: State) -> None:
        """Look at the state after a step of the backend."""
        time_ns = state.time_ns
        if time_ns >= self._due_ns:
            if self._least.size:
                self._check_joints(state)
            if self._bases.rows.size:
                self._bases.check(state)
            found = self._pushes or self._limits.lasting.any or self._bases.lasting.any
            self._due_ns = time_ns + (_FOUND_NS if found else _CHECK_NS)
        if self._pushes:
            self._efforts.check(state)

    def reset(self) -> None:
        """Time starts over. No report is repeated."""
        self._due_ns = _NEVER
        self._pushes = False
        for each in (self._limits, self._bases):
            each.lasting.reset()
        self._efforts.reset()

    def _check_joints(self, state: State) -> None:
        """Find joints beyond their limits, and whether efforts must be watched."""
        values, count, (beyond, below) = self._values, self._count, self._beyond
        state.joint_position.take(self._limits.rows, None, values[:count], "clip")
        state.joint_effort.take(self._efforts.rows, None, values[count:], "clip")
        np.greater(values, self._most, beyond)
        np.less(values, self._least, below)
        np.logical_or(beyond, below, beyond)
        # For few values, numpy's any() takes ten times as long.
        found = 1 in beyond.tobytes()
        if found or self._limits.lasting.any:
            self._limits.check(values[:count], beyond[:count], state.time_ns)
        self._pushes = found and bool(np.count_nonzero(beyond[count:]))
        if not self._pushes and self._efforts.lasting.any:
            self._efforts.lasting.reset()


class _Lasting:
    """Since when conditions hold, and which were reported.

    Attributes:
        any: Whether one held at the last `update`.
    """

    def __init__(self, count: int, duration_ns: int) -> None:
        self._duration_ns = duration_ns
        self._since: NDArray[np.int64] = np.full(count, _NEVER, dtype=np.int64)
        self._said = np.zeros(count, dtype=bool)
        self.any = False

    def update(self, holds: BoolArray, time_ns: int) -> list[int]:
        """Return the conditions that have held for the duration now; each once."""
        if not np.count_nonzero(holds):
            if self.any:
                self.reset()
            return []
        self.any = True
        since = self._since
        since[~holds] = _NEVER
        since[holds & (since < 0)] = time_ns
        due = holds & (time_ns - since >= self._duration_ns) & ~self._said
        found: list[int] = np.flatnonzero(due).tolist()
        self._said[found] = True
        return found

    def reset(self) -> None:
        """Forget since when conditions hold."""
        self._since.fill(_NEVER)
        self.any = False


class _Limits:
    """Joints that are far beyond their limits. Mimic joints have none of their own.

    Attributes:
        rows: (N,) rows of the joints that have limits.
        least: (N,) from where on downwards they are far beyond, rad or m.
        most: (N,) upwards.
        lasting: Since when.
    """

    def __init__(self, plan: BridgePlan, report: Report) -> None:
        self._report = report
        found = [(joint, dof) for joint, dof in _dofs(plan) if dof.mimic is None and dof.lower < dof.upper]
        self._joints = found
        self.rows: IndexArray = np.array([dof.row for _, dof in found], dtype=np.intp)
        lower, upper = (np.array([getattr(dof, end) for _, dof in found]) for end in ("lower", "upper"))
        least = np.array([_BEYOND_ANGLE if _turns(dof) else _BEYOND_LENGTH for _, dof in found])
        # A joint with one limit has no range.
        length = upper - lower
        margin = np.maximum(least, _OF_THE_RANGE * np.where(np.isfinite(length), length, 0.0))
        self.least: FloatArray = lower - margin
        self.most: FloatArray = upper + margin
        self.lasting = _Lasting(len(found), _BEYOND_NS)

    def check(self, position: FloatArray, beyond: BoolArray, time_ns: int) -> None:
        """Report joints that have been beyond a limit for long enough."""
        for index in self.lasting.update(beyond, time_ns):
            joint, dof = self._joints[index]
            unit, value = ("rad" if _turns(dof) else "m"), float(position[index])
            which, limit = ("lower", dof.lower) if value < dof.lower else ("upper", dof.upper)
            self._report(
                f"joint.beyond_limits:{joint.path}",
                f"joint {quoted(dof.name)} is at {value:.4g} {unit}, far beyond its {which} limit {limit:.4g}, for "
                f"{_BEYOND_NS * 1e-9:g} s: nothing holds it there. Compare its limits with its drive and the masses "
                "that it moves (inspect --physics)",
            )


class _Bases:
    """Bases that are faster than their wheels turn: those of differential drives with a known wheel radius.

    Attributes:
        rows: (K,) rows of the bases.
        lasting: Since when they are too fast.
    """

    def __init__(self, plan: BridgePlan, report: Report, *, watched: bool) -> None:
        self._report = report
        drives = [each for each in plan.controllers if watched and _has_free_base(plan, each)]
        wheels = find_wheels(plan, drives)
        drive_of_wheel = wheels.slots // 2
        self._rolling = wheels.rows
        self._radius = wheels.radius[drive_of_wheel]
        # Wheels come drive by drive.
        used, self._first = np.unique(drive_of_wheel, return_index=True)
        self._robots = [plan.robots[drives[index].robot] for index in used.tolist()]
        self.rows: IndexArray = np.array([robot.base_row for robot in self._robots], dtype=np.intp)
        self._center = np.zeros((len(used), 3))
        for index, robot in enumerate(self._robots):
            self._center[index] = _axle_center(
                plan, robot, wheels.rows[drive_of_wheel == used[index]].tolist()
            )
        self._arm: FloatArray = np.linalg.norm(self._center, axis=1)
        self.lasting = _Lasting(len(used), _FAST_NS)

    def check(self, state: State) -> None:
        """Report bases that have been too fast for long enough."""
        if state.body_twist is None:
            return
        twist = state.body_twist.take(self.rows, axis=0)
        squares = np.add.reduce((twist * twist).reshape(-1, 2, 3), axis=2)
        speed = np.sqrt(squares[:, 0]) + np.sqrt(squares[:, 1]) * self._arm
        fast, rim = speed > _SLOWEST, speed
        if np.count_nonzero(fast):
            rolling = np.abs(state.joint_velocity.take(self._rolling)) * self._radius
            rim = np.maximum.reduceat(rolling, self._first)
            # The middle of the wheels: away from it, a robot that turns on the spot is faster.
            lever = rotate(state.body_pose[self.rows, 3:], self._center)
            speed = np.linalg.norm(twist[:, :3] + np.cross(twist[:, 3:], lever), axis=1)
            fast = speed > np.maximum(_FASTER * rim, _SLOWEST)
        for index in self.lasting.update(fast, state.time_ns):
            self._report(
                f"base.faster_than_wheels:{self._robots[index].path}",
                f"{self._robots[index].path} moves at {speed[index]:.3g} m/s, and its wheels turn for "
                f"{rim[index]:.3g} m/s, for {_FAST_NS * 1e-9:g} s: it slides, falls or is thrown. Compare the ground, "
                "the friction of wheels and casters, and the drives of the wheels (inspect --physics)",
            )


class _Efforts:
    """Joints that push back and forth with full effort: a drive that is too stiff for its masses and the time step.

    All efforts that are read are full ones, and their sign changes within a few steps. States may be read less often
    than steps are made. Where the same phase of the swing is read each time, the effort does not change its sign; then
    the joint has a velocity, and does not get anywhere.

    Attributes:
        rows: (M,) rows of the joints with an effort limit.
        least: (M,) up to where efforts are full ones, N m or N.
        most: (M,) from where on.
        lasting: Since when they swing.
    """

    def __init__(self, plan: BridgePlan, report: Report, *, watched: bool) -> None:
        self._report = report
        least, most = full_efforts(plan)
        found = [
            (joint, dof)
            for joint, dof in _dofs(plan)
            if watched and (np.isfinite(least[dof.row]) or np.isfinite(most[dof.row]))
        ]
        self._joints = found
        self.rows: IndexArray = np.array([dof.row for _, dof in found], dtype=np.intp)
        self.least, self.most = least[self.rows], most[self.rows]
        self.lasting = _Lasting(len(found), _SWINGS_NS)
        self.reset()

    def reset(self) -> None:
        """Forget what was read: time starts over."""
        count = self.rows.size
        self._effort, self._position, self._time_ns = np.zeros(count), np.full(count, np.nan), 0
        self._turned_ns: NDArray[np.int64] = np.full(count, -_SWING_NS - 1, dtype=np.int64)
        self.lasting.reset()

    def check(self, state: State) -> None:
        """Report joints that have swung for long enough; at every read of the state."""
        effort, position = state.joint_effort.take(self.rows), state.joint_position.take(self.rows)
        full = is_full_effort(effort, self.least, self.most)
        turned = effort * self._effort < 0.0
        speed = np.abs(state.joint_velocity.take(self.rows))
        way = speed * ((state.time_ns - self._time_ns) * 1e-9)
        nowhere = (speed > _MOVES) & (np.abs(position - self._position) < 0.5 * way)
        self._turned_ns[turned | nowhere] = state.time_ns
        swings = full & (state.time_ns - self._turned_ns <= _SWING_NS)
        self._effort, self._position, self._time_ns = effort, position, state.time_ns
        for index in self.lasting.update(swings, state.time_ns):
            joint, dof = self._joints[index]
            unit = "N m" if _turns(dof) else "N"
            self._report(
                f"joint.swings:{joint.path}",
                f"joint {quoted(dof.name)} pushes back and forth with its full effort of {abs(effort[index]):.4g} "
                f"{unit} for {_SWINGS_NS * 1e-9:g} s: its drive is too stiff for the masses that it moves and the time "
                "step. Author less stiffness and damping, or a shorter step",
            )


def _dofs(plan: BridgePlan) -> Iterator[tuple[JointPlan, DofPlan]]:
    for robot in plan.robots:
        for joint in robot.joints:
            for dof in joint.dofs:
                yield joint, dof


def _turns(dof: DofPlan) -> bool:
    return dof.axis.startswith("rot")


def _has_free_base(plan: BridgePlan, controller: ControllerPlan) -> bool:
    """Return whether wheels of a known radius move a body that forces move."""
    if (
        controller.schema != DIFF_DRIVE
        or controller.robot < 0
        or not controller.parameters.get("wheel_radius")
    ):
        return False
    robot = plan.robots[controller.robot]
    return robot.base >= 0 and robot.base_row >= 0 and not plan.layout.kinematic[robot.base_row]


def _axle_center(plan: BridgePlan, robot: RobotPlan, wheels: Sequence[int]) -> FloatArray:
    """Return the mean (3,) of the wheels' axes in the base's frame, at rest."""
    base = plan.layout.body_pose[robot.base_row]
    joints = [joint for joint in robot.joints for dof in joint.dofs if dof.row in wheels]
    center = np.mean([world_from_joint(plan, joint)[:3] for joint in joints], axis=0) - base[:3]
    return rotate(quaternion_conjugate(base[3:]), center)

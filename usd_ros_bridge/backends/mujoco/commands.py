"""Apply commands: targets of drives, efforts of motors, motion of kinematic bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.compiled_model import JointControl
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.actuation import Unmoved, UnmovedByInterface, drive_fault, find_unmoved
from usd_ros_bridge.model.controller_schemas import CommandInterface
from usd_ros_bridge.model.state import Commands, Layout
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray

BoolArray = NDArray[np.bool_]
_BOUND = 1e9
"""Largest control of an actuator. In a step with one beyond 1e10 (mjMAXVAL), MuJoCo takes the controls of all actuators
for 0, those of other robots included."""
MOST: Final[Mapping[str, float]] = {"position": _BOUND, "velocity": 1e6, "effort": _BOUND, "control": _BOUND}
"""rad or m, rad/s or m/s, N m or N: a command beyond its bound counts as not given. No robot needs these."""


class JointCommands:
    """Targets of the drives, by row of the layout.

    - A position target is clamped to the limits, and approached at most at the authored maximum velocity. So is the
      authored target, from the joint's position at the start.
    - A velocity in the same command is the drive's target velocity; without one that is zero. Position and velocity are
      those of the end of the command's interval: `_Path`.
    - A velocity alone is clamped to the maximum velocity. Without stiffness, it is the drive's target velocity. With
      stiffness, the drive's position target moves at that velocity, up to the limits, and never farther from the joint
      than the drive's force can pull: a blocked joint does not jump when it is released.
    - An effort is added to that of the drive, and holds until the next one.
    - The newest position or velocity of a joint counts; NaN leaves it unchanged.

    Targets move step by step, so that one long interval equals many short ones.

    Attributes:
        moving: Targets have not reached their goals: call `advance` before every step, and `end_interval` after the
            last one.
        unmoved: By kind of command, the degrees of freedom that it does not move.
    """

    def __init__(self, simulation: Simulation, layout: Layout, report: Report, *, asset: str = "") -> None:
        self._simulation, self._layout, self._report = simulation, layout, report
        self._seconds = simulation.step_ns * 1e-9
        self._ctrl: FloatArray = simulation.data.ctrl
        rows = len(layout.dofs)
        compiled, model = simulation.compiled, simulation.model
        controls = compiled.joint_controls
        self._position = _CommandedActuators(
            simulation, compiled.position_actuator, controls["position"], rows
        )
        self._velocity = _CommandedActuators(
            simulation, compiled.velocity_actuator, controls["velocity"], rows
        )
        self._motor = _CommandedActuators(simulation, compiled.motor_actuator, controls["effort"], rows)
        self._controls = compiled.control_ids
        self._max_velocity = np.where(layout.max_velocity > 0.0, layout.max_velocity, np.inf)
        # Rows without a drive have a goal of zero, where their target is.
        present = self._position.present
        self._lower, self._upper = np.where(present, layout.lower, 0.0), np.where(present, layout.upper, 0.0)
        self._max_reach = self._max_velocity * self._seconds
        self._max_effort = np.full(rows, np.inf)
        self._address = np.zeros(rows, dtype=np.intp)
        self._zero = np.zeros(rows)
        follows = np.zeros(rows, dtype=bool)
        for flat, dof in enumerate(compiled.dofs):
            if dof.row >= 0:
                self._max_effort[dof.row] = dof.max_effort
                follows[dof.row] = dof.mimic is not None
                self._address[dof.row] = max(0, compiled.qpos_of_dof[flat])
                self._zero[dof.row] = dof.reference
        self._has_zero = bool(self._zero.any())
        stiffness = np.zeros(rows)
        stiffness[self._position.rows] = (
            model.actuator_gainprm[self._position.ids, 0] * model.actuator_gear[self._position.ids, 0] ** 2
        )
        self._pull = np.full(rows, np.inf)
        np.divide(self._max_effort, stiffness, out=self._pull, where=stiffness > 0.0)
        self._may_wind_up = bool(np.isfinite(self._pull).any())
        self._at_once = not np.isfinite(self._max_velocity[self._position.rows]).any()
        # Joints without an effect of each kind of command that were not reported yet.
        self._useless: dict[CommandInterface, BoolArray] = {
            "position": ~(self._position.present | follows),
            "velocity": ~(self._position.present | self._velocity.present | follows),
            "effort": ~(self._motor.present | follows),
        }
        self._reportable = {what: bool(rows.any()) for what, rows in self._useless.items()}
        planned = find_unmoved(compiled.scene, asset)
        self.unmoved: UnmovedByInterface = {
            what: _explained(rows, planned[what]) for what, rows in self._useless.items()
        }
        self._lag = _lags(simulation, rows)
        self._path: _Path | None = None
        self._target, self._goal, self._reach = np.zeros(rows), np.zeros(rows), np.full(rows, np.inf)
        self._target_velocity, self._effort = np.zeros(rows), np.zeros(rows)
        self._ramped = np.zeros(rows, dtype=bool)
        # Memory of what `_approach` computes.
        self._ahead, self._distance, self._near = np.empty(rows), np.empty(rows), np.empty(rows, dtype=bool)
        self._any_velocity = self._any_ramped = False
        self.moving = False
        self.reset()

    def reset(self) -> None:
        """Go back to the initial targets of the drives; those with a speed limit begin where the joint is."""
        self._target.fill(0.0)
        self._target_velocity.fill(0.0)
        self._effort.fill(0.0)
        self._position.read(self._goal)
        self._velocity.read(self._target_velocity)
        self._target[:] = self._goal
        self._reach[:] = self._max_reach
        self._ramped[:] = False
        self._path, self.moving = None, False
        limited = np.isfinite(self._max_velocity)
        if np.count_nonzero(limited):
            np.copyto(self._target, self._joint_position(), where=limited & self._position.present)
            _limit(self._target_velocity, self._max_velocity)
            self.moving = bool(np.count_nonzero(self._target != self._goal))
            self._position.write(self._target)
            self._velocity.write(self._target_velocity)
        self._any_velocity, self._any_ramped = bool(self._target_velocity.any()), False

    def apply(self, commands: Commands, time_ns: int) -> None:
        """Apply the commands of an interval, at its start.

        Args:
            commands: The commands.
            time_ns: End of the interval, nanoseconds of bridge time.
        """
        velocity = commands.joint_velocity if commands.has_velocity else None
        before = self._target_velocity.copy() if commands.has_position and velocity is not None else None
        positioned = self._set_positions(commands.joint_position) if commands.has_position else None
        if velocity is not None and np.count_nonzero(has_velocity := self._usable("velocity", velocity)):
            self._set_velocities(velocity, positioned, has_velocity)
            if positioned is not None and before is not None:
                self._begin_path(positioned & has_velocity, before, time_ns)
        elif positioned is not None and self._any_velocity:
            self._velocity.write(self._target_velocity)
            self._any_velocity = bool(np.count_nonzero(self._target_velocity))
        if commands.has_effort:
            self._set_efforts(commands.joint_effort)

    def apply_controls(self, controls: FloatArray) -> None:
        """Set controls of the asset's actuators; targets of joints that command them are updated.

        Args:
            controls: (A,) by actuator of the scene; NaN leaves one unchanged.
        """
        given = np.flatnonzero(self._usable("control", controls) & (self._controls >= 0))
        ids = self._controls[given]
        self._ctrl[ids] = controls[given]
        rows = self._position.read(self._target, ids)
        self._goal[rows] = self._target[rows]
        if self._path is not None:
            self._path = self._path.without(rows)
        self._reach[rows] = self._max_reach[rows]
        self._ramped[rows] = False
        self._any_ramped = bool(self._ramped.any())
        self._velocity.read(self._target_velocity, ids)
        self._any_velocity = bool(self._target_velocity.any())
        self._motor.read(self._effort, ids)

    def transfer_state(self, old: JointCommands) -> None:
        """Copy the targets, velocities and efforts of all degrees of freedom that both have, by joint and name."""
        old_row_of = {key: row for row, key in enumerate(_dof_keys(old._layout))}
        pairs = [
            (row, old_row_of[key]) for row, key in enumerate(_dof_keys(self._layout)) if key in old_row_of
        ]
        rows, old_rows = (
            np.array(each, dtype=np.intp) for each in (zip(*pairs, strict=True) if pairs else ((), ()))
        )
        for name in ("_target", "_goal", "_reach", "_target_velocity", "_effort", "_ramped"):
            getattr(self, name)[rows] = getattr(old, name)[old_rows]
        # A limit may be another one.
        np.copyto(self._reach, self._max_reach, where=~self._ramped)
        self._any_velocity, self._any_ramped = bool(self._target_velocity.any()), bool(self._ramped.any())
        self.moving = self._any_ramped or bool(np.count_nonzero(self._target != self._goal))
        self._position.write(self._target)
        self._velocity.write(self._target_velocity)
        self._motor.write(self._effort)

    def advance(self) -> None:
        """Move targets by one step's time and write them to the drives."""
        target, goal = self._target, self._goal
        if self._path is not None:
            self._advance_path(self._path)
        if self._at_once and not self._any_ramped:
            target[...] = goal
            self.moving = False
        else:
            self._approach(target, goal)
        self._position.write(target)
        self.moving = self.moving or self._path is not None

    def end_interval(self) -> None:
        """Write the targets of the end of an interval: efforts of its last state follow from these."""
        path, self._path = self._path, None
        if path is None:
            return
        rows = path.rows
        goal = path.position_before_end(path.rest)
        near = np.abs(goal - self._target[rows]) <= self._reach[rows]
        self._target[rows[near]] = goal[near]
        self._goal[rows] = path.position
        self.moving = bool(np.count_nonzero(self._target != self._goal))
        self._position.write(self._target)

    # --- Private -----------------------------------------------------------------------------------------------

    def _begin_path(self, given: BoolArray, before: FloatArray, time_ns: int) -> None:
        """Begin the path to the positions that were set with velocities.

        Args:
            given: (D,) degrees of freedom that have both.
            before: (D,) target velocities before this command.
            time_ns: End of the interval, nanoseconds.
        """
        rows = np.flatnonzero(given & self._position.present)
        length_ns = time_ns - self._simulation.time_ns
        steps = length_ns // self._simulation.step_ns
        if not rows.size or steps <= 0:
            return
        velocity = self._target_velocity[rows]
        self._path = _Path(
            rows=rows,
            position=self._goal[rows],
            velocity=velocity,
            acceleration=(velocity - before[rows]) / (length_ns * 1e-9),
            lag=self._lag[rows] * self._seconds,
            rest=(length_ns - steps * self._simulation.step_ns) * 1e-9,
            steps_left=steps,
        )

    def _advance_path(self, path: _Path) -> None:
        """Set goals and target velocities of the next step."""
        path.steps_left -= 1
        left = path.steps_left * self._seconds + path.rest
        rows = path.rows
        position = path.position_before_end(left + path.lag)
        self._goal[rows] = np.minimum(np.maximum(position, self._lower[rows]), self._upper[rows])
        if path.curved:
            self._target_velocity[rows] = path.velocity - path.acceleration * left
            self._velocity.write(self._target_velocity)

    def _approach(self, target: FloatArray, goal: FloatArray) -> None:
        if not self._any_ramped and goal.tobytes() == target.tobytes():
            # A target that is held, as at the end of a trajectory.
            self.moving = False
            return
        reach, ahead, near = self._reach, self._ahead, self._near
        np.subtract(goal, target, ahead)
        np.less_equal(np.absolute(ahead, self._distance), reach, near)
        # The goal itself where it is within reach: adding the distance would miss it by a rounding error.
        if _all(near):
            target[...] = goal
            self.moving = False
        else:
            far = ~near
            np.copyto(target, goal, where=near)
            target[far] += np.copysign(reach, ahead)[far]
            if self._may_wind_up and self._any_ramped:
                self._unwind(far)
        if self._any_ramped:
            self._stop(near)

    def _stop(self, near: BoolArray) -> None:
        """End velocities that are zero or at a limit: the drive holds the position there."""
        stopped = self._ramped & near
        if np.count_nonzero(stopped):
            self._target_velocity[stopped] = 0.0
            self._ramped[stopped] = False
            self._any_ramped = bool(self._ramped.any())
            self._velocity.write(self._target_velocity)

    def _set_positions(self, position: FloatArray) -> BoolArray | None:
        """Set the goals of position targets. Return which rows have one, None for none."""
        given = self._usable("position", position)
        whole = _all(given)
        if not (whole or _any(given)):
            return None
        if self._reportable["position"]:
            self._report_useless("position", given)
        drives = self._position
        if not drives.ids.size:
            return given
        if whole:
            targeted = drives.present
            np.minimum(np.maximum(position, self._lower), self._upper, out=self._goal)
        else:
            targeted = given & drives.present
            clamped = np.minimum(np.maximum(position, self._lower), self._upper)
            np.copyto(self._goal, clamped, where=targeted)
        self.moving = True
        if self._any_velocity:
            self._target_velocity[targeted] = 0.0
        if self._any_ramped:
            np.copyto(self._reach, self._max_reach, where=targeted)
            self._ramped[targeted] = False
            self._any_ramped = bool(self._ramped.any())
        return given

    def _set_velocities(
        self, velocity: FloatArray, has_position: BoolArray | None, has_velocity: BoolArray
    ) -> None:
        alone = has_velocity if has_position is None else has_velocity & ~has_position
        self._report_useless("velocity", alone)
        clamped = _limit(velocity.copy(), self._max_velocity)
        np.copyto(self._target_velocity, clamped, where=has_velocity)
        self._velocity.write(self._target_velocity)
        self._any_velocity = True
        ramped = alone & self._position.present
        if np.count_nonzero(ramped):
            self._ramp(clamped, ramped)

    def _ramp(self, clamped: FloatArray, ramped: BoolArray) -> None:
        """Move position targets at velocities."""
        # From a target far from the joint, the joint would run there first.
        fresh = ramped & ~self._ramped
        if np.count_nonzero(fresh):
            joint = self._joint_position()
            np.copyto(self._target, joint, where=fresh & (np.abs(self._target - joint) > self._pull))
        # One that starts outside of the limits may only come back. Without limits, no target goes on for ever.
        ahead = np.maximum(np.minimum(self._layout.upper, _BOUND), self._target)
        behind = np.minimum(np.maximum(self._layout.lower, -_BOUND), self._target)
        goal = np.where(clamped > 0.0, ahead, np.where(clamped < 0.0, behind, self._target))
        np.copyto(self._goal, goal, where=ramped)
        np.copyto(self._reach, np.abs(clamped) * self._seconds, where=ramped)
        self._ramped |= ramped
        self.moving = self._any_ramped = True

    def _usable(self, what: str, values: FloatArray) -> BoolArray:
        """Return which values are commands; report those beyond `MOST`. NaN and infinity are none."""
        usable: BoolArray = np.abs(values) <= MOST[what]
        count = np.count_nonzero(usable)
        if count != usable.size and count != np.count_nonzero(np.isfinite(values)):
            self._report(
                f"mujoco.beyond:{what}", f"commands of more than {MOST[what]:g} ({what}) are ignored"
            )
        return usable

    def _set_efforts(self, effort: FloatArray) -> None:
        given = self._usable("effort", effort)
        if not np.count_nonzero(given):
            return
        self._report_useless("effort", given)
        clamped = np.minimum(np.maximum(effort, -self._max_effort), self._max_effort)
        np.copyto(self._effort, clamped, where=given)
        self._motor.write(self._effort)

    def _joint_position(self) -> FloatArray:
        position: FloatArray = self._simulation.data.qpos.take(self._address, mode="clip")
        return position - self._zero if self._has_zero else position

    def _unwind(self, far: BoolArray) -> None:
        """Limit targets that velocities move to the distance that the drive's force can pull from."""
        joint = self._joint_position()
        held = np.minimum(np.maximum(self._target, joint - self._pull), joint + self._pull)
        np.copyto(self._target, held, where=far & self._ramped)

    def _report_useless(self, what: CommandInterface, commanded: BoolArray) -> None:
        """Report once for each joint that a command has no effect on it; mimic joints are never commanded."""
        if not self._reportable[what]:
            return
        useless = self._useless[what] & commanded
        if not np.count_nonzero(useless):
            return
        self._useless[what] &= ~useless
        self._reportable[what] = bool(self._useless[what].any())
        pairs = [(self._layout.dof_joints[row], row) for row in np.flatnonzero(useless).tolist()]
        fault = drive_fault(pairs, self.unmoved[what], what)
        self._report(f"mujoco.no_drive:{what}", f"ignored: {fault}")


def _explained(useless: BoolArray, planned: Sequence[Unmoved]) -> tuple[Unmoved, ...]:
    """Return the rows without an effect by reason; the scene has none for what MuJoCo refused."""
    rows = set(np.flatnonzero(useless).tolist())
    found = [replace(group, rows=group.rows & rows) for group in planned]
    rest = rows.difference(*(group.rows for group in found))
    if rest:
        found.append(Unmoved(rows=frozenset(rest), reason="nothing in MuJoCo's model drives it"))
    return tuple(group for group in found if group.rows)


def _any(values: BoolArray) -> bool:
    """Return whether any value is true. For few values, numpy's any() takes ten times as long."""
    return 1 in values.tobytes()


def _all(values: BoolArray) -> bool:
    """Return whether all values are true."""
    return 0 not in values.tobytes()


def _dof_keys(layout: Layout) -> list[tuple[str, str]]:
    """Return the key of each degree of freedom in any plan of the stage: its joint, and its name."""
    return list(zip(layout.dof_joints, layout.dofs, strict=True))


def _lags(simulation: Simulation, rows: int) -> FloatArray:
    """Return how long before the end of a step the position is that drives act on: (D,) parts of a step."""
    # That at the start of a step; with Runge-Kutta, on average that in its middle.
    midway = simulation.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
    lags = np.full(rows, 0.5 if midway else 1.0)
    if simulation.stiff_drives is not None:
        solved = (simulation.compiled.dofs[flat].row for flat in simulation.stiff_drives.dofs.tolist())
        lags[[row for row in solved if row >= 0]] = 0.0
    return lags


def _limit(values: FloatArray, largest: FloatArray) -> FloatArray:
    """Bound magnitudes in place; NaN stays."""
    np.maximum(values, -largest, out=values)
    np.minimum(values, largest, out=values)
    return values


@dataclass(slots=True, kw_only=True, eq=False)
class _Path:
    """Targets of an interval with a command of positions and velocities: both are those of its end.

    Steps are shorter than intervals. A target that was held over the interval would be ahead of its time by half of
    it. So each step gets the target of its own time, from the parabola that ends with the command's position and
    velocity and begins with the target velocity before.

    Attributes:
        rows: (N,) rows of the layout.
        position: (N,) at the end, rad or m.
        velocity: (N,) at the end, rad/s or m/s.
        acceleration: (N,) rad/s^2 or m/s^2.
        lag: (N,) how long before the end of a step is the position that the drive acts on, seconds.
        rest: Time from the end of the last step to that of the interval, seconds.
        steps_left: Steps to come.
        curved: Whether velocities change.
    """

    rows: IndexArray
    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    lag: FloatArray
    rest: float
    steps_left: int
    curved: bool = False

    def __post_init__(self) -> None:
        self.curved = bool(np.count_nonzero(self.acceleration))

    def position_before_end(self, seconds: FloatArray | float) -> FloatArray:
        """Return the (N,) positions some time before the end."""
        return self.position - (self.velocity - 0.5 * self.acceleration * seconds) * seconds

    def without(self, rows: IndexArray) -> _Path:
        """Return the path of all other rows."""
        kept = ~np.isin(self.rows, rows)
        arrays = {name: getattr(self, name)[kept] for name in _PATH_ARRAYS}
        return replace(self, **arrays)


_PATH_ARRAYS: Final = ("rows", "position", "velocity", "acceleration", "lag")


class _CommandedActuators:
    """Actuators of one kind of command, by row: the drive's, else one of the asset's."""

    def __init__(
        self,
        simulation: Simulation,
        by_dof: IndexArray,
        controls: Sequence[JointControl],
        rows: int,
    ) -> None:
        compiled = simulation.compiled
        found = [
            (dof.row, int(by_dof[flat]), 1.0, 0.0)
            for flat, dof in enumerate(compiled.dofs)
            if dof.row >= 0 and by_dof[flat] >= 0
        ]
        found += [
            (compiled.dofs[flat].row, int(compiled.control_ids[actuator]), factor, offset)
            for flat, actuator, factor, offset in controls
            if compiled.dofs[flat].row >= 0
        ]
        found.sort()
        self.rows = np.array([each[0] for each in found], dtype=np.intp)
        self.ids = np.array([each[1] for each in found], dtype=np.intp)
        self.present = np.zeros(rows, dtype=bool)
        self.present[self.rows] = True
        self._factors = np.array([each[2] for each in found])
        self._offsets = np.array([each[3] for each in found])
        self._scaled = bool((self._factors != 1.0).any() or self._offsets.any())
        self._ctrl: FloatArray = simulation.data.ctrl
        self._all = bool(self.present.all())

    def write(self, values: FloatArray) -> None:
        """Write values by row to the controls."""
        values = values if self._all else values[self.rows]
        if self._scaled:
            values = np.clip((values + self._offsets) * self._factors, -_BOUND, _BOUND)
        self._ctrl[self.ids] = values

    def read(self, values: FloatArray, ids: IndexArray | None = None) -> IndexArray:
        """Write the commands of controls to `values` by row: of all, or of some actuators. Return the rows."""
        chosen = slice(None) if ids is None else np.flatnonzero(np.isin(self.ids, ids))
        rows: IndexArray = self.rows[chosen]
        values[rows] = self._ctrl[self.ids[chosen]] / self._factors[chosen] - self._offsets[chosen]
        return rows


class BodyCommands:
    """Poses and twists of bodies. Kinematic bodies accept both, free bodies a pose.

    Bodies that hang from a body by joints move with it. A twist holds until the next one.
    """

    def __init__(self, simulation: Simulation, layout: Layout, report: Report) -> None:
        self._simulation, self._layout, self._report = simulation, layout, report
        scene = simulation.compiled.scene
        self._body = {body.row: index for index, body in enumerate(scene.bodies) if body.row >= 0}

    def apply(self, commands: Commands) -> None:
        """Apply the commands of an interval, at its start."""
        for row in _complete_rows(commands.body_pose):
            self._set_pose(row, commands.body_pose[row])
        for row in _complete_rows(commands.body_twist):
            self._set_twist(row, commands.body_twist[row])

    # --- Private -----------------------------------------------------------------------------------------------

    def _set_pose(self, row: int, pose: FloatArray) -> None:
        body = self._body.get(row, -1)
        if body < 0 or not self._simulation.set_body_state(body, pose, None):
            self._refuse("pose", row, "physics moves it" if body >= 0 else "it is no rigid body")

    def _set_twist(self, row: int, twist: FloatArray) -> None:
        body = self._body.get(row, -1)
        if body < 0 or not self._simulation.set_kinematic_twist(body, twist):
            self._refuse("twist", row, "only kinematic bodies are moved so")

    def _refuse(self, what: str, row: int, why: str) -> None:
        self._report(
            f"mujoco.body:{what}",
            f"a {what} was commanded of the body {quoted(self._layout.bodies[row])}: ignored, {why}",
        )


def _complete_rows(rows: FloatArray) -> list[int]:
    """Return the indices of rows that are finite."""
    found: list[int] = np.flatnonzero(np.isfinite(rows).all(axis=1)).tolist()
    return found

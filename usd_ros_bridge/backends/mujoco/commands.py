"""What is commanded becomes targets of drives, efforts of motors, and motion of kinematic bodies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.compiled import FloatArray, IndexArray
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.state import Commands, Layout

BoolArray = NDArray[np.bool_]

_NEEDED = {
    "position": "drive with stiffness",
    "velocity": "drive with damping or stiffness",
    "effort": "effort limit above zero",
}


class JointCommands:
    """Targets of the drives, by row of the layout.

    - A position target is clamped to the limits, and approached at most at the authored maximum velocity. A velocity
      that comes with it is the drive's target velocity; without one that is zero.
    - A velocity alone, clamped to the maximum velocity: a drive without stiffness takes it as it is. One with
      stiffness has its position target moved at that velocity, up to the limits, and never farther from the joint than
      the drive's force can pull: a joint that is held up does not leap when it is let go.
    - An effort is added to what the drive does, and holds until the next one.
    - The last of position and velocity that a joint was commanded is what counts; NaN leaves it as it is.

    Targets move step by step, so that one long interval does what many short ones do.

    Attributes:
        moving: Whether targets are still on their way: `advance` is to be called before every step.
    """

    def __init__(self, simulation: Simulation, layout: Layout, report: Report) -> None:
        """Makes the index maps; targets are those that the drives start with."""
        self._simulation, self._layout, self._report = simulation, layout, report
        self._seconds = simulation.step_ns * 1e-9
        self._ctrl: FloatArray = simulation.data.ctrl
        rows = len(layout.dofs)
        compiled, model = simulation.compiled, simulation.model
        takers = compiled.controls.takers
        self._position = _Actuators(simulation, compiled.position_actuator, takers["position"], rows)
        self._velocity = _Actuators(simulation, compiled.velocity_actuator, takers["velocity"], rows)
        self._motor = _Actuators(simulation, compiled.motor_actuator, takers["effort"], rows)
        self._controls = compiled.controls.ids
        self._max_velocity = np.where(layout.max_velocity > 0.0, layout.max_velocity, np.inf)
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
        with np.errstate(divide="ignore"):
            self._pull = np.where(stiffness > 0.0, self._max_effort / np.maximum(stiffness, 1e-300), np.inf)
        self._may_wind_up = bool(np.isfinite(self._pull).any())
        self._at_once = not np.isfinite(self._max_velocity[self._position.rows]).any()
        # What each kind of command is of no use for, and nobody was told of yet.
        self._useless = {
            "position": ~(self._position.there | follows),
            "velocity": ~(self._position.there | self._velocity.there | follows),
            "effort": ~(self._motor.there | follows),
        }
        self._tellable = {what: bool(rows.any()) for what, rows in self._useless.items()}
        self._target, self._goal, self._speed = np.zeros(rows), np.zeros(rows), np.full(rows, np.inf)
        self._feed, self._effort = np.zeros(rows), np.zeros(rows)
        self._ramped = np.zeros(rows, dtype=bool)
        self._any_feed = self._any_ramped = False
        self.moving = False
        self.reset()

    def reset(self) -> None:
        """Goes back to the targets that the drives start with."""
        self._target.fill(0.0)
        self._feed.fill(0.0)
        self._effort.fill(0.0)
        self._position.read(self._target)
        self._velocity.read(self._feed)
        self._goal[:] = self._target
        self._speed[:] = self._max_velocity
        self._ramped[:] = False
        self._any_feed, self._any_ramped = bool(self._feed.any()), False
        self.moving = False

    def take(self, commands: Commands) -> None:
        """Takes the commands of an interval, at its start."""
        position, velocity = commands.joint_position, commands.joint_velocity
        placed, fed = np.isfinite(position), np.isfinite(velocity)
        any_placed = bool(np.count_nonzero(placed))
        if any_placed:
            self._take_positions(position, placed)
        if np.count_nonzero(fed):
            self._take_velocities(velocity, placed, fed)
        elif any_placed and self._any_feed:
            self._velocity.write(self._feed)
            self._any_feed = bool(np.count_nonzero(self._feed))
        if commands.has_effort:
            self._take_efforts(commands.joint_effort)

    def take_controls(self, controls: FloatArray) -> None:
        """Take controls of the asset's actuators as they are; where commands of a joint go to one, they follow.

        Args:
            controls: (A,) by actuator of the scene, NaN for what stays.
        """
        given = np.flatnonzero(np.isfinite(controls) & (self._controls >= 0))
        ids = self._controls[given]
        self._ctrl[ids] = controls[given]
        rows = self._position.read(self._target, ids)
        self._goal[rows] = self._target[rows]
        self._speed[rows] = self._max_velocity[rows]
        self._ramped[rows] = False
        self._any_ramped = bool(self._ramped.any())
        self._velocity.read(self._feed, ids)
        self._any_feed = bool(self._feed.any())
        self._motor.read(self._effort, ids)

    def take_over(self, other: JointCommands) -> None:
        """Takes the targets, velocities and efforts of all degrees of freedom that both have."""
        known = {key: row for row, key in enumerate(_keys(other._layout))}
        found = [(row, known[key]) for row, key in enumerate(_keys(self._layout)) if key in known]
        rows, others = (
            np.array(each, dtype=np.intp) for each in (zip(*found, strict=True) if found else ((), ()))
        )
        for name in ("_target", "_goal", "_speed", "_feed", "_effort", "_ramped"):
            getattr(self, name)[rows] = getattr(other, name)[others]
        self._any_feed, self._any_ramped = bool(self._feed.any()), bool(self._ramped.any())
        self.moving = other.moving
        for actuators, values in (
            (self._position, self._target), (self._velocity, self._feed), (self._motor, self._effort),
        ):  # fmt: skip
            actuators.write(values)

    def advance(self) -> None:
        """Moves targets by one step's time, and has the drives follow."""
        target, goal = self._target, self._goal
        if self._at_once and not self._any_ramped:
            target[:] = goal
            self.moving = False
        else:
            self._approach(target, goal)
        self._position.write(target)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _approach(self, target: FloatArray, goal: FloatArray) -> None:
        reach = self._speed * self._seconds
        ahead = goal - target
        near = np.abs(ahead) <= reach
        # The goal itself where it is within reach: adding the distance would miss it by a rounding error.
        np.copyto(target, goal, where=near)
        if np.count_nonzero(near) == near.size:
            self.moving = False
        else:
            far = ~near
            target[far] += np.copysign(reach, ahead)[far]
            if self._may_wind_up and self._any_ramped:
                self._unwind(far)
        if self._any_ramped:
            self._stop(near)

    def _stop(self, near: BoolArray) -> None:
        """Ends velocities at a limit, or that are zero: the drive holds there."""
        stopped = self._ramped & near
        if np.count_nonzero(stopped):
            self._feed[stopped] = 0.0
            self._ramped[stopped] = False
            self._any_ramped = bool(self._ramped.any())
            self._velocity.write(self._feed)

    def _take_positions(self, position: FloatArray, placed: BoolArray) -> None:
        self._tell("position", placed)
        wanted = np.minimum(np.maximum(position, self._layout.lower), self._layout.upper)
        taken = placed & self._position.there
        np.copyto(self._goal, wanted, where=taken)
        self.moving = True
        if self._any_feed:
            self._feed[taken] = 0.0
        if self._any_ramped:
            np.copyto(self._speed, self._max_velocity, where=taken)
            self._ramped[taken] = False
            self._any_ramped = bool(self._ramped.any())

    def _take_velocities(self, velocity: FloatArray, placed: BoolArray, fed: BoolArray) -> None:
        alone = fed & ~placed
        self._tell("velocity", alone)
        wanted = np.minimum(np.maximum(velocity, -self._max_velocity), self._max_velocity)
        np.copyto(self._feed, wanted, where=fed)
        self._velocity.write(self._feed)
        self._any_feed = True
        ramped = alone & self._position.there
        if np.count_nonzero(ramped):
            self._ramp(wanted, ramped)

    def _ramp(self, wanted: FloatArray, ramped: BoolArray) -> None:
        """Has position targets move at velocities from here on."""
        # A target far from where the joint is would have the joint run there first.
        fresh = ramped & ~self._ramped
        if np.count_nonzero(fresh):
            joint = self._joint_position()
            np.copyto(self._target, joint, where=fresh & (np.abs(self._target - joint) > self._pull))
        # One that starts outside of the limits may only come back.
        ahead = np.maximum(self._layout.upper, self._target)
        behind = np.minimum(self._layout.lower, self._target)
        goal = np.where(wanted > 0.0, ahead, np.where(wanted < 0.0, behind, self._target))
        np.copyto(self._goal, goal, where=ramped)
        np.copyto(self._speed, np.abs(wanted), where=ramped)
        self._ramped |= ramped
        self.moving = self._any_ramped = True

    def _take_efforts(self, effort: FloatArray) -> None:
        given = np.isfinite(effort)
        if not np.count_nonzero(given):
            return
        self._tell("effort", given)
        wanted = np.minimum(np.maximum(effort, -self._max_effort), self._max_effort)
        np.copyto(self._effort, wanted, where=given)
        self._motor.write(self._effort)

    def _joint_position(self) -> FloatArray:
        position: FloatArray = self._simulation.data.qpos.take(self._address, mode="clip")
        return position - self._zero if self._has_zero else position

    def _unwind(self, far: BoolArray) -> None:
        """Keeps targets that velocities move within what the drive's force can pull from."""
        joint = self._joint_position()
        held = np.minimum(np.maximum(self._target, joint - self._pull), joint + self._pull)
        np.copyto(self._target, held, where=far & self._ramped)

    def _tell(self, what: str, commanded: BoolArray) -> None:
        """Tells once of each joint that a command can do nothing to; what follows others is never commanded."""
        if not self._tellable[what]:
            return
        useless = self._useless[what] & commanded
        if not np.count_nonzero(useless):
            return
        self._useless[what] &= ~useless
        self._tellable[what] = bool(self._useless[what].any())
        joints = [self._layout.dof_joints[row] for row in np.flatnonzero(useless)]
        more = f" and {len(joints) - 3} more" if len(joints) > 3 else ""
        self._report(
            f"mujoco.no_drive:{what}",
            f"a {what} was commanded of {', '.join(joints[:3])}{more}, without a {_NEEDED[what]}: ignored",
        )


def _keys(layout: Layout) -> list[tuple[str, str]]:
    """Returns what each degree of freedom is known by in any plan of the stage: its joint, and its name."""
    return list(zip(layout.dof_joints, layout.dofs, strict=True))


class _Actuators:
    """What takes one kind of command, by row: a drive's own actuator, else one of the asset's."""

    def __init__(
        self,
        simulation: Simulation,
        by_dof: IndexArray,
        takers: Sequence[tuple[int, int, float, float]],
        rows: int,
    ) -> None:
        compiled = simulation.compiled
        found = [
            (dof.row, int(by_dof[flat]), 1.0, 0.0)
            for flat, dof in enumerate(compiled.dofs)
            if dof.row >= 0 and by_dof[flat] >= 0
        ]
        found += [
            (compiled.dofs[flat].row, int(compiled.controls.ids[actuator]), factor, offset)
            for flat, actuator, factor, offset in takers
            if compiled.dofs[flat].row >= 0
        ]
        found.sort()
        self.rows = np.array([each[0] for each in found], dtype=np.intp)
        self.ids = np.array([each[1] for each in found], dtype=np.intp)
        self.there = np.zeros(rows, dtype=bool)
        self.there[self.rows] = True
        self._factors = np.array([each[2] for each in found])
        self._offsets = np.array([each[3] for each in found])
        self._scaled = bool((self._factors != 1.0).any() or self._offsets.any())
        self._ctrl: FloatArray = simulation.data.ctrl
        self._all = bool(self.there.all())

    def write(self, values: FloatArray) -> None:
        """Writes values by row to the controls."""
        values = values if self._all else values[self.rows]
        self._ctrl[self.ids] = (values + self._offsets) * self._factors if self._scaled else values

    def read(self, values: FloatArray, ids: IndexArray | None = None) -> IndexArray:
        """Write what controls stand for to `values` by row: of all, or of some actuators. Return the rows."""
        chosen = slice(None) if ids is None else np.flatnonzero(np.isin(self.ids, ids))
        rows: IndexArray = self.rows[chosen]
        values[rows] = self._ctrl[self.ids[chosen]] / self._factors[chosen] - self._offsets[chosen]
        return rows


class BodyCommands:
    """Poses and twists of bodies. Kinematic ones go where they are told; free ones may be put elsewhere.

    What a body carries by joints comes along. A twist holds until the next one.
    """

    def __init__(self, simulation: Simulation, layout: Layout, report: Report) -> None:
        """Finds the bodies that rows stand for."""
        self._simulation, self._layout, self._report = simulation, layout, report
        scene = simulation.compiled.scene
        self._body = {body.row: index for index, body in enumerate(scene.bodies) if body.row >= 0}

    def take(self, commands: Commands) -> None:
        """Takes the commands of an interval, at its start."""
        for row in _complete(commands.body_pose):
            self._jump(row, commands.body_pose[row])
        for row in _complete(commands.body_twist):
            self._set_twist(row, commands.body_twist[row])

    # --- Own ---------------------------------------------------------------------------------------------------

    def _jump(self, row: int, pose: FloatArray) -> None:
        body = self._body.get(row, -1)
        if body < 0 or not self._simulation.place(body, pose, None):
            self._refuse("pose", row, "physics moves it" if body >= 0 else "it is no rigid body")

    def _set_twist(self, row: int, twist: FloatArray) -> None:
        body = self._body.get(row, -1)
        if body < 0 or not self._simulation.move(body, twist):
            self._refuse("twist", row, "only kinematic bodies are moved so")

    def _refuse(self, what: str, row: int, why: str) -> None:
        self._report(
            f"mujoco.body:{what}",
            f"a {what} was commanded of the body {quoted(self._layout.bodies[row])}: ignored, {why}",
        )


def _complete(rows: FloatArray) -> list[int]:
    """Returns the indices of rows of which all is known."""
    found: list[int] = np.flatnonzero(np.isfinite(rows).all(axis=1)).tolist()
    return found

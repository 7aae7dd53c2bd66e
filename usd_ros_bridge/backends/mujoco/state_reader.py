"""Read the plan's state from MuJoCo's arrays: by index maps made once, in few numpy calls per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.backends.time_samples import AnimatedBodies
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray

_TWIST = 6
_SENSOR = "usd_ros_bridge twist: "


def add_twist_sensors(builder: SpecBuilder, scene: PhysicsScene) -> None:
    """Add sensors for the twist of every body with a row: MuJoCo computes it faster than numpy."""
    for index, _ in _bodies_with_rows(scene):
        name = builder.bodies[index].name
        for kind in ("FRAMELINVEL", "FRAMEANGVEL"):
            builder.spec.add_sensor(
                name=f"{_SENSOR}{kind} {name}",
                type=getattr(mujoco.mjtSensor, f"mjSENS_{kind}"),
                objtype=mujoco.mjtObj.mjOBJ_XBODY,
                objname=name,
            )


class StateReader:
    """Read the state of a simulation that has twist sensors. Rows that are not simulated stay at rest.

    Attributes:
        state: The state; its arrays change at every `read`.
    """

    def __init__(self, simulation: Simulation, plan: BridgePlan, *, loop: bool = True) -> None:
        """Initialize.

        Args:
            simulation: The simulation.
            plan: The plan with the rows.
            loop: Restart the time samples of bodies that are not simulated at their end.
        """
        self._simulation = simulation
        self.state: State = State.initial(plan.layout)
        scene, compiled, data = simulation.compiled.scene, simulation.compiled, simulation.data
        dofs = [
            (dof.row, flat)
            for flat, dof in enumerate(compiled.dofs)
            if dof.row >= 0 and compiled.qpos_of_dof[flat] >= 0
        ]
        flat = np.array([index for _, index in dofs], dtype=np.intp)
        rows = np.array([row for row, _ in dofs], dtype=np.intp)
        addresses = compiled.dof_of_dof[flat]
        state = self.state
        copier = self._copier = _ArrayCopier()
        copier.add(data.qpos, compiled.qpos_of_dof[flat], state.joint_position, rows)
        copier.add(data.qvel, addresses, state.joint_velocity, rows)
        self._stiff = stiff = simulation.stiff_drives
        in_solver = np.isin(flat, stiff.dofs) if stiff is not None else np.zeros(len(flat), dtype=bool)
        copier.add(data.qfrc_actuator, addresses[~in_solver], state.joint_effort, rows[~in_solver])
        if stiff is not None:
            where = [np.flatnonzero(stiff.dofs == dof)[0] for dof in flat[in_solver]]
            copier.add(stiff.effort, np.array(where, dtype=np.intp), state.joint_effort, rows[in_solver])
        # Position 0 in MuJoCo's coordinate: zero, except in some converted MJCFs.
        zero = compiled.qpos_at_zero(flat)
        self._zero = zero if zero.any() else None
        self._dof_rows = rows
        self._balls = _BallJointReader(simulation, state)
        bodies = _bodies_with_rows(scene)
        ids = compiled.body_ids[[index for index, _ in bodies]]
        self._ids, self._rows = ids, np.array([row for _, row in bodies], dtype=np.intp)
        # MuJoCo has separate arrays of positions and quaternions, the scalar part first.
        copier.add(data.xpos, ids, state.body_pose, self._rows, ((slice(3), slice(3)),))
        copier.add(data.xquat, ids, state.body_pose, self._rows, ((slice(1, 4), slice(3, 6)), (0, 6)))
        if bodies:
            assert state.body_twist is not None
            twists = _twist_rows(simulation, bodies)
            copier.add(twists, np.arange(len(bodies), dtype=np.intp), state.body_twist, self._rows)
        self._animated = AnimatedBodies(plan, loop=loop, skipped={row for _, row in bodies})
        self._has_animations = bool(self._animated)

    def read(self) -> State:
        """Read the current state; efforts are those that act in it."""
        simulation, state = self._simulation, self.state
        mujoco.mj_fwdActuation(simulation.model, simulation.data)
        if self._stiff is not None:
            self._stiff.update_effort()
        self._copier.copy()
        if self._zero is not None:
            state.joint_position[self._dof_rows] -= self._zero
        self._balls.read()
        if simulation.kinematic.moving:
            assert state.body_twist is not None
            simulation.kinematic.add_to_twists(self._ids, self._rows, state.body_twist)
        if self._has_animations:
            self._animated.update_elapsed(state, float(simulation.data.time))
        state.time_ns = simulation.time_ns
        return state

    def stand_still(self) -> State:
        """Return the last state with all velocities zero."""
        state = self.state
        state.joint_velocity.fill(0.0)
        if state.body_twist is not None:
            state.body_twist.fill(0.0)
        state.time_ns = self._simulation.time_ns
        return state


def _bodies_with_rows(scene: PhysicsScene) -> list[tuple[int, int]]:
    """Return index in the scene and row of all bodies with a row, in the order of the rows."""
    found = [(index, body.row) for index, body in enumerate(scene.bodies) if body.row >= 0]
    return sorted(found, key=lambda pair: pair[1])


def _slice_or_rows(rows: IndexArray) -> slice | IndexArray:
    """Return a slice where rows are consecutive: numpy copies it several times as fast."""
    if rows.size and np.array_equal(rows, np.arange(rows[0], rows[0] + rows.size)):
        return slice(int(rows[0]), int(rows[0]) + rows.size)
    return rows


_ALL: Final = ((slice(None), slice(None)),)
"""All columns."""


class _ArrayCopier:
    """Copy rows of arrays to rows of others in few numpy calls: by views wherever rows are consecutive."""

    def __init__(self) -> None:
        self._gathered: list[tuple[Callable[..., object], IndexArray, FloatArray]] = []
        self._copied: list[tuple[FloatArray, FloatArray]] = []
        self._scattered: list[tuple[FloatArray, IndexArray, FloatArray]] = []

    def add(
        self,
        source: FloatArray,
        source_rows: IndexArray,
        target: FloatArray,
        target_rows: IndexArray,
        columns: Sequence[tuple[slice | int, slice | int]] = _ALL,
    ) -> None:
        """Add rows that `copy` copies.

        Args:
            source: Array to read.
            source_rows: (N,) rows to read.
            target: Array to write.
            target_rows: (N,) rows to write.
            columns: Columns to read, and the columns to write them to.
        """
        if not target_rows.size:
            return
        order = np.argsort(target_rows)
        found, where = _slice_or_rows(source_rows[order]), _slice_or_rows(target_rows[order])
        if isinstance(found, slice):
            values = source[found]
        elif isinstance(where, slice) and columns is _ALL:
            self._gathered.append((source.take, found, target[where]))
            return
        else:
            values = np.empty((found.size, *source.shape[1:]))
            self._gathered.append((source.take, found, values))
        for of_source, of_target in columns:
            read, written = values[..., of_source], target[..., of_target]
            if isinstance(where, slice):
                self._copied.append((written[where], read))
            else:
                self._scattered.append((written, where, read))

    def copy(self) -> None:
        """Copy all rows."""
        for take, rows, target in self._gathered:
            # With another mode numpy makes a copy, to leave the output unchanged if an index is out of range.
            take(rows, 0, target, "clip")
        for target, source in self._copied:
            target[...] = source
        for target, rows, source in self._scattered:
            target[rows] = source


def _twist_rows(simulation: Simulation, bodies: list[tuple[int, int]]) -> FloatArray:
    """Return the sensor data (N, 6) of the bodies: it has the state's order, linear then angular, row by row."""
    model = simulation.model
    name = model.body(int(simulation.compiled.body_ids[bodies[0][0]])).name
    start = int(model.sensor(f"{_SENSOR}FRAMELINVEL {name}").adr[0])
    twists: FloatArray = simulation.data.sensordata[start : start + len(bodies) * _TWIST].reshape(-1, _TWIST)
    return twists


class _BallJointReader:
    """Read the angles of ball joints from their quaternions. No drive acts on them."""

    def __init__(self, simulation: Simulation, state: State) -> None:
        self._balls, self._data, self._state = simulation.compiled.balls, simulation.data, state
        rows = np.array([dof.row for dof in simulation.compiled.dofs], dtype=np.intp)[self._balls.dofs]
        self._shown = rows >= 0
        self._rows = rows[self._shown]
        state.joint_effort[self._rows] = 0.0

    def read(self) -> None:
        if not self._rows.size:
            return
        data, shown = self._data, self._shown
        self._state.joint_position[self._rows] = self._balls.angles(data.qpos)[shown]
        self._state.joint_velocity[self._rows] = self._balls.rates(data.qpos, data.qvel)[shown]

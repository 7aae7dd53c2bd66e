"""Read the plan's state from MuJoCo's arrays: by index maps made once, in few numpy calls per step."""

from __future__ import annotations

from typing import Any

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
        self._joints = (
            _JointReader(
                data.qpos,
                compiled.qpos_of_dof[flat],
                rows,
                state.joint_position,
                zero=compiled.qpos_at_zero(flat),
            ),
            _JointReader(data.qvel, addresses, rows, state.joint_velocity),
            _JointReader(data.qfrc_actuator, addresses, rows, state.joint_effort),
        )
        self._balls = _BallJointReader(simulation, state)
        bodies = _bodies_with_rows(scene)
        ids = compiled.body_ids[[index for index, _ in bodies]]
        self._ids, self._rows = ids, np.array([row for _, row in bodies], dtype=np.intp)
        self._poses = _PoseReader(data, ids, self._rows, state.body_pose)
        self._twists = _TwistReader(simulation, bodies, state)
        self._animated = AnimatedBodies(plan, loop=loop, skipped={row for _, row in bodies})
        self._has_animations = bool(self._animated)

    def read(self) -> State:
        """Read the current state; efforts are those that act in it."""
        simulation = self._simulation
        mujoco.mj_fwdActuation(simulation.model, simulation.data)
        position, velocity, effort = self._joints
        position.read()
        velocity.read()
        effort.read()
        self._balls.read()
        self._poses.read()
        self._twists.read()
        if simulation.kinematic.moving:
            assert self.state.body_twist is not None
            simulation.kinematic.add_to_twists(self._ids, self._rows, self.state.body_twist)
        if self._has_animations:
            self._animated.update_elapsed(self.state, float(simulation.data.time))
        self.state.time_ns = simulation.time_ns
        return self.state

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


class _JointReader:
    """Copy numbers of one of MuJoCo's arrays to rows of one of the state's."""

    def __init__(
        self,
        source: Any,
        addresses: IndexArray,
        rows: IndexArray,
        target: FloatArray,
        *,
        zero: FloatArray | None = None,
    ) -> None:
        order = np.argsort(rows)
        rows, self._addresses = rows[order], np.ascontiguousarray(addresses[order])
        self._source = source
        where = _slice_or_rows(rows)
        self._target, self._rows = target, where
        self._whole = target[where] if isinstance(where, slice) else None
        self._values = np.empty(rows.size)
        # Position 0 in MuJoCo's coordinate: zero, except in some converted MJCFs.
        self._zero = zero[order] if zero is not None and zero.any() else None

    def read(self) -> None:
        # With another mode numpy makes a copy, to leave the output unchanged if an index is out of range.
        if self._whole is not None:
            self._source.take(self._addresses, out=self._whole, mode="clip")
        elif self._addresses.size:
            self._target[self._rows] = self._source.take(self._addresses, out=self._values, mode="clip")
        if self._zero is not None:
            self._target[self._rows] -= self._zero


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


class _PoseReader:
    """Read poses of bodies: MuJoCo has separate arrays of positions and quaternions, the scalar part first."""

    def __init__(self, data: Any, ids: IndexArray, rows: IndexArray, target: FloatArray) -> None:
        where, found = _slice_or_rows(rows), _slice_or_rows(ids)
        self._rows = where if isinstance(where, np.ndarray) else None
        self._target = target
        shown = target[where]
        self._own = None if isinstance(where, slice) else shown
        self._translation, self._vector, self._scalar = shown[:, :3], shown[:, 3:6], shown[:, 6]
        self._ids = found if isinstance(found, np.ndarray) else None
        self._xpos, self._xquat = data.xpos, data.xquat
        if isinstance(found, slice):
            self._xpos, self._xquat = data.xpos[found], data.xquat[found]
        position, quaternion = self._xpos, self._xquat
        if self._ids is not None:
            position, quaternion = np.empty((ids.size, 3)), np.empty((ids.size, 4))
            self._position, self._quaternion = position, quaternion
        self._source_position = position
        self._source_vector, self._source_scalar = quaternion[:, 1:], quaternion[:, 0]

    def read(self) -> None:
        if self._ids is not None:
            self._xpos.take(self._ids, axis=0, out=self._position, mode="clip")
            self._xquat.take(self._ids, axis=0, out=self._quaternion, mode="clip")
        self._translation[...] = self._source_position
        self._vector[...] = self._source_vector
        self._scalar[...] = self._source_scalar
        if self._rows is not None:
            self._target[self._rows] = self._own


class _TwistReader:
    """Read twists of bodies: the sensor data has the state's order, linear then angular, row by row."""

    def __init__(self, simulation: Simulation, bodies: list[tuple[int, int]], state: State) -> None:
        self._state = state
        self._target = state.body_twist
        self._source: FloatArray | None = None
        self._rows: slice | IndexArray = slice(0)
        if bodies:
            model = simulation.model
            name = model.body(int(simulation.compiled.body_ids[bodies[0][0]])).name
            start = int(model.sensor(f"{_SENSOR}FRAMELINVEL {name}").adr[0])
            count = len(bodies) * _TWIST
            self._source = simulation.data.sensordata[start : start + count].reshape(-1, _TWIST)
            where = _slice_or_rows(np.array([row for _, row in bodies], dtype=np.intp))
            self._rows = where
            assert self._target is not None
            if isinstance(where, slice):
                self._target, self._rows = self._target[where], slice(None)

    def read(self) -> None:
        if self._source is not None:
            assert self._target is not None
            self._target[self._rows] = self._source

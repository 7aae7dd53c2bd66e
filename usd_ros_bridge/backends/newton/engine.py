"""Newton's engine: the model of a stage, its solver, and the rows of the plan in Newton's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import newton
import numpy as np
import warp as wp
from numpy.typing import NDArray

from usd_ros_bridge.backends.array import UNMAPPED
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan, DofPlan

FloatArray = NDArray[np.float32]

_RESOLVERS: Mapping[str, Callable[[], Any]] = {
    "newton": newton.usd.SchemaResolverNewton,
    "physx": newton.usd.SchemaResolverPhysx,
    "mjc": newton.usd.SchemaResolverMjc,
}


class Engine:
    """A stage in Newton. Float32, SI units, Z-up, quaternions x, y, z, w.

    The solver reads one state and writes the other one; then they are swapped. An array is valid until the next step.

    Attributes:
        model: The Newton model.
        bodies: Body index by prim path.
        joints: Joint index by prim path.
        on_cpu: Arrays are in the processor's memory: they are read and written in place.
    """

    def __init__(self, stage: object, *, solvers: Sequence[str], device: str) -> None:
        """Initialize.

        Args:
            stage: A UsdStage; it is not changed.
            solvers: Schemas that count, in order of priority: newton, physx, mjc.
            device: A Warp device (`cpu`, `cuda:0`), "" for Warp's choice.

        Raises:
            BackendError: Newton cannot import the stage, or there is no such device.
        """
        wp.config.quiet = True
        try:
            chosen = wp.get_device(device or None)
        except (RuntimeError, ValueError) as error:
            known = ", ".join(each.alias for each in wp.get_devices())
            raise BackendError(
                f"option device of backend newton is {device!r}; there are: {known}"
            ) from error
        builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
        try:
            found = builder.add_usd(
                stage,
                schema_resolvers=[_RESOLVERS[solver]() for solver in solvers],
                load_visual_shapes=False,
            )
            self.model = builder.finalize(device=chosen)
        except Exception as error:
            raise BackendError(f"newton cannot import the stage: {' '.join(str(error).split())}") from error
        self.bodies: Mapping[str, int] = found["path_body_map"]
        self.joints: Mapping[str, int] = found["path_joint_map"]
        self.on_cpu = bool(chosen.is_cpu)
        self._empty = not builder.body_count
        self._now, self._next = self.model.state(), self.model.state()
        self.control = self.model.control()
        self._solver: Any = None
        self._observed: Any = None
        if not self._empty:
            self._solver = newton.solvers.SolverMuJoCo(self.model, use_mujoco_cpu=self.on_cpu)
            self._observed = self._solver.observables([self._solver.ObservableKind.QFRC_ACTUATOR])
        self.reset()

    def reset(self) -> None:
        """Go back to the imported state and the controls of the drives."""
        model = self.model
        for state in (self._now, self._next):
            state.assign(model.state())
            newton.eval_fk(model, model.joint_q, model.joint_qd, state)
        fresh = model.control()
        for name in ("joint_f", "joint_target_q", "joint_target_qd"):
            if getattr(fresh, name) is not None:
                getattr(self.control, name).assign(getattr(fresh, name))
        if self._solver is not None and self.on_cpu:
            # The solver's start value, kept from step to step: without the reset, steps would not repeat exactly.
            self._solver.mj_data.qacc_warmstart[:] = 0.0
        if self._observed is not None:
            self._observed.qfrc_actuator.zero_()

    def step(self, steps: int, seconds: float) -> None:
        """Make steps of a fixed length."""
        if self._solver is None:
            return
        for _ in range(steps):
            self._now.clear_forces()
            self._solver.step(self._now, self._next, self.control, None, seconds, observables=self._observed)
            self._now, self._next = self._next, self._now

    # --- State: valid until the next step ----------------------------------------------------------------------

    def body_pose(self) -> FloatArray:
        """Return (N, 7) `world_from_body`."""
        return _array(self._now.body_q, 7)

    def body_twist(self) -> FloatArray:
        """Return (N, 6) linear then angular velocity of each body's centre of mass, in the world frame."""
        return _array(self._now.body_qd, 6)

    def joint_position(self) -> FloatArray:
        """Return (Q,) joint coordinates."""
        return _array(self._now.joint_q)

    def joint_velocity(self) -> FloatArray:
        """Return (V,) joint velocities."""
        return _array(self._now.joint_qd)

    def joint_effort(self) -> FloatArray:
        """Return (V,) efforts of the drives in the last step."""
        return np.zeros(0, np.float32) if self._observed is None else _array(self._observed.qfrc_actuator)

    # --- Commands ----------------------------------------------------------------------------------------------

    def gains(self) -> tuple[FloatArray, FloatArray]:
        """Return (V,) stiffness and (V,) damping of the joints' drives; 0 where there is none."""
        return _array(self.model.joint_target_ke), _array(self.model.joint_target_kd)

    def write(self, array: Any, rows: NDArray[np.intp], values: NDArray[Any]) -> None:
        """Write rows of one of Newton's arrays, on any device."""
        if self.on_cpu:
            _array(array)[rows] = values
            return
        whole = array.numpy()
        whole[rows] = values
        array.assign(whole)

    def set_free_joint(
        self,
        coordinates: NDArray[np.intp],
        pose: NDArray[Any],
        rates: NDArray[np.intp],
        twist: NDArray[Any] | None = None,
    ) -> None:
        """Set the pose of the free joint with these coordinates (7,) and rates (6,), at rest without a twist."""
        self.write(self._now.joint_q, coordinates, pose)
        self.write(self._now.joint_qd, rates, np.zeros(6, np.float32) if twist is None else twist)
        newton.eval_fk(self.model, self._now.joint_q, self._now.joint_qd, self._now)


def _array(array: Any, columns: int = 0) -> FloatArray:
    if array is None:
        return np.zeros((0, columns) if columns else 0, np.float32)
    result: FloatArray = array.numpy()
    return result


RowArray = NDArray[np.intp]

_FREE_COORDINATES, _FREE_RATES = 7, 6
_PARALLEL = 0.999


@dataclass(frozen=True, slots=True, eq=False)
class NewtonRows:
    """Rows of the layout in Newton's arrays; -1 where Newton has none.

    Attributes:
        bodies: (B,) in body arrays.
        positions: (D,) in joint coordinates.
        velocities: (D,) in joint velocities.
        free: (B,) first joint coordinate of the free joint that carries the body.
        free_rates: (B,) its first rate.
    """

    bodies: RowArray
    positions: RowArray
    velocities: RowArray
    free: RowArray
    free_rates: RowArray


def find_newton_rows(plan: BridgePlan, engine: Engine, report: Callable[[str, str], None]) -> NewtonRows:
    """Look up all rows by prim path. Signs agree: Newton refuses stages with joints authored child first.

    Args:
        plan: The plan.
        engine: The engine.
        report: Receives joints that Newton's import has in another form.
    """
    layout, model = plan.layout, engine.model
    bodies = np.array([engine.bodies.get(path, UNMAPPED) for path in layout.bodies], dtype=np.intp)
    count = len(layout.dofs)
    positions, velocities = np.full(count, UNMAPPED), np.full(count, UNMAPPED)
    joints = _JointTables(model)
    missing = []
    for robot in plan.robots:
        for joint in robot.joints:
            index = engine.joints.get(joint.path, UNMAPPED)
            for dof in joint.dofs:
                found = joints.find(index, dof) if index != UNMAPPED else None
                if found is None:
                    missing.append(joint.path)
                    continue
                positions[dof.row], velocities[dof.row] = found
    if missing:
        named = ", ".join(dict.fromkeys(missing))
        report("newton.joints", f"joints that newton's import has in another form stay at rest: {named}")
    free, free_rates = joints.free_bodies(bodies)
    return NewtonRows(bodies, positions.astype(np.intp), velocities.astype(np.intp), free, free_rates)


def find_free(engine: Engine, paths: Sequence[str]) -> tuple[RowArray, RowArray]:
    """Return the first coordinate and the first rate of the free joints of bodies, -1 for none."""
    bodies = np.array([engine.bodies.get(path, UNMAPPED) for path in paths], dtype=np.intp)
    return _JointTables(engine.model).free_bodies(bodies)


class _JointTables:
    """Joint tables of the model, as numpy arrays."""

    def __init__(self, model: Any) -> None:
        self._coordinate = _table(model.joint_q_start)
        self._rate = _table(model.joint_qd_start)
        self._parent = _table(model.joint_parent)
        self._child = _table(model.joint_child)
        self._axes = _table(model.joint_axis).reshape(-1, 3)
        self._dims = _table(model.joint_dof_dim).reshape(-1, 2)

    def find(self, joint: int, dof: DofPlan) -> tuple[int, int] | None:
        """Return the coordinate and the rate of a degree of freedom, None where the joint does not have it."""
        coordinates = self._coordinate[joint + 1] - self._coordinate[joint]
        first, last = int(self._rate[joint]), int(self._rate[joint + 1])
        if coordinates != last - first:
            return None
        linear = int(self._dims[joint, 0])
        wanted = "XYZ".index(dof.axis[-1])
        span = range(first, first + linear) if dof.axis.startswith("trans") else range(first + linear, last)
        for rate in span:
            if abs(self._axes[rate, wanted]) > _PARALLEL:
                return int(self._coordinate[joint]) + rate - first, rate
        return None

    def free_bodies(self, bodies: RowArray) -> tuple[RowArray, RowArray]:
        """Return the first coordinate and rate of the free joint of each body, -1 where it has none."""
        sizes = np.diff(self._coordinate), np.diff(self._rate)
        is_free = (sizes[0] == _FREE_COORDINATES) & (sizes[1] == _FREE_RATES) & (self._parent < 0)
        by_child = {int(self._child[joint]): int(joint) for joint in np.flatnonzero(is_free)}
        joints = [by_child.get(int(body), UNMAPPED) for body in bodies]
        coordinates = [UNMAPPED if joint < 0 else int(self._coordinate[joint]) for joint in joints]
        rates = [UNMAPPED if joint < 0 else int(self._rate[joint]) for joint in joints]
        return np.array(coordinates, dtype=np.intp), np.array(rates, dtype=np.intp)


def _table(array: Any) -> NDArray[Any]:
    return np.zeros(0, np.int32) if array is None else np.asarray(array.numpy())

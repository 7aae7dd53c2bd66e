"""Newton at arm's length: one model from a stage, its solver and the two states that it swaps at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import newton
import numpy as np
import warp as wp
from numpy.typing import NDArray

from usd_ros_bridge.model.errors import BackendError

FloatArray = NDArray[np.float32]

_RESOLVERS: Mapping[str, Callable[[], Any]] = {
    "newton": newton.usd.SchemaResolverNewton,
    "physx": newton.usd.SchemaResolverPhysx,
    "mjc": newton.usd.SchemaResolverMjc,
}


class Engine:
    """A stage as Newton simulates it. Float32, SI units, Z-up, quaternions x, y, z, w.

    The solver reads one state and writes the other, and then they change places. So an array that was handed out
    belongs to the step at which it was asked for: ask again after every step.

    Attributes:
        model: The Newton model.
        bodies: Body index by prim path.
        joints: Joint index by prim path.
        on_cpu: Whether arrays are the processor's own memory, which is then written and read in place.
    """

    def __init__(self, stage: object, *, solvers: Sequence[str], device: str) -> None:
        """Imports the stage and makes the solver; compiles Newton's kernels where this machine never has.

        Args:
            stage: A UsdStage, which is only read.
            solvers: Whose schemas count, in order of priority: newton, physx, mjc.
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
        """Goes back to the state that was imported; controls are those of the drives."""
        model = self.model
        for state in (self._now, self._next):
            state.assign(model.state())
            newton.eval_fk(model, model.joint_q, model.joint_qd, state)
        fresh = model.control()
        for name in ("joint_f", "joint_target_q", "joint_target_qd"):
            if getattr(fresh, name) is not None:
                getattr(self.control, name).assign(getattr(fresh, name))
        if self._solver is not None and self.on_cpu:
            # Where the solver starts its search, kept from step to step: without it the same steps repeat exactly.
            self._solver.mj_data.qacc_warmstart[:] = 0.0
        if self._observed is not None:
            self._observed.qfrc_actuator.zero_()

    def step(self, steps: int, seconds: float) -> None:
        """Makes steps of a fixed length."""
        if self._solver is None:
            return
        for _ in range(steps):
            self._now.clear_forces()
            self._solver.step(self._now, self._next, self.control, None, seconds, observables=self._observed)
            self._now, self._next = self._next, self._now

    # --- What is measured: valid until the next step -----------------------------------------------------------

    def body_pose(self) -> FloatArray:
        """Returns (N, 7) `world_from_body`."""
        return _array(self._now.body_q, 7)

    def body_twist(self) -> FloatArray:
        """Returns (N, 6) linear then angular velocity of each body's centre of mass, in the world frame."""
        return _array(self._now.body_qd, 6)

    def joint_position(self) -> FloatArray:
        """Returns (Q,) joint coordinates."""
        return _array(self._now.joint_q)

    def joint_velocity(self) -> FloatArray:
        """Returns (V,) joint velocities."""
        return _array(self._now.joint_qd)

    def joint_effort(self) -> FloatArray:
        """Returns (V,) what the drives exerted in the last step."""
        return np.zeros(0, np.float32) if self._observed is None else _array(self._observed.qfrc_actuator)

    # --- What is told ------------------------------------------------------------------------------------------

    def write(self, array: Any, rows: NDArray[np.intp], values: NDArray[Any]) -> None:
        """Writes some rows of one of Newton's arrays, on whatever device that is."""
        if self.on_cpu:
            _array(array)[rows] = values
            return
        whole = array.numpy()
        whole[rows] = values
        array.assign(whole)

    def place(
        self,
        coordinates: NDArray[np.intp],
        pose: NDArray[Any],
        rates: NDArray[np.intp],
        twist: NDArray[Any] | None = None,
    ) -> None:
        """Puts the free joint with these coordinates (7,) and rates (6,) elsewhere, at rest unless a twist is given."""
        self.write(self._now.joint_q, coordinates, pose)
        self.write(self._now.joint_qd, rates, np.zeros(6, np.float32) if twist is None else twist)
        newton.eval_fk(self.model, self._now.joint_q, self._now.joint_qd, self._now)


def _array(array: Any, columns: int = 0) -> FloatArray:
    if array is None:
        return np.zeros((0, columns) if columns else 0, np.float32)
    result: FloatArray = array.numpy()
    return result

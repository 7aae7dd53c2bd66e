"""The state that a simulation starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """Everything that MuJoCo's own reset does not know.

    Attributes:
        qpos: (nq,) positions.
        qvel: (nv,) velocities.
        ctrl: (nu,) targets of the drives.
        free_dof: (F,) addresses in `qvel` of the free joints.
        trees: By free joint, the addresses in `qvel` of everything that hangs from the body, its own included.
    """

    qpos: FloatArray
    qvel: FloatArray
    ctrl: FloatArray
    free_dof: IndexArray
    trees: tuple[IndexArray, ...]

    def apply(self, model: Any, data: Any) -> None:
        """Puts `data` to the start.

        What flies freely gets half a step's worth of gravity less: MuJoCo's integrators move by the velocity at the
        end of a step, so that a fall would be ahead by `g t dt / 2` (10 mm after 1 s at 2 ms). Velocities taken half a
        step early make it exact, as the leapfrog scheme does.
        """
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = self.qpos, self.qvel, self.ctrl
        mujoco.mj_forward(model, data)
        semi_implicit = model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4
        if semi_implicit and not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
            for address, tree in zip(self.free_dof.tolist(), self.trees, strict=True):
                if not data.qfrc_constraint[tree].any():
                    data.qvel[address : address + 3] -= 0.5 * model.opt.timestep * model.opt.gravity
            mujoco.mj_forward(model, data)

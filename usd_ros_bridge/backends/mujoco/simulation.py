"""The simulation: MuJoCo's state, stepped so that poses, velocities and forces belong to the time they are read at."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.compiled import Compiled, FloatArray
from usd_ros_bridge.backends.mujoco.kinematic_bodies import KinematicBodies
from usd_ros_bridge.backends.timeline import StageRange
from usd_ros_bridge.model.physics import WORLD_BODY
from usd_ros_bridge.model.transforms import IDENTITY, normalized

_SKIP_VELOCITY = int(mujoco.mjtStage.mjSTAGE_VEL)
_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_XYZW = [1, 2, 3, 0]
_WXYZ = [3, 0, 1, 2]
MAX_SPEED = 1e6
"""rad/s or m/s: a simulation in which anything is faster has diverged."""


class Simulation:
    """A model and its data.

    Poses and velocities are always those of the current state, ready to be read: every step ends with the part of
    MuJoCo's that computes them (mj_step1). Accelerations, efforts and contact forces are, after `settle`.

    Attributes:
        compiled: The model with its index maps.
        model: MjModel.
        data: MjData.
        step_ns: Length of a step, nanoseconds.
        time_ns: Bridge time of the state, nanoseconds.
        kinematic: What moves kinematic bodies.
    """

    def __init__(self, compiled: Compiled, played: StageRange | None = None) -> None:
        """Puts a compiled model to its start; its time step is made a whole number of nanoseconds.

        Args:
            compiled: The model.
            played: Which part of the stage's time kinematic bodies with time samples go through.
        """
        self.compiled = compiled
        self.model: Any = compiled.model
        self.step_ns = max(1, round(self.model.opt.timestep * 1e9))
        self.model.opt.timestep = self.step_ns * 1e-9
        # A simulation that diverged is shown as such and not silently started over.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self._runge_kutta = self.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
        self._senses = self.model.nsensor > 0
        self.data: Any = mujoco.MjData(self.model)
        self.time_ns = 0
        self._settled = False
        self._warnings = self.data.warning.number
        self._velocity: FloatArray = self.data.qvel
        self._warm_start: FloatArray = self.data.qacc_warmstart
        self._start = self._warm_start.copy()
        self._saved = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        compiled.start(self.data)
        self.kinematic = KinematicBodies(compiled, self.data, played or StageRange())
        self._opening = self._saved.copy()
        mujoco.mj_getState(self.model, self.data, self._opening, _STATE)
        self.reset()

    # --- Time --------------------------------------------------------------------------------------------------

    def step(self, count: int) -> None:
        """Makes `count` steps; several in one call are the same steps, bit for bit, for less."""
        if self.kinematic.moving:
            self._step_moving(count)
            return
        model, data = self.model, self.data
        self._settled = False
        if count > 1 or self._runge_kutta:
            self._step_many(count)
        else:
            mujoco.mj_step2(model, data)
        mujoco.mj_step1(model, data)
        self.time_ns += count * self.step_ns

    def settle(self) -> None:
        """Makes accelerations, efforts and contact forces those of the current state; what comes after is the same."""
        if not self._settled:
            # Older releases (3.3) would start the next step's solver from here.
            np.copyto(self._start, self._warm_start)
            mujoco.mj_forwardSkip(self.model, self.data, _SKIP_VELOCITY, 0)
            np.copyto(self._warm_start, self._start)
            self._settled = True

    def reset(self) -> None:
        """Goes back to the opening state, bit for bit."""
        mujoco.mj_resetData(self.model, self.data)
        self.kinematic.reset()
        # MuJoCo writes a file into the working directory at the first warning of a kind. Those are told here instead.
        self._warnings[:] = 1
        self.restore(self._opening)

    def refresh(self) -> None:
        """Computes poses and velocities after the state was changed by hand."""
        self._settled = False
        mujoco.mj_step1(self.model, self.data)
        self.kinematic.carry()

    # --- Health ------------------------------------------------------------------------------------------------

    @property
    def healthy(self) -> bool:
        """Whether all velocities are numbers of a sane size: a position that is none makes them NaN a step later."""
        squared: float = self._velocity.dot(self._velocity)
        return squared < MAX_SPEED * MAX_SPEED

    @property
    def overfull(self) -> bool:
        """Whether contacts or constraints were left out for want of memory since the last reset."""
        warnings = self._warnings
        full = warnings[mujoco.mjtWarning.mjWARN_CONTACTFULL] + warnings[mujoco.mjtWarning.mjWARN_CNSTRFULL]
        return bool(full > 2)

    def save(self) -> FloatArray:
        """Notes the state for `restore`; returns the array, which the next call overwrites."""
        mujoco.mj_getState(self.model, self.data, self._saved, _STATE)
        return self._saved

    def restore(self, state: FloatArray) -> None:
        """Goes back to a saved state; `time_ns` is the caller's."""
        mujoco.mj_setState(self.model, self.data, state, _STATE)
        self.refresh()

    # --- Bodies ------------------------------------------------------------------------------------------------

    def world_from_body(self, body: int) -> FloatArray:
        """Returns where a body of the scene is: (7,), x y z, quaternion x y z w; WORLD_BODY is at the origin."""
        if body == WORLD_BODY:
            return IDENTITY
        data, found = self.data, self.compiled.body_ids[body]
        return np.concatenate((data.xpos[found], data.xquat[found][_XYZW]))

    def body_twist(self, body: int) -> FloatArray:
        """Returns linear then angular velocity (6,) of a body's origin in the world frame, m/s and rad/s."""
        found = np.zeros(6)
        if body != WORLD_BODY:
            mujoco.mj_objectVelocity(
                self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, self.compiled.body_ids[body], found, 0
            )
        twist = np.concatenate((found[3:], found[:3]))
        if body != WORLD_BODY and self.kinematic.moving:
            twist += self.kinematic.body_velocity(int(self.compiled.body_ids[body]))
        return twist

    def body_acceleration(self, body: int) -> FloatArray:
        """Returns linear then angular acceleration (6,) of a body's origin in the world frame, gravity left out."""
        found = np.zeros(6)
        # What no joint moves has none, which releases of MuJoCo put in different words.
        if body != WORLD_BODY and self.model.body_treeid[self.compiled.body_ids[body]] >= 0:
            self.settle()
            mujoco.mj_rnePostConstraint(self.model, self.data)
            mujoco.mj_objectAcceleration(
                self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, self.compiled.body_ids[body], found, 0
            )
            # MuJoCo has the world accelerate upwards instead of gravity acting downwards.
            if not self.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
                found[3:] += self.model.opt.gravity
        return np.concatenate((found[3:], found[:3]))

    def place(self, body: int, pose: FloatArray | None, twist: FloatArray | None) -> bool:
        """Puts a body that is free or kinematic elsewhere; what hangs from it by joints comes along.

        Args:
            body: Index in the scene.
            pose: (7,) `world_from_body`; None: where it is.
            twist: (6,) linear then angular velocity of the origin in the world frame; None: zero with a new pose, else
                what it was. A kinematic body has none.

        Returns:
            False, having done nothing, where joints or nothing at all can move the body.
        """
        compiled, data = self.compiled, self.data
        mocap, address = int(compiled.mocap_ids[body]), int(compiled.free_qpos[body])
        if mocap < 0 and address < 0:
            return False
        if pose is not None:
            rotation = normalized(pose[3:])[_WXYZ]
            if mocap >= 0:
                data.mocap_pos[mocap], data.mocap_quat[mocap] = pose[:3], rotation
                self.kinematic.release(body)
            else:
                data.qpos[address : address + 3], data.qpos[address + 3 : address + 7] = pose[:3], rotation
        if mocap < 0 and (twist is not None or pose is not None):
            dof = int(compiled.free_dof[body])
            twist = np.zeros(6) if twist is None else twist
            rotation = data.qpos[address + 3 : address + 7]
            data.qvel[dof : dof + 3] = twist[:3]
            local, back = np.zeros(3), np.zeros(4)
            mujoco.mju_negQuat(back, rotation)
            mujoco.mju_rotVecQuat(local, np.asarray(twist[3:], dtype=np.float64), back)
            data.qvel[dof + 3 : dof + 6] = local
        self.refresh()
        return True

    def move(self, body: int, twist: FloatArray) -> bool:
        """Moves a kinematic body by a twist in its own frame (6,), m/s and rad/s, until the next one.

        Returns:
            False, having done nothing, where the body is not kinematic.
        """
        if self.compiled.mocap_ids[body] < 0:
            return False
        if self.kinematic.set_twist(body, twist):
            self.refresh()
        return True

    # --- Own ---------------------------------------------------------------------------------------------------

    def _step_moving(self, count: int) -> None:
        """Makes steps one by one, each with the motion of kinematic bodies."""
        model, data, kinematic = self.model, self.data, self.kinematic
        self._settled = False
        for _ in range(count):
            kinematic.advance()
            if self._runge_kutta:
                self._step_many(1)
            else:
                mujoco.mj_step2(model, data)
            mujoco.mj_step1(model, data)
            kinematic.carry()
        self.time_ns += count * self.step_ns

    def _step_many(self, count: int) -> None:
        """Makes all but the last computation of poses; sensors are not read in between."""
        model, data = self.model, self.data
        flags = model.opt.disableflags
        if self._senses:
            model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_SENSOR
        if self._runge_kutta:
            mujoco.mj_step(model, data, count)
        else:
            mujoco.mj_step2(model, data)
            mujoco.mj_step(model, data, count - 1)
        if self._senses:
            model.opt.disableflags = flags

"""The simulation: MuJoCo's state, stepped so that poses, velocities and forces belong to the time of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.backend_options import Divergence
from usd_ros_bridge.backends.mujoco.body_effects import body_effects
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.kinematic_bodies import KinematicBodies
from usd_ros_bridge.backends.mujoco.stiff_drives import SolvedDrive, StiffDrives
from usd_ros_bridge.backends.time_samples import StageRange
from usd_ros_bridge.model.physics import WORLD_BODY
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, to_matrix, wxyz, xyzw

_SKIP_VELOCITY = int(mujoco.mjtStage.mjSTAGE_VEL)
_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
_CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
MAX_SPEED = 1e6
"""rad/s or m/s: a simulation with a greater speed has diverged."""
_MEMORY_CHECK_INTERVALS = 256


class Simulation:
    """A model and its data.

    Poses and velocities are always those of the current state: every step ends with the part of MuJoCo's step that
    computes them (mj_step1). Accelerations, efforts and contact forces are current after `update_forces`.

    Attributes:
        compiled: The model with its index maps.
        model: MjModel.
        data: MjData.
        step_ns: Length of a step, nanoseconds.
        time_ns: Bridge time of the state, nanoseconds.
        kinematic: Motion of the kinematic bodies.
        stiff_drives: The drives that are rows of the solver; None for none.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        played: StageRange | None = None,
        *,
        drives: Sequence[SolvedDrive] = (),
    ) -> None:
        """Initialize. The time step is rounded to whole nanoseconds.

        Args:
            compiled: The model.
            played: Range of the stage's time that kinematic bodies with time samples play.
            drives: How the drives are solved (`solve_drives`); without any, all are actuators.
        """
        self.compiled = compiled
        self.model: Any = compiled.model
        self.step_ns = max(1, round(self.model.opt.timestep * 1e9))
        self.model.opt.timestep = self.step_ns * 1e-9
        # A simulation that diverged is reported, not silently started over.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self._runge_kutta = self.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
        self._has_sensors = self.model.nsensor > 0
        self.data: Any = mujoco.MjData(self.model)
        self.time_ns = 0
        self._forces_current = False
        self._warnings = self.data.warning.number
        self._velocity: FloatArray = self.data.qvel
        self._warm_start: FloatArray = self.data.qacc_warmstart
        self._saved_warm_start = self._warm_start.copy()
        self._saved = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        compiled.start(self.data)
        self.kinematic = KinematicBodies(compiled, self.data, played or StageRange())
        rows = [drive for drive in drives if not drive.actuator_because]
        self.stiff_drives = StiffDrives(compiled, self.data, rows) if rows else None
        self._effects = body_effects(compiled)
        self._initial = self._saved.copy()
        mujoco.mj_getState(self.model, self.data, self._initial, _STATE)
        self.reset()
        if self.stiff_drives is not None:
            self.stiff_drives.find_rows()

    # --- Time --------------------------------------------------------------------------------------------------

    def step(self, count: int) -> None:
        """Make `count` steps; several in one call are the same steps, bit for bit, at lower cost."""
        self._forces_current = False
        if self.kinematic.moving or self._effects:
            self._step_each(count)
        elif self.stiff_drives is not None:
            self.stiff_drives.step(count)
        else:
            model, data = self.model, self.data
            if count > 1 or self._runge_kutta:
                self._step_many(count)
            else:
                mujoco.mj_step2(model, data)
            mujoco.mj_step1(model, data)
        self.time_ns += count * self.step_ns

    def update_forces(self) -> None:
        """Compute accelerations, efforts and contact forces of the current state; later steps stay the same."""
        if not self._forces_current:
            # Older releases (3.3) would start the next step's solver from here.
            np.copyto(self._saved_warm_start, self._warm_start)
            drives = self.stiff_drives
            if drives is not None:
                drives.compute_forces(_SKIP_VELOCITY)
            else:
                mujoco.mj_forwardSkip(self.model, self.data, _SKIP_VELOCITY, 0)
            np.copyto(self._warm_start, self._saved_warm_start)
            self._forces_current = True

    def update_joint_forces(self) -> None:
        """Compute the accelerations of all bodies and the forces that joints transmit, too."""
        self.update_forces()
        mujoco.mj_rnePostConstraint(self.model, self.data)

    def reset(self) -> None:
        """Go back to the initial state, bit for bit."""
        mujoco.mj_resetData(self.model, self.data)
        self.kinematic.reset()
        # MuJoCo writes a file into the working directory at the first warning of a kind. The bridge reports instead.
        self._warnings[:] = 1
        self.restore(self._initial)

    def refresh(self) -> None:
        """Compute poses and velocities after the state was written."""
        self._forces_current = False
        mujoco.mj_step1(self.model, self.data)
        self._complete()
        if self.stiff_drives is not None:
            self.stiff_drives.forget_effort()

    def save(self) -> FloatArray:
        """Save the state for `restore`. Return the array; the next call overwrites it."""
        mujoco.mj_getState(self.model, self.data, self._saved, _STATE)
        return self._saved

    def restore(self, state: FloatArray) -> None:
        """Restore a saved state, except `time_ns`."""
        mujoco.mj_setState(self.model, self.data, state, _STATE)
        self.refresh()

    @property
    def diverged(self) -> bool:
        """Return whether a velocity is not finite or too large; a NaN position makes them NaN a step later."""
        return not mujoco.mju_norm(self._velocity) < MAX_SPEED

    @property
    def memory_full(self) -> bool:
        """Return whether contacts or constraints were dropped for lack of memory since the last reset."""
        warnings = self._warnings
        full = warnings[mujoco.mjtWarning.mjWARN_CONTACTFULL] + warnings[mujoco.mjtWarning.mjWARN_CNSTRFULL]
        return bool(full > 2)

    # --- Bodies ------------------------------------------------------------------------------------------------

    def world_from_body(self, body: int) -> FloatArray:
        """Return the pose (7,) of a body of the scene; WORLD_BODY is at the origin."""
        if body == WORLD_BODY:
            return IDENTITY
        data, body_id = self.data, self.compiled.body_ids[body]
        return np.concatenate((data.xpos[body_id], xyzw(data.xquat[body_id])))

    def body_twist(self, body: int) -> FloatArray:
        """Return linear then angular velocity (6,) of a body's origin in the world frame, m/s and rad/s."""
        if body == WORLD_BODY:
            return np.zeros(6)
        spatial, body_id = np.zeros(6), int(self.compiled.body_ids[body])
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, body_id, spatial, 0)
        twist = np.concatenate((spatial[3:], spatial[:3]))
        if self.kinematic.moving:
            twist += self.kinematic.body_velocity(body_id)
        return twist

    def body_acceleration(self, body: int) -> FloatArray:
        """Return linear then angular acceleration (6,) of a body's origin in the world frame, without gravity."""
        spatial = np.zeros(6)
        # A body that no joint moves has none; releases of MuJoCo differ in what they compute for it.
        if body != WORLD_BODY and self.model.body_treeid[self.compiled.body_ids[body]] >= 0:
            self.update_joint_forces()
            mujoco.mj_objectAcceleration(
                self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, self.compiled.body_ids[body], spatial, 0
            )
            # In MuJoCo the world accelerates upwards instead of gravity acting downwards.
            if not self.model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
                spatial[3:] += self.model.opt.gravity
        return np.concatenate((spatial[3:], spatial[:3]))

    def body_bounds(self, body: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the lowest and highest corner (3,), in the body's axes, of its colliders and its descendants'."""
        compiled, model = self.compiled, self.model
        body_id = int(compiled.body_ids[body])
        tree = {body_id}
        # Parents come before their children.
        for child in range(body_id + 1, model.nbody):
            if int(model.body_parentid[child]) in tree:
                tree.add(child)
        points = [
            self._geom_points(int(geom))
            for ids in compiled.geom_ids
            for geom in ids
            if int(model.geom_bodyid[geom]) in tree and model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE
        ]
        if not points:
            return None
        body_from_world = np.linalg.inv(to_matrix(self.world_from_body(body)))
        local = np.concatenate(points) @ body_from_world[:3, :3].T + body_from_world[:3, 3]
        return local.min(axis=0), local.max(axis=0)

    def set_body_state(self, body: int, pose: FloatArray | None, twist: FloatArray | None) -> bool:
        """Set the state of a free or kinematic body, with everything that hangs from it by joints.

        Args:
            body: Index in the scene.
            pose: (7,) `world_from_body`; None: unchanged.
            twist: (6,) linear then angular velocity of the origin in the world frame; None: zero with a new pose, else
                unchanged. A kinematic body ignores it.

        Returns:
            False, without an effect, where the body is neither free nor kinematic.
        """
        compiled, data = self.compiled, self.data
        mocap, address = int(compiled.mocap_ids[body]), int(compiled.free_qpos[body])
        if mocap < 0 and address < 0:
            return False
        if pose is not None:
            rotation = wxyz(pose[3:])
            if mocap >= 0:
                data.mocap_pos[mocap], data.mocap_quat[mocap] = pose[:3], rotation
                self.kinematic.stop_samples(body)
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

    def set_kinematic_twist(self, body: int, twist: FloatArray) -> bool:
        """Move a kinematic body by a twist in its own frame (6,), m/s and rad/s, until the next one.

        Returns:
            False, without an effect, where the body is not kinematic.
        """
        if self.compiled.mocap_ids[body] < 0:
            return False
        if self.kinematic.set_twist(body, twist):
            self.refresh()
        return True

    # --- Private -----------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        """Add to a state what depends on its velocities: the motion of kinematic bodies, and effects of bodies."""
        self.kinematic.apply_to_constraints()
        for effect in self._effects:
            effect.apply(self.data)

    def _step_each(self, count: int) -> None:
        """Make steps one by one, each with the motion of kinematic bodies and the effects of bodies."""
        model, data, kinematic, drives = self.model, self.data, self.kinematic, self.stiff_drives
        for _ in range(count):
            kinematic.advance()
            if drives is not None:
                drives.step(1)
            else:
                if self._runge_kutta:
                    self._step_many(1)
                else:
                    mujoco.mj_step2(model, data)
                mujoco.mj_step1(model, data)
            self._complete()

    def _step_many(self, count: int) -> None:
        """Make `count` steps without the last computation of poses; sensors are not computed in between."""
        model, data = self.model, self.data
        flags = model.opt.disableflags
        if self._has_sensors:
            model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_SENSOR
        if self._runge_kutta:
            mujoco.mj_step(model, data, count)
        else:
            mujoco.mj_step2(model, data)
            mujoco.mj_step(model, data, count - 1)
        if self._has_sensors:
            model.opt.disableflags = flags

    def _geom_points(self, geom: int) -> FloatArray:
        """Return the vertices (N, 3) of a geom's mesh, or the corners of its bounding box, in the world."""
        model, data = self.model, self.data
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = int(model.geom_dataid[geom])
            start = int(model.mesh_vertadr[mesh])
            local: Any = model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])]
        else:
            box = model.geom_aabb[geom]
            local = box[:3] + _CORNERS * box[3:]
        rotation = data.geom_xmat[geom].reshape(3, 3)
        points: FloatArray = np.asarray(local, dtype=np.float64) @ rotation.T + data.geom_xpos[geom]
        return points


class DivergenceMonitor:
    """Check every interval, and set back and report a simulation that has diverged.

    Attributes:
        held: The last good state is held, until a reset.
    """

    def __init__(self, simulation: Simulation, on_divergence: Divergence, report: Report) -> None:
        self._simulation, self._mode, self._report = simulation, on_divergence, report
        self._start = simulation.save()
        self._intervals = 0
        self.held = False

    def begin(self, count: int) -> None:
        """Save the state at the start of an interval of `count` steps."""
        # A divergence in a single step is seen at its end.
        if count > 1 or self._mode == "hold":
            self._start = self._simulation.save()

    def end(self, count: int) -> bool:
        """Check the state after an interval of `count` steps.

        Returns:
            True if the simulation was set back: to the initial state, or to the start of the interval.
        """
        simulation = self._simulation
        self._intervals += 1
        if self._intervals % _MEMORY_CHECK_INTERVALS == 0 and simulation.memory_full:
            self._report("mujoco.memory", "MuJoCo's memory for contacts is full: some contacts are left out")
        if not simulation.diverged:
            return False
        time_ns = simulation.time_ns
        cause = self._find_cause(count)
        if self._mode == "hold":
            simulation.restore(self._start)
            simulation.data.qvel[:] = 0.0
            simulation.refresh()
            self.held = True
            effect = "the last good state is held until a reset"
        else:
            simulation.reset()
            effect = "back to the state at rest"
        simulation.time_ns = time_ns
        self._report(
            "mujoco.diverged", f"the simulation diverged at {time_ns * 1e-9:.3f} s, {cause}: {effect}"
        )
        return True

    def reset(self) -> None:
        """Stop holding a state."""
        self.held = False

    def _find_cause(self, count: int) -> str:
        """Repeat the interval step by step and describe the first joint or body that diverges."""
        simulation = self._simulation
        if count > 1:
            simulation.restore(self._start)
            for _ in range(count):
                if simulation.diverged:
                    break
                simulation.step(1)
        model, speed = simulation.model, np.abs(simulation.data.qvel)
        if not speed.size:
            return "nothing moves"
        # The first NaN if there is one: argmax takes it for the greatest of all.
        dof = int(np.argmax(speed))
        joint = int(model.dof_jntid[dof])
        free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
        element = model.body(int(model.jnt_bodyid[joint])) if free else model.joint(joint)
        value = f"{speed[dof]:.3g}" if speed[dof] <= np.inf else "NaN"
        kind = "body" if free else "joint"
        return f"{kind} {element.name} first: its speed is {value} ({MAX_SPEED:.0e} is too much)"


_WIDTH = {
    int(mujoco.mjtJoint.mjJNT_FREE): (7, 6),
    int(mujoco.mjtJoint.mjJNT_BALL): (4, 3),
    int(mujoco.mjtJoint.mjJNT_SLIDE): (1, 1),
    int(mujoco.mjtJoint.mjJNT_HINGE): (1, 1),
}
"""Numbers of positions and velocities of a joint."""


def transfer_state(new: Simulation, old: Simulation) -> None:
    """Copy time, and the state of the joints, kinematic bodies and actuators that both have, by name."""
    new.time_ns = old.time_ns
    new.data.time = old.data.time
    _copy_joints(new, old)
    for index, old_id in _common(new.model, old.model, mujoco.mjtObj.mjOBJ_BODY, new.model.nbody):
        address, old_address = int(new.model.body_mocapid[index]), int(old.model.body_mocapid[old_id])
        if address >= 0 and old_address >= 0:
            new.data.mocap_pos[address] = old.data.mocap_pos[old_address]
            new.data.mocap_quat[address] = old.data.mocap_quat[old_address]
    for index, old_id in _common(new.model, old.model, mujoco.mjtObj.mjOBJ_ACTUATOR, new.model.nu):
        new.data.ctrl[index] = old.data.ctrl[old_id]
        count = int(new.model.actuator_actnum[index])
        if count and count == old.model.actuator_actnum[old_id]:
            address, old_address = (
                int(new.model.actuator_actadr[index]),
                int(old.model.actuator_actadr[old_id]),
            )
            new.data.act[address : address + count] = old.data.act[old_address : old_address + count]
    new.kinematic.transfer_state(old.kinematic)
    new.refresh()


def _copy_joints(new: Simulation, old: Simulation) -> None:
    for index, old_id in _common(new.model, old.model, mujoco.mjtObj.mjOBJ_JOINT, new.model.njnt):
        kind = int(new.model.jnt_type[index])
        if kind != int(old.model.jnt_type[old_id]):
            continue
        positions, velocities = _WIDTH[kind]
        address, old_address = int(new.model.jnt_qposadr[index]), int(old.model.jnt_qposadr[old_id])
        new.data.qpos[address : address + positions] = old.data.qpos[old_address : old_address + positions]
        if positions == 1:
            # Position 0 in MuJoCo's coordinate may have been edited.
            new.data.qpos[address] += new.model.qpos0[address] - old.model.qpos0[old_address]
        address, old_address = int(new.model.jnt_dofadr[index]), int(old.model.jnt_dofadr[old_id])
        for name in ("qvel", "qacc_warmstart"):
            getattr(new.data, name)[address : address + velocities] = getattr(old.data, name)[
                old_address : old_address + velocities
            ]


def _common(model: Any, other: Any, kind: Any, count: int) -> list[tuple[int, int]]:
    """Return the ids in two models of all elements that have the same name in both."""
    names = [(index, mujoco.mj_id2name(model, kind, index)) for index in range(count)]
    found = [(index, mujoco.mj_name2id(other, kind, name)) for index, name in names if name]
    return [(index, old_id) for index, old_id in found if old_id >= 0]

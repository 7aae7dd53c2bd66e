"""Stiff drives: drives that a time step cannot resolve, solved together with contacts and limits.

An actuator's force is computed from the state at the start of a step. A drive that is stiff for the joint's inertia and
the step then overshoots in every step: wheels hop, fingers explode. Such a drive becomes a friction row of MuJoCo's
solver with a moving reference instead. With step `h`, gains `K` and `D`, and `g = h (D + h K)`, the solver finds

    f = clamp(K (target - q') + D (target_velocity - v') + effort, least, most)

for the position `q'` and velocity `v'` at the end of the step: implicit Euler of the drive, in one problem with all
contacts, limits and equality constraints. In MuJoCo's terms (docs, "Computation: friction loss") the row has the
regularization `R = 1 / g` and the reference acceleration `S / g - v / h`, where `S` is the drive's force without its
damping. The row is that of a fixed tendon with coefficient 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.spec_builder import (
    AUXILIARY_GROUP,
    MOST_RATIO,
    SpecBuilder,
    damper_tendon,
    drive_tendon,
)
from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray

STIFF: Final = 1.0
"""Ratio of the inertia that an implicit drive adds to that of the joint, above which the drive is stiff.

Results are the same for 0.1 and 3. Below 1, implicitfast is more accurate for springs that swing.
"""
_UNLIMITED: Final = 1e12
"""N m or N: force limit of a drive without one."""
_LEAST_DAMPING: Final = 0.1
"""Inertia that a joint's own damping adds in a step, over the joint's, from which on the solver has to know of it."""
_LEAST_RANGE: Final = 1e-12
"""N m or N: a row without any range would not exist."""
_HALF: Final = (0.5, 0.5, 0.001, 0.5, 2.0)
"""Impedance 0.5 makes `R` the tendon's inverse weight."""
_MOST_MIDDLE: Final = 1e6
"""N m or N: greatest middle of an effort range; beyond, as with one open end, rounding would be the row's force."""
_MOST_GROUP: Final = 30
_FRICTION: Final = int(mujoco.mjtConstraint.mjCNSTR_FRICTION_TENDON)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedDrive:
    """How MuJoCo solves the drive of one degree of freedom.

    Attributes:
        joint: Name of MuJoCo's joint.
        dof: Flattened index of the degree of freedom.
        stiffness: N m/rad or N/m, after acceleration drives are scaled.
        damping: N m s/rad or N s/m, after acceleration drives are scaled.
        effort: Least and greatest effort, N m or N; infinite without a limit.
        ratio: Inertia that the implicit drive adds, over that of the joint at the start, `g w`.
        actuator_because: Why the drive is an actuator, "" for a row of the solver.
    """

    joint: str
    dof: int
    stiffness: float
    damping: float
    effort: tuple[float, float]
    ratio: float
    actuator_because: str = ""


def add_drive_tendons(builder: SpecBuilder) -> None:
    """Add the tendon of each drive to a specification. It costs nothing while its friction loss is zero."""
    dofs = (dof for joint in builder.scene.joints for dof in joint.dofs)
    driven = [
        (name, dof.damping > 0.0)
        for name, dof in zip(builder.joint_names, dofs, strict=True)
        if name and dof.drive is not None and dof.mimic is None and dof.max_effort > 0.0
    ]
    # The rows of all drives are one block: those of dampers come after them.
    names = [drive_tendon(name) for name, _ in driven]
    names += [damper_tendon(name) for name, damped in driven if damped]
    for tendon in names:
        made = builder.spec.add_tendon(name=tendon)
        made.wrap_joint(tendon.rpartition(":")[0], 1.0)
        made.group = AUXILIARY_GROUP


def solve_drives(compiled: CompiledModel, *, stiff_drives: bool = True) -> tuple[SolvedDrive, ...]:
    """Return how each drive is solved: as a row of the solver if it is stiff, else by actuators.

    Args:
        compiled: The model.
        stiff_drives: The option of the backend: False leaves all drives to actuators.
    """
    model = compiled.model
    excluded = _excluded_model(model) if stiff_drives else "the option stiff_drives is off"
    step = float(model.opt.timestep)
    found = []
    for index, dof in enumerate(compiled.dofs):
        address = int(compiled.dof_of_dof[index])
        if dof.drive is None or dof.mimic is not None or address < 0:
            continue
        stiffness, damping = (
            float(model.actuator_gainprm[ids[index], 0]) if ids[index] >= 0 else 0.0
            for ids in (compiled.position_actuator, compiled.velocity_actuator)
        )
        if not stiffness and not damping:
            continue
        joint = int(model.dof_jntid[address])
        limited = bool(model.jnt_actfrclimited[joint])
        least, most = model.jnt_actfrcrange[joint].tolist() if limited else (-np.inf, np.inf)
        ratio = step * (damping + step * stiffness) / float(_inertia(model, address))
        because = excluded or _excluded_joint(compiled, index, joint, (least, most))
        if not because and not ratio > STIFF:
            because = "the time step resolves it"
        found.append(
            SolvedDrive(
                joint=model.joint(joint).name,
                dof=index,
                stiffness=stiffness,
                damping=damping,
                effort=(least, most),
                ratio=ratio,
                actuator_because=because,
            )
        )
    return tuple(found)


def _inertia(model: Any, addresses: Any) -> Any:
    """Return the inertia that degrees of freedom move at the start, kg m^2 or kg. MuJoCo's weights have no armature."""
    return 1.0 / model.dof_invweight0[addresses] + model.dof_armature[addresses]


def _bounded(effort: Any) -> Any:
    return np.clip(effort, -_UNLIMITED, _UNLIMITED)


def _excluded_model(model: Any) -> str:
    """Return why no drive of a model can be a row, "" if it can."""
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4:
        return "the integrator is rk4"
    for flag in ("constraint", "frictionloss", "actuation"):
        if model.opt.disableflags & getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}"):
            return f"the asset disables {flag}"
    if model.opt.disableactuator & 1:
        return "the asset disables actuators of group 0"
    if not _free_group(model):
        return "the asset uses all groups of actuators"
    sleep = getattr(mujoco.mjtEnableBit, "mjENBL_SLEEP", None)
    if sleep is not None and model.opt.enableflags & sleep:
        return "bodies of the asset sleep"
    return ""


def _excluded_joint(compiled: CompiledModel, index: int, joint: int, effort: tuple[float, float]) -> str:
    if abs(_bounded(effort[0]) + _bounded(effort[1])) > 2.0 * _MOST_MIDDLE:
        return "its effort is limited to one side"
    if compiled.motor_actuator[index] < 0:
        return "actuators of the asset act on the joint"
    if compiled.model.jnt_actgravcomp[joint]:
        return "its actuator compensates gravity"
    return ""


class StiffDrives:
    """The rows of the stiff drives of a simulation, as arrays: one element for each drive.

    Attributes:
        dofs: (N,) flattened indices of the degrees of freedom.
        effort: (N,) effort of each drive at the end of the last step, N m or N; see `update_effort`.
    """

    def __init__(self, compiled: CompiledModel, data: Any, drives: Sequence[SolvedDrive]) -> None:
        """Make the drives rows of the model. The caller computes the constraints again, then calls `find_rows`.

        Args:
            compiled: The model, with the tendons of `add_drive_tendons`.
            data: MjData of the model.
            drives: The drives to solve so.
        """
        model, step = compiled.model, float(compiled.model.opt.timestep)
        drives = sorted(drives, key=lambda drive: int(model.tendon(drive_tendon(drive.joint)).id))
        self._model, self._data = model, data
        self.dofs: IndexArray = np.array([drive.dof for drive in drives], dtype=np.intp)
        addresses = compiled.dof_of_dof[self.dofs]
        stiffness, damping = (np.array([getattr(each, name) for each in drives]) for name in _GAINS)
        self._least, self._most = (np.array([each.effort[end] for each in drives]) for end in (0, 1))
        # The solver's range is symmetric: the middle of an asymmetric one is applied in addition.
        least, most = _bounded(self._least), _bounded(self._most)
        self._middle, half = 0.5 * (least + most), 0.5 * (most - least)
        added = step * (damping + step * stiffness)
        in_solver = np.minimum(added, MOST_RATIO * _inertia(model, addresses))
        tendons = np.array([model.tendon(drive_tendon(each.joint)).id for each in drives], dtype=np.intp)
        model.tendon_frictionloss[tendons] = np.maximum(half, _LEAST_RANGE)
        model.tendon_invweight0[tendons] = 1.0 / in_solver
        # With this impedance, MuJoCo's own reference acceleration is -v / h.
        model.tendon_solref_fri[tendons] = [0.0, -0.5 / step]
        model.tendon_solimp_fri[tendons] = _HALF
        _solve_damping(
            model, [(drive.joint, int(each)) for drive, each in zip(drives, addresses, strict=True)]
        )
        self._first_tendon = int(tendons[0])
        _disable_actuators(compiled, self.dofs)
        # Per unit of added inertia, m/s2 or rad/s2: what changes with commands only, and the springs.
        self._controls, self._weights, constant = _pulls(compiled, self.dofs)
        self._weights /= added
        self._constant: FloatArray = constant / added - self._middle / in_solver
        self._spring: FloatArray = stiffness / added
        self._base, self._last_controls = np.empty(len(drives)), b""
        self._ctrl: FloatArray = data.ctrl
        self._applied_at = addresses
        # The length of the tendon is the joint's position.
        self._length: FloatArray = data.ten_length
        self._tendons = tendons
        self._has_spring, self._has_middle = bool(stiffness.any()), bool(self._middle.any())
        self._has_equalities = bool(model.neq)
        # Older releases (3.3) have no islands by default.
        islands = getattr(mujoco.mjtDisableBit, "mjDSBL_ISLAND", None)
        if model.ntree == 1 and islands is not None:
            # Nothing to separate: MuJoCo would copy all rows.
            model.opt.disableflags |= islands
        self._added, self._damping, self._in_solver = added, damping, in_solver
        self._pulled, self._terms = np.empty(len(drives)), np.empty((3, len(drives)))
        self.effort: FloatArray = np.zeros(len(drives))
        self._has_effort = False
        self._rows = slice(0)
        self._first = 0

    def find_rows(self) -> None:
        """Find the first row after those of equality constraints. It stays: frictions come before all that varies."""
        data = self._data
        first = int(np.flatnonzero((data.efc_type == _FRICTION) & (data.efc_id == self._first_tendon))[0])
        self._rows = slice(first, first + self.dofs.size)
        self._first = first - int(data.ne)

    def step(self, count: int) -> None:
        """Make `count` steps, each from mj_step2 to mj_step1; sensors are computed at the end."""
        model, data, step1, step2 = self._model, self._data, mujoco.mj_step1, mujoco.mj_step2
        self._read_controls()
        if count > 1:
            flags = model.opt.disableflags
            model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_SENSOR
            for _ in range(count - 1):
                self._write()
                step2(model, data)
                step1(model, data)
            model.opt.disableflags = flags
        rows = self._write()
        step2(model, data)
        np.add(data.efc_force[rows], self._middle, self.effort)
        self._has_effort = True
        step1(model, data)

    def compute_forces(self, skip: int) -> None:
        """Compute accelerations and forces of the current state, which later steps do not see.

        Args:
            skip: Stage of MuJoCo's step up to which the state is computed.
        """
        data = self._data
        self._read_controls()
        clean = data.efc_aref.copy()
        self._write()
        mujoco.mj_forwardSkip(self._model, data, skip, 0)
        data.efc_aref[:] = clean

    def forget_effort(self) -> None:
        """Forget the effort: the state was written, no step has led to it."""
        self._has_effort = False

    def update_effort(self) -> None:
        """Compute `effort` by the drives' law if the state was written since the last step."""
        if not self._has_effort:
            self._read_controls()
            position, velocity = (
                values[self._tendons] for values in (self._data.ten_length, self._data.ten_velocity)
            )
            pull = self._base + self._middle / self._in_solver - self._spring * position
            np.clip(pull * self._added - self._damping * velocity, self._least, self._most, self.effort)

    # --- Private -----------------------------------------------------------------------------------------------

    def _read_controls(self) -> None:
        """Read targets and efforts; they hold for all steps of a call."""
        controls = self._ctrl.tobytes()
        if controls != self._last_controls:
            terms, base = self._terms, self._base
            self._ctrl.take(self._controls, None, terms, "clip")
            np.multiply(terms, self._weights, terms)
            np.add(terms[0], terms[1], base)
            np.add(base, terms[2], base)
            np.add(base, self._constant, base)
            self._last_controls = controls

    def _write(self) -> slice:
        """Write the reference of each row, after mj_step1 and before mj_step2. Return the rows."""
        data, pull, rows = self._data, self._base, self._rows
        if self._has_equalities:
            # Their rows come before, and a user may switch them off.
            first = data.ne + self._first
            rows = slice(first, first + pull.size)
        if self._has_spring:
            pull = self._pulled
            self._length.take(self._tendons, None, pull, "clip")
            np.multiply(pull, self._spring, pull)
            np.subtract(self._base, pull, pull)
        references = data.efc_aref[rows]
        # MuJoCo has written -v / h.
        np.add(references, pull, references)
        if self._has_middle:
            data.qfrc_applied[self._applied_at] = self._middle
        return rows


_GAINS: Final = ("stiffness", "damping")


def _pulls(compiled: CompiledModel, dofs: IndexArray) -> tuple[IndexArray, FloatArray, FloatArray]:
    """Return controls (3, N) of drives, their force per control (3, N), and the constant forces (N,)."""
    model = compiled.model
    ids = np.stack(
        [
            actuators[dofs]
            for actuators in (
                compiled.position_actuator,
                compiled.velocity_actuator,
                compiled.motor_actuator,
            )
        ]
    )
    present, controls = ids >= 0, np.maximum(ids, 0)
    weights = np.where(present, model.actuator_gainprm[controls, 0], 0.0)
    biases = np.where(present, model.actuator_biasprm[controls, 0], 0.0)
    return controls, weights, biases.sum(axis=0)


def _solve_damping(model: Any, joints: Sequence[tuple[str, int]]) -> None:
    """Make the own damping of joints with a stiff drive rows of the solver, without a limit.

    implicitfast adds the implicit part of a joint's damping after the solver. So the solver overrates the acceleration
    that a row gives the joint by `1 + h damping / inertia`: a light joint follows its drive thousands of steps late.

    Args:
        model: The model, with the tendons of `add_drive_tendons`.
        joints: Name and address of each degree of freedom with a stiff drive.
    """
    step = float(model.opt.timestep)
    for name, address in joints:
        added = step * float(model.dof_damping[address])
        inertia = float(_inertia(model, address))
        if added <= _LEAST_DAMPING * inertia:
            continue
        tendon = model.tendon(damper_tendon(name)).id
        model.dof_damping[address] = 0.0
        model.tendon_frictionloss[tendon] = _UNLIMITED
        model.tendon_invweight0[tendon] = 1.0 / min(added, MOST_RATIO * inertia)
        # MuJoCo writes the reference, -v / h, in each step.
        model.tendon_solref_fri[tendon] = [0.0, -0.5 / step]
        model.tendon_solimp_fri[tendon] = _HALF


def _disable_actuators(compiled: CompiledModel, dofs: IndexArray) -> None:
    """Disable the actuators of drives by their group. Their gains stay in the model, for those that read them."""
    model, group = compiled.model, _free_group(compiled.model)
    for ids in (compiled.position_actuator, compiled.velocity_actuator, compiled.motor_actuator):
        model.actuator_group[ids[dofs][ids[dofs] >= 0]] = group
    model.opt.disableactuator |= 1 << group


def _free_group(model: Any) -> int:
    """Return a group of actuators that has none, or that the asset disables; 0 if there is no such group."""
    used, disabled = set(model.actuator_group.tolist()), int(model.opt.disableactuator)
    free = (group for group in range(_MOST_GROUP, 0, -1) if group not in used or disabled & (1 << group))
    return next(free, 0)

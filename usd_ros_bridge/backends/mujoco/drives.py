"""Drives become actuators: a position servo, a velocity servo and a motor for each driven degree of freedom.

They are independent: a controller may command a position, a velocity and a feed-forward effort at once, and what they
add up to is bounded by the joint's effort limit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.physics import Dof

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.built import Built
    from usd_ros_bridge.backends.mujoco.compiled import Compiled

KINDS = ("position", "velocity", "motor")
_SOFTEST, _HARDEST = 0.01, 0.95
"""Impedance of limits that are springs which time steps resolve, and above which they are hard limits."""
_RESOLVED = 0.2
"""How much of a spring's period, or of a damper's time, a time step may be, squared."""
_VARIES = 2.0
"""How much the inertia that an acceleration drive is scaled by may change before it is reported."""


def bounds_effort(joint: Any, dof: Dof) -> None:
    """Bounds the sum of all that acts on a joint of a specification (its `actfrcrange`)."""
    if dof.effort_range is not None:
        joint.actfrclimited = 1
        joint.actfrcrange = np.clip(dof.effort_range, -dof.max_effort, dof.max_effort)
    elif math.isfinite(dof.max_effort) and dof.max_effort > 0.0:
        joint.actfrclimited = 1
        joint.actfrcrange = [-dof.max_effort, dof.max_effort]


def add_drive(built: Built, joint: str, dof: Dof, index: int) -> None:
    """Adds the actuators of a degree of freedom: servos where it is driven, a motor where it may be pushed.

    What has actuators of the asset's own is driven by those: it gets no motor.

    Args:
        built: What is being built.
        joint: Name of MuJoCo's joint.
        dof: The degree of freedom.
        index: Its flattened index.
    """
    if dof.mimic is not None or dof.max_effort <= 0.0:
        return
    stiffness, damping = (dof.drive.stiffness, dof.drive.damping) if dof.drive is not None else (0.0, 0.0)
    if stiffness > 0.0:
        position = _add(built, joint, index, "position")
        position.gainprm[0], position.biasprm[1] = stiffness, -stiffness
        position.biasprm[0] = stiffness * dof.reference
    if damping > 0.0:
        velocity = _add(built, joint, index, "velocity")
        velocity.gainprm[0], velocity.biasprm[2] = damping, -damping
    if index not in built.actuated:
        motor = _add(built, joint, index, "motor")
        if dof.drive is not None and dof.drive.constant_effort:
            motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE
            motor.biasprm[0] = dof.drive.constant_effort


def _add(built: Built, joint: str, index: int, kind: str) -> Any:
    name = f"{joint}:{kind}"
    built.actuator_names[kind][index] = name
    affine = kind != "motor"
    return built.spec.add_actuator(
        name=name,
        target=joint,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        biastype=mujoco.mjtBias.mjBIAS_AFFINE if affine else mujoco.mjtBias.mjBIAS_NONE,
    )


def scale_acceleration_drives(built: Built, compiled: Compiled, data: Any) -> None:
    """Turns the gains of acceleration drives into forces: by the joint-space inertia at the start.

    That is the diagonal of the mass matrix: what the drive has to move while the other joints hold still. It changes
    with the pose; where it does so much, it is reported.

    Args:
        built: What the model was built from.
        compiled: The model; its gains are changed.
        data: MjData at the start.
    """
    chosen = [
        index
        for index, dof in enumerate(compiled.dofs)
        if dof.drive is not None and dof.drive.acceleration and compiled.dof_of_dof[index] >= 0
    ]
    if not chosen:
        return
    model = compiled.model
    inertia = joint_inertia(model, data, compiled.dof_of_dof[chosen])
    for index, scale in zip(chosen, inertia.tolist(), strict=True):
        for actuator in (compiled.position_actuator[index], compiled.velocity_actuator[index]):
            if actuator >= 0:
                model.actuator_gainprm[actuator] *= scale
                model.actuator_biasprm[actuator] *= scale
    _report_changes(built, compiled, chosen, inertia)


def soften_limits(compiled: Compiled) -> None:
    """Let limits give way as springs and dampers of the asset's say.

    MuJoCo's constraints push in proportion to the inertia that they move: gains are scaled by the model's own estimate
    of that. The impedance says how much of the push is the spring's, and how much makes the joint heavier: little,
    unless the time step cannot resolve the spring.
    """
    model = compiled.model
    for index, dof in enumerate(compiled.dofs):
        address = int(compiled.dof_of_dof[index])
        if dof.limit_stiffness <= 0.0 or address < 0:
            continue
        joint, step = int(model.dof_jntid[address]), float(model.opt.timestep)
        lightness = float(model.dof_invweight0[address])
        fastest = lightness * step * max(dof.limit_stiffness * step, dof.limit_damping)
        impedance = max(1.0 - _RESOLVED / fastest, _SOFTEST)
        if impedance > _HARDEST:
            # Steps are far too long for it: it would bounce. A hard limit is as stiff as they allow.
            continue
        scale = lightness * (1.0 - impedance)
        stiffness, damping = dof.limit_stiffness * scale, dof.limit_damping * scale
        model.jnt_solimp[joint][:2] = impedance
        model.jnt_solref[joint] = [-stiffness, -damping]


def joint_inertia(model: Any, data: Any, dofs: NDArray[np.intp]) -> NDArray[np.float64]:
    """Returns the diagonal of the mass matrix at addresses `dofs` in `qvel`, for the poses that `data` is at."""
    unit, product = np.zeros(model.nv), np.zeros(model.nv)
    result = np.empty(len(dofs))
    for place, address in enumerate(dofs.tolist()):
        unit[address] = 1.0
        mujoco.mj_mulM(model, data, product, unit)
        result[place] = product[address]
        unit[address] = 0.0
    return result


def _report_changes(
    built: Built, compiled: Compiled, chosen: list[int], inertia: NDArray[np.float64]
) -> None:
    """Looks at a few other poses, always the same ones."""
    model, random = compiled.model, np.random.default_rng(0)
    data = mujoco.MjData(model)
    compiled.initial.apply(model, data)
    least, most = inertia.copy(), inertia.copy()
    present = np.flatnonzero(compiled.qpos_of_dof >= 0)
    zero = compiled.qpos_at_zero(present)
    lower = np.array([max(compiled.dofs[index].lower, -math.pi) for index in present])
    upper = np.array([min(compiled.dofs[index].upper, math.pi) for index in present])
    for _ in range(8):
        data.qpos[compiled.qpos_of_dof[present]] = zero + random.uniform(lower, np.maximum(lower, upper))
        mujoco.mj_forward(model, data)
        now = joint_inertia(model, data, compiled.dof_of_dof[chosen])
        np.minimum(least, now, out=least)
        np.maximum(most, now, out=most)
    for place in np.flatnonzero((most > _VARIES * inertia) | (least * _VARIES < inertia)).tolist():
        name = built.joint_names[chosen[place]]
        built.report(
            f"mujoco.acceleration_drive:{name}",
            f"{name}: its acceleration drive is scaled by the inertia at the start, {inertia[place]:.3g} kg m^2 (or "
            f"kg), which goes from {least[place]:.3g} to {most[place]:.3g} with the pose",
        )

"""Rigid bodies: MuJoCo's kinematic tree of fixed, jointed, free and kinematic bodies, with their mass properties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.joints import add_joints, parent_from_child
from usd_ros_bridge.backends.mujoco.spec_builder import MOST_RATIO, SpecBuilder, set_pose
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Drive, Inertial, nearest_moments
from usd_ros_bridge.spatial.scalar import Vector3
from usd_ros_bridge.spatial.transforms import FloatArray, pose_array, wxyz

SMALLEST_MASS = 1e-12
"""Least mass of a body that moves, kg: MuJoCo refuses models with smaller ones."""
SMALLEST_MOMENT = 1e-14
"""Smallest principal moment of inertia of a body that moves, kg m^2: ten times MuJoCo's own limit."""
POINT_MOMENT = 1e-12
"""kg m^2, of a point mass that moves."""
SMALLEST_ARMATURE = 1e-9
"""kg m^2 or kg: least inertia of joints that carry no mass at all."""
_PER_EFFORT = 1e-9
"""Inertia of such joints per N m or N of their effort limit: MuJoCo fails above 1e10 rad/s^2."""
_NEGLIGIBLE = 1e-3
"""kg or kg m^2: greatest mass and moments of a body without mass; a stiffer drive needs armature, too."""
_THIN = 1e-6
"""Moment of a rod about its axis, as a share of its greatest one."""
_SHARE = 0.2
"""Share of a body that is attached to a loop joint: similar masses keep the weld between them stiff."""
_ROUNDING = 1e-3
"""Relative excess of a moment over the sum of the others that is rounding to single precision."""


def add_bodies(builder: SpecBuilder) -> None:
    """Add all bodies and the joints that carry them."""
    for index, body in enumerate(builder.scene.bodies):
        builder.free_names.append("")
        builder.bodies.append(_add_body(builder, index, body))
    _stabilize_massless(builder)


def set_sleep_policies(builder: SpecBuilder) -> None:
    """Let bodies that start asleep sleep until they are touched, and no other body; after all joints."""
    sleepers = {body.path for body in builder.scene.bodies if body.starts_asleep}
    if not sleepers:
        return
    policies = getattr(mujoco, "mjtSleepPolicy", None)
    awake = set(sleepers)
    if policies is not None:
        builder.spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
        # The tree of the first body that moves sleeps with it.
        found = [(each, False) for each in builder.spec.worldbody.bodies]
        while found:
            body, moves = found.pop()
            if body.joints and not moves:
                moves = True
                body.sleep = policies.mjSLEEP_INIT if body.name in sleepers else policies.mjSLEEP_NEVER
                awake.discard(body.name)
            found += [(each, moves) for each in body.bodies]
    for path in sorted(awake):
        why = (
            "hangs from a body that moves"
            if policies is not None
            else "MuJoCo has bodies that sleep from 3.4 on"
        )
        builder.report(f"mujoco.sleep:{path}", f"{path} starts awake: {why}")


def _add_body(builder: SpecBuilder, index: int, body: Body) -> Any:
    edge = builder.tree_joints(body)
    world_from_body = pose_array(body.world_from_body)
    if body.kinematic:
        made = builder.spec.worldbody.add_body(name=body.path, mocap=True)
        set_pose(made, world_from_body)
        _add_inertial(builder, made, body, moves=False)
        return made
    dofs = sum(len(joint.dofs) for _, joint in edge)
    if (dofs or not edge) and not _is_possible(body.inertial):
        _fix_to_parent(builder, index, body)
    if not edge:
        return _add_free(builder, index, body, world_from_body)
    made = builder.body(body.parent).add_body(name=body.path)
    set_pose(made, parent_from_child(index, edge[-1][1]))
    _add_inertial(builder, made, body, moves=bool(dofs) and index not in builder.fixed_bodies)
    if index not in builder.fixed_bodies:
        add_joints(builder, made, index, edge)
    return made


def _add_free(builder: SpecBuilder, index: int, body: Body, world_from_body: FloatArray) -> Any:
    made = builder.spec.worldbody.add_body(name=body.path)
    set_pose(made, world_from_body)
    _add_inertial(builder, made, body, moves=index not in builder.fixed_bodies)
    if index not in builder.fixed_bodies:
        # A faulty asset may have one prim as a body and a joint. MuJoCo takes a joint's name once.
        is_joint = any(joint.path == body.path for joint in builder.scene.joints)
        builder.free_names[index] = f"{body.path}:free" if is_joint else body.path
        made.add_freejoint(name=builder.free_names[index])
    return made


def split_body(builder: SpecBuilder, index: int, parent: int, *, name: str) -> Any:
    """Split a body: add one to `parent` that gets a share of the mass of body `index`."""
    whole = builder.body(index)
    made = builder.body(parent).add_body(name=name)
    made.explicitinertial = True
    made.gravcomp = whole.gravcomp
    made.mass = max(_SHARE * whole.mass, SMALLEST_MASS)
    made.inertia = np.maximum(_SHARE * np.array(whole.inertia), SMALLEST_MOMENT)
    made.ipos, made.iquat = np.array(whole.ipos), np.array(whole.iquat)
    whole.mass, whole.inertia = (1.0 - _SHARE) * whole.mass, (1.0 - _SHARE) * np.array(whole.inertia)
    return made


def _fix_to_parent(builder: SpecBuilder, index: int, body: Body) -> None:
    builder.fixed_bodies.add(index)
    parent = (
        "the world"
        if body.parent == WORLD_BODY or not body.joints
        else (builder.scene.bodies[body.parent].path)
    )
    builder.report(
        f"mujoco.mass:{body.path}",
        f"{body.path} should move but cannot have its mass ({body.inertial.mass:g} kg): it is held fast to {parent}",
    )


def _is_possible(inertial: Inertial) -> bool:
    return math.isfinite(inertial.mass) and inertial.mass >= 0.0


def _stabilize_massless(builder: SpecBuilder) -> None:
    """Give massless bodies moments, and joints without any mass armature, so that steps are stable.

    A body between joints gets a millionth of the moment below it: otherwise three hinges at one point would be nearly
    singular long before two of them coincide.
    """
    bodies = builder.scene.bodies
    if all(body.inertial.mass >= SMALLEST_MASS or body.kinematic for body in bodies):
        return
    carried = [0.0] * len(bodies)
    for index in reversed(range(len(bodies))):
        body, made = bodies[index], builder.bodies[index]
        if body.inertial.mass >= SMALLEST_MASS or any(body.inertial.diagonal):
            carried[index] = max(carried[index], float(min(made.inertia)), SMALLEST_MOMENT)
        elif made.mass > 0.0:
            if carried[index]:
                made.inertia = np.full(3, max(SMALLEST_MOMENT, _THIN * carried[index]))
            else:
                _stabilize_joint(builder, index)
        if body.parent != WORLD_BODY:
            carried[body.parent] = max(carried[body.parent], carried[index])


def _stabilize_joint(builder: SpecBuilder, index: int) -> None:
    """Give a body without any mass on it the least inertia with which a time step resolves its joint.

    It is mass, as long as that is negligible: MuJoCo's weights of equality constraints leave armature out, and a mimic
    joint would not follow.
    """
    step, made = builder.spec.option.timestep, builder.bodies[index]
    dofs = [dof for _, joint in builder.tree_joints(builder.scene.bodies[index]) for dof in joint.dofs]
    rows = builder.options.stiff_drives
    least, armature = SMALLEST_ARMATURE, 0.0
    for dof in dofs:
        effort = dof.max_effort if math.isfinite(dof.max_effort) else 0.0
        drive = _added_inertia(dof.drive, step)
        least = max(least, effort * _PER_EFFORT, drive / MOST_RATIO if rows else 0.0)
        passive = dof.stiffness * step**2 + dof.damping * step
        armature = max(armature, passive if rows else passive + drive)
    mass = min(least, _NEGLIGIBLE)
    made.mass = max(made.mass, mass)
    made.inertia = np.maximum(made.inertia, mass)
    for joint in made.joints:
        joint.armature = max(joint.armature, armature, least - mass)


def _added_inertia(drive: Drive | None, step: float) -> float:
    """Return the inertia (kg m^2 or kg) that the implicit step of a drive adds to its joint."""
    if drive is None or drive.acceleration:
        return 0.0
    return drive.stiffness * step**2 + drive.damping * step


def _add_inertial(builder: SpecBuilder, made: Any, body: Body, *, moves: bool) -> None:
    """Add mass properties; MuJoCo never derives them from geoms.

    MuJoCo accepts no mass for bodies that are fixed to their parents, and nearly none for those on joints.
    """
    made.explicitinertial = True
    made.gravcomp = 1.0 - body.gravity_scale
    if moves and 0.0 < body.inertial.mass < SMALLEST_MASS:
        builder.report(
            f"mujoco.mass:{body.path}",
            f"{body.path}: MuJoCo takes no mass of {body.inertial.mass:g} kg: it weighs {SMALLEST_MASS:g} kg",
        )
    if not _is_possible(body.inertial) or not (
        body.inertial.mass >= SMALLEST_MASS or any(body.inertial.diagonal)
    ):
        made.ipos = np.zeros(3)
        made.mass = SMALLEST_MASS if moves else 0.0
        made.inertia = np.full(3, SMALLEST_MOMENT if moves else 0.0)
        return
    made.mass = max(body.inertial.mass, SMALLEST_MASS) if moves else body.inertial.mass
    made.ipos = np.array(body.inertial.center)
    made.iquat = wxyz(np.array(body.inertial.principal))
    made.inertia = _moments(builder, body, moves=moves)


def _moments(builder: SpecBuilder, body: Body, *, moves: bool) -> Vector3:
    """Return principal moments that MuJoCo accepts: those that a rigid body can have, above 0 for one that moves."""
    moments = np.array(body.inertial.diagonal, dtype=np.float64)
    nearest = nearest_moments(np.where(np.isfinite(moments), moments, 0.0).tolist())
    largest = max(nearest)
    if not np.allclose(nearest, moments, rtol=0.0, atol=_ROUNDING * largest):
        builder.report(
            f"mujoco.inertia:{body.path}",
            f"{body.path}: no rigid body has the principal moments {_text(moments.tolist())} kg m^2: "
            f"{_text(nearest)} are used",
        )
    if not moves:
        return nearest
    least = POINT_MOMENT if largest < SMALLEST_MOMENT else max(SMALLEST_MOMENT, _THIN * largest)
    possible = [moment if moment >= SMALLEST_MOMENT else least for moment in nearest]
    low, middle, high = sorted(possible)
    # Slightly below the bound: the sum of shares of a body's moments may round differently.
    possible[possible.index(high)] = min(high, max(middle, (low + middle) * (1.0 - 1e-12)))
    x, y, z = possible
    return x, y, z


def _text(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)

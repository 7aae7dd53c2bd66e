"""Rigid bodies become MuJoCo's tree: fixed, jointed, free and kinematic ones, with their mass properties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.built import Built, tree_joints
from usd_ros_bridge.backends.mujoco.joints import add_joints, parent_from_child
from usd_ros_bridge.backends.mujoco.poses import FloatArray, place, pose_of, wxyz
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Dof, Inertial, nearest_moments
from usd_ros_bridge.model.records import Vector3

SMALLEST_MASS = 1e-12
"""Least mass of a body that moves, kg: below its own least number MuJoCo refuses the whole model."""
SMALLEST_MOMENT = 1e-14
"""Least principal moment of inertia of a body that turns, kg m^2: ten times what MuJoCo refuses."""
POINT_MOMENT = 1e-12
"""kg m^2, of a point mass that moves."""
SMALLEST_ARMATURE = 1e-9
"""kg m^2 or kg, of joints that carry no mass at all."""
_PER_EFFORT = 1e-9
"""Armature of such joints for each N m or N that they may have: MuJoCo gives up above 1e10 rad/s^2."""
_THIN = 1e-6
"""Share of a rod's greatest moment that it has about its axis."""
_SHARE = 0.2
"""Share of a body that hangs by the joint that closes a loop: alike masses keep the weld between them stiff."""
_ROUNDING = 1e-3
"""By how much of itself a moment may exceed the sum of the others because it was authored in single precision."""


def add_bodies(built: Built) -> None:
    """Adds all bodies and the joints that carry them."""
    for index, body in enumerate(built.scene.bodies):
        built.free_names.append("")
        built.bodies.append(_add_body(built, index, body))
    _steady_weightless(built)


def lay_to_sleep(built: Built) -> None:
    """Has the bodies that start asleep rest until they are touched, and no other ever sleep; after all joints."""
    sleepers = {body.path for body in built.scene.bodies if body.starts_asleep}
    if not sleepers:
        return
    policies = getattr(mujoco, "mjtSleepPolicy", None)
    awake = set(sleepers)
    if policies is not None:
        built.spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
        # What hangs from the first body that moves sleeps with it.
        found = [(each, False) for each in built.spec.worldbody.bodies]
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
        built.report(f"mujoco.sleep:{path}", f"{path} starts awake: {why}")


def _add_body(built: Built, index: int, body: Body) -> Any:
    edge = tree_joints(built.scene, body)
    world_from_body = pose_of(body.world_from_body)
    if body.kinematic:
        made = built.spec.worldbody.add_body(name=body.path, mocap=True)
        place(made, world_from_body)
        _add_inertial(built, made, body, moves=False)
        return made
    dofs = sum(len(joint.dofs) for _, joint in edge)
    if (dofs or not edge) and not _is_possible(body.inertial):
        _hold(built, index, body)
    if not edge:
        return _add_free(built, index, body, world_from_body)
    made = built.body(body.parent).add_body(name=body.path)
    place(made, parent_from_child(index, edge[-1][1]))
    _add_inertial(built, made, body, moves=bool(dofs) and index not in built.held)
    if index not in built.held:
        add_joints(built, made, index, edge)
    return made


def _add_free(built: Built, index: int, body: Body, world_from_body: FloatArray) -> Any:
    made = built.spec.worldbody.add_body(name=body.path)
    place(made, world_from_body)
    _add_inertial(built, made, body, moves=index not in built.held)
    if index not in built.held:
        # A faulty asset may have one prim as a body and a joint. MuJoCo takes a joint's name once.
        is_joint = any(joint.path == body.path for joint in built.scene.joints)
        built.free_names[index] = f"{body.path}:free" if is_joint else body.path
        made.add_freejoint(name=built.free_names[index])
    return made


def add_split_off(built: Built, index: int, parent: int, *, name: str) -> Any:
    """Adds a body to `parent` that takes a share of body `index`'s mass: the two together weigh what the one did."""
    whole = built.body(index)
    made = built.body(parent).add_body(name=name)
    made.explicitinertial = True
    made.gravcomp = whole.gravcomp
    made.mass = max(_SHARE * whole.mass, SMALLEST_MASS)
    made.inertia = np.maximum(_SHARE * np.array(whole.inertia), SMALLEST_MOMENT)
    made.ipos, made.iquat = np.array(whole.ipos), np.array(whole.iquat)
    whole.mass, whole.inertia = (1.0 - _SHARE) * whole.mass, (1.0 - _SHARE) * np.array(whole.inertia)
    return made


def _hold(built: Built, index: int, body: Body) -> None:
    built.held.add(index)
    parent = (
        "the world"
        if body.parent == WORLD_BODY or not body.joints
        else (built.scene.bodies[body.parent].path)
    )
    built.report(
        f"mujoco.mass:{body.path}",
        f"{body.path} should move but cannot have its mass ({body.inertial.mass:g} kg): it is held fast to {parent}",
    )


def _is_possible(inertial: Inertial) -> bool:
    return math.isfinite(inertial.mass) and inertial.mass >= 0.0


def _steady_weightless(built: Built) -> None:
    """Gives bodies and joints that should move without mass what keeps steps stable.

    A body between joints gets a millionth of the moment that it carries: three hinges in one place would else be next
    to singular long before two of them coincide. A joint that carries no mass at all gets armature.
    """
    bodies = built.scene.bodies
    if all(body.inertial.mass >= SMALLEST_MASS or body.kinematic for body in bodies):
        return
    carried = [0.0] * len(bodies)
    for index in reversed(range(len(bodies))):
        body, made = bodies[index], built.bodies[index]
        if body.inertial.mass >= SMALLEST_MASS or any(body.inertial.diagonal):
            carried[index] = max(carried[index], float(min(made.inertia)), SMALLEST_MOMENT)
        elif made.mass > 0.0:
            if carried[index]:
                made.inertia = np.full(3, max(SMALLEST_MOMENT, _THIN * carried[index]))
            else:
                _add_armature(built, index)
        if body.parent != WORLD_BODY:
            carried[body.parent] = max(carried[body.parent], carried[index])


def _add_armature(built: Built, index: int) -> None:
    step = built.spec.option.timestep
    dofs = [dof for _, joint in tree_joints(built.scene, built.scene.bodies[index]) for dof in joint.dofs]
    least = max((_least_armature(dof, step) for dof in dofs), default=0.0)
    for joint in built.bodies[index].joints:
        joint.armature = max(joint.armature, least)


def _least_armature(dof: Dof, step: float) -> float:
    """Returns the armature (kg m^2 or kg) below which a step is longer than a joint's springs and dampers allow."""
    stiffness, damping = dof.stiffness, dof.damping
    if dof.drive is not None and not dof.drive.acceleration:
        stiffness, damping = stiffness + dof.drive.stiffness, damping + dof.drive.damping
    effort = dof.max_effort if math.isfinite(dof.max_effort) else 0.0
    return max(SMALLEST_ARMATURE, stiffness * step**2 + damping * step, effort * _PER_EFFORT)


def _add_inertial(built: Built, made: Any, body: Body, *, moves: bool) -> None:
    """Adds mass properties; bodies are never given those of their geoms.

    MuJoCo takes no mass where nothing moves a body against its parent, and next to none where a joint does.
    """
    made.explicitinertial = True
    made.gravcomp = 1.0 - body.gravity_scale
    if moves and 0.0 < body.inertial.mass < SMALLEST_MASS:
        built.report(
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
    made.inertia = _moments(built, body, moves=moves)


def _moments(built: Built, body: Body, *, moves: bool) -> Vector3:
    """Returns principal moments that a rigid body can have, as MuJoCo insists; none of a body that moves is 0."""
    moments = np.array(body.inertial.diagonal, dtype=np.float64)
    nearest = nearest_moments(np.where(np.isfinite(moments), moments, 0.0).tolist())
    largest = max(nearest)
    if not np.allclose(nearest, moments, rtol=0.0, atol=_ROUNDING * largest):
        built.report(
            f"mujoco.inertia:{body.path}",
            f"{body.path}: no rigid body has the principal moments {_text(moments.tolist())} kg m^2: "
            f"{_text(nearest)} are used",
        )
    if not moves:
        return nearest
    least = POINT_MOMENT if largest < SMALLEST_MOMENT else max(SMALLEST_MOMENT, _THIN * largest)
    possible = [moment if moment >= SMALLEST_MOMENT else least for moment in nearest]
    low, middle, high = sorted(possible)
    # A hair below the bound: the sum of shares of a body's moments may round differently.
    possible[possible.index(high)] = min(high, max(middle, (low + middle) * (1.0 - 1e-12)))
    x, y, z = possible
    return x, y, z


def _text(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)

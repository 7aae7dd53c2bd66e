"""Effects of PhysX's schemas that MuJoCo has no word for: damping of bodies, and surfaces that move (conveyor belts).

Each depends on the velocities of a state, and is computed after `mj_step1` of every step. Most scenes have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.constraint_velocities import add_contact_velocities, cross
from usd_ros_bridge.model.physics import WORLD_BODY, Body, SurfaceVelocity
from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray


class BodyEffect(Protocol):
    """Something to compute of each state, once its velocities are there."""

    def apply(self, data: Any) -> None:
        """Apply it to the next step; `data` is MjData after `mj_step1`."""


def body_effects(compiled: CompiledModel) -> tuple[BodyEffect, ...]:
    """Return the effects of a scene, none for most."""
    there = [
        (index, body) for index, body in enumerate(compiled.scene.bodies) if compiled.body_ids[index] >= 0
    ]
    damped = {
        int(compiled.body_ids[index]): body
        for index, body in there
        if compiled.mocap_ids[index] < 0 and (body.linear_damping or body.angular_damping)
    }
    moving = [index for index, body in there if body.surface is not None]
    found: list[BodyEffect] = [BodyDamping(compiled, damped | _shares(compiled, damped))] if damped else []
    if moving:
        found.append(MovingSurfaces(compiled, moving))
    return tuple(found)


def _shares(compiled: CompiledModel, damped: Mapping[int, Body]) -> dict[int, Body]:
    """Return the bodies of MuJoCo that have a share of the mass of a damped one, which closes a loop."""
    model, found = compiled.model, {}
    for joint in compiled.scene.joints if damped else ():
        share = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, f"{joint.path}:share")
        if share >= 0:
            ends = (compiled.body_ids[end] for end in (joint.body1, joint.body0) if end != WORLD_BODY)
            whole = next((int(end) for end in ends if model.body_weldid[end]), 0)
            found.update({share: damped[whole]} if whole in damped else {})
    return found


class BodyDamping:
    """Damping of bodies as PhysX has it: a step takes a share `damping * timestep` off their velocities, all at most.

    A force and a torque on each body do that: -mass * damping * velocity of its centre of mass, and -inertia * damping
    * angular velocity. PhysX has the same forces on links of articulations, and scales the velocities of free bodies.
    Damping of MuJoCo's joints would be diagonal, which this is not.
    """

    def __init__(self, compiled: CompiledModel, bodies: Mapping[int, Body]) -> None:
        """Initialize.

        Args:
            compiled: The compiled model, with its time step.
            bodies: Damped bodies of the scene by body of MuJoCo.
        """
        model = compiled.model
        self._ids: IndexArray = np.fromiter(bodies, dtype=np.intp)
        self._roots: IndexArray = np.asarray(model.body_rootid, dtype=np.intp)[self._ids]
        linear, angular = (
            np.minimum([getattr(body, name) for body in bodies.values()], 1.0 / model.opt.timestep)[:, None]
            for name in ("linear_damping", "angular_damping")
        )
        self._linear: FloatArray = -linear * model.body_mass[self._ids, None]
        self._angular: FloatArray = -angular * model.body_inertia[self._ids]
        self._forces = np.empty((len(bodies), 2, 3))

    def apply(self, data: Any) -> None:
        """Set the forces on the bodies."""
        ids, forces = self._ids, self._forces
        turns = data.ximat.take(ids, axis=0).reshape(-1, 3, 3)
        spin, speed = data.cvel.take(ids, axis=0).reshape(-1, 2, 3).transpose(1, 0, 2)
        # MuJoCo has linear velocities of the point where the centre of mass of the whole tree is.
        lever = data.xipos.take(ids, axis=0) - data.subtree_com.take(self._roots, axis=0)
        np.multiply(self._linear, speed + cross(spin, lever), out=forces[:, 0])
        own = self._angular * (spin[:, None, :] @ turns)[:, 0]
        np.matmul(turns, own[:, :, None], out=forces[:, 1, :, None])
        # A force of -0.0 wakes a body that sleeps.
        data.xfrc_applied[ids] = forces.reshape(-1, 6) + 0.0


class MovingSurfaces:
    """Surfaces that move while their bodies stay: friction carries what touches them along."""

    def __init__(self, compiled: CompiledModel, bodies: list[int]) -> None:
        """Initialize.

        Args:
            compiled: The compiled model.
            bodies: Indices in the scene of the bodies with moving surfaces.
        """
        model = compiled.model
        self._model = model
        surfaces = [compiled.scene.bodies[index].surface or SurfaceVelocity() for index in bodies]
        self._ids: IndexArray = np.asarray(compiled.body_ids, dtype=np.intp)[bodies]
        self._own_axes = np.array([surface.own_axes for surface in surfaces])
        self._velocity: FloatArray = np.array([(surface.linear, surface.angular) for surface in surfaces])
        # One more row, of still surfaces.
        self._in_world, self._origins = np.zeros((len(bodies) + 1, 2, 3)), np.zeros((len(bodies) + 1, 3))
        of_body = np.full(model.nbody, len(bodies), dtype=np.intp)
        of_body[self._ids] = np.arange(len(bodies))
        self._of_geom: IndexArray = of_body[model.geom_bodyid]

    def apply(self, data: Any) -> None:
        """Add the velocities of the surfaces to those of the contacts."""
        if not data.ncon:
            return
        contact, still = data.contact, len(self._ids)
        sides = self._of_geom[contact.geom]
        found = np.flatnonzero((sides.min(axis=1) < still) & (contact.efc_address >= 0))
        if not found.size:
            return
        sides = sides[found]
        turns = data.xmat.take(self._ids, axis=0).reshape(-1, 3, 3).transpose(0, 2, 1)
        np.matmul(self._velocity, turns, out=self._in_world[:still])
        self._in_world[:still][~self._own_axes] = self._velocity[~self._own_axes]
        self._origins[:still] = data.xpos.take(self._ids, axis=0)
        at_points = self._in_world[sides]
        at_points[:, :, 0] += cross(at_points[:, :, 1], contact.pos[found, None] - self._origins[sides])
        relative = at_points[:, 1] - at_points[:, 0]
        # A surface moves along itself: the end of a belt pushes nothing away.
        normals = contact.frame[found, :3]
        relative[:, 0] -= (relative[:, 0] * normals).sum(axis=1)[:, None] * normals
        add_contact_velocities(self._model, data, found, relative)

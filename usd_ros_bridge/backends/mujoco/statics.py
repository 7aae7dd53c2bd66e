"""Which bodies move as one, and which not at all."""

from __future__ import annotations

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.model.physics import WORLD_BODY


def rigid_root(built: Built, index: int) -> int:
    """Returns the body that a body is fixed to, directly or through others: itself, or the world.

    A kinematic body is its own. All bodies must have been added.
    """
    while index != WORLD_BODY:
        body = built.scene.bodies[index]
        has_dofs = any(built.scene.joints[joint].dofs for joint in body.joints)
        if body.kinematic or built.free_names[index] or (has_dofs and index not in built.held):
            return index
        index = body.parent
    return WORLD_BODY


def is_static(built: Built, index: int) -> bool:
    """Returns whether nothing in the simulation moves a body: the world, and what is fixed to it or kinematic."""
    root = rigid_root(built, index)
    return root == WORLD_BODY or built.scene.bodies[root].kinematic

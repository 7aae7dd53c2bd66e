"""Which bodies nothing moves."""

from __future__ import annotations

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.model.physics import WORLD_BODY


def is_static(built: Built, index: int) -> bool:
    """Returns whether nothing in the simulation moves a body: the world, and what is fixed to it or kinematic.

    All bodies must have been added.
    """
    while index != WORLD_BODY:
        body = built.scene.bodies[index]
        if body.kinematic:
            return True
        if built.free_names[index]:
            return False
        if index not in built.held and any(built.scene.joints[joint].dofs for joint in body.joints):
            return False
        index = body.parent
    return True

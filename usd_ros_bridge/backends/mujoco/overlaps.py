"""Overlaps of bodies at the start: what MuJoCo finds in contact with itself before anything moves."""

from __future__ import annotations

import mujoco

from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.model.physics import PhysicsScene

DEPTH = 5e-4
"""m: overlaps from which on bodies push each other away. Parts that touch, as closed fingers do, stay."""


def overlaps_at_start(scene: PhysicsScene) -> dict[tuple[str, str], float]:
    """Return the pairs of bodies of one robot that overlap at the start, by their paths, and how deep (m).

    Meshes count as their convex hulls, as in the simulation.

    Args:
        scene: The scene, with what filters its collisions.

    Raises:
        BackendError: MuJoCo refuses the scene.
    """
    compiled = compile_model(build_spec(scene, lambda *_: None))
    data = mujoco.MjData(compiled.model)
    compiled.start(data)
    mujoco.mj_forward(compiled.model, data)
    bodies = {int(number): body for number, body in zip(compiled.body_ids, scene.bodies, strict=True)}
    found: dict[tuple[str, str], float] = {}
    for contact in data.contact:
        one, other = (bodies.get(int(compiled.model.geom_bodyid[geom])) for geom in contact.geom)
        if one is None or other is None or one.robot < 0 or one.robot != other.robot:
            continue
        first, second = sorted((one.path, other.path))
        depth = -float(contact.dist)
        if depth >= DEPTH:
            found[first, second] = max(depth, found.get((first, second), 0.0))
    return found

"""Bodies by path: where they are, how large they are, and putting them elsewhere."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.compiled import FloatArray
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.backends.protocol import EntityState
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.transforms import to_matrix

_CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


class Entities:
    """The bodies of a simulation.

    Attributes:
        paths: Prim paths, in the order of the scene.
    """

    def __init__(self, simulation: Simulation) -> None:
        """Takes an open simulation."""
        self._simulation = simulation
        self.paths: tuple[str, ...] = tuple(body.path for body in simulation.compiled.scene.bodies)
        self._index = {path: index for index, path in enumerate(self.paths)}

    def state(self, path: str) -> EntityState:
        """Returns how a body moves now, contacts and gravity included."""
        index, simulation = self._index[path], self._simulation
        return EntityState(
            pose=simulation.world_from_body(index),
            twist=simulation.body_twist(index),
            acceleration=simulation.body_acceleration(index),
        )

    def place(self, path: str, pose: FloatArray | None, twist: FloatArray | None) -> str:
        """Puts a body elsewhere; returns "", or why that is not possible."""
        index = self._index[path]
        for what, numbers, size in (("pose", pose, 7), ("twist", twist, 6)):
            if numbers is not None and not (numbers.shape == (size,) and np.isfinite(numbers).all()):
                return f"the {what} is not {size} finite numbers"
        if pose is not None and not np.linalg.norm(pose[3:]) > 1e-6:
            return "the quaternion is zero"
        if self._simulation.place(index, pose, twist):
            return ""
        return self._why_not(index)

    def bounds(self, path: str) -> tuple[FloatArray, FloatArray] | None:
        """Returns the corners of the box, aligned with the body's axes, about all that collides and hangs from it."""
        compiled, model = self._simulation.compiled, self._simulation.model
        body = int(compiled.body_ids[self._index[path]])
        below = {body}
        # Parents come before their children.
        for child in range(body + 1, model.nbody):
            if int(model.body_parentid[child]) in below:
                below.add(child)
        points = [
            self._corners(int(geom))
            for ids in compiled.geom_ids
            for geom in ids
            if int(model.geom_bodyid[geom]) in below and model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE
        ]
        if not points:
            return None
        body_from_world = np.linalg.inv(to_matrix(self._simulation.world_from_body(self._index[path])))
        seen = np.concatenate(points) @ body_from_world[:3, :3].T + body_from_world[:3, 3]
        return seen.min(axis=0), seen.max(axis=0)

    def _corners(self, geom: int) -> FloatArray:
        """Returns points (N, 3) in the world that a geom's hull, or the box about it, is made of."""
        model, data = self._simulation.model, self._simulation.data
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = int(model.geom_dataid[geom])
            start = int(model.mesh_vertadr[mesh])
            local: Any = model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])]
        else:
            box = model.geom_aabb[geom]
            local = box[:3] + _CORNERS * box[3:]
        rotation = data.geom_xmat[geom].reshape(3, 3)
        found: FloatArray = np.asarray(local, dtype=np.float64) @ rotation.T + data.geom_xpos[geom]
        return found

    def _why_not(self, index: int) -> str:
        scene = self._simulation.compiled.scene
        body = scene.bodies[index]
        if body.joints:
            return f"{quoted(body.path)} hangs from the joint {quoted(scene.joints[body.joints[0]].path)}"
        return f"{quoted(body.path)} cannot move"

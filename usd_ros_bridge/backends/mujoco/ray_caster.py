"""What sensor models of plug-ins read of the simulation: what rays hit, and contacts, by prim path."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.base import BodyContacts, RayHits
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.instruments import ContactReader
from usd_ros_bridge.backends.mujoco.rays import RAY_NORMALS, RayScene
from usd_ros_bridge.backends.mujoco.sensors import PoseSnapshot
from usd_ros_bridge.model.physics import WORLD_BODY
from usd_ros_bridge.spatial.transforms import FloatArray

_NO_BODY = -1


class WorldRayCaster:
    """Cast rays from anywhere, on copies of the state. One thread at a time; the first cast makes its own MjData.

    Attributes:
        surfaces: Prim paths of the scene's colliders.
        bodies: Prim path of the body of each, "" for one of the world.
    """

    def __init__(self, compiled: CompiledModel) -> None:
        scene = compiled.scene
        self.surfaces = tuple(collider.path for collider in scene.colliders)
        self.bodies = tuple(
            "" if collider.body == WORLD_BODY else scene.bodies[collider.body].path
            for collider in scene.colliders
        )
        self._compiled = compiled
        self._scene = RayScene(compiled)
        self._data: Any = None
        self._applied: PoseSnapshot | None = None
        self._body_index = {body.path: index for index, body in enumerate(scene.bodies)}
        self._surface_of_geom = surface_of_geom(compiled)

    def cast(
        self,
        poses: PoseSnapshot,
        origins: FloatArray,
        directions: FloatArray,
        *,
        reach: float,
        body: str = "",
        robot: bool = False,
    ) -> RayHits:
        """Cast rays; one call of `mj_multiRay` for each origin."""
        if self._data is None:
            self._data = mujoco.MjData(self._compiled.model)
        if poses is not self._applied:
            poses.apply(self._compiled.model, self._data)
            self._applied = poses
        count = len(directions)
        directions = np.ascontiguousarray(directions, dtype=np.float64)
        distance, geoms = np.empty(count), np.empty(count, dtype=np.int32)
        normal = np.full((count, 3), np.nan)
        points, which = np.unique(
            np.broadcast_to(origins, (count, 3)) if origins.ndim == 2 else origins[None],
            axis=0,
            return_inverse=True,
        )
        for number, point in enumerate(points):
            rows: Any = slice(None) if len(points) == 1 else np.flatnonzero(which.reshape(-1) == number)
            self._cast_from(
                point, directions, rows, distance, geoms, normal, reach=reach, body=body, robot=robot
            )
        hit = (distance >= 0.0) & (distance <= reach)
        distance[~hit], normal[~hit] = np.inf, np.nan
        return RayHits(
            distance=distance, surface=np.where(hit, self._surface_of_geom[geoms], -1), normal=normal
        )

    def _cast_from(
        self,
        point: FloatArray,
        directions: FloatArray,
        rows: Any,
        distance: FloatArray,
        geoms: NDArray[np.int32],
        normal: FloatArray,
        *,
        reach: float,
        body: str,
        robot: bool,
    ) -> None:
        """Cast the rays of some rows, which have one origin, and write what they hit to these rows."""
        index = self._body_index.get(body, WORLD_BODY)
        own = directions[rows]
        far, hit = np.empty(len(own)), np.empty(len(own), dtype=np.int32)
        normals = np.full((len(own), 3), np.nan) if RAY_NORMALS else None
        self._scene.cast(
            self._data,
            np.ascontiguousarray(point),
            own,
            distances=far,
            geoms=hit,
            robot=self._compiled.scene.bodies[index].robot if robot and index != WORLD_BODY else -1,
            body=_NO_BODY if index == WORLD_BODY else int(self._compiled.body_ids[index]),
            reach=reach,
            normals=normals,
        )
        distance[rows], geoms[rows] = far, hit
        if normals is not None:
            normal[rows] = normals


def surface_of_geom(compiled: CompiledModel) -> NDArray[np.intp]:
    """Return (ngeom + 1,) the collider of each geom, -1 for none; the last row stands for no geom (-1)."""
    surfaces = np.full(compiled.model.ngeom + 1, -1, dtype=np.intp)
    for number, ids in enumerate(compiled.geom_ids):
        surfaces[np.asarray(ids)[np.asarray(ids) >= 0]] = number
    return surfaces


def seen_surfaces(compiled: CompiledModel) -> NDArray[np.int32]:
    """Return (ngeom + 1,) the collider of each geom, or the visual, counted after all colliders; -1 for none."""
    surfaces = surface_of_geom(compiled)
    for number, ids in enumerate(compiled.visual_geoms, len(compiled.scene.colliders)):
        surfaces[np.asarray(ids)[np.asarray(ids) >= 0]] = number
    return surfaces.astype(np.int32)


def body_contacts(compiled: CompiledModel, body: int, data: Any) -> BodyContacts:
    """Return the contacts of a body of the scene; the constraint forces of `data` are current."""
    reader = ContactReader(compiled, body)
    point, force, _, normal_force = reader.forces(data)
    surfaces, colliders = surface_of_geom(compiled), compiled.scene.colliders
    return BodyContacts(
        point=point,
        force=force,
        normal_force=normal_force,
        surfaces=tuple(
            colliders[surfaces[geom]].path if surfaces[geom] >= 0 else "" for geom in reader.others(data)
        ),
    )

"""World of the page: ground, scenery and free bodies."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from usd_ros_bridge.export.surface import SurfaceMaker
from usd_ros_bridge.model.appearance import srgb
from usd_ros_bridge.model.message_types import GET_ENTITIES_STATES
from usd_ros_bridge.model.physics import WORLD_BODY, Collider, Plane, Visual
from usd_ros_bridge.planning.names import join
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, pose_array
from usd_ros_bridge.view.mesh_batches import Instance, MeshBatches
from usd_ros_bridge.view.page_component import PageContext, Picked
from usd_ros_bridge.view.scene import BodyPlaces, visible_shapes

ENTITY_PERIOD_S: Final = 0.1
"""Least time between two requests for the poses of free bodies, seconds."""
ENTITY_TIMEOUT_S: Final = 2.0
"""Time after which a request that got no answer is made again, seconds."""
MAX_NAMES: Final = 200
"""Free bodies that are asked for by name; where there are more, all entities are asked for."""
_GRID_SIZE: Final = 40.0


class WorldMeshes:
    """Show what belongs to no robot: layers `world` and `ground`.

    Free bodies have no frames. They are shown where the bridge's simulation says (`get_entities_states`), and where it
    offers no such service, at rest.
    """

    def __init__(self) -> None:
        self._context: PageContext | None = None
        self._batches: MeshBatches | None = None
        self._ground: list[Any] = []
        self._bodies: dict[str, int] = {}
        self._sources: FloatArray = np.zeros((0, 7))
        self._states: EntityStates | None = None

    def open(self, context: PageContext) -> None:
        """Add ground, scenery and free bodies, where the plan has them at rest."""
        self._context = context
        instances = tuple(self._instances(context))
        batches = self._batches = MeshBatches(
            context.server, "/meshes/world", instances, pick=context.picks.notify
        )
        batches.open(self._sources)
        self._add_ground(context)
        if self._bodies:
            self._states = EntityStates(context, tuple(self._bodies))
        context.layers.add("world", "world", batches.show)
        context.layers.add("ground", "ground", self._show_ground)

    def resume(self) -> None:
        """Create the client of the service."""
        if self._states is not None:
            self._states.resume()

    def update(self) -> None:
        """Move free bodies that have moved."""
        if self._states is None or self._batches is None:
            return
        poses = self._states.take()
        if poses:
            for path, pose in poses.items():
                self._sources[self._bodies[path]] = pose
            self._batches.update(self._sources)

    def pause(self) -> None:
        """Destroy the client."""
        if self._states is not None:
            self._states.pause()

    def close(self) -> None:
        """Remove everything. Idempotent."""
        if self._batches is not None:
            self._batches.close()
        for handle in self._ground:
            handle.remove()
        self._ground.clear()
        self._context = self._batches = None

    def _instances(self, context: PageContext) -> Iterator[Instance]:
        """Yield the visible shapes that no frame follows. Fill the sources: the world, then free bodies."""
        scene = context.plan.physics
        if scene is None:
            return
        surfaces, places = SurfaceMaker(context.report), BodyPlaces(context.plan)
        sources = [IDENTITY]
        for each in visible_shapes(scene):
            if each.color is None or places.find(each.body) is not None:
                continue
            source = 0
            if each.body != WORLD_BODY:
                body = scene.bodies[each.body]
                if body.path not in self._bodies:
                    self._bodies[body.path] = len(sources)
                    sources.append(pose_array(body.world_from_body))
                source = self._bodies[body.path]
            picked = Picked(robot=-1, frame="", path=each.path)
            for surface in surfaces.surfaces(each.shape, each.color, path=each.path):
                yield Instance(surface, source, pose_array(each.body_from_shape), picked)
        self._sources = np.array(sources)

    # --- Ground ---

    def _add_ground(self, context: PageContext) -> None:
        """Add planes without end; a grid where there is nothing that robots could stand on."""
        scene = context.plan.physics
        shapes: list[Visual | Collider] = [] if scene is None else [*scene.colliders, *scene.visuals]
        fixed = [each for each in shapes if each.body == WORLD_BODY]
        for number, each in enumerate(fixed):
            # A plane that only collides is ground, too.
            if isinstance(each.shape, Plane) and not all(each.shape.half):
                red, green, blue, opacity = srgb(each.color or (0.3, 0.3, 0.3, 0.5))
                color = (round(255 * red), round(255 * green), round(255 * blue))
                self._add_grid(
                    context, f"/world/ground/{number}", pose_array(each.body_from_shape), color, opacity
                )
        if not fixed:
            self._add_grid(context, "/world/ground/grid", IDENTITY, (255, 255, 255), 0.0)

    def _add_grid(
        self, context: PageContext, name: str, pose: FloatArray, color: tuple[int, int, int], opacity: float
    ) -> None:
        x, y, z, w = pose[3:].tolist()
        self._ground.append(
            context.server.scene.add_grid(
                name,
                width=_GRID_SIZE,
                height=_GRID_SIZE,
                infinite_grid=True,
                fade_distance=_GRID_SIZE,
                cell_color=(205, 205, 205),
                section_color=(175, 175, 175),
                plane_color=color,
                plane_opacity=opacity,
                position=tuple(pose[:3].tolist()),
                wxyz=(w, x, y, z),
            )
        )

    def _show_ground(self, visible: bool) -> None:
        for handle in self._ground:
            handle.visible = visible


class EntityStates:
    """Poses of free bodies, from the simulation that the bridge offers as a service."""

    def __init__(self, context: PageContext, paths: tuple[str, ...]) -> None:
        """Store the arguments.

        Args:
            context: The page.
            paths: Prim paths of the bodies.
        """
        self._context = context
        self._paths = paths
        self._client: Any = None
        self._answer: Any = None
        self._asked_s = 0.0

    def resume(self) -> None:
        """Create the client. Without the interfaces there is none, and the bodies stay at rest."""
        from usd_ros_bridge.ros.interface_types import InterfaceTypeError

        if self._client is None:
            namespace = self._context.bridge.rpartition("/")[0] or "/"
            try:
                self._client = self._context.graph.client(
                    join(namespace, "get_entities_states"), GET_ENTITIES_STATES
                )
            except InterfaceTypeError:
                self._client = None

    def pause(self) -> None:
        """Destroy the client. Idempotent."""
        client, self._client, self._answer = self._client, None, None
        if client is not None:
            self._context.graph.destroy(client)

    def take(self) -> Mapping[str, FloatArray]:
        """Return the poses of an answer that has come, by prim path, and ask again."""
        if self._client is None:
            return {}
        now = time.monotonic()
        answer = self._answer
        poses: Mapping[str, FloatArray] = {}
        if answer is not None and answer.done():
            self._answer = None
            if answer.exception() is None:
                poses = self._poses(answer.result())
        if answer is not None and now - self._asked_s > ENTITY_TIMEOUT_S:
            self._client.remove_pending_request(answer)
            self._answer = None
        if (
            self._answer is None
            and now - self._asked_s >= ENTITY_PERIOD_S
            and self._client.service_is_ready()
        ):
            self._asked_s = now
            self._answer = self._client.call_async(self._request())
        return poses

    def _request(self) -> Any:
        request = self._context.graph.type_of(GET_ENTITIES_STATES).Request()
        if len(self._paths) <= MAX_NAMES:
            names = "|".join(re.escape(path.rpartition("/")[2]) for path in self._paths)
            request.filters.filter = f"(^|/)({names})$"
        return request

    def _poses(self, response: Any) -> dict[str, FloatArray]:
        """Return poses by prim path. An entity has the name of its prim, with prims above where it is not unique."""
        poses = {}
        for name, state in zip(response.entities, response.states, strict=True):
            paths = [path for path in self._paths if path.endswith(f"/{name}")]
            if len(paths) == 1:
                p, q = state.pose.position, state.pose.orientation
                poses[paths[0]] = np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
        return poses

"""Services about entities: lists, states and information. All of them run in the tick thread."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

import numpy as np
from simulation_interfaces.msg import EntityState as EntityStateMessage
from simulation_interfaces.msg import TagsFilter

from usd_ros_bridge.backends.base import EntityBackend
from usd_ros_bridge.errors import quoted
from usd_ros_bridge.ros.simulation.entities import (
    Entity,
    EntityTable,
    OrientedBox,
    category_name,
    fill_box,
    fill_info,
    fill_state,
    make_table,
    overlap_filter,
    requested_pose,
    requested_twist,
    tags_pass,
    unknown_entity,
    unknown_frame,
    world_from_frame,
)
from usd_ros_bridge.ros.simulation.name_patterns import NamePattern
from usd_ros_bridge.ros.simulation.results import FAILED, RefusedError
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.transforms import FloatArray

MAX_DESCRIPTION = 4096
"""Characters of a description that SetEntityInfo sets."""
MAX_TAGS = 64
"""Tags of an entity that SetEntityInfo sets, of MAX_TAG characters each."""
MAX_TAG = 256


class EntityServices:
    """Answer requests about entities. Each method is one service; it raises RefusedError for what is not possible."""

    def __init__(self, runtime: Runtime, backend: EntityBackend) -> None:
        """Store the arguments.

        Args:
            runtime: Open.
            backend: The runtime's.
        """
        self._runtime = runtime
        self._backend = backend
        self._table: EntityTable | None = None
        self._edited: dict[str, Entity] = {}
        self.spawned: dict[str, str] = {}
        """Names of the entities that were spawned, by the paths of their prims."""

    def set_backend(self, backend: EntityBackend) -> None:
        """Use another backend of the same runtime, with other entities."""
        self._backend, self._table = backend, None

    def forget(self) -> None:
        """Drop what SetEntityInfo set."""
        self._edited.clear()

    # --- Looking -----------------------------------------------------------------------------------------------

    def get_entities(self, request: Any, response: Any, named: Set[str] | None) -> None:
        """List the names of entities. `named` holds the names that pass the name filter, None for all."""
        response.entities = [entity.name for entity in self._filtered(request.filters, named)]

    def get_entities_states(self, request: Any, response: Any, named: Set[str] | None) -> None:
        """List entities and their states. `named` holds the names that pass the name filter, None for all."""
        names, states = [], []
        for entity in self._filtered(request.filters, named):
            message = EntityStateMessage()
            self._fill_state(entity, message)
            names.append(entity.name)
            states.append(message)
        response.entities, response.states = names, states

    def get_entity_state(self, request: Any, response: Any) -> None:
        """Answer with an entity's pose and motion in the world frame."""
        self._fill_state(self._find(request.entity), response.state)

    def get_entity_info(self, request: Any, response: Any) -> None:
        """Answer with an entity's information."""
        entity = self._known(self._find(request.entity))
        fill_info(response.info, entity.category, entity.description, entity.tags)

    def get_entity_bounds(self, request: Any, response: Any) -> None:
        """Answer with the box, in the axes of its body, of an entity's colliders and of those below it."""
        fill_box(response.bounds, self._backend.entity_bounds(self._find(request.entity).path))

    # --- Changing ----------------------------------------------------------------------------------------------

    def set_entity_info(self, request: Any, _response: Any) -> None:
        """Replace what is known of an entity, until everything is reset."""
        entity, info = self._find(request.entity), request.info
        category = category_name(info.category.category)
        if len(info.description) > MAX_DESCRIPTION:
            raise RefusedError(FAILED, f"a description has at most {MAX_DESCRIPTION} characters")
        if len(info.tags) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in info.tags):
            raise RefusedError(FAILED, f"an entity has at most {MAX_TAGS} tags of {MAX_TAG} characters")
        self._edited[entity.name] = replace(
            entity, category=category, description=info.description, tags=tuple(info.tags)
        )

    def set_entity_state(self, request: Any, _response: Any) -> None:
        """Set an entity's pose and motion; accelerations follow from forces alone."""
        entity, state = self._find(request.entity), request.state
        # The flags exist since 2.1; all of it is meant before.
        wants_pose, wants_twist = getattr(request, "set_pose", True), getattr(request, "set_twist", True)
        wants_acceleration = getattr(request, "set_acceleration", True)
        frame = self.frame(state.header.frame_id)
        pose = requested_pose(state.pose, frame) if wants_pose else None
        twist = requested_twist(state.twist, frame) if wants_twist else None
        acceleration = requested_twist(state.acceleration, frame) if wants_acceleration else np.zeros(6)
        if entity.kinematic:
            if (twist is not None and twist.any()) or acceleration.any():
                raise RefusedError(FAILED, f"{entity.name} is kinematic: it moves only where it is put")
            twist = None
        if pose is None and twist is None:
            return
        reason = self._backend.set_entity_state(entity.path, pose=pose, twist=twist)
        if reason:
            raise RefusedError(FAILED, f"{entity.name}: {reason}")

    # --- Own ---------------------------------------------------------------------------------------------------

    @property
    def table(self) -> EntityTable:
        """The entities, by name."""
        if self._table is None:
            self._table = table = make_table(self._runtime.plan, self._backend.entities(), self.spawned)
            # What was said of an entity goes with it: another one may have its name.
            self._edited = {
                name: each
                for name, each in self._edited.items()
                if (found := table.get(name)) is not None and found.path == each.path
            }
        return self._table

    def frame(self, frame_id: str) -> FloatArray:
        """Return where a frame, or an entity of that name, is now: `world_from_frame` (7,).

        Raises:
            RefusedError: Nobody knows.
        """
        frame = world_from_frame(self._runtime, self._backend, frame_id)
        if frame is None:
            entity = self.table.get(frame_id)
            if entity is None:
                raise unknown_frame(frame_id, self.table)
            frame = self._backend.entity_state(entity.path).pose
        return frame

    def _find(self, name: str) -> Entity:
        entity = self.table.get(name)
        if entity is None:
            raise unknown_entity(name, self.table)
        return entity

    def _known(self, entity: Entity) -> Entity:
        edited = self._edited.get(entity.name)
        if edited is None:
            return entity
        return replace(entity, category=edited.category, description=edited.description, tags=edited.tags)

    def _fill_state(self, entity: Entity, message: Any) -> None:
        fill_state(message, self._backend.entity_state(entity.path), self._runtime.now_ns)

    def _filtered(self, filters: Any, named: Set[str] | None) -> list[Entity]:
        categories = {category_name(each.category) for each in filters.categories}
        tags = frozenset(filters.tags.tags)
        every = filters.tags.filter_mode == TagsFilter.FILTER_MODE_ALL
        overlaps = overlap_filter(filters.bounds)
        found = []
        for entity in self.table.entities:
            known = self._known(entity)
            if (
                (named is None or known.name in named)
                and (not categories or known.category in categories)
                and tags_pass(known.tags, tags, every=every)
                and (overlaps is None or overlaps(self._box(known)))
            ):
                found.append(known)
        return found

    def _box(self, entity: Entity) -> OrientedBox:
        """Return where an entity is: its bounds, or the point at its origin where nothing of it collides."""
        corners = self._backend.entity_bounds(entity.path)
        low, high = (np.zeros(3), np.zeros(3)) if corners is None else corners
        return OrientedBox(pose=self._backend.entity_state(entity.path).pose, low=low, high=high)


def matching_names(pattern: str, table: EntityTable) -> frozenset[str]:
    """Return the names of entities that match a POSIX extended regular expression. Run it outside the tick.

    Raises:
        RefusedError: The expression is not valid, or matching it takes too long.
    """
    try:
        expression = NamePattern(pattern)
        return frozenset(entity.name for entity in table.entities if expression.matches(entity.name))
    except ValueError as error:
        raise RefusedError(FAILED, f"the filter {quoted(pattern)} is not possible: {error}") from error

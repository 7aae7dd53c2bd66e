"""Services that spawn and delete entities, as edits of the stage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from simulation_interfaces.msg import Spawnable
from simulation_interfaces.srv import SpawnEntity

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.names import namespace_fault
from usd_ros_bridge.ros.simulation.entities import requested_pose, unknown_entity
from usd_ros_bridge.ros.simulation.entity_services import EntityServices
from usd_ros_bridge.ros.simulation.results import FAILED, NOT_FOUND, UNSUPPORTED, RefusedError
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.transforms import FloatArray

FORMATS = (".usd", ".usda", ".usdc", ".usdz")
MAX_LISTED = 1000
"""Files that GetSpawnables lists, at most."""


def find_file(uri: str, roots: tuple[Path, ...]) -> Path | None:
    """Return the file that a URI or a path names, links resolved; None where it is not there, or below no root.

    Args:
        uri: `file:///...`, a path, or a path relative to a root.
        roots: Directories, links resolved.
    """
    try:
        parts = urlsplit(uri)
        if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
            return None
        path = Path(unquote(parts.path) if parts.scheme else uri)
        # An absolute path stays what it is behind a root.
        files = [(root, (root / path).resolve()) for root in roots]
        return next((file for root, file in files if file.is_relative_to(root) and file.is_file()), None)
    except (OSError, ValueError, RuntimeError):
        # Names that no file can have, and links that lead to themselves.
        return None


def list_files(roots: tuple[Path, ...]) -> list[Path]:
    """Return the USD files in and below the roots, sorted, as many as are listed."""
    found = {file for root in roots for file in root.rglob("*") if file.suffix in FORMATS and file.is_file()}
    return sorted(found)[:MAX_LISTED]


_CODES = SpawnEntity.Response
_MAX_NAME = 256
_MAX_FAULTS = 5
"""Errors of a spawned asset that its answer names."""


class _SpawnRequest(NamedTuple):
    """Request to spawn: a file, a name, and the pose `world_from_prim` (7,)."""

    file: Path
    name: str
    pose: FloatArray


class SpawnServices:
    """Answer requests to spawn and delete; raise RefusedError for what is not possible."""

    def __init__(
        self,
        runtime: Runtime,
        entities: EntityServices,
        *,
        roots: tuple[Path, ...],
        request_change: Callable[..., Future[ChangeReport]],
    ) -> None:
        """Store the arguments.

        Args:
            runtime: Open; its plan has a stage whose session layer may be edited.
            entities: Entities that exist.
            roots: Directories of the files that may be spawned, links resolved.
            request_change: Edit the stage and change the bridge to its plan, as `ChangeCoordinator.request`.
        """
        from usd_ros_bridge.usd.session import StageSession

        self._runtime = runtime
        self._spawner = StageSession(runtime.plan.stage).spawner()
        self._roots = roots
        self._request_change = request_change
        self._entities = entities

    async def spawn_entity(self, request: Any, response: Any) -> None:
        """Put an asset into the world, under a name of its own."""
        wanted: list[_SpawnRequest] = []
        # Poses of frames are those of one moment.
        await asyncio.wrap_future(
            self._runtime.tick_queue.submit(lambda: wanted.append(self._wanted(request)))
        )
        await self._spawn(wanted[0], request.entity_namespace, response)

    async def delete_entity(self, request: Any, _response: Any) -> None:
        """Delete a spawned entity."""
        found: list[str] = []
        await asyncio.wrap_future(
            self._runtime.tick_queue.submit(lambda: found.append(self._find(request.entity)))
        )
        await self._remove(found)

    async def get_spawnables(self, request: Any, response: Any) -> None:
        """List the files that may be spawned."""
        if request.sources:
            response.result.error_message = f"unknown sources: {quoted(', '.join(request.sources[:10]))}"
        for file in await asyncio.to_thread(list_files, self._roots):
            spawnable = Spawnable()
            # A resource since 2.0, its URI before.
            target = spawnable.entity_resource if hasattr(spawnable, "entity_resource") else spawnable
            target.uri, spawnable.description = str(file), file.stem
            response.spawnables.append(spawnable)

    async def clear(self) -> None:
        """Delete all spawned entities."""
        if self._entities.spawned:
            await self._remove(list(self._entities.spawned))

    # --- Own ---------------------------------------------------------------------------------------------------

    def _wanted(self, request: Any) -> _SpawnRequest:
        """Return what is asked for, once it is known to be possible; between two ticks."""
        file = self._file(request)
        name = self._name(request, file)
        namespace = request.entity_namespace
        fault = namespace_fault(namespace) if namespace else ""
        if fault:
            raise RefusedError(_CODES.NAMESPACE_INVALID, f"the namespace {quoted(namespace)} {fault}")
        frame = self._entities.frame(request.initial_pose.header.frame_id)
        pose = requested_pose(request.initial_pose.pose, frame, invalid=_CODES.INVALID_POSE)
        return _SpawnRequest(file, name, pose)

    async def _spawn(self, wanted: _SpawnRequest, namespace: str, response: Any) -> None:
        from usd_ros_bridge.usd.session import MissingAssetsError, UnreadableError

        path = f"/{wanted.name}"
        if path in self._entities.spawned:
            raise RefusedError(_CODES.NAME_NOT_UNIQUE, f"{quoted(wanted.name)} is being spawned already")
        # Before the bridge goes on with it: whoever asks for entities then finds it.
        self._entities.spawned[path] = wanted.name
        try:
            await self._edit(
                f"{wanted.name} was spawned",
                lambda _stage: self._spawner.spawn(
                    wanted.name, wanted.file, namespace=namespace, world_from_prim=wanted.pose
                ),
                lambda options: replace(options, spawned=(*options.spawned, path)),
            )
        except BaseException as error:
            del self._entities.spawned[path]
            if isinstance(error, UnreadableError):
                raise RefusedError(_CODES.RESOURCE_PARSE_ERROR, str(error)) from error
            if isinstance(error, MissingAssetsError):
                raise RefusedError(_CODES.MISSING_ASSETS, str(error)) from error
            raise
        response.entity_name = wanted.name
        faults = [
            each
            for each in self._runtime.plan.diagnostics
            if each.severity == "error" and _is_below(each.path, path)
        ]
        response.result.error_message = "; ".join(
            f"{each.path}: {each.message}" for each in faults[:_MAX_FAULTS]
        )

    async def _remove(self, paths: list[str]) -> None:
        def edit(_stage: Any) -> None:
            for path in paths:
                self._spawner.remove(path)

        names = [self._entities.spawned[path] for path in paths if path in self._entities.spawned]
        gone = frozenset(paths)
        await self._edit(
            f"{', '.join(names)} was deleted",
            edit,
            lambda options: replace(
                options, spawned=tuple(each for each in options.spawned if each not in gone)
            ),
        )
        for path in paths:
            self._entities.spawned.pop(path, None)

    async def _edit(
        self, why: str, edit: Callable[[Any], object], options: Callable[[PlanOptions], PlanOptions]
    ) -> None:
        asked = self._request_change(why=why, edit=edit, options=options)
        # Shielded: a request that times out leaves no half of a change behind.
        await asyncio.shield(asyncio.wrap_future(asked))

    def _file(self, request: Any) -> Path:
        resource = getattr(request, "entity_resource", request)
        if not resource.uri:
            if resource.resource_string:
                raise RefusedError(
                    UNSUPPORTED, "an asset comes from a file (uri), not from a resource_string"
                )
            raise RefusedError(_CODES.NO_RESOURCE, "uri is empty: which file?")
        if not resource.uri.lower().endswith(FORMATS):
            raise RefusedError(
                _CODES.UNSUPPORTED_FORMAT, f"{quoted(resource.uri)} is no {', '.join(FORMATS)} file"
            )
        file = find_file(resource.uri, self._roots)
        if file is None:
            raise RefusedError(NOT_FOUND, f"{quoted(resource.uri)} is no file in a directory to spawn from")
        return file

    def _name(self, request: Any, file: Path) -> str:
        """Return the name that the entity gets, which is that of its prim, too."""
        wanted = request.name or (file.stem if request.allow_renaming else "")
        if len(wanted) <= _MAX_NAME and self._is_free(wanted):
            return str(wanted)
        taken = self._entities.table.get(wanted) is not None
        if not request.allow_renaming:
            if taken:
                raise RefusedError(_CODES.NAME_NOT_UNIQUE, f"there is an entity {quoted(wanted)} already")
            reason = (
                "letters, digits and '_', no digit first, and not the name of a prim at the top of the stage"
            )
            raise RefusedError(_CODES.NAME_INVALID, f"the name {quoted(wanted)} is not possible: {reason}")
        stem = "".join(each if each.isascii() and each.isalnum() else "_" for each in wanted[:_MAX_NAME])
        stem = stem if stem[:1].isalpha() else f"entity_{stem}"
        number = 1
        while not self._is_free(f"{stem}_{number}"):
            number += 1
        return f"{stem}_{number}"

    def _is_free(self, name: str) -> bool:
        return self._spawner.is_free(name) and self._entities.table.get(name) is None

    def _find(self, name: str) -> str:
        """Return the prim path of a spawned entity; between two ticks."""
        entity = self._entities.table.get(name)
        by_name = {each: path for path, each in self._entities.spawned.items()}
        path = by_name.get(name) or (by_name.get(entity.name) if entity is not None else None)
        if path is not None:
            return path
        if entity is None:
            raise unknown_entity(name, self._entities.table)
        raise RefusedError(FAILED, f"{entity.name} was not spawned: it belongs to the asset, or to an entity")


def _is_below(path: str, above: str) -> bool:
    return f"{path}/".startswith(f"{above}/")

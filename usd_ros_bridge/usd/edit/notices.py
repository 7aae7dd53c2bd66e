"""Notices of OpenUSD: the edited prims of an open stage that a plan may depend on."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pxr import Tf, Usd

from usd_ros_bridge.usd.edit.source_values import is_only_published
from usd_ros_bridge.usd.read.properties import PREDICATE

WHOLE_STAGE: Final = "/"
MAX_PATHS: Final = 10_000
"""Paths that are kept. More of them stand for the whole stage."""

_MAX_KNOWN: Final = 200_000

_TRANSFORM: Final = re.compile(r"xformOp.*")
_STATE: Final = re.compile(
    r"visibility|physics:velocity|physics:angularVelocity|state:[^:]+:physics:(position|velocity)"
    r"|newton:[^:]+:(position|velocity)|drive:[^:]+:physics:target(Position|Velocity)"
)
"""Properties that engines write back in each frame of a simulation."""

_DOCUMENTATION: Final = frozenset(
    {
        "comment",
        "customData",
        "customLayerData",
        "displayGroup",
        "documentation",
        "hidden",
        "propertyOrder",
        "userDocBrief",
    }
)
"""Metadata that no plan depends on."""

_VALUES: Final = frozenset({"default", "timeSamples"})
"""Fields of a property that are its value."""

_BODY: Final = "PhysicsRigidBodyAPI"
_MEANT: Final = ("Ros", "Isaac")


class StageListener:
    """Collect the paths of edits of a stage, in the thread of the editor.

    Motion is not an edit: visibility, velocities, positions and targets of joints; on a host's stage also transforms of
    bodies and of prims above bodies, and `timeSamples`. Documentation is none either. A transform counts if a frame, an
    interface or geometry of a body depends on it.
    """

    def __init__(self, stage: Any, changed: Callable[[], None], *, owned: bool = False) -> None:
        """Bind the listener to a stage; `open` starts it.

        Args:
            stage: A Usd.Stage. It is read in the editor's thread, while a notice is delivered.
            changed: Called in the editor's thread at the first edit since `take`. It must be quick and not raise.
            owned: Whether the bridge opened the stage itself. All transforms count then.
        """
        self._stage = stage
        self._changed = changed
        self._owned = owned
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._counts: dict[Any, bool] = {}
        self._moving: dict[Any, bool] = {}
        self._own = threading.local()
        self._keys: list[Any] = []

    def open(self) -> StageListener:
        """Start listening; return self."""
        self._keys = [
            Tf.Notice.Register(Usd.Notice.ObjectsChanged, self._on_objects_changed, self._stage),
            Tf.Notice.Register(Usd.Notice.LayerMutingChanged, self._on_layer_muting, self._stage),
        ]
        return self

    def close(self) -> None:
        """Stop listening. Idempotent."""
        keys, self._keys = self._keys, []
        for key in keys:
            key.Revoke()

    def take(self) -> frozenset[str]:
        """Return the paths of prims and properties edited since the last call; `/` for the whole stage."""
        with self._lock:
            taken, self._paths = frozenset(self._paths), set()
        return taken

    @contextmanager
    def own_edits(self) -> Iterator[None]:
        """Edit that the calling thread makes while the context lasts are not heard of: they are the bridge's own."""
        before = getattr(self._own, "editing", False)
        self._own.editing = True
        try:
            yield
        finally:
            self._own.editing = before

    # --- Own ---------------------------------------------------------------------------------------------------

    def _on_objects_changed(self, notice: Any, stage: Any) -> None:
        own = getattr(self._own, "editing", False)
        try:
            found = self._edited(notice, stage)
        except (Tf.ErrorException, RuntimeError, UnicodeDecodeError):
            # The notice is not usable. Reading the stage reports what is wrong.
            found = {WHOLE_STAGE}
        if not own:
            self._add(found)

    def _on_layer_muting(self, _notice: Any, _stage: Any) -> None:
        if not getattr(self._own, "editing", False):
            self._add({WHOLE_STAGE})

    def _add(self, found: set[str]) -> None:
        if not found:
            return
        with self._lock:
            was_empty = not self._paths
            self._paths |= found
            if len(self._paths) > MAX_PATHS:
                self._paths = {WHOLE_STAGE}
        if was_empty:
            self._changed()

    def _edited(self, notice: Any, stage: Any) -> set[str]:
        found = set()
        resynced = notice.GetResyncedPaths()
        if any(path.IsAbsoluteRootOrPrimPath() for path in resynced):
            # Bodies may have come and gone.
            self._counts.clear()
            self._moving.clear()
        for path in resynced:
            if path.IsAbsoluteRootOrPrimPath() or (
                self._property_counts(stage, path) and not is_only_published(stage, path, resynced=True)
            ):
                found.add(path.pathString)
        for path in notice.GetChangedInfoOnlyPaths():
            if path.IsPropertyPath():
                if self._property_counts(stage, path) and self._fields_count(notice, path):
                    found.add(path.pathString)
            elif not _DOCUMENTATION.issuperset(notice.GetChangedFields(path)):
                found.add(path.pathString)
        return found

    def _fields_count(self, notice: Any, path: Any) -> bool:
        fields = set(notice.GetChangedFields(path)) - _DOCUMENTATION
        if fields <= _VALUES and is_only_published(notice.GetStage(), path):
            return False
        return bool(fields) and (self._owned or fields != {"timeSamples"})

    def _property_counts(self, stage: Any, path: Any) -> bool:
        counts = self._counts.get(path)
        if counts is None:
            if len(self._counts) > _MAX_KNOWN:
                self._counts.clear()
            counts = self._counts[path] = self._is_relevant(stage, path)
        return counts

    def _is_relevant(self, stage: Any, path: Any) -> bool:
        name = path.name
        if _STATE.fullmatch(name):
            return False
        if self._owned or not _TRANSFORM.fullmatch(name):
            return True
        prim = path.GetPrimPath()
        counts = self._moving.get(prim)
        if counts is None:
            counts = self._moving[prim] = _is_plan_input(stage.GetPrimAtPath(prim))
        return counts


def _is_plan_input(prim: Any) -> bool:
    """Return whether a plan depends on the transform of a prim that neither is a body nor has one below."""
    if not prim:
        return False
    meant = False
    for each in Usd.PrimRange(prim, PREDICATE):
        schemas = each.GetPrimTypeInfo().GetAppliedAPISchemas()
        if _BODY in schemas:
            return False
        meant = meant or any(schema.startswith(_MEANT) for schema in schemas)
    above = prim.GetParent()
    while above and not meant:
        meant = _BODY in above.GetPrimTypeInfo().GetAppliedAPISchemas()
        above = above.GetParent()
    return meant

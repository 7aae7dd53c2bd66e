"""Notices: which prims of an open stage were edited, as far as a plan may depend on it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pxr import Tf, Usd

from usd_ros_bridge.usd.source_values import is_only_shown
from usd_ros_bridge.usd.traversal import PREDICATE

WHOLE_STAGE: Final = "/"
MAX_PATHS: Final = 10_000
"""How many paths are held; more of them are the whole stage."""

_MAX_KNOWN: Final = 200_000

_TRANSFORM: Final = re.compile(r"xformOp.*")
_STATE: Final = re.compile(
    r"visibility|physics:velocity|physics:angularVelocity|state:[^:]+:physics:(position|velocity)"
    r"|newton:[^:]+:(position|velocity)|drive:[^:]+:physics:target(Position|Velocity)"
)
"""Properties that say what a simulation is doing, as engines write them back at each of their frames."""

_WORDS: Final = frozenset(
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
    """Hears of edits of a stage, in the thread of whoever edits, and keeps their paths until they are taken.

    What moves is no edit: visibility, velocities, positions and targets of joints, and on a stage of somebody else's
    transforms of bodies and of prims above bodies, and values that change over time (`timeSamples`). Nor are
    documentation and the like. A transform counts where a frame, an interface or geometry of a body hangs from it.
    """

    def __init__(self, stage: Any, changed: Callable[[], None], *, owned: bool = False) -> None:
        """Stores what to listen to; `open` begins.

        Args:
            stage: A Usd.Stage. It is read in the editor's thread, while a notice is delivered, and never held up.
            changed: Called in the editor's thread when there is something to take where there was nothing; quick,
                and raises nothing.
            owned: Whether nobody but the bridge and its user has the stage: then all transforms count.
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
        """Begins to listen; returns itself."""
        self._keys = [
            Tf.Notice.Register(Usd.Notice.ObjectsChanged, self._heard, self._stage),
            Tf.Notice.Register(Usd.Notice.LayerMutingChanged, self._muted, self._stage),
        ]
        return self

    def close(self) -> None:
        """Listens no more. Idempotent."""
        keys, self._keys = self._keys, []
        for key in keys:
            key.Revoke()

    def take(self) -> frozenset[str]:
        """Returns the paths of edited prims and properties since the last time; `/` for the whole stage."""
        with self._lock:
            taken, self._paths = frozenset(self._paths), set()
        return taken

    @contextmanager
    def own_edits(self) -> Iterator[None]:
        """Edits that the calling thread makes while the context lasts are not heard of: they are the bridge's own."""
        before = getattr(self._own, "editing", False)
        self._own.editing = True
        try:
            yield
        finally:
            self._own.editing = before

    # --- Own ---------------------------------------------------------------------------------------------------

    def _heard(self, notice: Any, stage: Any) -> None:
        own = getattr(self._own, "editing", False)
        try:
            found = self._edited(notice, stage)
        except (Tf.ErrorException, RuntimeError, UnicodeDecodeError):
            # Nothing is known of the edit but that there was one; reading the stage says what is wrong.
            found = {WHOLE_STAGE}
        if not own:
            self._add(found)

    def _muted(self, _notice: Any, _stage: Any) -> None:
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
                self._property_counts(stage, path) and not is_only_shown(stage, path, resynced=True)
            ):
                found.add(path.pathString)
        for path in notice.GetChangedInfoOnlyPaths():
            if path.IsPropertyPath():
                if self._property_counts(stage, path) and self._fields_count(notice, path):
                    found.add(path.pathString)
            elif not _WORDS.issuperset(notice.GetChangedFields(path)):
                found.add(path.pathString)
        return found

    def _fields_count(self, notice: Any, path: Any) -> bool:
        fields = set(notice.GetChangedFields(path)) - _WORDS
        if fields <= _VALUES and is_only_shown(notice.GetStage(), path):
            return False
        return bool(fields) and (self._owned or fields != {"timeSamples"})

    def _property_counts(self, stage: Any, path: Any) -> bool:
        counts = self._counts.get(path)
        if counts is None:
            if len(self._counts) > _MAX_KNOWN:
                self._counts.clear()
            counts = self._counts[path] = self._judged(stage, path)
        return counts

    def _judged(self, stage: Any, path: Any) -> bool:
        name = path.name
        if _STATE.fullmatch(name):
            return False
        if self._owned or not _TRANSFORM.fullmatch(name):
            return True
        prim = path.GetPrimPath()
        counts = self._moving.get(prim)
        if counts is None:
            counts = self._moving[prim] = _places_something(stage.GetPrimAtPath(prim))
        return counts


def _places_something(prim: Any) -> bool:
    """Returns whether a plan depends on where a prim is that is no body, and above none."""
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

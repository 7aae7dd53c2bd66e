"""Notices of OpenUSD: the edited prims of an open stage that a plan may depend on, and values that follow edits.

Publishers publish such values (`rel usd_ros_bridge:source`). The update runs in the thread that edits the stage, while
the notice is delivered: ticks read no stage.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from pxr import Tf, Usd

from usd_ros_bridge.usd.edit.lock import lock_of
from usd_ros_bridge.usd.read.properties import PREDICATE, plain
from usd_ros_bridge.usd.read.samples import sample_times

MAX_SAMPLES: Final = 100_000
"""Time samples that are read of one attribute."""

_PLANNED: Final = (
    "ros:",
    "control:",
    "usd_ros_bridge:",
    "physics:",
    "isaac:",
    "state:",
    "drive:",
    "limit:",
    "xformOp",
)
"""What planning reads, custom or not: such an attribute's value is part of the plan, too."""
_INTERPOLATED: Final = ("half", "float", "double", "color", "point", "vector", "normal", "timecode")


class SourceValue:
    """The value of one attribute: static, or in time samples. Reading it is for any thread, and takes no lock.

    Attributes:
        type_name: USD value type when the attribute was last planned with, "" where it was not there.
    """

    type_name = ""

    def __init__(self, stage: Usd.Stage, path: str) -> None:
        """Read the value.

        Args:
            stage: The stage.
            path: Path of the attribute.
        """
        self._path = path
        self._static: Any = None
        self._times: list[float] = []
        self._samples: list[Any] = []
        self._is_linear = False
        with lock_of(stage):
            self.read(stage)

    def read(self, stage: Usd.Stage) -> None:
        """Read the value again; in the thread that edits the stage, or while nothing edits it."""
        attribute = stage.GetAttributeAtPath(self._path)
        static, times, samples = None, list[float](), list[Any]()
        if attribute:
            per_second = stage.GetTimeCodesPerSecond() or 1.0
            query = Usd.AttributeQuery(attribute)
            codes = sample_times(attribute)[:MAX_SAMPLES]
            if codes:
                samples = [plain(query.Get(Usd.TimeCode(code))) for code in codes]
                times = [code / per_second for code in codes]
            else:
                static = plain(query.Get())
            name = str(attribute.GetTypeName())
            self._is_linear = name.startswith(_INTERPOLATED) and not name.endswith("[]")
        self._static, self._samples, self._times = static, samples, times

    @property
    def is_animated(self) -> bool:
        """Return whether the value depends on time."""
        return bool(self._times)

    @property
    def span(self) -> tuple[float, float]:
        """Return the first and last time of the samples, seconds."""
        times = self._times
        return (times[0], times[-1]) if times else (0.0, 0.0)

    def at(self, seconds: float) -> Any:
        """Return the value at a time of the stage; None where there is none, or one that has no plain form."""
        times, samples = self._times, self._samples
        if not times or len(times) != len(samples):
            return self._static
        after = bisect_right(times, seconds)
        if after == 0 or after == len(times) or not self._is_linear:
            return samples[max(after - 1, 0)]
        before, share = after - 1, (seconds - times[after - 1]) / (times[after] - times[after - 1])
        return _between(samples[before], samples[after], share)


def _between(first: Any, second: Any, share: float) -> Any:
    if isinstance(first, tuple):
        return tuple(_between(one, other, share) for one, other in zip(first, second, strict=True))
    return first + (second - first) * share


class _StageSources:
    """The followed source values of one stage."""

    def __init__(self) -> None:
        self.values: WeakValueDictionary[str, SourceValue] = WeakValueDictionary()
        self.key: Any = None

    def notice(self, notice: Any, stage: Any) -> None:
        """Update the values that an edit changed, in the editor's thread."""
        values = dict(self.values)
        if not values:
            return
        resynced = [path.pathString for path in notice.GetResyncedPaths()]
        changed = {path.pathString for path in notice.GetChangedInfoOnlyPaths()}
        for path, value in values.items():
            prim = path.partition(".")[0]
            if path in changed or any(
                each in (path, "/") or prim == each or prim.startswith(f"{each}/") for each in resynced
            ):
                try:
                    value.read(stage)
                except (Tf.ErrorException, RuntimeError):
                    # The old value stays; reading the stage reports the fault.
                    continue


_stages: WeakKeyDictionary[Any, _StageSources] = WeakKeyDictionary()
_lock = threading.Lock()


def follow_source(stage: Any, path: str) -> SourceValue:
    """Return the value of an attribute. It follows edits of the stage while it is referenced.

    Args:
        stage: A Usd.Stage; a host's in the host's thread.
        path: Path of the attribute.
    """
    with _lock:
        sources = _stages.get(stage)
        if sources is None:
            sources = _stages[stage] = _StageSources()
            sources.key = Tf.Notice.Register(Usd.Notice.ObjectsChanged, sources.notice, stage)
        value = sources.values.get(path)
    if value is None:
        value = SourceValue(stage, path)
        with _lock:
            sources.values[path] = value
    with lock_of(stage):
        attribute = stage.GetAttributeAtPath(path)
        value.type_name = str(attribute.GetTypeName()) if attribute else ""
    return value


def is_only_published(stage: Any, path: Any, *, resynced: bool = False) -> bool:
    """Return whether an edit of an attribute changes a published value only, and no plan.

    Args:
        stage: A Usd.Stage.
        path: Path of the attribute.
        resynced: Whether more than the value may have changed: a first opinion in another layer, or another type.
    """
    sources = _stages.get(stage)
    value = sources.values.get(path.pathString) if sources is not None else None
    if value is None or path.name.startswith(_PLANNED):
        return False
    attribute = stage.GetAttributeAtPath(path)
    if not attribute or not attribute.IsCustom():
        return False
    return not resynced or str(attribute.GetTypeName()) == value.type_name


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
_VELOCITY: Final = re.compile("physics:(velocity|angularVelocity)")

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
"""Metadata that no plan depends on: but customData of a body, which has the axes of its velocities."""

_VALUES: Final = frozenset({"default", "timeSamples"})
"""Fields of a property that are its value."""

_BODY: Final = "PhysicsRigidBodyAPI"
_INPUT_SCHEMAS: Final = ("Ros", "Isaac")


class StageListener:
    """Collect the paths of edits of a stage, in the thread of the editor.

    Motion is not an edit: visibility, velocities, positions and targets of joints; on a host's stage also transforms of
    bodies and of prims above bodies, velocities of kinematic bodies, and `timeSamples`. Documentation is none either. A
    transform counts if a frame, an interface or geometry of a body depends on it.
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
        """Edit that the calling thread makes while the context lasts are not reported: they are the bridge's own."""
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
            elif not _DOCUMENTATION.issuperset(fields := notice.GetChangedFields(path)) or (
                self._owned and "customData" in fields and _is_body(stage.GetPrimAtPath(path))
            ):
                found.add(path.pathString)
        return found

    def _fields_count(self, notice: Any, path: Any) -> bool:
        fields = set(notice.GetChangedFields(path)) - _DOCUMENTATION
        if fields <= _VALUES and is_only_published(notice.GetStage(), path):
            return False
        return bool(fields) and (self._owned or fields != {"timeSamples"})

    def _property_counts(self, stage: Any, path: Any) -> bool:
        if self._owned and _VELOCITY.fullmatch(path.name):
            # The velocity of a kinematic body is that of its surface.
            return _is_kinematic(stage, path.GetPrimPath())
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


def _is_body(prim: Any) -> bool:
    return _BODY in prim.GetPrimTypeInfo().GetAppliedAPISchemas()


def _is_kinematic(stage: Any, path: Any) -> bool:
    attribute = stage.GetPrimAtPath(path).GetAttribute("physics:kinematicEnabled")
    return bool(attribute) and attribute.Get() is True


def _is_plan_input(prim: Any) -> bool:
    """Return whether a plan depends on the transform of a prim that neither is a body nor has one below."""
    if not prim:
        return False
    is_input = False
    for each in Usd.PrimRange(prim, PREDICATE):
        schemas = each.GetPrimTypeInfo().GetAppliedAPISchemas()
        if _BODY in schemas:
            return False
        is_input = is_input or any(schema.startswith(_INPUT_SCHEMAS) for schema in schemas)
    above = prim.GetParent()
    while above and not is_input:
        is_input = _is_body(above)
        above = above.GetParent()
    return is_input

"""Values of attributes that publishers publish (`rel usd_ros_bridge:source`). Edits update them.

The update runs in the thread that edits the stage, while the notice is delivered: ticks read no stage.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from pxr import Tf, Usd

from usd_ros_bridge.usd.edit.lock import lock_of
from usd_ros_bridge.usd.read.properties import plain

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
        """Read the value anew; in the thread that edits the stage, or where nobody does."""
        attribute = stage.GetAttributeAtPath(self._path)
        static, times, samples = None, list[float](), list[Any]()
        if attribute:
            per_second = stage.GetTimeCodesPerSecond() or 1.0
            query = Usd.AttributeQuery(attribute)
            codes = query.GetTimeSamples()[:MAX_SAMPLES]
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
                    # The value before stays; reading the stage says what is wrong with it.
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

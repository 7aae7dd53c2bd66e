"""StageSession: an open stage as ROS code uses it. `ros/` imports nothing else of `usd/`.

Importing this module does not load OpenUSD: a bridge whose stage is a `DeferredStage` may never need it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from usd_ros_bridge.options import ReadOptions, VariantSelection, VariantSet
from usd_ros_bridge.process_settings import freeze_garbage_collector, gc_paused
from usd_ros_bridge.usd import load_libraries
from usd_ros_bridge.usd.edit.lock import StageLock, lock_of, share_lock

if TYPE_CHECKING:
    from usd_ros_bridge.usd.edit.notices import SourceValue, StageListener
    from usd_ros_bridge.usd.edit.override_targets import OverrideTarget
    from usd_ros_bridge.usd.edit.spawn import MissingAssetsError, Spawner, UnreadableError
    from usd_ros_bridge.usd.edit.stage_overrides import Override, PrimPlacement, StageOverrides
    from usd_ros_bridge.usd.edit.variants import VariantEditor
    from usd_ros_bridge.usd.edit.visibility import VisibilityEditor
    from usd_ros_bridge.usd.layer_files import FileVersion
    from usd_ros_bridge.usd.tf_errors import quiet

__all__ = [
    "DeferredStage",
    "FileVersion",
    "MissingAssetsError",
    "Override",
    "OverrideTarget",
    "PrimPlacement",
    "SceneSwitches",
    "SourceValue",
    "Spawner",
    "StageListener",
    "StageLock",
    "StageOverrides",
    "StageSession",
    "UnreadableError",
    "VariantEditor",
    "VisibilityEditor",
    "quiet",
]

_HOMES = {
    "FileVersion": "layer_files",
    "MissingAssetsError": "edit.spawn",
    "Override": "edit.stage_overrides",
    "OverrideTarget": "edit.override_targets",
    "PrimPlacement": "edit.stage_overrides",
    "SourceValue": "edit.notices",
    "Spawner": "edit.spawn",
    "StageListener": "edit.notices",
    "StageOverrides": "edit.stage_overrides",
    "UnreadableError": "edit.spawn",
    "VariantEditor": "edit.variants",
    "VisibilityEditor": "edit.visibility",
    "quiet": "tf_errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    load_libraries()
    value = globals()[name] = getattr(import_module(f"usd_ros_bridge.usd.{home}"), name)
    return value


class DeferredStage:
    """The stage of a plan that another process made. It is opened, and OpenUSD loaded, when something needs it.

    For processes of the bridge's own: OpenUSD's warnings are kept off stderr of the whole process while it opens.
    """

    def __init__(
        self,
        asset: str,
        options: ReadOptions,
        *,
        robots: Callable[[Sequence[Any]], frozenset[str]] | None = None,
        switchable: Mapping[str, bool] | None = None,
        describer: Any = None,
    ) -> None:
        """Store the arguments.

        Args:
            asset: As for `open_stage`.
            options: As for `open_stage`.
            robots: As for `open_stage`.
            switchable: Known answers of `VisibilityEditor.switchable`, by prim path: whether there are any prims.
            describer: Process that describes the robots of the plan, opaque; `take_describer` hands it out once.
        """
        self._asset = asset
        self._options = options
        self._robots = robots
        self._switchable = dict(switchable or {})
        self._describer = describer
        self._stage: Any = None
        self._lock = RLock()
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_open(self) -> bool:
        """Return whether the stage has been opened."""
        return self._stage is not None

    def open(self) -> Any:
        """Return the stage, the same one every time. Thread-safe.

        Raises:
            BridgeError: It cannot be opened (any more); as `open_stage`.
        """
        with self._lock:
            if self._stage is None:
                with gc_paused():
                    self._stage = self._open()
                # As at the start: what a search of all of it would hold up is a tick.
                freeze_garbage_collector()
                listeners, self._listeners = self._listeners, []
                for call in listeners:
                    call()
            return self._stage

    def when_open(self, call: Callable[[], None]) -> None:
        """Call `call()` once the stage is open, before anybody uses it; in the thread that opens it."""
        with self._lock:
            if self._stage is None:
                self._listeners.append(call)
                return
        call()

    def forget(self, call: Callable[[], None]) -> None:
        """Drop a call of `when_open`, which may be in progress. Idempotent. Does not wait for the stage."""
        self._listeners = [each for each in self._listeners if each != call]

    def is_switchable(self, prim: str) -> bool | None:
        """Return whether a prim has anything to switch; None if that is not known without the stage."""
        return None if self.is_open else self._switchable.get(prim)

    def take_describer(self) -> Any:
        """Return the process that describes the robots, the first time; None after that."""
        describer, self._describer = self._describer, None
        return describer

    def _open(self) -> Any:
        from usd_ros_bridge.usd import open_stage, quiet

        with quiet():
            stage = open_stage(self._asset, self._options, robots=self._robots)
        share_lock(stage, self)
        return stage


class StageSession:
    """Read and edit an open stage beside the tick. Edits go to the session layer, or reload files.

    Sessions of one stage share its lock, and the source values that are followed. A `DeferredStage` is opened by
    the first method that needs it.
    """

    def __init__(self, stage: Any) -> None:
        """Bind the session to a stage.

        Args:
            stage: A Usd.Stage, or a DeferredStage.
        """
        self._stage = stage

    @property
    def stage(self) -> Any:
        """The Usd.Stage.

        Raises:
            BridgeError: It was deferred, and cannot be opened.
        """
        return self._stage.open() if isinstance(self._stage, DeferredStage) else self._stage

    @property
    def lock(self) -> StageLock:
        """Lock of the stage. Hold it to edit the stage, or to read it outside of the tick."""
        return lock_of(self._stage)

    def when_open(self, call: Callable[[], None]) -> None:
        """Call `call()` once the stage is open, before anybody uses it: at once if it is."""
        if isinstance(self._stage, DeferredStage):
            self._stage.when_open(call)
        else:
            call()

    def forget(self, call: Callable[[], None]) -> None:
        """Drop a call of `when_open`. Idempotent."""
        if isinstance(self._stage, DeferredStage):
            self._stage.forget(call)

    def take_describer(self) -> Any:
        """Return the process that describes the robots of a deferred stage's plan, once; else None."""
        return self._stage.take_describer() if isinstance(self._stage, DeferredStage) else None

    def variant_editor(self, selections: Sequence[VariantSelection] = ()) -> VariantEditor:
        """Return an editor of the bridge's variant selections.

        Args:
            selections: Selections that the bridge made when it opened the stage.
        """
        from usd_ros_bridge.usd.edit.variants import VariantEditor

        return VariantEditor(self.stage, selections)

    def variant_sets(self, *, most: int) -> tuple[VariantSet, ...]:
        """Return the variant sets of the stage's prims, in traversal order, `most` at most."""
        from usd_ros_bridge.usd.edit.variants import variant_sets

        with self.lock:
            return variant_sets(self.stage, most=most)

    def switches(self) -> SceneSwitches:
        """Return what shows and hides lights and geometry."""
        return SceneSwitches(self._stage)

    def spawner(self) -> Spawner:
        """Return the spawner, which references assets into the stage and removes them."""
        from usd_ros_bridge.usd.edit.spawn import Spawner

        return Spawner(self.stage)

    def overrides(self) -> StageOverrides:
        """Return the editor of overrides on the session layer, which keeps what is there now."""
        from usd_ros_bridge.usd.edit.stage_overrides import StageOverrides

        return StageOverrides(self.stage)

    def files(self) -> frozenset[str]:
        """Return the files of the stage's layers, those that are missing included."""
        from usd_ros_bridge.usd.edit.reload import asset_files

        with self.lock:
            return asset_files(self.stage)

    def file_versions(self) -> dict[str, FileVersion]:
        """Return which version of each file was opened."""
        from usd_ros_bridge.usd.edit.reload import read_versions

        return read_versions(self.stage)

    def reload(self, files: Collection[str] | None = None) -> tuple[str, ...]:
        """Read files again, None for all. Return the files that were read; see `edit.reload`."""
        from usd_ros_bridge.usd.edit.reload import reload

        return reload(self.stage, files)

    def listener(self, changed: Callable[[], None], *, owned: bool) -> StageListener:
        """Return a listener for edits of the stage; `open` starts it.

        Args:
            changed: Call when the first edit arrives, in the editor's thread.
            owned: Whether the bridge opened the stage itself.
        """
        from usd_ros_bridge.usd.edit.notices import StageListener

        return StageListener(self.stage, changed, owned=owned)

    def follow_source(self, path: str) -> SourceValue:
        """Return the value of an attribute, which follows edits while it is referenced."""
        from usd_ros_bridge.usd.edit.notices import follow_source

        return follow_source(self.stage, path)


class SceneSwitches:
    """Show and hide lights and geometry of a stage, which may be deferred."""

    def __init__(self, stage: Any) -> None:
        """Store the stage."""
        self._stage = stage
        self._editor: VisibilityEditor | None = None

    def open(self) -> None:
        """Open a stage that is deferred; in any thread but that of the ticks, as it takes a while.

        Raises:
            BridgeError: It cannot be opened.
        """
        if isinstance(self._stage, DeferredStage):
            self._stage.open()

    def is_switchable(self, prim: str) -> bool:
        """Return whether a service at a prim has anything to switch; from the thread that opens."""
        known = self._stage.is_switchable(prim) if isinstance(self._stage, DeferredStage) else None
        return bool(self._visibility().switchable(prim)) if known is None else known

    def switch(self, prim: str, visible: bool | None) -> tuple[bool, str]:
        """Show or hide, as `VisibilityEditor.switch`; in the tick thread only."""
        return self._visibility().switch(prim, visible)

    def _visibility(self) -> VisibilityEditor:
        if self._editor is None:
            from usd_ros_bridge.usd.edit.visibility import VisibilityEditor

            self._editor = VisibilityEditor(StageSession(self._stage).stage)
        return self._editor

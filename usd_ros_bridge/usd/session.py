"""StageSession: an open stage as ROS code uses it. `ros/` imports nothing else of `usd/`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from usd_ros_bridge.options import VariantSelection
from usd_ros_bridge.usd.edit.lock import StageLock, lock_of
from usd_ros_bridge.usd.edit.notices import SourceValue, StageListener, follow_source
from usd_ros_bridge.usd.edit.reload import asset_files, read_versions, reload
from usd_ros_bridge.usd.edit.spawn import MissingAssetsError, Spawner, UnreadableError
from usd_ros_bridge.usd.edit.variants import VariantEditor
from usd_ros_bridge.usd.edit.visibility import VisibilityEditor
from usd_ros_bridge.usd.layer_files import FileVersion
from usd_ros_bridge.usd.tf_errors import quiet

__all__ = [
    "FileVersion",
    "MissingAssetsError",
    "SourceValue",
    "Spawner",
    "StageListener",
    "StageLock",
    "StageSession",
    "UnreadableError",
    "VariantEditor",
    "VisibilityEditor",
    "quiet",
]


class StageSession:
    """Read and edit an open stage beside the tick. Edits go to the session layer, or reload files.

    Sessions of one stage share its lock, and the source values that are followed.
    """

    def __init__(self, stage: Any) -> None:
        """Bind the session to a stage.

        Args:
            stage: A Usd.Stage.
        """
        self.stage = stage

    @property
    def lock(self) -> StageLock:
        """Lock of the stage. Hold it to edit the stage, or to read it outside of the tick."""
        return lock_of(self.stage)

    def variant_editor(self, selections: Sequence[VariantSelection] = ()) -> VariantEditor:
        """Return an editor of the bridge's variant selections.

        Args:
            selections: Selections that the bridge made when it opened the stage.
        """
        return VariantEditor(self.stage, selections)

    def visibility_editor(self) -> VisibilityEditor:
        """Return an editor that shows and hides lights and geometry."""
        return VisibilityEditor(self.stage)

    def spawner(self) -> Spawner:
        """Return the spawner, which references assets into the stage and removes them."""
        return Spawner(self.stage)

    def files(self) -> frozenset[str]:
        """Return the files of the stage's layers, those that are missing included."""
        with self.lock:
            return asset_files(self.stage)

    def file_versions(self) -> dict[str, FileVersion]:
        """Return which version of each file was opened."""
        return read_versions(self.stage)

    def reload(self, files: Collection[str] | None = None) -> tuple[str, ...]:
        """Read files again, None for all. Return the files that were read; see `edit.reload`."""
        return reload(self.stage, files)

    def listener(self, changed: Callable[[], None], *, owned: bool) -> StageListener:
        """Return a listener for edits of the stage; `open` starts it.

        Args:
            changed: Call when the first edit arrives, in the editor's thread.
            owned: Whether the bridge opened the stage itself.
        """
        return StageListener(self.stage, changed, owned=owned)

    def follow_source(self, path: str) -> SourceValue:
        """Return the value of an attribute, which follows edits while it is referenced."""
        return follow_source(self.stage, path)

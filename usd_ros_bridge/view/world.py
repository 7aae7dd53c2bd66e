"""World of the page: ground, scenery and free bodies."""

from __future__ import annotations

from usd_ros_bridge.view.page_component import PageContext


class WorldMeshes:
    """Show what belongs to no robot."""

    def open(self, context: PageContext) -> None:
        """Add the meshes."""

    def resume(self) -> None:
        """Do nothing."""

    def update(self) -> None:
        """Do nothing."""

    def pause(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Remove the meshes."""

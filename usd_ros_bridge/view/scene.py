"""Robots of the page: their meshes, frames and names."""

from __future__ import annotations

from usd_ros_bridge.view.page_component import PageContext


class SceneMeshes:
    """Show the robots."""

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

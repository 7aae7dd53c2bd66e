"""Convex decomposition of meshes through CoACD, cached in the user's cache directory."""

from __future__ import annotations

from collections.abc import Callable

from usd_ros_bridge.backends.mujoco.built import SpecOptions
from usd_ros_bridge.model.physics import Mesh


def decompose(mesh: Mesh, options: SpecOptions, report: Callable[[str], None]) -> list[Mesh]:
    """Returns convex parts of a mesh."""
    report("its convex hull collides: it is not decomposed")
    return [mesh]

"""Meshes of the page in batches: all instances of a geometry, of whatever robots, are one scene node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.export.glb_file import geometry_glb
from usd_ros_bridge.export.surface import Geometry, RenderedSurface
from usd_ros_bridge.spatial.transforms import FloatArray, compose, rotate, wxyz
from usd_ros_bridge.view.page_component import Picked

if TYPE_CHECKING:
    import viser

MANY: Final = 2000
"""Instances above which clicks, which cost the browser time for each, are left out."""
_DETAILED: Final = 5000
"""Triangles of a geometry that browsers may simplify in the distance, where there are several instances."""
_OPAQUE: Final = 0.995


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """A surface that follows a source of poses.

    Attributes:
        surface: What is shown.
        source: Row of the sources' poses.
        source_from_shape: (7,).
        picked: What a click on it means.
    """

    surface: RenderedSurface
    source: int
    source_from_shape: FloatArray
    picked: Picked


class MeshBatches:
    """The scene nodes of many instances: one for each geometry, with one message for all its poses."""

    def __init__(
        self,
        server: viser.ViserServer,
        parent: str,
        instances: Sequence[Instance],
        *,
        pick: Callable[[Picked], object],
    ) -> None:
        """Sort instances into batches.

        Args:
            server: The page's server.
            parent: Name of the scene node that batches hang from; switch its visibility for all.
            instances: All of them.
            pick: Called with what was clicked, in a thread of the server.
        """
        self._server = server
        self._parent_name = parent
        self._pick = pick
        grouped: dict[tuple[str, float], list[Instance]] = defaultdict(list)
        for each in instances:
            # Opacity is of the node: the browser sorts what is transparent.
            opacity = 1.0 if each.surface.opacity > _OPAQUE else round(each.surface.opacity, 3)
            grouped[each.surface.geometry.key, opacity].append(each)
        few = len(instances) <= MANY
        self._batches = [
            _Batch(f"{parent}/{number}", group, opacity, clickable=few)
            for number, ((_, opacity), group) in enumerate(grouped.items())
        ]
        self._parent: Any = None
        self._hidden: frozenset[int] = frozenset()

    @property
    def bounds(self) -> NDArray[np.float64] | None:
        """Return the lower and upper corners (2, 3) of all instances where they are now, None without any."""
        corners = [batch.bounds() for batch in self._batches]
        if not corners:
            return None
        return np.stack([np.min([c[0] for c in corners], axis=0), np.max([c[1] for c in corners], axis=0)])

    def open(self, sources: FloatArray, *, visible: bool = True) -> None:
        """Add the scene nodes.

        Args:
            sources: (S, 7) `world_from_source`.
            visible: Show them.
        """
        self._parent = self._server.scene.add_frame(self._parent_name, show_axes=False, visible=visible)
        for batch in self._batches:
            batch.place(sources)
            batch.open(self._server, self._pick)

    def show(self, visible: bool) -> None:
        """Show or hide all."""
        if self._parent is not None:
            self._parent.visible = visible

    def show_shadows(self, visible: bool) -> None:
        """Cast shadows on each other, and on what is below."""
        for batch in self._batches:
            batch.show_shadows(visible)

    def update(self, sources: FloatArray) -> None:
        """Move the instances to their sources. Batches that stay where they are send nothing."""
        for batch in self._batches:
            batch.place(sources)
            batch.send()

    def hide_robots(self, robots: Collection[int]) -> None:
        """Hide the instances of robots, and show those of all others."""
        hidden = frozenset(robots)
        if hidden != self._hidden:
            self._hidden = hidden
            for batch in self._batches:
                batch.hide(hidden)

    def close(self) -> None:
        """Remove the scene nodes. Idempotent."""
        parent, self._parent = self._parent, None
        if parent is not None:
            parent.remove()


class _Batch:
    """Instances of one geometry."""

    def __init__(self, name: str, instances: Sequence[Instance], opacity: float, *, clickable: bool) -> None:
        self._name = name
        self._opacity = opacity
        self._clickable = clickable
        self._geometry: Geometry = instances[0].surface.geometry
        self._picked = tuple(each.picked for each in instances)
        self._sources = np.array([each.source for each in instances], dtype=np.intp)
        self._offsets = compose(
            np.array([each.source_from_shape for each in instances]),
            np.array([each.surface.shape_from_geometry for each in instances]),
        )
        self._scales = np.array([each.surface.scale for each in instances], dtype=np.float32)
        self._colors = np.array([each.surface.color for each in instances], dtype=np.uint8)
        self._positions: NDArray[np.float32] = np.zeros((len(instances), 3), np.float32)
        self._rotations: NDArray[np.float32] = np.zeros((len(instances), 4), np.float32)
        self._poses: FloatArray = self._offsets
        self._handle: Any = None

    def place(self, sources: FloatArray) -> None:
        poses = self._poses = compose(sources[self._sources], self._offsets)
        self._positions = poses[:, :3].astype(np.float32)
        self._rotations = wxyz(poses[:, 3:]).astype(np.float32)

    def open(self, server: viser.ViserServer, pick: Callable[[Picked], object]) -> None:
        geometry, count = self._geometry, len(self._picked)
        lod = "auto" if count > 1 and len(geometry.faces) > _DETAILED else "off"
        shared: dict[str, Any] = {
            "batched_positions": self._positions,
            "batched_wxyzs": self._rotations,
            "batched_scales": self._scales,
            "lod": lod,
            "cast_shadow": False,
            "receive_shadow": False,
        }
        if geometry.texture is not None:
            self._handle = server.scene.add_batched_glb(self._name, geometry_glb(geometry), **shared)
        else:
            self._handle = server.scene.add_batched_meshes_simple(
                self._name,
                geometry.vertices,
                geometry.faces,
                batched_colors=self._colors,
                opacity=None if self._opacity >= 1.0 else self._opacity,
                flat_shading=geometry.flat,
                # Sheets without thickness are seen from both sides.
                side="double",
                **shared,
            )
        if self._clickable:

            def click(event: Any) -> None:
                if event.instance_index is not None:
                    pick(self._picked[event.instance_index])

            self._handle.on_click(click)

    def send(self) -> None:
        # viser sends no value that is the same.
        self._handle.batched_positions = self._positions
        self._handle.batched_wxyzs = self._rotations

    def show_shadows(self, visible: bool) -> None:
        self._handle.cast_shadow = self._handle.receive_shadow = visible

    def hide(self, robots: Collection[int]) -> None:
        shown = np.array([each.robot not in robots for each in self._picked])
        self._handle.batched_scales = self._scales * shown[:, None].astype(np.float32)

    def bounds(self) -> NDArray[np.float64]:
        vertices = self._geometry.vertices
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        corners = np.array(
            [[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])]
        )
        placed = self._poses[:, None, :3] + rotate(
            self._poses[:, None, 3:], corners * self._scales[:, None, :]
        )
        return np.stack([placed.min(axis=(0, 1)), placed.max(axis=(0, 1))])

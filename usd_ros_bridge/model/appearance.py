"""Appearance: colours and textures of visuals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Color = tuple[float, float, float, float]
"""Linear red, green, blue, and opacity, 0 to 1."""

GREY: Final[Color] = (0.6, 0.6, 0.6, 1.0)
"""Of what has no colour."""

_LINEAR_UP_TO: Final = 0.0031308
"""Start of sRGB's curve (IEC 61966-2-1)."""


def srgb(color: Color) -> Color:
    """Convert a colour to sRGB (IEC 61966-2-1), as ROS' tools expect it; opacity is unchanged."""
    red, green, blue = (_encoded(value) for value in color[:3])
    return red, green, blue, color[3]


def _encoded(value: float) -> float:
    value = min(max(value, 0.0), 1.0)
    return 12.92 * value if value <= _LINEAR_UP_TO else float(1.055 * value ** (1.0 / 2.4) - 0.055)


UnseenKind = Literal["texture", "part", "colors", "emission", "light"]
"""Looks that pictures of cameras do not show."""


class Unseen(NamedTuple):
    """A property or a prim that pictures of cameras do not show.

    Attributes:
        kind: What it is.
        path: Path of the prim.
        attribute: Name of the property, "" for the prim itself.
        value: Its value, or what the prim is.
    """

    kind: UnseenKind
    path: str
    attribute: str
    value: Any


@dataclass(frozen=True, slots=True)
class Look:
    """Colour and texture of a surface.

    Attributes:
        color: Linear red, green, blue and opacity, 0 to 1; with a texture, what that is multiplied by.
        texture: Path of the image that it takes its colour from, `file.usdz[image.png]` for one in a package of
            OpenUSD's, "" for none.
    """

    color: Color = GREY
    texture: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Skin:
    """Appearance of a mesh that one colour does not describe.

    Attributes:
        looks: Looks; one at least.
        look_rows: (T,) int32 rows of `looks`, the look of each triangle; None where there is but one.
        uv: (U, 2) float32 texture coordinates, (0, 0) the lower left corner of the image; None where no look has a
            texture, or the mesh has no texture coordinates.
        uv_triangles: (T, 3) int32 rows of `uv` at the triangles' corners; None as `uv`.
        normals: (N, 3) float32 directions, of length 1, that light falls on; None where facets are to be seen.
        normal_triangles: (T, 3) int32 rows of `normals` at the triangles' corners; None as `normals`.
    """

    looks: tuple[Look, ...]
    look_rows: NDArray[np.int32] | None = None
    uv: NDArray[np.float32] | None = None
    uv_triangles: NDArray[np.int32] | None = None
    normals: NDArray[np.float32] | None = None
    normal_triangles: NDArray[np.int32] | None = None

    def placed(self, pose_from_prim: NDArray[np.float64], *, turned: bool) -> Skin:
        """Return the skin of the mesh after a linear map.

        Args:
            pose_from_prim: (3, 3) what its points are multiplied by.
            turned: Exchange the last two corners of its triangles, as for a mirror.
        """
        normals = self.normals
        if normals is not None:
            # Normals stay at right angles to a surface where they are mapped by the inverse transpose.
            normals = unit(normals @ np.linalg.inv(pose_from_prim))
        return replace(
            self,
            uv_triangles=_turned(self.uv_triangles, turned=turned),
            normals=normals,
            normal_triangles=_turned(self.normal_triangles, turned=turned),
        )


def unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return (N, 3) vectors at length 1, those of no length as they are."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: NDArray[np.float32] = (vectors / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
    return result


def _turned(rows: NDArray[np.int32] | None, *, turned: bool) -> NDArray[np.int32] | None:
    return rows if rows is None or not turned else np.ascontiguousarray(rows[:, [0, 2, 1]])

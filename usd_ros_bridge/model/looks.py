"""Looks: the colours and textures of what is to be seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Color = tuple[float, float, float, float]
"""Linear red, green, blue, and opacity, 0 to 1."""

GREY: Final[Color] = (0.6, 0.6, 0.6, 1.0)
"""Of what has no colour."""

_LINEAR_UP_TO: Final = 0.0031308
"""Where sRGB's curve begins (IEC 61966-2-1)."""


def srgb(color: Color) -> Color:
    """Returns a colour as screens take it (IEC 61966-2-1), which is what ROS' tools call one; opacity is as it was."""
    red, green, blue = (_encoded(value) for value in color[:3])
    return red, green, blue, color[3]


def _encoded(value: float) -> float:
    value = min(max(value, 0.0), 1.0)
    return 12.92 * value if value <= _LINEAR_UP_TO else float(1.055 * value ** (1.0 / 2.4) - 0.055)


@dataclass(frozen=True, slots=True)
class Look:
    """What a surface looks like.

    Attributes:
        color: Linear red, green, blue and opacity, 0 to 1; with a texture, what that is multiplied by.
        texture: Path of the image that it takes its colour from, `file.usdz[image.png]` for one in a package of
            OpenUSD's, "" for none.
    """

    color: Color = GREY
    texture: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Skin:
    """What a mesh looks like where one colour does not say it.

    Attributes:
        looks: Looks; one at least.
        look_rows: (T,) int32 rows of `looks`, the look of each triangle; None where there is but one.
        uv: (U, 2) float32 texture coordinates, (0, 0) the lower left corner of the image; None where no look has a
            texture, or the mesh says nothing of where it goes.
        uv_triangles: (T, 3) int32 rows of `uv` at the triangles' corners; None as `uv`.
    """

    looks: tuple[Look, ...]
    look_rows: NDArray[np.int32] | None = None
    uv: NDArray[np.float32] | None = None
    uv_triangles: NDArray[np.int32] | None = None

    def turned(self) -> Skin:
        """Returns the skin of the same triangles, their last two corners exchanged."""
        if self.uv_triangles is None:
            return self
        rows = np.ascontiguousarray(self.uv_triangles[:, [0, 2, 1]])
        return Skin(self.looks, self.look_rows, self.uv, rows)

"""Formats of mesh files: binary STL; OBJ with MTL for meshes with textures or several colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.appearance import Look, srgb
from usd_ros_bridge.model.physics import Mesh

STL_HEADER_BYTES: Final = 84
STL_TRIANGLE_BYTES: Final = 50
ROWS_AT_A_TIME: Final = 65536
"""Rows of text formatted at once: more take more memory, and as much time."""

_STL_TRIANGLE: Final = np.dtype([("normal", "<f4", (3,)), ("corners", "<f4", (3, 3)), ("attributes", "<u2")])
_STEPS: Final = 10_000
"""Steps of a component of a normal, from 0 to 1."""
_ALL: Final = 3
"""Columns of a corner: point, texture coordinates, normal."""
_TITLE: Final = b"usd_ros_bridge, metres"
"""Must not begin with `solid`, the mark of STL as text."""


def stl_bytes(mesh: Mesh) -> bytes:
    """Return a mesh as binary STL: triangles in metres, no colours."""
    corners = mesh.points[mesh.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    records = np.zeros(len(corners), dtype=_STL_TRIANGLE)
    records["normal"] = np.divide(normals, lengths, out=np.zeros_like(normals), where=lengths > 0.0)
    records["corners"] = corners
    count = len(corners).to_bytes(4, "little")
    return _TITLE.ljust(STL_HEADER_BYTES - len(count)) + count + records.tobytes()


def stl_size(triangles: int) -> int:
    """Return the size of a binary STL file in bytes."""
    return STL_HEADER_BYTES + STL_TRIANGLE_BYTES * triangles


def obj_bytes(mesh: Mesh, *, library: str) -> bytes:
    """Return a mesh with a skin as OBJ: metres, Z up, one group of faces for each look.

    Args:
        mesh: The mesh.
        library: Name of the MTL file, in the same directory.
    """
    skin = mesh.skin
    assert skin is not None, "a mesh without a skin is STL"
    parts = [b"# ", _TITLE, f"\nmtllib {library}\n".encode(), *_lines("v %.7g %.7g %.7g\n", mesh.points)]
    columns: list[NDArray[Any]] = [mesh.triangles]
    form = "%d"
    if skin.uv is not None and skin.uv_triangles is not None:
        parts += _lines("vt %.7g %.7g\n", skin.uv)
        columns.append(skin.uv_triangles)
        form = "%d/%d"
    if skin.normals is not None and skin.normal_triangles is not None:
        normals, of_row = _distinct(skin.normals)
        parts += _lines("vn %.4g %.4g %.4g\n", normals)
        columns.append(of_row[skin.normal_triangles])
        form += "/%d" if len(columns) == _ALL else "//%d"
    rows: NDArray[Any] = (np.stack(columns, axis=2) + 1).reshape(len(mesh.triangles), -1)
    form = f"f {form} {form} {form}\n"
    for number in range(len(skin.looks)):
        chosen = rows if skin.look_rows is None else rows[skin.look_rows == number]
        if len(chosen):
            parts.append(f"usemtl {look_name(number)}\n".encode())
            parts += _lines(form, chosen)
    return b"".join(parts)


def _distinct(normals: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct normals, rounded to four digits, and the row of each normal among them."""
    steps = np.clip(np.round(normals * _STEPS), -_STEPS, _STEPS).astype(np.int64) + _STEPS
    base = 2 * _STEPS + 1
    keys, of_row = np.unique((steps[:, 0] * base + steps[:, 1]) * base + steps[:, 2], return_inverse=True)
    digits = np.stack([keys // base**2, keys // base % base, keys % base], axis=1)
    return (digits - _STEPS) / _STEPS, of_row


def _lines(form: str, rows: NDArray[Any]) -> Iterator[bytes]:
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        some = rows[start : start + ROWS_AT_A_TIME]
        yield (form * len(some) % tuple(some.ravel().tolist())).encode("ascii")


def mtl_bytes(looks: tuple[Look, ...], images: Mapping[str, str]) -> bytes:
    """Return looks as MTL: matte, colours in sRGB.

    Args:
        looks: The looks.
        images: Name of the file in the same directory, by texture.
    """
    lines = [f"# {_TITLE.decode()}"]
    for number, look in enumerate(looks):
        red, green, blue, opacity = srgb(look.color)
        color = f"{red:.6g} {green:.6g} {blue:.6g}"
        # Ambient light shows the same colour; RViz takes half of it.
        lines += [
            f"newmtl {look_name(number)}",
            f"Ka {color}",
            f"Kd {color}",
            "Ks 0 0 0",
            f"d {opacity:.6g}",
            "illum 1",
        ]
        if look.texture:
            lines.append(f"map_Kd {images[look.texture]}")
    return "\n".join([*lines, ""]).encode("ascii")


def look_name(number: int) -> str:
    """Return the name of a look in OBJ and MTL."""
    return f"look_{number}"

"""Mesh files of a URDF: a directory that holds every mesh once, named after its content.

Binary STL; OBJ with MTL for meshes with textures or several colours.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.ament_index import ament_prefixes
from usd_ros_bridge.errors import OptionError, quoted, quoted_path
from usd_ros_bridge.export.mesh_store import DIGITS
from usd_ros_bridge.model.appearance import GREY, Color, Look, Skin, srgb
from usd_ros_bridge.model.diagnostics import Diagnostic, archive_and_inner
from usd_ros_bridge.model.physics import Mesh
from usd_ros_bridge.process_settings import user_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshFile:
    """A file that holds a mesh, in metres.

    Attributes:
        uri: The `filename` of a URDF's `<mesh>`: `file://` or `package://`.
        has_colors: The file has colours or a texture. The URDF then gives no colour.
        diagnostics: Textures that could not be written, and are not in the file.
    """

    uri: str
    has_colors: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


MAX_TRIANGLES: Final = 1_000_000
"""Triangles of one mesh: 50 MB of STL."""

_FORMAT: Final = b"1"
"""Version of the files' content, part of the digest that names them."""
_MAX_REMEMBERED: Final = 1024
"""Meshes whose files are remembered, without hashing them again."""
_numbers = count()


def default_directory() -> Path:
    """Return the default directory of mesh files: `usd_ros_bridge/meshes` in XDG_CACHE_HOME, else in ~/.cache.

    Raises:
        OptionError: The user has no home directory.
    """
    try:
        return user_cache("meshes")
    except RuntimeError as error:
        raise OptionError("there is no home directory for mesh files: give a directory") from error


class MeshCache:
    """Write meshes to files, each once: as binary STL, or as OBJ with MTL and copies of images if a mesh has a skin.

    A file is named after its content. It is written under another name and renamed when complete: processes may share
    a directory. Existing files are never deleted, and replaced only if they are too short (the machine went
    down while one was written).
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        installed: Path | None = None,
        max_triangles: int = MAX_TRIANGLES,
    ) -> None:
        """Choose the directory.

        Args:
            directory: Directory of the files, created with the first file. None: see `default_directory`.
            installed: Directory whose files are used where it has them; it is never written to. See
                `installed_meshes`.
            max_triangles: Triangles of the largest mesh that is written.

        Raises:
            OptionError: No directory is given, and the user has no home directory.
        """
        self.directory = default_directory() if directory is None else Path(directory)
        self._max_triangles = max_triangles
        self._uri = directory_uri(self.directory)
        self._installed = installed
        self._installed_uri = "" if installed is None else directory_uri(installed)
        self._images: dict[str, str | Diagnostic] = {}
        self._known: dict[tuple[int, bool], tuple[Mesh, MeshFile]] = {}
        self._unwritable: Diagnostic | None = None

    def write(self, mesh: Mesh, *, path: str, color: Color | None = None) -> MeshFile | Diagnostic:
        """Return the file that holds `mesh`. Write it unless it exists.

        Args:
            mesh: In the frame of its shape, metres, scale folded in.
            path: Path of the prim, for diagnostics.
            color: Colour of a visual; None for a collision, whose skin is not written.

        Returns:
            The file, or why there is none. If the directory is not writable, all meshes without a file give the same
            diagnostic, which names no prim.
        """
        key = (id(mesh), color is not None and mesh.skin is not None)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        if len(mesh.triangles) > self._max_triangles:
            return _left_out(
                path,
                f"{len(mesh.triangles)} triangles are more than {self._max_triangles}",
                "simplify the mesh",
            )
        try:
            found = self._write_mesh(mesh, path, color)
        except OSError as error:
            self._unwritable = self._unwritable or _not_writable(self.directory, error)
            return self._unwritable
        if isinstance(found, MeshFile) and not found.diagnostics:
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            self._known[key] = (mesh, found)
        return found

    def _write_mesh(self, mesh: Mesh, path: str, color: Color | None) -> MeshFile | Diagnostic:
        skin = None if color is None else mesh.skin
        faults: tuple[Diagnostic, ...] = ()
        if skin is not None:
            skin, faults = self._with_images(skin, path, color or GREY)
        name = _digest(mesh, skin, self._images)
        found = self._installed_file(name, mesh, skin)
        if found is not None:
            return replace(found, diagnostics=faults)
        fault = ""
        if skin is None:
            name += ".stl"
            if not self._is_complete(name, stl_size(len(mesh.triangles))):
                fault = _fault(mesh)
                if not fault:
                    self._write_file(name, stl_bytes(mesh))
        elif not (self._is_complete(f"{name}.obj") and self._is_complete(f"{name}.mtl")):
            fault = _fault(mesh)
            if not fault:
                images = {texture: image for texture, image in self._images.items() if isinstance(image, str)}
                self._write_file(f"{name}.mtl", mtl_bytes(skin.looks, images))
                self._write_file(f"{name}.obj", obj_bytes(replace(mesh, skin=skin), library=f"{name}.mtl"))
        if fault:
            return _left_out(path, fault, "author finite points and faces that name them")
        name += ".obj" if skin is not None else ""
        return MeshFile(uri=f"{self._uri}/{name}", has_colors=skin is not None, diagnostics=faults)

    def _installed_file(self, name: str, mesh: Mesh, skin: Skin | None) -> MeshFile | None:
        """Return the file of a mesh in the directory of installed files, None if it is not there with all it needs."""
        directory = self._installed
        if directory is None:
            return None
        if skin is None:
            needed: dict[str, int | None] = {f"{name}.stl": stl_size(len(mesh.triangles))}
        else:
            images = {self._images[look.texture] for look in skin.looks if look.texture}
            needed = dict.fromkeys((f"{name}.obj", f"{name}.mtl", *map(str, images)))
        if not all(self._is_complete(each, size, directory) for each, size in needed.items()):
            return None
        return MeshFile(uri=f"{self._installed_uri}/{next(iter(needed))}", has_colors=skin is not None)

    # --- Images ---

    def _with_images(self, skin: Skin, path: str, color: Color) -> tuple[Skin | None, tuple[Diagnostic, ...]]:
        """Return a skin whose textures are all in the directory, None if one colour is left; and missing textures."""
        images = {
            look.texture: self._image(look.texture)
            for look in skin.looks
            if look.texture and skin.uv is not None
        }
        faults = tuple(replace(each, path=path) for each in images.values() if isinstance(each, Diagnostic))
        looks = tuple(
            replace(look, color=color, texture="")
            if look.texture and not isinstance(images.get(look.texture), str)
            else look
            for look in skin.looks
        )
        textured = any(look.texture for look in looks)
        if not textured and skin.normals is None and len(set(looks)) == 1:
            return None, faults
        without = skin if textured else replace(skin, uv=None, uv_triangles=None)
        return replace(without, looks=looks), faults

    def _image(self, texture: str) -> str | Diagnostic:
        """Return the file name of the copy of an image, which is written unless it exists."""
        found = self._images.get(texture)
        if found is None:
            found = self._images[texture] = self._copy(texture)
        return found

    def _copy(self, texture: str) -> str | Diagnostic:
        try:
            content, suffix = read_image(texture)
        except ImageError as error:
            return Diagnostic(
                code="3.8.texture",
                severity="warning",
                path="",
                message=f"{quoted(texture)} is left out: {error}",
                remedy="use a PNG or JPEG image",
            )
        name = f"{hashlib.sha256(content).hexdigest()[:DIGITS]}{suffix}"
        if not self._is_complete(name, len(content)):
            self._write_file(name, content)
        return name

    # --- Files ---

    def _is_complete(self, name: str, size: int | None = None, directory: Path | None = None) -> bool:
        file = (directory or self.directory) / name
        try:
            found = file.stat().st_size
        except OSError:
            return False
        return found > 0 if size is None else found == size

    def _write_file(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises:
            OSError: It cannot be written.
        """
        if self._unwritable is not None:
            raise OSError
        self.directory.mkdir(parents=True, exist_ok=True)
        part = self.directory / f".{name}.{os.getpid()}.{next(_numbers)}.part"
        try:
            part.write_bytes(content)
            part.replace(self.directory / name)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _digest(mesh: Mesh, skin: Skin | None, images: dict[str, str | Diagnostic]) -> str:
    """Return the name of a mesh's files, without extension."""
    digest = hashlib.sha256(_FORMAT)
    arrays: list[NDArray[Any] | None] = [mesh.points, mesh.triangles]
    if skin is not None:
        looks = [(look.color, images[look.texture] if look.texture else "") for look in skin.looks]
        digest.update(repr(looks).encode())
        arrays += [skin.look_rows, skin.uv, skin.uv_triangles, skin.normals, skin.normal_triangles]
    for array in arrays:
        if array is None:
            digest.update(b" - ")
        else:
            digest.update(f" {array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:DIGITS]


def _fault(mesh: Mesh) -> str:
    """Return why a mesh cannot be written, "" if it can."""
    points, triangles = mesh.points, mesh.triangles
    if not len(triangles):
        return "the mesh has no triangles"
    if triangles.min() < 0 or triangles.max() >= len(points):
        return "triangles name points that are not there"
    corners = points[triangles]
    if not np.isfinite(corners).all():
        return "the mesh has points that are not finite"
    if not np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).any():
        return "the mesh has no area"
    return ""


def _left_out(path: str, fault: str, remedy: str) -> Diagnostic:
    return Diagnostic(
        code="3.8.mesh",
        severity="warning",
        path=path,
        message=f"{fault}; it is not in the URDF",
        remedy=remedy,
    )


def _not_writable(directory: Path, error: OSError) -> Diagnostic:
    return Diagnostic(
        code="3.8.mesh_directory",
        severity="error",
        path="",
        message=f"no mesh files can be written to {quoted_path(directory)} ({error.strerror or error}); meshes that "
        "are not there yet are left out",
        remedy="make it writable, or give another directory (--meshes)",
    )


def directory_uri(directory: Path) -> str:
    """Return the URI of a directory, without a slash at the end.

    The URI is `package://name/path` if the directory is in the share of a package of the ament index, so that other
    machines that have the package find it. The index is read from its files: no ROS installation is needed. Any other
    directory is `file:///path` (RFC 8089).
    """
    for path, share in _shares(directory):
        return f"package://{path.relative_to(share.parent).as_posix()}"
    return _absolute(directory).as_uri()


def installed_meshes(asset: str | os.PathLike[str]) -> Path | None:
    """Return the directory `meshes` in the share of the asset's package, None if there is none.

    A package that installs the files of `usd_ros_bridge urdf ASSET --meshes meshes` there lets every machine that has
    it find them.

    Args:
        asset: Path of the asset, or `package://NAME/PATH`.
    """
    name, _, _ = str(asset).removeprefix(_PACKAGE).partition("/")
    if str(asset).startswith(_PACKAGE):
        shares = [prefix / "share" / name for prefix in ament_prefixes() if _has_package(prefix, name)]
    else:
        shares = [share for _, share in _shares(Path(asset))]
    return next((share / "meshes" for share in shares if (share / "meshes").is_dir()), None)


_PACKAGE: Final = "package://"


def _shares(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a path and the share directory of a package that it is in, for each way in which it is."""
    for each in dict.fromkeys((_absolute(path), path.resolve())):
        for prefix in ament_prefixes():
            for share in dict.fromkeys((prefix / "share", prefix.resolve() / "share")):
                if each.is_relative_to(share) and each != share:
                    name = each.relative_to(share).parts[0]
                    if _has_package(prefix, name):
                        yield each, share / name


def _has_package(prefix: Path, name: str) -> bool:
    return bool(name) and (prefix / "share/ament_index/resource_index/packages" / name).is_file()


def _absolute(path: Path) -> Path:
    """Return an absolute path without `..`. Symbolic links stay: a package may be installed by links."""
    return Path(os.path.normpath(path.absolute()))


MAX_IMAGE_BYTES: Final = 64 * 2**20

SIGNATURES: Final[dict[str, tuple[bytes, ...]]] = {
    ".png": (b"\x89PNG\r\n\x1a\n",),
    ".jpg": (b"\xff\xd8\xff",),
    ".jpeg": (b"\xff\xd8\xff",),
    ".bmp": (b"BM",),
    ".gif": (b"GIF8",),
    ".tif": (b"II*\0", b"MM\0*"),
    ".tiff": (b"II*\0", b"MM\0*"),
    ".tga": (b"",),
}
"""First bytes of the images that RViz loads, by extension."""


class ImageError(Exception):
    """An image cannot be used; the message says why."""


def read_image(texture: str) -> tuple[bytes, str]:
    """Return the bytes of an image, and its extension in lower case.

    Args:
        texture: Path of a file, `file.usdz[image.png]` for one in a package.

    Raises:
        ImageError: There is none, it is too large, or it is no image of a known kind.
    """
    package, inner = archive_and_inner(texture)
    suffix = Path((inner or package).rstrip("]")).suffix.lower()
    if suffix not in SIGNATURES:
        raise ImageError(f"images {suffix or 'without an extension'} are not shown by RViz")
    try:
        content = _read_packed(package, inner) if inner else _read_file(package)
    except (OSError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise ImageError(f"it cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not content.startswith(SIGNATURES[suffix]) or not content:
        raise ImageError(f"it is no {suffix[1:]} image")
    return content, suffix


def _read_file(path: str) -> bytes:
    # Never waits for a FIFO that took the place of the file.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ImageError("it is no regular file")
        _check_size(found.st_size)
        return stream.read(MAX_IMAGE_BYTES)


def _read_packed(package: str, inner: str) -> bytes:
    with zipfile.ZipFile(package) as archive:
        _check_size(archive.getinfo(inner).file_size)
        return archive.read(inner)


def _check_size(size: int) -> None:
    if size > MAX_IMAGE_BYTES:
        raise ImageError(f"it has {size / 2**20:.0f} MiB, more than {MAX_IMAGE_BYTES // 2**20}")


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

"""Mesh files: a directory that holds every mesh once, under a name that follows from what is in it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.export.meshes_formats import mtl_bytes, obj_bytes, stl_bytes, stl_size
from usd_ros_bridge.export.meshes_images import ImageError, read_image
from usd_ros_bridge.export.meshes_uris import directory_uri
from usd_ros_bridge.export.urdf_meshes import MeshFile
from usd_ros_bridge.model.diagnostics import Diagnostic, quoted
from usd_ros_bridge.model.errors import OptionError
from usd_ros_bridge.model.looks import GREY, Color, Skin
from usd_ros_bridge.model.physics import Mesh

MOST_TRIANGLES: Final = 1_000_000
"""Of one mesh: 50 MB of STL."""

_FORMAT: Final = b"1"
"""Changed when the same mesh is written otherwise: files then get other names."""
_DIGITS: Final = 32
"""Of the names of files, in hexadecimal."""
_REMEMBERED: Final = 1024
"""Meshes whose files are known without asking what is in them."""
_numbers = count()


def default_directory() -> Path:
    """Returns where mesh files are kept: `usd_ros_bridge/meshes` in XDG_CACHE_HOME, else in ~/.cache.

    Raises:
        OptionError: The user has no home directory.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        root = root if root.is_absolute() else Path.home() / ".cache"
    except RuntimeError as error:
        raise OptionError("there is no home directory for mesh files: give a directory") from error
    return root / "usd_ros_bridge" / "meshes"


class MeshCache:
    """Puts meshes into files, each once: binary STL, or OBJ with MTL and copies of images where a mesh has a skin.

    Names follow from the content, files are written beside their place and moved there when they are whole: any number
    of processes may share a directory, and what is there is never written again nor deleted. A file that is shorter
    than it must be (the machine went down) is replaced.
    """

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, *, max_triangles: int = MOST_TRIANGLES
    ) -> None:
        """Writes nothing yet.

        Args:
            directory: Where files are, made when the first is written. None: see `default_directory`.
            max_triangles: Largest mesh that is written.

        Raises:
            OptionError: No directory is given, and the user has no home directory.
        """
        self.directory = default_directory() if directory is None else Path(directory)
        self._max_triangles = max_triangles
        self._uri = directory_uri(self.directory)
        self._images: dict[str, str | Diagnostic] = {}
        self._known: dict[tuple[int, bool], tuple[Mesh, MeshFile]] = {}
        self._unwritable: Diagnostic | None = None

    def place(self, mesh: Mesh, *, path: str, color: Color | None = None) -> MeshFile | Diagnostic:
        """Returns the file that holds `mesh`, writing it where there is none yet; see `MeshFiles`.

        Where the directory cannot be written to, that is one diagnostic about no prim in particular, the same for all
        meshes that have no file yet.
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
            found = self._place(mesh, path, color)
        except OSError as error:
            self._unwritable = self._unwritable or _not_writable(self.directory, error)
            return self._unwritable
        if isinstance(found, MeshFile) and not found.diagnostics:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = (mesh, found)
        return found

    def _place(self, mesh: Mesh, path: str, color: Color | None) -> MeshFile | Diagnostic:
        skin = None if color is None else mesh.skin
        faults: tuple[Diagnostic, ...] = ()
        if skin is not None:
            skin, faults = self._with_images(skin, path, color or GREY)
        name = _digest(mesh, skin, self._images)
        fault = ""
        if skin is None:
            name += ".stl"
            if not self._is_whole(name, stl_size(len(mesh.triangles))):
                fault = _fault(mesh)
                if not fault:
                    self._write(name, stl_bytes(mesh))
        elif not (self._is_whole(f"{name}.obj") and self._is_whole(f"{name}.mtl")):
            fault = _fault(mesh)
            if not fault:
                images = {texture: image for texture, image in self._images.items() if isinstance(image, str)}
                self._write(f"{name}.mtl", mtl_bytes(skin.looks, images))
                self._write(f"{name}.obj", obj_bytes(replace(mesh, skin=skin), library=f"{name}.mtl"))
        if fault:
            return _left_out(path, fault, "author finite points and faces that name them")
        name += ".obj" if skin is not None else ""
        return MeshFile(uri=f"{self._uri}/{name}", has_looks=skin is not None, diagnostics=faults)

    # --- Images ---

    def _with_images(self, skin: Skin, path: str, color: Color) -> tuple[Skin | None, tuple[Diagnostic, ...]]:
        """Returns a skin whose textures all are in the directory, None where one colour is left; and what is not."""
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
        """Returns the name of the copy of an image, written if need be."""
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
        name = f"{hashlib.sha256(content).hexdigest()[:_DIGITS]}{suffix}"
        if not self._is_whole(name, len(content)):
            self._write(name, content)
        return name

    # --- Files ---

    def _is_whole(self, name: str, size: int | None = None) -> bool:
        try:
            found = (self.directory / name).stat().st_size
        except OSError:
            return False
        return found > 0 if size is None else found == size

    def _write(self, name: str, content: bytes) -> None:
        """Writes a file.

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
    """Returns what a mesh's files are called, but for the end of the name."""
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
    return digest.hexdigest()[:_DIGITS]


def _fault(mesh: Mesh) -> str:
    """Returns why a mesh cannot be in a file, "" where it can."""
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
        message=f"no mesh files can be written to {quoted(directory)} ({error.strerror or error}); meshes that are not "
        "there yet are left out",
        remedy="make it writable, or give another directory (--meshes)",
    )

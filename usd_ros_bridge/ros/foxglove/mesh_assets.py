"""Mesh assets: the mesh files of robot descriptions for clients of the server, and no other file."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.export.mesh_files import MeshCache, directory_uri

MAX_BYTES: Final = 2**28
"""Size of a mesh file."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
"""File names of a mesh directory: digests and suffixes."""

_SUFFIXES = (".stl", ".obj", ".mtl", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".tga")


class MeshAssets:
    """Files of one mesh directory, by the URIs that descriptions have for them."""

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        """Choose the directory. There are no files if none is given and the user has no home directory.

        Args:
            directory: As `BridgeOptions.mesh_directory`.
        """
        try:
            self._directory: Path | None = MeshCache(directory).directory
        except OptionError:
            # The description has no meshes then, and says why.
            self._directory = None

    def read(self, uri: str) -> bytes | None:
        """Return the content of a mesh file, None for any other URI. From any thread."""
        directory = self._directory
        name = "" if directory is None else _file_name(uri, directory)
        if directory is None or not name:
            return None
        try:
            # A link is not followed: it may lead anywhere.
            file = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(file, "rb") as stream:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
                return None
            return stream.read(MAX_BYTES)


def _file_name(uri: str, directory: Path) -> str:
    """Return the name of a file in a directory, "" for a URI of anything else."""
    base, _, name = uri.rpartition("/")
    known = {directory_uri(directory), Path(os.path.normpath(directory.absolute())).as_uri()}
    if base not in known or not _NAME.fullmatch(name) or not name.lower().endswith(_SUFFIXES):
        return ""
    return name

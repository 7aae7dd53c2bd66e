"""Find mesh files by name: a hash of the content, and an extension. Servers of mesh files serve nothing else.

It imports only the standard library: the process of the HTTP server starts with it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DIGITS: Final = 32
"""Hexadecimal digits in the name of a file."""

CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".stl": "model/stl",
    ".obj": "model/obj",
    ".mtl": "model/mtl",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".tga": "image/x-tga",
}
"""Media types by extension."""

_ENDS: Final = "|".join(each[1:] for each in CONTENT_TYPES)
FILE_NAME: Final = re.compile(rf"[0-9a-f]{{{DIGITS}}}\.(?:{_ENDS})", re.ASCII)
"""Name of a mesh file, of its materials or of an image."""

_IN_URDF: Final = re.compile(rf'(filename=")[^"]*/([0-9a-f]{{{DIGITS}}}\.(?:{_ENDS})")', re.ASCII)


def is_file_name(text: str) -> bool:
    """Return whether a text is the name of a mesh file."""
    return FILE_NAME.fullmatch(text) is not None


def content_type(name: str) -> str:
    """Return the media type of a mesh file."""
    return CONTENT_TYPES[name[name.rindex(".") :]]


def with_base(urdf: str, base: str) -> str:
    """Return a URDF whose mesh files have other URIs.

    Args:
        urdf: The document, as the bridge writes it.
        base: What stands before the names instead, without a slash at the end and without characters that XML escapes.
    """
    return _IN_URDF.sub(rf"\g<1>{base}/\g<2>", urdf)


class MeshStore:
    """Read-only view of the mesh files of a directory, and of those that a package has installed."""

    def __init__(self, directory: Path, installed: Path | None = None) -> None:
        """Store the directories. They need not exist.

        Args:
            directory: Where the bridge writes mesh files.
            installed: Directory of mesh files in the share of a package.
        """
        self.directory = directory
        self.installed = installed

    def open(self, name: str) -> int | None:
        """Open a mesh file for reading.

        Args:
            name: Any text. Only names of mesh files are found.

        Returns:
            A file descriptor, which is the caller's to close. None if there is no such file.
        """
        if not is_file_name(name):
            return None
        # Others may write to a shared directory, and a link leads anywhere. Packages are often installed by links.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        places = [(self.directory, flags | os.O_NOFOLLOW)]
        places += [] if self.installed is None else [(self.installed, flags)]
        for directory, each in places:
            try:
                handle = os.open(directory / name, each)
            except OSError:
                continue
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return handle
            os.close(handle)
        return None

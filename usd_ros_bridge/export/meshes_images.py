"""Images of textures: read from files, and from packages of OpenUSD's (usdz)."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path
from typing import Final

MOST_IMAGE_BYTES: Final = 64 * 2**20

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
"""Images that RViz loads, by the end of their name: how they begin."""


class ImageError(Exception):
    """Why an image cannot be used, in words."""


def read_image(texture: str) -> tuple[bytes, str]:
    """Returns an image and the end of its name, in small letters.

    Args:
        texture: Path of a file, `file.usdz[image.png]` for one in a package.

    Raises:
        ImageError: There is none, it is too large, or it is no image of a known kind.
    """
    package, _, inner = texture.rstrip("]").partition("[") if texture.endswith("]") else (texture, "", "")
    suffix = Path(inner or package).suffix.lower()
    if suffix not in SIGNATURES:
        raise ImageError(f"images {suffix or 'without an extension'} are not shown by RViz")
    try:
        content = _packed(package, inner) if inner else _plain(package)
    except (OSError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise ImageError(f"it cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not content.startswith(SIGNATURES[suffix]) or not content:
        raise ImageError(f"it is no {suffix[1:]} image")
    return content, suffix


def _plain(path: str) -> bytes:
    # Never waits for a FIFO that took the place of the file.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ImageError("it is no regular file")
        _check_size(found.st_size)
        return stream.read(MOST_IMAGE_BYTES)


def _packed(package: str, inner: str) -> bytes:
    with zipfile.ZipFile(package) as archive:
        _check_size(archive.getinfo(inner).file_size)
        return archive.read(inner)


def _check_size(size: int) -> None:
    if size > MOST_IMAGE_BYTES:
        raise ImageError(f"it has {size / 2**20:.0f} MiB, more than {MOST_IMAGE_BYTES // 2**20}")

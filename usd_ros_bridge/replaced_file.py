"""Files that appear when they are complete: until then the one before stays."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_NAME_SHARE: Final = 40
"""Characters of a file's name in that of its temporary file: names have 255 bytes at most."""


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Write a file that is complete or the one before: a temporary one beside it gets its name at the end.

    A link stays: the file that it leads to is replaced. FIFOs and devices are written to.

    Args:
        path: The file.

    Yields:
        What to write to.

    Raises:
        OSError: It cannot be written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    exists = path.exists()
    if exists and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    partial = target.with_name(f".{target.name[:_NAME_SHARE]}.{os.urandom(4).hex()}")
    file = partial.open("xb")
    try:
        with file:
            if exists:
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink()

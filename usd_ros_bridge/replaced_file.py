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


def is_replaced(path: Path) -> bool:
    """Return whether `replaced` would replace a file: FIFOs, devices and the process's own output are written to."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and _own_output(path) is None


@contextmanager
def replaced(path: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Write a file that is complete or the one before: a temporary one beside it gets its name at the end.

    A link stays: the file that it leads to is replaced. FIFOs and devices are written to.

    Args:
        path: The file.
        overwrite: False: it must not exist at the end, either.

    Yields:
        What to write to.

    Raises:
        FileExistsError: It exists, and is not to be overwritten.
        OSError: It cannot be written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    exists = path.exists()
    if exists and not is_replaced(path):
        output = _own_output(path)
        # Opened by its name, a file that the shell appends to would lose what it has.
        with path.open("wb") if output is None else os.fdopen(os.dup(output), "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    partial = target.with_name(f".{target.name[:_NAME_SHARE]}.{os.urandom(4).hex()}")
    try:
        with partial.open("xb") as file:
            if exists:
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            partial.replace(target)
        else:
            _name(partial, target)
    finally:
        with suppress(OSError):
            partial.unlink()


def write_file(path: Path, data: bytes) -> None:
    """Write a file that is complete or the one before. Make its directory where it is missing.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(exist_ok=True)
    with replaced(path) as file:
        file.write(data)


def _own_output(path: Path) -> int | None:
    """Return the descriptor of this process's output that a path leads to, such as /dev/stdout; None for none."""
    for number in (1, 2):
        with suppress(OSError, ValueError):
            if os.path.samestat(path.stat(), os.fstat(number)):
                return number
    return None


def _name(partial: Path, target: Path) -> None:
    """Give a temporary file its name, unless there is a file of that name.

    Raises:
        FileExistsError: There is one.
    """
    try:
        target.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        partial.replace(target)

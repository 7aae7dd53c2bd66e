"""Directories that one process at a time fills, and that appear complete or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class DirectoryInUseError(Exception):
    """Another process fills the directory."""


@contextmanager
def filled_directory(partial: Path, *, waits: bool) -> Iterator[Path]:
    """Own a directory for what is not complete yet. Remove what an interrupted process left in it, and all at the end.

    The owner renames from inside the directory to where the result belongs. Nobody else uses the directory meanwhile:
    the owner holds a lock on it, which ends with the process, however it ends.

    Args:
        partial: The directory, on the file system of the result.
        waits: Wait for another process that owns it.

    Raises:
        DirectoryInUseError: Another process owns it, and `waits` is false.
        OSError: It cannot be made.
    """
    descriptor = _lock(partial, waits=waits)
    try:
        _clear(partial)
        yield partial
    finally:
        # First away, then unlocked: who waits for the lock sees that this directory is another one.
        shutil.rmtree(partial, ignore_errors=True)
        os.close(descriptor)


def _lock(directory: Path, *, waits: bool) -> int:
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            # `mkdir` fails, too, if the owner removes the directory while it looks at it.
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(directory.lstat().st_mode):
                    raise
            continue
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            if _is_same(directory, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise DirectoryInUseError(str(directory)) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_same(directory: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    return False


def _clear(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()

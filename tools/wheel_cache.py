"""Keep built wheels in the user's cache, so that a second clone on the machine need not build them again.

Standard library only. What is installed from here runs as the user: a directory or a file that another user owns or may
write is never used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

MOST = 8
"""Keys that stay: some clones, Python versions and distributions. The wheel of a key has about 1 MB."""


class CacheError(Exception):
    """A wheel of the cache cannot be used, or none can be written: one line."""


class WheelCache:
    """Wheels by key, one for each key, in <cache>/<key>/."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str) -> Path | None:
        """The wheel of a key; None if there is none.

        Raises:
            CacheError: There is one that cannot be read or trusted.
        """
        folder = self._directory / key
        try:
            for path in (self._directory, folder):
                _check_ours(path, stat.S_ISDIR)
            wheels = sorted(path for path in folder.iterdir() if path.suffix == ".whl")
            if not wheels:
                raise CacheError(f"{folder} has no wheel")
            _check_ours(wheels[0], stat.S_ISREG)
            _check_intact(wheels[0])
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheError(f"the cache cannot be read: {error}") from error
        with contextlib.suppress(OSError):
            os.utime(folder)
        return wheels[0]

    def put(self, key: str, wheel: Path) -> None:
        """Keeps a copy.

        Raises:
            CacheError: The cache cannot be written or trusted.
        """
        temporary = self._directory / f".{key}.{os.getpid()}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            _check_ours(self._directory, stat.S_ISDIR)
            temporary.mkdir(mode=0o700)
            shutil.copyfile(wheel, temporary / wheel.name)
            (temporary / wheel.name).chmod(0o600)
            # What is there under this key cannot be trusted, else `get` had returned it.
            _remove(self._directory / key)
            temporary.rename(self._directory / key)
            self._remove_old()
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise CacheError(f"the cache cannot be written: {error}") from error

    def _remove_old(self) -> None:
        folders = [path for path in self._directory.iterdir() if not path.name.startswith(".")]
        folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for folder in folders[MOST:]:
            shutil.rmtree(folder, ignore_errors=True)


def default_directory() -> Path | None:
    """Where usd_ros_bridge.process_settings.user_cache("interfaces") is, too; None for a user without a home."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (root if root.is_absolute() else Path.home() / ".cache") / "usd_ros_bridge" / "interfaces"
    except RuntimeError:
        return None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _check_ours(path: Path, is_kind: Callable[[int], bool]) -> None:
    status = path.lstat()
    others_may_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid != os.geteuid() or others_may_write or not is_kind(status.st_mode):
        raise CacheError(f"{path} is a link, or another user owns it or may write it")


def _check_intact(wheel: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as file:
            damaged = file.testzip() is not None
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError):
        damaged = True
    if damaged:
        raise CacheError(f"{wheel} is damaged")

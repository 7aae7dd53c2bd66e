"""Keep built wheels in the user's cache, so that a second clone on the machine need not build them again.

Standard library only. What is installed from here runs as the user: a directory or a file that another user owns or may
write is never used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

MOST = 8
"""Keys that stay: some clones, Python versions and distributions. The wheel of a key has about 1 MB."""


class WheelCache:
    """Wheels by key, one for each key, in <cache>/<key>/."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str) -> Path | None:
        """The wheel of a key; None if there is none, or none that can be trusted."""
        folder = self._directory / key
        if not (_is_ours(self._directory, stat.S_ISDIR) and _is_ours(folder, stat.S_ISDIR)):
            return None
        wheel = next(iter(sorted(folder.glob("*.whl"))), None)
        if wheel is None or not _is_ours(wheel, stat.S_ISREG) or not _is_intact(wheel):
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return wheel

    def put(self, key: str, wheel: Path) -> None:
        """Keeps a copy. A cache that cannot be written is no error: the wheel is built again next time."""
        temporary = self._directory / f".{key}.{os.getpid()}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not _is_ours(self._directory, stat.S_ISDIR):
                return
            temporary.mkdir(mode=0o700)
            shutil.copyfile(wheel, temporary / wheel.name)
            (temporary / wheel.name).chmod(0o600)
            # What is there under this key cannot be trusted, else `get` had returned it.
            shutil.rmtree(self._directory / key, ignore_errors=True)
            temporary.rename(self._directory / key)
            self._remove_old()
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)

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


def _is_ours(path: Path, is_kind: Callable[[int], bool]) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    others_may_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not others_may_write and is_kind(status.st_mode)


def _is_intact(wheel: Path) -> bool:
    try:
        with zipfile.ZipFile(wheel) as file:
            return file.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False

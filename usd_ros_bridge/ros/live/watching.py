"""Watching: which of some files changed on disk, told from a thread once they have come to rest for a moment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from usd_ros_bridge.model.errors import OptionError
from usd_ros_bridge.runtime.report import Show, describe

STEP_MS = 50
"""How long nothing may happen until changes are told: editors write a file in several steps."""

LONGEST_MS = 500
"""How long files that change all the time are waited for."""

LOOK_S = 1.0
"""How often files are looked at without a hint that they changed: neither all file systems nor all links give one."""

_JOIN_S = 2.0

Signature = tuple[int, int, int] | None
"""What tells versions of a file apart: size, time of modification, inode; None where it is not there."""


class FileWatcher:
    """Tells which files changed: written, replaced, removed, or there again. Links and what they lead to count.

    Directories are watched, not files, since many editors replace a file by another of its name; where a directory is
    gone, the nearest one above it.
    """

    def __init__(
        self,
        files: Collection[str],
        changed: Callable[[frozenset[str]], None],
        report: Show,
        *,
        read: Mapping[str, Signature] | None = None,
    ) -> None:
        """Stores what to watch; `open` begins.

        Args:
            files: Absolute paths, of files that may be missing.
            changed: Called in the watcher's thread with those that changed.
            report: For what cannot be watched.
            read: Versions of the files as they were read, where that is known: a file that has changed since, before
                `open`, is told of, too.
        """
        self._read = dict(read or {})
        self._files = frozenset(files)
        self._changed = changed
        self._report = report
        self._lock = threading.Lock()
        self._again = threading.Event()
        self._closed = False
        self._seen: dict[str, Signature] = {}
        self._thread: threading.Thread | None = None

    def open(self) -> FileWatcher:
        """Begins to watch; returns itself.

        Raises:
            OptionError: The package `watchfiles` is not installed.
        """
        watch = _watch_function()
        now = {file: _signature(file) for file in self._files}
        # What is gone by now was read all the same: it goes on, as after a file that was removed.
        self._seen = {file: found and self._read.get(file, found) for file, found in now.items()}
        self._thread = threading.Thread(
            target=self._run, args=(watch,), name="usd_ros_bridge-watch", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Watches no more. Idempotent, from any thread."""
        self._closed = True
        self._again.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    @property
    def files(self) -> frozenset[str]:
        """What is watched."""
        return self._files

    def watch(self, files: Collection[str], *, read_s: float = 0.0) -> None:
        """Watches other files from here on; from any thread.

        Args:
            files: As at the start.
            read_s: How many seconds ago they were read at the earliest: of new ones those that changed since then
                are told of.
        """
        began_ns = time.time_ns() - int(read_s * 1e9)
        with self._lock:
            if self._files == frozenset(files):
                return
            self._files = frozenset(files)
            for file in self._files - self._seen.keys():
                now = _signature(file)
                self._seen[file] = None if now is not None and read_s and now[1] > began_ns else now
            self._seen = {file: self._seen[file] for file in self._files}
        self._again.set()

    # --- Own ---------------------------------------------------------------------------------------------------

    def _run(self, watch: Callable[..., Iterable[Any]]) -> None:
        while not self._closed:
            self._again.clear()
            self._tell()
            files = self._files
            directories, names = _places(files)
            try:
                for _ in watch(
                    *sorted(directories),
                    watch_filter=lambda _, path, names=names: path in names,
                    debounce=LONGEST_MS,
                    step=STEP_MS,
                    stop_event=self._again,
                    rust_timeout=int(LOOK_S * 1e3),
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    recursive=False,
                ):
                    self._tell()
                    if _places(files) != (directories, names):
                        break
            except (OSError, RuntimeError) as error:
                # A directory that went away just now, or no more of what the system has for watching.
                if directories == _places(files)[0]:
                    self._report(
                        "watch.system",
                        f"files are looked at every {LOOK_S:g} s only, as they cannot be watched: {describe(error)}",
                    )
                    self._again.wait(LOOK_S)

    def _tell(self) -> None:
        with self._lock:
            now = {file: _signature(file) for file in self._files}
            changed = frozenset(file for file in now if now[file] != self._seen.get(file))
            self._seen = now
        if changed and not self._closed:
            try:
                self._changed(changed)
            except Exception as error:  # noqa: BLE001 - watching goes on
                self._report("watch.error", f"changed files could not be told of: {describe(error)}")


def _watch_function() -> Callable[..., Iterable[Any]]:
    try:
        from watchfiles import watch
    except ImportError:
        raise OptionError("watch needs the package watchfiles: pip install watchfiles") from None
    return watch


def _signature(file: str) -> Signature:
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _places(files: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the directories to watch, and the paths in them that matter."""
    directories: set[str] = set()
    names: set[str] = set()
    for file in files:
        for path in {file, os.path.realpath(file)}:
            _add_places(Path(path), directories, names)
    return frozenset(directories), frozenset(names)


def _add_places(file: Path, directories: set[str], names: set[str]) -> None:
    """Adds the directory of a file and the one above it, in which the directory itself comes and goes."""
    place = file
    names.add(str(file))
    while True:
        place = place.parent
        names.add(str(place))
        if place.is_dir():
            directories.add(str(place))
            if place != place.parent and os.access(place.parent, os.R_OK):
                directories.add(str(place.parent))
            return
        if place == place.parent:
            return

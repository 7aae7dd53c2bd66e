"""Watch files: report those that changed on disk, from a thread, once nothing has happened for a moment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.reporting import Report, describe

STEP_MS = 50
"""Quiet time before changes are reported: editors write a file in several steps."""

LONGEST_MS = 500
"""Longest wait for files that change all the time."""

POLL_S = 1.0
"""Period of polling without a notification: not all file systems send one, and links do not."""

_JOIN_S = 2.0

Signature = tuple[int, int, int] | None
"""Version of a file: size, time of modification, inode; None if it does not exist."""


class FileWatcher:
    """Report files that were written, replaced, removed or restored; also behind links.

    Directories are watched, since many editors replace a file by another of its name. For a missing directory, the
    nearest one above it is watched.
    """

    def __init__(
        self,
        files: Collection[str],
        changed: Callable[[frozenset[str]], None],
        report: Report,
        *,
        read: Mapping[str, Signature] | None = None,
    ) -> None:
        """Store the arguments; `open` starts.

        Args:
            files: Absolute paths; the files may be missing.
            changed: Called in the watcher's thread with the files that changed.
            report: For files that cannot be watched.
            read: Known versions of the files as they were read. A file that has changed since then is reported, too.
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
        """Start to watch. Return the watcher.

        Raises:
            OptionError: The package `watchfiles` is not installed.
        """
        watch = _watch_function()
        now = {file: _signature(file) for file in self._files}
        # A file that is gone by now was read all the same: no change is reported, as for a removed file.
        self._seen = {file: found and self._read.get(file, found) for file, found in now.items()}
        self._thread = threading.Thread(
            target=self._run, args=(watch,), name="usd_ros_bridge-watch", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop watching. Idempotent, thread-safe."""
        self._closed = True
        self._again.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    @property
    def files(self) -> frozenset[str]:
        """The watched files."""
        return self._files

    def watch(self, files: Collection[str], *, read_s: float = 0.0) -> None:
        """Watch other files from now on. Thread-safe.

        Args:
            files: As in the constructor.
            read_s: Seconds since new files were read, at most: those that changed since then are reported.
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
            self._poll()
            files = self._files
            directories, names = _watched_directories(files)
            try:
                for _ in watch(
                    *sorted(directories),
                    watch_filter=lambda _, path, names=names: path in names,
                    debounce=LONGEST_MS,
                    step=STEP_MS,
                    stop_event=self._again,
                    rust_timeout=int(POLL_S * 1e3),
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    recursive=False,
                ):
                    self._poll()
                    if _watched_directories(files) != (directories, names):
                        break
            except (OSError, RuntimeError) as error:
                # A directory was removed just now, or the system's limit of watches is reached.
                if directories == _watched_directories(files)[0]:
                    self._report(
                        "watch.system",
                        f"files are looked at every {POLL_S:g} s only, as they cannot be watched: {describe(error)}",
                    )
                    self._again.wait(POLL_S)

    def _poll(self) -> None:
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


def _watched_directories(files: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the directories to watch, and the paths in them that matter."""
    directories: set[str] = set()
    names: set[str] = set()
    for file in files:
        for path in {file, os.path.realpath(file)}:
            _add_directories(Path(path), directories, names)
    return frozenset(directories), frozenset(names)


def _add_directories(file: Path, directories: set[str], names: set[str]) -> None:
    """Add the directory of a file and the one above it, in which that directory is created and removed."""
    directory = file
    names.add(str(file))
    while True:
        directory = directory.parent
        names.add(str(directory))
        if directory.is_dir():
            directories.add(str(directory))
            if directory != directory.parent and os.access(directory.parent, os.R_OK):
                directories.add(str(directory.parent))
            return
        if directory == directory.parent:
            return

"""Read the files of the asset again: on request, by the service ~/reload, and when they change on disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from std_srvs.srv import Trigger

from usd_ros_bridge.errors import BridgeError, ChangeRefusedError, OptionError
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.message_types import TRIGGER
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.change.coordinator import ChangeCoordinator
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.calls import Call
from usd_ros_bridge.ros.endpoints.service import ServiceServer, make_built_in_server
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.runtime import Runtime

RELOAD = "~/reload"
TIMEOUT_S = 60.0
"""A large asset takes long to read, and the answer comes at the end."""
_NAMES_SHOWN = 3
_MARGIN_S = 2.0
"""Time for reports, and differences between clocks of file systems. At worst a file is read once more."""

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
            except FileNotFoundError:
                # A directory was removed just now, and may be there again by now.
                self._again.wait(STEP_MS * 1e-3)
            except (OSError, RuntimeError) as error:
                # The system's limit of watches is reached, for instance.
                if directories == _watched_directories(files)[0]:
                    self._report(
                        "watch.system",
                        f"files are polled every {POLL_S:g} s only, as they cannot be watched: {describe(error)}",
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
                self._report("watch.error", f"changed files could not be reported: {describe(error)}")


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


class AssetReloader:
    """Reload the asset of a running bridge."""

    def __init__(
        self, changes: ChangeCoordinator, runtime: Runtime, domain: Domain, workers: Workers
    ) -> None:
        """Store the arguments; `open` starts.

        Args:
            changes: Changes the bridge.
            runtime: Open.
            domain: Domain of the service.
            workers: Run requests to it.
        """
        self._changes = changes
        self._runtime = runtime
        self._report = runtime.reporter.report
        self._service: ServiceServer | None = None
        if runtime.options.remote_control == "all" and runtime.plan.stage is not None:
            self._service = make_built_in_server(
                RELOAD,
                TRIGGER,
                Trigger,
                domain,
                self._answer,
                workers=workers,
                report=self._report,
                timeout=TIMEOUT_S,
            )
        self._watcher: FileWatcher | None = None
        self._unread: frozenset[str] = frozenset()
        self._unread_lock = threading.Lock()

    def open(self) -> None:
        """Create the service, and start to watch files.

        Raises:
            OptionError: Files cannot be watched.
        """
        plan, options = self._runtime.plan, self._runtime.options
        if options.watch and not (plan.stage_owned or options.scene_edits):
            raise OptionError("watch is for assets that the bridge opened itself: the stage is the host's")
        if self._service is not None:
            self._service.open()
        if options.watch and plan.stage is not None:
            from usd_ros_bridge.usd.session import StageSession

            self._changes.on_change(self._watch_new_files)
            self._watcher = FileWatcher(
                self._files(), self._on_files, self._report, read=StageSession(plan.stage).file_versions()
            ).open()

    def stop(self) -> None:
        """Stop watching; while the domains still run. Idempotent."""
        if self._watcher is not None:
            self._watcher.close()

    def close(self) -> None:
        """Destroy the service, while no callback runs. Idempotent."""
        self._watcher = None
        service, self._service = self._service, None
        if service is not None:
            service.close()

    def reload(self) -> Future[ChangeReport]:
        """Request a change: read all files of the asset again."""
        return self._reload(None, "the asset was read again")

    def status(self) -> list[InterfaceStatus]:
        """Return the status of the service, if there is one."""
        return [] if self._service is None else [self._service.status()]

    async def _answer(self, _request: Any, response: Any) -> Any:
        try:
            response.message = str(await Call(self.reload(), forbidden=lambda: ""))
            response.success = True
        except BridgeError as refusal:
            response.message, response.success = str(refusal), False
        return response

    # --- Files -------------------------------------------------------------------------------------------------

    def _reload(self, files: Collection[str] | None, why: str) -> Future[ChangeReport]:
        def edit(stage: Any) -> None:
            from usd_ros_bridge.usd.session import StageSession

            read = StageSession(stage).reload(files)
            if files is None and not read:
                raise ChangeRefusedError("the stage was made in memory: there is no file to read again")

        return self._changes.request(why=why, edit=edit)

    def _files(self) -> frozenset[str]:
        from usd_ros_bridge.usd.session import StageSession

        return StageSession(self._runtime.plan.stage).files()

    def _on_files(self, files: frozenset[str]) -> None:
        """Reload changed files, in the watcher's thread."""
        with self._unread_lock:
            # And those that could not be read when they changed.
            files = self._unread = self._unread | files
        names = sorted({Path(file).name for file in files})
        more = " and more" if len(names) > _NAMES_SHOWN else ""
        why = f"{', '.join(names[:_NAMES_SHOWN])}{more} changed"
        self._reload(files, why).add_done_callback(lambda done: self._on_reloaded(files, why, done))

    def _on_reloaded(self, files: frozenset[str], why: str, done: Future[ChangeReport]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None:
            with self._unread_lock:
                self._unread -= files
        if isinstance(error, BridgeError) and not self._runtime.stopped:
            self._report(f"change.refused:{error}", f"{why}: kept the running version: {error}")

    def _watch_new_files(self, report: ChangeReport) -> None:
        if self._watcher is not None:
            # A file that came with the change may have changed again since it was read.
            self._watcher.watch(self._files(), read_s=report.planning_s + report.swap_s + _MARGIN_S)

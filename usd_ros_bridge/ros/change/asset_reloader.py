"""Read the files of the asset again: on request, by the service ~/reload, and when they change on disk."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from std_srvs.srv import Trigger

from usd_ros_bridge.errors import BridgeError, ChangeRefusedError, OptionError
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.message_types import TRIGGER
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.change.coordinator import ChangeCoordinator
from usd_ros_bridge.ros.change.file_watcher import FileWatcher
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
            self._report(f"change.refused:{error}", f"{why}: what runs goes on: {error}")

    def _watch_new_files(self, report: ChangeReport) -> None:
        if self._watcher is not None:
            # A file that came with the change may have changed again since it was read.
            self._watcher.watch(self._files(), read_s=report.planning_s + report.swap_s + _MARGIN_S)

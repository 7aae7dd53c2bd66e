"""Everything that may ask a running bridge for a change, and the changer that carries it out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.errors import BridgeError, ChangeRefusedError, OptionError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.domains import Domains, Report
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime, forbidden_wait
from usd_ros_bridge.ros.live.changer import Changer
from usd_ros_bridge.ros.live.parameters import LiveParameters
from usd_ros_bridge.ros.live.services import ReloadService
from usd_ros_bridge.ros.live.watching import FileWatcher
from usd_ros_bridge.ros.own_time import OwnTime
from usd_ros_bridge.ros.plan_parts import PlanParts
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.ros.workers import Workers

_NAMES_SHOWN = 3
_MARGIN_S = 2.0
"""What reports may take, and clocks of file systems may differ by; at worst a file is read once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """What changes a bridge while it runs.

    Attributes:
        edits: Whether a stage of the caller's may be edited, on its session layer.
        follow: Whether it goes on with what edits make of the stage.
        watch: Whether the asset's files are read again where they change.
        tf_rate: How often moving transforms are sent, Hz; None at every step.
    """

    edits: bool = False
    follow: bool = True
    watch: bool = False
    tf_rate: float | None = None


class Live:
    """The part of an open bridge that changes it.

    Attributes:
        changer: Carries changes out.
    """

    def __init__(
        self,
        runtime: GuardedRuntime,
        parts: PlanParts,
        domains: Domains,
        workers: Workers,
        options: LiveOptions,
        *,
        own_time: OwnTime | None,
        lock: threading.RLock,
        adopt: Callable[[BridgePlan], None],
        inform: Report,
    ) -> None:
        """Stores what is changed; `open` begins.

        Args:
            runtime: Open.
            parts: Open.
            domains: Where they live.
            workers: Where requests to services wait.
            options: What may change it.
            own_time: Where the backend owns time.
            lock: Held by ticks, and by whoever closes the bridge.
            adopt: Told of a plan that is live from here on; between two ticks.
            inform: Told of changes.
        """
        self._runtime = runtime
        self._parts = parts
        self._options = options
        self._inform = inform
        self._workers = workers
        self._main = main = domains.main
        report = runtime.reporter.report
        self.changer = Changer(
            runtime, parts, domains, own_time=own_time, lock=lock, adopt=adopt, edits=options.edits
        )
        self._parameters = LiveParameters(
            main.node,
            self.changer,
            owned=main.owned,
            controlled=lambda: runtime.controllers.parameter_names().keys(),
            tf_rate=options.tf_rate,
            set_tf_rate=lambda rate: runtime.post(lambda: parts.transforms.set_rate(rate)),
            defer=main.defer,
            remote_control=runtime.remote_control,
            report=report,
        )
        self._service = (
            ReloadService(self.reload, main, workers, report) if runtime.remote_control == "all" else None
        )
        self._watcher: FileWatcher | None = None
        self._unread: frozenset[str] = frozenset()
        self._unread_lock = threading.Lock()

    def open(self) -> None:
        """Begins to listen, to watch and to serve.

        Raises:
            OptionError: The value of a parameter is not possible, or files cannot be watched.
        """
        stage = self._runtime.plan.stage
        self.changer.open(listen=self._options.follow)
        self.changer.on_change(self._changed)
        self._parameters.open()
        self._parts.release_parameters = self._parameters.release
        if self._options.watch and not (self._runtime.plan.stage_owned or self._options.edits):
            raise OptionError("watch is for assets that the bridge opened itself: the stage is the host's")
        if stage is None:
            return
        if self._service is not None:
            self._service.open()
        if self._options.watch:
            from usd_ros_bridge.usd.reloading import read_versions

            self._watcher = FileWatcher(
                self._files(), self._on_files, self._runtime.reporter.report, read=read_versions(stage)
            ).open()

    def stop(self) -> None:
        """Ends what asks, and the change in progress; while the domains still run. Idempotent."""
        if self._watcher is not None:
            self._watcher.close()
        self.changer.stop()

    def close(self) -> None:
        """Ends the rest, where no callbacks run. Idempotent."""
        self.changer.close()
        self._parameters.close()
        service, self._service = self._service, None
        if service is not None:
            service.close()

    def reload(self) -> Call:
        """Has the files of the stage read again, and goes on with what they are."""
        return self.waited(self._reload(None, "the asset was read again"))

    def waited(self, future: Future[Any]) -> Call:
        """Returns a change as something to wait for."""

        def forbidden() -> str:
            return forbidden_wait(self._workers, self._runtime, self._main)

        return Call(future, forbidden=forbidden)

    def status(self) -> list[InterfaceStatus]:
        """Returns a row for the service, where there is one."""
        return [] if self._runtime.plan.stage is None or self._service is None else self._service.status()

    # --- Own ---------------------------------------------------------------------------------------------------

    def _reload(self, files: Collection[str] | None, why: str) -> Future[ChangeReport]:
        def edit(stage: Any) -> None:
            from usd_ros_bridge.usd.reloading import reload

            read = reload(stage, files)
            if files is None and not read:
                raise ChangeRefusedError("the stage was made in memory: there is no file to read again")

        return self.changer.request(why=why, edit=edit)

    def _files(self) -> frozenset[str]:
        from usd_ros_bridge.usd.reloading import asset_files
        from usd_ros_bridge.usd.turns import turn_at

        stage = self._runtime.plan.stage
        with turn_at(stage):
            return asset_files(stage)

    def _on_files(self, files: frozenset[str]) -> None:
        """Has files that changed read again, in the watcher's thread."""
        with self._unread_lock:
            # With those that could not be read when they changed.
            files = self._unread = self._unread | files
        names = sorted({Path(file).name for file in files})
        more = " and more" if len(names) > _NAMES_SHOWN else ""
        why = f"{', '.join(names[:_NAMES_SHOWN])}{more} changed"
        self._reload(files, why).add_done_callback(lambda done: self._watched(files, why, done))

    def _watched(self, files: frozenset[str], why: str, done: Future[ChangeReport]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None:
            with self._unread_lock:
                self._unread -= files
        if isinstance(error, BridgeError) and not self._runtime.stopped:
            self._runtime.reporter.report(f"change.refused:{error}", f"{why}: what runs goes on: {error}")

    def _changed(self, report: ChangeReport) -> None:
        self._inform(f"change:{report}", str(report))
        for each in report.found:
            if each.severity == "error":
                self._runtime.reporter.report(f"change.found:{each}", str(each))
        if self._watcher is not None:
            # A file that came with the change may have changed again since it was read.
            self._watcher.watch(self._files(), read_s=report.planning_s + report.swap_s + _MARGIN_S)

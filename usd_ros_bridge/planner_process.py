"""The planner process reads an asset, plans and describes it, and ends: the node's own process needs no OpenUSD.

OpenUSD and an open stage take a third of the memory of a node with a small robot, and a third of its start.
`start_planner` is called before ROS 2 is imported, so that both are loaded side by side. Its results go to
the plan cache, too. Where the cache has the plan of an unchanged asset, no planner process is needed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from usd_ros_bridge.plan_cache import CachedPlan, PlanCache, PlanSources, plan_key
from usd_ros_bridge.plugins import plugin_files

if TYPE_CHECKING:
    from usd_ros_bridge.errors import BridgeError
    from usd_ros_bridge.export.mesh_files import MeshCache
    from usd_ros_bridge.export.urdf import Urdf
    from usd_ros_bridge.model.message_types import TypeCatalog, TypeListing
    from usd_ros_bridge.model.plan import BridgePlan
    from usd_ros_bridge.options import PlanOptions, ReadOptions
    from usd_ros_bridge.start_phases import Progress

# Kinds of messages that a planner process sends, each the first element of a tuple.
_PLAN, _ERROR, _ROBOT, _NO_MESHES, _FAILED, _DONE = "plan", "error", "robot", "no meshes", "failed", "done"
_PHASE = "phase"

_END_S = 1.0
_NICENESS = 10
"""Of the planner once the plan is sent: nothing waits for descriptions."""


class PlannerError(Exception):
    """The planner process ended, or cannot be understood. This process does its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """What a planner process does.

    Attributes:
        asset: Path of the asset, or another identifier that `open_stage` takes.
        read_options: How it is opened.
        plan_options: How it is planned.
        catalog: Which interface types exist.
        physics: Plan what engines simulate, too.
        describes: Describe each robot as URDF after that.
        mesh_directory: Directory of the mesh files of descriptions; None for the default.
        uses_cache: Take the plan from the plan cache, and keep it there.
    """

    asset: str
    read_options: ReadOptions
    plan_options: PlanOptions
    catalog: TypeCatalog | None
    physics: bool
    describes: bool
    mesh_directory: str | os.PathLike[str] | None
    uses_cache: bool = False

    def key(self) -> str:
        """Return the name of this job's entry in the plan cache."""
        from usd_ros_bridge.export.mesh_files import installed_meshes

        meshes: object = self.mesh_directory and str(self.mesh_directory)
        if not meshes and self.describes and (installed := installed_meshes(self.asset)) is not None:
            # Files that are added to it are used, too.
            meshes = str(installed), installed.stat().st_mtime_ns
        return plan_key(
            self.asset,
            self.read_options,
            self.plan_options,
            self.catalog is not None,
            self.physics,
            self.describes and (meshes,),
        )


class PlannerProcess:
    """A planner process, as the process that started it sees it. It ends with that process, or by `close`."""

    def __init__(self, command: Sequence[str] = (), *, is_expected_in_cache: bool = False) -> None:
        """Start the process, unless the plan is expected in the plan cache.

        Args:
            command: Command line of this process, by which the plan cache expects a plan.
            is_expected_in_cache: Start it when the plan is not in the cache.
        """
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._fault = ""
        self._is_closed = False
        if not is_expected_in_cache:
            self._start()

    def __enter__(self) -> PlannerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def process_id(self) -> int | None:
        """Return the id of the process, None if it was not started."""
        return None if self._process is None else self._process.pid

    def plan(self, job: PlanJob, progress: Progress | None = None) -> BridgePlan:
        """Return the plan of an asset. Its stage is a `DeferredStage`. Call it once.

        Args:
            job: What to plan.
            progress: Called with the name of each phase when it begins.

        Raises:
            BridgeError: As `load_plan`.
            PlannerError: The process failed.
        """
        from usd_ros_bridge.planning.robot_selection import robot_chooser
        from usd_ros_bridge.process_settings import gc_paused
        from usd_ros_bridge.start_phases import CACHED
        from usd_ros_bridge.usd.session import DeferredStage

        begin = progress or (lambda _: None)
        describer: PlannerProcess | CachedDescriptions
        with gc_paused():
            found, key = self._find_in_cache(job)
            if found is None:
                plan, switchable = self._ask(job, key, begin)
                describer = self
                if not job.describes:
                    # It ends by itself, when the plan is in the cache.
                    Thread(target=self._wait_for_end, daemon=True).start()
            else:
                begin(CACHED)
                plan, switchable = found.plan, found.switchable
                describer = CachedDescriptions(found)
                self.close()
        stage = DeferredStage(
            job.asset,
            job.read_options,
            robots=robot_chooser(job.plan_options),
            switchable=switchable,
            describer=describer if job.describes else None,
        )
        made: BridgePlan = replace(plan, stage=stage, options=job.plan_options, catalog=job.catalog)
        return made

    def _find_in_cache(self, job: PlanJob) -> tuple[CachedPlan | None, str]:
        """Return the entry of a job, None if there is none, and its name, "" if it is not to be kept."""
        if not job.uses_cache:
            return None, ""
        cache, key = PlanCache(), job.key()
        if self._command:
            cache.remember(self._command, key)
        return cache.load(key, job.catalog), key

    def _ask(self, job: PlanJob, key: str, begin: Progress) -> tuple[BridgePlan, Mapping[str, bool]]:
        """Send a job to the process. Return the plan, and what its services can switch."""
        if self._process is None:
            self._start()
        if self._process is None:
            raise PlannerError(self._fault)
        try:
            assert self._process.stdin is not None
            pickle.dump((job, key), self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            # The pipe stays open: its end tells the planner that this process is gone.
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise PlannerError(_reason(self._process)) from error
        kind, *content = self._receive()
        while kind == _PHASE:
            begin(content[0])
            kind, *content = self._receive()
        if kind == _ERROR:
            raise content[0]
        plan, switchable = content
        return plan, switchable

    def descriptions(self) -> Iterator[tuple[int, Urdf] | str | None]:
        """Yield each robot's index and description, or the reason why there are no more, or None: no mesh files.

        Raises:
            PlannerError: The process failed.
        """
        try:
            while True:
                kind, *content = self._receive()
                if kind == _DONE:
                    return
                if kind == _ROBOT:
                    yield content[0], content[1]
                else:
                    yield content[0] if kind == _FAILED else None
        finally:
            self.close()

    def close(self) -> None:
        """End the process. Idempotent, from any thread: another one that waits for it gets PlannerError."""
        self._is_closed = True
        process = self._process
        if process is None:
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _wait_for_end(self) -> None:
        assert self._process is not None
        self._process.wait()
        self.close()

    def _start(self) -> None:
        if self._is_closed:
            self._fault = "was ended"
            return
        path = [str(each) for each in sys.path]
        code = (
            f"import sys; sys.path[:] = {path!r}; from usd_ros_bridge.planner_process import serve; serve()"
        )
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a program of our own
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # A terminal sends its signals to all processes of a session; who ends this one is the process above.
                start_new_session=True,
            )
        except OSError as error:
            self._fault = f"cannot be started ({error.strerror})"

    def _receive(self) -> tuple[Any, ...]:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        try:
            message: tuple[Any, ...] = pickle.load(process.stdout)  # noqa: S301 - from a process of our own
        except Exception as error:
            raise PlannerError(_reason(process)) from error
        return message


def _reason(process: subprocess.Popen[bytes]) -> str:
    try:
        status = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return "sent something else than a plan"
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


class CachedDescriptions:
    """The descriptions of a plan from the plan cache, as a `PlannerProcess` hands them out."""

    def __init__(self, content: CachedPlan) -> None:
        """Store the entry."""
        self._descriptions = content.descriptions

    def descriptions(self) -> Iterator[tuple[int, Urdf] | str | None]:
        """Yield each robot's index and description."""
        yield from self._descriptions

    def close(self) -> None:
        """Do nothing."""


def start_planner() -> PlannerProcess:
    """Start a planner process, which loads OpenUSD and waits for its job. Only in processes of the bridge's own.

    If the plan of this command line is in the plan cache, and the asset's files are unchanged, the process is started
    only when it is needed.
    """
    return PlannerProcess(sys.argv, is_expected_in_cache=PlanCache().expects(sys.argv))


# --- In the planner process ------------------------------------------------------------------------------------


def serve() -> None:
    """Do one job, and end the process. The job comes on standard input; results go to standard output."""
    # What libraries print goes to stderr.
    with os.fdopen(os.dup(1), "wb") as results:
        os.dup2(2, 1)
        from usd_ros_bridge.process_settings import tune_process

        tune_process()
        status = 1
        try:
            missing = _load_modules()
            job, key = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
            Thread(target=_end_with_parent, daemon=True).start()
            planner = _Planner(job, results)
            if missing is None:
                planner.run(key)
            else:
                planner.refuse(missing)
            status = 0
        except (EOFError, BrokenPipeError):
            # The process that started this one has ended, or needs no plan.
            status = 0
        finally:
            # Nothing is to be closed, and OpenUSD takes its time with it.
            os._exit(status)


def _load_modules() -> BridgeError | None:
    """Import what every job needs, while the other process loads ROS 2. Return what is not installed."""
    from usd_ros_bridge.requirements import missing_requirement

    try:
        from usd_ros_bridge import api, usd  # noqa: F401
        from usd_ros_bridge.planning import make_plan  # noqa: F401

        for name in usd.__all__:
            getattr(usd, name)
    except ImportError as error:
        missing = missing_requirement(error)
        if missing is None:
            raise
        return missing
    return None


def _end_with_parent() -> None:
    """End the process when the one that started it has ended, whatever runs here."""
    sys.stdin.buffer.read()
    os._exit(0)


class _Planner:
    """Do a job, and send its results."""

    def __init__(self, job: PlanJob, results: Any) -> None:
        self._job = job
        self._results = results
        self._meshes: MeshCache | None = None
        self._descriptions: list[tuple[int, Urdf]] = []

    def run(self, key: str) -> None:
        """Plan, describe, and keep both in the plan cache.

        Args:
            key: Name of the entry, "" to keep nothing.
        """
        from usd_ros_bridge.api import load_plan
        from usd_ros_bridge.errors import BridgeError
        from usd_ros_bridge.reporting import describe, log_warning
        from usd_ros_bridge.usd import quiet

        job = self._job
        since_ns = time.time_ns()
        asked = _asked(job.catalog) if job.catalog is not None else None
        with quiet():
            try:
                plan = load_plan(
                    job.asset,
                    read_options=job.read_options,
                    plan_options=job.plan_options,
                    catalog=asked,
                    physics=job.physics,
                    progress=partial(self._send, _PHASE),
                )
            except BridgeError as error:
                self.refuse(error)
                return
            sent, switchable = replace(plan, stage=None, catalog=None), _switchable(plan)
            self._send(_PLAN, sent, switchable)
            if hasattr(os, "nice"):
                os.nice(_NICENESS)
            is_complete = self._describe(plan) if job.describes else True
            if key and is_complete:
                content = CachedPlan(plan=sent, switchable=switchable, descriptions=self._descriptions)
                try:
                    self._keep(key, content, plan.stage, asked.answers if asked else {}, since_ns)
                except Exception as error:  # noqa: BLE001 - the bridge has its plan, whatever is wrong with the cache
                    log_warning("plan cache", f"the plan is not kept: {describe(error)}")
            if job.describes:
                self._send(_DONE)

    def refuse(self, error: BridgeError) -> None:
        """Send an error in place of the plan."""
        self._send(_ERROR, error)

    def _describe(self, plan: BridgePlan) -> bool:
        """Send the description of each robot, as `ros.description.description_builder` makes it.

        Returns:
            Whether all are sent, with their meshes.
        """
        from usd_ros_bridge.api import read_physics
        from usd_ros_bridge.errors import BridgeError
        from usd_ros_bridge.export.mesh_files import MeshCache, installed_meshes
        from usd_ros_bridge.export.urdf import UrdfExporter
        from usd_ros_bridge.reporting import describe

        try:
            whole = read_physics(plan, plan.options)()
            try:
                directory, asset = self._job.mesh_directory, self._job.asset
                self._meshes = MeshCache(directory, installed=None if directory else installed_meshes(asset))
            except BridgeError:
                self._send(_NO_MESHES)
            exporter = UrdfExporter(whole, meshes=self._meshes)
            for robot in range(len(whole.robots)):
                urdf = exporter.robot(robot)
                self._descriptions.append((robot, urdf))
                self._send(_ROBOT, robot, urdf)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - shown by the bridge, which goes on without descriptions
            self._send(_FAILED, describe(error))
            return False
        return self._meshes is not None and self._meshes.is_writable

    def _keep(
        self, key: str, content: CachedPlan, stage: Any, types: Mapping[str, bool], since_ns: int
    ) -> None:
        """Keep a plan in the plan cache if files alone decide what it is."""
        from usd_ros_bridge.usd.edit.reload import source_files

        files = source_files(stage)
        if files is not None:
            products = self._meshes.files if self._meshes is not None else frozenset[str]()
            # Plug-ins took part: another text of one may plan otherwise, whatever its version says.
            files |= {os.path.realpath(path) for path in plugin_files()}
            sources = PlanSources(files=files, types=types, products=products, since_ns=since_ns)
            PlanCache().store(key, content, sources)

    def _send(self, *message: Any) -> None:
        pickle.dump(message, self._results, protocol=pickle.HIGHEST_PROTOCOL)
        self._results.flush()


class _AskedCatalog:
    """A catalog that remembers its answers: the plan depends on them."""

    def __init__(self, catalog: TypeCatalog) -> None:
        self._catalog = catalog
        self.answers: dict[str, bool] = {}

    def contains(self, type_name: str) -> bool:
        """Return whether a type is installed."""
        answer = self.answers[type_name] = self._catalog.contains(type_name)
        return answer


class _AskedListing(_AskedCatalog):
    """As `_AskedCatalog`, of a catalog that lists its types."""

    def __init__(self, catalog: TypeListing) -> None:
        super().__init__(catalog)
        self._listing = catalog

    def types_of(self, package: str) -> Collection[str]:
        """Return the types of an installed package. One that goes makes the plan outdated."""
        types = self._listing.types_of(package)
        self.answers.update({f"{package}/{each}": True for each in types})
        return types

    def packages(self) -> Collection[str]:
        """Return the installed packages that have interface types."""
        return self._listing.packages()


def _asked(catalog: TypeCatalog) -> _AskedCatalog:
    from usd_ros_bridge.model.message_types import TypeListing

    return _AskedListing(catalog) if isinstance(catalog, TypeListing) else _AskedCatalog(catalog)


def _switchable(plan: BridgePlan) -> dict[str, bool]:
    """Return for the prims of services whether there are lights or geometry that they could switch."""
    from usd_ros_bridge.model.message_types import SET_BOOL, TRIGGER
    from usd_ros_bridge.usd.session import StageSession

    scene = StageSession(plan.stage).switches()
    return {
        service.path: scene.is_switchable(service.path)
        for service in plan.services
        if service.role == "server" and service.type in (SET_BOOL, TRIGGER)
    }

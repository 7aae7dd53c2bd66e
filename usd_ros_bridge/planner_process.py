"""The planner process reads an asset, plans and describes it, and ends: the node's own process needs no OpenUSD.

OpenUSD and an open stage take a third of the memory of a node with a small robot, and a third of its start.
`start_planner` is called before ROS 2 is imported, so that both are loaded side by side.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usd_ros_bridge.errors import BridgeError
    from usd_ros_bridge.export.urdf import Urdf
    from usd_ros_bridge.model.message_types import TypeCatalog
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
    """

    asset: str
    read_options: ReadOptions
    plan_options: PlanOptions
    catalog: TypeCatalog | None
    physics: bool
    describes: bool
    mesh_directory: str | os.PathLike[str] | None


class PlannerProcess:
    """A planner process, as the process that started it sees it. It ends with that process, or by `close`."""

    def __init__(self) -> None:
        """Start the process. If that fails, `plan` says why."""
        self._process: subprocess.Popen[bytes] | None = None
        self._fault = ""
        self._start()

    def __enter__(self) -> PlannerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

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
        from usd_ros_bridge.usd.session import DeferredStage

        with gc_paused():
            plan, switchable = self._ask(job, progress or (lambda _: None))
        if not job.describes:
            self.close()
        stage = DeferredStage(
            job.asset,
            job.read_options,
            robots=robot_chooser(job.plan_options),
            switchable=switchable,
            describer=self if job.describes else None,
        )
        made: BridgePlan = replace(plan, stage=stage, options=job.plan_options, catalog=job.catalog)
        return made

    def _ask(self, job: PlanJob, begin: Progress) -> tuple[BridgePlan, Mapping[str, bool]]:
        """Send a job to the process. Return the plan, and what its services can switch."""
        if self._process is None:
            raise PlannerError(self._fault)
        try:
            assert self._process.stdin is not None
            pickle.dump(job, self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
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

    def _start(self) -> None:
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


def start_planner() -> PlannerProcess:
    """Start a planner process, which loads OpenUSD and waits for its job. Only in processes of the bridge's own."""
    return PlannerProcess()


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
            job = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
            Thread(target=_end_with_parent, daemon=True).start()
            planner = _Planner(job, results)
            if missing is None:
                planner.run()
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

    def run(self) -> None:
        """Send the plan, then the description of each robot."""
        from usd_ros_bridge.api import load_plan
        from usd_ros_bridge.errors import BridgeError
        from usd_ros_bridge.usd import quiet

        job = self._job
        with quiet():
            try:
                plan = load_plan(
                    job.asset,
                    read_options=job.read_options,
                    plan_options=job.plan_options,
                    catalog=job.catalog,
                    physics=job.physics,
                    progress=partial(self._send, _PHASE),
                )
            except BridgeError as error:
                self.refuse(error)
                return
            self._send(_PLAN, replace(plan, stage=None, catalog=None), _switchable(plan))
            if job.describes:
                if hasattr(os, "nice"):
                    os.nice(_NICENESS)
                self._describe(plan)
                self._send(_DONE)

    def refuse(self, error: BridgeError) -> None:
        """Send an error in place of the plan."""
        self._send(_ERROR, error)

    def _describe(self, plan: BridgePlan) -> None:
        """Send the description of each robot, as `ros.description.description_builder` makes it."""
        from usd_ros_bridge.api import read_physics
        from usd_ros_bridge.errors import BridgeError
        from usd_ros_bridge.export.mesh_files import MeshCache, installed_meshes
        from usd_ros_bridge.export.urdf import UrdfExporter
        from usd_ros_bridge.reporting import describe

        try:
            whole = read_physics(plan, plan.options)()
            meshes = None
            try:
                directory, asset = self._job.mesh_directory, self._job.asset
                meshes = MeshCache(directory, installed=None if directory else installed_meshes(asset))
            except BridgeError:
                self._send(_NO_MESHES)
            exporter = UrdfExporter(whole, meshes=meshes)
            for robot in range(len(whole.robots)):
                self._send(_ROBOT, robot, exporter.robot(robot))
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - shown by the bridge, which goes on without descriptions
            self._send(_FAILED, describe(error))

    def _send(self, *message: Any) -> None:
        pickle.dump(message, self._results, protocol=pickle.HIGHEST_PROTOCOL)
        self._results.flush()


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

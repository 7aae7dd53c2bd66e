"""Build robot descriptions in a thread: read the stage's shapes, and write a URDF for each robot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from usd_ros_bridge.api import read_physics
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.urdf import Urdf, UrdfExporter
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planner_process import PlannerError, PlannerProcess
from usd_ros_bridge.process_settings import short_switch_interval
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.usd.session import StageSession

if TYPE_CHECKING:
    from usd_ros_bridge.usd.session import StageLock

Finish = Callable[[], BridgePlan]
"""Make a plan of the records of a stage."""
InTick = Callable[[Callable[[], Finish]], "Future[Finish]"]
"""`in_tick(job)`: run a job in the tick thread, where a host's stage may be read."""
WaitForTick = Callable[[Callable[[int], bool]], None]
"""`wait_for_tick(wants)`, as `Runtime.wait_for_tick`."""

_REST = 3.0
"""How long the thread rests after each robot, and after a plan, as a multiple of what that took: a thousand robots, or
changes that follow each other closely, are not to cost the ticks more than a quarter of a core."""
_LONGEST_REST_S = 2.0
_JOIN_S = 1.0
_SUPERSEDED_S, _LOOK_S = 1.0, 0.05
_QUIET_S = 0.5
"""How long nothing changes before what has changed is described: each description takes as long as a change."""
_LONGEST_UNREST_S = 30.0
_NOTHING = object()


class _Interrupted(Exception):  # noqa: N818 - nothing is wrong
    """Somebody wants the stage: most likely it is not what was to be described any more."""


class DescriptionReceiver(Protocol):
    """Receive descriptions, in the thread that builds them."""

    def receive(self, plan: BridgePlan, robot: int, urdf: Urdf) -> None:
        """Receive the description of a robot of a requested plan."""
        ...

    def fail(self, plan: BridgePlan, reason: str) -> None:
        """Receive the reason why a requested plan gets no further description."""
        ...


class DescriptionBuilder:
    """Build the descriptions of the latest requested plan.

    The thread exists while there is something to build. It is no daemon: a daemon that is killed inside OpenUSD at the
    end of the interpreter crashes the process. It checks often whether it should end.
    """

    def __init__(
        self,
        receiver: DescriptionReceiver,
        *,
        meshes: Callable[[], MeshCache | None],
        in_tick: InTick,
        wait_for_tick: WaitForTick,
        defer: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            receiver: Gets the descriptions.
            meshes: Returns where the mesh files of a plan are put, None for nowhere; asked where descriptions are made.
            in_tick: Where a stage of a host is read.
            wait_for_tick: Wait until the tick in progress ends.
            defer: Runs a job soon: descriptions are made there, one a job, where there is to be no thread.
        """
        self._receiver = receiver
        self._meshes = meshes
        self._in_tick = in_tick
        self._wait_for_tick = wait_for_tick
        self._defer = defer
        self._steps: Iterator[None] = iter(())
        self._work = threading.Condition()
        self._wanted: tuple[BridgePlan, Callable[[], Finish]] | None = None
        self._plan: BridgePlan | None = None
        self._planner: PlannerProcess | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._is_first = True
        self._unrest_since: float | None = None

    def request(self, plan: BridgePlan) -> None:
        """Build the descriptions of all robots of a plan; drop those of earlier plans that are not built yet."""
        self._plan = plan
        self._end_planner()
        self._planner = StageSession(plan.stage).take_describer()
        if plan.physics is not None or plan.stage is None or plan.stage_owned:
            self._want(plan, lambda: _read(plan, self._pause))
            return

        def read() -> Finish:
            return read_physics(plan, plan.options)

        def hand_over(future: Future[Finish]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is not None:
                self._fail(plan, f"the stage could not be read: {describe(error)}")
            elif self._is_wanted(plan):
                self._want(plan, future.result)

        self._in_tick(read).add_done_callback(hand_over)

    def close(self) -> None:
        """End the thread; wait for it only shortly. Idempotent."""
        with self._work:
            self._closed = True
            self._wanted = self._plan = None
            thread, self._thread = self._thread, None
            self._work.notify_all()
        self._end_planner()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def _end_planner(self) -> None:
        planner, self._planner = self._planner, None
        if planner is not None:
            planner.close()

    def _is_wanted(self, plan: BridgePlan) -> bool:
        return self._plan is plan and not self._closed

    def _want(self, plan: BridgePlan, read: Callable[[], Finish]) -> None:
        with self._work:
            if not self._is_wanted(plan):
                return
            self._wanted = plan, read
            if self._defer is not None:
                self._defer(self._step)
            elif self._thread is None:
                self._thread = threading.Thread(target=self._run, name="usd_ros_bridge-description")
                self._thread.start()
            else:
                self._work.notify_all()

    def _run(self) -> None:
        """Build requested plans; in the thread."""
        while True:
            with self._work:
                self._settle()
                wanted, self._wanted = self._wanted, None
                if self._closed or wanted is None:
                    if not self._closed:
                        self._thread = None
                    return
            # Time of the processor, so that a wait for the planner process is no work.
            start = last = time.thread_time()
            steps = self._make(*wanted)
            while True:
                with short_switch_interval():
                    if next(steps, _NOTHING) is _NOTHING:
                        break
                self._rest(time.thread_time() - last)
                last = time.thread_time()
            # A reference here would keep a plan, and its stage, alive while the thread rests.
            del wanted
            self._rest(time.thread_time() - start)

    def _settle(self) -> None:
        """Wait until no further change has come for a moment. The first plan does not wait."""
        is_first, self._is_first = self._is_first, False
        if is_first:
            return
        now = time.monotonic()
        if self._unrest_since is None:
            self._unrest_since = now
        until, latest = now + _QUIET_S, self._unrest_since + _LONGEST_UNREST_S
        while not self._closed and self._wanted is not None and now < min(until, latest):
            before = self._wanted
            self._work.wait(min(until, latest) - now)
            now = time.monotonic()
            if self._wanted is not before:
                until = now + _QUIET_S

    def _rest(self, worked: float) -> None:
        """Rest after so many seconds of work, so that ticks get their share of the processor."""
        until = time.monotonic() + min(_LONGEST_REST_S, _REST * worked)
        with self._work:
            while not self._closed and (left := until - time.monotonic()) > 0.0:
                self._work.wait(left)

    def _wait_for_another(self, plan: BridgePlan) -> None:
        """Wait a moment for the next plan, when the stage does not fit this one."""
        until = time.monotonic() + _SUPERSEDED_S
        with self._work:
            while self._is_wanted(plan) and (left := until - time.monotonic()) > 0.0:
                self._work.wait(min(left, _LOOK_S))

    def _step(self) -> None:
        """Build one description, as a deferred job."""
        with self._work:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._steps = self._make(*wanted)
        for _ in self._steps:
            assert self._defer is not None
            self._defer(self._step)
            return

    def _make(self, plan: BridgePlan, read: Callable[[], Finish]) -> Iterator[None]:
        """Build descriptions, one in each step."""
        try:
            for robot, urdf in self._each(plan, read):
                self._receiver.receive(plan, robot, urdf)
                yield
            # Made, or overtaken: the next one has as long to wait for quiet as this one had.
            self._unrest_since = None
        except _Interrupted:
            with self._work:
                if self._wanted is None and self._is_wanted(plan):
                    self._wanted = plan, read
        except Exception as error:  # noqa: BLE001 - the bridge goes on without descriptions
            # An edit may have come between planning and this reading: then the plan of what it made comes next.
            if self._defer is None:
                self._wait_for_another(plan)
            self._fail(plan, describe(error))

    def _each(self, plan: BridgePlan, read: Callable[[], Finish]) -> Iterator[tuple[int, Urdf]]:
        planner = self._planner
        if planner is not None:
            try:
                yield from self._each_received(plan, planner)
            except PlannerError:
                # The stage is read here, then.
                pass
            else:
                return
        # Both may take seconds for a thousand robots.
        finish = read() if self._is_wanted(plan) else None
        if finish is None or not self._is_wanted(plan):
            return
        whole, meshes = finish(), self._meshes()
        exporter = UrdfExporter(whole, meshes=meshes)
        for robot in range(len(whole.robots)):
            if not self._is_wanted(plan):
                return
            self._wait_for_tick(_nobody)
            yield robot, exporter.robot(robot)

    def _each_received(self, plan: BridgePlan, planner: PlannerProcess) -> Iterator[tuple[int, Urdf]]:
        """Yield what the planner process makes.

        Raises:
            PlannerError: It ended before.
        """
        for received in planner.descriptions():
            if not self._is_wanted(plan):
                return
            if received is None:
                # Says why.
                self._meshes()
            elif isinstance(received, str):
                self._fail(plan, received)
            else:
                yield received
        self._planner = None

    def _pause(self, turn: StageLock) -> None:
        """Wait for the tick in progress, and give way to editors of the stage unless that takes too long."""
        self._wait_for_tick(turn.is_wanted_by)
        if self._defer is None and turn.is_wanted:
            since = self._unrest_since
            if since is None or time.monotonic() < since + _LONGEST_UNREST_S:
                raise _Interrupted

    def _fail(self, plan: BridgePlan, reason: str) -> None:
        if self._is_wanted(plan):
            self._receiver.fail(plan, reason)


def _nobody(_thread: int) -> bool:
    return False


def _read(plan: BridgePlan, pause: Callable[[StageLock], None]) -> Finish:
    """Read the physics of the bridge's own stage, if the plan has none yet."""
    if plan.physics is not None or plan.stage is None:
        return lambda: plan
    turn = StageSession(plan.stage).lock
    with turn:
        return read_physics(plan, plan.options, pause=lambda: pause(turn))

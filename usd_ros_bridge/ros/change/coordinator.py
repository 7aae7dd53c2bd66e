"""Changes of a running bridge: one after another, planned during ticks and committed between two of them.

A thread of its own reads the stage, plans and prepares while the bridge runs. A host's stage is read between two ticks,
in the host's thread, as the host may edit it at any other time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from usd_ros_bridge.api import read_opinions, reread
from usd_ros_bridge.backends.base import BackendInput
from usd_ros_bridge.errors import AssetError, BridgeError, ChangeRefusedError
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions, VariantSelection
from usd_ros_bridge.planning.diff import why_refused
from usd_ros_bridge.process_settings import ended_if_stuck, short_switch_interval
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.runtime.inbox import TickQueue
from usd_ros_bridge.runtime.plan_binding import PlanComponent, PreparedChange, check_served_shard
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.usd.session import StageSession

T = TypeVar("T")

Edit = Callable[[Any], object]
"""`edit(stage)` edits a stage; an exception refuses the change."""

_JOIN_S = 10.0
_POLL_S = 0.1
EDITED = "an edit of the stage"
READ_ONLY = "the stage is the host's and read only (scene_edits=True lets the bridge edit its session layer)"
CLOSED = "the bridge is closed"


class SafePoints:
    """Run jobs between ticks or callbacks, and wait for them from another thread."""

    def __init__(self, tick_queue: TickQueue, domains: Domains, *, closed: str) -> None:
        """Store the arguments.

        Args:
            tick_queue: Jobs between two ticks.
            domains: Domains whose callbacks must not run beside a job.
            closed: Text of the exception if nobody runs jobs any more.
        """
        self._tick_queue = tick_queue
        self._domains = domains
        self._reason = closed
        self._closed = False

    def close(self) -> None:
        """Stop waiting for jobs that nobody runs any more. Idempotent."""
        self._closed = True

    def run_between_ticks(self, job: Callable[[], T]) -> T:
        """Run a job between two ticks, in the tick thread, and return its result.

        Raises:
            BridgeError: The bridge is closed.
        """
        result: list[T] = []
        self._wait(self._tick_queue.submit(lambda: result.append(job())))
        return result[0]

    def run_without_callbacks(self, job: Callable[[], None]) -> None:
        """Run a job while no callback of any domain runs: entities may be destroyed there.

        Raises:
            BridgeError: The bridge is closed.
        """
        opened = self._domains.opened
        # One thread polls all that have none: while it runs the job, none of them has callbacks.
        polled = [each for each in opened if not each.threaded]
        self._run_in_domains([*(each for each in opened if each.threaded), *polled[:1]], job)

    def _run_in_domains(self, domains: list[Domain], job: Callable[[], None]) -> None:
        done: Future[None] = Future()
        domain, rest = domains[0], domains[1:]

        def run() -> None:
            try:
                if rest:
                    self._run_in_domains(rest, job)
                else:
                    job()
            except Exception as error:  # noqa: BLE001 - it goes to the thread that waits
                done.set_exception(error)
            else:
                done.set_result(None)

        domain.defer(run)
        self._wait(done)

    def _wait(self, future: Future[T]) -> T:
        while not wait((future,), _POLL_S).done:
            if self._closed and future.cancel():
                raise BridgeError(self._reason)
        return future.result()


@dataclass(slots=True, eq=False)
class _Request:
    why: str
    variants: tuple[VariantSelection, ...] | None = None
    options: Callable[[PlanOptions], PlanOptions] | None = None
    edit: Edit | None = None
    done: Future[ChangeReport] = field(default_factory=Future)

    def fail(self, error: BaseException) -> None:
        if self.done.set_running_or_notify_cancel():
            self.done.set_exception(error)


@dataclass(frozen=True, slots=True, eq=False)
class _LivePlan:
    """Plan that has just become live, what changed with it, and how long that took."""

    before: BridgePlan
    plan: BridgePlan
    changes: list[PreparedChange]
    planned: float
    swap_s: float


class ChangeCoordinator:
    """Change a running bridge to another plan. Everything under "Requests" is thread-safe.

    Components that follow from the plan register in order. A change prepares them in that order, commits all of them
    between two ticks, and cleans up. If one of them cannot be prepared, the others roll back. Once the plan is live, a
    component that raises is reported, and the others continue.
    """

    def __init__(
        self,
        runtime: Runtime,
        domains: Domains,
        *,
        served_plan: Callable[[BridgePlan, Iterable[BackendInput]], BridgePlan],
    ) -> None:
        """Store the arguments; `open` starts.

        Args:
            runtime: Open, with the plan that is live.
            domains: Domains of the bridge.
            served_plan: Return a plan without the interfaces that the bridge does not serve, given the topics that
                its backend needs.
        """
        self._runtime = runtime
        self._domains = domains
        self._served_plan = served_plan
        plan = runtime.plan
        self._editable = plan.stage_owned or runtime.options.scene_edits
        self._plan_options, self._variants = plan.options, plan.variants
        self._components: list[PlanComponent] = []
        self._session: StageSession | None = None
        self._editor: Any = None
        self._listener: Any = None
        self._condition = threading.Condition()
        self._waiting: list[_Request] = []
        self._served: list[_Request] = []
        self._edited = False
        self._closed = False
        self._thread: threading.Thread | None = None
        # Steps at the end of a change, in order. If the bridge closes before, `close` runs them.
        self._component_leftovers: deque[Callable[[], None]] = deque()
        self._runtime_leftovers: deque[Callable[[], None]] = deque()
        self._listeners: list[Callable[[ChangeReport], None]] = []
        self._safe_points = SafePoints(runtime.tick_queue, domains, closed=CLOSED)

    # --- Life cycle --------------------------------------------------------------------------------------------

    def register(self, component: PlanComponent) -> None:
        """Add a component that changes with the plan; before `open`."""
        self._components.append(component)

    def open(self) -> None:
        """Get ready for requests."""
        stage = self._runtime.plan.stage
        if stage is None:
            return
        self._session = StageSession(stage)
        self._session.when_open(self._open_editors)

    def stop(self) -> None:
        """End the thread and fail waiting requests, while the domains still run. Idempotent."""
        if self._session is not None:
            self._session.forget(self._open_editors)
        with self._condition:
            self._closed = True
            self._safe_points.close()
            listener = self._listener
            waiting, self._waiting = self._waiting, []
            self._condition.notify_all()
        if listener is not None:
            listener.close()
        for request in waiting:
            # The thread fails those that it serves.
            if request not in self._served:
                request.fail(BridgeError(CLOSED))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def close(self) -> None:
        """Finish a change that was cut off, and release the stage, components and listeners. Idempotent.

        After `stop`, while no callback runs.
        """
        self._run_all(self._component_leftovers)
        self._run_all(self._runtime_leftovers)
        self._components.clear()
        self._listeners.clear()
        self._listener = self._editor = self._session = None

    # --- Requests ----------------------------------------------------------------------------------------------

    @property
    def plan(self) -> BridgePlan:
        """The plan that is live."""
        return self._runtime.plan

    @property
    def plan_options(self) -> PlanOptions:
        """Options of the plan, with those of waiting requests."""
        with self._condition:
            options = self._plan_options
            for request in self._waiting:
                if request.options is not None:
                    options = request.options(options)
        return options

    @property
    def variants(self) -> tuple[VariantSelection, ...]:
        """Selections that override authored ones, with those of waiting requests."""
        with self._condition:
            asked = [each.variants for each in self._waiting if each.variants is not None]
            return asked[-1] if asked else self._variants

    def check_shard(self, options: PlanOptions) -> None:
        """Check that the backend may serve the shard of plan options.

        Raises:
            OptionError: It is one of several shards, and the backend owns time.
        """
        check_served_shard(options, self._runtime.backend)

    def refuse_variants(self, selections: Sequence[VariantSelection]) -> str:
        """Return why selections are not possible, "" if they are. Reads the stage, and may wait for it."""
        session = self._session
        if session is None:
            return "the plan has no stage to select variants on"
        if not self._editable:
            return READ_ONLY
        try:
            with session.lock:
                _ = session.stage
                return str(self._editor.refuse_variants(selections))
        except AssetError as error:
            return str(error)

    def request(
        self,
        *,
        why: str,
        variants: Sequence[VariantSelection] | None = None,
        options: Callable[[PlanOptions], PlanOptions] | None = None,
        edit: Edit | None = None,
    ) -> Future[ChangeReport]:
        """Request a change: read the stage again and use the plan that it gives.

        Waiting requests are served together. A refused change leaves everything that runs, and takes back its edits of
        the stage's session layer and its options.

        Args:
            why: Text for people.
            variants: All selections that override authored ones; earlier ones that are not among them end.
            options: Return the new options, given those that hold.
            edit: Edit the stage before it is read.

        Returns:
            Future report. It fails with BridgeError, which says why, if the change is refused.
        """
        selections = None if variants is None else tuple(variants)
        request = _Request(why, selections, options, edit)
        with self._condition:
            closed = self._closed
            if not closed:
                self._waiting.append(request)
                self._wake()
        if closed:
            request.fail(BridgeError(CLOSED))
        return request.done

    def on_change(self, call: Callable[[ChangeReport], None]) -> None:
        """Call `call(report)` after each change, in the executor of the bridge's node."""
        self._listeners.append(call)

    # --- The thread --------------------------------------------------------------------------------------------

    def _open_editors(self) -> None:
        """Get ready to edit the stage, and follow edits; once it is open, in any thread."""
        session = self._session
        if session is None:
            return
        self._editor = session.variant_editor(self._variants)
        if not self._runtime.options.follow_edits:
            return
        listener = session.listener(self._on_edit, owned=self._runtime.plan.stage_owned).open()
        with self._condition:
            closed = self._closed
            if not closed:
                self._listener = listener
        if closed:
            listener.close()

    def _on_edit(self) -> None:
        """Note an edit of the stage, in the editor's thread."""
        with self._condition:
            self._edited = True
            self._wake()

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="usd_ros_bridge-changes", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._edited or self._closed)
                if self._closed:
                    return
                # They count as waiting, for `plan_options` and `variants`, until they are served.
                requests, edited, self._edited = list(self._waiting), self._edited, False
                self._served = requests
            with short_switch_interval():
                # Every change uses the whole stage as it is by then, edits included.
                if not self._serve(requests) and edited:
                    self._serve([_Request(EDITED)])

    def _serve(self, requests: list[_Request]) -> bool:
        """Serve requests, together if possible. Return whether the plan changed."""
        listener = self._listener
        if listener is not None:
            listener.take()
        self._forget([each for each in requests if each.done.cancelled()])
        requests = [each for each in requests if not each.done.cancelled()]
        try:
            with ended_if_stuck():
                report = self._change(requests) if requests else None
        except Exception as error:  # noqa: BLE001 - it goes to whoever asked
            if len(requests) > 1:
                # Serve them one by one: only some of them may be refused.
                happened = [self._serve([request]) for request in requests]
                return any(happened)
            self._forget(requests)
            self._refuse(requests[0], error)
            return False
        self._forget(requests)
        if report is not None:
            for request in requests:
                if request.done.set_running_or_notify_cancel():
                    request.done.set_result(report)
        return report is not None

    def _forget(self, requests: list[_Request]) -> None:
        with self._condition:
            self._waiting = [each for each in self._waiting if each not in requests]

    def _refuse(self, request: _Request, error: Exception) -> None:
        if self._closed:
            error = BridgeError(CLOSED)
        elif not isinstance(error, BridgeError):
            self._runtime.reporter.report("change.failed", f"{request.why}: {describe(error)}")
            error = ChangeRefusedError(describe(error))
        elif request.why == EDITED:
            self._runtime.reporter.report(
                f"change.refused:{error}", f"{request.why} changes nothing that runs: {error}"
            )
        request.fail(error)

    # --- One change --------------------------------------------------------------------------------------------

    def _change(self, requests: list[_Request]) -> ChangeReport:
        """Edit and read the stage as requested, plan it, and use the plan."""
        if self._closed:
            raise BridgeError(CLOSED)
        began = time.perf_counter()
        why = ", ".join(dict.fromkeys(request.why for request in requests))
        options = self._plan_options
        for request in requests:
            if request.options is not None:
                options = request.options(options)
        undo: list[Callable[[], None]] = []
        try:
            make_plan = self._read_stage(requests, options, undo)
            self._wait_for_tick()
            plan = make_plan()
            if reason := why_refused(self._runtime.plan, plan):
                raise ChangeRefusedError(reason)
            if plan.diagnostics:
                find_lines = self._on_stage(lambda: read_opinions(plan))
                self._wait_for_tick()
                plan = find_lines()
            live = self._use_plan(plan)
        except BaseException:
            if undo:
                self._on_stage(undo[0])
            raise
        # From here on nothing rolls back: the plan is live.
        return self._finish(live, why, began)

    def _read_stage(
        self, requests: list[_Request], options: PlanOptions, undo: list[Callable[[], None]]
    ) -> Callable[[], BridgePlan]:
        """Edit the stage as requested and read it. Return a function that plans it."""
        plan, session = self._runtime.plan, self._session
        if session is None:
            raise ChangeRefusedError("the plan has no stage to read again")
        variants = [request.variants for request in requests if request.variants is not None]
        edits = [request.edit for request in requests if request.edit is not None]
        if (variants or edits) and not self._editable:
            raise ChangeRefusedError(READ_ONLY)

        def read() -> Callable[[], BridgePlan]:
            if variants or edits or plan.stage_owned:
                # Which robots are composed is said on the session layer, too.
                undo.append(self._editor.savepoint())
            for edit in edits:
                edit(session.stage)
            if variants:
                self._editor.select(variants[-1])
            return reread(plan, options, variants=self._editor.selections, pause=self._wait_for_tick)

        return self._on_stage(read)

    def _on_stage(self, job: Callable[[], T]) -> T:
        """Run a job with the stage while nobody else edits it; its notices do not count as edits."""
        plan, session = self._runtime.plan, self._session
        if session is None:
            raise BridgeError(CLOSED)

        def run() -> T:
            self._wait_for_tick()
            with session.lock:
                # A deferred stage is opened here at the latest: then there are an editor and a listener.
                _ = session.stage
                if self._listener is None:
                    return job()
                with self._listener.own_edits():
                    return job()

        return run() if plan.stage_owned else self._safe_points.run_between_ticks(run)

    def _wait_for_tick(self) -> None:
        """Let the tick in progress end."""
        if (session := self._session) is not None:
            self._runtime.wait_for_tick(session.lock.is_wanted_by)

    def _use_plan(self, plan: BridgePlan) -> _LivePlan:
        """Prepare all components for a plan and commit them; if that is not possible, roll back what is prepared."""
        before = self._runtime.plan
        try:
            changes = self._prepare(plan)
            planned = time.perf_counter()
            swap_s = self._safe_points.run_between_ticks(lambda: self._commit(changes))
        except BaseException:
            self._close_leftovers()
            raise
        self._plan_options, self._variants = plan.options, plan.variants
        return _LivePlan(before, plan, changes, planned, swap_s)

    def _prepare(self, plan: BridgePlan) -> list[PreparedChange]:
        """Prepare the runtime, then all components in order. They are rolled back in the opposite order."""
        self._wait_for_tick()
        binding, of_runtime = self._runtime.prepare(plan)
        self._runtime_leftovers.append(of_runtime.rollback)
        changes = [of_runtime]
        served = self._served_plan(plan, binding.inputs)
        for component in self._components:
            self._wait_for_tick()
            change = component.prepare(served, binding)
            self._component_leftovers.appendleft(change.rollback)
            changes.append(change)
        return changes

    def _commit(self, changes: Sequence[PreparedChange]) -> float:
        """Commit all changes, the runtime's first. Return the seconds that it took.

        If the runtime's raises, nothing is committed. After it nothing rolls back any more: one component that raises
        is reported, and the others are committed.
        """
        began = time.perf_counter()
        of_runtime, *of_components = changes
        with self._runtime.lock:
            if self._closed or self._runtime.stopped:
                raise BridgeError(CLOSED)
            of_runtime.commit()
            # They hold the rollbacks of this change alone: those before ran to their ends.
            self._runtime_leftovers.clear()
            self._component_leftovers.clear()
            self._runtime_leftovers.append(of_runtime.cleanup)
            for change in of_components:
                self._attempt(change.commit, None)
                self._component_leftovers.append(change.cleanup)
        return time.perf_counter() - began

    def _finish(self, live: _LivePlan, why: str, began: float) -> ChangeReport:
        """Clean up after a plan has become live, open the rest, and notify."""
        self._close_leftovers()
        for change in live.changes:
            self._attempt(change.finish, None)
        report = ChangeReport(
            why=why,
            opened=tuple(chain.from_iterable(self._attempt(change.opened, ()) for change in live.changes)),
            closed=tuple(chain.from_iterable(self._attempt(change.closed, ()) for change in live.changes)),
            kept=sum(change.kept for change in live.changes),
            found=tuple(each for each in live.plan.diagnostics if each not in live.before.diagnostics),
            planning_s=live.planned - began,
            swap_s=live.swap_s,
        )
        self._safe_points.run_without_callbacks(lambda: self._notify(report))
        return report

    def _close_leftovers(self) -> None:
        """Close what was opened for a change that is refused, or what only the old plan needed.

        Raises:
            BridgeError: The bridge is closed: `close` closes what is left.
        """
        try:
            self._safe_points.run_without_callbacks(lambda: self._run_all(self._component_leftovers))
        finally:
            if not self._closed:
                self._run_all(self._component_leftovers)
                # A backend may take long to close, and callbacks need not wait for it.
                self._run_all(self._runtime_leftovers)
        # Not in a callback, as a domain waits for its own callbacks to end.
        self._attempt(lambda: self._domains.close_unused(self._runtime.plan), None)

    def _run_all(self, steps: deque[Callable[[], None]]) -> None:
        while steps:
            self._attempt(steps.popleft(), None)

    def _attempt(self, step: Callable[[], T], otherwise: T) -> T:
        """Run a step that must not keep the others from theirs. Return its result; `otherwise` if it raises."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - the others go on
            self._runtime.reporter.report("change.failed", f"a part of a change failed: {describe(error)}")
            return otherwise

    def _notify(self, report: ChangeReport) -> None:
        for call in tuple(self._listeners):
            try:
                call(report)
            except Exception as error:  # noqa: BLE001 - the change has happened
                self._runtime.reporter.report("change.told", f"{report.why}: {describe(error)}")

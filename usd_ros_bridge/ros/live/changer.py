"""The changer: has a running bridge go on with what its stage or its options have become, one change after another.

A thread of its own reads the stage, plans and prepares, while the bridge goes on; what is prepared takes over between
two ticks. A host's stage is read between two ticks, too, in the host's thread: nobody else knows when it is edited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from usd_ros_bridge.api import reread
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.errors import BridgeError, ChangeRefusedError
from usd_ros_bridge.model.options import PlanOptions, VariantSelection
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning.acceptance import why_refused
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.live.places import Places
from usd_ros_bridge.ros.live.protocol import Edit
from usd_ros_bridge.ros.live.sharing import short_turns
from usd_ros_bridge.ros.own_time import OwnTime
from usd_ros_bridge.ros.plan_parts import PartsRevision, PlanParts
from usd_ros_bridge.runtime.report import describe

T = TypeVar("T")

_JOIN_S = 10.0
EDITED = "an edit of the stage"
READ_ONLY = "the stage is the host's and read only (scene_edits=True lets the bridge edit its session layer)"
CLOSED = "the bridge is closed"


@dataclass(slots=True, eq=False)
class _Request:
    why: str
    variants: tuple[VariantSelection, ...] | None = None
    options: Callable[[PlanOptions], PlanOptions] | None = None
    edit: Edit | None = None
    done: Future[ChangeReport] = field(default_factory=Future)


class Changer:
    """Carries out changes of one open bridge, as `Changes` says."""

    def __init__(
        self,
        runtime: GuardedRuntime,
        parts: PlanParts,
        domains: Domains,
        *,
        own_time: OwnTime | None,
        lock: threading.RLock,
        adopt: Callable[[BridgePlan], None],
        edits: bool,
    ) -> None:
        """Stores what is changed; `open` begins to listen.

        Args:
            runtime: Open, with the plan that is live.
            parts: Open.
            domains: Where they live.
            own_time: Where the backend owns time.
            lock: Held by ticks, and by whoever closes the bridge.
            adopt: Told of a plan that is live from here on; between two ticks.
            edits: Whether a stage of the caller's may be edited.
        """
        self._runtime = runtime
        self._parts = parts
        self._domains = domains
        self._own_time = own_time
        self._lock = lock
        self._adopt = adopt
        plan = runtime.plan
        self._editable = plan.stage_owned or edits
        self._plan_options, self._variants = plan.options, plan.variants
        self._editor: Any = None
        self._turn: Any = None
        self._listener: Any = None
        self._condition = threading.Condition()
        self._waiting: list[_Request] = []
        self._served: list[_Request] = []
        self._edited = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._unfinished: list[Callable[[], None]] = []
        self._listeners: list[Callable[[ChangeReport], None]] = []
        self._places = Places(runtime.between, domains, closed=CLOSED)

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self, *, listen: bool) -> None:
        """Gets ready to be asked.

        Args:
            listen: Whether edits of the stage are to be followed, too.
        """
        stage = self._runtime.plan.stage
        if stage is None:
            return
        from usd_ros_bridge.usd.editing import VariantEditor
        from usd_ros_bridge.usd.notices import StageListener
        from usd_ros_bridge.usd.turns import turn_at

        self._turn = turn_at(stage)
        self._editor = VariantEditor(stage, self._variants)
        if listen:
            owned = self._runtime.plan.stage_owned
            self._listener = StageListener(stage, self._on_edit, owned=owned).open()

    def stop(self) -> None:
        """Ends the thread; what waits fails. While the domains still run. Idempotent."""
        if self._listener is not None:
            self._listener.close()
        with self._condition:
            self._closed = True
            self._places.close()
            waiting, self._waiting = self._waiting, []
            self._condition.notify_all()
        for request in waiting:
            # Those that are being carried out end where that ends.
            if request not in self._served:
                _fail(request, BridgeError(CLOSED))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def close(self) -> None:
        """Closes what a change that was cut off has left, and lets go of the stage and of listeners. Idempotent.

        After `stop`, where no callbacks run.
        """
        while self._unfinished:
            self._unfinished.pop()()
        self._listeners.clear()
        self._listener = self._editor = None

    # --- Asking ------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> BridgePlan:
        """The plan that is live."""
        return self._runtime.plan

    @property
    def plan_options(self) -> PlanOptions:
        """How it is made, with what was asked for and is not live yet."""
        with self._condition:
            options = self._plan_options
            for request in self._waiting:
                if request.options is not None:
                    options = request.options(options)
        return options

    @property
    def variants(self) -> tuple[VariantSelection, ...]:
        """The selections that override authored ones, with those that were asked for and are not live yet."""
        with self._condition:
            asked = [each.variants for each in self._waiting if each.variants is not None]
            return asked[-1] if asked else self._variants

    def refuse_variants(self, selections: Sequence[VariantSelection]) -> str:
        """Returns why selections are not possible, "" where they are."""
        stage = self._runtime.plan.stage
        if stage is None or self._editor is None:
            return "the plan has no stage to select variants on"
        if not self._editable:
            return READ_ONLY
        with self._turn:
            return str(self._editor.refuse_variants(selections))

    def request(
        self,
        *,
        why: str,
        variants: Sequence[VariantSelection] | None = None,
        options: Callable[[PlanOptions], PlanOptions] | None = None,
        edit: Edit | None = None,
    ) -> Future[ChangeReport]:
        """Asks for a change, as `Changes.request`."""
        selections = None if variants is None else tuple(variants)
        request = _Request(why, selections, options, edit)
        with self._condition:
            closed = self._closed
            if not closed:
                self._waiting.append(request)
                self._wake()
        if closed:
            _fail(request, BridgeError(CLOSED))
        return request.done

    def on_change(self, call: Callable[[ChangeReport], None]) -> None:
        """Has `call(report)` called after each change, where callbacks of the main node run."""
        self._listeners.append(call)

    # --- The thread --------------------------------------------------------------------------------------------

    def _on_edit(self) -> None:
        """Notes that the stage was edited, in the editor's thread."""
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
                # They stay in sight of those who ask what is to come until they are carried out.
                requests, edited, self._edited = list(self._waiting), self._edited, False
                self._served = requests
            with short_turns():
                # Any change that happens goes on with all that the stage is by then.
                if not self._serve(requests) and edited:
                    self._serve([_Request(EDITED)])

    def _serve(self, requests: list[_Request]) -> bool:
        """Carries requests out, together where that is possible; returns whether any change happened."""
        listener = self._listener
        if listener is not None:
            listener.take()
        self._forget([each for each in requests if each.done.cancelled()])
        requests = [each for each in requests if not each.done.cancelled()]
        try:
            report = self._carry_out(requests) if requests else None
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            if len(requests) > 1:
                # One of them spoils it for all.
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
        _fail(request, error)

    # --- One change --------------------------------------------------------------------------------------------

    def _carry_out(self, requests: list[_Request]) -> ChangeReport:
        began = time.perf_counter()
        why = ", ".join(dict.fromkeys(request.why for request in requests))
        options = self._plan_options
        for request in requests:
            if request.options is not None:
                options = request.options(options)
        undo: list[Callable[[], None]] = []
        try:
            finish = self._read(requests, undo)
            self._make_way()
            plan = finish(options)
            if reason := why_refused(self._runtime.plan, plan):
                raise ChangeRefusedError(reason)
            return self._enact(plan, why, began)
        except BaseException:
            if undo:
                self._on_stage(undo[0])
            raise

    def _read(
        self, requests: list[_Request], undo: list[Callable[[], None]]
    ) -> Callable[[PlanOptions], BridgePlan]:
        """Edits the stage as asked and reads it; returns what plans it."""
        plan = self._runtime.plan
        if plan.stage is None:
            raise ChangeRefusedError("the plan has no stage to read anew")
        asked = [request.variants for request in requests if request.variants is not None]
        edits = [request.edit for request in requests if request.edit is not None]
        if (asked or edits) and not self._editable:
            raise ChangeRefusedError(READ_ONLY)

        def read() -> Callable[[PlanOptions], BridgePlan]:
            if asked or edits:
                undo.append(self._editor.savepoint())
            for edit in edits:
                edit(plan.stage)
            if asked:
                self._editor.select(asked[-1])
            return reread(plan, variants=self._editor.selections, pause=self._make_way)

        return self._on_stage(read)

    def _on_stage(self, job: Callable[[], T]) -> T:
        """Does a job with the stage where nobody else edits it, and where its notices are the bridge's own."""
        plan, listener = self._runtime.plan, self._listener

        def take_turn() -> T:
            self._make_way()
            with self._turn:
                if listener is None:
                    return job()
                with listener.own_edits():
                    return job()

        return take_turn() if plan.stage_owned else self._places.between_ticks(take_turn)

    def _make_way(self) -> None:
        """Lets the tick in progress pass."""
        self._runtime.make_way(self._turn.is_wanted_by)

    def _enact(self, plan: BridgePlan, why: str, began: float) -> ChangeReport:
        """Has the bridge go on with a plan."""
        runtime, parts = self._runtime, self._parts
        before = runtime.parts
        self._make_way()
        coming = runtime.prepare(plan)
        revision = None
        try:
            self._make_way()
            revision = parts.revise(plan, coming)
            planned = time.perf_counter()
            swap_s = self._places.between_ticks(lambda: self._swap(revision))
        except BaseException:
            if runtime.parts is not coming:
                # Where the bridge is being closed meanwhile, no callbacks come to it: `close` does it then.
                self._unfinished = [lambda: coming.discard(before)]
                if revision is not None:
                    self._unfinished.append(lambda: parts.abandon(revision))
                    self._places.among_callbacks(lambda: parts.abandon(revision))
                coming.discard(before)
                self._unfinished = []
            raise
        self._plan_options, self._variants = plan.options, plan.variants
        self._unfinished = [lambda: before.discard(coming), lambda: parts.retire(revision)]
        self._places.among_callbacks(lambda: parts.retire(revision))
        before.discard(coming)
        self._unfinished = []
        self._leave_domains(plan)
        parts.complete(revision)
        if self._own_time is not None:
            self._own_time.join()
        report = ChangeReport(
            why=why,
            opened=revision.interfaces.opened,
            closed=revision.interfaces.closed,
            kept=len(revision.interfaces.kept),
            found=tuple(each for each in plan.diagnostics if each not in before.plan.diagnostics),
            planning_s=planned - began,
            swap_s=swap_s,
        )
        self._places.among_callbacks(lambda: self._tell(report))
        return report

    def _leave_domains(self, plan: BridgePlan) -> None:
        """Closes domains that nothing lives in any more."""
        interfaces = (*plan.topics, *plan.services, *plan.actions)
        wanted = {each.domain_id for each in interfaces if each.enabled}
        unused = self._domains.unused(wanted | {robot.domain_id for robot in plan.robots})
        if not unused:
            return
        own_time = self._own_time
        if own_time is not None:
            self._places.among_callbacks(lambda: own_time.leave(unused))
        self._domains.release(unused)

    def _swap(self, revision: PartsRevision) -> float:
        began = time.perf_counter()
        with self._lock:
            if self._closed or self._runtime.stopped:
                raise BridgeError(CLOSED)
            before = self._runtime.succeed(revision.coming)
            self._parts.switch(revision, before)
            self._adopt(revision.plan)
        return time.perf_counter() - began

    def _tell(self, report: ChangeReport) -> None:
        for call in tuple(self._listeners):
            try:
                call(report)
            except Exception as error:  # noqa: BLE001 - the change has happened
                self._runtime.reporter.report("change.told", f"{report.why}: {describe(error)}")


def _fail(request: _Request, error: BaseException) -> None:
    if request.done.set_running_or_notify_cancel():
        request.done.set_exception(error)

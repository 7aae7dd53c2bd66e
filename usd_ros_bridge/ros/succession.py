"""Succession: a bridge goes on with what its stage has become, from the state that the backend is in."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.protocol import SuccessorBackend
from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.simulation.spawn_options import BetweenTicks, SpawnOptions, Succession

if TYPE_CHECKING:
    from pxr import Usd

_LOOK_S = 0.1


def why_no_successor(plan: BridgePlan, runtime: GuardedRuntime, *, edits: bool) -> str:
    """Returns why nothing can be spawned; "" where it can.

    Args:
        plan: The plan.
        runtime: Open.
        edits: Whether a stage of the caller's may be edited.
    """
    if not isinstance(runtime.backend, SuccessorBackend):
        return f"the backend {type(runtime.backend).__name__} cannot go on with another scene"
    if plan.stage is None:
        return "the plan has no stage to spawn anything on"
    if not (plan.stage_owned or edits):
        return (
            "the stage is the host's and read only (scene_edits=True lets the bridge edit its session layer)"
        )
    return ""


def find_succession(
    plan: BridgePlan,
    runtime: GuardedRuntime,
    options: SpawnOptions,
    *,
    edits: bool,
    replan: Callable[[], BridgePlan],
    between_ticks: BetweenTicks,
) -> Succession | None:
    """Returns how entities are spawned; None where nobody asked for it or, with a report, it is not possible.

    Args:
        plan: The plan.
        runtime: Open.
        options: What may be spawned.
        edits: Whether a stage of the caller's may be edited.
        replan: Has the bridge go on with what the stage is now, and returns the plan of that.
        between_ticks: Has a job done while nothing moves.

    Raises:
        OptionError: A root is no directory.
    """
    stage, roots = plan.stage, options.directories()
    if not roots:
        return None
    why_not = why_no_successor(plan, runtime, edits=edits)
    if why_not or stage is None:
        runtime.reporter.report("spawn.unavailable", f"nothing can be spawned: {why_not}")
        return None
    return Succession(stage=stage, roots=roots, replan=replan, between_ticks=between_ticks)


def replanned(plan: BridgePlan, options: SpawnOptions) -> BridgePlan:
    """Returns the plan of what the stage of a plan is now."""
    made = load_plan(
        cast("Usd.Stage", plan.stage),
        plan_options=options.plan,
        catalog=options.catalog,
        physics=plan.physics is not None,
    )
    return replace(made, asset=plan.asset, stage_owned=plan.stage_owned)


def open_successor(
    old: GuardedRuntime, plan: BridgePlan, make: Callable[..., GuardedRuntime]
) -> GuardedRuntime:
    """Opens a runtime on another plan that goes on from where one stands; that one is left as it is.

    Args:
        old: Open, between two ticks.
        plan: The plan to come.
        make: Makes a runtime of a plan and a backend.

    Raises:
        BackendError: The backend cannot be opened on the plan.
    """
    backend = old.backend
    assert isinstance(backend, SuccessorBackend)
    runtime = make(plan, backend.successor(), wakeup=old.inbox.wakeup)
    runtime.open()
    try:
        assert isinstance(runtime.backend, SuccessorBackend)
        runtime.backend.take_over(backend)
    except BaseException:
        runtime.close()
        raise
    runtime.begin_at(old.now_ns)
    return runtime


def among_callbacks(domain: Domain, job: Callable[[], None], closed: Callable[[], bool]) -> None:
    """Does a job where no callback of a domain runs meanwhile: entities of its node may be destroyed there.

    Args:
        domain: The domain.
        job: What it raises is passed on.
        closed: Whether the bridge is being closed: then nobody may come to do it.
    """
    if not domain.threaded or domain.current:
        job()
        return
    done: Future[None] = Future()

    def run() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            done.set_exception(error)
        else:
            done.set_result(None)

    domain.defer(run)
    while True:
        try:
            done.result(_LOOK_S)
        except FutureTimeoutError:
            if closed() and done.cancel():
                raise BridgeError("the bridge was closed") from None
        else:
            return

"""A running bridge at a glance: its status, and one line for a log."""

from __future__ import annotations

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.interfaces import Interfaces
from usd_ros_bridge.ros.live.live import Live
from usd_ros_bridge.ros.own_time import OwnTime
from usd_ros_bridge.ros.plan_parts import PlanParts
from usd_ros_bridge.ros.status import BridgeStatus
from usd_ros_bridge.ros.transforms import Transforms


def overview(
    plan: BridgePlan,
    backend: str,
    runtime: GuardedRuntime,
    parts: PlanParts,
    live: Live,
    own_time: OwnTime | None,
) -> BridgeStatus:
    """Returns what a bridge is doing.

    Args:
        plan: The plan.
        backend: Name of the backend.
        runtime: Open.
        parts: Open.
        live: Open.
        own_time: Where the backend owns time.
    """
    counters, transforms = runtime.status(), parts.transforms
    rows = [
        *parts.interfaces.status(),
        *transforms.status(counters.time_ns or 0),
        *parts.descriptions.status(),
    ]
    rows += live.status()
    if own_time is not None:
        rows += own_time.interfaces()
    return BridgeStatus(
        asset=plan.asset,
        backend=backend,
        time_ns=counters.time_ns,
        ticks=counters.ticks,
        tick_seconds=runtime.tick_seconds,
        backend_errors=counters.backend_errors,
        interfaces=tuple(rows),
        moving_frames=transforms.moving,
        static_frames=transforms.static,
        robots=plan.robots,
        diagnostics=plan.diagnostics,
        reports=counters.reports,
        time=None if own_time is None else own_time.status(),
    )


def summary(interfaces: Interfaces, transforms: Transforms) -> str:
    """Returns one line: how much of what is live."""
    counts = interfaces.counts()
    words = [_counted(counts[kind], kind) for kind in ("topic", "service", "action")]
    frames = f"{_counted(transforms.moving, 'moving frame')} and {transforms.static} static"
    return f"{', '.join(words)}, {frames}: ready"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

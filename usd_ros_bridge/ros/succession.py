"""Succession: whether, and how, entities can be spawned into what a bridge simulates."""

from __future__ import annotations

from usd_ros_bridge.backends.protocol import SuccessorBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.live.protocol import Changes
from usd_ros_bridge.ros.simulation.spawn_options import BetweenTicks, SpawnOptions, Succession


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
    changes: Changes,
    between_ticks: BetweenTicks,
) -> Succession | None:
    """Returns how entities are spawned; None where nobody asked for it or, with a report, it is not possible.

    Args:
        plan: The plan.
        runtime: Open.
        options: What may be spawned.
        edits: Whether a stage of the caller's may be edited.
        changes: Has the bridge go on with what an edit makes of the stage.
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
    return Succession(stage=stage, roots=roots, changes=changes, between_ticks=between_ticks)

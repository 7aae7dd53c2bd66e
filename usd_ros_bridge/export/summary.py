"""Summary of a plan as JSON, for tools that inspect a running bridge: all interfaces, and why some are disabled."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from usd_ros_bridge.model.diagnostics import SEVERITIES, Diagnostic
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, InterfacePlan, RobotPlan, TopicPlan

VERSION = 1
"""Format version of the summary: it grows when a key goes or changes its meaning, not when one is added."""

MAX_FINDINGS = 100


def plan_summary(plan: BridgePlan, *, disabled: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the summary of a plan as values that `json.dumps` takes with `allow_nan=False`.

    Keys with an empty or default value are left out. `disabled` is the reason why an interface is not live. For the
    complete plan, see `plan_to_json`.

    Args:
        plan: The plan.
        disabled: Reasons, found when interfaces were opened, why an enabled one is not live, by prim path.
    """
    found = disabled or {}
    return {
        "version": VERSION,
        "asset": plan.asset,
        **_present(variants=_variants(plan)),
        "robots": [_robot(robot) for robot in plan.robots],
        "topics": [_interface(topic, found, **_topic(topic)) for topic in plan.topics],
        "services": [_interface(service, found) for service in plan.services],
        "actions": [_interface(action, found) for action in plan.actions],
        "controllers": [_controller(controller) for controller in plan.controllers],
        "diagnostics": _diagnostics(plan.diagnostics),
    }


def plan_summary_text(plan: BridgePlan, *, disabled: Mapping[str, str] | None = None) -> str:
    """Return `plan_summary` as one line of ASCII JSON."""
    return json.dumps(plan_summary(plan, disabled=disabled), separators=(",", ":"), allow_nan=False)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _variants(plan: BridgePlan) -> dict[str, dict[str, str]]:
    chosen: dict[str, dict[str, str]] = {}
    for each in plan.variants:
        chosen.setdefault(each.prim_path, {})[each.variant_set] = each.variant
    return chosen


def _robot(robot: RobotPlan) -> dict[str, Any]:
    static = sum(frame.static for frame in robot.frames)
    return {
        "path": robot.path,
        **_present(
            namespace=robot.namespace,
            domain_id=robot.domain_id,
            tf_topics=[topic for output in robot.tf_outputs for topic in (output.tf, output.tf_static)],
        ),
        "parent_frame": robot.parent_frame,
        "frames": {"moving": len(robot.frames) - static, "static": static},
        "joints": [dof.name for joint in robot.joints for dof in joint.dofs],
    }


def _interface(interface: InterfacePlan, disabled: Mapping[str, str], **more: Any) -> dict[str, Any]:
    reason = disabled.get(interface.path, "") if interface.enabled else interface.reason or "disabled"
    return {
        "path": interface.path,
        "role": interface.role,
        "name": interface.name,
        "type": interface.type,
        **_present(domain_id=interface.domain_id, **more, disabled=reason),
    }


def _topic(topic: TopicPlan) -> dict[str, Any]:
    rate = topic.publish_rate
    return {
        "rate": rate if rate is not None and math.isfinite(rate) else None,
        "frame_id": topic.frame_id if topic.role == "publisher" else "",
    }


def _controller(controller: ControllerPlan) -> dict[str, Any]:
    reason = "" if controller.enabled else controller.reason or "disabled"
    return {
        "path": controller.path,
        "schema": controller.schema,
        **_present(interfaces=list(controller.interfaces), joints=list(controller.joints), disabled=reason),
    }


def _diagnostics(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    every = tuple(diagnostics)
    counts = Counter(each.severity for each in every)
    worst = sorted((e for e in every if e.severity != "info"), key=lambda e: SEVERITIES.index(e.severity))
    findings = [
        {
            "code": each.code,
            "severity": each.severity,
            **_present(path=each.path, attribute=each.attribute),
            "message": each.message,
            **_present(remedy=each.remedy),
        }
        for each in worst[:MAX_FINDINGS]
    ]
    return {**{severity: counts[severity] for severity in SEVERITIES}, "findings": findings}

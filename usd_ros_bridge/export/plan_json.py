"""JSON of plans, of their summaries and differences: `inspect --json`, `diff --json`, and tools that inspect a bridge.

SI units, quaternions x y z w, a stable order.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from usd_ros_bridge.model.change import CHANGE_MARKS, PlanDifference
from usd_ros_bridge.model.diagnostics import SEVERITIES, Diagnostic
from usd_ros_bridge.model.physics import Actuator, Mesh, PhysicsScene, Shape, Tendon
from usd_ros_bridge.model.plan import (
    BridgePlan,
    ControllerPlan,
    InterfacePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    TopicPlan,
)
from usd_ros_bridge.spatial.pose import Pose

TOPIC_KEYS = "path role name type publish_rate frame_id domain_id qos enabled reason"
INTERFACE_KEYS = "path role name type domain_id enabled reason"
CONTROLLER_KEYS = "path schema interfaces joints enabled reason"
SENSOR_KEYS = "path prim schema values"
DIAGNOSTIC_KEYS = "code severity path attribute message remedy reason value layer line"
"""Attributes that are shown, in this order."""


def plan_to_json(plan: BridgePlan) -> dict[str, Any]:
    """Return the plan as values that `json.dumps` takes with `allow_nan=False`.

    Arrays are in traversal order; parents come before their child frames. A limit that does not exist is null; so are
    position and limits of a joint without exactly one degree of freedom. `physics` exists if the plan has it, and
    `sensors` if plug-ins feed any.
    """
    sensors = {"sensors": [_picked(each, SENSOR_KEYS) for each in plan.sensors]} if plan.sensors else {}
    physics = {} if plan.physics is None else {"physics": physics_to_json(plan.physics)}
    return {
        "asset": plan.asset,
        "robots": [_robot(robot) for robot in plan.robots],
        "topics": [_picked(topic, TOPIC_KEYS) for topic in plan.topics],
        "services": [_picked(service, INTERFACE_KEYS) for service in plan.services],
        "actions": [_picked(action, INTERFACE_KEYS) for action in plan.actions],
        "controllers": [
            {**_picked(controller, CONTROLLER_KEYS), **_present(chained=list(controller.chained))}
            for controller in plan.controllers
        ],
        **sensors,
        **physics,
        "diagnostics": [_picked(diagnostic, DIAGNOSTIC_KEYS) for diagnostic in plan.diagnostics],
    }


def engine_to_json(settings: Any) -> dict[str, Any]:
    """Return what MuJoCo makes of a plan's physics under the key `mujoco`: `unknown` says why it is not known.

    Args:
        settings: `EngineSettings`, or why they are not known, or None.
    """
    if settings is None:
        return {}
    return {"mujoco": {"unknown": settings} if isinstance(settings, str) else _plain_value(settings)}


def _picked(value: object, names: str) -> dict[str, Any]:
    return {name: _plain_value(getattr(value, name)) for name in names.split()}


def _robot(robot: RobotPlan) -> dict[str, Any]:
    return {
        **_picked(robot, "path namespace domain_id parent_frame"),
        "tf_topics": [topic for output in robot.tf_outputs for topic in (output.tf, output.tf_static)],
        "frames": [
            {**_picked(frame, "id parent path static"), **_plain_value(frame.parent_from_frame)}
            for frame in robot.frames
        ],
        "joints": [_joint(joint) for joint in robot.joints],
    }


def _joint(joint: JointPlan) -> dict[str, Any]:
    dof = joint.dofs[0] if len(joint.dofs) == 1 else None
    numbers = "position lower upper"
    return {
        **_picked(joint, "name path type parent child axis"),
        **(dict.fromkeys(numbers.split()) if dof is None else _picked(dof, numbers)),
    }


def physics_to_json(scene: PhysicsScene) -> dict[str, Any]:
    """Return the scene as values that `json.dumps` takes with `allow_nan=False`.

    Keys are the attributes of the model's classes. Bodies, joints, colliders and groups are named by prim path, the
    world by "". A limit that does not exist is null. A mesh is the number of its points and triangles.
    """
    paths = _Paths(scene)
    return {
        "gravity": list(scene.gravity),
        "timestep": scene.timestep,
        "solver": _plain_value(scene.solver),
        "mujoco_options": scene.mujoco_options,
        "bodies": [paths.named(each) for each in scene.bodies],
        "joints": [paths.named(each) for each in scene.joints],
        "colliders": [paths.named(each) for each in scene.colliders],
        "visuals": [paths.named(each) for each in scene.visuals],
        "apart_bodies": [[scene.bodies[row].path for row in pair] for pair in scene.apart_bodies],
        "apart_colliders": [[scene.colliders[row].path for row in pair] for pair in scene.apart_colliders],
        "groups": list(scene.groups),
        "apart_groups": [[scene.groups[row] for row in pair] for pair in scene.apart_groups],
        "sensors": [{"kind": type(each).__name__, **paths.named(each)} for each in scene.sensors],
        "tracks": [
            {"body": scene.bodies[each.row].path, "time": each.time.tolist()} for each in scene.tracks
        ],
        **{
            name: [paths.named(each) for each in getattr(scene, name)]
            for name in ("sites", "wraps", "tendons", "actuators")
        },
    }


class _Paths:
    """Replace indices by prim paths."""

    def __init__(self, scene: PhysicsScene) -> None:
        self._joints = scene.joints
        bodies, sites = scene.bodies, scene.sites
        self._referred: Mapping[str, Sequence[Any]] = {
            **dict.fromkeys(("body", "body0", "body1", "parent"), bodies),
            **dict.fromkeys(("site", "other_site", "side_site"), sites),
            "tendon": scene.tendons,
            "joint": scene.joints,
        }
        self._groups, self._wraps = scene.groups, scene.wraps

    def named(self, value: Any) -> dict[str, Any]:
        """Return the attributes of a body, joint, collider, visual, sensor, tendon or actuator."""
        # The group of a tendon or an actuator is MuJoCo's number.
        plain = ("group",) if isinstance(value, (Tendon, Actuator)) else ()
        return {
            each.name: getattr(value, each.name)
            if each.name in plain
            else self._attribute(each.name, getattr(value, each.name))
            for each in fields(value)
        }

    def _attribute(self, name: str, value: Any) -> Any:
        match name:
            case _ if name in self._referred:
                return "" if value < 0 else self._referred[name][value].path
            case "joints" if value and isinstance(value[0], tuple):
                return [[self._joints[row].path, coefficient] for row, coefficient in value]
            case "joints":
                return [self._joints[row].path for row in value]
            case "group":
                return None if value < 0 else self._groups[value]
            case "shape" if isinstance(value, int):
                return "" if value < 0 else self._wraps[value].path
            case "shape":
                return _shape(value)
            case "points" | "dofs":
                return [self.named(each) for each in value]
            case "mimic" if value is not None:
                return self.named(value)
        return _plain_value(value)


def _shape(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, Mesh):
        return {
            "type": "Mesh",
            "points": len(shape.points),
            "triangles": len(shape.triangles),
            "approximation": shape.approximation,
        }
    return {
        "type": type(shape).__name__,
        **{each.name: _plain_value(getattr(shape, each.name)) for each in fields(shape)},
    }


def _plain_value(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Pose):
        return {"translation": list(value.translation), "rotation": list(value.rotation)}
    if isinstance(value, (tuple, list)):
        return [_plain_value(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain_value(each) for name, each in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return {each.name: _plain_value(getattr(value, each.name)) for each in fields(value)}


def difference_to_json(found: PlanDifference) -> dict[str, Any]:
    """Return the difference as values that `json.dumps` takes with `allow_nan=False`. A missing value is null."""
    return {
        **{change: len(found.of(change)) for change in CHANGE_MARKS},
        "items": [_plain_value(item) for item in found],
        "degraded": {
            "added": [_picked(each, DIAGNOSTIC_KEYS) for each in found.degraded_added],
            "removed": [_picked(each, DIAGNOSTIC_KEYS) for each in found.degraded_removed],
        },
    }


# --- Summary of a plan ---

SUMMARY_VERSION = 1
"""Format version of the summary: it grows when a key goes or changes its meaning, not when one is added."""

MAX_FINDINGS = 100

_DIGEST_CHARACTERS = 16

Resolve = Callable[[InterfacePlan], str]
"""Return the name of an interface after remaps."""


def plan_summary(
    plan: BridgePlan, *, disabled: Mapping[str, str] | None = None, resolve: Resolve | None = None
) -> dict[str, Any]:
    """Return the summary of a plan as values that `json.dumps` takes with `allow_nan=False`.

    Keys with an empty or default value are left out. `disabled` is the reason why an interface is not live. For the
    complete plan, see `plan_to_json`.

    Args:
        plan: The plan.
        disabled: Reasons, found when interfaces were opened, why an enabled one is not live, by prim path.
        resolve: Apply the remap rules of a node; None: there are none.
    """
    found = disabled or {}

    def summarized(interface: InterfacePlan, **more: Any) -> dict[str, Any]:
        resolved = resolve(interface) if resolve is not None and interface.enabled else interface.name
        if resolved != interface.name:
            more["remapped"] = resolved
        return _interface_summary(interface, found, **more)

    served: dict[str, list[dict[str, Any]]] = {
        "robots": [_robot_summary(robot) for robot in plan.robots],
        "topics": [summarized(topic, **_topic_summary(topic)) for topic in plan.topics],
        "services": [summarized(service) for service in plan.services],
        "actions": [summarized(action) for action in plan.actions],
        "controllers": [_controller_summary(controller) for controller in plan.controllers],
    }
    return {
        "version": SUMMARY_VERSION,
        "asset": plan.asset,
        "digest": _digest(served),
        **_present(variants=_variants(plan)),
        **served,
        "diagnostics": _findings(plan.diagnostics),
    }


def plan_summary_text(
    plan: BridgePlan, *, disabled: Mapping[str, str] | None = None, resolve: Resolve | None = None
) -> str:
    """Return `plan_summary` as one line of ASCII JSON."""
    return _line(plan_summary(plan, disabled=disabled, resolve=resolve))


def _digest(served: Mapping[str, Sequence[Any]]) -> str:
    made = hashlib.sha256()
    for name, elements in served.items():
        made.update(name.encode())
        for element in elements:
            # One by one: to encode those of a fleet at once would keep other threads waiting.
            made.update(_line(element).encode())
    return made.hexdigest()[:_DIGEST_CHARACTERS]


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _variants(plan: BridgePlan) -> dict[str, dict[str, str]]:
    chosen: dict[str, dict[str, str]] = {}
    for each in plan.variants:
        chosen.setdefault(each.prim_path, {})[each.variant_set] = each.variant
    return chosen


def _robot_summary(robot: RobotPlan) -> dict[str, Any]:
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


def _interface_summary(interface: InterfacePlan, disabled: Mapping[str, str], **more: Any) -> dict[str, Any]:
    reason = disabled.get(interface.path, "") if interface.enabled else interface.reason or "disabled"
    return {
        **_picked(interface, "path role name type"),
        **_present(domain_id=interface.domain_id, **more, disabled=reason),
    }


def _topic_summary(topic: TopicPlan) -> dict[str, Any]:
    return {
        "rate": _plain_value(topic.publish_rate),
        "frame_id": topic.frame_id if topic.role == "publisher" else "",
        "qos": _qos_summary(topic.qos),
    }


def _qos_summary(qos: QosPlan) -> dict[str, Any]:
    """Return the policies that differ from ROS 2's defaults: reliable, volatile, keep_last, 10."""
    default = QosPlan()
    return {
        name: getattr(qos, name)
        for name in ("reliability", "durability", "history", "depth")
        if getattr(qos, name) != getattr(default, name)
    }


def _controller_summary(controller: ControllerPlan) -> dict[str, Any]:
    reason = "" if controller.enabled else controller.reason or "disabled"
    return {
        **_picked(controller, "path schema"),
        **_present(
            interfaces=list(controller.interfaces),
            joints=list(controller.joints),
            chained=list(controller.chained),
            disabled=reason,
        ),
    }


def _findings(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    every = tuple(diagnostics)
    counts = Counter(each.severity for each in every)
    worst = sorted((e for e in every if e.severity != "info"), key=lambda e: SEVERITIES.index(e.severity))
    findings = [
        {
            **_picked(each, "code severity"),
            **_present(path=each.path, attribute=each.attribute),
            "message": each.message,
            **_present(remedy=each.remedy, reason=each.reason, value=each.value),
        }
        for each in worst[:MAX_FINDINGS]
    ]
    return {**{severity: counts[severity] for severity in SEVERITIES}, "findings": findings}

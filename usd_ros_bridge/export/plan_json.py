"""The plan as JSON: what `usd_ros_bridge inspect --json` prints. SI units, quaternions x y z w, a stable order."""

from __future__ import annotations

import math
from typing import Any

from usd_ros_bridge.export.physics_json import physics_to_json
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import (
    BridgePlan,
    ControllerPlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    RobotPlan,
    TopicPlan,
)


def plan_to_json(plan: BridgePlan) -> dict[str, Any]:
    """Returns the plan as values that `json.dumps` takes with `allow_nan=False`.

    Arrays are in traversal order; frames have parents before children. A limit that does not exist is null, and so
    are position and limits of a joint that has not exactly one degree of freedom. `physics` is there where the plan has
    it.
    """
    physics = {} if plan.physics is None else {"physics": physics_to_json(plan.physics)}
    return {
        "asset": plan.asset,
        "robots": [_robot(robot) for robot in plan.robots],
        "topics": [_topic(topic) for topic in plan.topics],
        "services": [_interface(service) for service in plan.services],
        "actions": [_interface(action) for action in plan.actions],
        "controllers": [_controller(controller) for controller in plan.controllers],
        **physics,
        "diagnostics": [_diagnostic(diagnostic) for diagnostic in plan.diagnostics],
    }


def _robot(robot: RobotPlan) -> dict[str, Any]:
    return {
        "path": robot.path,
        "namespace": robot.namespace,
        "domain_id": robot.domain_id,
        "parent_frame": robot.parent_frame,
        "tf_topics": [topic for output in robot.tf_outputs for topic in (output.tf, output.tf_static)],
        "frames": [_frame(frame) for frame in robot.frames],
        "joints": [_joint(joint) for joint in robot.joints],
    }


def _frame(frame: FramePlan) -> dict[str, Any]:
    return {
        "id": frame.id,
        "parent": frame.parent,
        "path": frame.path,
        "static": frame.static,
        "translation": list(frame.parent_from_frame.translation),
        "rotation": list(frame.parent_from_frame.rotation),
    }


def _joint(joint: JointPlan) -> dict[str, Any]:
    dof = joint.dofs[0] if len(joint.dofs) == 1 else None
    return {
        "name": joint.name,
        "path": joint.path,
        "type": joint.type,
        "parent": joint.parent,
        "child": joint.child,
        "axis": joint.axis,
        "position": None if dof is None else _finite(dof.position),
        "lower": None if dof is None else _finite(dof.lower),
        "upper": None if dof is None else _finite(dof.upper),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _interface(interface: InterfacePlan) -> dict[str, Any]:
    return {
        "path": interface.path,
        "role": interface.role,
        "name": interface.name,
        "type": interface.type,
        "domain_id": interface.domain_id,
        "enabled": interface.enabled,
        "reason": interface.reason,
    }


def _topic(topic: TopicPlan) -> dict[str, Any]:
    return {
        "path": topic.path,
        "role": topic.role,
        "name": topic.name,
        "type": topic.type,
        "publish_rate": _finite(topic.publish_rate),
        "frame_id": topic.frame_id,
        "domain_id": topic.domain_id,
        "qos": {
            "reliability": topic.qos.reliability,
            "durability": topic.qos.durability,
            "history": topic.qos.history,
            "depth": topic.qos.depth,
            "match_publisher": topic.qos.match_publisher,
        },
        "enabled": topic.enabled,
        "reason": topic.reason,
    }


def _controller(controller: ControllerPlan) -> dict[str, Any]:
    return {
        "path": controller.path,
        "schema": controller.schema,
        "interfaces": list(controller.interfaces),
        "joints": list(controller.joints),
        "enabled": controller.enabled,
        "reason": controller.reason,
    }


def _diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "path": diagnostic.path,
        "attribute": diagnostic.attribute,
        "message": diagnostic.message,
        "remedy": diagnostic.remedy,
    }

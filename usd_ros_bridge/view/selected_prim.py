"""What the page says about a selected frame or prim. Pure: a plan and poses in, rows of text out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.physics import (
    Box,
    Capsule,
    Collider,
    Cone,
    Cylinder,
    Mesh,
    Plane,
    Shape,
    Sphere,
    Visual,
)
from usd_ros_bridge.model.plan import (
    BridgePlan,
    FramePlan,
    InterfacePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    TopicPlan,
)
from usd_ros_bridge.spatial.pose import roll_pitch_yaw
from usd_ros_bridge.spatial.transforms import FloatArray, compose, inverse, pose_array, rotate

MAX_INTERFACES = 20
"""Interfaces of a selection that are listed."""

Rows = list[tuple[str, str]]


def find_frame(plan: BridgePlan, robot: int, frame: str) -> FramePlan | None:
    """Return a frame of a robot, None if there is no such robot or frame."""
    if not 0 <= robot < len(plan.robots):
        return None
    return next((each for each in plan.robots[robot].frames if each.id == frame), None)


def selection_rows(plan: BridgePlan, robot: int, frame: str, path: str) -> Rows:
    """Return what the plan says about a selection: prim, frame, joint, and interfaces at or below the prim.

    Args:
        plan: The plan.
        robot: Index in `plan.robots`, -1 for none.
        frame: Frame id without prefix, "" for none.
        path: Path of the prim that was clicked, "" for the frame's own.
    """
    found = find_frame(plan, robot, frame)
    prim = found.path if found is not None else path
    rows: Rows = [("prim", prim)]
    if path and path != prim:
        rows.append(("shape", path))
    if found is not None:
        owner = plan.robots[robot]
        rows.append(("frame", f"{found.id} in {found.parent} ({'static' if found.static else 'moving'})"))
        rows.extend(("joint", text) for text in map(joint_text, joints_of(owner, found)))
    return [*rows, *interface_rows(plan, prim)]


def joints_of(robot: RobotPlan, frame: FramePlan) -> tuple[JointPlan, ...]:
    """Return the joints between a frame and its parent."""
    if frame.edge >= 0:
        return tuple(robot.joints[number] for number in robot.edges[frame.edge].joints)
    return tuple(joint for joint in robot.joints if joint.child_path == frame.path)


def joint_text(joint: JointPlan) -> str:
    """Return one line about a joint: name, type, axis and limits in degrees or m."""
    parts = [f"{joint.name} ({joint.type}{f' {joint.axis}' if joint.axis else ''})"]
    for dof in joint.dofs:
        angular = dof.axis.startswith("rot")
        if math.isfinite(dof.lower) and math.isfinite(dof.upper):
            low, high = (
                (math.degrees(dof.lower), math.degrees(dof.upper)) if angular else (dof.lower, dof.upper)
            )
            parts.append(f"{low:.4g} to {high:.4g} {'°' if angular else 'm'}")
        if dof.mimic is not None:
            parts.append("follows another")
    return ", ".join(parts)


def interface_rows(plan: BridgePlan, prim: str) -> Rows:
    """Return the interfaces at or below a prim, at most MAX_INTERFACES."""
    found = [each for each in _interfaces(plan) if _is_at_or_below(each.path, prim)]
    rows = [(each.role, interface_text(each)) for each in found[:MAX_INTERFACES]]
    if len(found) > MAX_INTERFACES:
        rows.append(("...", f"{len(found) - MAX_INTERFACES} more interfaces"))
    return rows


def interface_text(interface: InterfacePlan) -> str:
    """Return one line about an interface: name, type, rate, QoS, and if it is off."""
    parts = [interface.name, interface.type]
    if isinstance(interface, TopicPlan):
        if interface.publish_rate:
            parts.append(f"{interface.publish_rate:g} Hz")
        parts.append(qos_text(interface.qos))
    if not interface.enabled:
        parts.append(f"off: {interface.reason}" if interface.reason else "off")
    return ", ".join(parts)


def qos_text(qos: QosPlan) -> str:
    """Return quality of service in words, what is usual left out."""
    words: list[str] = [qos.reliability]
    if qos.durability != "volatile":
        words.append(qos.durability)
    words.append(qos.history if qos.history == "keep_all" else f"depth {qos.depth}")
    return " ".join(words).replace("_", " ")


def pose_text(pose: FloatArray) -> str:
    """Return a pose (7,) as x, y, z in m, and roll, pitch and yaw in degrees."""
    x, y, z, qx, qy, qz, qw = (float(value) for value in pose)
    angles = roll_pitch_yaw((qx, qy, qz, qw))
    roll, pitch, yaw = (math.degrees(angle) for angle in angles)
    # -0.0 is no news.
    xyz = " ".join(f"{value + 0.0:.3f}" for value in np.round([x, y, z], 3))
    rpy = " ".join(f"{value + 0.0:.1f}" for value in np.round([roll, pitch, yaw], 1))
    return f"xyz {xyz} m, rpy {rpy}°"


def _interfaces(plan: BridgePlan) -> Iterator[InterfacePlan]:
    yield from plan.topics
    yield from plan.services
    yield from plan.actions


def _is_at_or_below(path: str, prim: str) -> bool:
    return bool(prim) and (path == prim or path.startswith(prim.rstrip("/") + "/"))


# --- Bounds -------------------------------------------------------------------------------------------------------


def frame_bounds(plan: BridgePlan, robot: int, frame: str) -> tuple[FloatArray, FloatArray] | None:
    """Return the least and greatest corner (3,) of what moves with a frame's body, in the frame, metres.

    None if there is no such frame, no body that carries it, or nothing to be seen of that.
    """
    found = find_frame(plan, robot, frame)
    if found is None or found.carrier < 0 or plan.physics is None:
        return None
    body = next((i for i, each in enumerate(plan.physics.bodies) if each.row == found.carrier), -1)
    if body < 0:
        return None
    frame_from_body = inverse(pose_array(found.carrier_from_frame))
    shapes: tuple[Visual | Collider, ...] = (*plan.physics.visuals, *plan.physics.colliders)
    bounds = [
        _bounds(each.shape, compose(frame_from_body, pose_array(each.body_from_shape)))
        for each in shapes
        if each.body == body and not isinstance(each.shape, Plane)
    ]
    if not bounds:
        return None
    return np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)


def _bounds(shape: Shape, frame_from_shape: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and greatest corner of a shape, along the axes of the frame."""
    center, rotation = frame_from_shape[:3], frame_from_shape[3:]
    if isinstance(shape, Mesh):
        points = center + rotate(rotation, shape.points if len(shape.points) else np.zeros((1, 3)))
        return points.min(axis=0), points.max(axis=0)
    half = _half_extents(shape, rotate(rotation, np.eye(3)).T)
    return center - half, center + half


def _half_extents(shape: Sphere | Box | Capsule | Cylinder | Cone | Plane, matrix: FloatArray) -> FloatArray:
    """Return the half extents (3,) of a shape that a matrix (3, 3) rotates."""
    if isinstance(shape, Sphere):
        return np.full(3, shape.radius)
    if isinstance(shape, (Box, Plane)):
        x, y = shape.half[:2]
        half: FloatArray = np.abs(matrix) @ np.array([x, y, shape.half[2] if isinstance(shape, Box) else 0.0])
        return half
    along: FloatArray = shape.half_height * np.abs(matrix[:, 2])
    if isinstance(shape, Capsule):
        return along + shape.radius
    # A disc reaches as far along an axis as the sine of the angle between that and its own axis.
    across: FloatArray = shape.radius * np.sqrt(np.clip(1.0 - matrix[:, 2] ** 2, 0.0, 1.0))
    return along + across


def box_edges(low: FloatArray, high: FloatArray) -> NDArray[np.float32]:
    """Return the 12 edges (12, 2, 3) of a box, from its least and its greatest corner."""
    corners = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=np.float64)
    pairs = [(i, i | bit) for i in range(8) for bit in (1, 2, 4) if not i & bit]
    return (low + corners * (high - low))[pairs].astype(np.float32)

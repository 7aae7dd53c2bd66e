"""Rigid bodies of a physics scene: their order, where they are at rest, and how they start to move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, alike
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Inertial, Joint, SurfaceVelocity
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import RigidBodyRecord, fallback
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.kinematics.solver_attributes import BODY, resolve_all
from usd_ros_bridge.planning.names import parent_path
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, as_poses
from usd_ros_bridge.spatial.scalar import Vector3
from usd_ros_bridge.spatial.transforms import FloatArray, rotate

_RADIANS = math.pi / 180.0
_OF_SURFACE = ("surface_velocity", "surface_angular_velocity")


@dataclass(frozen=True, slots=True, eq=False)
class BodyTable:
    """The bodies' order.

    Attributes:
        paths: Parents before children, otherwise in traversal order.
        indices: Index in `paths` by path.
        rest: (B, 7) `world_from_body` at rest.
    """

    paths: tuple[str, ...]
    indices: Mapping[str, int]
    rest: FloatArray


def order_bodies(
    kinematics: KinematicModel, plan: BridgePlan, index: StageIndex, findings: DiagnosticCollector
) -> BodyTable:
    """Return all bodies that can be simulated; one whose transform cannot be used is left out."""
    paths: dict[str, None] = {}
    known = set(index.bodies)
    for body in index.sort(known):
        chain = [body]
        while (
            (attachment := kinematics.attachments.get(chain[-1])) is not None
            and attachment.parent
            and attachment.parent not in paths
        ):
            chain.append(attachment.parent)
        paths.update(dict.fromkeys(reversed(chain)))
    rows = {path: row for row, path in enumerate(plan.layout.bodies)}
    rest = index.poses.world_from_prim[index.poses.find_rows(paths)]
    for number, path in enumerate(paths):
        row = rows.get(path)
        if row is not None:
            rest[number] = plan.layout.body_pose[row]
        elif path in kinematics.prop_poses:
            rest[number] = kinematics.prop_poses[path]
        elif not index.poses.is_usable(path):
            findings.error(
                "1.3.body",
                path,
                "the body's transform cannot be used; it starts at the world's origin",
                "author a finite transform",
            )
    return BodyTable(tuple(paths), {path: number for number, path in enumerate(paths)}, rest)


def plan_bodies(
    table: BodyTable,
    kinematics: KinematicModel,
    joints: Sequence[Joint],
    inertials: Sequence[Inertial],
    physics: PhysicsRecords,
    plan: BridgePlan,
    index: StageIndex,
    solvers: Sequence[str],
    findings: DiagnosticCollector,
) -> tuple[Body, ...]:
    """Return the bodies.

    Args:
        table: Their order.
        kinematics: Attachments of bodies.
        joints: Joints of the scene.
        inertials: Mass properties in that order.
        physics: Solver attributes of bodies.
        plan: Rows and robots.
        index: The stage.
        solvers: Solvers in order of priority.
        findings: Collector of faults.
    """
    rows = {path: row for row, path in enumerate(plan.layout.bodies)}
    robots = {
        plan.layout.bodies[row]: number for number, robot in enumerate(plan.robots) for row in robot.bodies
    }
    numbers = {joint.path: number for number, joint in enumerate(joints)}
    bodies = []
    for path, pose, inertial in zip(table.paths, as_poses(table.rest), inertials, strict=True):
        record = index.bodies[path]
        attachment = kinematics.attachments.get(path)
        raw = physics.body_solver_attributes.get(path, {})
        authored = resolve_all(raw, BODY, solvers)
        if raw:
            _report_unusable(path, raw, solvers, findings)
        own_axes = path not in physics.world_velocities
        linear, angular = _velocities(record, np.array(pose.rotation), index, findings, own_axes=own_axes)
        surface = _surface(path, authored, index, findings)
        if surface is None and record.kinematic_enabled and any((*linear, *angular)):
            # PhysX had conveyor belts so before PhysxSurfaceVelocityAPI.
            surface = SurfaceVelocity(linear=linear, angular=angular, own_axes=False)
        bodies.append(
            Body(
                path=path,
                row=rows.get(path, -1),
                world_from_body=pose,
                kinematic=bool(record.kinematic_enabled),
                inertial=inertial,
                linear_velocity=linear,
                angular_velocity=angular,
                gravity_scale=_gravity_scale(authored),
                linear_damping=_damping(path, authored, "linear", findings),
                angular_damping=_damping(path, authored, "angular", findings),
                surface=surface,
                starts_asleep=bool(record.starts_asleep) and not record.kinematic_enabled,
                parent=WORLD_BODY if attachment is None else table.indices.get(attachment.parent, WORLD_BODY),
                joints=() if attachment is None else tuple(numbers[joint] for joint in attachment.joints),
                robot=robots.get(path, -1),
            )
        )
    return tuple(bodies)


def report_nested(kinematics: KinematicModel, index: StageIndex, findings: DiagnosticCollector) -> None:
    """Report bodies below other bodies that no joint holds, in one finding: PhysX refuses them, here they are free."""
    held = {body for joint in kinematics.joints for body in (joint.body0, joint.body1)}
    nested = [
        path
        for path, record in index.bodies.items()
        if path not in held
        and not record.kinematic_enabled
        and index.poses.is_usable(path)
        and not index.records.xforms[path].resets_stack
        and index.body_at(parent_path(path))
    ]
    if not nested:
        return
    first, *others = nested
    above = index.body_at(parent_path(first))
    message = f"no joint holds this body, which is below another body, {above}: it is free{alike(others)}"
    findings.warning(
        "1.3.body.nested",
        first,
        message,
        "connect it by a joint, take PhysicsRigidBodyAPI away to make it a part of the upper body, or author "
        "!resetXformStack! to have it free",
    )


def _report_unusable(
    path: str, authored: Mapping[str, Any], solvers: Sequence[str], findings: DiagnosticCollector
) -> None:
    """Report values of another type than the schema's, which `resolve_all` passes over."""
    for attribute in (
        by_solver[each] for by_solver in BODY.values() for each in solvers if each in by_solver
    ):
        value = authored.get(attribute.name)
        if value is not None and attribute.convert(value) is None:
            findings.error(
                "1.3.body",
                path,
                f"{quoted(value)} cannot be used; it is ignored",
                "author a value of the schema's type",
                attribute=attribute.name,
            )


def _gravity_scale(authored: Mapping[str, object]) -> float:
    if authored.get("gravity_disabled"):
        return 0.0
    compensation = authored.get("gravity_compensation")
    return 1.0 - compensation if isinstance(compensation, float) else 1.0


def _damping(path: str, authored: Mapping[str, Any], kind: str, findings: DiagnosticCollector) -> float:
    """Return the damping of a body, 1/s; what is no such number is bounded."""
    value = float(authored.get(f"{kind}_damping", 0.0))
    if 0.0 <= value <= MAX_MAGNITUDE:
        return value
    used = MAX_MAGNITUDE if value > 0.0 else 0.0
    findings.error(
        "1.3.body",
        path,
        f"a damping of {quoted(value)} cannot be used; {used:g} is used",
        "author a finite number that is not negative",
        attribute=f"physxRigidBody:{kind}Damping",
    )
    return used


def _surface(
    path: str, authored: Mapping[str, Any], index: StageIndex, findings: DiagnosticCollector
) -> SurfaceVelocity | None:
    """Return the velocity of a body's surface (PhysxSurfaceVelocityAPI), None where it is still."""
    linear, angular = (np.array(authored.get(name, (0.0,) * 3)) for name in _OF_SURFACE)
    if not (linear.any() or angular.any()) or not authored.get("surface_enabled", True):
        return None
    if not (np.abs(np.concatenate((linear, angular))) <= MAX_MAGNITUDE).all():
        findings.error(
            "1.3.body",
            path,
            f"the velocities {quoted(tuple(linear.tolist()))} and {quoted(tuple(angular.tolist()))} of its surface "
            "cannot be used; the surface is still",
            "author finite numbers",
            attribute="physxSurfaceVelocity:surfaceVelocity",
        )
        return None
    own_axes = bool(authored.get("surface_in_own_axes", True))
    if own_axes:
        linear = linear * index.poses.scale[index.poses.row(path)]
    else:
        linear, angular = (rotate(index.units.world_from_stage[3:], each) for each in (linear, angular))
    return SurfaceVelocity(
        linear=as_vector(linear * index.units.meters),
        angular=as_vector(angular * _RADIANS),
        own_axes=own_axes,
    )


def _velocities(
    record: RigidBodyRecord,
    rotation: FloatArray,
    index: StageIndex,
    findings: DiagnosticCollector,
    *,
    own_axes: bool,
) -> tuple[Vector3, Vector3]:
    """Return the body's velocities at the start in the world.

    Args:
        record: The body.
        rotation: (4,) its rotation in the world.
        index: The stage.
        findings: Collector of faults.
        own_axes: They are authored in the body's axes, scale included (UsdPhysics), not in the stage's.
    """
    if record.velocity is None and record.angular_velocity is None:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    linear, angular = (np.array(fallback(record, name)) for name in ("velocity", "angular_velocity"))
    if not (np.abs(np.concatenate((linear, angular))) <= MAX_MAGNITUDE).all():
        findings.error(
            "1.3.body",
            record.path,
            f"the velocities {quoted(record.velocity)} and {quoted(record.angular_velocity)} cannot be used; "
            "the body starts at rest",
            "author finite numbers",
            attribute="physics:velocity",
        )
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    if own_axes:
        linear = linear * index.poses.scale[index.poses.row(record.path)]
    else:
        rotation = index.units.world_from_stage[3:]
    return (
        as_vector(rotate(rotation, linear * index.units.meters)),
        as_vector(rotate(rotation, angular * _RADIANS)),
    )


def as_vector(values: FloatArray) -> Vector3:
    """Return three numbers as a plan value, no negative zeros."""
    x, y, z = (np.asarray(values, dtype=np.float64) + 0.0).tolist()
    return x, y, z

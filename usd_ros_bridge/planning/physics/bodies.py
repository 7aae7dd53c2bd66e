"""Rigid bodies of a physics scene: their order, where they are at rest, and how they start to move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Inertial, Joint
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import RigidBodyRecord, fallback
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.kinematics.solver_attributes import BODY, resolve_all
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, as_poses
from usd_ros_bridge.spatial.scalar import Vector3
from usd_ros_bridge.spatial.transforms import FloatArray, rotate

_RADIANS = math.pi / 180.0


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
        authored = resolve_all(physics.body_solver_attributes.get(path, {}), BODY, solvers)
        linear, angular = _velocities(record, np.array(pose.rotation), index, findings)
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
                starts_asleep=bool(record.starts_asleep) and not record.kinematic_enabled,
                parent=WORLD_BODY if attachment is None else table.indices.get(attachment.parent, WORLD_BODY),
                joints=() if attachment is None else tuple(numbers[joint] for joint in attachment.joints),
                robot=robots.get(path, -1),
            )
        )
    return tuple(bodies)


def _gravity_scale(authored: Mapping[str, object]) -> float:
    if authored.get("gravity_disabled"):
        return 0.0
    compensation = authored.get("gravity_compensation")
    return 1.0 - compensation if isinstance(compensation, float) else 1.0


def _velocities(
    record: RigidBodyRecord, rotation: FloatArray, index: StageIndex, findings: DiagnosticCollector
) -> tuple[Vector3, Vector3]:
    """Return the body's velocities at the start in the world; they are authored in the body's own axes."""
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
    row = index.poses.row(record.path)
    return (
        as_vector(rotate(rotation, linear * index.poses.scale[row] * index.units.meters)),
        as_vector(rotate(rotation, angular * _RADIANS)),
    )


def as_vector(values: FloatArray) -> Vector3:
    """Return three numbers as a plan value, no negative zeros."""
    x, y, z = (np.asarray(values, dtype=np.float64) + 0.0).tolist()
    return x, y, z

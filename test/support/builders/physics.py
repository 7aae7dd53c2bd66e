"""Gives plans that were built by hand physics: masses, shapes and drives, for backends that simulate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from builders.plans import as_pose
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    Collider,
    Dof,
    Drive,
    Inertial,
    Joint,
    Mimic,
    PhysicsScene,
)
from usd_ros_bridge.model.plan import BridgePlan, DofPlan, JointPlan, MimicPlan
from usd_ros_bridge.spatial.pose import IDENTITY_POSE
from usd_ros_bridge.spatial.scalar import Vector3

MASS = 1.0
INERTIA = 0.01
HALF = 0.02
POSITION_DRIVE = Drive(stiffness=1000.0, damping=100.0)
VELOCITY_DRIVE = Drive(damping=5.0)


def with_physics(
    plan: BridgePlan, *, gravity: Vector3 = (0.0, 0.0, 0.0), drives: Mapping[str, Drive | None] | None = None
) -> BridgePlan:
    """Returns the plan with physics: what an engine needs to move its robots.

    Every body has a mass of 1 kg, moments of inertia of 0.01 kg m^2 about its origin, and a cube of 4 cm that collides
    with nothing of its own robot. Joints without limits are driven by velocity, others by position. Leaders of mimic
    joints are at zero.

    Args:
        plan: Built by PlanBuilder.
        gravity: m/s^2; none by default, so that what stands still stays where it is.
        drives: By the name of a degree of freedom, its drive, or None for a passive one.
    """
    index = {path: row for row, path in enumerate(plan.layout.bodies)}
    joints = [joint for robot in plan.robots for joint in robot.joints]
    bodies = _bodies(plan, joints, index)
    apart = [
        (first, second)
        for first, body in enumerate(bodies)
        for second in range(first + 1, len(bodies))
        if body.robot == bodies[second].robot
    ]
    scene = PhysicsScene(
        gravity=gravity,
        bodies=bodies,
        joints=_joints(joints, index, drives or {}),
        colliders=tuple(
            Collider(
                path=f"{body.path}/cube",
                body=place,
                body_from_shape=IDENTITY_POSE,
                shape=Box((HALF, HALF, HALF)),
            )
            for place, body in enumerate(bodies)
        ),
        apart_bodies=tuple(apart),
    )
    return replace(plan, physics=scene)


def _bodies(plan: BridgePlan, joints: Sequence[JointPlan], index: Mapping[str, int]) -> tuple[Body, ...]:
    """Returns the bodies in the order of the layout, where builders put parents before children."""
    layout = plan.layout
    carried: dict[str, list[int]] = {}
    for place, joint in enumerate(joints):
        carried.setdefault(joint.child_path, []).append(place)
    bodies = []
    for path, row in index.items():
        places = carried.get(path, [])
        bodies.append(
            Body(
                path=path,
                row=row,
                world_from_body=as_pose(layout.body_pose[row]),
                kinematic=bool(layout.kinematic[row]),
                inertial=Inertial(mass=MASS, diagonal=(INERTIA, INERTIA, INERTIA)),
                parent=index.get(joints[places[0]].parent_path, WORLD_BODY) if places else WORLD_BODY,
                joints=tuple(places),
                robot=next((i for i, robot in enumerate(plan.robots) if row in robot.bodies), -1),
            )
        )
    return tuple(bodies)


def _joints(
    joints: Sequence[JointPlan], index: Mapping[str, int], drives: Mapping[str, Drive | None]
) -> tuple[Joint, ...]:
    places = {
        dof.row: (place, number)
        for place, joint in enumerate(joints)
        for number, dof in enumerate(joint.dofs)
    }
    made = []
    for joint in joints:
        ends = index.get(joint.parent_path, WORLD_BODY), index[joint.child_path]
        body0, body1 = ends[::-1] if joint.inverted else ends
        made.append(
            Joint(
                path=joint.path,
                type=joint.type,
                body0=body0,
                body1=body1,
                body0_from_joint=joint.body0_from_joint,
                body1_from_joint=joint.body1_from_joint,
                dofs=tuple(_dof(dof, places, drives) for dof in joint.dofs),
                axis=joint.axis,
            )
        )
    return tuple(made)


def _dof(dof: DofPlan, places: Mapping[int, tuple[int, int]], drives: Mapping[str, Drive | None]) -> Dof:
    if dof.mimic is not None:
        return _follower(dof, dof.mimic, places)
    usual = POSITION_DRIVE if math.isfinite(dof.upper - dof.lower) else VELOCITY_DRIVE
    return Dof(
        axis=dof.axis,
        row=dof.row,
        position=dof.position,
        lower=dof.lower,
        upper=dof.upper,
        max_velocity=dof.max_velocity,
        max_effort=dof.max_effort,
        drive=drives.get(dof.name, replace(usual, target_position=dof.position, max_force=dof.max_effort)),
    )


def _follower(dof: DofPlan, rule: MimicPlan, places: Mapping[int, tuple[int, int]]) -> Dof:
    """Returns a degree of freedom that the rule alone bounds: its own limits may contradict it."""
    joint, number = places[rule.leader]
    return Dof(
        axis=dof.axis,
        row=dof.row,
        position=rule.offset,
        mimic=Mimic(joint=joint, dof=number, multiplier=rule.multiplier, offset=rule.offset),
    )

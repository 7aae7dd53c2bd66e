"""Writes a physics scene as a stage: for engines that import stages by themselves, and to compare both ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.model.physics import WORLD_BODY, Body, Box, Collider, Dof, Joint, PhysicsScene
from usd_ros_bridge.spatial.pose import Pose

_DEGREES = 180.0 / math.pi
_TYPES = {
    "revolute": UsdPhysics.RevoluteJoint,
    "continuous": UsdPhysics.RevoluteJoint,
    "prismatic": UsdPhysics.PrismaticJoint,
    "fixed": UsdPhysics.FixedJoint,
    "generic": UsdPhysics.Joint,
}
_INSTANCES = {"revolute": "angular", "continuous": "angular", "prismatic": "linear"}


def write_stage(scene: PhysicsScene) -> Usd.Stage:
    """Returns a stage in memory with the scene's bodies, box colliders, joints, drives and mimic rules, by their paths.

    Every body is reset to the world (`!resetXformStack!`), whatever its path is below; trees have articulation roots.

    Args:
        scene: Of bodies with boxes, and joints of any kind but spherical and distance joints.

    Raises:
        ValueError: It has anything else.
    """
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    gravity = Gf.Vec3f(*scene.gravity)
    settings = UsdPhysics.Scene.Define(stage, "/PhysicsScene")
    settings.CreateGravityMagnitudeAttr(gravity.GetLength())
    settings.CreateGravityDirectionAttr(
        gravity.GetNormalized() if gravity.GetLength() else Gf.Vec3f(0, 0, -1)
    )
    for body in scene.bodies:
        _write_body(stage, body)
    for collider in scene.colliders:
        _write_collider(stage, collider)
    for first, second in scene.apart_bodies:
        prim = stage.GetPrimAtPath(scene.bodies[first].path)
        UsdPhysics.FilteredPairsAPI.Apply(prim).CreateFilteredPairsRel().AddTarget(scene.bodies[second].path)
    for joint in scene.joints:
        _write_joint(stage, joint, scene)
    return stage


def _write_body(stage: Usd.Stage, body: Body) -> None:
    xform = UsdGeom.Xform.Define(stage, body.path)
    xform.SetResetXformStack(True)
    _place(xform, body.world_from_body)
    rigid = UsdPhysics.RigidBodyAPI.Apply(xform.GetPrim())
    rigid.CreateKinematicEnabledAttr(body.kinematic)
    mass = UsdPhysics.MassAPI.Apply(xform.GetPrim())
    mass.CreateMassAttr(body.inertial.mass)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*body.inertial.center))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*body.inertial.diagonal))
    mass.CreatePrincipalAxesAttr(_quatf(body.inertial.principal))
    if body.parent == WORLD_BODY:
        UsdPhysics.ArticulationRootAPI.Apply(xform.GetPrim())


def _write_collider(stage: Usd.Stage, collider: Collider) -> None:
    if not isinstance(collider.shape, Box):
        raise ValueError(f"{collider.path} is no box")
    cube = UsdGeom.Cube.Define(stage, collider.path)
    cube.CreateSizeAttr(2.0)
    _place(cube, collider.body_from_shape)
    cube.AddScaleOp().Set(Gf.Vec3f(*collider.shape.half))
    UsdPhysics.CollisionAPI.Apply(cube.GetPrim())


def _write_joint(stage: Usd.Stage, joint: Joint, scene: PhysicsScene) -> None:
    if joint.type not in _TYPES:
        raise ValueError(f"{joint.path} is a {joint.type} joint")
    made = _TYPES[joint.type].Define(stage, joint.path)
    ends = (joint.body0, made.CreateBody0Rel()), (joint.body1, made.CreateBody1Rel())
    for body, relationship in ends:
        if body != WORLD_BODY:
            relationship.SetTargets([scene.bodies[body].path])
    made.CreateLocalPos0Attr(Gf.Vec3f(*joint.body0_from_joint.translation))
    made.CreateLocalRot0Attr(_quatf(joint.body0_from_joint.rotation))
    made.CreateLocalPos1Attr(Gf.Vec3f(*joint.body1_from_joint.translation))
    made.CreateLocalRot1Attr(_quatf(joint.body1_from_joint.rotation))
    prim = made.GetPrim()
    if joint.type != "generic":
        for dof in joint.dofs:
            made.CreateAxisAttr(dof.axis[-1])
            factor = _factor(dof)
            made.CreateLowerLimitAttr(dof.lower * factor)
            made.CreateUpperLimitAttr(dof.upper * factor)
    else:
        _write_limits(prim, joint.dofs)
    for dof in joint.dofs:
        _write_dof(prim, joint, dof, scene)


def _write_limits(prim: Usd.Prim, dofs: Sequence[Dof]) -> None:
    free = {dof.axis: dof for dof in dofs}
    for axis in ("transX", "transY", "transZ", "rotX", "rotY", "rotZ"):
        limit = UsdPhysics.LimitAPI.Apply(prim, axis)
        factor = _factor(free[axis]) if axis in free else 1.0
        limit.CreateLowAttr(free[axis].lower * factor if axis in free else 1.0)
        limit.CreateHighAttr(free[axis].upper * factor if axis in free else -1.0)


def _write_dof(prim: Usd.Prim, joint: Joint, dof: Dof, scene: PhysicsScene) -> None:
    factor = _factor(dof)
    instance = _INSTANCES.get(joint.type, dof.axis)
    if dof.drive is not None:
        drive = UsdPhysics.DriveAPI.Apply(prim, instance)
        drive.CreateTypeAttr("acceleration" if dof.drive.acceleration else "force")
        drive.CreateStiffnessAttr(dof.drive.stiffness / factor)
        drive.CreateDampingAttr(dof.drive.damping / factor)
        drive.CreateTargetPositionAttr(dof.drive.target_position * factor)
        drive.CreateTargetVelocityAttr(dof.drive.target_velocity * factor)
        drive.CreateMaxForceAttr(dof.drive.max_force)
    prim.AddAppliedSchema(f"PhysicsJointStateAPI:{instance}")
    _write(prim, f"state:{instance}:physics:position", Sdf.ValueTypeNames.Float, dof.position * factor)
    if math.isfinite(dof.max_velocity):
        _write(prim, "newton:velocityLimit", Sdf.ValueTypeNames.Float, dof.max_velocity * factor)
    if dof.mimic is not None:
        leader = scene.joints[dof.mimic.joint]
        prim.AddAppliedSchema("NewtonMimicAPI")
        prim.CreateRelationship("newton:mimicJoint").SetTargets([leader.path])
        ratio = factor / _factor(leader.dofs[dof.mimic.dof])
        _write(prim, "newton:mimicCoef0", Sdf.ValueTypeNames.Float, dof.mimic.offset * factor)
        _write(prim, "newton:mimicCoef1", Sdf.ValueTypeNames.Float, dof.mimic.multiplier * ratio)


def _write(prim: Usd.Prim, name: str, kind: Any, value: float) -> None:
    prim.CreateAttribute(name, kind).Set(value)


def _factor(dof: Dof) -> float:
    return _DEGREES if dof.axis.startswith("rot") else 1.0


def _place(xform: Any, pose: Pose) -> None:
    xform.AddTranslateOp().Set(Gf.Vec3d(*pose.translation))
    x, y, z, w = pose.rotation
    xform.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(w, x, y, z))


def _quatf(rotation: Sequence[float]) -> Gf.Quatf:
    x, y, z, w = rotation
    return Gf.Quatf(w, x, y, z)

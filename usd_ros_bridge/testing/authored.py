"""Writes a hand-made plan's physics as an OpenUSD stage, for backends that import stages by themselves."""

from __future__ import annotations

import math
from typing import Any

from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.model.physics import WORLD_BODY, Box, Dof, Joint, PhysicsScene
from usd_ros_bridge.model.plan import Pose

_SCHEMAS = {
    "revolute": UsdPhysics.RevoluteJoint,
    "continuous": UsdPhysics.RevoluteJoint,
    "prismatic": UsdPhysics.PrismaticJoint,
    "fixed": UsdPhysics.FixedJoint,
}


def as_stage(scene: PhysicsScene) -> Usd.Stage:
    """Returns a stage in memory, in metres and kilograms and Z-up, that says what the scene does.

    Args:
        scene: Of boxes, and of revolute, prismatic and fixed joints, as `with_physics` makes them.
    """
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    world = UsdPhysics.Scene.Define(stage, "/physics")
    strength = math.sqrt(sum(part * part for part in scene.gravity))
    direction = [part / strength for part in scene.gravity] if strength else [0.0, 0.0, -1.0]
    world.CreateGravityDirectionAttr(Gf.Vec3f(*direction))
    world.CreateGravityMagnitudeAttr(strength)
    for body in scene.bodies:
        _add_body(stage, body)
    for collider in scene.colliders:
        assert isinstance(collider.shape, Box)
        cube = UsdGeom.Cube.Define(stage, collider.path)
        cube.CreateSizeAttr(2.0)
        UsdPhysics.CollisionAPI.Apply(cube.GetPrim())
        _place(cube, collider.body_from_shape)
        cube.AddScaleOp().Set(Gf.Vec3f(*collider.shape.half))
    for joint in scene.joints:
        _add_joint(stage, scene, joint)
    _keep_apart(stage, scene)
    return stage


def _add_body(stage: Usd.Stage, body: Any) -> None:
    prim = UsdGeom.Xform.Define(stage, body.path).GetPrim()
    above = prim.GetParent()
    if above and not above.IsPseudoRoot() and not above.HasAPI(UsdPhysics.ArticulationRootAPI):
        UsdGeom.Xform.Define(stage, above.GetPath())
        UsdPhysics.ArticulationRootAPI.Apply(above)
    _place(UsdGeom.Xform(prim), body.world_from_body)
    UsdPhysics.RigidBodyAPI.Apply(prim).CreateKinematicEnabledAttr(body.kinematic)
    mass = UsdPhysics.MassAPI.Apply(prim)
    mass.CreateMassAttr(body.inertial.mass)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*body.inertial.center))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*body.inertial.diagonal))


def _add_joint(stage: Usd.Stage, scene: PhysicsScene, joint: Joint) -> None:
    made = _SCHEMAS[joint.type].Define(stage, joint.path)
    made.CreateLocalPos0Attr(Gf.Vec3f(*joint.body0_from_joint.translation))
    made.CreateLocalRot0Attr(_quaternion(joint.body0_from_joint))
    made.CreateLocalPos1Attr(Gf.Vec3f(*joint.body1_from_joint.translation))
    made.CreateLocalRot1Attr(_quaternion(joint.body1_from_joint))
    for body, target in ((joint.body0, made.CreateBody0Rel()), (joint.body1, made.CreateBody1Rel())):
        if body != WORLD_BODY:
            target.SetTargets([Sdf.Path(scene.bodies[body].path)])
    for dof in joint.dofs:
        _add_dof(made, scene, joint, dof)


def _add_dof(made: Any, scene: PhysicsScene, joint: Joint, dof: Dof) -> None:
    prim = made.GetPrim()
    made.CreateAxisAttr(joint.axis)
    angular = joint.type != "prismatic"
    degrees = math.degrees(1.0) if angular else 1.0
    if math.isfinite(dof.lower):
        made.CreateLowerLimitAttr(dof.lower * degrees)
    if math.isfinite(dof.upper):
        made.CreateUpperLimitAttr(dof.upper * degrees)
    name = "angular" if angular else "linear"
    state = f"state:{name}:physics:position"
    prim.AddAppliedSchema(f"PhysicsJointStateAPI:{name}")
    prim.CreateAttribute(state, Sdf.ValueTypeNames.Float).Set(dof.position * degrees)
    if math.isfinite(dof.max_velocity):
        prim.CreateAttribute("newton:velocityLimit", Sdf.ValueTypeNames.Float).Set(dof.max_velocity * degrees)
    if dof.drive is not None:
        drive = UsdPhysics.DriveAPI.Apply(prim, name)
        drive.CreateTypeAttr("force")
        drive.CreateStiffnessAttr(dof.drive.stiffness / degrees)
        drive.CreateDampingAttr(dof.drive.damping / degrees)
        drive.CreateTargetPositionAttr(dof.drive.target_position * degrees)
    if dof.mimic is not None:
        prim.AddAppliedSchema("NewtonMimicAPI")
        leader = scene.joints[dof.mimic.joint].path
        prim.CreateRelationship("newton:mimicJoint").SetTargets([Sdf.Path(leader)])
        prim.CreateAttribute("newton:mimicCoef1", Sdf.ValueTypeNames.Float).Set(dof.mimic.multiplier)
        prim.CreateAttribute("newton:mimicCoef0", Sdf.ValueTypeNames.Float).Set(dof.mimic.offset * degrees)


def _keep_apart(stage: Usd.Stage, scene: PhysicsScene) -> None:
    for first, second in scene.apart_bodies:
        pairs = UsdPhysics.FilteredPairsAPI.Apply(stage.GetPrimAtPath(scene.bodies[first].path))
        pairs.CreateFilteredPairsRel().AddTarget(Sdf.Path(scene.bodies[second].path))


def _place(prim: UsdGeom.Xformable, parent_from_prim: Pose) -> None:
    x, y, z, w = parent_from_prim.rotation
    prim.AddTranslateOp().Set(Gf.Vec3d(*parent_from_prim.translation))
    prim.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(w, x, y, z))


def _quaternion(pose: Pose) -> Gf.Quatf:
    x, y, z, w = pose.rotation
    return Gf.Quatf(w, x, y, z)

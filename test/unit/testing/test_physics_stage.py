"""A scene written as a stage and planned again is the same scene, but for the float32 of UsdPhysics."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.testing import assert_allclose

from builders.physics import with_physics
from builders.physics_stage import write_stage
from builders.plans import gripper, rover
from usd_ros_bridge import load_plan
from usd_ros_bridge.model.physics import Dof, PhysicsScene

FLOAT32 = 3e-7


def planned_again(scene: PhysicsScene) -> PhysicsScene:
    plan = load_plan(write_stage(scene), physics=True)
    assert not [each for each in plan.diagnostics if each.severity == "error"]
    assert plan.physics is not None
    return plan.physics


def numbers(dof: Dof) -> list[float]:
    values = [getattr(dof, each.name) for each in fields(Dof) if each.name != "row"]
    return [float(value) for value in values if isinstance(value, (int, float))]


def test_a_scene_comes_back() -> None:
    scene = with_physics(gripper(rover()).build(), gravity=(0.0, 0.0, -3.7)).physics
    assert scene is not None
    again = planned_again(scene)
    assert_allclose(again.gravity, scene.gravity, rtol=FLOAT32)
    assert [body.path for body in again.bodies] == [body.path for body in scene.bodies]
    for body, other in zip(scene.bodies, again.bodies, strict=True):
        assert (other.parent, other.joints, other.kinematic) == (body.parent, body.joints, body.kinematic)
        assert_allclose(other.inertial.mass, body.inertial.mass, rtol=FLOAT32)
        assert_allclose(other.inertial.diagonal, body.inertial.diagonal, rtol=FLOAT32)
    assert [collider.body for collider in again.colliders] == [collider.body for collider in scene.colliders]
    assert set(scene.apart_bodies) <= set(again.apart_bodies)
    for joint, other_joint in zip(scene.joints, again.joints, strict=True):
        assert (other_joint.path, other_joint.type) == (joint.path, joint.type)
        assert (other_joint.body0, other_joint.body1) == (joint.body0, joint.body1)
        for end in ("body0_from_joint", "body1_from_joint"):
            expected, found = getattr(joint, end), getattr(other_joint, end)
            assert_allclose(found.translation, expected.translation, atol=FLOAT32)
            assert_allclose(np.abs(np.dot(found.rotation, expected.rotation)), 1.0, atol=FLOAT32)
        for dof, other_dof in zip(joint.dofs, other_joint.dofs, strict=True):
            assert other_dof.axis == dof.axis
            assert (other_dof.drive is None, other_dof.mimic is None) == (
                dof.drive is None,
                dof.mimic is None,
            )
            assert_allclose(numbers(other_dof), numbers(dof), rtol=FLOAT32, atol=FLOAT32)
            if dof.drive is not None and other_dof.drive is not None:
                assert_allclose(other_dof.drive.stiffness, dof.drive.stiffness, rtol=FLOAT32)
                assert_allclose(other_dof.drive.damping, dof.drive.damping, rtol=FLOAT32)
                assert_allclose(other_dof.drive.target_position, dof.drive.target_position, atol=FLOAT32)
            if dof.mimic is not None and other_dof.mimic is not None:
                assert (other_dof.mimic.joint, other_dof.mimic.dof) == (dof.mimic.joint, dof.mimic.dof)
                assert_allclose(other_dof.mimic.multiplier, dof.mimic.multiplier, rtol=FLOAT32)
                assert_allclose(other_dof.mimic.offset, dof.mimic.offset, rtol=FLOAT32)

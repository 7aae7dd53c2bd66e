"""Loops, distance joints and kinematic bodies: what MuJoCo's tree cannot hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
from spec_scenes import UNIT, Reports, apart, body_pose, collider, hinged, run, simulated

from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    Dof,
    Drive,
    Inertial,
    Joint,
    Mimic,
    PhysicsScene,
)
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import compose, inverse, pose_array

GROUND, COUPLER, CRANK = 1.0, 1.0, 0.4
"""A parallelogram: crank and rocker 0.4 m, ground and coupler 1 m; they turn about Y in the XZ plane."""


def hinge(path: str, body0: int, body1: int, at0: Pose, at1: Pose, **others: Any) -> Joint:
    dof = others.pop("dof", Dof(axis="rotY"))
    return Joint(
        path=path, type="revolute", body0=body0, body1=body1, axis="Y", body0_from_joint=at0,
        body1_from_joint=at1, dofs=(dof,), **others,
    )  # fmt: skip


def linkage(*, crank: Dof | None = None, closing: Dof | None = None, **others: Any) -> PhysicsScene:
    """Returns a parallelogram that hangs down from two points of the world, closed by the joint `/close`."""
    end, start = Pose((0.0, 0.0, -CRANK)), Pose()
    joints = (
        hinge("/crank_joint", WORLD_BODY, 0, start, start, dof=crank or Dof(axis="rotY")),
        hinge("/coupler_joint", 0, 1, end, start),
        hinge("/rocker_joint", WORLD_BODY, 2, Pose((GROUND, 0.0, 0.0)), start),
        hinge(
            "/close", 1, 2, Pose((COUPLER, 0.0, 0.0)), end, dof=closing or Dof(axis="rotY"), closes_loop=True,
        ),
    )  # fmt: skip
    rod = Inertial(mass=1.0, center=(0.0, 0.0, -CRANK / 2), diagonal=(0.02, 0.02, 0.001))
    beam = Inertial(mass=2.0, center=(COUPLER / 2, 0.0, 0.0), diagonal=(0.001, 0.1, 0.1))
    bodies = (
        Body(path="/crank", inertial=rod, joints=(0,)),
        Body(path="/coupler", inertial=beam, parent=0, joints=(1,), world_from_body=Pose((0.0, 0.0, -CRANK))),
        Body(path="/rocker", inertial=rod, joints=(2,), world_from_body=Pose((GROUND, 0.0, 0.0))),
    )
    return PhysicsScene(bodies=bodies, joints=joints, **others)


def opening(compiled: Any, data: Any, joint: Joint) -> float:
    """Returns by how much a joint's frames are apart."""
    ends = [
        compose(body_pose(compiled, data, body), pose_array(frame))
        if body != WORLD_BODY
        else pose_array(frame)
        for body, frame in (
            (joint.body0, joint.body0_from_joint),
            (joint.body1, joint.body1_from_joint),
        )
    ]
    return float(np.linalg.norm(ends[0][:3] - ends[1][:3]))


def test_a_weld_is_as_soft_as_it_says() -> None:
    weld = Joint(
        path="/weld", type="fixed", body0=0, body1=1, body0_from_joint=Pose((1.0, 0.0, 0.0)), closes_loop=True,
        solver={"solref": (0.02, 1.0), "solimp": (0.9, 0.95, 0.001, 0.5, 2.0), "torque_scale": 0.3},
    )  # fmt: skip
    bodies = (
        Body(path="/a", inertial=UNIT),
        Body(path="/b", inertial=UNIT, world_from_body=Pose((1.0, 0.0, 0.0))),
    )
    _, model, _ = simulated(PhysicsScene(bodies=bodies, joints=(weld,)))
    assert model.eq_solref[0].tolist() == [0.02, 1.0]
    assert model.eq_solimp[0].tolist() == [0.9, 0.95, 0.001, 0.5, 2.0]
    assert model.eq_data[0][10] == 0.3


def test_a_hinge_closes_a_loop() -> None:
    scene = linkage(crank=Dof(axis="rotY", drive=Drive(stiffness=300.0, damping=30.0, target_position=0.8)))
    compiled, model, data = simulated(scene)
    assert compiled.qpos_of_dof.tolist()[3] == -1
    run(model, data, 4.0)
    assert data.qpos[0] == pytest.approx(0.8, abs=0.05)
    assert data.qpos[compiled.qpos_of_dof[2]] == pytest.approx(data.qpos[0], abs=1e-3)
    assert opening(compiled, data, scene.joints[3]) < 1e-3


def test_a_driven_hinge_closes_a_loop_and_drives_it() -> None:
    drive = Drive(stiffness=300.0, damping=30.0, target_position=0.5)
    scene = linkage(closing=Dof(axis="rotY", drive=drive))
    compiled, model, data = simulated(scene)
    assert model.body_mass.sum() == pytest.approx(4.0)
    run(model, data, 4.0)
    # The coupler stays level: the rocker turns about it as much as about the world.
    assert data.qpos[compiled.qpos_of_dof[3]] == pytest.approx(data.qpos[compiled.qpos_of_dof[2]], abs=2e-3)
    assert data.qpos[compiled.qpos_of_dof[3]] == pytest.approx(0.5, abs=0.05)
    assert opening(compiled, data, scene.joints[3]) < 1e-3


def test_limits_of_a_loop_joint_hold() -> None:
    closing = Dof(axis="rotY", lower=-0.3, upper=0.2)
    compiled, model, data = simulated(linkage(closing=closing, gravity=(0.0, 0.0, 0.0)))
    for effort, limit in ((3.0, 0.2), (-3.0, -0.3)):
        compiled.start(data)
        data.ctrl[compiled.motor_actuator[0]] = effort
        run(model, data, 3.0)
        assert data.qpos[0] == pytest.approx(limit, abs=0.01)


def test_a_prismatic_joint_closes_a_loop() -> None:
    """A slider and its crank: the piston is on a rail along X, jointed to the world by the loop joint."""
    crank = Dof(axis="rotY", drive=Drive(stiffness=500.0, damping=50.0, target_position=-1.0))
    joints = (
        hinge("/crank_joint", WORLD_BODY, 0, Pose(), Pose(), dof=crank),
        hinge("/rod_joint", 0, 1, Pose((0.3, 0.0, 0.0)), Pose()),
        hinge("/pin", 1, 2, Pose((0.9, 0.0, 0.0)), Pose()),
        Joint(
            path="/rail", type="prismatic", body0=WORLD_BODY, body1=2, axis="X", dofs=(Dof(axis="transX"),),
            closes_loop=True,
        ),
    )  # fmt: skip
    bodies = (
        Body(path="/crank", inertial=UNIT, joints=(0,)),
        Body(path="/rod", inertial=UNIT, parent=0, joints=(1,), world_from_body=Pose((0.3, 0.0, 0.0))),
        Body(path="/piston", inertial=UNIT, parent=1, joints=(2,), world_from_body=Pose((1.2, 0.0, 0.0))),
    )
    scene = PhysicsScene(bodies=bodies, joints=joints)
    # The rail's own position starts where the piston is.
    rail = Joint(
        path="/rail", type="prismatic", body0=WORLD_BODY, body1=2, axis="X", closes_loop=True,
        dofs=(Dof(axis="transX", position=1.2),),
    )  # fmt: skip
    scene = PhysicsScene(bodies=bodies, joints=(*joints[:3], rail))
    compiled, model, data = simulated(scene)
    run(model, data, 4.0)
    angle = -float(data.qpos[0])
    expected = 0.3 * math.cos(angle) + math.sqrt(0.9**2 - (0.3 * math.sin(angle)) ** 2)
    assert angle == pytest.approx(1.0, abs=0.02)
    piston = body_pose(compiled, data, 2)
    assert piston[0] == pytest.approx(expected, abs=2e-3)
    assert abs(piston[2]) < 2e-3
    assert data.qpos[compiled.qpos_of_dof[3]] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("kind", ["fixed", "spherical"])
def test_fixed_and_ball_joints_close_loops(kind: Any) -> None:
    """Two pendulums side by side, their ends joined."""
    dofs = tuple(Dof(axis=axis) for axis in ("rotX", "rotY", "rotZ")) if kind == "spherical" else ()
    ends = Pose((0.0, 0.25, -0.5)), Pose((0.0, -0.25, -0.5))
    joints = (
        hinge("/left_joint", WORLD_BODY, 0, Pose(), Pose()),
        hinge("/right_joint", WORLD_BODY, 1, Pose((0.0, 0.5, 0.0)), Pose()),
        Joint(
            path="/close", type=kind, body0=0, body1=1, body0_from_joint=ends[0], body1_from_joint=ends[1],
            dofs=dofs, closes_loop=True,
        ),
    )  # fmt: skip
    rod = Inertial(mass=1.0, center=(0.0, 0.0, -0.25), diagonal=(0.02, 0.02, 0.001))
    bodies = (
        Body(path="/left", inertial=rod, joints=(0,)),
        Body(path="/right", inertial=rod, joints=(1,), world_from_body=Pose((0.0, 0.5, 0.0))),
    )
    scene = PhysicsScene(bodies=bodies, joints=joints, gravity=(0.0, 0.0, 0.0))
    compiled, model, data = simulated(scene)
    data.ctrl[compiled.motor_actuator[0]] = 0.2
    run(model, data, 1.0)
    assert data.qpos[0] > 0.5
    assert data.qpos[1] == pytest.approx(data.qpos[0], abs=1e-3)
    assert opening(compiled, data, scene.joints[2]) < 1e-3


@each_case(("distance", "expected"), [((0.0, 0.5), 0.5), ((0.4, 0.4), 0.4), ((0.0, math.inf), None)])
def test_a_distance_joint_bounds_how_far_its_ends_are_apart(
    distance: tuple[float, float], expected: float | None
) -> None:
    joint = Joint(path="/rope", type="distance", body0=WORLD_BODY, body1=0, distance=distance)
    body = Body(path="/weight", inertial=UNIT, joints=(0,), world_from_body=Pose((0.0, 0.0, -0.3)))
    compiled, model, data = simulated(PhysicsScene(bodies=(body,), joints=(joint,)))
    assert compiled.free_qpos.tolist() == [0]
    run(model, data, 2.0)
    away = float(np.linalg.norm(body_pose(compiled, data, 0)[:3]))
    if expected is None:
        assert away > 15.0
    else:
        assert away == pytest.approx(expected, abs=2e-3)


def test_a_least_distance_pushes() -> None:
    joint = Joint(path="/bumper", type="distance", body0=WORLD_BODY, body1=0, distance=(0.5, math.inf))
    body = Body(path="/weight", inertial=UNIT, joints=(0,), world_from_body=Pose((0.0, 0.0, 1.0)))
    compiled, model, data = simulated(PhysicsScene(bodies=(body,), joints=(joint,)))
    run(model, data, 2.0)
    assert body_pose(compiled, data, 0)[2] == pytest.approx(0.5, abs=2e-3)


def test_a_kinematic_body_goes_where_it_is_told_and_pulls_on_joints() -> None:
    """A cart that is moved by hand drags a trailer behind it by a ball joint that holds its body1."""
    joint = Joint(
        path="/hitch", type="fixed", body0=0, body1=1, body0_from_joint=Pose((1.0, 0.0, 0.0)),
    )  # fmt: skip
    bodies = (
        Body(path="/trailer", inertial=UNIT),
        Body(
            path="/cart", kinematic=True, parent=0, joints=(0,), world_from_body=Pose((1.0, 0.0, 0.0)),
        ),
    )  # fmt: skip
    compiled, model, data = simulated(PhysicsScene(bodies=bodies, joints=(joint,), gravity=(0.0, 0.0, 0.0)))
    mocap = compiled.mocap_ids[1]
    assert mocap >= 0
    for _ in range(1000):
        data.mocap_pos[mocap, 0] += 0.001
        mujoco.mj_step(model, data)
    run(model, data, 0.5)
    assert body_pose(compiled, data, 1)[0] == pytest.approx(2.0)
    assert body_pose(compiled, data, 0)[0] == pytest.approx(1.0, abs=0.01)


def test_joints_may_hang_from_a_kinematic_body() -> None:
    joint = hinge("/joint", 0, 1, Pose((0.0, 0.0, 0.5)), Pose())
    bodies = (
        Body(path="/stand", kinematic=True, world_from_body=Pose((1.0, 2.0, 0.0))),
        Body(path="/arm", inertial=UNIT, parent=0, joints=(0,)),
    )
    compiled, model, data = simulated(PhysicsScene(bodies=bodies, joints=(joint,)))
    data.mocap_pos[compiled.mocap_ids[0]] = (0.0, 0.0, 1.0)
    data.qpos[compiled.qpos_of_dof[0]] = 0.7
    mujoco.mj_kinematics(model, data)
    expected = (0.0, 0.0, 1.5, 0.0, math.sin(0.35), 0.0, math.cos(0.35))
    assert apart(body_pose(compiled, data, 1), np.array(expected)) <= 1e-9


def test_a_body_with_an_impossible_mass_is_held_and_reported() -> None:
    reports = Reports()
    scene = hinged(inertial=Inertial(mass=-1.0), gravity=(9.81, 0.0, -9.81))
    floating = Body(
        path="/ghost", inertial=Inertial(mass=float("nan")), world_from_body=Pose((1.0, 0.0, 2.0))
    )
    scene = PhysicsScene(bodies=(*scene.bodies, floating), joints=scene.joints)
    compiled, model, data = simulated(scene, reports)
    assert sorted(reports) == ["mujoco.mass:/body", "mujoco.mass:/ghost"]
    assert compiled.qpos_of_dof.tolist() == [-1]
    assert compiled.free_qpos.tolist() == [-1, -1]
    run(model, data, 0.1)
    assert body_pose(compiled, data, 1)[2] == 2.0


def test_moments_that_no_body_has_are_mended_and_reported() -> None:
    reports = Reports()
    bodies = tuple(
        Body(path=path, inertial=Inertial(mass=1.0, diagonal=diagonal))
        for path, diagonal in (
            ("/impossible", (0.1, 0.1, 0.5)),
            ("/rounded", (0.1, 0.2, 0.3 + 1e-8)),
            ("/point", (0.0, 0.0, 0.0)),
            ("/negative", (-0.1, 0.1, 0.1)),
            ("/rod", (0.1, 0.0, 0.1)),
            ("/tiny", (1e-12, 2e-12, 2e-12)),
        )
    )
    compiled, model, data = simulated(PhysicsScene(bodies=bodies), reports)
    assert sorted(reports) == ["mujoco.inertia:/impossible", "mujoco.inertia:/negative"]
    impossible, _, _, _, rod, tiny = model.body_inertia[compiled.body_ids].tolist()
    assert impossible == pytest.approx((0.2, 0.2, 0.4))
    assert rod == pytest.approx((0.1, 0.0, 0.1), abs=1e-6)
    assert tiny == pytest.approx((1e-12, 2e-12, 2e-12))
    run(model, data, 0.1)
    assert np.isfinite(data.qpos).all()


def test_a_mimic_without_a_leader_in_the_model_is_reported() -> None:
    reports = Reports()
    joints = (
        hinge("/leader", WORLD_BODY, 0, Pose(), Pose()),
        hinge("/follower", WORLD_BODY, 1, Pose(), Pose(), dof=Dof(axis="rotY", mimic=Mimic(joint=0, dof=0))),
    )
    bodies = (
        Body(path="/impossible", joints=(0,), inertial=Inertial(mass=-1.0)),
        Body(path="/body", inertial=UNIT, joints=(1,)),
    )
    simulated(PhysicsScene(bodies=bodies, joints=joints), reports)
    assert sorted(reports) == ["mujoco.mass:/impossible", "mujoco.mimic:/follower"]


def test_gravity_acts_on_a_body_as_much_as_it_says() -> None:
    bodies = tuple(
        Body(
            path=f"/body_{scale:g}",
            inertial=UNIT,
            gravity_scale=scale,
            world_from_body=Pose((2 * scale, 0, 0)),
        )
        for scale in (0.0, 0.5, 1.0)
    )
    compiled, model, data = simulated(PhysicsScene(bodies=bodies))
    run(model, data, 1.0)
    fallen = [-body_pose(compiled, data, index)[2] for index in range(3)]
    assert fallen == pytest.approx([0.0, 0.25 * 9.81, 0.5 * 9.81], abs=1e-4)


def test_initial_velocities_are_in_the_world_frame_at_the_origin() -> None:
    pose = Pose((0.0, 0.0, 5.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))
    inertial = Inertial(mass=1.0, center=(0.2, 0.0, 0.0), diagonal=(0.01, 0.02, 0.03))
    body = Body(
        path="/body", inertial=inertial, world_from_body=pose, linear_velocity=(1.0, 2.0, 3.0),
        angular_velocity=(0.1, 0.2, 0.3),
    )  # fmt: skip
    scene = PhysicsScene(
        bodies=(body,), colliders=(collider(0, Box((0.1, 0.1, 0.1))),), gravity=(0.0, 0.0, 0.0)
    )
    compiled, model, data = simulated(scene)
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, compiled.body_ids[0], velocity, 0)
    assert velocity[3:] == pytest.approx((1.0, 2.0, 3.0))
    assert velocity[:3] == pytest.approx((0.1, 0.2, 0.3))
    before = body_pose(compiled, data, 0)
    mujoco.mj_step(model, data)
    mujoco.mj_kinematics(model, data)
    moved = compose(inverse(before), body_pose(compiled, data, 0))
    assert np.linalg.norm(moved[:3]) == pytest.approx(math.sqrt(14.0) * model.opt.timestep, rel=1e-3)

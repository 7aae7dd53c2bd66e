"""Joints of a physics scene: one with the plan where the plan has them, and measured alike where it has not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.assets import ARM, ASSETS, FLEET, ROVER_IN_WORLD, plan_of
from builders.stage_text import BALL, at, bodies, body, findings, joints, plan_text, prim, scene_of, world
from case_tables import each_case
from usd_ros_bridge.model.physics import WORLD_BODY, Joint, PhysicsScene
from usd_ros_bridge.planning.kinematics.rest_pose import motion_pose
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, compose, inverse, relative

FILES = [ROVER_IN_WORLD, ARM, FLEET, *sorted(ASSETS.glob("*.usda"))]
ONE_SIDED = {"error_joint_frame", "error_frame_transform"}


def array(pose: Pose) -> FloatArray:
    return np.array((*pose.translation, *pose.rotation))


def pose_of(scene: PhysicsScene, index: int) -> FloatArray:
    return array(Pose() if index == WORLD_BODY else scene.bodies[index].world_from_body)


def joint(kind: str, name: str, body0: str, body1: str, *content: str, schemas: str = "") -> str:
    ends = [f"rel physics:body{end} = </World/{to}>" for end, to in enumerate((body0, body1)) if to]
    return prim(f"Physics{kind}", name, schemas, *ends, *content)


def two(*content: str) -> str:
    """Two bodies a metre apart, one above the other, and what joins them."""
    return world(body("a", BALL, at(0, 0, 1)), body("b", BALL, at(0, 0, 2)), *content)


TO_B = "point3f physics:localPos0 = (0, 0, 1)"


# --- The plan's joints --------------------------------------------------------------------------------------------


@each_case("path", FILES)
def test_scene_and_plan_agree(path: Path) -> None:
    plan = plan_of(path)
    scene = plan.physics
    by_path = {each.path: each for each in scene.joints}
    for robot in plan.robots:
        for planned in robot.joints:
            found = by_path[planned.path]
            assert [dof.row for dof in found.dofs] == [dof.row for dof in planned.dofs]
            assert [(dof.position, dof.lower, dof.upper) for dof in found.dofs] == [
                (dof.position, dof.lower, dof.upper) for dof in planned.dofs
            ]
            assert found.type == planned.type
    for body_ in scene.bodies:
        assert body_.parent < scene.bodies.index(body_)
        if body_.row >= 0:
            np.testing.assert_allclose(
                array(body_.world_from_body), plan.layout.body_pose[body_.row], atol=1e-12
            )
            assert body_.path == plan.layout.bodies[body_.row]


@each_case("path", FILES)
def test_joint_frames_meet_at_rest(path: Path) -> None:
    plan = plan_of(path)
    scene = plan.physics
    for body_ in scene.bodies:
        if len(body_.joints) != 1 or path.stem in ONE_SIDED:
            continue
        (each,) = (scene.joints[number] for number in body_.joints)
        np.testing.assert_allclose(misses(scene, each), 0.0, atol=2e-4)


def misses(scene: PhysicsScene, each: Joint) -> FloatArray:
    """How far the frames of a joint are from where its positions have them."""
    world_from_joint0 = compose(pose_of(scene, each.body0), array(each.body0_from_joint))
    world_from_joint1 = compose(pose_of(scene, each.body1), array(each.body1_from_joint))
    motion = motion_pose([dof.axis for dof in each.dofs], [dof.position for dof in each.dofs])
    difference = relative(compose(world_from_joint0, motion), world_from_joint1)
    return np.concatenate((difference[:3], difference[3:6]))


def test_an_end_at_the_world_is_in_the_world() -> None:
    """A robot that is placed by its context: its root joint's frame is in the context for TF, here in the world."""
    base = body("base", BALL, at(0, 0, 0.5))
    robot = prim(
        "Xform",
        "robot",
        "RosContextAPI",
        at(3, 4, 0),
        base,
        prim("PhysicsFixedJoint", "root", "", "rel physics:body1 = </World/robot/base>"),
    )
    scene = scene_of(world(robot))
    root = joints(scene)["root"]
    assert (root.body0, root.body1) == (WORLD_BODY, 0)
    assert root.body0_from_joint.translation == pytest.approx((3, 4, 0.5))
    assert bodies(scene)["base"].joints == (0,)
    assert bodies(scene)["base"].parent == WORLD_BODY


# --- Joints that the plan does not have ---------------------------------------------------------------------------


def test_a_door_outside_every_robot() -> None:
    robot = prim("Xform", "robot", "RosContextAPI", body("base", BALL))
    leaf = body("leaf", BALL, at(1, 2, 1))
    hinge = joint(
        "RevoluteJoint",
        "hinge",
        "",
        "leaf",
        "float physics:lowerLimit = -90",
        "float physics:upperLimit = 0",
        'uniform token physics:axis = "Z"',
        "point3f physics:localPos0 = (1, 1.5, 1)",
        "point3f physics:localPos1 = (0, -0.5, 0)",
        "float drive:angular:physics:damping = 1",
        schemas="PhysicsDriveAPI:angular",
    )
    plan = plan_text(world(robot, leaf, hinge))
    scene = plan.physics
    assert [planned.path for planned in plan.robots[0].joints] == []
    found = joints(scene)["hinge"]
    (dof,) = found.dofs
    assert (dof.row, dof.lower, dof.upper) == (-1, pytest.approx(-math.pi / 2), 0.0)
    assert dof.drive is not None
    assert bodies(scene)["leaf"].joints == (0,)
    assert bodies(scene)["leaf"].robot == -1
    assert not found.closes_loop
    np.testing.assert_allclose(misses(scene, found), 0.0, atol=1e-6)


def test_poses_of_props_follow_their_joints() -> None:
    """As for robots: joint frames win over authored poses, and say so."""
    robot = prim("Xform", "robot", "RosContextAPI", body("base", BALL))
    text = world(
        robot,
        body("a", BALL, at(0, 0, 1)),
        body("b", BALL, at(0.5, 0, 2)),
        joint("FixedJoint", "j", "a", "b", TO_B),
    )
    plan = plan_text(text)
    assert bodies(plan.physics)["b"].world_from_body.translation == pytest.approx((0, 0, 2))
    assert [finding.path for finding in findings(plan, "1.3.pose")] == ["/World/j"]


def test_excluded_joints_close_loops() -> None:
    scene = scene_of(
        two(
            joint("FixedJoint", "j", "a", "b", TO_B),
            joint("SphericalJoint", "k", "a", "b", TO_B, "bool physics:excludeFromArticulation = 1"),
        )
    )
    assert not joints(scene)["j"].closes_loop
    assert joints(scene)["k"].closes_loop
    assert [dof.row for dof in joints(scene)["k"].dofs] == [-1, -1, -1]


def test_the_last_joint_of_a_cycle_closes_it() -> None:
    text = two(
        body("c", BALL, at(0, 0, 3)),
        joint("RevoluteJoint", "j1", "a", "b", TO_B),
        joint("RevoluteJoint", "j2", "b", "c", TO_B),
        joint("RevoluteJoint", "j3", "c", "a", "point3f physics:localPos0 = (0, 0, -2)"),
    )
    scene = scene_of(text)
    assert [name for name, each in joints(scene).items() if each.closes_loop] == ["j3"]
    np.testing.assert_allclose(misses(scene, joints(scene)["j3"]), 0.0, atol=1e-6)


def test_a_joint_between_two_robots_joins_them() -> None:
    """The plan keeps them apart (one tree per robot); physics cannot."""
    first = prim("Xform", "r1", "RosContextAPI", 'string ros:context:namespace = "r1"', body("a", BALL))
    second = prim("Xform", "r2", "RosContextAPI", 'string ros:context:namespace = "r2"', body("b", BALL))
    plan = plan_text(world(first, second, joint("FixedJoint", "j", "r1/a", "r2/b")))
    scene = plan.physics
    assert findings(plan, "1.3.joint.robots")
    assert bodies(scene)["b"].parent == scene.bodies.index(bodies(scene)["a"])
    assert bodies(scene)["b"].joints == (0,)


def test_the_second_hinge_of_a_door_is_left_out() -> None:
    hinge = 'uniform token physics:axis = "Z"'
    scene = scene_of(
        two(
            joint("RevoluteJoint", "low", "a", "b", TO_B, hinge),
            joint(
                "RevoluteJoint",
                "high",
                "a",
                "b",
                "point3f physics:localPos0 = (0, 0, 1.5)",
                "point3f physics:localPos1 = (0, 0, 0.5)",
                hinge,
            ),
        )
    )
    assert list(joints(scene)) == ["low"]


def test_a_joint_that_contradicts_another_still_acts() -> None:
    scene = scene_of(
        two(joint("FixedJoint", "j", "a", "b", TO_B), joint("RevoluteJoint", "k", "a", "b", TO_B))
    )
    assert [(name, each.closes_loop) for name, each in joints(scene).items()] == [("j", False), ("k", True)]


def test_disabled_joints_do_not_act() -> None:
    scene = scene_of(two(joint("FixedJoint", "j", "a", "b", TO_B, "bool physics:jointEnabled = 0")))
    assert scene.joints == ()


def test_a_kinematic_body_hangs_by_nothing() -> None:
    text = world(
        body("a", BALL, at(0, 0, 1)),
        body("b", "bool physics:kinematicEnabled = 1", BALL, at(0, 0, 2)),
        joint("RevoluteJoint", "j", "a", "b", TO_B),
    )
    scene = scene_of(text)
    assert bodies(scene)["b"].kinematic
    assert bodies(scene)["b"].joints == ()
    assert joints(scene)["j"].closes_loop


def test_distances() -> None:
    limits = ("float physics:minDistance = 50", "float physics:maxDistance = 200")
    scene = scene_of(
        two(joint("DistanceJoint", "j", "a", "b", *limits), joint("DistanceJoint", "k", "a", "")), meters=0.01
    )
    assert joints(scene)["j"].distance == (0.5, 2.0)
    assert joints(scene)["k"].distance == (0.0, math.inf)
    assert joints(scene)["j"].closes_loop
    assert bodies(scene)["b"].joints == ()


def test_a_least_distance_above_the_greatest() -> None:
    plan = plan_text(
        two(
            joint(
                "DistanceJoint",
                "j",
                "a",
                "b",
                "float physics:minDistance = 3",
                "float physics:maxDistance = 2",
            )
        )
    )
    assert plan.physics.joints[0].distance == (0.0, 2.0)
    assert [finding.path for finding in findings(plan, "1.3.joint.distance")] == ["/World/j"]


def test_a_generic_joint_does_not_limit_distances() -> None:
    limit = "float limit:distance:physics:high = 1"
    plan = plan_text(two(joint("Joint", "j", "a", "b", TO_B, limit, schemas="PhysicsLimitAPI:distance")))
    (finding,) = findings(plan, "1.3.joint.distance")
    assert (finding.path, finding.severity) == ("/World/j", "warning")


def test_cones() -> None:
    cone = ("float physics:coneAngle0Limit = 30", "float physics:coneAngle1Limit = 60")
    scene = scene_of(
        two(
            joint("SphericalJoint", "j", "a", "b", TO_B, *cone),
            body("c", BALL, at(0, 0, 3)),
            joint("SphericalJoint", "k", "b", "c", TO_B),
        )
    )
    assert joints(scene)["j"].cone == pytest.approx((math.pi / 6, math.pi / 3))
    assert joints(scene)["j"].axis == "X"
    assert joints(scene)["k"].cone is None


def test_a_generic_joint_frees_what_it_does_not_lock() -> None:
    locked = "\n".join(
        f"float limit:{axis}:physics:low = 1\nfloat limit:{axis}:physics:high = -1"
        for axis in ("transX", "transY", "rotX", "rotY")
    )
    limited = "float limit:rotZ:physics:low = -90\nfloat limit:rotZ:physics:high = 90"
    schemas = " ".join(f"PhysicsLimitAPI:{axis}" for axis in ("transX", "transY", "rotX", "rotY", "rotZ"))
    scene = scene_of(two(joint("Joint", "j", "a", "b", TO_B, locked, limited, schemas=schemas)))
    found = joints(scene)["j"]
    assert found.type == "generic"
    assert [dof.axis for dof in found.dofs] == ["transZ", "rotZ"]
    assert found.dofs[1].upper == pytest.approx(math.pi / 2)


def test_colliding_joints() -> None:
    scene = scene_of(
        two(
            joint("FixedJoint", "j", "a", "b", TO_B),
            body("c", BALL, at(0, 0, 3)),
            joint("FixedJoint", "k", "b", "c", TO_B, "bool physics:collisionEnabled = 1"),
        )
    )
    assert joints(scene)["k"].collides
    assert [[scene.bodies[n].path for n in pair] for pair in scene.apart_bodies] == [["/World/a", "/World/b"]]


# --- Degrees of freedom -------------------------------------------------------------------------------------------


def test_mujocos_parents_and_children_collide_where_the_scene_says() -> None:
    scene = prim("PhysicsScene", "scene", "", "bool mjc:flag:filterparent = false")
    for content, collides in (("", True), ("bool physics:collisionEnabled = 0", False)):
        found = scene_of(two(scene, joint("RevoluteJoint", "j", "a", "b", TO_B, content)))
        assert joints(found)["j"].collides is collides


def drive(axis: str, **values: float) -> str:
    return "\n".join(f"float drive:{axis}:physics:{name} = {value}" for name, value in values.items())


def test_drives_in_radians_metres_and_newtons() -> None:
    """A stage in centimetres and grams."""
    gains = {
        "stiffness": 10.0,
        "damping": 1.0,
        "maxForce": 5.0,
        "targetPosition": 45.0,
        "targetVelocity": 90.0,
    }
    scene = scene_of(
        two(
            joint(
                "RevoluteJoint", "j", "a", "b", drive("angular", **gains), schemas="PhysicsDriveAPI:angular"
            ),
            body("c", BALL),
            joint(
                "PrismaticJoint", "k", "b", "c", drive("linear", **gains), schemas="PhysicsDriveAPI:linear"
            ),
        ),
        meters=0.01,
        kilograms=0.001,
    )
    turning = joints(scene)["j"].dofs[0].drive
    sliding = joints(scene)["k"].dofs[0].drive
    assert not turning.acceleration
    effort = 0.001 * 0.01**2
    assert turning.stiffness == pytest.approx(10 * effort * 180 / math.pi)
    assert turning.damping == pytest.approx(effort * 180 / math.pi)
    assert turning.max_force == pytest.approx(5 * effort)
    assert (turning.target_position, turning.target_velocity) == pytest.approx((math.pi / 4, math.pi / 2))
    assert (sliding.stiffness, sliding.damping) == pytest.approx((0.01, 0.001))
    assert sliding.max_force == pytest.approx(5e-5)
    assert (sliding.target_position, sliding.target_velocity) == pytest.approx((0.45, 0.9))


def test_acceleration_drives_do_not_know_masses() -> None:
    content = (
        drive("angular", stiffness=10.0, damping=1.0)
        + '\nuniform token drive:angular:physics:type = "acceleration"'
    )
    scene = scene_of(
        two(joint("RevoluteJoint", "j", "a", "b", content, schemas="PhysicsDriveAPI:angular")),
        meters=0.01,
        kilograms=0.001,
    )
    found = joints(scene)["j"].dofs[0].drive
    assert found.acceleration
    assert (found.stiffness, found.damping) == pytest.approx((1800 / math.pi, 180 / math.pi))


@each_case(
    ("kind", "axis", "what"),
    [("FixedJoint", "angular", "fixed joint"), ("RevoluteJoint", "linear", "revolute joint")],
)
def test_drives_on_nothing(kind: str, axis: str, what: str) -> None:
    limits = (
        ("float physics:lowerLimit = -1", "float physics:upperLimit = 1") if kind == "RevoluteJoint" else ()
    )
    plan = plan_text(
        two(
            joint(
                kind,
                "j",
                "a",
                "b",
                TO_B,
                drive(axis, stiffness=10),
                *limits,
                schemas=f"PhysicsDriveAPI:{axis}",
            )
        )
    )
    (finding,) = findings(plan, "1.3.drive")
    assert finding.path == "/World/j"
    assert what in finding.message


@each_case(
    ("name", "value", "used"),
    [
        ("stiffness", "-1", 0.0),
        ("stiffness", "nan", 0.0),
        ("stiffness", "1e30", 1e15),
        ("stiffness", "inf", 1e15),
        ("damping", "-inf", 0.0),
        ("damping", "inf", 1e15),
        ("damping", "1e30", 1e15),
        ("maxForce", "-2", math.inf),
        ("maxForce", "nan", math.inf),
        ("targetPosition", "nan", 0.0),
        ("targetPosition", "1e13", 0.0),
        ("targetVelocity", "inf", 0.0),
    ],
)
def test_impossible_gains_are_bounded(name: str, value: str, used: float) -> None:
    """One line names the joint and both numbers, in the unit of the attribute; the other joint is as it was."""
    content = f"float drive:angular:physics:{name} = {value}"
    drives = [
        joint("RevoluteJoint", "j", "a", "b", TO_B, content, schemas="PhysicsDriveAPI:angular"),
        joint(
            "RevoluteJoint", "k", "b", "c", drive("angular", stiffness=2), schemas="PhysicsDriveAPI:angular"
        ),
    ]
    plan = plan_text(two(body("c", BALL, at(0, 0, 2)), *drives))
    found = joints(plan.physics)["j"].dofs[0].drive
    fields = {
        "stiffness": found.stiffness,
        "damping": found.damping,
        "maxForce": found.max_force,
        "targetPosition": found.target_position,
        "targetVelocity": found.target_velocity,
    }
    assert fields.pop(name) == pytest.approx(used)
    assert fields.pop("maxForce", math.inf) == math.inf
    assert set(fields.values()) == {0.0}
    assert joints(plan.physics)["k"].dofs[0].drive.stiffness == pytest.approx(math.degrees(2))
    (finding,) = findings(plan, "1.3.drive")
    assert (finding.path, finding.attribute) == ("/World/j", f"drive:angular:physics:{name}")
    shown = math.radians(used) if used == 1e15 else used
    assert f"{shown:.6g} is used" in finding.message
    assert finding.message.startswith(f"'{float(value)}'")


def test_solver_attributes_in_order_of_priority() -> None:
    content = """float newton:armature = 2
float physxJoint:armature = 3
float mjc:frictionloss = 0.5
double mjc:stiffness = 4
double mjc:springref = 90
double mjc:damping = 0.25
float state:angular:physics:velocity = 180
double[] mjc:solreflimit = [0.01, 1]
"""
    scene = scene_of(two(joint("RevoluteJoint", "j", "a", "b", TO_B, content)))
    (dof,) = joints(scene)["j"].dofs
    assert (dof.armature, dof.friction, dof.stiffness, dof.damping) == pytest.approx((2, 0.5, 4, 0.25))
    assert (dof.spring_position, dof.velocity) == pytest.approx((math.pi / 2, math.pi))
    assert joints(scene)["j"].solver == {"solref_limit": (0.01, 1.0)}


def with_angle(unit: str, content: str, kind: str = "RevoluteJoint") -> PhysicsScene:
    scene = prim("PhysicsScene", "scene", "", f'token mjc:compiler:angle = "{unit}"' if unit else "")
    return scene_of(two(scene, joint(kind, "j", "a", "b", TO_B, content)))


LIMITED = """float physics:lowerLimit = -20
float physics:upperLimit = 200
double mjc:ref = -90
double mjc:springref = 30
"""


@each_case("unit", ["", "degree"])
def test_references_are_in_the_angle_of_mujocos_compiler(unit: str) -> None:
    """MuJoCo's coordinate is -90 degrees where the joint frames coincide, which is position 0."""
    (dof,) = joints(with_angle(unit, LIMITED))["j"].dofs
    assert (dof.lower, dof.upper) == pytest.approx((math.radians(70.0), math.radians(290.0)))
    assert (dof.reference, dof.spring_position) == pytest.approx((math.radians(-90.0), math.radians(120.0)))


def test_references_in_radians() -> None:
    content = "double mjc:ref = 0.5\ndouble mjc:springref = 2"
    (dof,) = joints(with_angle("radian", content))["j"].dofs
    assert (dof.reference, dof.spring_position) == (0.5, 1.5)


def test_references_of_slides_are_lengths() -> None:
    content = "float physics:lowerLimit = 0\nfloat physics:upperLimit = 2\ndouble mjc:ref = 0.5"
    (dof,) = joints(with_angle("degree", content, "PrismaticJoint"))["j"].dofs
    assert (dof.lower, dof.upper, dof.reference, dof.spring_position) == (-0.5, 1.5, 0.5, -0.5)


def test_an_impossible_reference() -> None:
    plan = plan_text(two(joint("RevoluteJoint", "j", "a", "b", TO_B, "double mjc:ref = inf")))
    assert plan.physics.joints[0].dofs[0].reference == 0.0
    assert [finding.attribute for finding in findings(plan, "1.3.joint.solver")] == ["mjc:ref"]


@each_case(
    ("content", "most", "uneven"),
    [
        ("double mjc:actuatorfrcrange:min = -3\ndouble mjc:actuatorfrcrange:max = 2", 3.0, (-3.0, 2.0)),
        ("double mjc:actuatorfrcrange:min = -3\ndouble mjc:actuatorfrcrange:max = 3", 3.0, None),
        ("double mjc:actuatorfrcrange:max = 3", 3.0, (0.0, 3.0)),
        ('double mjc:actuatorfrcrange:max = 3\ntoken mjc:actuatorfrclimited = "false"', math.inf, None),
        ("double mjc:actuatorfrcrange:max = 0", math.inf, None),
    ],
)
def test_efforts_that_are_bounded_unevenly(
    content: str, most: float, uneven: tuple[float, float] | None
) -> None:
    (dof,) = joints(scene_of(two(joint("RevoluteJoint", "j", "a", "b", TO_B, content))))["j"].dofs
    assert dof.max_effort == most
    assert dof.effort_range == uneven


@each_case(
    ("content", "expected"),
    [
        ("float newton:limitStiffness = 2\nfloat newton:limitDamping = 1", (360 / math.pi, 180 / math.pi)),
        ("float physxLimit:angular:stiffness = 2\nfloat physxLimit:angular:damping = 1",
         (360 / math.pi, 180 / math.pi)),
        ("float newton:limitStiffness = inf\nfloat physxLimit:angular:stiffness = 2", (0.0, 0.0)),
        ("float newton:limitStiffness = -inf\nfloat physxLimit:angular:stiffness = 2", (0.0, 0.0)),
        ("float newton:limitStiffness = 2\nfloat newton:limitDamping = inf", (0.0, 0.0)),
        ("float physxLimit:angular:stiffness = 0\nfloat physxLimit:angular:damping = 1", (0.0, 0.0)),
        ("float newton:limitStiffness = 2\ndouble[] mjc:solreflimit = [0.1, 1]", (0.0, 0.0)),
    ],
)  # fmt: skip
def test_limits_that_give_way(content: str, expected: tuple[float, float]) -> None:
    (dof,) = joints(scene_of(two(joint("RevoluteJoint", "j", "a", "b", TO_B, content))))["j"].dofs
    assert (dof.limit_stiffness, dof.limit_damping) == pytest.approx(expected)


def test_dampers_that_hold_a_joint_fast() -> None:
    content = "double mjc:damping = 1e11"
    (dof,) = joints(scene_of(two(joint("RevoluteJoint", "j", "a", "b", TO_B, content))))["j"].dofs
    assert dof.damping == 1e11


def test_springs_by_their_behaviour() -> None:
    content = "double[] mjc:springdamper = [{}, 1]\ndouble mjc:margin = 0.1\nbool mjc:actuatorgravcomp = true"
    found = [
        joints(scene_of(two(joint("RevoluteJoint", "j", "a", "b", TO_B, content.format(first)))))["j"].solver
        for first in (0.5, 0)
    ]
    assert found[0] == {
        "spring_damper": (0.5, 1.0), "limit_margin": 0.1, "actuator_gravity_compensation": True
    }  # fmt: skip
    assert "spring_damper" not in found[1]


@each_case(
    ("name", "value", "used", "shown"),
    [
        ("newton:armature", "-1", 0.0, "0"),
        ("newton:armature", "nan", 0.0, "0"),
        ("newton:armature", "inf", 1e15, "1e+15"),
        ("mjc:frictionloss", "1e30", 1e15, "1e+15"),
        ("newton:damping", "inf", 1e15, "1.74533e+13"),
        ("physxJointAxis:angular:viscousFrictionCoefficient", "-1", 0.0, "0"),
        # No time step resolves such a spring.
        ("mjc:stiffness", "1e30", 0.0, "0"),
    ],
)
def test_impossible_solver_attributes_are_bounded(name: str, value: str, used: float, shown: str) -> None:
    plan = plan_text(two(joint("RevoluteJoint", "j", "a", "b", TO_B, f"float {name} = {value}")))
    (dof,) = plan.physics.joints[0].dofs
    assert max(dof.armature, dof.friction, dof.damping, dof.stiffness) == pytest.approx(used)
    (finding,) = findings(plan, "1.3.joint.solver")
    assert (finding.path, finding.attribute) == ("/World/j", name)
    assert f"'{float(value)}' cannot be used; {shown} is used" in finding.message


def test_friction_of_physx() -> None:
    """Viscous friction is damping, in effort by degree and second; a dynamic effort alone is dry friction."""
    axis = "physxJointAxis:angular"
    content = f"float {axis}:viscousFrictionCoefficient = 0.5\nfloat {axis}:dynamicFrictionEffort = 2"
    (dof,) = joints(scene_of(two(joint("RevoluteJoint", "j", "a", "b", TO_B, content))))["j"].dofs
    assert (dof.damping, dof.friction) == pytest.approx((math.degrees(0.5), 2.0))


def test_mimic_rules_of_robots_and_of_props() -> None:
    follow = joint(
        "RevoluteJoint",
        "k",
        "b",
        "c",
        "rel newton:mimicJoint = </World/j>",
        "float newton:mimicCoef1 = -2",
        "float newton:mimicCoef0 = 90",
        schemas="NewtonMimicAPI",
    )
    things = (
        body("a", BALL),
        body("b", BALL),
        body("c", BALL),
        joint("RevoluteJoint", "j", "a", "b"),
        follow,
    )
    as_robot = scene_of(world(*things))
    elsewhere = prim("Xform", "robot", "RosContextAPI", body("base", BALL))
    as_prop = scene_of(world(elsewhere, *things))
    for scene in (as_robot, as_prop):
        mimic = joints(scene)["k"].dofs[0].mimic
        assert scene.joints[mimic.joint].path == "/World/j"
        assert (mimic.dof, mimic.multiplier, mimic.offset) == (0, -2.0, pytest.approx(math.pi / 2))
    assert as_robot.joints[0].dofs[0].row == 0
    assert as_prop.joints[0].dofs[0].row == -1


def test_mimic_rules_with_powers_of_the_leader() -> None:
    """The linear part is Newton's, the rest MuJoCo's, with how the equality gives way."""
    content = """rel newton:mimicJoint = </World/j>
double mjc:coef2 = 0.1
double mjc:coef4 = 0.2
double[] mjc:solref = [0.1, 1]
"""
    follow = joint("RevoluteJoint", "k", "b", "c", content, schemas="NewtonMimicAPI MjcEqualityJointAPI")
    things = (body(name, BALL) for name in "abc")
    plan = plan_text(world(*things, joint("RevoluteJoint", "j", "a", "b"), follow))
    found = joints(plan.physics)["k"]
    mimic = found.dofs[0].mimic
    assert mimic.polynomial == (0.1, 0.0, 0.2)
    assert found.solver["solref"] == (0.1, 1.0)
    assert found.solver["solimp"] == (0.9, 0.95, 0.001, 0.5, 2.0)
    assert [(each.severity, each.path) for each in findings(plan, "1.3.mimic")] == [("info", "/World/k")]


# --- Bad joints ---------------------------------------------------------------------------------------------------


def test_limits_that_are_crossed_lock_the_joint() -> None:
    limits = ("float physics:lowerLimit = 10", "float physics:upperLimit = -10")
    plan = plan_text(two(joint("RevoluteJoint", "j", "a", "b", TO_B, *limits)))
    assert plan.physics.joints[0].type == "fixed"
    assert [finding.path for finding in findings(plan, "1.3.limits")] == ["/World/j"]


def test_a_joint_between_a_body_and_itself() -> None:
    plan = plan_text(two(joint("RevoluteJoint", "j", "a", "a")))
    assert plan.physics.joints == ()
    assert len(plan.physics.bodies) == 2
    assert [finding.path for finding in findings(plan, "1.3.joint.target")] == ["/World/j"]


def test_an_excluded_joint_is_checked_like_any_other() -> None:
    plan = plan_text(two(joint("RevoluteJoint", "j", "a", "a", "bool physics:excludeFromArticulation = 1")))
    assert plan.physics.joints == ()
    assert [finding.path for finding in findings(plan, "1.3.joint.target")] == ["/World/j"]


def test_joints_that_break_are_reported() -> None:
    plan = plan_text(two(joint("FixedJoint", "j", "a", "b", TO_B, "float physics:breakForce = 100")))
    assert [finding.path for finding in findings(plan, "1.3.joint.break")] == ["/World/j"]


# --- Bodies and scenes --------------------------------------------------------------------------------------------


def test_velocities_are_in_the_axes_of_the_body() -> None:
    """In those of its parent the linear one would be along Y."""
    turn = "float xformOp:rotateZ = 90", 'uniform token[] xformOpOrder = ["xformOp:rotateZ"]'
    turned = prim(
        "Xform",
        "x",
        "",
        *turn,
        body(
            "b",
            BALL,
            *turn,
            "vector3f physics:velocity = (100, 0, 0)",
            "vector3f physics:angularVelocity = (0, 180, 0)",
        ),
    )
    found = bodies(scene_of(world(turned), meters=0.01))["b"]
    assert found.linear_velocity == pytest.approx((-1, 0, 0), abs=1e-7)
    assert found.angular_velocity == pytest.approx((0, -math.pi, 0), abs=1e-6)


FREE = prim(
    "Xform",
    "puck",
    "PhysicsRigidBodyAPI PhysicsMassAPI",
    "float physics:mass = 1",
    "vector3f physics:velocity = (1, 0, 0)",
    "vector3f physics:angularVelocity = (0, 90, 0)",
    "float xformOp:rotateZ = 90",
    'uniform token[] xformOpOrder = ["xformOp:rotateZ"]',
)
OF_PRIM = FREE.replace(
    "(prepend", "(\ncustomData = {dictionary physics = {bool localSpaceVelocities = LOCAL}}\nprepend"
)
OF_ATTRIBUTE = FREE.replace(
    "(1, 0, 0)", '(1, 0, 0) (\ncustomData = {bool "physics:localSpaceVelocities" = LOCAL}\n)'
)


@each_case(
    ("text", "linear", "spin"),
    [
        (FREE, (0, 1, 0), (-1, 0, 0)),
        (OF_PRIM.replace("LOCAL", "1"), (0, 1, 0), (-1, 0, 0)),
        (OF_PRIM.replace("LOCAL", "0"), (1, 0, 0), (0, 1, 0)),
        (OF_ATTRIBUTE.replace("LOCAL", "0"), (1, 0, 0), (0, 1, 0)),
    ],
)
def test_a_puck_that_is_turned_leaves_along_its_own_axis(text: str, linear: object, spin: object) -> None:
    """UsdPhysics: body space. PhysX: the stage's, where it says so in customData."""
    found = bodies(scene_of(world(text)))["puck"]
    assert found.linear_velocity == pytest.approx(linear, abs=1e-7)
    assert np.array(found.angular_velocity) / (0.5 * math.pi) == pytest.approx(spin, abs=1e-6)


def test_velocities_in_the_axes_of_a_y_up_stage_have_no_scale() -> None:
    scaled = OF_PRIM.replace("LOCAL", "0").replace(
        "rotateZ = 90", "rotateZ = 90\nfloat3 xformOp:scale = (3, 3, 3)"
    )
    scaled = scaled.replace('["xformOp:rotateZ"]', '["xformOp:rotateZ", "xformOp:scale"]').replace(
        "(1, 0, 0)", "(0, 1, 0)"
    )
    found = bodies(scene_of(world(scaled), up="Y", meters=0.01))["puck"]
    assert found.linear_velocity == pytest.approx((0, 0, 0.01), abs=1e-9)


def test_velocities_on_a_y_up_stage() -> None:
    found = bodies(scene_of(world(body("b", BALL, "vector3f physics:velocity = (0, 1, 0)")), up="Y"))["b"]
    assert found.linear_velocity == pytest.approx((0, 0, 1), abs=1e-12)


def test_impossible_velocities() -> None:
    plan = plan_text(world(body("b", BALL, "vector3f physics:velocity = (nan, 0, 0)")))
    assert plan.physics.bodies[0].linear_velocity == (0.0, 0.0, 0.0)
    assert [finding.path for finding in findings(plan, "1.3.body")] == ["/World/b"]


def test_bodies_without_gravity() -> None:
    scene = scene_of(
        world(
            body("a", BALL, "bool physxRigidBody:disableGravity = 1"),
            body("b", BALL, "double mjc:gravcomp = 0.25"),
            body("c", BALL),
        )
    )
    assert [each.gravity_scale for each in scene.bodies] == [0.0, 0.75, 1.0]


@each_case(
    ("content", "up", "gravity"),
    [
        ("", "Z", (0, 0, -9.81)),
        ("", "Y", (0, 0, -9.81)),
        ("float physics:gravityMagnitude = 500", "Y", (0, 0, -5)),
        ("vector3f physics:gravityDirection = (0, -2, 0)", "Y", (0, 0, -9.81)),
        (
            "vector3f physics:gravityDirection = (1, 0, 0)\nfloat physics:gravityMagnitude = 162",
            "Z",
            (1.62, 0, 0),
        ),
        ("float physics:gravityMagnitude = -1", "Z", (0, 0, -9.81)),
        ("float physics:gravityMagnitude = 0", "Z", (0, 0, 0)),
        ("bool newton:gravityEnabled = 0", "Z", (0, 0, 0)),
    ],
)
def test_gravity(content: str, up: str, gravity: tuple[float, float, float]) -> None:
    scene = scene_of(world(prim("PhysicsScene", "scene", "", content)), up=up, meters=0.01)
    assert scene.gravity == pytest.approx(gravity, abs=1e-6)


@each_case(
    "content", ["float physics:gravityMagnitude = nan", "vector3f physics:gravityDirection = (nan, 0, 0)"]
)
def test_impossible_gravity(content: str) -> None:
    plan = plan_text(world(prim("PhysicsScene", "scene", "", content)))
    assert plan.physics.gravity == (0.0, 0.0, -9.81)
    assert [finding.path for finding in findings(plan, "1.3.scene")] == ["/World/scene"]


def test_the_first_of_two_scenes_counts() -> None:
    scenes = [prim("PhysicsScene", f"s{n}", "", f"float physics:gravityMagnitude = {n}") for n in (1, 2)]
    plan = plan_text(world(*scenes))
    assert plan.physics.gravity == (0.0, 0.0, -1.0)
    assert [finding.path for finding in findings(plan, "1.3.scene")] == ["/World/s2"]


def test_time_steps_and_iterations() -> None:
    content = """int newton:timeStepsPerSecond = 500
uint physxScene:timeStepsPerSecond = 60
double mjc:option:timestep = 0.001
int mjc:option:iterations = 50
token mjc:option:cone = "elliptic"
"""
    scene = scene_of(world(prim("PhysicsScene", "scene", "", content)))
    assert scene.timestep == pytest.approx(0.002)
    assert scene.solver == {"iterations": 50, "cone": "elliptic"}


def test_fallbacks_of_applied_schemas() -> None:
    """A converter leaves out what equals the schema's fallback: 1000 steps a second, MuJoCo's own options."""
    applied = "NewtonSceneAPI MjcSceneAPI"
    scene = scene_of(world(prim("PhysicsScene", "scene", applied)))
    assert scene.timestep == pytest.approx(0.001)
    assert scene.mujoco_options
    assert scene.solver["integrator"] == "euler"
    assert scene.solver["cone"] == "pyramidal"
    assert (scene.solver["impratio"], scene.solver["iterations"]) == (1.0, 100)
    assert scene.solver["flag_contact"] is True
    assert scene.solver["flag_override"] is False
    of_mjc = scene_of(world(prim("PhysicsScene", "scene", "MjcSceneAPI")))
    assert of_mjc.timestep == pytest.approx(0.002)


def test_what_is_authored_counts_before_fallbacks() -> None:
    """As in Newton's resolvers: a value of the last solver, before the fallback of the first."""
    content = "double mjc:option:timestep = 0.004\nbool mjc:flag:gravity = false"
    scene = scene_of(world(prim("PhysicsScene", "scene", "NewtonSceneAPI", content)))
    assert scene.timestep == pytest.approx(0.004)
    assert scene.gravity == (0.0, 0.0, 0.0)
    assert not scene.mujoco_options


def test_fallbacks_of_joints() -> None:
    plain, applied = (
        scene_of(two(joint("RevoluteJoint", "j", "a", "b", TO_B, schemas=schemas)))
        for schemas in ("", "MjcJointAPI")
    )
    assert joints(plain)["j"].solver == {}
    assert joints(applied)["j"].solver == {"solref_limit": (0.02, 1.0)}


def test_what_a_medium_is_like() -> None:
    content = """double mjc:option:density = 0.001
double mjc:option:viscosity = 0.2
double3 mjc:option:wind = (0, 200, 0)
"""
    scene = scene_of(world(prim("PhysicsScene", "scene", "", content)), meters=0.01, up="Y")
    assert scene.solver["density"] == pytest.approx(1000.0)
    assert scene.solver["viscosity"] == pytest.approx(20.0)
    assert scene.solver["wind"] == pytest.approx((0.0, 0.0, 2.0))


def test_no_physics_at_all() -> None:
    plan = plan_text(world(prim("Sphere", "s")))
    assert plan.physics is not None
    assert len(findings(plan, "1.3.physics")) == 1
    assert findings(plan_text(world(BALL)), "1.3.physics") == []


def test_what_needs_forces() -> None:
    fixed = joint("FixedJoint", "root", "", "a")
    hinge = joint("RevoluteJoint", "j", "a", "b", TO_B)
    driven = joint(
        "RevoluteJoint", "j", "a", "b", TO_B, drive("angular", stiffness=1), schemas="PhysicsDriveAPI:angular"
    )
    assert not scene_of(two(fixed, hinge)).needs_forces
    assert scene_of(two(fixed, driven)).needs_forces
    assert scene_of(two(hinge)).needs_forces


def test_frames_are_inverse_of_one_another() -> None:
    """A joint authored child first has the same frames, ends exchanged."""
    forward = scene_of(two(joint("FixedJoint", "root", "", "a"), joint("RevoluteJoint", "j", "a", "b", TO_B)))
    backward = scene_of(
        two(
            joint("FixedJoint", "root", "", "a"),
            joint("RevoluteJoint", "j", "b", "a", "point3f physics:localPos1 = (0, 0, 1)"),
        )
    )
    one, other = joints(forward)["j"], joints(backward)["j"]
    assert (one.body0, one.body1) == (other.body1, other.body0)
    zero = compose(array(one.body0_from_joint), inverse(array(one.body1_from_joint)))
    np.testing.assert_allclose(
        zero,
        inverse(compose(array(other.body0_from_joint), inverse(array(other.body1_from_joint)))),
        atol=1e-12,
    )
    assert bodies(backward)["b"].parent == backward.bodies.index(bodies(backward)["a"])


# --- Sleep and owners ---------------------------------------------------------------------------------------------


def test_a_body_may_start_asleep() -> None:
    stage = world(
        body("a", BALL, "bool physics:startsAsleep = 1"),
        body("b", BALL),
        body("c", BALL, "bool physics:startsAsleep = 1", "bool physics:kinematicEnabled = 1"),
    )
    found = bodies(scene_of(stage))
    assert [found[name].starts_asleep for name in "abc"] == [True, False, False]


def owned(*second: str) -> str:
    """Returns two scenes, a ball of each, and the ground of the first."""
    return world(
        prim("PhysicsScene", "first", "", "float physics:gravityMagnitude = 10"),
        prim("PhysicsScene", "second", "", *second),
        body("a", BALL),
        body("b", BALL, "rel physics:simulationOwner = </World/second>"),
        prim("Cube", "ground", "PhysicsCollisionAPI"),
        prim("Cube", "other", "PhysicsCollisionAPI", "rel physics:simulationOwner = </World/second>"),
    )


def test_what_two_scenes_own_does_not_meet() -> None:
    scene = scene_of(owned("float physics:gravityMagnitude = 5"))
    group = {each.path.split("/")[2]: each.group for each in scene.colliders}
    assert group["a"] == group["ground"] != group["b"] == group["other"]
    assert scene.apart_groups == ((0, 1),)
    assert set(scene.groups) == {"/World/first", "/World/second"}
    found = bodies(scene)
    assert (found["a"].gravity_scale, found["b"].gravity_scale) == pytest.approx((1.0, 0.5))
    assert scene.gravity == pytest.approx((0, 0, -10))


@each_case(
    ("content", "scale"),
    [
        ("float physics:gravityMagnitude = 0", 0.0),
        ("vector3f physics:gravityDirection = (0, 0, 1)\nfloat physics:gravityMagnitude = 20", -2.0),
        ("bool newton:gravityEnabled = 0", 0.0),
    ],
)
def test_a_second_scene_has_gravity_of_its_own(content: str, scale: float) -> None:
    plan = plan_text(owned(content))
    assert bodies(plan.physics)["b"].gravity_scale == pytest.approx(scale, abs=1e-6)
    (found,) = findings(plan, "1.3.scene")
    assert found.path == "/World/second"
    assert "apart from the rest" in found.message


@each_case("none", ["float physics:gravityMagnitude = 0", "bool newton:gravityEnabled = 0"])
def test_a_second_scene_has_gravity_where_the_first_has_none(none: str) -> None:
    plan = plan_text(
        world(
            prim("PhysicsScene", "a", "", none),
            prim("PhysicsScene", "b", "", "float physics:gravityMagnitude = 9.81"),
            body("floats", BALL),
            body("stone", BALL, at(0, 0, 10), "rel physics:simulationOwner = </World/b>"),
        )
    )
    assert plan.physics.gravity == pytest.approx((0, 0, -9.81))
    scales = {name: each.gravity_scale for name, each in bodies(plan.physics).items()}
    assert scales == pytest.approx({"floats": 0.0, "stone": 1.0})


def test_gravity_across_that_of_the_first_scene_is_reported() -> None:
    plan = plan_text(owned("vector3f physics:gravityDirection = (1, 0, 0)"))
    assert bodies(plan.physics)["b"].gravity_scale == 1.0
    assert [found.attribute for found in findings(plan, "1.3.scene")] == ["", "physics:gravityDirection"]


def test_an_owner_that_is_no_scene_is_reported() -> None:
    plan = plan_text(
        world(body("a", BALL, "rel physics:simulationOwner = </World/nothing>"), body("b", BALL))
    )
    (found,) = findings(plan, "1.3.scene")
    assert (found.path, found.attribute) == ("/World/a", "physics:simulationOwner")
    assert plan.physics.groups == ()


def test_one_scene_that_everything_names_changes_nothing() -> None:
    plan = plan_text(
        world(
            prim("PhysicsScene", "s"),
            body("a", BALL, "rel physics:simulationOwner = </World/s>"),
            body("b", BALL),
        )
    )
    assert plan.physics.groups == ()
    assert findings(plan, "1.3.scene") == []


def test_joint_frames_are_as_exact_as_the_transforms_of_bodies() -> None:
    """UsdPhysics has 0.007 in single precision, the Xforms in double; zeros and symmetry are without noise."""
    scene = plan_of(ARM).physics
    numbers = [
        number
        for joint in scene.joints
        for frame in (joint.body0_from_joint, joint.body1_from_joint)
        for number in frame.translation
    ]
    assert 0.007 in numbers
    assert numbers == [round(number, 3) for number in numbers]

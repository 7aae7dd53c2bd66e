"""What PhysX's schemas and its ways of authoring UsdPhysics mean: gears, roots of articulations, lost features."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import UsdPhysics

from builders.stage_text import (
    BALL,
    at,
    bodies,
    body,
    findings,
    header,
    joints,
    plan_text,
    prim,
    scene_of,
    stage_of,
    world,
)
from case_tables import each_case
from usd_ros_bridge.model.diagnostics import grouped
from usd_ros_bridge.model.physics import Mimic, PhysicsScene


def robot(*content: str, schemas: str = "RosContextAPI") -> str:
    return world(prim("Xform", "robot", schemas, *content))


def link(name: str, *content: str) -> str:
    return body(name, "float physics:mass = 1", *content)


def ends(body0: str, body1: str) -> tuple[str, ...]:
    return tuple(
        f"rel physics:body{end} = </World/robot/{to}>" for end, to in enumerate((body0, body1)) if to
    )


def parsed(text: str, kind: Any) -> Any:
    """What OpenUSD's own parser makes of the only prim of a kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = UsdPhysics.LoadUsdPhysicsFromRange(stage_of(text, header()), ["/"])
    (description,) = found[kind][1]
    return description


# --- Units of joints ----------------------------------------------------------------------------------------------


SLIDER = robot(
    link(
        "base",
        "float3 xformOp:scale = (2, 2, 2)",
        'uniform token[] xformOpOrder = ["xformOp:scale"]',
    ),
    link("slider"),
    prim("PhysicsFixedJoint", "anchor", "", *ends("", "base")),
    prim(
        "PhysicsPrismaticJoint",
        "slide",
        "PhysicsDriveAPI:linear PhysicsJointStateAPI:linear",
        *ends("base", "slider"),
        "float physics:lowerLimit = 0",
        "float physics:upperLimit = 0.5",
        "float drive:linear:physics:stiffness = 100",
        "float drive:linear:physics:targetPosition = 0.3",
        "float drive:linear:physics:targetVelocity = 0.2",
        "float state:linear:physics:position = 0.1",
    ),
)


def test_a_scaled_body_does_not_scale_its_joints() -> None:
    theirs = parsed(SLIDER, UsdPhysics.ObjectType.PrismaticJoint)
    (dof,) = joints(scene_of(SLIDER))["slide"].dofs
    assert (dof.lower, dof.upper) == pytest.approx((theirs.limit.lower, theirs.limit.upper))
    assert dof.drive is not None
    assert dof.drive.target_position == pytest.approx(theirs.drive.targetPosition)
    assert dof.drive.target_velocity == pytest.approx(theirs.drive.targetVelocity)
    assert dof.position == pytest.approx(0.1)


def test_lengths_of_d6_joints_are_not_scaled() -> None:
    changes = {
        "PhysicsPrismaticJoint": "PhysicsJoint",
        '"PhysicsDriveAPI:linear", "PhysicsJointStateAPI:linear"': '"PhysicsDriveAPI:transX", "PhysicsLimitAPI:transX"',
        "drive:linear": "drive:transX",
        "physics:lowerLimit": "limit:transX:physics:low",
        "physics:upperLimit": "limit:transX:physics:high",
    }
    text = SLIDER
    for old, new in changes.items():
        text = text.replace(old, new)
    dof = joints(scene_of(text))["slide"].dofs[0]
    assert dof.drive is not None
    assert (dof.axis, dof.lower, dof.upper) == ("transX", 0.0, 0.5)
    assert dof.drive.target_position == pytest.approx(0.3)


# --- Roots of articulations ---------------------------------------------------------------------------------------


ROOT = "PhysicsArticulationRootAPI"


def arm(
    root: str, *, on_joint: bool = False, above: bool = False, on_base: bool = False, content: str = ""
) -> str:
    return robot(
        body(
            "base",
            "float physics:mass = 1",
            schemas=f"PhysicsMassAPI {ROOT}" if on_base else "PhysicsMassAPI",
        ),
        link("link"),
        prim(root, "root_joint", ROOT if on_joint else "", *ends("", "base"), content),
        prim("PhysicsRevoluteJoint", "elbow", "", *ends("base", "link")),
        schemas=f"RosContextAPI {ROOT}" if above else "RosContextAPI",
    )


def is_held(scene: PhysicsScene) -> bool:
    return joints(scene)["root_joint"].dofs == ()


@each_case(
    ("options", "held"),
    [
        ({"on_joint": True}, True),
        ({"above": True}, True),
        ({"on_base": True}, False),
        ({}, False),
    ],
)
def test_a_joint_without_limits_that_roots_an_articulation_fixes_its_base(
    options: dict[str, bool], held: bool
) -> None:
    """OpenUSD's parser says what the root is; PhysX fixes the base where that is a joint."""
    text = arm("PhysicsJoint", **options)
    plan = plan_text(text)
    assert is_held(plan.physics) is held
    roots = [("info", "/World/robot/root_joint")] if held else []
    assert [(each.severity, each.path) for each in findings(plan, "1.3.articulation")] == roots
    if options:
        (root,) = parsed(text, UsdPhysics.ObjectType.Articulation).rootPrims
        assert (str(root) == "/World/robot/root_joint") is held


def test_a_root_joint_with_limits_moves_and_is_reported() -> None:
    text = arm("PhysicsJoint", on_joint=True, content="float limit:transX:physics:low = 1").replace(
        f'["{ROOT}"]', f'["{ROOT}", "PhysicsLimitAPI:transX"]'
    )
    plan = plan_text(text)
    assert len(joints(plan.physics)["root_joint"].dofs) > 0
    (finding,) = findings(plan, "1.3.articulation")
    assert finding.severity == "warning"


def test_a_joint_between_two_bodies_stays_free() -> None:
    text = robot(
        link("a"),
        link("b"),
        prim("PhysicsJoint", "j", "", *ends("a", "b")),
        schemas=f"RosContextAPI {ROOT}",
    )
    assert len(joints(scene_of(text))["j"].dofs) == 6


# --- Joints and bodies that nothing connects ----------------------------------------------------------------------


@each_case("kind", ["PhysxPhysicsSomethingJoint", ""])
def test_a_joint_of_an_unknown_type_is_reported(kind: str) -> None:
    plan = plan_text(robot(link("a"), link("b"), prim(kind, "odd", "", *ends("a", "b"))))
    (finding,) = findings(plan, "1.3.joint.type")
    assert (finding.path, finding.severity) == ("/World/robot/odd", "warning")
    assert (finding.value, finding.reason) == (f"'{kind}'", "not implemented")


def test_a_prim_of_an_unknown_type_is_no_joint() -> None:
    plan = plan_text(robot(link("a"), prim("PhysxSomething", "odd", "", "rel other = </World/robot/a>")))
    assert findings(plan, "1.3.joint.type") == []


def test_bodies_below_bodies_that_no_joint_holds_are_reported_once() -> None:
    reset = 'uniform token[] xformOpOrder = ["!resetXformStack!"]'
    inner = [
        link("lost"),
        link("lost_too"),
        link("held"),
        link("moved", "bool physics:kinematicEnabled = 1"),
        link("reset", reset),
    ]
    hold = prim("PhysicsFixedJoint", "hold", "", *ends("outer", "outer/held"))
    plan = plan_text(robot(link("outer", *inner), hold))
    (finding,) = findings(plan, "1.3.body.nested")
    assert (finding.path, finding.severity) == ("/World/robot/outer/lost", "warning")
    assert "/World/robot/outer/lost_too" in finding.message
    for name in ("held", "moved", "reset"):
        assert f"/{name}" not in finding.message


# --- Gears --------------------------------------------------------------------------------------------------------


DRIVE = "PhysicsDriveAPI:angular"


def geared(
    *content: str,
    first: tuple[str, str] = ("base", "a"),
    second: tuple[str, str] = ("base", "b"),
    drives: tuple[str, str] = ("", ""),
    kind: str = "PhysxPhysicsGearJoint",
    hinges: tuple[str, str] = ("h0", "h1"),
) -> str:
    """Two gears that a base carries."""
    gear = prim(
        kind,
        "gear",
        "",
        *ends("a", "b"),
        *(f"rel physics:hinge{end} = </World/robot/{name}>" for end, name in enumerate(hinges)),
        *content,
    )
    return robot(
        link("base"),
        link("a"),
        link("b"),
        prim("PhysicsFixedJoint", "anchor", "", *ends("", "base")),
        prim("PhysicsRevoluteJoint", "h0", drives[0], *ends(*first)),
        prim("PhysicsRevoluteJoint", "h1", drives[1], *ends(*second)),
        gear,
    )


@each_case(("content", "apart"), [("", True), ("bool physics:collisionEnabled = 1", False)])
def test_bodies_of_gears_do_not_collide(content: str, *, apart: bool) -> None:
    scene = scene_of(geared("float physics:gearRatio = 2", content))
    names = [each.path.rpartition("/")[2] for each in scene.bodies]
    pairs = [{names[a], names[b]} for a, b in scene.apart_bodies]
    assert ({"a", "b"} in pairs) is apart


@each_case(
    ("options", "leader", "multiplier"),
    [
        # PhysX: the sum of ratio times the first speed and the second one is zero, about the axes of the hinges.
        ({}, "h0", -2.0),
        ({"first": ("a", "base")}, "h0", 2.0),
        ({"first": ("a", "base"), "second": ("b", "base")}, "h0", -2.0),
        ({"drives": ("", DRIVE)}, "h1", -0.5),
        ({"drives": (DRIVE, DRIVE)}, "h0", -2.0),
    ],
)
def test_gears_turn_against_each_other(options: dict[str, Any], leader: str, multiplier: float) -> None:
    plan = plan_text(geared("float physics:gearRatio = 2", **options))
    scene = plan.physics
    number = {each.path.rpartition("/")[2]: row for row, each in enumerate(scene.joints)}
    follower = {"h0": "h1", "h1": "h0"}[leader]
    assert joints(scene)[follower].dofs[0].mimic == Mimic(joint=number[leader], dof=0, multiplier=multiplier)
    assert joints(scene)[leader].dofs[0].mimic is None
    both = options.get("drives") == (DRIVE, DRIVE)
    assert [each.severity for each in findings(plan, "1.3.gear")] == (["warning"] if both else [])
    assert findings(plan, "1.3.joint.type") == []


def test_gears_keep_the_angle_that_they_start_with() -> None:
    state = "float state:angular:physics:position = 30"
    text = geared("float physics:gearRatio = 2").replace(
        'def PhysicsRevoluteJoint "h0" {', f'def PhysicsRevoluteJoint "h0" {{\n{state}'
    )
    (dof,) = joints(scene_of(text))["h1"].dofs
    assert dof.mimic is not None
    assert dof.mimic.offset == pytest.approx(2.0 * math.radians(30.0))


@each_case(
    ("options", "content", "what"),
    [
        ({"hinges": ("h0", "nothing")}, (), "no movable joint"),
        ({"hinges": ("h0", "anchor")}, (), "no movable joint"),
        ({"second": ("base", "c")}, (), "no body of"),
        ({}, ("float physics:gearRatio = 0",), "ratio"),
        ({}, ("float physics:gearRatio = nan",), "ratio"),
    ],
)
def test_gears_that_connect_nothing_are_reported(
    options: dict[str, Any], content: tuple[str, ...], what: str
) -> None:
    text = geared(*content, **options)
    plan = plan_text(
        text.replace('def PhysicsFixedJoint "anchor"', f'{link("c")}\ndef PhysicsFixedJoint "anchor"')
    )
    (finding,) = findings(plan, "1.3.gear")
    assert (finding.path, finding.severity) == ("/World/robot/gear", "error")
    assert what in finding.message
    assert all(dof.mimic is None for each in plan.physics.joints for dof in each.dofs)


def test_a_gear_may_name_prims_of_its_bodies() -> None:
    text = geared("float physics:gearRatio = 2").replace(
        "rel physics:body0 = </World/robot/a>", "rel physics:body0 = </World/robot/a/shape>", 1
    )
    assert "/a/shape" in text
    plan = plan_text(text.replace(link("a"), link("a", prim("Xform", "shape"))))
    assert findings(plan, "1.3.gear") == []
    assert joints(plan.physics)["h1"].dofs[0].mimic is not None


@each_case(
    ("old", "new", "said"),
    [
        (
            'PhysicsRevoluteJoint "h0"',
            'PhysicsPrismaticJoint "h0"',
            "h0' is no movable joint that turns about",
        ),
        ("hinge1 = </World/robot/h1>", "hinge1 = </World/robot/h0>", "h0' is both of its joints"),
    ],
)
def test_a_gear_is_of_two_hinges(old: str, new: str, said: str) -> None:
    text = geared("float physics:gearRatio = 2")
    assert old in text
    (finding,) = findings(plan_text(text.replace(old, new)), "1.3.gear")
    assert said in finding.message


def test_a_disabled_gear_connects_nothing() -> None:
    scene = scene_of(geared("bool physics:jointEnabled = 0"))
    assert all(dof.mimic is None for each in scene.joints for dof in each.dofs)


def test_a_train_of_three_gears() -> None:
    """The second gear of a train is between two others: ratios multiply, whatever the order."""
    text = geared("float physics:gearRatio = 2").replace(
        'def PhysxPhysicsGearJoint "gear"',
        link("c")
        + prim("PhysicsRevoluteJoint", "h2", "", *ends("base", "c"))
        + prim(
            "PhysxPhysicsGearJoint",
            "more",
            "",
            *ends("c", "b"),
            "rel physics:hinge0 = </World/robot/h2>",
            "rel physics:hinge1 = </World/robot/h1>",
            "float physics:gearRatio = 4",
        )
        + 'def PhysxPhysicsGearJoint "gear"',
    )
    plan = plan_text(text)
    assert findings(plan, "1.3.gear") == []
    found = joints(plan.physics)
    number = {each.path.rpartition("/")[2]: row for row, each in enumerate(plan.physics.joints)}
    rules = {name: found[name].dofs[0].mimic for name in ("h0", "h1", "h2")}
    (leader,) = [name for name, rule in rules.items() if rule is None]
    speeds = {name: 1.0 if rule is None else rule.multiplier for name, rule in rules.items()}
    assert all(rule is None or rule.joint == number[leader] for rule in rules.values())
    assert speeds["h1"] == pytest.approx(-2.0 * speeds["h0"])
    assert speeds["h1"] == pytest.approx(-4.0 * speeds["h2"])


@each_case(("side", "sign"), [(-0.1, 1.0), (0.1, -1.0)])
def test_a_rack_moves_as_the_pinion_rolls_on_it(side: float, sign: float) -> None:
    """A pinion of 0.1 m about Z, the rack at y = `side` along X: no slip, `v = -w x r`, so 1 / 0.1 rad by metre."""
    ratio = math.degrees(1.0 / 0.1)
    text = robot(
        link("base"),
        link("pinion"),
        link("rack", at(0, side, 0)),
        prim("PhysicsFixedJoint", "anchor", "", *ends("", "base")),
        prim("PhysicsRevoluteJoint", "turn", "", *ends("base", "pinion"), 'uniform token physics:axis = "Z"'),
        prim("PhysicsPrismaticJoint", "slide", DRIVE.replace("angular", "linear"), *ends("base", "rack"),
             f"point3f physics:localPos0 = (0, {side}, 0)"),
        prim("PhysxPhysicsRackAndPinionJoint", "mesh", "", *ends("pinion", "rack"),
             "rel physics:hinge = </World/robot/turn>", "rel physics:prismatic = </World/robot/slide>",
             f"float physics:ratio = {ratio}"),
    )  # fmt: skip
    plan = plan_text(text)
    assert findings(plan, "1.3.gear") == []
    rule = joints(plan.physics)["turn"].dofs[0].mimic
    assert rule is not None
    # The rim at the rack has the velocity w x r = w * (-side) along X.
    assert rule.multiplier == pytest.approx(sign * 10.0, rel=1e-6)


# --- Bodies -------------------------------------------------------------------------------------------------------


def test_damping_of_stages() -> None:
    authored = "float physxRigidBody:linearDamping = 2", "float physxRigidBody:angularDamping = 0.5"
    (found,) = scene_of(world(body("b", "float physics:mass = 1", *authored))).bodies
    assert (found.linear_damping, found.angular_damping) == (2.0, 0.5)


@each_case(("value", "used"), [("-1", 0.0), ("nan", 0.0), ("inf", 1e9), ("1e30", 1e9)])
def test_impossible_damping_is_bounded(value: str, used: float) -> None:
    text = world(body("b", "float physics:mass = 1", f"float physxRigidBody:linearDamping = {value}"))
    plan = plan_text(text)
    assert plan.physics.bodies[0].linear_damping == used
    (finding,) = [each for each in plan.diagnostics if each.code == "1.3.body"]
    assert (finding.path, finding.attribute) == ("/World/b", "physxRigidBody:linearDamping")
    assert f"{used:g} is used" in finding.message


def test_an_impossible_velocity_of_a_surface() -> None:
    text = world(
        body("b", "float physics:mass = 1", "vector3f physxSurfaceVelocity:surfaceVelocity = (inf, 0, 0)")
    )
    plan = plan_text(text)
    assert plan.physics.bodies[0].surface is None
    (finding,) = [each for each in plan.diagnostics if each.code == "1.3.body"]
    assert finding.attribute == "physxSurfaceVelocity:surfaceVelocity"


# --- What is lost -------------------------------------------------------------------------------------------------


def degraded(text: str) -> list[tuple[str, str]]:
    found = findings(plan_text(text), "1.4.degraded")
    assert all(each.severity == "warning" for each in found)
    return [(each.path, each.attribute) for each in found]


def test_lost_features_of_bodies_are_a_warning_for_each() -> None:
    locked = "int physxRigidBody:lockedPosAxis = 4"
    text = robot(*(link(name, locked) for name in "abcd"), link("e", "int physxRigidBody:lockedPosAxis = 0"))
    assert degraded(text) == [(f"/World/robot/{name}", "physxRigidBody:lockedPosAxis") for name in "abcd"]
    (group,) = grouped(findings(plan_text(text), "1.4.degraded"))
    assert group.message.endswith("on 4 prims: /World/robot/a, /World/robot/b, /World/robot/c, ...")


AXIS = "physxJointAxis:angular"


@each_case(
    ("content", "names"),
    [
        (("float physxJoint:jointFriction = 0.1",), ["physxJoint:jointFriction"]),
        (("float physxJoint:jointFriction = 0",), []),
        # Isaac Sim's importers write a joint's friction in both.
        (("float physxJoint:jointFriction = 0.1", "double mjc:frictionloss = 0.1"), []),
        (
            (f"float {AXIS}:staticFrictionEffort = 2", f"float {AXIS}:dynamicFrictionEffort = 1"),
            [f"{AXIS}:dynamicFrictionEffort"],
        ),
        ((f"float {AXIS}:staticFrictionEffort = 2", f"float {AXIS}:dynamicFrictionEffort = 2"), []),
        ((f"float {AXIS}:viscousFrictionCoefficient = 2",), []),
    ],
)
def test_frictions_of_joints(content: tuple[str, ...], names: list[str]) -> None:
    text = robot(link("a"), link("b"), prim("PhysicsRevoluteJoint", "j", "", *ends("a", "b"), *content))
    assert degraded(text) == [("/World/robot/j", name) for name in names]


def test_a_belt_that_is_no_body_is_still() -> None:
    velocity = "vector3f physxSurfaceVelocity:surfaceVelocity = (1, 0, 0)"
    belt = prim("Cube", "belt", "PhysicsCollisionAPI PhysxSurfaceVelocityAPI", velocity)
    assert degraded(robot(link("a"), belt)) == [("/World/robot/belt", "physxSurfaceVelocity:surfaceVelocity")]
    moving = body("belt", velocity, BALL)
    assert degraded(world(moving)) == []
    assert bodies(scene_of(world(moving)))["belt"].surface is not None


def test_a_belt_that_collides_itself_moves_and_its_parts_are_not_reported() -> None:
    belt = body(
        "belt", "bool physics:kinematicEnabled = 1", "vector3f physxSurfaceVelocity:surfaceVelocity = (1, 0, 0)",
        prim("Cube", "part"), schemas="PhysicsCollisionAPI PhysxSurfaceVelocityAPI",
    )  # fmt: skip
    plan = plan_text(world(belt))
    assert plan.physics.bodies[0].surface is not None
    assert findings(plan, "1.4.degraded") == []


@each_case(
    ("authored", "on_a_body"),
    [
        ("float physxSurfaceVelocity:surfaceVelocity = 3", False),
        ("bool physxSurfaceVelocity:surfaceVelocity = 1", False),
        ("float2 physxSurfaceVelocity:surfaceVelocity = (1, 2)", True),
        ('string physxRigidBody:linearDamping = "much"', True),
    ],
)
def test_values_of_another_type_are_reported_on_bodies(authored: str, on_a_body: bool) -> None:
    cube = prim("Cube", "cube", "PhysicsCollisionAPI" + " PhysicsRigidBodyAPI" * on_a_body, authored)
    found = findings(plan_text(world(cube)), "1.3.body")
    assert [each.severity for each in found] == ["error"] * on_a_body


def test_a_combine_mode_that_physx_does_not_have_is_reported() -> None:
    material = prim(
        "Material", "ice", "PhysicsMaterialAPI PhysxMaterialAPI",
        'uniform token physxMaterial:frictionCombineMode = "avrage"',
    )  # fmt: skip
    cube = prim(
        "Cube", "cube", "PhysicsCollisionAPI MaterialBindingAPI", "rel material:binding = </World/ice>"
    )
    plan = plan_text(world(material, cube))
    (found,) = findings(plan, "1.3.material")
    assert (found.severity, found.path) == ("error", "/World/ice")
    assert "average" in found.remedy
    assert "friction_combine" not in plan.physics.colliders[0].solver


def test_a_maximum_force_that_cannot_be_used_leaves_the_limit_of_the_joint() -> None:
    for force in ("nan", "-5"):
        hinge = prim(
            "PhysicsRevoluteJoint", "hinge", "PhysicsDriveAPI:angular", *ends("base", "a"),
            f"float drive:angular:physics:maxForce = {force}", "float newton:effortLimit = 5",
        )  # fmt: skip
        plan = plan_text(robot(link("base"), link("a"), hinge))
        assert plan.robots[0].joints[0].dofs[0].max_effort == 5.0
        assert [each.severity for each in findings(plan, "1.3.drive")] == ["error"]
        assert findings(plan, "1.3.limits") == []


def test_other_frictions_than_physx_s_are_all_that_acts() -> None:
    axis = "PhysxJointAxisAPI:rotX"
    name = "physxJointAxis:rotX"
    physx = [
        f"float {name}:{kind}FrictionEffort = {value}" for kind, value in (("static", 2), ("dynamic", 1))
    ]
    hinge = prim(
        "PhysicsRevoluteJoint", "hinge", axis, *ends("base", "a"), *physx, "float newton:friction = 3"
    )
    found = findings(plan_text(robot(link("base"), link("a"), hinge)), "1.4.degraded")
    assert [(each.attribute, each.message) for each in found] == [
        (f"{name}:{kind}FrictionEffort", "vendor layer ignored: newton:friction is used instead")
        for kind in ("static", "dynamic")
    ]

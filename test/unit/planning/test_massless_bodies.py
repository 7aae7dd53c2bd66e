"""Bodies without mass: 1 kg or nothing, as the option says, else the asset; and what is reported of them."""

from __future__ import annotations

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.stage_text import BALL, at, body, findings, header, prim, stage_of, world
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import MasslessBodies, PlanOptions

MASS = "PhysicsMassAPI"
HEAVY = "float physics:mass = 5"
ZERO = (
    "float physics:mass = 0",
    "float3 physics:diagonalInertia = (0, 0, 0)",
    "point3f physics:centerOfMass = (0, 0, 0)",
)
WEIGHTLESS = 'custom token usd_ros_bridge:physics:massless_bodies = "weightless"'
UNIT = WEIGHTLESS.replace("weightless", "unit_mass")
DENSE = BALL.replace('"PhysicsCollisionAPI"', '"PhysicsCollisionAPI", "PhysicsMassAPI"')


def dense(density: float) -> str:
    return DENSE.replace("radius = 0.1", f"radius = 0.1\nfloat physics:density = {density}")


def joint(kind: str, first: str, second: str, *content: str) -> str:
    ends = (f"rel physics:body{side} = <{path}>" for side, path in enumerate((first, second)) if path)
    name = f"{first.rpartition('/')[2] or 'world'}_{second.rpartition('/')[2]}"
    return prim(f"Physics{kind}Joint", name, "", *ends, *content)


def arm(*content: str, schemas: str = "", extra: str = "") -> str:
    """A base of 5 kg, a link without mass that turns on it, a tip of 5 kg on that, a tool without mass fixed to it."""
    root = "/World/arm"
    return prim(
        "Xform", "arm", f"PhysicsArticulationRootAPI {schemas}", *content,
        body("base", HEAVY), body("link", at(0, 0, 1)), body("tip", HEAVY, at(0, 0, 2)), body("tool", at(0, 0, 3)),
        joint("Revolute", f"{root}/base", f"{root}/link"), joint("Revolute", f"{root}/link", f"{root}/tip"),
        joint("Fixed", f"{root}/tip", f"{root}/tool"), extra,
    )  # fmt: skip


def plan_of(text: str, rule: MasslessBodies = "auto") -> BridgePlan:
    options = PlanOptions(massless_bodies=rule)
    return load_plan(stage_of(text, header()), physics=True, plan_options=options)


def masses(plan: BridgePlan) -> dict[str, float]:
    return {each.path.rpartition("/")[2]: each.inertial.mass for each in plan.physics.bodies}


def mass_of(content: str, rule: MasslessBodies = "weightless") -> float:
    """The mass of a link that is fixed to the base of the arm, alone in the stage beside it."""
    link = body("link", content, at(1, 0, 0))
    joints = joint("Fixed", "/World/base", "/World/link")
    return masses(plan_of(world(body("base", HEAVY), link, joints), rule))["link"]


# --- Which rule holds ---------------------------------------------------------------------------------------------


def test_a_body_without_mass_has_a_kilogram_by_default() -> None:
    assert masses(plan_of(world(arm()))) == {"base": 5.0, "link": 1.0, "tip": 5.0, "tool": 1.0}


def test_the_option_has_them_weigh_nothing() -> None:
    plan = plan_of(world(arm()), "weightless")
    assert masses(plan) == {"base": 5.0, "link": 0.0, "tip": 5.0, "tool": 0.0}
    assert findings(plan, "1.3.mass") == []


@each_case(
    ("stage", "on_arm", "option", "mass"),
    [
        ("", WEIGHTLESS, "auto", 0.0),
        (WEIGHTLESS, "", "auto", 0.0),
        (WEIGHTLESS, UNIT, "auto", 1.0),
        (UNIT, WEIGHTLESS, "auto", 0.0),
        (WEIGHTLESS, WEIGHTLESS, "unit_mass", 1.0),
        (UNIT, UNIT, "weightless", 0.0),
    ],
)
def test_the_option_comes_before_the_nearest_attribute(
    stage: str, on_arm: str, option: MasslessBodies, mass: float
) -> None:
    assert masses(plan_of(world(stage, arm(on_arm)), option))["tool"] == mass


def test_on_a_robot_it_holds_for_that_robot_alone() -> None:
    plan = plan_of(world(arm(WEIGHTLESS), body("crate")))
    assert masses(plan)["tool"] == 0.0
    assert masses(plan)["crate"] == 1.0


def test_on_the_physics_scene_it_holds_for_the_stage() -> None:
    scene = prim("PhysicsScene", "Scene", "", WEIGHTLESS)
    assert masses(plan_of(scene + world(arm())))["tool"] == 0.0


def test_a_rule_that_nobody_knows_is_an_error() -> None:
    plan = plan_of(world(arm(WEIGHTLESS.replace("weightless", "feather"))))
    assert masses(plan)["tool"] == 1.0
    (finding,) = [found for found in findings(plan, "1.3.mass") if found.severity == "error"]
    assert (finding.path, finding.attribute) == ("/World/arm", "usd_ros_bridge:physics:massless_bodies")
    assert "unit_mass, weightless" in finding.remedy


# --- Which bodies weigh nothing -----------------------------------------------------------------------------------


@each_case("content", ["", "\n".join(ZERO), "\n".join((*ZERO, BALL)), BALL, dense(0)])
def test_zeros_are_nothing(content: str) -> None:
    assert mass_of(content) == 0.0
    assert mass_of(content, "unit_mass") > 0.0


@each_case("content", ["float physics:mass = 0.001", "float physics:density = 10\n" + BALL, dense(500)])
def test_what_is_authored_counts(content: str) -> None:
    assert mass_of(content) == mass_of(content, "unit_mass") > 0.0


def test_inertia_without_mass_is_kept() -> None:
    """A URDF link may have it."""
    moments = "float3 physics:diagonalInertia = (1, 2, 3)"
    link = body("link", "float physics:mass = 0", moments, BALL, at(1, 0, 0))
    text = world(body("base", HEAVY), link, joint("Fixed", "/World/base", "/World/link"))
    scene = plan_of(text, "weightless").physics
    assert (scene.bodies[1].inertial.mass, scene.bodies[1].inertial.diagonal) == (0.0, (1.0, 2.0, 3.0))


def test_a_mass_without_inertia_is_a_point() -> None:
    """Not what its colliders make, as UsdPhysics has it."""
    moments = "float3 physics:diagonalInertia = (0, 0, 0)"
    text = world(body("link", "float physics:mass = 2", moments, BALL))
    for rule, least, most in (("weightless", 0.0, 1e-300), ("unit_mass", 0.007, 0.009)):
        scene = plan_of(text, rule).physics
        assert all(least < moment < most for moment in scene.bodies[0].inertial.diagonal)


def test_colliders_that_weigh_nothing_do_not_beside_others() -> None:
    """Of an MJCF model: a geom with a density, and one with none."""
    heavy, light = dense(500), dense(0).replace("ball", "light")
    assert mass_of(heavy + light) == pytest.approx(mass_of(heavy))
    assert mass_of(heavy + light, "unit_mass") == pytest.approx(3.0 * mass_of(heavy))


def test_a_free_body_keeps_what_its_colliders_weigh() -> None:
    plan = plan_of(world(body("crate", BALL), body("ghost")), "weightless")
    assert masses(plan) == {"crate": pytest.approx(4.18879), "ghost": 0.0}


def test_the_ends_of_a_loop_keep_a_mass() -> None:
    """A rod without mass could push nothing: the joint that closes the loop is a force between two bodies."""
    out = "bool physics:excludeFromArticulation = 1"
    loop = joint("Spherical", "", "/World/arm/link", out)
    assert masses(plan_of(world(arm(extra=loop)), "weightless"))["link"] == 1.0


# --- What is reported ---------------------------------------------------------------------------------------------


def test_a_robot_is_reported_once() -> None:
    (finding,) = findings(plan_of(world(arm())), "1.3.mass")
    assert (finding.path, finding.severity) == ("/World", "warning")
    assert "2 bodies have no mass and no collider (/World/arm/link, /World/arm/tool)" in finding.message
    assert "17 % of the robot's mass" in finding.message
    assert "massless_bodies" in finding.remedy


def test_a_small_share_is_no_warning() -> None:
    heavy = arm().replace(HEAVY, "float physics:mass = 500")
    (finding,) = findings(plan_of(world(heavy)), "1.3.mass")
    assert finding.severity == "info"


def test_bodies_without_a_robot_are_reported_one_by_one() -> None:
    found = findings(plan_of(world(body("a"), body("b"))), "1.3.mass")
    assert [finding.path for finding in found] == ["/World/a", "/World/b"]

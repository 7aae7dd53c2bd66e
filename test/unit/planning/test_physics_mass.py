"""Mass properties against UsdPhysics.RigidBodyAPI.ComputeMassProperties, and what becomes of bad ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Gf, Usd, UsdGeom, UsdPhysics

from builders.stage_text import at, bodies, body, findings, header, plan_text, prim, scene_of, stage_of, world
from case_tables import each_case
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import Inertial, nearest_moments
from usd_ros_bridge.model.physics_records import MassRecord
from usd_ros_bridge.planning.physics.mass import MassPlanner
from usd_ros_bridge.planning.stage_index import Units
from usd_ros_bridge.spatial.scalar import Vector3
from usd_ros_bridge.spatial.transforms import pose, to_matrix

COLLISION = "PhysicsCollisionAPI"
MASS = "PhysicsMassAPI"


# --- The oracle ---------------------------------------------------------------------------------------------------


def mass_information(prim: Usd.Prim, body: Usd.Prim) -> Any:
    """Volume and inertia of cubes and balls for OpenUSD, in stage units."""
    cache = UsdGeom.XformCache()
    relative = Gf.Transform(cache.GetLocalToWorldTransform(prim) * _unscaled(body, cache).GetInverse())
    scale = [abs(s) for s in Gf.Transform(cache.GetLocalToWorldTransform(prim)).GetScale()]
    result = UsdPhysics.RigidBodyAPI.MassInformation()
    if prim.IsA(UsdGeom.Cube):
        x, y, z = (UsdGeom.Cube(prim).GetSizeAttr().Get() * s for s in scale)
        volume = x * y * z
        moments = [(y * y + z * z) / 12, (x * x + z * z) / 12, (x * x + y * y) / 12]
    else:
        radius = UsdGeom.Sphere(prim).GetRadiusAttr().Get() * max(scale)
        volume = 4 / 3 * math.pi * radius**3
        moments = [0.4 * radius * radius] * 3
    result.volume = volume
    result.inertia = Gf.Matrix3f(*np.diag(volume * np.array(moments)).reshape(-1).tolist())
    result.centerOfMass = Gf.Vec3f(0.0)
    result.localPos = Gf.Vec3f(relative.GetTranslation())
    result.localRot = Gf.Quatf(relative.GetRotation().GetQuat())
    return result


def _unscaled(prim: Usd.Prim, cache: UsdGeom.XformCache) -> Gf.Matrix4d:
    return cache.GetLocalToWorldTransform(prim).RemoveScaleShear()


def tensor_of(diagonal: Any, rotation: Any) -> np.ndarray:
    turn = to_matrix(np.array((0, 0, 0, *rotation)))[:3, :3]
    return turn @ np.diag(diagonal) @ turn.T


def expected(stage: Usd.Stage, path: str, meters: float, kilograms: float) -> tuple[Any, Any, Any]:
    body = stage.GetPrimAtPath(path)
    api = UsdPhysics.RigidBodyAPI(body)
    mass, diagonal, center, axes = api.ComputeMassProperties(lambda prim: mass_information(prim, body))
    # Of a body without colliders OpenUSD leaves the axes at random: those of a ball do not matter.
    is_ball = len(set(diagonal)) == 1
    rotation = (0.0, 0.0, 0.0, 1.0) if is_ball else (*axes.GetImaginary(), axes.GetReal())
    tensor = tensor_of(diagonal, rotation) * kilograms * meters**2
    return mass * kilograms, np.array(center) * meters, tensor


def check(text: str, name: str = "b", *, meters: float = 1.0, kilograms: float = 1.0) -> Inertial:
    stage = stage_of(text, header(meters=meters, kilograms=kilograms))
    scene = scene_of(text, meters=meters, kilograms=kilograms)
    got = bodies(scene)[name]
    mass, center, tensor = expected(stage, got.path, meters, kilograms)
    assert got.inertial.mass == pytest.approx(mass, rel=1e-5)
    np.testing.assert_allclose(got.inertial.center, center, atol=1e-5 * max(1.0, np.abs(center).max()))
    ours = tensor_of(got.inertial.diagonal, got.inertial.principal)
    np.testing.assert_allclose(ours, tensor, atol=2e-5 * np.abs(tensor).max())
    return got.inertial


def cube(name: str = "c", *content: str, schemas: str = COLLISION, x: float = 0.0, z: float = 0.5) -> str:
    return prim("Cube", name, schemas, "double size = 1", at(x, 0, z), *content)


TWO = cube("c") + cube("d", x=2.0, z=-2.0)
WITH_MASS = f"{COLLISION} {MASS}"
MATERIAL = prim("Material", "m", "PhysicsMaterialAPI", "float physics:density = 5")
BOUND = "rel material:binding:physics = </World/m>"

CASES = {
    "colliders alone": body("b", TWO),
    "density of the body": body("b", "float physics:density = 10", TWO),
    "density of a collider before the body's": body(
        "b",
        "float physics:density = 10",
        cube("c", "float physics:density = 20", schemas=WITH_MASS) + cube("d", x=2.0),
    ),
    "density of the material": body("b", cube("c", BOUND, schemas=f"{COLLISION} MaterialBindingAPI"))
    + MATERIAL,
    "density of the body before the material's": body(
        "b", "float physics:density = 10", cube("c", BOUND, schemas=f"{COLLISION} MaterialBindingAPI")
    )
    + MATERIAL,
    "material bound to the body": body("b", BOUND, cube("c"), schemas="MaterialBindingAPI") + MATERIAL,
    "mass of the body": body("b", "float physics:mass = 7", TWO),
    "mass of a collider": body(
        "b", cube("c", "float physics:mass = 3", schemas=WITH_MASS) + cube("d", x=2.0, z=-2.0)
    ),
    "mass of both": body(
        "b",
        "float physics:mass = 7",
        cube("c", "float physics:mass = 3", schemas=WITH_MASS) + cube("d", x=2.0, z=-2.0),
    ),
    "inertia of a collider": body(
        "b",
        cube(
            "c",
            "float physics:mass = 3",
            "float3 physics:diagonalInertia = (1, 2, 2.5)",
            "quatf physics:principalAxes = (0.70710678, 0.70710678, 0, 0)",
            schemas=WITH_MASS,
        ),
    ),
    "centre of a collider": body(
        "b", cube("c", "point3f physics:centerOfMass = (0.1, 0.2, 0)", schemas=WITH_MASS)
    ),
    "centre of the body": body("b", "point3f physics:centerOfMass = (0.1, 0, 0.3)", TWO),
    "centre of the body at its origin": body("b", "point3f physics:centerOfMass = (0, 0, 0)", TWO),
    "everything authored": body(
        "b",
        "float physics:mass = 2",
        "float3 physics:diagonalInertia = (1, 2, 2.5)",
        "point3f physics:centerOfMass = (1, 0, 0)",
        "quatf physics:principalAxes = (0.8, 0.6, 0, 0)",
        TWO,
    ),
    "everything but the centre": body(
        "b",
        "float physics:mass = 2",
        "float3 physics:diagonalInertia = (1, 2, 2.5)",
        "quatf physics:principalAxes = (0.8, 0, 0, 0.6)",
        TWO,
    ),
    "scaled body": body(
        "b",
        "point3f physics:centerOfMass = (0.1, 0, 0.3)",
        "double3 xformOp:scale = (2, 2, 2)",
        'uniform token[] xformOpOrder = ["xformOp:scale"]',
        TWO,
    ),
    "scaled collider": body(
        "b",
        prim(
            "Cube",
            "c",
            WITH_MASS,
            "double size = 1",
            "point3f physics:centerOfMass = (0.1, 0, 0)",
            "double3 xformOp:scale = (2, 3, 4)",
            "double3 xformOp:translate = (0, 1, 0)",
            'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]',
        ),
    ),
    "the body is the collider": body(
        "b", "double size = 1", "float physics:mass = 4", schemas=WITH_MASS, kind="Cube"
    ),
    "the body is the collider, off centre": body(
        "b",
        "double size = 1",
        "float physics:mass = 4",
        "point3f physics:centerOfMass = (0.1, 0, 0)",
        schemas=WITH_MASS,
        kind="Cube",
    ),
    "a nested body has its own": body("b", cube("c") + body("n", cube("d", x=3.0))),
    "a nested body that is switched off does not": body(
        "b", cube("c") + body("n", "bool physics:rigidBodyEnabled = 0", cube("d", x=3.0))
    ),
    "a collider that is switched off weighs nothing": body(
        "b", cube("c") + cube("d", "bool physics:collisionEnabled = 0", x=3.0)
    ),
    "densities between body and collider mean nothing": body(
        "b", prim("Xform", "x", MASS, "float physics:density = 7", cube("c"))
    ),
    "a mass of 0 is none": body("b", "float physics:mass = 0", cube("c")),
}


SINCE_26_11 = {
    "a nested body that is switched off does not",
    "a collider that is switched off weighs nothing",
}
"""Cases in which older releases of OpenUSD weigh what is switched off, too."""


@each_case("name", [each for each in CASES if Usd.GetVersion() >= (0, 26, 11) or each not in SINCE_26_11])
def test_mass_properties_are_those_of_usd(name: str) -> None:
    check(world(CASES[name]))


@each_case(("meters", "kilograms"), [(0.01, 1.0), (1.0, 0.001), (0.01, 0.001)])
@each_case("name", ["colliders alone", "density of the body", "mass of the body", "everything authored"])
def test_units_end_in_planning(name: str, meters: float, kilograms: float) -> None:
    check(world(CASES[name]), meters=meters, kilograms=kilograms)


number = st.floats(-2.0, 2.0).map(lambda value: round(value, 2))
positive = st.floats(0.2, 3.0).map(lambda value: round(value, 2))


def maybe(line: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), values.map(line.format))


def triple(values: st.SearchStrategy[float]) -> st.SearchStrategy[str]:
    return st.tuples(values, values, values).map(lambda v: f"({v[0]}, {v[1]}, {v[2]})")


@st.composite
def random_body(draw: st.DrawFn) -> str:
    content = [
        draw(maybe("float physics:mass = {}", positive)),
        draw(maybe("float physics:density = {}", positive)),
        draw(maybe("point3f physics:centerOfMass = {}", triple(number))),
    ]
    order = 'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateXYZ", "xformOp:scale"]'
    for index in range(draw(st.integers(1, 4))):
        is_cube = draw(st.booleans())
        scale = draw(triple(positive)) if is_cube else "({0}, {0}, {0})".format(draw(positive))
        content.append(
            prim(
                "Cube" if is_cube else "Sphere",
                f"c{index}",
                WITH_MASS,
                f"double3 xformOp:translate = {draw(triple(number))}",
                f"float3 xformOp:rotateXYZ = {draw(triple(number.map(lambda v: 90 * v)))}",
                f"float3 xformOp:scale = {scale}",
                order,
                draw(maybe("float physics:mass = {}", positive)),
                draw(maybe("float physics:density = {}", positive)),
                draw(maybe("point3f physics:centerOfMass = {}", triple(number))),
                draw(st.sampled_from(["", BOUND])),
            )
        )
    return world(body("b", *content), MATERIAL)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_body())
def test_any_body_weighs_what_usd_says(text: str) -> None:
    check(text)


# --- What OpenUSD leaves open -------------------------------------------------------------------------------------


def test_small_moments_are_moments() -> None:
    """ComputeMassProperties takes what is below 1e-5 for none; a finger of a gripper has less."""
    moments = "float3 physics:diagonalInertia = (2e-6, 3e-6, 4e-6)"
    inertial = bodies(scene_of(world(body("b", "float physics:mass = 0.01", moments))))["b"].inertial
    assert inertial.diagonal == pytest.approx((2e-6, 3e-6, 4e-6), rel=1e-6)


@each_case("moments", [None, (5e-324, 5e-324, 5e-324)])
def test_a_body_next_to_nothing_has_moments(moments: tuple[float, float, float] | None) -> None:
    """Its mass is a number; the moments that follow from it would be below the smallest there are."""
    units = Units(meters=0.1, kilograms=1.0, seconds=1.0, world_from_stage=pose())
    record = MassRecord(path="/b", mass=1e-322, diagonal_inertia=moments)
    inertial = MassPlanner(units, DiagnosticCollector()).inertial(
        "/b", record, [], np.ones(3), kinematic=False
    )
    assert inertial.mass == 1e-322
    low, middle, high = sorted(inertial.diagonal)
    assert low > 0.0
    assert low + middle >= high


def test_moments_without_axes_are_about_those_of_the_body() -> None:
    moments = "float3 physics:diagonalInertia = (1, 2, 2.5)"
    inertial = bodies(scene_of(world(body("b", "float physics:mass = 2", moments, TWO))))["b"].inertial
    assert inertial.diagonal == pytest.approx((1, 2, 2.5))
    assert inertial.principal == (0.0, 0.0, 0.0, 1.0)


def test_axes_without_moments_mean_nothing() -> None:
    axes = "quatf physics:principalAxes = (0.8, 0.6, 0, 0)"
    check_against = bodies(scene_of(world(body("b", TWO))))["b"].inertial
    assert bodies(scene_of(world(body("b", axes, TWO))))["b"].inertial == check_against


def test_mass_without_colliders_is_a_small_ball() -> None:
    check(world(body("b", "float physics:mass = 5")))


def test_nothing_at_all_is_one_kilogram() -> None:
    plan = plan_text(world(body("b")))
    assert plan.physics.bodies[0].inertial.mass == 1.0
    assert plan.physics.bodies[0].inertial.diagonal == pytest.approx((0.004, 0.004, 0.004))
    (finding,) = findings(plan, "1.3.mass")
    assert finding.path == "/World/b"
    assert finding.severity == "warning"


def test_kinematic_bodies_need_no_mass() -> None:
    plan = plan_text(world(body("b", "bool physics:kinematicEnabled = 1")))
    assert plan.physics.bodies[0].inertial.mass == 0.0
    assert findings(plan, "1.3.mass") == []


# --- Bad values ---------------------------------------------------------------------------------------------------


@each_case("value", ["-3", "nan", "inf", "-inf"])
@each_case("name", ["mass", "density"])
def test_impossible_numbers_count_as_not_authored(name: str, value: str) -> None:
    plan = plan_text(world(body("b", f"float physics:{name} = {value}", cube("c"))))
    assert plan.physics.bodies[0].inertial.mass == pytest.approx(1000.0)
    (finding,) = findings(plan, "1.3.mass")
    assert (finding.path, finding.attribute, finding.severity) == ("/World/b", f"physics:{name}", "error")


def test_zero_mass_is_reported_and_computed() -> None:
    plan = plan_text(world(body("b", "float physics:mass = 0", cube("c"))))
    (finding,) = findings(plan, "1.3.mass")
    assert finding.severity == "info"
    assert "1000 kg" in finding.message


def test_zero_mass_and_no_collider_is_a_warning() -> None:
    plan = plan_text(world(body("b", "float physics:mass = 0")))
    (finding,) = findings(plan, "1.3.mass")
    assert finding.severity == "warning"
    assert "a mass of 0" in finding.message


@each_case("moments", ["(-1, -2, 0)", "(nan, 1, 1)", "(1, inf, 1)", "(inf, inf, inf)"])
def test_negative_and_infinite_moments_count_as_not_authored(moments: str) -> None:
    plan = plan_text(
        world(body("b", "float physics:mass = 6", f"float3 physics:diagonalInertia = {moments}", cube("c")))
    )
    assert plan.physics.bodies[0].inertial.diagonal == pytest.approx((1.0, 1.0, 1.0))
    (finding,) = findings(plan, "1.3.inertia")
    assert (finding.path, finding.attribute) == ("/World/b", "physics:diagonalInertia")


@each_case("moments", ["(-5e-20, -5e-20, -5e-20)", "(0, -5e-20, 0)"])
def test_negative_moments_that_are_rounding_are_zero(moments: str) -> None:
    """Zeros are "not authored": those of the cube count, m a^2 / 6, as for ComputeMassProperties."""
    plan = plan_text(
        world(body("b", "float physics:mass = 6", f"float3 physics:diagonalInertia = {moments}", cube("c")))
    )
    assert plan.physics.bodies[0].inertial.diagonal == pytest.approx((1.0, 1.0, 1.0))
    assert findings(plan, "1.3.inertia") == []


@each_case(
    ("moments", "nearest"),
    [
        ((1.0, 1.0, 5.0), (2.0, 2.0, 4.0)),
        ((1.0, 0.0, 0.0), (2 / 3, 1 / 3, 1 / 3)),
        ((0.0, 3.0, 3.3), (0.1, 3.1, 3.2)),
        ((-1.0, 4.0, 1.0), (1 / 3, 8 / 3, 7 / 3)),
        ((2.0, -1.0, 2.0), (2.0, 0.0, 2.0)),
    ],
)
def test_moments_that_violate_the_triangle_inequality_become_the_nearest(
    moments: tuple[float, ...], nearest: tuple[float, ...]
) -> None:
    """The colliders' moments, (1, 1, 1), are further off than anything that the author said."""
    authored = f"float3 physics:diagonalInertia = {moments}"
    plan = plan_text(world(body("b", "float physics:mass = 6", authored, cube("c"))))
    assert plan.physics.bodies[0].inertial.diagonal == pytest.approx(nearest)
    (finding,) = findings(plan, "1.3.inertia")
    assert (finding.severity, finding.path) == ("error" if min(moments) < 0.0 else "warning", "/World/b")
    assert finding.attribute == "physics:diagonalInertia"


@each_case("row", range(3))
def test_a_rod_has_no_moment_about_its_axis(row: int) -> None:
    moments = [0.25, 0.25, 0.25]
    moments[row] = 0.0
    authored = f"float3 physics:diagonalInertia = {tuple(moments)}"
    plan = plan_text(world(body("b", "float physics:mass = 6", authored, cube("c"))))
    assert plan.physics.bodies[0].inertial.diagonal == tuple(moments)
    assert findings(plan, "1.3.inertia") == []


_MOMENT = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(moments=st.tuples(_MOMENT, _MOMENT, _MOMENT), other=st.tuples(_MOMENT, _MOMENT, _MOMENT))
def test_no_possible_moments_are_nearer(moments: Vector3, other: Vector3) -> None:
    nearest = np.array(nearest_moments(moments))
    low, middle, high = sorted(nearest.tolist())
    assert low >= 0.0
    assert low + middle >= high
    # Any moments are made possible by adding enough to each of them.
    low, middle, high = sorted(other)
    possible = np.array(other) + max(high - low - middle, 0.0)
    assert 2.0 * possible.max() <= possible.sum() + 1e-9
    distance = np.linalg.norm(possible - moments)
    assert np.linalg.norm(nearest - moments) <= distance * (1.0 + 1e-12) + 1e-12


def test_what_rounding_leaves_of_no_inertia_is_no_fault() -> None:
    """The tensor of iCub's head, diagonalized by a converter."""
    authored = "float3 physics:diagonalInertia = (-2.40741e-35, 0, 2.40741e-35)"
    plan = plan_text(world(body("b", "float physics:mass = 1.3", authored, cube("c"))))
    assert max(plan.physics.bodies[0].inertial.diagonal) < 1e-30
    assert findings(plan, "1.3.inertia") == []


def test_rounded_moments_are_mended() -> None:
    """A thin disk with moments of three decimals."""
    moments = "float3 physics:diagonalInertia = (0.5, 0.5, 1.0004)"
    plan = plan_text(world(body("b", "float physics:mass = 6", moments)))
    diagonal = plan.physics.bodies[0].inertial.diagonal
    assert diagonal == pytest.approx((0.5, 0.5, 1.0), abs=3e-4)
    assert diagonal[0] + diagonal[1] >= diagonal[2]
    assert findings(plan, "1.3.inertia") == []


@each_case("axes", ["(nan, 0, 0, 0)", "(inf, 0, 0, 0)"])
def test_impossible_axes_are_those_of_the_body(axes: str) -> None:
    moments = "float3 physics:diagonalInertia = (1, 2, 2.5)"
    plan = plan_text(
        world(body("b", "float physics:mass = 6", moments, f"quatf physics:principalAxes = {axes}"))
    )
    assert plan.physics.bodies[0].inertial.principal == (0.0, 0.0, 0.0, 1.0)
    assert [finding.attribute for finding in findings(plan, "1.3.inertia")] == ["physics:principalAxes"]


def test_impossible_centre_counts_as_not_authored() -> None:
    plan = plan_text(world(body("b", "point3f physics:centerOfMass = (nan, 0, 0)", cube("c"))))
    assert plan.physics.bodies[0].inertial.center == pytest.approx((0.0, 0.0, 0.5))
    assert [finding.attribute for finding in findings(plan, "1.3.mass")] == ["physics:centerOfMass"]


def test_colliders_without_a_volume_weigh_nothing() -> None:
    points = "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]"
    faces = "int[] faceVertexCounts = [3]\nint[] faceVertexIndices = [0, 1, 2]"
    plan = plan_text(world(body("b", prim("Mesh", "m", COLLISION, points, faces))))
    assert plan.physics.bodies[0].inertial.mass == 1.0
    (finding,) = findings(plan, "1.3.mass")
    assert "without a volume" in finding.message


@each_case(
    ("content", "path"),
    [
        (prim("Cube", "c", WITH_MASS, "float physics:mass = 3"), "/World/c"),
        (prim("Xform", "x", MASS, "float physics:mass = 3"), "/World/x"),
    ],
)
def test_mass_without_a_body_is_reported(content: str, path: str) -> None:
    (finding,) = findings(plan_text(world(body("b", cube("c")), content)), "1.3.mass.place")
    assert finding.path == path

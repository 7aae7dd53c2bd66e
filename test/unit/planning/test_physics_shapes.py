"""Colliders, visuals, contact materials and the volumes of shapes."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import UsdGeom

from builders.stage_text import (
    BALL,
    at,
    body,
    colliders,
    findings,
    header,
    plan_text,
    prim,
    scene_of,
    stage_of,
    world,
)
from case_tables import each_case
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Box,
    Capsule,
    Collider,
    Cone,
    Cylinder,
    Mesh,
    PhysicsScene,
    Plane,
    Shape,
    Sphere,
)
from usd_ros_bridge.planning.physics.volumes import convex_hull, is_closed, solid_of
from usd_ros_bridge.spatial.transforms import rotate

COLLISION = "PhysicsCollisionAPI"
CUBE = """
point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
int[] faceVertexCounts = [4, 4, 4, 4, 4, 4]
int[] faceVertexIndices = [0, 3, 2, 1, 4, 5, 6, 7, 0, 1, 5, 4, 1, 2, 6, 5, 2, 3, 7, 6, 3, 0, 4, 7]
"""
LATHE = 256


def only(scene: PhysicsScene) -> Collider:
    (collider,) = scene.colliders
    return collider


def shape_of(text: str, **options: float) -> Shape:
    return only(scene_of(world(text), **options)).shape


def ordered(*ops: str) -> str:
    names = ", ".join('"' + op.split()[1] + '"' for op in ops)
    return "\n".join((*ops, f"uniform token[] xformOpOrder = [{names}]"))


def axis_in_body(collider: Collider) -> np.ndarray:
    """Where the shape's Z points in its body."""
    return rotate(np.array(collider.body_from_shape.rotation), np.array([0.0, 0.0, 1.0]))


# --- Shapes -------------------------------------------------------------------------------------------------------


def test_shapes_are_in_metres() -> None:
    shapes = {
        "Sphere": ("double radius = 50", Sphere(0.5)),
        "Cube": ("double size = 100", Box((0.5, 0.5, 0.5))),
        "Capsule": ("double radius = 10\ndouble height = 40", Capsule(0.1, 0.2)),
        "Cylinder": ("double radius = 10\ndouble height = 40", Cylinder(0.1, 0.2)),
        "Cone": ("double radius = 10\ndouble height = 40", Cone(0.1, 0.2)),
    }
    for name, (content, expected) in shapes.items():
        assert shape_of(prim(name, "c", COLLISION, content), meters=0.01) == expected


@each_case("axis", ["X", "Y", "Z"])
@each_case("name", ["Capsule", "Cylinder", "Cone"])
def test_scale_along_and_across_the_axis(name: str, axis: str) -> None:
    scale = {"X": "(3, 2, 2)", "Y": "(2, 3, 2)", "Z": "(2, 2, 3)"}[axis]
    content = [f'uniform token axis = "{axis}"', "double radius = 0.1", "double height = 0.4"]
    collider = only(
        scene_of(world(prim(name, "c", COLLISION, *content, ordered(f"float3 xformOp:scale = {scale}"))))
    )
    assert isinstance(collider.shape, (Capsule, Cylinder, Cone))
    assert (collider.shape.radius, collider.shape.half_height) == pytest.approx((0.2, 0.6))
    np.testing.assert_allclose(axis_in_body(collider), np.eye(3)["XYZ".index(axis)], atol=1e-12)


@each_case("axis", ["X", "Y", "Z"])
def test_a_mirrored_cone_points_the_other_way(axis: str) -> None:
    scale = {"X": "(-1, 1, 1)", "Y": "(1, -1, 1)", "Z": "(1, 1, -1)"}[axis]
    content = [f'uniform token axis = "{axis}"', ordered(f"float3 xformOp:scale = {scale}")]
    collider = only(scene_of(world(prim("Cone", "c", COLLISION, *content))))
    np.testing.assert_allclose(axis_in_body(collider), -np.eye(3)["XYZ".index(axis)], atol=1e-12)


def test_uneven_scale_of_what_is_round_is_reported() -> None:
    text = prim("Sphere", "c", COLLISION, "double radius = 1", ordered("float3 xformOp:scale = (1, 2, 1)"))
    plan = plan_text(world(text))
    assert only(plan.physics).shape == Sphere(2.0)
    assert [finding.path for finding in findings(plan, "1.3.collider.scale")] == ["/World/c"]


def test_a_box_takes_any_scale() -> None:
    plan = plan_text(world(prim("Cube", "c", COLLISION, ordered("float3 xformOp:scale = (1, 2, 3)"))))
    assert only(plan.physics).shape == Box((1.0, 2.0, 3.0))
    assert findings(plan, "1.3.collider.scale") == []


def test_a_sheared_collider_is_reported() -> None:
    inner = prim("Cube", "c", COLLISION, ordered("float xformOp:rotateZ = 45"))
    outer = prim("Xform", "x", "", ordered("float3 xformOp:scale = (1, 4, 1)"), inner)
    assert [f.path for f in findings(plan_text(world(outer)), "1.3.collider.scale")] == ["/World/x/c"]


def test_planes_are_static_and_endless() -> None:
    plan = plan_text(world(prim("Plane", "p", COLLISION), body("b", prim("Plane", "q", COLLISION), BALL)))
    found = colliders(plan.physics)
    assert found["p"].shape == Plane()
    assert found["p"].body == WORLD_BODY
    assert "q" not in found
    assert [finding.path for finding in findings(plan, "1.3.collider")] == ["/World/b/q"]


def test_a_plane_points_along_its_axis_on_a_y_up_stage() -> None:
    text = world(prim("Plane", "p", COLLISION, 'uniform token axis = "Y"'))
    np.testing.assert_allclose(axis_in_body(only(scene_of(text, up="Y"))), [0, 0, 1], atol=1e-12)


def test_shapes_are_placed_in_their_bodies() -> None:
    outer = body("b", at(1, 2, 3), prim("Sphere", "c", COLLISION, at(0.1, 0.2, 0.3)))
    collider = only(scene_of(world(outer)))
    assert collider.body == 0
    assert collider.body_from_shape.translation == pytest.approx((0.1, 0.2, 0.3))


def test_bodies_that_are_switched_off_are_static() -> None:
    outer = body("b", "bool physics:rigidBodyEnabled = 0", at(1, 2, 3), prim("Sphere", "c", COLLISION))
    scene = scene_of(world(outer))
    assert scene.bodies == ()
    assert only(scene).body == WORLD_BODY
    assert only(scene).body_from_shape.translation == pytest.approx((1, 2, 3))


def test_colliders_that_are_switched_off_are_only_seen() -> None:
    scene = scene_of(world(prim("Sphere", "c", COLLISION, "bool physics:collisionEnabled = 0")))
    assert scene.colliders == ()
    assert [visual.path for visual in scene.visuals] == ["/World/c"]


def test_what_is_seen_and_what_is_not() -> None:
    hidden = prim("Sphere", "guide", COLLISION, 'uniform token purpose = "guide"')
    red = "color3f[] primvars:displayColor = [(1, 0, 0)]"
    scene = scene_of(world(hidden, prim("Sphere", "both", COLLISION, red), prim("Cube", "shell", "", red)))
    assert colliders(scene)["guide"].color is None
    assert colliders(scene)["both"].color == (1.0, 0.0, 0.0, 1.0)
    assert [(visual.path, visual.color) for visual in scene.visuals] == [
        ("/World/shell", (1.0, 0.0, 0.0, 1.0))
    ]


# --- Meshes -------------------------------------------------------------------------------------------------------


@each_case("up", ["Y", "Z"])
def test_a_mesh_has_all_of_its_matrix_folded_in(up: str) -> None:
    mesh = prim("Mesh", "m", COLLISION, CUBE, ordered("float xformOp:rotateZ = 45"))
    outer = prim(
        "Xform",
        "x",
        "",
        ordered("float3 xformOp:scale = (1, 4, 1)", "float3 xformOp:rotateXYZ = (10, 20, 30)"),
        mesh,
    )
    collider = only(scene_of(world(outer), up=up, meters=0.5))
    assert isinstance(collider.shape, Mesh)
    pose = collider.body_from_shape
    placed = rotate(np.array(pose.rotation), collider.shape.points) + pose.translation
    stage = stage_of(world(outer), header(up=up, meters=0.5))
    authored = stage.GetPrimAtPath("/World/x/m")
    matrix = np.array(UsdGeom.XformCache().GetLocalToWorldTransform(authored))
    points = np.array(UsdGeom.Mesh(authored).GetPointsAttr().Get()) @ matrix[:3, :3] + matrix[3, :3]
    points *= 0.5
    if up == "Y":
        points = points[:, [0, 2, 1]] * [1, -1, 1]
    np.testing.assert_allclose(placed, points, atol=1e-6)


def test_a_mirrored_mesh_keeps_its_inside() -> None:
    mesh = prim("Mesh", "m", COLLISION, CUBE, ordered("float3 xformOp:scale = (1, 1, -2)"))
    shape = shape_of(mesh)
    assert isinstance(shape, Mesh)
    corners = shape.points[shape.triangles]
    assert np.linalg.det(corners).sum() / 6.0 == pytest.approx(2.0)


FACE = """
int[] faceVertexCounts = [3]
int[] faceVertexIndices = [0, 1, 2]
"""


@each_case(
    ("content", "what"),
    [
        ("point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]", "no triangles"),
        (CUBE.replace("(1, 1, 1)", "(nan, 1, 1)"), "not finite"),
        (CUBE.replace("(1, 1, 1)", "(inf, 1, 1)"), "not finite"),
        (f"{FACE}point3f[] points = [(1, 2, 3), (1, 2, 3), (1, 2, 3)]", "no area"),
        (f"{FACE}point3f[] points = [(0, 0, 0), (1, 1, 1), (3, 3, 3)]", "no area"),
    ],
)
def test_meshes_that_cannot_collide(content: str, what: str) -> None:
    plan = plan_text(world(prim("Mesh", "m", COLLISION, content), BALL))
    assert list(colliders(plan.physics)) == ["ball"]
    (finding,) = findings(plan, "1.3.mesh")
    assert finding.path == "/World/m"
    assert what in finding.message


def test_points_that_no_face_names_do_not_matter() -> None:
    content = CUBE.replace("(0, 1, 1)]", "(0, 1, 1), (nan, nan, nan)]")
    plan = plan_text(world(prim("Mesh", "m", COLLISION, content)))
    shape = only(plan.physics).shape
    assert isinstance(shape, Mesh)
    assert shape.points.shape == (8, 3)


@each_case(
    ("token", "meant"),
    [
        ("convexHull", "convexHull"),
        ("sdf", "none"),
        ("sphereFill", "convexDecomposition"),
        ("magic", "convexHull"),
    ],
)
def test_approximations(token: str, meant: str) -> None:
    text = prim(
        "Mesh",
        "m",
        f"{COLLISION} PhysicsMeshCollisionAPI",
        CUBE,
        f'uniform token physics:approximation = "{token}"',
    )
    plan = plan_text(world(text))
    shape = only(plan.physics).shape
    assert isinstance(shape, Mesh)
    assert shape.approximation == meant
    assert [f.path for f in findings(plan, "1.3.mesh.approximation")] == (
        [] if token == meant else ["/World/m"]
    )


# --- What is left out ---------------------------------------------------------------------------------------------


@each_case(
    "text",
    [
        prim("Xform", "c", COLLISION),
        prim("Sphere", "c", COLLISION, "double radius = -1"),
        prim("Sphere", "c", COLLISION, "double radius = nan"),
        prim("Cone", "c", COLLISION, "double height = 1e-30"),
        prim("Capsule", "c", COLLISION, "double height = 0"),
        prim("Cone", "c", COLLISION, 'uniform token axis = "W"'),
        prim("Sphere", "c", COLLISION, ordered("float3 xformOp:scale = (0, 1, 1)")),
        prim("Sphere", "c", COLLISION, ordered("double3 xformOp:translate = (nan, 1, 1)")),
    ],
)
def test_colliders_that_cannot_be_used(text: str) -> None:
    plan = plan_text(world(text, BALL))
    assert list(colliders(plan.physics)) == ["ball"]
    (finding,) = findings(plan, "1.3.collider")
    assert finding.path == "/World/c"


def test_a_collider_that_a_moving_robot_leaves_behind() -> None:
    base = body("base", BALL, at(0, 0, 1))
    robot = prim(
        "Xform",
        "robot",
        "RosContextAPI",
        'string ros:context:namespace = "r"',
        base,
        prim("Xform", "imu", "RosTopicAPI"),
        prim("Sphere", "lost", COLLISION),
    )
    wheel = body("wheel", BALL)
    joint = prim(
        "PhysicsRevoluteJoint",
        "j",
        "",
        "rel physics:body0 = </World/robot/base>",
        "rel physics:body1 = </World/robot/wheel>",
    )
    plan = plan_text(world(robot.rstrip()[:-1] + wheel + joint + "}\n"))
    assert plan.robots[0].base >= 0
    assert [finding.path for finding in findings(plan, "1.3.collider.place")] == ["/World/robot/lost"]


# --- Materials ----------------------------------------------------------------------------------------------------

STEEL = """float physics:staticFriction = 0.7
float physics:dynamicFriction = 0.6
float physics:restitution = 0.2
float mjc:torsionalfriction = 0.01
int mjc:priority = 2
"""
BOUND = "rel material:binding:physics = </World/m>"
BINDING = f"{COLLISION} MaterialBindingAPI"


def test_contact_materials() -> None:
    scene = scene_of(
        world(
            prim("Sphere", "c", BINDING, BOUND),
            prim("Sphere", "d", COLLISION),
            prim("Material", "m", "PhysicsMaterialAPI", STEEL),
        )
    )
    material = colliders(scene)["c"].material
    assert (material.static_friction, material.dynamic_friction, material.restitution) == pytest.approx(
        (0.7, 0.6, 0.2)
    )
    assert colliders(scene)["c"].solver == {"torsional_friction": pytest.approx(0.01), "priority": 2}
    assert colliders(scene)["d"].material is None


@each_case(("value", "used"), [("-1", 0.0), ("nan", 0.0), ("inf", 1.0)])
def test_impossible_restitution(value: str, used: float) -> None:
    bouncy = prim("Material", "m", "PhysicsMaterialAPI", f"float physics:restitution = {value}")
    plan = plan_text(world(prim("Sphere", "c", BINDING, BOUND), bouncy))
    material = only(plan.physics).material
    assert material.restitution == used
    assert [finding.attribute for finding in findings(plan, "1.3.material")] == ["physics:restitution"]


def bound_ball(static: float, dynamic: float, *schemas: str) -> str:
    material = prim(
        "Material", "rubber", "PhysicsMaterialAPI", f"float physics:staticFriction = {static}",
        f"float physics:dynamicFriction = {dynamic}",
    )  # fmt: skip
    binding = "rel material:binding:physics = </World/rubber>"
    applied = " ".join((COLLISION, "MaterialBindingAPI", *schemas))
    return material + "".join(prim("Sphere", f"ball_{number}", applied, binding) for number in range(3))


@each_case(("static", "said"), [(0.8, 0), (0.5, 0), (1.2, 1)])
def test_static_friction_above_dynamic_is_said_once(static: float, said: int) -> None:
    plan = plan_text(world(bound_ball(static, 0.8)))
    found = findings(plan, "1.4.degraded")
    assert [(each.severity, each.path, each.attribute) for each in found] == [
        ("warning", "/World/rubber", "physics:staticFriction")
    ] * said


def test_colliders_without_a_material_have_the_default_of_physx_which_is_said_once() -> None:
    plan = plan_text(world(bound_ball(0.8, 0.8), *(prim("Cube", f"box_{n}", COLLISION) for n in range(2))))
    (found,) = findings(plan, "1.3.material.default")
    assert (found.severity, found.path) == ("info", "/World/box_0")
    assert found.message.startswith("2 of 5 colliders")
    assert plan.physics is not None
    frictions = [each.contact_material.dynamic_friction for each in plan.physics.colliders]
    assert frictions == pytest.approx([0.8, 0.8, 0.8, 0.5, 0.5])
    assert findings(plan_text(world(bound_ball(0.8, 0.8))), "1.3.material.default") == []


def test_of_mujoco_colliders_the_default_is_that_of_mujoco() -> None:
    plan = plan_text(world(prim("Sphere", "ball", f"{COLLISION} MjcCollisionAPI")))
    assert plan.physics is not None
    assert only(plan.physics).contact_material.dynamic_friction == 1.0
    assert findings(plan, "1.3.material.default") == []


@each_case(("line", "double"), [("", False), ("uniform bool doubleSided = 1", True)])
def test_a_mesh_says_whether_it_has_two_sides(line: str, double: bool) -> None:
    shape = shape_of(prim("Mesh", "m", COLLISION, CUBE, line))
    assert isinstance(shape, Mesh)
    assert shape.double_sided is double


def test_fallbacks_of_colliders() -> None:
    text = prim("Sphere", "c", "PhysicsCollisionAPI MjcCollisionAPI")
    assert only(scene_of(world(text))).solver == {
        "margin": 0.0, "condim": 3, "priority": 0, "solmix": 1.0,
        "friction_combine": "max", "restitution_combine": "max",
    }  # fmt: skip


def test_solver_attributes_of_colliders() -> None:
    own = """float newton:contactMargin = 2
float physxCollision:contactOffset = 5
float physxCollision:restOffset = 1
int mjc:condim = 4
int mjc:priority = 1
double[] mjc:solref = [0.02, 1]
"""
    text = prim("Sphere", "c", BINDING, BOUND, own) + prim("Material", "m", "PhysicsMaterialAPI", STEEL)
    solver = only(scene_of(world(text), meters=0.01)).solver
    # Newton's margin comes first; the gap is PhysX's, beyond its rest offset; the collider's priority wins.
    assert solver["margin"] == pytest.approx(0.02)
    assert solver["gap"] == pytest.approx(0.04)
    assert solver["condim"] == 4
    assert solver["priority"] == 1
    assert solver["solref"] == (0.02, 1.0)


def test_physx_writes_minus_infinity_for_nothing() -> None:
    text = prim(
        "Sphere",
        "c",
        COLLISION,
        "float physxCollision:contactOffset = -inf",
        "float physxCollision:restOffset = -inf",
    )
    assert only(scene_of(world(text))).solver == {}


# --- Volumes ------------------------------------------------------------------------------------------------------


def lathed(radius: float, half_height: float, *, cone: bool) -> Mesh:
    """A cylinder or a cone as a mesh."""
    angle = np.linspace(0.0, 2.0 * math.pi, LATHE, endpoint=False)
    ring = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)
    low = np.column_stack((ring, np.full(LATHE, -half_height)))
    high = np.column_stack((ring * (1e-6 if cone else 1.0), np.full(LATHE, half_height)))
    points = np.concatenate((low, high))
    triangles = convex_hull(points)
    return Mesh(points, triangles)


@each_case(
    ("exact", "mesh"),
    [(Cylinder(0.3, 0.5), lathed(0.3, 0.5, cone=False)), (Cone(0.3, 0.5), lathed(0.3, 0.5, cone=True))],
)
def test_round_solids_are_the_limits_of_meshes(exact: Shape, mesh: Mesh) -> None:
    first, second = solid_of(exact), solid_of(mesh)
    assert second.volume == pytest.approx(first.volume, rel=1e-3)
    np.testing.assert_allclose(second.center, first.center, atol=1e-6)
    np.testing.assert_allclose(second.inertia, first.inertia, atol=1e-3 * first.inertia.max())


def test_a_capsule_is_between_a_ball_and_a_cylinder() -> None:
    ball, flat = solid_of(Sphere(0.4)), solid_of(Capsule(0.4, 1e-9))
    np.testing.assert_allclose(flat.inertia, ball.inertia, rtol=1e-6)
    samples = np.random.default_rng(1).uniform([-0.4, -0.4, -1.0], [0.4, 0.4, 1.0], (400_000, 3))
    beyond = np.maximum(np.abs(samples[:, 2]) - 0.6, 0.0)
    inside = samples[samples[:, 0] ** 2 + samples[:, 1] ** 2 + beyond**2 < 0.16]
    share = len(inside) / len(samples) * 0.8 * 0.8 * 2.0
    second = share * (inside.T @ inside) / len(inside)
    solid = solid_of(Capsule(0.4, 0.6))
    assert solid.volume == pytest.approx(share, rel=1e-2)
    np.testing.assert_allclose(
        solid.inertia, np.trace(second) * np.eye(3) - second, atol=2e-2 * solid.inertia.max()
    )


def box_mesh(half: np.ndarray, center: np.ndarray) -> Mesh:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half + center
    triangles = convex_hull(corners)
    return Mesh(corners, triangles)


size = st.floats(1e-3, 10.0)
place = st.floats(-10.0, 10.0)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.tuples(size, size, size), st.tuples(place, place, place))
def test_a_box_of_triangles_is_a_box(
    half: tuple[float, float, float], center: tuple[float, float, float]
) -> None:
    mesh = box_mesh(np.array(half), np.array(center))
    assert is_closed(mesh.triangles)
    first, second = solid_of(Box(half)), solid_of(mesh)
    assert second.volume == pytest.approx(first.volume, rel=1e-9)
    np.testing.assert_allclose(second.center, center, atol=1e-9)
    np.testing.assert_allclose(second.inertia, first.inertia, rtol=1e-6, atol=1e-9 * first.inertia.max())


def test_what_meshes_weigh_follows_from_how_they_collide() -> None:
    """An L of three cubes: itself, its hull, its box, the ball around it."""
    first, second, third = (box_mesh(np.full(3, 0.5), np.array(c)) for c in ((0, 0, 0), (1, 0, 0), (0, 1, 0)))
    points = np.concatenate([first.points, second.points, third.points])
    triangles = np.concatenate([first.triangles, second.triangles + 8, third.triangles + 16])
    volumes = {
        token: solid_of(Mesh(points, triangles, token)).volume  # type: ignore[arg-type]
        for token in ("none", "convexDecomposition", "convexHull", "boundingCube", "boundingSphere")
    }
    assert volumes["none"] == volumes["convexDecomposition"] == pytest.approx(3.0)
    assert volumes["convexHull"] == pytest.approx(3.5)
    assert volumes["boundingCube"] == pytest.approx(4.0)
    assert volumes["boundingSphere"] == pytest.approx(4 / 3 * math.pi * 2.25**1.5)


def test_an_open_mesh_weighs_what_its_hull_does() -> None:
    mesh = box_mesh(np.full(3, 0.5), np.zeros(3))
    assert not is_closed(mesh.triangles[1:])
    assert solid_of(Mesh(mesh.points, mesh.triangles[1:])).volume == pytest.approx(1.0)


def test_without_scipy_nothing_is_taken_for_the_hull(monkeypatch: pytest.MonkeyPatch) -> None:
    wedge = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3]], dtype=np.int32)
    assert solid_of(Mesh(wedge, faces)).volume == pytest.approx(1.0 / 6.0)
    monkeypatch.setitem(sys.modules, "scipy.spatial", None)
    with pytest.raises(BridgeError, match=r"SciPy .* masses of meshes.*pip install scipy"):
        solid_of(Mesh(wedge, faces))


def test_a_mesh_inside_out_weighs_the_same() -> None:
    mesh = box_mesh(np.full(3, 0.5), np.array([1.0, 2.0, 3.0]))
    turned = solid_of(Mesh(mesh.points, mesh.triangles[:, ::-1]))
    assert turned.volume == pytest.approx(1.0)
    np.testing.assert_allclose(turned.inertia, np.eye(3) / 6.0, atol=1e-12)


def test_equal_meshes_are_one() -> None:
    """Two robots that refer to one mesh: what an engine prepares of it (hulls, parts) it prepares once."""
    part = prim(
        "Xform",
        "part",
        "",
        prim("Mesh", "m", COLLISION, CUBE, ordered("float3 xformOp:scale = (1e-4, 2e-4, 1e-4)")),
    )
    uses = "".join(
        f'def "{name}" (references = </World/part>) {{\n{ordered(f"double3 xformOp:translate = ({x}, 0, 0)", op)}\n}}\n'
        for name, x, op in (
            ("p", 100.3, "float xformOp:rotateZ = 33"),
            ("q", -7.7, "float xformOp:rotateX = 71"),
        )
    )
    first, *others = (each.shape for each in scene_of(world(part, uses)).colliders)
    assert len(others) == 2
    assert all(other is first for other in others)
    assert isinstance(first, Mesh)
    np.testing.assert_allclose(np.ptp(first.points, axis=0), (1e-4, 2e-4, 1e-4), rtol=1e-7)


@each_case(
    ("color", "opacity", "shown"),
    [
        ("(1, 0.5, 0)", "0.25", (1.0, 0.5, 0.0, 0.25)),
        ("(5, -1, 0)", "7", (1.0, 0.0, 0.0, 1.0)),
        ("(nan, 0, 0)", "1", (0.6, 0.6, 0.6, 1.0)),
        ("(1, 0, 0)", "inf", (0.6, 0.6, 0.6, 1.0)),
    ],
)
def test_colors_can_be_shown(color: str, opacity: str, shown: tuple[float, ...]) -> None:
    look = f"color3f[] primvars:displayColor = [{color}]\nfloat[] primvars:displayOpacity = [{opacity}]"
    scene = scene_of(world(prim("Cube", "c", "", look), prim("Cube", "d", COLLISION, look), BALL))
    assert [each.color for each in scene.visuals] == [shown]
    assert colliders(scene)["d"].color == shown


def test_what_resets_the_transform_stack_is_on_no_body_above() -> None:
    loose = prim(
        "Xform",
        "loose",
        "",
        at(5, 0, 0).replace('["', '["!resetXformStack!", "'),
        prim("Sphere", "c", COLLISION),
    )
    kept = prim("Sphere", "d", COLLISION)
    scene = scene_of(world(body("b", at(1, 0, 0), loose, kept)))
    assert colliders(scene)["c"].body == WORLD_BODY
    assert colliders(scene)["c"].body_from_shape.translation == (5.0, 0.0, 0.0)
    assert colliders(scene)["d"].body == 0
    assert scene.bodies[0].inertial.mass == pytest.approx(4000 / 3 * math.pi)


def test_a_body_that_resets_the_stack_carries_what_is_below_it() -> None:
    inner = body("n", at(5, 0, 0).replace('["', '["!resetXformStack!", "'), prim("Sphere", "c", COLLISION))
    scene = scene_of(world(body("b", at(1, 0, 0), BALL, inner)))
    assert scene.bodies[colliders(scene)["c"].body].path == "/World/b/n"
    assert scene.bodies[1].world_from_body.translation == (5.0, 0.0, 0.0)

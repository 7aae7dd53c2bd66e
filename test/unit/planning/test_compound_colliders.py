"""PhysicsCollisionAPI on a prim that is no gprim: the gprims below collide as if it were on each of them."""

from __future__ import annotations

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.stage_text import body, findings, plan_text, prim, scene_of, stage_of, world
from case_tables import each_case
from usd_ros_bridge.api import load_plan, reread
from usd_ros_bridge.model.physics import WORLD_BODY, Collider, Mesh, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions

CORNERS = """
point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
int[] faceVertexCounts = [3, 3, 3, 3]
int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
"""
CUBE = prim("Cube", "cube", "", "double size = 0.2")
COLLIDES = "PhysicsCollisionAPI"
PROTOTYPES = f"""
def Scope "prototypes" {{
    token visibility = "invisible"
    def Xform "link" {{
        {prim("Xform", "mesh_0", "", CUBE, prim("Mesh", "tip", "", CORNERS))}
    }}
}}
"""
INSTANCE = """
def Xform "collisions" (
    instanceable = true
    prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI", "PhysxCollisionAPI"]
    prepend references = </prototypes/link>
) {
    uniform token physics:approximation = "convexHull"
    float physxCollision:restOffset = 0.01
}
"""


def paths(scene: PhysicsScene) -> list[tuple[str, int]]:
    return [(each.path, each.body) for each in scene.colliders]


def named(plan: BridgePlan) -> dict[str, Collider]:
    assert plan.physics is not None
    return {each.path.removeprefix("/World/"): each for each in plan.physics.colliders}


def test_the_gprims_of_an_instance_collide_with_what_the_prim_above_authors() -> None:
    plan = plan_text(world(body("link", INSTANCE)) + PROTOTYPES)
    found = named(plan)
    assert list(found) == ["link/collisions/mesh_0/cube", "link/collisions/mesh_0/tip"]
    assert {each.body for each in found.values()} == {0}
    assert [each.solver["margin"] for each in found.values()] == pytest.approx([0.01, 0.01])
    tip = found["link/collisions/mesh_0/tip"].shape
    assert isinstance(tip, Mesh)
    assert tip.approximation == "convexHull"
    # Prototypes without the schema are nothing where they stand.
    assert not any(path.startswith("/prototypes") for path, _ in paths(scene_of(PROTOTYPES)))


def test_it_is_said_once_for_the_asset() -> None:
    links = [body(f"link_{number}", INSTANCE) for number in range(4)]
    plan = plan_text(world(*links) + PROTOTYPES)
    (found,) = findings(plan, "1.3.collision_api")
    assert (found.severity, found.path) == ("info", "/World/link_0/collisions")
    assert "3 more" in found.message
    assert "8 gprims" in found.message
    assert findings(plan, "1.3.collider") == []


@each_case("kind", ["Xform", "Scope", ""])
def test_without_a_gprim_below_nothing_collides_and_it_is_reported(kind: str) -> None:
    plan = plan_text(world(body("link", prim(kind, "empty", COLLIDES, prim("Xform", "below")))))
    (found,) = findings(plan, "1.3.collider")
    assert (found.severity, found.path) == ("warning", "/World/link/empty")
    assert findings(plan, "1.3.collision_api") == []


def test_nothing_is_taken_twice() -> None:
    own = prim("Sphere", "own", COLLIDES, "double radius = 0.1")
    inner = prim("Xform", "inner", COLLIDES, "bool physics:collisionEnabled = 0", prim("Cube", "off"))
    plan = plan_text(world(body("link", prim("Xform", "outer", COLLIDES, CUBE, own, inner))))
    assert sorted(named(plan)) == ["link/outer/cube", "link/outer/own"]


def test_each_belongs_to_the_nearest_body() -> None:
    scene = scene_of(
        world(
            prim("Xform", "robot", COLLIDES, CUBE, prim("Cube", "arm", "PhysicsRigidBodyAPI")),
            body("box", CUBE, schemas="PhysicsCollisionAPI"),
        )
    )
    assert paths(scene) == [
        ("/World/robot/cube", WORLD_BODY),
        ("/World/robot/arm", 0),
        ("/World/box/cube", 1),
    ]


def test_switched_off_they_are_only_seen() -> None:
    scene = scene_of(
        world(body("link", prim("Xform", "parts", COLLIDES, "bool physics:collisionEnabled = 0", CUBE)))
    )
    assert scene.colliders == ()
    assert [each.path for each in scene.visuals] == ["/World/link/parts/cube"]


def test_the_material_of_the_prim_above_is_inherited() -> None:
    def material(name: str, friction: float, schema: str = "PhysicsMaterialAPI") -> str:
        return prim("Material", name, schema, f"float physics:dynamicFriction = {friction}")

    def bound(kind: str, name: str, purpose: str, material: str, *content: str, schemas: str = "") -> str:
        binding = f"rel material:binding{purpose} = </World/{material}>"
        return prim(kind, name, f"MaterialBindingAPI {schemas}", binding, *content)

    parts = (
        prim("Cube", "plain"),
        bound("Cube", "seen", "", "look"),
        bound("Cube", "own", ":physics", "ice"),
    )
    for purpose in (":physics", ""):
        plan = plan_text(
            world(
                material("rubber", 0.9),
                material("ice", 0.1),
                material("look", 0.0, ""),
                body("link", bound("Xform", "parts", purpose, "rubber", *parts, schemas=COLLIDES)),
            )
        )
        frictions = {
            path.rpartition("/")[2]: round(each.contact_material.dynamic_friction, 6)
            for path, each in named(plan).items()
        }
        assert frictions == {"plain": 0.9, "seen": 0.9, "own": 0.1}


MERGED = """
def Xform "merged" (
    prepend apiSchemas = ["PhysicsCollisionAPI", "PhysxMeshMergeCollisionAPI"]
) {
    %s
    def Cube "one" {}
    def Cube "two" {}
    def Xform "more" {
        def Cube "three" {}
    }
}
def Cube "elsewhere" {}
"""
INCLUDES = "rel collection:collisionmeshes:includes"
LINK = "/World/link"


@each_case(
    ("collection", "expected"),
    [
        ("", ["merged/one", "merged/two", "merged/more/three"]),
        (f"{INCLUDES} = <{LINK}/merged>", ["merged/one", "merged/two", "merged/more/three"]),
        (f"{INCLUDES} = [<{LINK}/merged/one>, <{LINK}/merged/more>]", ["merged/one", "merged/more/three"]),
        (
            f"{INCLUDES} = <{LINK}/merged>\n{INCLUDES[:-8]}excludes = <{LINK}/merged/two>",
            ["merged/one", "merged/more/three"],
        ),
        (f"{INCLUDES} = [<{LINK}/merged/two>, <{LINK}/elsewhere>]", ["merged/two", "elsewhere"]),
    ],
)
def test_a_merged_collider_is_its_collection_else_all_below(collection: str, expected: list[str]) -> None:
    plan = plan_text(world(body("link", MERGED % collection)))
    assert sorted(named(plan)) == sorted(f"link/{name}" for name in expected)


@each_case(
    ("rule", "target", "apart"),
    [
        ("expandPrims", "parts", ["cube", "tip"]),
        ("explicitOnly", "parts", ["cube", "tip"]),
        ("explicitOnly", "parts/tip", ["tip"]),
    ],
)
def test_groups_name_the_prim_above_or_a_part(rule: str, target: str, apart: list[str]) -> None:
    group = f"""
def PhysicsCollisionGroup "group" (prepend apiSchemas = ["CollectionAPI:colliders"]) {{
    uniform token collection:colliders:expansionRule = "{rule}"
    rel collection:colliders:includes = </World/link/{target}>
    rel physics:filteredGroups = </World/group>
}}
"""
    parts = prim("Xform", "parts", COLLIDES, CUBE, prim("Mesh", "tip", "", CORNERS))
    scene = scene_of(world(group, body("link", parts)))
    found = [each.path.rpartition("/")[2] for each in scene.colliders if each.group >= 0]
    assert found == apart


def test_filtered_pairs_of_the_prim_above_are_those_of_its_parts() -> None:
    parts = prim(
        "Xform", "parts", "PhysicsCollisionAPI PhysicsFilteredPairsAPI",
        "rel physics:filteredPairs = </World/floor>", CUBE, prim("Cube", "other"),
    )  # fmt: skip
    scene = scene_of(world(prim("Plane", "floor", COLLIDES), body("link", parts)))
    assert [each.path.rpartition("/")[2] for each in scene.colliders] == ["floor", "cube", "other"]
    assert scene.apart_colliders == ((0, 1), (0, 2))


def test_a_mass_of_the_prim_above_is_that_of_its_parts_together() -> None:
    parts = prim(
        "Xform", "parts", "PhysicsCollisionAPI PhysicsMassAPI", "float physics:mass = 6",
        prim("Cube", "small", "", "double size = 0.1"),
        prim(
            "Cube", "large", "", "double size = 0.2", "double3 xformOp:translate = (1, 0, 0)",
            'uniform token[] xformOpOrder = ["xformOp:translate"]',
        ),
    )  # fmt: skip
    plan = plan_text(world(body("link", parts)))
    assert plan.physics is not None
    (link,) = plan.physics.bodies
    assert link.inertial.mass == pytest.approx(6.0)
    assert link.inertial.center == pytest.approx((8.0 / 9.0, 0.0, 0.0))
    assert findings(plan, "1.3.mass.place") == []


POINTS = """
def PointInstancer "rocks" (%s) {
    rel prototypes = </World/rocks/rock>
    int[] protoIndices = [0, 0]
    point3f[] positions = [(0, 0, 0), (5, 0, 0)]
    def Xform "rock" (%s) {
        def Cube "stone" {}
    }
}
"""
API = 'prepend apiSchemas = ["PhysicsCollisionAPI"]'


@each_case("where", ["instancer", "prototype", "above"])
def test_instances_collide(where: str) -> None:
    text = POINTS % (API if where == "instancer" else "", API if where == "prototype" else "")
    if where == "above":
        text = prim("Xform", "yard", COLLIDES, text.replace("/World/rocks", "/World/yard/rocks"))
    plan = plan_text(world(text))
    names = [path.removeprefix("yard/") for path in named(plan)]
    assert names == ["rocks/rock_0/stone", "rocks/rock_1/stone"]
    assert len(findings(plan, "1.3.collision_api")) == 1
    assert findings(plan, "1.3.collider") == []


def test_gprims_without_a_shape_are_counted() -> None:
    curves = prim("BasisCurves", "cable")
    plan = plan_text(
        world(body("link", prim("Xform", "parts", COLLIDES, CUBE, curves, prim("Points", "dust"))))
    )
    (found,) = findings(plan, "1.3.collision_api")
    assert "(1 gprims)" in found.message
    assert "1 BasisCurves, 1 Points" in found.message


def test_a_static_one_is_owned_by_the_scene_that_the_prim_above_names() -> None:
    owned = prim("Xform", "parts", COLLIDES, "rel physics:simulationOwner = </World/second>", CUBE)
    scenes = [prim("PhysicsScene", name) for name in ("first", "second")]
    scene = scene_of(world(*scenes, owned, prim("Cube", "floor", COLLIDES)))
    assert len({each.group for each in scene.colliders}) == 2


def test_edits_of_the_prim_above_count_when_the_stage_is_read_again() -> None:
    stage = stage_of(world(body("link", prim("Xform", "parts", "", CUBE))))
    plan = load_plan(stage, physics=True)
    assert named(plan) == {}
    stage.GetPrimAtPath("/World/link/parts").AddAppliedSchema("PhysicsCollisionAPI")
    assert list(named(reread(plan, PlanOptions())())) == ["link/parts/cube"]


def test_a_mass_of_the_prim_above_is_shared_among_the_bodies_of_its_parts() -> None:
    parts = [body(name, "double size = 0.2", schemas="", kind="Cube") for name in ("one", "two")]
    scene = scene_of(
        world(prim("Xform", "pair", "PhysicsCollisionAPI PhysicsMassAPI", "float physics:mass = 6", *parts))
    )
    assert [each.inertial.mass for each in scene.bodies] == pytest.approx([3.0, 3.0])


def test_a_mass_that_cannot_be_used_is_reported_as_authored() -> None:
    above = "PhysicsCollisionAPI PhysicsMassAPI"
    parts = prim("Xform", "parts", above, "float physics:mass = -6", CUBE, prim("Cube", "other"))
    found = findings(plan_text(world(body("link", parts))), "1.3.mass")
    assert {each.path for each in found} == {"/World/link/parts"}
    assert all("-6.0" in each.message for each in found)


def test_what_a_collection_names_elsewhere_is_of_the_body_of_the_prim_above() -> None:
    merged = MERGED % f"{INCLUDES} = [<{LINK}/merged/one>, </World/other>]"
    merged = merged.replace('"PhysicsCollisionAPI",', '"PhysicsCollisionAPI", "PhysicsMassAPI",').replace(
        "def Cube", "float physics:mass = 2\ndef Cube", 1
    )
    plan = plan_text(world(body("link", merged), prim("Cube", "other")))
    assert plan.physics is not None
    assert paths(plan.physics) == [("/World/link/merged/one", 0), ("/World/other", 0)]
    assert plan.physics.bodies[0].inertial.mass == pytest.approx(2.0)
    assert findings(plan, "1.3.mass.place") == []


def test_only_what_collides_is_counted() -> None:
    off = "bool physics:collisionEnabled = 0"
    assert (
        findings(plan_text(world(body("link", prim("Xform", "a", COLLIDES, off, CUBE)))), "1.3.collision_api")
        == []
    )
    inner = prim("Xform", "inner", COLLIDES, off, prim("Cube", "off"))
    (found,) = findings(
        plan_text(world(body("link", prim("Xform", "outer", COLLIDES, CUBE, inner)))), "1.3.collision_api"
    )
    assert "(1 gprims)" in found.message

"""Physics records of stages made for one thing each, good and bad."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import physics_of

from builders.stage_text import stage_of
from case_tables import each_case
from usd_ros_bridge.model.physics_records import GeometryRecord, PhysicsRecords
from usd_ros_bridge.usd.read.geometry import triangulated

TRIANGLE = """
int[] faceVertexCounts = [3]
int[] faceVertexIndices = [0, 1, 2]
point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
"""


def records_of(text: str, **options: Any) -> PhysicsRecords:
    return physics_of(stage_of(text), **options)


def codes_of(records: PhysicsRecords) -> list[tuple[str, str, str]]:
    return [(each.code, each.severity, each.path) for each in records.diagnostics]


def only(records: PhysicsRecords) -> GeometryRecord:
    (geometry,) = records.geometries
    return geometry


# --- Scenes, masses, joints ---------------------------------------------------------------------------------------


def test_what_is_not_authored_is_none() -> None:
    records = records_of(
        """
def PhysicsScene "scene" {}
def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {}
def Material "steel" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {}
def PhysicsCollisionGroup "group" {}
"""
    )
    (scene,) = records.scenes
    assert (scene.gravity_direction, scene.gravity_magnitude, dict(scene.solver_attributes)) == (
        None,
        None,
        {},
    )
    mass, steel, (group,) = records.masses["/body"], records.materials["/steel"], records.groups
    assert (mass.mass, mass.density, mass.center_of_mass, mass.diagonal_inertia) == (None,) * 4
    assert (steel.static_friction, steel.dynamic_friction, steel.restitution, steel.density) == (None,) * 4
    assert (group.filtered_groups, group.merge_group, group.invert) == (None, None, None)
    assert records.diagnostics == ()


def test_attributes_count_where_their_schema_is_applied() -> None:
    records = records_of(
        """
def Cube "cube" {
    float physics:mass = 3
    bool physics:collisionEnabled = 0
}
def Cube "collider" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI"]) {
    float physics:mass = 4
    quatf physics:principalAxes = (0.5, 0.1, 0.2, 0.3)
}
"""
    )
    assert {path: each.mass for path, each in records.masses.items()} == {"/collider": 4.0}
    assert records.masses["/collider"].principal_axes == pytest.approx((0.1, 0.2, 0.3, 0.5))
    assert [(each.path, each.collides, each.collision_enabled) for each in records.geometries] == [
        ("/cube", False, True),
        ("/collider", True, True),
    ]


def test_vendors_attributes_are_kept_by_name() -> None:
    records = records_of(
        """
def PhysicsScene "scene" {
    custom float newton:timeStepsPerSecond = 500
    custom token physxScene:solverType = "TGS"
}
def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    custom bool physxRigidBody:disableGravity = 1
    def Cube "shell" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        custom int mjc:condim = 4
        custom float other:value = 1
    }
}
"""
    )
    assert records.scenes[0].solver_attributes == {
        "newton:timeStepsPerSecond": 500.0,
        "physxScene:solverType": "TGS",
    }
    assert records.body_solver_attributes == {"/body": {"physxRigidBody:disableGravity": True}}
    assert only(records).solver_attributes == {"mjc:condim": 4}


def test_joints_that_break() -> None:
    records = records_of(
        """
def PhysicsFixedJoint "weak" {
    float physics:breakForce = 20
}
def PhysicsRevoluteJoint "weaker" {
    float physics:breakForce = 20
    float physics:breakTorque = 3
}
def PhysicsFixedJoint "strong" {
    float physics:breakForce = inf
    float physics:breakTorque = 3.4028235e38
}
def PhysicsFixedJoint "nan" {
    float physics:breakTorque = nan
}
def PhysicsFixedJoint "plain" {}
"""
    )
    assert records.joint_breaks == {"/weak": (20.0, math.inf), "/weaker": (20.0, 3.0)}


def test_values_of_the_wrong_type_are_reported_and_count_as_not_authored() -> None:
    records = records_of(
        """
def Cube "cube" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI", "PhysicsFilteredPairsAPI"]) {
    string size = "large"
    int physics:collisionEnabled = 7
    double physics:mass = 2
    float4 physics:principalAxes = (1, 2, 3, 4)
    string physics:filteredPairs = "a"
}
"""
    )
    assert records.masses["/cube"].mass == 2.0
    assert records.masses["/cube"].principal_axes is None
    assert records.filtered_pairs[0].filtered_pairs is None
    assert only(records).values == {"size": 2.0}
    assert only(records).collision_enabled
    assert sorted(codes_of(records)) == [
        ("1.3.collision_enabled", "error", "/cube"),
        ("1.3.filtered_pairs", "error", "/cube"),
        ("1.3.mass", "warning", "/cube"),
        ("1.3.principal_axes", "error", "/cube"),
        ("1.3.size", "error", "/cube"),
    ]


# --- Which geometry -----------------------------------------------------------------------------------------------


def test_which_geometry_is_seen() -> None:
    records = records_of(
        """
def Xform "robot" {
    def Cube "plain" {}
    def Cube "rendered" {
        uniform token purpose = "render"
    }
    def Cube "proxy" {
        uniform token purpose = "proxy"
    }
    def Xform "guides" {
        uniform token purpose = "guide"
        def Cube "guide" {}
        def Cube "collider" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    }
    def Xform "hidden" {
        token visibility = "invisible"
        def Cube "hidden" {}
        def Cube "collider" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    }
    def Cube "inactive" (active = false) {}
}
over "over" {
    def Cube "cube" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
}
class "class" {
    def Cube "cube" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
}
"""
    )
    assert [(each.path, each.collides, each.seen) for each in records.geometries] == [
        ("/robot/plain", False, True),
        ("/robot/rendered", False, True),
        ("/robot/guides/collider", True, False),
        ("/robot/hidden/collider", True, False),
    ]


@each_case("prim", ['Xform "it"', '"it"', 'TetMesh "it"', 'NoSuchType "it"'])
def test_a_collider_of_a_type_that_nobody_knows_is_there(prim: str) -> None:
    geometry = only(records_of(f'def {prim} (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{\n}}'))
    assert geometry.type_name == prim.rpartition(" ")[0]
    assert (geometry.collides, geometry.seen, geometry.values) == (True, False, {})


def test_what_is_below_instances_is_read_where_it_is() -> None:
    records = records_of(
        """
class Xform "wheel" {
    def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {
        float physics:staticFriction = 1
    }
    def Mesh "tyre" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"]) {
        rel material:binding:physics = </wheel/rubber>
        TRIANGLE
    }
}
def PhysicsCollisionGroup "lefts" (prepend apiSchemas = ["CollectionAPI:colliders"]) {
    rel collection:colliders:includes = </left>
}
def Xform "left" (
    instanceable = true
    references = </wheel>
) {
    double3 xformOp:translate = (0, 1, 0)
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
def Xform "right" (
    instanceable = true
    references = </wheel>
) {}
""".replace("TRIANGLE", TRIANGLE)
    )
    left, right = records.geometries
    assert (left.path, left.material, left.group_paths) == ("/left/tyre", "/left/rubber", ("/lefts",))
    assert (right.path, right.material, right.group_paths) == ("/right/tyre", "/right/rubber", ())
    assert records.materials.keys() == {"/left/rubber", "/right/rubber"}
    assert left.world_from_prim[3::4] == (0.0, 1.0, 0.0, 1.0)
    assert left.points is right.points
    assert not left.points.flags.writeable


def test_a_point_instancer_is_named_and_its_prototypes_are_nowhere() -> None:
    records = records_of(
        """
def PointInstancer "rocks" {
    rel prototypes = </rocks/rock>
    def Cube "rock" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
}
def Cube "rocks_beside" {}
"""
    )
    assert only(records).path == "/rocks_beside"
    assert codes_of(records) == [("1.3.point_instancer", "warning", "/rocks")]


def test_a_place_that_cannot_be_told_is_nan() -> None:
    records = records_of(
        """
def Cube "cube" {
    float xformOp:translate = 3
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
"""
    )
    assert np.isnan(only(records).world_from_prim).all()


# --- Shapes -------------------------------------------------------------------------------------------------------


@each_case(
    ("text", "type_name", "values"),
    [
        ('def Cube "it" {\n}', "Cube", {"size": 2.0}),
        ('def Sphere "it" {\ndouble radius = 3\n}', "Sphere", {"radius": 3.0}),
        (
            'def Capsule "it" {\ndouble radius = -1\n}',
            "Capsule",
            {"radius": -1.0, "height": 1.0, "axis": "Z"},
        ),
        ('def Cylinder "it" {\n}', "Cylinder", {"radius": 1.0, "height": 2.0, "axis": "Z"}),
        ('def Cone "it" {\nuniform token axis = "X"\n}', "Cone", {"radius": 1.0, "height": 2.0, "axis": "X"}),
        ('def Plane "it" {\n}', "Plane", {"width": 2.0, "length": 2.0, "axis": "Z"}),
        ('def Cylinder_1 "it" {\n}', "Cylinder", {"radius": 1.0, "height": 2.0, "axis": "Z"}),
        (
            'def Capsule_1 "it" {\ndouble radiusTop = 0.25\n}',
            "Capsule_1",
            {"radius_top": 0.25, "radius_bottom": 0.5, "height": 1.0, "axis": "Z"},
        ),
        ('def Sphere "it" {\ndouble radius.timeSamples = {1: 4, 2: 5}\n}', "Sphere", {"radius": 4.0}),
    ],
)
def test_sizes(text: str, type_name: str, values: dict[str, Any]) -> None:
    geometry = only(records_of(text))
    assert (geometry.type_name, geometry.values) == (type_name, values)
    assert geometry.points is None


# --- Meshes -------------------------------------------------------------------------------------------------------


def mesh_of(text: str, *, severity: str = "") -> GeometryRecord:
    records = records_of(f'def Mesh "mesh" {{\n{text}\n}}')
    assert codes_of(records) == ([("1.3.mesh.data", severity, "/mesh")] if severity else [])
    geometry = only(records)
    assert geometry.points.dtype == np.float64
    assert geometry.triangles.dtype == np.int32
    assert geometry.triangles.shape[1:] == (3,)
    return geometry


def triangles_of(text: str, *, severity: str = "") -> list[list[int]]:
    triangles = mesh_of(text, severity=severity).triangles
    return triangles.tolist()  # type: ignore[no-any-return]


POINTS = "point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1)]\n"


def test_polygons_are_fanned() -> None:
    faces = (
        "int[] faceVertexCounts = [4, 3, 5]\nint[] faceVertexIndices = [0, 1, 2, 3, 0, 1, 4, 0, 1, 2, 3, 4]\n"
    )
    quad, pentagon = [[0, 1, 2], [0, 2, 3]], [[0, 1, 2], [0, 2, 3], [0, 3, 4]]
    assert triangles_of(POINTS + faces) == [*quad, [0, 1, 4], *pentagon]
    assert triangles_of(POINTS + faces + "int[] holeIndices = [0, 2, 77, -1]") == [[0, 1, 4]]
    left_handed = POINTS + faces + 'uniform token orientation = "leftHanded"\nint[] holeIndices = [0, 2]'
    assert triangles_of(left_handed) == [[0, 4, 1]]


def test_points_and_lines_are_no_triangles() -> None:
    assert (
        triangles_of(POINTS + "int[] faceVertexCounts = [1, 2, 0]\nint[] faceVertexIndices = [0, 1, 2]") == []
    )


@each_case(
    "faces",
    [
        "int[] faceVertexCounts = [3, 3]\nint[] faceVertexIndices = [0, 1, 5, 0, 1, 2]",
        "int[] faceVertexCounts = [3, 3]\nint[] faceVertexIndices = [0, -1, 2, 0, 1, 2]",
        "int[] faceVertexCounts = [3, 2147483647, 2147483647]\nint[] faceVertexIndices = [0, 1, 2, 0]",
        "int[] faceVertexCounts = [3, 4]\nint[] faceVertexIndices = [0, 1, 2, 0]",
    ],
)
def test_faces_that_name_points_that_are_not_there_are_left_out(faces: str) -> None:
    assert triangles_of(POINTS + faces, severity="warning") == [[0, 1, 2]]


@each_case(
    "wrong",
    [
        'string[] points = ["a"]',
        "float[] points = [0, 1, 2]",
        "rel points = </mesh>",
        f"{POINTS}float[] faceVertexCounts = [3]",
        f"{POINTS}int[] faceVertexCounts = [3]\ntoken[] faceVertexIndices = ['a', 'b', 'c']",
        f"{POINTS}int[] faceVertexCounts = [3]\nint[] faceVertexIndices = [0, 1, 2]\nint2[] holeIndices = [(0, 1)]",
    ],
)
def test_arrays_of_the_wrong_type_make_no_triangles(wrong: str) -> None:
    mesh = mesh_of(wrong, severity="error")
    assert len(mesh.triangles) == 0


@each_case("empty", ["", POINTS, "point3f[] points = None", "point3f[] points = []"])
def test_a_mesh_without_faces_or_points_is_empty(empty: str) -> None:
    assert triangles_of(empty) == []


@each_case("point", ["point3f", "float3", "double3", "point3h"])
@each_case("index", ["int", "uint", "int64"])
def test_numbers_of_any_width_will_do(point: str, index: str) -> None:
    mesh = mesh_of(TRIANGLE.replace("point3f", point).replace("int[] faceVertexI", f"{index}[] faceVertexI"))
    np.testing.assert_array_equal(mesh.points, [(0, 0, 0), (1, 0, 0), (0, 1, 0)])
    assert len(mesh.triangles) == 1  # type: ignore[arg-type]


def test_points_that_are_not_finite_are_kept_for_planning_to_judge() -> None:
    mesh = mesh_of(TRIANGLE.replace("(1, 0, 0)", "(nan, 0, inf)"))
    np.testing.assert_array_equal(mesh.points, [(0, 0, 0), (np.nan, 0, np.inf), (0, 1, 0)])


def test_the_earliest_of_moving_points_counts() -> None:
    moving = TRIANGLE.replace("points = [", "points.timeSamples = {3: [").replace(
        "(0, 1, 0)]", "(0, 1, 0)], 4: [(9, 9, 9)]}"
    )
    np.testing.assert_array_equal(mesh_of(moving).points, [(0, 0, 0), (1, 0, 0), (0, 1, 0)])


@each_case(
    ("schemas", "value", "expected"),
    [
        ('"PhysicsMeshCollisionAPI"', 'uniform token physics:approximation = "convexHull"', "convexHull"),
        ('"PhysicsMeshCollisionAPI"', 'uniform token physics:approximation = "sdf"', "sdf"),
        ('"PhysicsMeshCollisionAPI"', "", ""),
        ("", 'uniform token physics:approximation = "convexHull"', ""),
    ],
)
def test_approximation(schemas: str, value: str, expected: str) -> None:
    text = f'def Mesh "mesh" (prepend apiSchemas = ["PhysicsCollisionAPI", {schemas}]) {{\n{value}\n{TRIANGLE}\n}}'
    assert only(records_of(text.replace(", ]", "]"))).approximation == expected


@given(
    faces=st.lists(st.lists(st.integers(-1, 6), max_size=6), max_size=8),
    holes=st.lists(st.integers(-2, 10), max_size=3),
    cut=st.integers(0, 3),
    flip=st.booleans(),
)
def test_triangles_are_those_of_a_plain_loop(
    faces: list[list[int]], holes: list[int], cut: int, *, flip: bool
) -> None:
    points = 6
    indices = [index for face in faces for index in face]
    indices = indices[: max(len(indices) - cut, 0)]
    expected, left_out, start = [], 0, 0
    for number, face in enumerate(faces):
        corners = indices[start : start + len(face)]
        start += len(face)
        if number in holes:
            continue
        if len(corners) < len(face) or not all(0 <= corner < points for corner in corners):
            left_out += 1
            continue
        fan = [(corners[0], corners[k], corners[k + 1]) for k in range(1, len(corners) - 1)]
        expected += [(a, c, b) if flip else (a, b, c) for a, b, c in fan]
    triangles, found_left_out, solid = triangulated(
        np.array([len(face) for face in faces], dtype=np.int32),
        np.array(indices, dtype=np.int32),
        np.array(holes, dtype=np.int32),
        points,
        flip=flip,
    )
    assert [tuple(each) for each in triangles.tolist()] == expected
    assert found_left_out == left_out
    assert solid == len(faces) - len({hole for hole in holes if 0 <= hole < len(faces)})


# --- Looks and contact materials ----------------------------------------------------------------------------------


def look(
    inputs: str, *, identifier: str = "UsdPreviewSurface", output: str = "outputs:surface", more: str = ""
) -> str:
    return f"""
def Material "look" {{
    token {output}.connect = </look/surface.outputs:out>
    color3f inputs:tint = (0.1, 0.2, 0.3)
    def Shader "surface" {{
        uniform token info:id = "{identifier}"
        {inputs}
        token outputs:out
    }}
    {more}
}}
def Cube "cube" (prepend apiSchemas = ["MaterialBindingAPI"]) {{
    rel material:binding = </look>
    color3f[] primvars:displayColor = [(0, 0, 1)]
}}
"""


TEXTURE = """
    def Shader "texture" {
        uniform token info:id = "UsdUVTexture"
        asset inputs:file = @paint.png@
        float3 outputs:rgb
    }
"""


@each_case(
    ("text", "expected"),
    [
        (look("color3f inputs:diffuseColor = (1, 0, 0)"), (1, 0, 0, 1)),
        (look("color3f inputs:diffuseColor = (1, 0, 0)\nfloat inputs:opacity = 0.5"), (1, 0, 0, 0.5)),
        (look("color3f inputs:diffuseColor.connect = </look.inputs:tint>"), (0.1, 0.2, 0.3, 1)),
        (look(""), (0.18, 0.18, 0.18, 1)),
        (
            look("color3f inputs:diffuseColor.connect = </look/texture.outputs:rgb>", more=TEXTURE),
            (0, 0, 1, 1),
        ),
        (look('string inputs:diffuseColor = "red"'), (0, 0, 1, 1)),
        (
            look(
                "color3f inputs:diffuse_color_constant = (1, 1, 0)",
                identifier="x",
                output="outputs:mdl:surface",
            ),
            (1, 1, 0, 1),
        ),
        (
            look("color3f inputs:base_color = (1, 1, 0)", identifier="x", output="outputs:mtlx:surface"),
            (1, 1, 0, 1),
        ),
        (look("", identifier="x"), (0, 0, 1, 1)),
        (look("color3f inputs:diffuseColor.connect = </look/surface.inputs:diffuseColor>"), (0, 0, 1, 1)),
    ],
)
def test_colors_of_looks(text: str, expected: tuple[float, ...]) -> None:
    assert only(records_of(text)).color == pytest.approx(expected)


@each_case(
    ("primvars", "expected"),
    [
        ("", None),
        ("color3f[] primvars:displayColor = [(1, 0.5, 0)]", (1, 0.5, 0, 1)),
        (
            "color3f[] primvars:displayColor = [(1, 0.5, 0)]\nfloat[] primvars:displayOpacity = [0.25]",
            (1, 0.5, 0, 0.25),
        ),
        (
            'color3f[] primvars:displayColor = [(1, 0, 0), (0, 1, 0)] (interpolation = "vertex")',
            (0.5, 0.5, 0, 1),
        ),
        (
            "color3f[] primvars:displayColor = [(1, 0, 0)]\nint[] primvars:displayColor:indices = [0, 0]",
            (1, 0, 0, 1),
        ),
        ("color3f[] primvars:displayColor = []", None),
        ("color3f[] primvars:displayColor = [(1, 0, 0)]\nint[] primvars:displayColor:indices = [5]", None),
        ("color3f[] primvars:displayColor = [(1, 0, 0)]\nfloat[] primvars:displayColor:indices = [5]", None),
        ("float primvars:displayColor = 3", None),
        ('string[] primvars:displayColor = ["red"]', None),
        ("rel primvars:displayColor = </cube>", None),
    ],
)
def test_display_colors(primvars: str, expected: tuple[float, ...] | None) -> None:
    color = only(records_of(f'def Cube "cube" {{\n{primvars}\n}}')).color
    assert color is None if expected is None else color == pytest.approx(expected)


def test_a_display_color_is_inherited() -> None:
    text = 'def Xform "red" {\ncolor3f[] primvars:displayColor = [(1, 0, 0)]\ndef Cube "cube" {\n}\n}'
    assert only(records_of(text)).color == (1.0, 0.0, 0.0, 1.0)


SUBSETS = """
def Material "{0}" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {{
    token outputs:surface.connect = </{0}/surface.outputs:out>
    def Shader "surface" {{
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor = {1}
        token outputs:out
    }}
}}
"""


@each_case(("red", "green", "winner"), [([0], [1, 2], "green"), ([0, 1], [2], "red"), ([0], [], "mesh")])
def test_of_several_materials_that_with_the_most_faces_counts(
    red: list[int], green: list[int], winner: str
) -> None:
    subsets = "".join(
        f'def GeomSubset "{name}" (prepend apiSchemas = ["MaterialBindingAPI"]) {{\n'
        f'uniform token familyName = "materialBind"\nint[] indices = {indices}\nrel material:binding = </{name}>\n}}\n'
        for name, indices in (("red", red), ("green", green))
    )
    records = records_of(
        "".join(
            SUBSETS.format(*each)
            for each in (("red", "(1, 0, 0)"), ("green", "(0, 1, 0)"), ("mesh", "(0, 0, 1)"))
        )
        + 'def Mesh "it" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"]) {\n'
        + "rel material:binding = </mesh>\nint[] faceVertexCounts = [3, 3, 3]\n"
        + f"int[] faceVertexIndices = [0, 1, 2, 0, 1, 2, 0, 1, 2]\n{POINTS}{subsets}}}"
    )
    geometry = only(records)
    assert geometry.material == f"/{winner}"
    color = {"red": (1, 0, 0, 1), "green": (0, 1, 0, 1), "mesh": (0, 0, 1, 1)}[winner]
    assert geometry.color == color


def test_a_look_is_no_contact_material() -> None:
    records = records_of(
        """
def Material "look" {}
def Cube "cube" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"]) {
    rel material:binding = </look>
}
"""
    )
    assert only(records).material == ""


@each_case(
    "binding",
    ["rel material:binding = </cube>", "rel material:binding = </no/prim>", "rel material:binding = []"],
)
def test_a_binding_to_no_material_binds_nothing(binding: str) -> None:
    schemas = 'prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"]'
    geometry = only(records_of(f'def Cube "cube" ({schemas}) {{\n{binding}\n}}'))
    assert (geometry.material, geometry.color) == ("", None)


def test_a_binding_that_is_no_relationship_is_named_once() -> None:
    records = records_of(
        """
def Material "look" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {}
def Xform "robot" (prepend apiSchemas = ["MaterialBindingAPI"]) {
    string material:binding = "look"
    def Cube "one" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    def Cube "two" {}
}
def Cube "good" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"]) {
    rel material:binding = </look>
}
"""
    )
    assert codes_of(records) == [("1.3.material_binding", "error", "/robot")]
    assert [(each.path, each.material) for each in records.geometries] == [
        ("/robot/one", ""),
        ("/robot/two", ""),
        ("/good", "/look"),
    ]


# --- Groups -------------------------------------------------------------------------------------------------------

GROUPED = """
def Xform "robot" {
    def Cube "a" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    def Cube "b" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    def Cube "seen" {}
}
"""


def groups_of(text: str) -> tuple[dict[str, tuple[str, ...]], PhysicsRecords]:
    records = records_of(text + GROUPED)
    return {each.path: each.group_paths for each in records.geometries if each.group_paths}, records


def test_a_collider_may_be_in_several_groups() -> None:
    found, _ = groups_of(
        """
def PhysicsCollisionGroup "all" {
    rel collection:colliders:includes = </robot>
}
def PhysicsCollisionGroup "some" {
    rel collection:colliders:includes = [</robot>, </nothing>]
    rel collection:colliders:excludes = </robot/a>
}
def PhysicsCollisionGroup "by_expression" {
    uniform pathExpression collection:colliders:membershipExpression = "//b"
}
def PhysicsCollisionGroup "empty" {}
"""
    )
    assert found == {"/robot/a": ("/all",), "/robot/b": ("/all", "/some", "/by_expression")}


def test_a_group_whose_collection_cannot_be_used_is_named_and_empty() -> None:
    found, records = groups_of(
        """
def PhysicsCollisionGroup "broken" {
    string collection:colliders:includes = "robot"
}
def PhysicsCollisionGroup "good" {
    rel collection:colliders:includes = </robot/a>
}
"""
    )
    assert found == {"/robot/a": ("/good",)}
    assert codes_of(records) == [("1.3.collision_group", "error", "/broken")]


# --- Sensors and georeference -------------------------------------------------------------------------------------


def test_what_interfaces_and_their_cameras_author() -> None:
    records = records_of(
        """
def Camera "camera" {
    custom int2 usd_ros_bridge:camera:resolution = (640, 480)
    custom double usd_ros_bridge:camera:noise = 1
    def Xform "image" (prepend apiSchemas = ["RosTopicAPI"]) {
        custom double usd_ros_bridge:camera:noise = 2
        custom rel usd_ros_bridge:source = </camera>
        custom float usd_ros_bridge:nothing
        custom float other:thing = 3
    }
}
def Xform "scan" (prepend apiSchemas = ["RosTopicAPI"]) {
    custom string usd_ros_bridge:lidar:model = "x"
}
def Xform "quiet" (prepend apiSchemas = ["RosTopicAPI"]) {}
def Xform "no_interface" {
    custom string usd_ros_bridge:lidar:model = "x"
}
"""
    )
    assert {path: dict(each.values) for path, each in records.sensors.items()} == {
        "/camera/image": {
            "usd_ros_bridge:camera:resolution": (640, 480),
            "usd_ros_bridge:camera:noise": 2.0,
            "usd_ros_bridge:source": ("/camera",),
        },
        "/scan": {"usd_ros_bridge:lidar:model": "x"},
    }


ORIGIN = "custom double usd_ros_bridge:georeference:latitude = {}\n"


@each_case(("places", "expected"), [("abc", "/b"), ("ac", "/a"), ("c", "/a/scene"), ("", None)])
def test_the_origin_is_that_of_the_default_prim_else_of_a_root_else_of_a_scene(
    places: str, expected: str | None
) -> None:
    lines = {place: ORIGIN.format(number) if place in places else "" for number, place in enumerate("abc")}
    records = records_of(
        '(\n    defaultPrim = "b"\n)\n'
        f'def Xform "a" {{\n{lines["a"]}def PhysicsScene "scene" {{\n{lines["c"]}}}\n}}\n'
        f'def Xform "b" {{\n{lines["b"]}}}\n'
    )
    assert (records.origin.path if records.origin else None) == expected
    if records.origin:
        number = {"/a": 0.0, "/b": 1.0, "/a/scene": 2.0}[records.origin.path]
        assert records.origin.values == {"usd_ros_bridge:georeference:latitude": number}


# --- The stage ----------------------------------------------------------------------------------------------------


def test_the_stage_is_not_changed() -> None:
    stage = stage_of(GROUPED)
    before = stage.ExportToString(), stage.GetSessionLayer().ExportToString()
    physics_of(stage)
    assert (stage.ExportToString(), stage.GetSessionLayer().ExportToString()) == before


def test_a_stage_without_physics_has_no_records() -> None:
    records = records_of('def Xform "nothing" {\n}')
    for name in ("scenes", "masses", "materials", "geometries", "groups", "filtered_pairs", "diagnostics"):
        assert not getattr(records, name), name

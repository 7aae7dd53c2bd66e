"""Textures, texture coordinates and the looks of a mesh's parts, good and bad."""

from __future__ import annotations

import itertools
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pxr import Sdf, Usd, UsdUtils
from reading import physics_of, read_asset

from case_tables import each_case
from usd_ros_bridge.model.appearance import Look, Skin
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics_records import GeometryRecord, PhysicsRecords
from usd_ros_bridge.options import ReadOptions

PNG = bytes.fromhex("89504e470d0a1a0a") + bytes(16)

LOOK = """
def Material "paint" {{
    token outputs:surface.connect = </paint/surface.outputs:surface>
    def Shader "surface" {{
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor.connect = </paint/image.outputs:rgb>
        float inputs:opacity = 0.5
        token outputs:surface
    }}
    def Shader "image" {{
        uniform token info:id = "UsdUVTexture"
        asset inputs:file = {file}
        float2 inputs:st.connect = </paint/{source}.outputs:result>
        {inputs}
        float3 outputs:rgb
    }}
    def Shader "turn" {{
        uniform token info:id = "UsdTransform2d"
        float2 inputs:in.connect = </paint/reader.outputs:result>
        float inputs:rotation = 90
        float2 inputs:scale = (2, 3)
        float2 inputs:translation = (10, 20)
        float2 outputs:result
    }}
    def Shader "reader" {{
        uniform token info:id = "UsdPrimvarReader_float2"
        string inputs:varname = "{varname}"
        float2 outputs:result
    }}
}}
"""

QUAD = """
point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (2, 0, 0)]
int[] faceVertexCounts = [4, 3]
int[] faceVertexIndices = [0, 1, 2, 3, 1, 4, 2]
"""

ST = 'texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1), (2, 0)] (interpolation = "vertex")'


def look(file: str = "@paint.png@", *, source: str = "reader", inputs: str = "", varname: str = "st") -> str:
    return LOOK.format(file=file, source=source, inputs=inputs, varname=varname)


def mesh(*content: str, material: str = "rel material:binding = </paint>", name: str = "mesh") -> str:
    lines = "\n".join((QUAD, material, *content))
    return f'def Mesh "{name}" (prepend apiSchemas = ["MaterialBindingAPI"]) {{\n{lines}\n}}\n'


Load = Callable[..., PhysicsRecords]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Reads a stage beside the image paint.png, each time another one."""
    (tmp_path / "paint.png").write_bytes(PNG)
    numbers = itertools.count()

    def read(text: str, **options: object) -> PhysicsRecords:
        path = tmp_path / f"asset_{next(numbers)}.usda"
        path.write_text("#usda 1.0\n" + text, encoding="utf-8")
        stage, _ = read_asset(str(path), ReadOptions(**options))  # type: ignore[arg-type]
        return physics_of(stage)

    return read


def only(records: PhysicsRecords) -> GeometryRecord:
    (geometry,) = records.geometries
    return geometry


def skin_of(records: PhysicsRecords) -> Skin:
    skin = only(records).skin
    assert skin is not None
    return skin


def uv_at_corners(skin: Skin) -> list[list[list[float]]]:
    assert skin.uv is not None
    assert skin.uv_triangles is not None
    result: list[list[list[float]]] = skin.uv[skin.uv_triangles].tolist()
    return result


def told(records: PhysicsRecords) -> list[Diagnostic]:
    return [each for each in records.diagnostics if each.code == "1.3.texture"]


# --- Textures -----------------------------------------------------------------------------------------------------

CORNERS = [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]], [[1, 0], [2, 0], [1, 1]]]


def test_a_texture_comes_with_its_coordinates(load: Load, tmp_path: Path) -> None:
    skin = skin_of(load(look() + mesh(ST)))
    assert skin.looks == (Look((1.0, 1.0, 1.0, 0.5), str(tmp_path / "paint.png")),)
    assert skin.look_rows is None
    assert uv_at_corners(skin) == CORNERS


def test_the_colour_of_a_mesh_does_not_come_from_its_texture(load: Load) -> None:
    assert only(load(look() + mesh(ST))).color is None
    blue = "color3f[] primvars:displayColor = [(0, 0, 1)]"
    assert only(load(look() + mesh(ST, blue))).color == (0.0, 0.0, 1.0, 1.0)


@each_case(
    ("primvar", "expected"),
    [
        (
            (
                "texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1), (1, 0), (2, 0), (1, 1)] (interpolation = "
                '"faceVarying")'
            ),
            CORNERS,
        ),
        (
            (
                "texCoord2f[] primvars:st = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)] "
                '(interpolation = "faceVarying")\n'
                "int[] primvars:st:indices = [0, 1, 4, 3, 1, 2, 4]"
            ),
            CORNERS,
        ),
        (
            'texCoord2f[] primvars:st = [(1, 2), (3, 4)] (interpolation = "uniform")',
            [[[1, 2]] * 3, [[1, 2]] * 3, [[3, 4]] * 3],
        ),
        ("texCoord2f[] primvars:st = [(5, 6)]", [[[5, 6]] * 3] * 3),
        ('double2[] primvars:st = [(5, 6)] (interpolation = "constant")', [[[5, 6]] * 3] * 3),
    ],
)
def test_interpolations(load: Load, primvar: str, expected: list[list[list[float]]]) -> None:
    assert uv_at_corners(skin_of(load(look() + mesh(primvar)))) == expected


def test_left_handed_and_hole_faces_keep_their_coordinates(load: Load) -> None:
    geometry = only(
        load(look() + mesh(ST, 'uniform token orientation = "leftHanded"', "int[] holeIndices = [0]"))
    )
    assert geometry.skin is not None
    assert geometry.points is not None
    assert geometry.triangles is not None
    assert uv_at_corners(geometry.skin) == [[[1, 0], [1, 1], [2, 0]]]
    np.testing.assert_array_equal(geometry.points[geometry.triangles[0], :2], [[1, 0], [1, 1], [2, 0]])


def test_other_names_of_coordinates(load: Load) -> None:
    records = load(look(varname="UVMap") + mesh(ST.replace("primvars:st", "primvars:UVMap")))
    assert uv_at_corners(skin_of(records)) == CORNERS


def test_coordinates_are_scaled_turned_and_moved(load: Load) -> None:
    skin = skin_of(load(look(source="turn") + mesh("texCoord2f[] primvars:st = [(1, 1)]")))
    # (1, 1) * (2, 3) turned by 90 degrees counter-clockwise is (-3, 2).
    np.testing.assert_allclose(uv_at_corners(skin)[0][0], [7, 22], rtol=1e-6)


def test_the_scale_of_an_image_is_the_colour(load: Load) -> None:
    skin = skin_of(load(look(inputs="float4 inputs:scale = (0.5, 0.25, 2, 1)") + mesh(ST)))
    assert skin.looks[0].color == (0.5, 0.25, 1.0, 0.5)


def test_an_image_of_an_mdl_surface(load: Load, tmp_path: Path) -> None:
    text = """
def Material "paint" {
    token outputs:mdl:surface.connect = </paint/surface.outputs:out>
    def Shader "surface" {
        uniform token info:implementationSource = "sourceAsset"
        uniform asset info:mdl:sourceAsset = @OmniPBR.mdl@
        asset inputs:diffuse_texture = @paint.png@
        token outputs:out
    }
}
"""
    assert skin_of(load(text + mesh(ST))).looks[0].texture == str(tmp_path / "paint.png")


def test_an_image_in_a_ros_package(load: Load, tmp_path: Path) -> None:
    package = tmp_path / "shop"
    (package / "images").mkdir(parents=True)
    (package / "images/oak.png").write_bytes(PNG)
    records = load(look("@package://shop/images/oak.png@") + mesh(ST), packages={"shop": str(package)})
    found = Path(skin_of(records).looks[0].texture)
    assert found.samefile(package / "images/oak.png")


def test_an_image_in_a_package_of_openusd(load: Load, tmp_path: Path) -> None:
    load(look() + mesh(ST))
    packed = tmp_path / "asset.usdz"
    assert UsdUtils.CreateNewUsdzPackage(Sdf.AssetPath(str(tmp_path / "asset_0.usda")), str(packed))
    skin = physics_of(Usd.Stage.Open(str(packed))).geometries[0].skin
    assert skin is not None
    outer, _, inner = skin.looks[0].texture.rstrip("]").partition("[")
    with zipfile.ZipFile(outer) as archive:
        assert archive.read(inner) == PNG


# --- What cannot be used ------------------------------------------------------------------------------------------


@each_case(
    ("file", "said"),
    [
        ("@no.png@", "'no.png' is not found"),
        ("@tiles.<UDIM>.png@", "tiles (UDIM)"),
        ("@package://shop/../../etc/passwd@", "leaves its package"),
        ("@package://nobody/x.png@", "is not found"),
        ("@.@", "is not found"),
    ],
)
def test_images_that_cannot_be_used(load: Load, file: str, said: str) -> None:
    records = load(look(file) + mesh(ST))
    assert only(records).skin is None
    (diagnostic,) = told(records)
    assert (diagnostic.path, diagnostic.attribute) == ("/paint/image", "inputs:file")
    assert said in diagnostic.message


def test_a_missing_image_is_said_once_for_all_that_is_painted(load: Load) -> None:
    records = load(look("@no.png@") + mesh(ST, name="one") + mesh(ST, name="two"))
    assert len(told(records)) == 1


def test_without_its_image_a_surface_has_the_fallback_where_parts_differ(load: Load) -> None:
    subset = part("[1]", "red")
    text = look("@no.png@", inputs="float4 inputs:fallback = (0, 1, 0, 1)") + color("red", "(1, 0, 0)")
    skin = skin_of(load(text + mesh(ST, subset)))
    assert {each.color for each in skin.looks} == {(1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.5)}
    assert skin.uv is None


@each_case(
    ("primvar", "said"),
    [
        ("", "there are no texture coordinates 'st'"),
        ("texCoord2f[] primvars:st", "there are no texture coordinates 'st'"),
        ('texCoord2f[] primvars:st = [(0, 0)] (interpolation = "vertex")', "1 texture coordinates"),
        (
            (
                'texCoord2f[] primvars:st = [(0, 0), (1, 1)] (interpolation = "faceVarying")\n'
                "int[] primvars:st:indices = [0, 1]"
            ),
            "2 indices of texture coordinates",
        ),
        (
            "texCoord2f[] primvars:st = [(0, 0), (1, 1)]\nint[] primvars:st:indices = [7]",
            "2 texture coordinates",
        ),
        (
            "texCoord2f[] primvars:st = [(0, 0), (1, 1)]\nint[] primvars:st:indices = [-1]",
            "2 texture coordinates",
        ),
        ("texCoord2f[] primvars:st = [(nan, 0)]", "not finite"),
        ("float[] primvars:st = [1, 2]", "'float[]'"),
        ('string[] primvars:st = ["a"]', "'string[]'"),
        ("texCoord3f[] primvars:st = [(1, 2, 3)]", "'texCoord3f[]'"),
        ('texCoord2f[] primvars:st = [(5, 6)] (interpolation = "strange")', "interpolation"),
    ],
)
def test_coordinates_that_cannot_be_used(load: Load, primvar: str, said: str) -> None:
    records = load(look() + mesh(primvar))
    assert only(records).skin is None
    (diagnostic,) = told(records)
    assert (diagnostic.path, diagnostic.attribute) == ("/mesh", "primvars:st")
    assert said in diagnostic.message


def test_a_circle_of_nodes_ends(load: Load) -> None:
    text = look(source="turn").replace("</paint/reader.outputs:result>", "</paint/turn.outputs:result>")
    assert uv_at_corners(skin_of(load(text + mesh("texCoord2f[] primvars:st = [(0, 0)]"))))


def test_references_to_one_robot_share_their_materials(tmp_path: Path) -> None:
    (tmp_path / "paint.png").write_bytes(PNG)
    bound = "rel material:binding = </robot/paint>"
    inner = (look() + mesh(ST, material=bound)).replace("</paint/", "</robot/paint/")
    (tmp_path / "robot.usda").write_text(f'#usda 1.0\ndef Xform "robot" {{\n{inner}\n}}', encoding="utf-8")
    stage = Usd.Stage.Open(str(tmp_path / "robot.usda"))
    for name in ("a", "b"):
        stage.DefinePrim(f"/{name}").GetReferences().AddInternalReference("/robot")
    skins = [each.skin for each in physics_of(stage).geometries]
    assert len(skins) == 3
    assert len({id(each) for each in skins[1:]}) == 1


# --- Parts --------------------------------------------------------------------------------------------------------


def color(name: str, value: str) -> str:
    return f"""
def Material "{name}" {{
    token outputs:surface.connect = </{name}/surface.outputs:out>
    def Shader "surface" {{
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor = {value}
        token outputs:out
    }}
}}
"""


def part(faces: str, material: str, *, family: str = "materialBind") -> str:
    return f"""
def GeomSubset "{material}" (prepend apiSchemas = ["MaterialBindingAPI"]) {{
    uniform token elementType = "face"
    uniform token familyName = "{family}"
    int[] indices = {faces}
    rel material:binding = </{material}>
}}
"""


RED, GREEN = (1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0)
COLORS = color("red", "(1, 0, 0)") + color("green", "(0, 1, 0)")


def looks_of_triangles(skin: Skin) -> list[Look]:
    assert skin.look_rows is not None
    return [skin.looks[row] for row in skin.look_rows]


def test_parts_have_their_materials(load: Load) -> None:
    skin = skin_of(load(COLORS + mesh(part("[1]", "red"), material="rel material:binding = </green>")))
    assert [each.color for each in looks_of_triangles(skin)] == [GREEN, GREEN, RED]
    assert skin.uv is None


def test_what_is_in_no_part_has_the_display_colour(load: Load) -> None:
    shown = "color3f[] primvars:displayColor = [(0, 1, 0)]"
    skin = skin_of(load(COLORS + mesh(shown, part("[1]", "red"), material="")))
    assert [each.color for each in looks_of_triangles(skin)] == [GREEN, GREEN, RED]


def test_a_part_may_have_the_texture(load: Load) -> None:
    text = COLORS + look() + mesh(ST, part("[1]", "paint"), material="rel material:binding = </green>")
    skin = skin_of(load(text))
    assert [bool(each.texture) for each in looks_of_triangles(skin)] == [False, False, True]
    assert uv_at_corners(skin) == CORNERS


@each_case("faces", ["[0, 1]", "[]", "[7, -3]"])
def test_parts_that_leave_one_colour_are_no_skin(load: Load, faces: str) -> None:
    records = load(COLORS + mesh(part(faces, "red"), material="rel material:binding = </green>"))
    assert only(records).skin is None


def test_parts_of_other_families_are_not_bound(load: Load) -> None:
    text = mesh(part("[1]", "red", family="physics"), material="rel material:binding = </green>")
    assert only(load(COLORS + text)).skin is None


def test_colours_of_faces(load: Load) -> None:
    shown = 'color3f[] primvars:displayColor = [(1, 0, 0), (0, 1, 0)] (interpolation = "uniform")'
    geometry = only(load(mesh(shown, material="")))
    assert geometry.skin is not None
    assert [each.color for each in looks_of_triangles(geometry.skin)] == [RED, RED, GREEN]
    assert geometry.color == (0.5, 0.5, 0.0, 1.0)


@each_case(
    "shown",
    [
        'color3f[] primvars:displayColor = [(1, 0, 0)] (interpolation = "uniform")',
        'color3f[] primvars:displayColor = [(1, 0, 0), (1, 0, 0)] (interpolation = "uniform")',
        'color3f[] primvars:displayColor = [(nan, 0, 0), (1, 0, 0)] (interpolation = "uniform")',
        'string[] primvars:displayColor = ["a", "b"] (interpolation = "uniform")',
    ],
)
def test_colours_of_faces_that_are_one_or_none(load: Load, shown: str) -> None:
    assert only(load(mesh(shown, material=""))).skin is None


def test_what_is_not_seen_has_no_skin(load: Load) -> None:
    hidden = mesh(ST, 'uniform token purpose = "guide"').replace(
        '"MaterialBindingAPI"', '"MaterialBindingAPI", "PhysicsCollisionAPI"'
    )
    assert only(load(look() + hidden)).skin is None


def test_a_mesh_without_triangles_has_no_skin(load: Load) -> None:
    records = load(look() + mesh(ST, "int[] holeIndices = [0, 1]"))
    assert only(records).skin is None
    assert os.fspath(only(records).path) == "/mesh"


# --- Normals ------------------------------------------------------------------------------------------------------

BEND = (
    "normal3f[] normals = [(0, 0, 1), (0, 3, 4), (0, 0, 1), (0, 0, 1), (1, 0, 0)]",
    'uniform token subdivisionScheme = "none"',
)
"""Those of QUAD's points, not all at right angles to it, and not all of length 1."""


def normals_at_corners(skin: Skin) -> np.ndarray:
    assert skin.normals is not None
    assert skin.normal_triangles is not None
    return skin.normals[skin.normal_triangles]


def test_a_smooth_mesh_of_one_colour_has_a_skin(load: Load) -> None:
    skin = skin_of(load(COLORS + mesh(*BEND, material="rel material:binding = </red>")))
    assert skin.looks == (Look(RED),)
    assert skin.look_rows is None
    assert skin.uv is None
    found = normals_at_corners(skin)
    np.testing.assert_allclose(found[0], [[0, 0, 1], [0, 0.6, 0.8], [0, 0, 1]], rtol=1e-6)
    np.testing.assert_allclose(found[2], [[0, 0.6, 0.8], [1, 0, 0], [0, 0, 1]], rtol=1e-6)


def test_the_primvar_of_normals_counts_before_the_attribute(load: Load) -> None:
    corners = (
        'normal3f[] primvars:normals = [(0, 0, 1), (0, 1, 0)] (interpolation = "faceVarying")\n'
        "int[] primvars:normals:indices = [0, 0, 0, 0, 0, 0, 1]"
    )
    found = normals_at_corners(skin_of(load(mesh(*BEND, corners, material=""))))
    np.testing.assert_array_equal(found[:2], [[[0, 0, 1]] * 3] * 2)
    np.testing.assert_array_equal(found[2], [[0, 0, 1], [0, 0, 1], [0, 1, 0]])


@each_case(
    "content",
    [
        ("normal3f[] normals = [(0, 0, 1), (0, 0, 2), (0, 0, 1), (0, 0, 1), (0, 0, 1)]", BEND[1]),
        (BEND[0],),
        (BEND[0], 'uniform token subdivisionScheme = "catmullClark"'),
        ("normal3f[] normals = [(0, 0, 1), (0, 3, 4)]", BEND[1]),
        ("normal3f[] normals = [(0, 0, 1), (0, nan, 4), (0, 0, 1), (0, 0, 1), (1, 0, 0)]", BEND[1]),
        ('string[] primvars:normals = ["a"] (interpolation = "vertex")', BEND[1]),
        ("rel normals = </mesh>", BEND[1]),
        ('normal3f[] primvars:normals = [(0, 1, 0), (0, 1, 0)] (interpolation = "uniform")', BEND[1]),
        (
            (
                'normal3f[] primvars:normals = [(0, 1, 0)] (interpolation = "faceVarying")\n'
                "int[] primvars:normals:indices = [0, 0, 0, 0, 0, 0, 7]"
            ),
            BEND[1],
        ),
        ('normal3f[] primvars:normals = [(0, 1, 0)] (interpolation = "odd")', BEND[1]),
    ],
)
def test_normals_of_facets_and_those_that_cannot_be_used_are_none(
    load: Load, content: tuple[str, ...]
) -> None:
    assert only(load(COLORS + mesh(*content, material="rel material:binding = </red>"))).skin is None


@pytest.mark.filterwarnings("error")
def test_normals_of_points_without_a_place_are_none(load: Load) -> None:
    content = COLORS + mesh(*BEND, material="").replace("(1, 1, 0)", "(inf, 1, 0)")
    assert only(load(content)).skin is None

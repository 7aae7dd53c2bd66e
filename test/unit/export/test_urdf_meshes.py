"""Meshes from a stage to a URDF and its files: where they are, what they look like, and what is left out."""

from __future__ import annotations

import math
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade, Vt

from usd_ros_bridge import load_plan
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.urdf import Urdf, robot_urdf
from usd_ros_bridge.model.plan import BridgePlan

trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed: make setup-tests")

POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, 2, 0], [0, 2, 0], [0.25, 0.5, 3]], dtype=np.float32)
COUNTS = [4, 3, 3, 3, 3]
INDICES = [0, 3, 2, 1, 0, 1, 4, 1, 2, 4, 2, 3, 4, 3, 0, 4]


def new_stage(*, up: str = "Z", meters: float = 1.0) -> Usd.Stage:
    """A stage with the robot /robot, whose only link is /robot/link."""
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, meters)
    root = UsdGeom.Xform.Define(stage, "/robot").GetPrim()
    root.SetMetadata("apiSchemas", Sdf.TokenListOp.CreateExplicit(["RosContextAPI"]))
    stage.SetDefaultPrim(root)
    link = UsdGeom.Xform.Define(stage, "/robot/link")
    UsdPhysics.RigidBodyAPI.Apply(link.GetPrim())
    link.AddTranslateOp().Set(Gf.Vec3d(1.0, 2.0, 3.0))
    link.AddRotateXYZOp().Set(Gf.Vec3f(10.0, 20.0, 30.0))
    anchor = UsdPhysics.FixedJoint.Define(stage, "/robot/anchor")
    anchor.CreateBody1Rel().SetTargets(["/robot/link"])
    return stage


def add_mesh(stage: Usd.Stage, name: str = "mesh", points: Any = POINTS) -> UsdGeom.Mesh:
    mesh = UsdGeom.Mesh.Define(stage, f"/robot/link/{name}")
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(points, dtype=np.float32)))
    mesh.CreateFaceVertexCountsAttr(COUNTS)
    mesh.CreateFaceVertexIndicesAttr(INDICES)
    return mesh


def describe(stage: Usd.Stage, directory: Path, **options: Any) -> tuple[BridgePlan, Urdf]:
    plan = load_plan(stage, physics=True)
    return plan, robot_urdf(plan, 0, meshes=MeshCache(directory, **options))


def meshes_of(urdf: Urdf, kind: str = "visual") -> list[tuple[ET.Element, Path]]:
    found = []
    for shape in ET.fromstring(urdf.text).iter(kind):
        mesh = shape.find("geometry/mesh")
        if mesh is not None:
            assert "scale" not in mesh.attrib
            found.append((shape, Path(unquote(urlparse(mesh.attrib["filename"]).path))))
    return found


def link_from_shape(shape: ET.Element) -> np.ndarray:
    """The matrix of `<origin>`: rpy are turns about fixed axes, X first."""
    origin = shape.find("origin")
    matrix = np.eye(4)
    if origin is None:
        return matrix
    matrix[:3, 3] = [float(value) for value in origin.attrib["xyz"].split()]
    for angle, (i, j) in zip(map(float, origin.attrib["rpy"].split()), ((1, 2), (2, 0), (0, 1)), strict=True):
        turn = np.eye(4)
        turn[i, i] = turn[j, j] = math.cos(angle)
        turn[i, j], turn[j, i] = -math.sin(angle), math.sin(angle)
        matrix[:3, :3] = turn[:3, :3] @ matrix[:3, :3]
    return matrix


def corners_of_obj(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Points and normals at the corners of an OBJ's triangles; trimesh makes normals of its own."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    points, normals = (
        np.array([line[1:] for line in lines if line[0] == tag], dtype=float) for tag in ("v", "vn")
    )
    faces = [[corner.split("/") for corner in line[1:]] for line in lines if line[0] == "f"]
    rows = np.array([[(int(corner[0]), int(corner[2])) for corner in face] for face in faces]) - 1
    return points[rows[..., 0]], normals[rows[..., 1]]


def corners_in_link(shape: ET.Element, file: Path) -> np.ndarray:
    loaded = trimesh.load_mesh(file, process=False)
    matrix = link_from_shape(shape)
    result: np.ndarray = loaded.vertices[loaded.faces] @ matrix[:3, :3].T + matrix[:3, 3]
    return result


def authored_in_link(stage: Usd.Stage, mesh: UsdGeom.Mesh) -> np.ndarray:
    """Corners of triangles by OpenUSD's own transforms: links have no scale, so that theirs is a rigid motion."""
    cache = UsdGeom.XformCache()
    relative = (
        cache.GetLocalToWorldTransform(mesh.GetPrim())
        * cache.GetLocalToWorldTransform(stage.GetPrimAtPath("/robot/link")).GetInverse()
    )
    matrix = np.array(relative)
    points = np.array(mesh.GetPointsAttr().Get()) @ matrix[:3, :3] + matrix[3, :3]
    corners, start = [], 0
    for count in COUNTS:
        face = INDICES[start : start + count]
        corners += [[face[0], face[k], face[k + 1]] for k in range(1, count - 1)]
        start += count
    result: np.ndarray = points[np.array(corners)] * UsdGeom.GetStageMetersPerUnit(stage)
    return result


def volume(corners: np.ndarray) -> float:
    return float(np.linalg.det(corners).sum() / 6.0)


# --- Where they are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [(1, 1, 1), (2, 3, 0.5), (-1, 1, 1), (1, 2, -3), (-1, -1, -1)])
@pytest.mark.parametrize(("up", "meters"), [("Z", 1.0), ("Y", 0.01)])
def test_a_mesh_is_where_openusd_has_it(
    tmp_path: Path, scale: tuple[float, float, float], up: str, meters: float
) -> None:
    stage = new_stage(up=up, meters=meters)
    mesh = add_mesh(stage)
    mesh.AddTranslateOp().Set(Gf.Vec3d(0.1, -0.2, 0.3))
    mesh.AddRotateXYZOp().Set(Gf.Vec3f(-40.0, 50.0, 160.0))
    mesh.AddScaleOp().Set(Gf.Vec3f(*scale))
    UsdPhysics.CollisionAPI.Apply(mesh.GetPrim())
    _, urdf = describe(stage, tmp_path)
    for kind in ("visual", "collision"):
        ((shape, file),) = meshes_of(urdf, kind)
        found, authored = corners_in_link(shape, file), authored_in_link(stage, mesh)
        assert_allclose(
            np.sort(found.reshape(-1, 9).round(5), axis=None),
            np.sort(authored.reshape(-1, 9).round(5), axis=None),
            atol=2e-5 * meters + 1e-6,
        )
        for triangle, expected in zip(found, authored, strict=True):
            distances = np.linalg.norm(triangle[:, None] - expected[None], axis=2)
            assert distances.min(axis=0).max() < 1e-5 * max(1.0, abs(max(scale)))
        assert volume(found) > 0.0  # outside is outside, mirrored or not
        assert volume(found) == pytest.approx(abs(volume(authored)), rel=1e-5)


def test_a_sheared_mesh_keeps_its_shape(tmp_path: Path) -> None:
    stage = new_stage()
    mesh = add_mesh(stage)
    mesh.AddTransformOp().Set(Gf.Matrix4d(1, 0.5, 0, 0, 0, 1, 0, 0, 0.25, 0, 2, 0, 1, 2, 3, 1))
    _, urdf = describe(stage, tmp_path)
    ((shape, file),) = meshes_of(urdf)
    assert_allclose(corners_in_link(shape, file), authored_in_link(stage, mesh), atol=1e-5)


@pytest.mark.parametrize("scale", [(1, 1, 1), (1, 4, 0.5), (-1, 1, 1), (-1, 2, -3), (-2, -1, -1)])
def test_normals_stay_at_right_angles_to_a_ball(tmp_path: Path, scale: tuple[float, float, float]) -> None:
    ball = trimesh.creation.icosphere(subdivisions=3)
    stage = new_stage()
    mesh = UsdGeom.Mesh.Define(stage, "/robot/link/ball")
    points = Vt.Vec3fArray.FromNumpy(ball.vertices.astype(np.float32))
    mesh.CreatePointsAttr(points)
    mesh.CreateNormalsAttr(points)
    mesh.CreateSubdivisionSchemeAttr("none")
    mesh.CreateFaceVertexCountsAttr(Vt.IntArray(len(ball.faces), 3))
    mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(ball.faces.astype(np.int32).ravel()))
    mesh.AddRotateXYZOp().Set(Gf.Vec3f(-40.0, 50.0, 160.0))
    mesh.AddScaleOp().Set(Gf.Vec3f(*scale))
    _, urdf = describe(stage, tmp_path)
    ((_, file),) = meshes_of(urdf)
    points, normals = corners_of_obj(file)
    assert volume(points) > 0.0
    # Of an ellipsoid by its equation x^T A x = 1: the gradient at each point, outwards.
    points, normals = points.reshape(-1, 3), normals.reshape(-1, 3)
    x, y, z = points.T
    terms = np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z], axis=1)
    a, b, c, d, e, f = np.linalg.lstsq(terms, np.ones(len(terms)), rcond=None)[0]
    expected = points @ np.array([[a, d, e], [d, b, f], [e, f, c]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert_allclose(normals, expected, atol=3e-4)


# --- What they look like ------------------------------------------------------------------------------------------


def add_look(
    stage: Usd.Stage, name: str, color: tuple[float, float, float], image: str = ""
) -> UsdShade.Material:
    material = UsdShade.Material.Define(stage, f"/robot/{name}")
    surface = UsdShade.Shader.Define(stage, f"/robot/{name}/surface")
    surface.CreateIdAttr("UsdPreviewSurface")
    colored = surface.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f)
    colored.Set(Gf.Vec3f(*color))
    if image:
        texture = UsdShade.Shader.Define(stage, f"/robot/{name}/image")
        texture.CreateIdAttr("UsdUVTexture")
        texture.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(image)
        colored.ConnectToSource(texture.CreateOutput("rgb", Sdf.ValueTypeNames.Float3))
    material.CreateSurfaceOutput().ConnectToSource(surface.CreateOutput("surface", Sdf.ValueTypeNames.Token))
    return material


def add_uv(mesh: UsdGeom.Mesh) -> None:
    primvar = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar(
        "st", Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.vertex
    )
    primvar.Set(Vt.Vec2fArray.FromNumpy(np.ascontiguousarray(POINTS[:, :2])))


def write_image(directory: Path) -> str:
    from PIL import Image

    file = directory / "checker.png"
    Image.new("RGB", (2, 2), (0, 0, 255)).save(file)
    return str(file)


def test_a_textured_mesh_names_no_colour_in_the_urdf(tmp_path: Path) -> None:
    stage = new_stage()
    mesh = add_mesh(stage)
    add_uv(mesh)
    UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(
        add_look(stage, "paint", (1, 0, 0), write_image(tmp_path))
    )
    plan, urdf = describe(stage, tmp_path / "files")
    assert not [each for each in (*plan.diagnostics, *urdf.diagnostics) if "texture" in each.code]
    ((shape, file),) = meshes_of(urdf)
    assert shape.find("material") is None
    loaded = trimesh.load_mesh(file, process=False)
    assert loaded.visual.material.image.getpixel((0, 0)) == (0, 0, 255)
    # Vertices are their own texture coordinates here.
    assert_allclose(loaded.visual.uv, loaded.vertices[:, :2], atol=1e-6)


def test_a_mirrored_mesh_keeps_its_texture_in_place(tmp_path: Path) -> None:
    stage = new_stage()
    mesh = add_mesh(stage)
    add_uv(mesh)
    mesh.AddScaleOp().Set(Gf.Vec3f(-1, 1, 1))
    UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(
        add_look(stage, "paint", (1, 0, 0), write_image(tmp_path))
    )
    _, urdf = describe(stage, tmp_path / "files")
    ((shape, file),) = meshes_of(urdf)
    loaded = trimesh.load_mesh(file, process=False)
    matrix = link_from_shape(shape)
    in_link = loaded.vertices @ matrix[:3, :3].T + matrix[:3, 3]
    assert_allclose(loaded.visual.uv, in_link[:, :2] * [-1, 1], atol=1e-6)


def test_parts_bring_their_colours_and_one_colour_stands_in_the_urdf(tmp_path: Path) -> None:
    stage = new_stage()
    red, green = add_look(stage, "red", (1, 0, 0)), add_look(stage, "green", (0, 1, 0))
    both, one = add_mesh(stage, "both"), add_mesh(stage, "one", POINTS * 2)
    for mesh in (both, one):
        UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(red)
    subset = UsdShade.MaterialBindingAPI(both).CreateMaterialBindSubset("part", [1, 2])
    UsdShade.MaterialBindingAPI.Apply(subset.GetPrim()).Bind(green)
    _, urdf = describe(stage, tmp_path)
    found = {shape.attrib["name"]: (shape, file) for shape, file in meshes_of(urdf)}
    assert found["both"][0].find("material") is None
    assert found["one"][0].find("material") is not None
    assert found["one"][1].suffix == ".stl"
    scene = trimesh.load(found["both"][1], process=False, group_material=True, split_object=False)
    colors = {
        tuple(each.visual.material.main_color.tolist()): len(each.faces) for each in scene.geometry.values()
    }
    assert colors == {(255, 0, 0, 255): 4, (0, 255, 0, 255): 2}


def test_equal_meshes_of_links_are_one_file(tmp_path: Path) -> None:
    stage = new_stage()
    for name in ("left", "right"):
        add_mesh(stage, name).AddTranslateOp().Set(Gf.Vec3d(0, 1 if name == "left" else -1, 0))
    _, urdf = describe(stage, tmp_path)
    assert len(meshes_of(urdf)) == 2
    assert len(list(tmp_path.iterdir())) == 1


# --- What is left out ---------------------------------------------------------------------------------------------


def test_meshes_that_cannot_be_used_are_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    stage = new_stage()
    add_mesh(stage, "good")
    add_mesh(stage, "flat", POINTS * [1, 0, 0])
    add_mesh(stage, "nan", np.where(POINTS == 3.0, np.nan, POINTS))
    add_mesh(stage, "empty").GetFaceVertexIndicesAttr().Clear()
    add_mesh(stage, "astray").GetFaceVertexIndicesAttr().Set([each + 1 for each in INDICES])
    missing = UsdGeom.Mesh.Define(stage, "/robot/link/missing")
    missing.GetPrim().GetReferences().AddReference("./no/such.usd", "/mesh")
    plan, urdf = describe(stage, tmp_path)
    said: dict[str, set[str]] = {}
    for each in plan.diagnostics:
        said.setdefault(each.path.rpartition("/")[2], set()).add(each.code)
    assert "good" not in said
    assert said["flat"] == said["nan"] == {"1.3.mesh"}
    assert "1.3.mesh" in said["empty"]
    assert said["astray"] == {"1.3.mesh.data"}
    assert "1.2.5.asset" in said["missing"]
    assert {shape.attrib["name"] for shape, _ in meshes_of(urdf)} == {"good", "astray"}


def test_a_huge_mesh_is_left_out_of_the_urdf_alone(tmp_path: Path) -> None:
    stage = new_stage()
    add_mesh(stage, "huge")
    UsdGeom.Cube.Define(stage, "/robot/link/cube")
    _, urdf = describe(stage, tmp_path, max_triangles=5)
    assert [(each.code, each.path) for each in urdf.diagnostics] == [("3.8.mesh", "/robot/link/huge")]
    assert [shape.attrib["name"] for shape in ET.fromstring(urdf.text).iter("visual")] == ["cube"]


def test_a_directory_that_cannot_be_written_to_is_one_message(tmp_path: Path) -> None:
    stage = new_stage()
    for number in range(3):
        add_mesh(stage, f"mesh_{number}", POINTS + number)
    UsdGeom.Cube.Define(stage, "/robot/link/cube")
    (tmp_path / "file").touch()
    _, urdf = describe(stage, tmp_path / "file" / "meshes")
    assert [each.code for each in urdf.diagnostics] == ["3.8.mesh_directory"]
    assert [shape.attrib["name"] for shape in ET.fromstring(urdf.text).iter("visual")] == ["cube"]


NUMBERS = st.one_of(
    st.floats(-10, 10, width=32), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 3e38, 1e-30])
)
ROWS = st.integers(-2, 7)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    points=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=6),
    counts=st.lists(st.integers(-1, 5), max_size=5),
    indices=st.lists(ROWS, max_size=14),
    uv=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8),
    uv_indices=st.none() | st.lists(ROWS, max_size=14),
    interpolation=st.sampled_from(["vertex", "faceVarying", "uniform", "constant", "odd"]),
    part=st.lists(ROWS, max_size=4),
    scale=st.tuples(*[st.sampled_from([1.0, -1.0, 0.0, 1e-6, 1e6])] * 3),
)
def test_any_arrays_end_in_a_file_or_a_diagnostic(
    points: list[tuple[float, ...]],
    counts: list[int],
    indices: list[int],
    uv: list[tuple[float, ...]],
    uv_indices: list[int] | None,
    interpolation: str,
    part: list[int],
    scale: tuple[float, float, float],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = new_stage()
        mesh = UsdGeom.Mesh.Define(stage, "/robot/link/mesh")
        mesh.CreatePointsAttr([Gf.Vec3f(*each) for each in points])
        mesh.CreateFaceVertexCountsAttr(counts)
        mesh.CreateFaceVertexIndicesAttr(indices)
        mesh.AddScaleOp().Set(Gf.Vec3f(*scale))
        binding = UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim())
        binding.Bind(add_look(stage, "paint", (1, 0, 0), write_image(Path(folder))))
        primvar = mesh.GetPrim().CreateAttribute("primvars:st", Sdf.ValueTypeNames.TexCoord2fArray)
        primvar.Set([Gf.Vec2f(*each) for each in uv])
        primvar.SetMetadata("interpolation", interpolation)
        if uv_indices is not None:
            UsdGeom.PrimvarsAPI(mesh).GetPrimvar("st").SetIndices(Vt.IntArray(uv_indices))
        subset = binding.CreateMaterialBindSubset("part", part)
        UsdShade.MaterialBindingAPI.Apply(subset.GetPrim()).Bind(add_look(stage, "green", (0, 1, 0)))
        plan, urdf = describe(stage, Path(folder, "files"))
        files = [file for _, file in meshes_of(urdf)]
        if not files:
            assert {"1.3.mesh", "1.3.mesh.data", "1.3.visual", "3.8.mesh"} & {
                each.code
                for each in (*plan.diagnostics, *urdf.diagnostics)
                if each.path == "/robot/link/mesh"
            }
        for file in files:
            assert len(trimesh.load(file, process=False, force="mesh").faces)

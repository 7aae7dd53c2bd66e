"""URDF: a robot of 60 links with meshes, from the stage to the document, mesh files written and found."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Options, Result, Target, median_result
from benchmarks.processes import peer

LINKS = 60
RINGS = 50
"""Of a mesh, as many as it has sectors: 5,000 triangles."""
FIRST = Target(1.5)
AGAIN = Target(0.2)
IMAGE_BYTES = 200_000
_TIMEOUT = 300.0

HEADER = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
    timeCodesPerSecond = 24
)
def Xform "robot" (prepend apiSchemas = ["RosContextAPI", "PhysicsArticulationRootAPI"])
{
"""


def run(options: Options) -> Iterator[Result]:
    """Yields the seconds to the XML, with files to write and with files found, without images and with them."""
    links = options.scaled(LINKS, LINKS // 10)
    with tempfile.TemporaryDirectory() as folder:
        for kind, textured in (("plain", False), ("textured", True)):
            asset = write_robot(Path(folder, kind), links, textured=textured)
            yield from _results(asset, links, kind, options)


def _results(asset: Path, links: int, kind: str, options: Options) -> Iterator[Result]:
    files = links if kind == "plain" else 2 * links
    with peer("urdf", str(asset), str(files), str(options.repeats)) as process:
        figures = process.wait_for("measured", _TIMEOUT)["seconds"]
    triangles = 2 * RINGS * RINGS
    what = "STL" if kind == "plain" else "STL, and smooth OBJ with MTL and an image of its own"
    for figure, values in figures.items():
        words = "mesh files written" if figure.startswith("first") else "mesh files there already"
        start = "the path of the file" if figure.endswith("file") else "an open stage"
        target = FIRST if figure.startswith("first") else AGAIN
        yield median_result(
            f"urdf.{links}.{kind}.{figure}",
            values,
            "s",
            target=target if kind == "plain" else None,
            compared_with=f"{links} links, each with a mesh of {triangles} triangles to see and collide, {what}: "
            f"from {start}, in a tuned process; {words}",
        )


# --- The robot ----------------------------------------------------------------------------------------------------


def write_robot(folder: Path, links: int, *, textured: bool) -> Path:
    """Writes a chain of links with a mesh each, as a converter does: text for the structure, crate for the geometry.

    Args:
        folder: Where; made.
        links: How many.
        textured: Whether each mesh has normals, texture coordinates and an image of its own.
    """
    from pxr import Sdf, Usd, UsdGeom, Vt

    folder.mkdir(parents=True)
    library = Usd.Stage.CreateNew(str(folder / "geometry.usdc"))
    points, faces, uv = _ball()
    for number in range(links):
        mesh = UsdGeom.Mesh.Define(library, f"/mesh_{number}")
        mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(_dented(points, number)))
        mesh.CreateFaceVertexCountsAttr(
            Vt.IntArray.FromNumpy(np.full(len(faces), faces.shape[1], dtype=np.int32))
        )
        mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(faces.ravel()))
        if textured:
            primvar = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar(
                "st", Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.vertex
            )
            primvar.Set(Vt.Vec2fArray.FromNumpy(uv))
            mesh.CreateNormalsAttr(Vt.Vec3fArray.FromNumpy(points))
            mesh.CreateSubdivisionSchemeAttr("none")
    library.GetRootLayer().Save()
    looks = "".join(_look(folder, number) for number in range(links)) if textured else ""
    body = "".join(_link(number, textured=textured) for number in range(links))
    path = folder / "robot.usda"
    path.write_text(f"{HEADER}{looks}{body}}}\n", encoding="utf-8")
    return path


def _link(number: int, *, textured: bool) -> str:
    bound = f"rel material:binding = </robot/look_{number}>" if textured else ""
    parent = f"rel physics:body0 = </robot/link_{number - 1}>" if number else ""
    offset = "point3f physics:localPos0 = (0, 0, 0.1)" if number else ""
    kind = "PhysicsRevoluteJoint" if number else "PhysicsFixedJoint"
    return f"""
    def Xform "link_{number}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {{
        float physics:mass = 1
        point3f physics:centerOfMass = (0, 0, 0)
        float3 physics:diagonalInertia = (0.01, 0.01, 0.01)
        quatf physics:principalAxes = (1, 0, 0, 0)
        double3 xformOp:translate = (0, 0, {0.1 * number})
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Mesh "mesh" (
            prepend apiSchemas = ["MaterialBindingAPI", "PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]
            prepend references = @geometry.usdc@</mesh_{number}>
        )
        {{
            uniform token physics:approximation = "convexHull"
            {bound}
        }}
    }}
    def {kind} "joint_{number}"
    {{
        {parent}
        rel physics:body1 = </robot/link_{number}>
        {offset}
    }}
"""


def _look(folder: Path, number: int) -> str:
    content = np.random.default_rng(number).bytes(IMAGE_BYTES)
    Path(folder, f"image_{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    path = f"/robot/look_{number}"
    return f"""
    def Material "look_{number}"
    {{
        token outputs:surface.connect = <{path}/surface.outputs:surface>
        def Shader "surface"
        {{
            uniform token info:id = "UsdPreviewSurface"
            color3f inputs:diffuseColor.connect = <{path}/image.outputs:rgb>
            token outputs:surface
        }}
        def Shader "image"
        {{
            uniform token info:id = "UsdUVTexture"
            asset inputs:file = @image_{number}.png@
            float3 outputs:rgb
        }}
    }}
"""


def _ball() -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
    """Returns points, triangles and texture coordinates of a ball: a grid with a seam."""
    across, around = np.meshgrid(
        np.linspace(0.05, np.pi - 0.05, RINGS + 1), np.linspace(0.0, 2 * np.pi, RINGS + 1)
    )
    x, y, z = np.sin(across) * np.cos(around), np.sin(across) * np.sin(around), np.cos(across)
    points = 0.05 * np.stack((x, y, z), axis=-1).reshape(-1, 3)
    here = np.arange((RINGS + 1) ** 2).reshape(RINGS + 1, RINGS + 1)
    a, b, c, d = here[:-1, :-1], here[1:, :-1], here[1:, 1:], here[:-1, 1:]
    triangles = np.concatenate([np.stack(t, axis=-1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))])
    uv = np.stack((around / (2 * np.pi), 1.0 - across / np.pi), axis=-1).reshape(-1, 2)
    return points.astype(np.float32), triangles.astype(np.int32), uv.astype(np.float32)


def _dented(points: NDArray[np.float32], number: int) -> NDArray[np.float32]:
    noise = np.random.default_rng(number).uniform(0.95, 1.05, size=(len(points), 1))
    return (points * noise).astype(np.float32)

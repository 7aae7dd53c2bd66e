"""Mesh files: read back by another library, written once, shared by processes, and what cannot be written."""

from __future__ import annotations

import itertools
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlparse

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.export.mesh_files import (
    MAX_IMAGE_BYTES,
    MeshCache,
    MeshFile,
    default_directory,
    stl_bytes,
)
from usd_ros_bridge.model.appearance import Look, Skin, srgb
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics import Mesh

trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed: make setup-tests")

GREY = (0.5, 0.5, 0.5, 1.0)
POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.1, 0.2, 3.25]], dtype=np.float64)
TRIANGLES = np.array([[0, 1, 2], [0, 2, 3], [0, 1, 4]], dtype=np.int32)
RED, GREEN = Look((1.0, 0.0, 0.0, 1.0)), Look((0.0, 0.5, 0.0, 0.25))


def mesh_of(
    skin: Skin | None = None, *, points: np.ndarray = POINTS, triangles: np.ndarray = TRIANGLES
) -> Mesh:
    return Mesh(points, triangles, skin=skin)


def placed(cache: MeshCache, mesh: Mesh, color: tuple[float, float, float, float] | None = GREY) -> MeshFile:
    found = cache.write(mesh, path="/robot/mesh", color=color)
    assert isinstance(found, MeshFile), found
    return found


def refused(cache: MeshCache, mesh: Mesh) -> Diagnostic:
    found = cache.write(mesh, path="/robot/mesh", color=GREY)
    assert isinstance(found, Diagnostic), found
    return found


def path_of(file: MeshFile) -> Path:
    parts = urlparse(file.uri)
    assert parts.scheme == "file"
    return Path(os.fsdecode(unquote_to_bytes(parts.path)))


def corners_of(file: MeshFile) -> np.ndarray:
    loaded = trimesh.load_mesh(path_of(file), process=False)
    result: np.ndarray = loaded.vertices[loaded.faces]
    return result


def image(directory: Path, name: str = "paint.png") -> Path:
    from PIL import Image

    directory.mkdir(exist_ok=True)
    file = directory / name
    Image.new("RGB", (2, 2), (255, 0, 0)).save(file)
    return file


def textured(file: Path | str, *, extra: tuple[Look, ...] = ()) -> Skin:
    uv = np.array([[0, 0], [1, 0], [1, 1], [0.25, 0.75]], dtype=np.float32)
    corners = np.array([[0, 1, 2], [0, 2, 3], [3, 1, 0]], dtype=np.int32)
    rows = np.array([0, 0, 1], dtype=np.int32) if extra else None
    return Skin((Look((1.0, 1.0, 1.0, 1.0), os.fspath(file)), *extra), rows, uv, corners)


# --- What is in the files -----------------------------------------------------------------------------------------


def test_a_mesh_of_one_colour_is_binary_stl(tmp_path: Path) -> None:
    file = placed(MeshCache(tmp_path / "files"), mesh_of())
    assert path_of(file).suffix == ".stl"
    assert (file.has_colors, file.diagnostics) == (False, ())
    assert_allclose(corners_of(file), POINTS[TRIANGLES], rtol=1e-7)
    content = path_of(file).read_bytes()
    assert not content.startswith(b"solid")
    assert len(content) == 84 + 50 * len(TRIANGLES)


def test_normals_of_stl_point_outside(tmp_path: Path) -> None:
    loaded = trimesh.load_mesh(path_of(placed(MeshCache(tmp_path), mesh_of())), process=False)
    assert_allclose(loaded.face_normals[0], [0, 0, 1])
    stored = np.frombuffer(stl_bytes(mesh_of())[84:], dtype="<f4,<f4,<f4,V38")
    assert [stored[0][i] for i in range(3)] == [0.0, 0.0, 1.0]


@given(
    st.lists(
        st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 9),
        min_size=1,
        max_size=20,
    )
)
def test_stl_holds_any_triangles(rows: list[tuple[float, ...]]) -> None:
    points = np.array(rows, dtype=np.float64).reshape(-1, 3)
    mesh = Mesh(points, np.arange(len(points), dtype=np.int32).reshape(-1, 3))
    loaded = trimesh.load_mesh(trimesh.util.wrap_as_stream(stl_bytes(mesh)), file_type="stl", process=False)
    assert_array_equal(loaded.vertices[loaded.faces].reshape(-1, 3), points.astype(np.float32))


def test_looks_of_parts_are_obj_with_mtl(tmp_path: Path) -> None:
    skin = Skin((RED, GREEN), np.array([1, 0, 1], dtype=np.int32))
    file = placed(MeshCache(tmp_path), mesh_of(skin))
    assert path_of(file).suffix == ".obj"
    assert file.has_colors
    scene = trimesh.load(path_of(file), process=False, group_material=True, split_object=False)
    parts = scene.geometry.values() if hasattr(scene, "geometry") else [scene]
    found = {tuple(part.visual.material.main_color.tolist()): len(part.faces) for part in parts}
    green = [round(255 * value) for value in srgb(GREEN.color)[:3]]
    assert found == {(255, 0, 0, 255): 1, (*green, 255): 2}
    # What reads it here leaves opacity out.
    assert re.findall(
        r"^d (.+)$", path_of(file).with_suffix(".mtl").read_text(encoding="utf-8"), re.MULTILINE
    ) == [
        "1",
        "0.25",
    ]
    assert_allclose(sorted(p.area for p in parts), sorted(expected_areas([[1], [0, 2]])), rtol=1e-6)


def expected_areas(groups: list[list[int]]) -> list[float]:
    a, b, c = POINTS[TRIANGLES].transpose(1, 0, 2)
    areas = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    return [float(areas[group].sum()) for group in groups]


def test_a_texture_is_copied_beside_the_mesh(tmp_path: Path) -> None:
    source = image(tmp_path / "asset")
    skin = textured(source)
    file = placed(MeshCache(tmp_path / "files"), mesh_of(skin))
    assert file.has_colors
    loaded = trimesh.load_mesh(path_of(file), process=False)
    assert skin.uv is not None
    assert skin.uv_triangles is not None
    assert_allclose(loaded.visual.uv[loaded.faces], skin.uv[skin.uv_triangles], rtol=1e-6)
    assert_allclose(loaded.vertices[loaded.faces], POINTS[TRIANGLES], rtol=1e-6)
    assert loaded.visual.material.image.getpixel((0, 0)) == (255, 0, 0)
    (copy,) = (tmp_path / "files").glob("*.png")
    assert copy.read_bytes() == source.read_bytes()


def smooth(*looks: Look, uv: Skin | None = None) -> Skin:
    normals = np.array([[0, 0, 1], [0, 0.6, -0.8], [1, 0, 0], [0, 0, 1]], dtype=np.float32)
    rows = np.array([[0, 1, 2], [3, 2, 1], [0, 0, 3]], dtype=np.int32)
    of_uv = (None, None) if uv is None else (uv.uv, uv.uv_triangles)
    looks_of_rows = np.array([0, 1, 0], dtype=np.int32) if len(looks) > 1 else None
    return Skin(looks, looks_of_rows, *of_uv, normals, rows)


def corners_of_obj(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Points and normals at the corners of an OBJ's triangles; trimesh makes normals of its own."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    points, normals = (
        np.array([line[1:] for line in lines if line[0] == tag], dtype=float) for tag in ("v", "vn")
    )
    faces = [[corner.split("/") for corner in line[1:]] for line in lines if line[0] == "f"]
    rows = np.array([[(int(corner[0]), int(corner[2])) for corner in face] for face in faces]) - 1
    return points[rows[..., 0]], normals[rows[..., 1]]


@pytest.mark.parametrize("textures", [False, True])
def test_normals_are_in_the_file(tmp_path: Path, *, textures: bool) -> None:
    painted = textured(image(tmp_path / "asset"))
    skin = smooth(*painted.looks, uv=painted) if textures else smooth(RED)
    file = placed(MeshCache(tmp_path / "files"), mesh_of(skin))
    assert file.has_colors
    points, normals = corners_of_obj(path_of(file))
    assert skin.normals is not None
    assert skin.normal_triangles is not None
    assert_allclose(normals, skin.normals[skin.normal_triangles], atol=1e-4)
    assert_allclose(points, POINTS[TRIANGLES], rtol=1e-6)
    assert len(trimesh.load_mesh(path_of(file), process=False).faces) == len(TRIANGLES)
    # Equal ones are written once.
    assert path_of(file).read_text(encoding="utf-8").count("vn ") == 3


def test_a_smooth_mesh_that_only_collides_is_stl(tmp_path: Path) -> None:
    assert path_of(placed(MeshCache(tmp_path), mesh_of(smooth(RED)), None)).suffix == ".stl"


def test_a_smooth_mesh_stays_smooth_without_its_image(tmp_path: Path) -> None:
    painted = textured("/no/such.png")
    file = placed(MeshCache(tmp_path), mesh_of(smooth(*painted.looks, uv=painted)))
    assert len(file.diagnostics) == 1
    text = path_of(file).read_text(encoding="utf-8")
    assert ("vn " in text, "vt " in text) == (True, False)


def test_an_image_is_taken_out_of_a_package_of_openusd(tmp_path: Path) -> None:
    source = image(tmp_path / "asset")
    with zipfile.ZipFile(tmp_path / "robot.usdz", "w") as archive:
        archive.write(source, "0/paint.png")
    file = placed(MeshCache(tmp_path / "files"), mesh_of(textured(f"{tmp_path}/robot.usdz[0/paint.png]")))
    assert file.diagnostics == ()
    (copy,) = (tmp_path / "files").glob("*.png")
    assert copy.read_bytes() == source.read_bytes()


def test_what_collides_has_no_looks(tmp_path: Path) -> None:
    cache = MeshCache(tmp_path)
    seen, collides = (
        placed(cache, mesh_of(Skin((RED, GREEN), np.array([0, 1, 0])))),
        placed(cache, mesh_of(), None),
    )
    assert (path_of(seen).suffix, path_of(collides).suffix) == (".obj", ".stl")
    assert not collides.has_colors


# --- Once ---------------------------------------------------------------------------------------------------------


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    return {each.name: (each.stat().st_ino, each.stat().st_mtime_ns) for each in directory.iterdir()}


def test_a_mesh_is_written_once(tmp_path: Path) -> None:
    skin = textured(image(tmp_path / "asset"), extra=(GREEN,))
    files = tmp_path / "files"
    first = [placed(MeshCache(files), mesh) for mesh in (mesh_of(), mesh_of(skin))]
    before = snapshot(files)
    assert sorted(Path(name).suffix for name in before) == [".mtl", ".obj", ".png", ".stl"]
    again = [placed(MeshCache(files), mesh) for mesh in (mesh_of(), mesh_of(skin))]
    assert again == first
    assert snapshot(files) == before


def test_equal_meshes_are_one_file_and_others_are_not(tmp_path: Path) -> None:
    cache = MeshCache(tmp_path)
    moved = POINTS + 1e-3
    turned = TRIANGLES[:, [1, 2, 0]]
    uris = {
        placed(cache, mesh).uri
        for mesh in (
            mesh_of(),
            mesh_of(points=POINTS.copy()),
            mesh_of(points=moved),
            mesh_of(triangles=turned),
            mesh_of(Skin((RED, GREEN), np.array([0, 1, 0]))),
            mesh_of(Skin((RED, GREEN), np.array([0, 1, 1]))),
            mesh_of(Skin((RED, Look((0.0, 0.6, 0.0, 0.25))), np.array([0, 1, 0]))),
        )
    }
    assert len(uris) == 6


def test_an_image_that_changed_is_another_file(tmp_path: Path) -> None:
    from PIL import Image

    source = image(tmp_path / "asset")
    before = placed(MeshCache(tmp_path / "files"), mesh_of(textured(source)))
    Image.new("RGB", (2, 2), (0, 255, 0)).save(source)
    after = placed(MeshCache(tmp_path / "files"), mesh_of(textured(source)))
    assert before.uri != after.uri
    loaded = trimesh.load_mesh(path_of(after), process=False)
    assert loaded.visual.material.image.getpixel((0, 0)) == (0, 255, 0)


def test_files_that_are_cut_or_gone_are_written_again(tmp_path: Path) -> None:
    files = tmp_path / "files"
    meshes = (mesh_of(), mesh_of(textured(image(tmp_path / "asset"))))
    for mesh in meshes:
        placed(MeshCache(files), mesh)
    for suffix, cut in itertools.product((".stl", ".obj", ".mtl", ".png"), (True, False)):
        (victim,) = files.glob(f"*{suffix}")
        content = victim.read_bytes()
        victim.write_bytes(b"") if cut else victim.unlink()
        for mesh in meshes:
            placed(MeshCache(files), mesh)
        assert victim.read_bytes() == content, (suffix, cut)


def test_others_may_read_the_files(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        file = placed(MeshCache(tmp_path / "files"), mesh_of())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path_of(file).stat().st_mode) == 0o644


PLACE_ALL = """
import sys
import numpy as np
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.mesh_files import MeshFile
from usd_ros_bridge.model.appearance import Look, Skin
from usd_ros_bridge.model.physics import Mesh

directory, texture = sys.argv[1:]
triangles = np.array([[0, 1, 2]], dtype=np.int32)
uv = np.eye(3, 2, dtype=np.float32)
skin = Skin((Look((1.0, 1.0, 1.0, 1.0), texture),), None, uv, triangles)
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    for each in (None, skin):
        mesh = Mesh(np.eye(3) + number, triangles, skin=each)
        found = MeshCache(directory).write(mesh, path="/m", color=(1.0, 1.0, 1.0, 1.0))
        assert isinstance(found, MeshFile) and not found.diagnostics, found
"""


@pytest.mark.process
def test_processes_share_a_directory(tmp_path: Path) -> None:
    files = tmp_path / "files"
    command = [sys.executable, "-c", PLACE_ALL, str(files), str(image(tmp_path / "asset"))]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            worker.communicate(timeout=60)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [worker.returncode for worker in workers] == [0, 0]
    assert not list(files.glob(".*"))
    assert len(list(files.iterdir())) == 40 + 2 * 40 + 1
    for each in (*files.glob("*.stl"), *files.glob("*.obj")):
        assert len(trimesh.load_mesh(each, process=False).faces) == 1


# --- Where --------------------------------------------------------------------------------------------------------


def test_the_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert default_directory() == Path("/var/cache/me/usd_ros_bridge/meshes")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory() == Path("/home/me/.cache/usd_ros_bridge/meshes")
    assert MeshCache().directory == default_directory()


def test_no_home_is_the_callers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(OptionError, match="give a directory"):
        MeshCache()


def test_a_relative_directory_is_absolute_in_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = placed(MeshCache("some files/../meshes"), mesh_of())
    assert path_of(file).parent == tmp_path / "meshes"


def test_uris_are_escaped(tmp_path: Path) -> None:
    file = placed(MeshCache(tmp_path / os.fsdecode("a b#c%é".encode())), mesh_of())
    assert file.uri.isascii()
    assert " " not in file.uri
    assert path_of(file).is_file()


@pytest.mark.parametrize("linked", [False, True], ids=["installed", "linked"])
def test_the_share_of_a_package_is_a_package_uri(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, linked: bool
) -> None:
    prefix = tmp_path / "install"
    index = prefix / "share/ament_index/resource_index/packages"
    index.mkdir(parents=True)
    (index / "robot_description").touch()
    target = prefix / "share/robot_description/meshes"
    if linked:
        (prefix / "share/robot_description").mkdir()
        (tmp_path / "source").mkdir()
        target.symlink_to(tmp_path / "source", target_is_directory=True)
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join(["/nowhere", str(prefix)]))
    file = placed(MeshCache(target), mesh_of())
    assert file.uri.startswith("package://robot_description/meshes/")
    assert (target / file.uri.rpartition("/")[2]).is_file()
    other = placed(MeshCache(prefix / "share/unknown/meshes"), mesh_of())
    assert other.uri.startswith("file://")


# --- What cannot be written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("skin", [None, Skin((RED, GREEN), np.array([0]))], ids=["stl", "obj"])
def test_meshes_that_are_no_mesh(tmp_path: Path, skin: Skin | None) -> None:
    files = tmp_path / "files"
    for points, triangles, said in (
        (POINTS, [], "no triangles"),
        (POINTS, [[0, 1, 5]], "points that are not there"),
        (POINTS, [[0, 1, -1]], "points that are not there"),
        (np.zeros((0, 3)), [[0, 0, 0]], "points that are not there"),
        (np.full((3, 3), np.nan), [[0, 1, 2]], "not finite"),
        (np.full((3, 3), np.inf), [[0, 1, 2]], "not finite"),
        (POINTS, [[0, 1, 1], [2, 2, 2]], "no area"),
    ):
        mesh = mesh_of(skin, points=points, triangles=np.array(triangles, dtype=np.int32).reshape(-1, 3))
        diagnostic = refused(MeshCache(files), mesh)
        assert (diagnostic.code, diagnostic.severity, diagnostic.path) == (
            "3.8.mesh",
            "warning",
            "/robot/mesh",
        )
        assert said in diagnostic.message, triangles
        assert not files.exists()


def test_a_huge_mesh_is_left_out_and_says_how_large(tmp_path: Path) -> None:
    cache = MeshCache(tmp_path, max_triangles=2)
    assert "3 triangles are more than 2" in refused(cache, mesh_of()).message
    assert placed(cache, mesh_of(triangles=TRIANGLES[:2]))


def test_a_directory_that_cannot_be_made_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = MeshCache(tmp_path / "file" / "meshes")
    first, second = refused(cache, mesh_of()), refused(cache, mesh_of(points=POINTS + 1.0))
    assert first == second
    assert (first.code, first.severity, first.path) == ("3.8.mesh_directory", "error", "")
    assert str(tmp_path / "file" / "meshes") in first.message
    assert "Not a directory" in first.message


def test_what_is_in_a_directory_that_cannot_be_written_to_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = placed(MeshCache(tmp_path), mesh_of())

    def read_only(self: Path, data: bytes) -> int:
        raise OSError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "write_bytes", read_only)
    cache = MeshCache(tmp_path)
    assert "Read-only file system" in refused(cache, mesh_of(points=POINTS + 1.0)).message
    assert placed(cache, mesh_of()) == there
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_fills_up_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:50])
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert "No space left" in refused(MeshCache(tmp_path), mesh_of()).message
    assert list(tmp_path.iterdir()) == []


def test_images_that_cannot_be_copied(tmp_path: Path) -> None:
    for name, content, said in (
        ("gone.png", None, "No such file"),
        ("secret", b"root:x:0:0", "without an extension"),
        ("secret.png", b"root:x:0:0", "no png image"),
        ("empty.jpg", b"", "no jpg image"),
        ("empty.tga", b"", "no tga image"),
        ("light.exr", b"v/1\x01", "images .exr are not shown"),
        ("robot.usdz[0/paint.png]", None, "No such file"),
    ):
        check_refused_image(tmp_path, name, content, said)


def check_refused_image(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    source = tmp_path / name
    if content is not None:
        source.write_bytes(content)
    files = tmp_path / "files"
    file = placed(MeshCache(files), mesh_of(textured(source)))
    (diagnostic,) = file.diagnostics
    assert (diagnostic.code, diagnostic.severity, diagnostic.path) == (
        "3.8.texture",
        "warning",
        "/robot/mesh",
    )
    assert said in diagnostic.message
    assert not file.has_colors
    assert [each.suffix for each in files.iterdir()] == [".stl"]


def test_an_image_that_is_not_in_its_package(tmp_path: Path) -> None:
    for name, content in (("robot.usdz", None), ("broken.usdz", b"no archive")):
        if content is None:
            with zipfile.ZipFile(tmp_path / name, "w") as archive:
                archive.writestr("0/other.png", b"")
        else:
            (tmp_path / name).write_bytes(content)
        file = placed(MeshCache(tmp_path / "files"), mesh_of(textured(f"{tmp_path}/{name}[0/paint.png]")))
        assert len(file.diagnostics) == 1


def test_an_image_that_is_too_large(tmp_path: Path) -> None:
    source = tmp_path / "large.png"
    with source.open("wb") as stream:
        stream.truncate(MAX_IMAGE_BYTES + 1)
    (diagnostic,) = placed(MeshCache(tmp_path / "files"), mesh_of(textured(source))).diagnostics
    assert "64 MiB" in diagnostic.message


def test_other_parts_keep_their_colours_where_an_image_is_gone(tmp_path: Path) -> None:
    file = placed(MeshCache(tmp_path / "files"), mesh_of(textured("/no/such.png", extra=(GREEN,))))
    assert file.has_colors
    assert len(file.diagnostics) == 1
    mtl = path_of(file).with_suffix(".mtl").read_text(encoding="utf-8")
    assert "map_Kd" not in mtl
    assert mtl.count("newmtl") == 2

"""What a robot names outside its folder and packages is neither copied nor converted, unless an option allows it."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from live_bridge import CONSOLE_SCRIPT

from usd_ros_bridge import load_plan

pytestmark = pytest.mark.skipif(
    not os.environ.get("USD_ROS_CONVERTER"), reason="USD_ROS_CONVERTER: `make test-robots` sets it"
)

SECRET = "a line that nobody else may read"
TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
OBJ = "mtllib {}\nusemtl skin\n" + TETRAHEDRON
DAE = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><up_axis>Z_UP</up_axis></asset>
<library_images><image id="image"><init_from>{}</init_from></image></library_images>
<library_effects><effect id="effect"><profile_COMMON>
<newparam sid="surface"><surface type="2D"><init_from>image</init_from></surface></newparam>
<newparam sid="sampler"><sampler2D><source>surface</source></sampler2D></newparam>
<technique sid="t"><lambert><diffuse><texture texture="sampler" texcoord="UV"/></diffuse></lambert></technique>
</profile_COMMON></effect></library_effects>
<library_materials><material id="skin" name="skin"><instance_effect url="#effect"/></material></library_materials>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0
</float_array><technique_common><accessor source="#a" count="3" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices><triangles count="1" material="s">
<input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles></mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="scene"><node id="n"><instance_geometry url="#g"><bind_material>
<technique_common><instance_material symbol="s" target="#skin"/></technique_common></bind_material></instance_geometry>
</node></visual_scene></library_visual_scenes><scene><instance_visual_scene url="#scene"/></scene></COLLADA>"""
BOX = '<visual><geometry><box size="1 1 1"/></geometry></visual>'
MESH = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
SKIN = (
    '<visual><geometry><mesh filename="part.obj"/></geometry>'
    '<material name="{0}"><texture filename="{0}"/></material></visual>'
)
BODY = '<worldbody><body name="b"><joint/><geom size="1"/>{}</body></worldbody>'
PAINT = '<texture name="{0}" type="2d" file="{0}"/><material name="{0}" texture="{0}"/>'


def picture() -> bytes:
    """Return a PNG of one pixel with the secret as its comment."""
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0),
        b"tEXt": b"Comment\0" + SECRET.encode(),
        b"IDAT": zlib.compress(bytes(4)),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a picture, a text, a mesh and its library, and a robot's folder beside it with a mesh."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "skin.png").write_bytes(picture())
    (folder / "text").write_text(SECRET, encoding="utf-8")
    (folder / "part.obj").write_text(TETRAHEDRON, encoding="utf-8")
    (folder / "part.mtl").write_text(f"newmtl skin\n# {SECRET}\nmap_Kd {folder}/skin.png\n", encoding="utf-8")
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm/part.obj").write_text(TETRAHEDRON, encoding="utf-8")
    return folder


def robot(outside: Path, content: str, files: dict[str, str]) -> Path:
    """Write a robot file and others beside it: "link:" in place of a text is a link to a file outside."""
    arm = outside.with_name("arm")
    for name, text in files.items():
        if text.startswith("link:"):
            (arm / name).symlink_to(outside / text.removeprefix("link:"))
        else:
            (arm / name).write_text(text.format(outside=outside), encoding="utf-8")
    is_urdf = content.startswith("<visual")
    file = arm / ("robot.urdf" if is_urdf else "robot.xml")
    text = (
        f'<robot name="arm"><link name="base">{BOX}{content}</link></robot>'
        if is_urdf
        else f'<mujoco model="arm">{content}</mujoco>'
    )
    file.write_text(text.format(outside=outside), encoding="utf-8")
    return file


def imported(file: Path, *arguments: str | Path) -> tuple[Path, list[str]]:
    """Import a robot. Return the directory and the lines on standard error."""
    made = file.parents[1] / "made"
    done = subprocess.run(
        [CONSOLE_SCRIPT, "import", file, "-o", made, "--force", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    said = done.stderr.splitlines()
    return made, [each for each in said if not each.startswith("usd_ros_bridge: replaced ")]


def secrets(directory: Path) -> list[Path]:
    """Return the files in a directory that have the secret."""
    return [path for path in directory.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


MTL = "newmtl skin\nKd 0.5 0.5 0.5\n{} {}\n"
URDF_TEXTURES = (
    "{outside}/text",
    "file://{outside}/skin.png",
    "../outside/skin.png",
    "package://outside/skin.png",
)
MJCF_TEXTURES = ("{outside}/text", "../outside/skin.png", "link.png")


@dataclass(frozen=True)
class Case:
    """A robot with textures outside.

    Attributes:
        content: Of the robot file.
        files: Beside it.
        said: Beginnings of the warnings.
        copies: Files that are copied if they may be.
    """

    content: str
    said: Sequence[str]
    copies: int
    files: dict[str, str] = field(default_factory=dict)


TEXTURES = {
    "urdf": Case(
        "".join(SKIN.format(each) for each in (*URDF_TEXTURES, "link.png")),
        [f"robot.urdf:1: texture '{each}'" for each in (*URDF_TEXTURES, "link.png")],
        4,
        {"link.png": "link:skin.png"},
    ),
    "mtl": Case(
        "".join(MESH.format(f"{each}.obj") for each in "abcde"),
        [
            "a.mtl: texture '{outside}/text'",
            "b.mtl: texture '../outside/skin.png'",
            "c.mtl: texture '{outside}/skin.png'",
            "d.mtl: texture 'link.png'",
            "e.obj: material library '../outside/part.mtl'",
        ],
        4,
        {
            **{f"{each}.obj": OBJ.format(f"no.mtl {each}.mtl") for each in "abcd"},
            "a.mtl": MTL.format("map_Kd", "{outside}/text"),
            "b.mtl": MTL.format("map_Kd -o 1 1 1 -clamp on", "../outside/skin.png"),
            "c.mtl": MTL.format("map_bump -bm 2", "{outside}/skin.png"),
            "d.mtl": MTL.format("map_Ks", "link.png"),
            "link.png": "link:skin.png",
            "e.obj": OBJ.format("../outside/part.mtl"),
        },
    ),
    "dae": Case(
        MESH.format("a.dae"),
        ["a.dae: image '../outside/skin.png'"],
        1,
        {"a.dae": DAE.format("../outside/skin.png")},
    ),
    "mjcf": Case(
        f'<asset><mesh name="part" file="part.obj"/>{"".join(PAINT.format(each) for each in MJCF_TEXTURES)}</asset>'
        + BODY.format(
            "".join(f'<geom type="mesh" mesh="part" material="{each}"/>' for each in MJCF_TEXTURES)
        ),
        [f"robot.xml: texture '{each}'" for each in MJCF_TEXTURES],
        3,
        {"link.png": "link:skin.png"},
    ),
}


@pytest.mark.parametrize("kind", TEXTURES)
def test_textures_outside_are_left_out_and_an_option_allows_them(kind: str, outside: Path) -> None:
    case = TEXTURES[kind]
    file = robot(outside, case.content, case.files)
    made, lines = imported(file)
    assert secrets(made) == []
    expected = sorted(each.format(outside=outside) for each in case.said)
    for line, said in zip(sorted(lines), expected, strict=True):
        assert line.startswith(f"warning [import.outside] {said} is outside the robot's")
        assert line.endswith(f"(if it belongs to the robot: --allow-folder {outside})")
    assert load_plan(made / "robot.usda").robots

    made, lines = imported(file, "--allow-folder", outside)
    assert lines == []
    copies = [path.read_bytes() for path in secrets(made)]
    assert len(copies) == case.copies
    assert set(copies) <= {picture(), SECRET.encode()}


@pytest.mark.parametrize(
    ("content", "lost"),
    [
        ("".join(MESH.format(each) for each in ("{outside}/part.obj", "../outside/part.obj", "link.obj")), 3),
        (
            '<compiler meshdir="../outside"/><asset><mesh name="lost0" file="{outside}/part.obj"/>'
            '<mesh name="lost1" file="part.obj"/><mesh name="lost2" file="../arm/link.obj"/>'
            '<mesh name="kept" file="../arm/part.obj"/><hfield name="h" file="skin.png" size="1 1 1 1"/></asset>'
            + BODY.format(
                "".join(f'<geom name="lost{each}" type="mesh" mesh="lost{each}"/>' for each in range(3))
                + '<geom name="lost" type="hfield" hfield="h"/><geom name="kept" type="mesh" mesh="kept"/>'
            ),
            4,
        ),
    ],
)
def test_meshes_outside_are_left_out(content: str, lost: int, outside: Path) -> None:
    made, lines = imported(robot(outside, content, {"link.obj": "link:part.obj"}))
    assert len(lines) == lost
    assert all(line.endswith(f"(if it belongs to the robot: --allow-folder {outside})") for line in lines)
    physics = load_plan(made / "robot.usda", physics=True).physics
    assert physics is not None
    names = [each.path.rpartition("/")[2] for each in (*physics.visuals, *physics.colliders)]
    assert not [each for each in names if "lost" in each or "part" in each or "link" in each], names
    assert len(names) == (2 if "kept" in content else 1), names


def test_what_never_ends_is_left_out(outside: Path) -> None:
    arm = outside.with_name("arm")
    os.mkfifo(arm / "pipe")
    files = {
        "a.obj": OBJ.format("pipe"),
        "b.obj": OBJ.format("b.mtl"),
        "b.mtl": MTL.format("map_Kd", "pipe"),
        "c.obj": OBJ.format("c.mtl"),
        "c.mtl": MTL.format("map_Kd", "/dev/zero"),
        "d.dae": DAE.format("pipe"),
    }
    content = "".join(MESH.format(each) for each in ("a.obj", "b.obj", "c.obj", "d.dae"))
    _, lines = imported(robot(outside, content + SKIN.format("/dev/zero") + SKIN.format("pipe"), files))
    ends = " is missing: | is no regular file, and left out"
    assert sorted(re.split(ends, line)[0] for line in lines) == [
        "warning [import.mesh] robot.urdf:1: '/dev/zero'",
        "warning [import.mesh] robot.urdf:1: 'pipe'",
        "warning [import.outside] a.obj: material library 'pipe'",
        "warning [import.outside] b.mtl: texture 'pipe'",
        "warning [import.outside] c.mtl: texture '/dev/zero'",
        "warning [import.outside] d.dae: image 'pipe'",
    ]


@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
def test_files_of_the_robot_are_copied_byte_for_byte(kind: str, outside: Path) -> None:
    """Also those of parts in other folders."""
    content = (
        SKIN.format("maps/own.png") + MESH.format("a.obj")
        if kind == "urdf"
        else f'<asset><mesh name="part" file="part.obj"/>{PAINT.format("maps/own.png")}'
        '<model name="m" file="maps/model.xml"/></asset><include file="maps/part.xml"/>'
        + BODY.format(
            '<geom type="mesh" mesh="part" material="maps/own.png"/><geom type="mesh" mesh="inner"/>'
            '<attach model="m" body="tip" prefix="m_"/>'
        )
    )
    maps = outside.with_name("arm") / "maps"
    maps.mkdir()
    file = robot(
        outside,
        content,
        {
            "a.obj": OBJ.format("a.mtl"),
            "a.mtl": MTL.format("map_Kd", "maps/other picture.png"),
            "maps/inner.obj": TETRAHEDRON,
            "maps/part.xml": '<mujoco><asset><mesh file="inner.obj"/></asset></mujoco>',
            "maps/model.xml": '<mujoco><worldbody><body name="tip"><geom size="1"/></body></worldbody></mujoco>',
        },
    )
    (maps / "own.png").write_bytes(picture())
    (maps / "other picture.png").write_bytes(picture() + b"other")
    made, lines = imported(file)
    assert lines == []
    expected = [picture(), picture() + b"other"] if kind == "urdf" else [picture()]
    assert sorted(each.read_bytes() for each in secrets(made)) == expected
    physics = load_plan(made / "robot.usda", physics=True).physics
    assert physics is not None
    assert len(physics.visuals if kind == "urdf" else physics.colliders) == (3 if kind == "urdf" else 4)

"""`usd_ros_bridge import` reads files of the robot's folder and packages only. test/robots checks what is converted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from case_tables import each_case
from cli_calls import call_cli

pytestmark = pytest.mark.app

MESH = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
TEXTURE = '<visual><material name="m"><texture filename="{}"/></material></visual>'
CONTROL = '<gazebo><plugin filename="gz_ros2_control-system"><parameters>{}</parameters></plugin></gazebo>'
MANIFEST = "<package><name>{}</name></package>"
NEXT = "is not installed"
"""In the last line of an import without converters: the robot file had no error."""


@pytest.fixture(autouse=True)
def no_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    for name in ("USD_ROS_CONVERTER", "AMENT_PREFIX_PATH", "ROS_PACKAGE_PATH", "USD_ROS_PACKAGE_PATH"):
        monkeypatch.delenv(name, raising=False)


def write(file: Path, text: str = "text of another user") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def urdf(file: Path, *elements: str) -> Path:
    of_link = "\n".join(each for each in elements if not each.startswith("<gazebo"))
    rest = "".join(each for each in elements if each.startswith("<gazebo"))
    return write(file, f'<robot name="arm">\n<link name="base">\n{of_link}\n</link>{rest}</robot>')


def mjcf(file: Path, content: str) -> Path:
    return write(file, f'<mujoco model="arm">\n{content}\n</mujoco>')


def lines(*arguments: str | Path) -> list[str]:
    done = call_cli("import", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "text of another user" not in done.stderr
    return done.stderr.splitlines()


@each_case(
    ("element", "name"),
    [
        (MESH, "{outside}/part.stl"),
        (MESH, "file://{outside}/part.stl"),
        (MESH, "../outside/part.stl"),
        (MESH, "link.stl"),
        (MESH, "folder/part.stl"),
        # The link goes to outside/deep: where it leads is what counts.
        (MESH, "deep/../part.stl"),
        (MESH, "package://outside/part.stl"),
        (MESH, "package://arm/../outside/part.stl"),
        (TEXTURE, "{outside}/part.stl"),
        (TEXTURE, "package:///outside/part.stl"),
        (CONTROL, "{outside}/part.stl"),
    ],
)
def test_a_file_outside_is_left_out_with_the_option_that_allows_it(
    element: str, name: str, tmp_path: Path
) -> None:
    outside = write(tmp_path / "outside/part.stl").parent
    robot = urdf(tmp_path / "arm/robot.urdf", element.format(name.format(outside=outside)))
    (outside / "deep").mkdir()
    for link, target in (("link.stl", "part.stl"), ("folder", ""), ("deep", "deep")):
        (robot.parent / link).symlink_to(outside / target)
    warning, refusal = lines(robot)
    assert warning.startswith("warning [import.outside] robot.urdf:")
    assert "is outside the robot's folders, and left out" in warning
    assert str(outside / "part.stl") in warning
    assert warning.endswith(f"(if it belongs to the robot: --allow-folder {outside})")
    assert NEXT in refusal
    (refusal,) = lines(robot, "--allow-folder", outside)
    assert NEXT in refusal


@each_case(
    "name", ["package://../outside/part.stl", "package://./../outside/part.stl", "package:///../part.stl"]
)
def test_a_package_is_no_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "outside/part.stl")
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path))
    (refusal,) = lines(urdf(tmp_path / "arm/robot.urdf", MESH.format(name)))
    assert "error [import.package] robot.urdf:3: package '." in refusal


@each_case(
    ("robot", "name"),
    [
        ("arm/robot.urdf", "part.stl"),
        ("arm/robot.urdf", "sub/../meshes/part.stl"),
        ("arm/robot.urdf", "link.stl"),
        ("arm/robot.urdf", "package://meshes/part.stl"),
        ("package/urdf/robot.urdf", "../meshes/part.stl"),
        ("package/urdf/robot.urdf", "package://renamed/meshes/part.stl"),
        ("package/urdf/robot.urdf", "package://neighbour/part.stl"),
        ("package/urdf/robot.urdf", "file://{root}/neighbour/part.stl"),
        ("here.urdf", "part.stl"),
    ],
)
def test_files_of_the_robot_and_of_its_packages_need_no_option(robot: str, name: str, tmp_path: Path) -> None:
    for folder in ("arm", "arm/meshes", "package/meshes", "neighbour", ""):
        write(tmp_path / folder / "part.stl")
    (tmp_path / "arm/sub").mkdir()
    (tmp_path / "arm/link.stl").symlink_to("meshes/part.stl")
    for package in ("package", "neighbour"):
        write(tmp_path / package / "package.xml", MANIFEST.format(package))
    if "renamed" in name:
        (tmp_path / "package").rename(tmp_path / "renamed")
        robot = robot.replace("package", "renamed")
    urdf(tmp_path / "arm/robot.urdf", MESH.format(name.format(root=tmp_path)))
    file = urdf(tmp_path / robot, MESH.format(name.format(root=tmp_path)))
    if robot == "here.urdf":
        # The folder of the link and that of its target are both the user's choice.
        file = file.rename(tmp_path / "neighbour/here.urdf")
        (tmp_path / "arm/here.urdf").symlink_to(file)
        file = tmp_path / "arm/here.urdf"
        (tmp_path / "arm/part.stl").unlink()
        (tmp_path / "arm/part.stl").symlink_to(tmp_path / "neighbour/part.stl")
    (refusal,) = lines(file)
    assert NEXT in refusal


@each_case("way", ["index", "option", "file", "robot"])
def test_a_package_of_links_to_its_source_is_read(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `colcon build --symlink-install` makes it."""
    source, prefix = tmp_path / "src/arm", tmp_path / "install/arm"
    share = prefix / "share/arm"
    name = {"file": f"{share}/meshes/part.stl", "robot": "../meshes/part.stl"}.get(
        way, "package://arm/meshes/part.stl"
    )
    write(source / "meshes/part.stl")
    write(source / "package.xml", MANIFEST.format("arm"))
    urdf(source / "urdf/robot.urdf", MESH.format(name))
    for file in ("meshes/part.stl", "package.xml", "urdf/robot.urdf"):
        (share / file).parent.mkdir(parents=True, exist_ok=True)
        (share / file).symlink_to(source / file)
    write(prefix / "share/ament_index/resource_index/packages/arm", "")
    robot = (
        share / "urdf/robot.urdf" if way == "robot" else urdf(tmp_path / "own/robot.urdf", MESH.format(name))
    )
    if way in ("index", "file"):
        monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix))
    (refusal,) = lines(robot, *([f"--package=arm={share}"] if way == "option" else []))
    assert NEXT in refusal


def test_a_link_beside_the_robot_is_no_package_of_it(tmp_path: Path) -> None:
    write(tmp_path / "home/private/part.stl")
    write(tmp_path / "home/private/package.xml", MANIFEST.format("private"))
    robot = urdf(tmp_path / "robots/arm/robot.urdf", MESH.format("package://parts/part.stl"))
    (tmp_path / "robots/parts").symlink_to(tmp_path / "home/private")
    warning, _ = lines(robot)
    assert warning.endswith(f"--allow-folder {tmp_path / 'home/private'})")


@each_case("target", ["", "/dev/zero"])
def test_a_manifest_that_never_ends_is_not_read(target: str, tmp_path: Path) -> None:
    robot = urdf(tmp_path / "arm/robot.urdf", MESH.format("part.stl"))
    write(tmp_path / "arm/part.stl")
    manifest = tmp_path / "arm/package.xml"
    manifest.symlink_to(target) if target else os.mkfifo(manifest)
    (refusal,) = lines(robot)
    assert NEXT in refusal


def test_many_files_outside_are_counted(tmp_path: Path) -> None:
    names = [write(tmp_path / f"outside/{number}.stl") for number in range(9)]
    *warnings, _ = lines(urdf(tmp_path / "arm/robot.urdf", *(MESH.format(name) for name in names)))
    assert len(warnings) == 6
    assert "4 more meshes from here on are outside, too" in warnings[-1]


@each_case(
    ("content", "said"),
    [
        ('<include file="../outside/part.xml"/>', "robot.xml:2: include '../outside/part.xml'"),
        ('<include file="{outside}/part.xml"/>', "robot.xml:2: include '"),
        ('<INCLUDE file="link.xml"/>', "robot.xml:2: INCLUDE 'link.xml'"),
        ('<include file="inner.xml"/>', "inner.xml:1: include 'link.xml'"),
        ('<include file="..\\outside\\part.xml"/>', "robot.xml:2: include '"),
        ('<include file="deep/../part.xml"/>', "robot.xml:2: include 'deep/../part.xml'"),
        ('<asset><model name="p" file="../outside/part.xml"/></asset>', "robot.xml:2: model '"),
        (
            '<compiler meshdir="../outside"/><worldbody><flexcomp name="f" type="mesh" file="part.xml"/></worldbody>',
            "robot.xml:2: flexcomp 'part.xml'",
        ),
    ],
)
def test_a_part_of_an_mjcf_outside_is_refused_with_the_option_that_allows_it(
    content: str, said: str, tmp_path: Path
) -> None:
    outside = write(tmp_path / "outside/part.xml", "<mujoco><option/></mujoco>").parent
    (outside / "deep").mkdir()
    robot = mjcf(tmp_path / "arm/robot.xml", content.format(outside=outside))
    write(robot.with_name("inner.xml"), '<mujoco><include file="link.xml"/></mujoco>')
    for link, target in (("link.xml", "part.xml"), ("deep", "deep")):
        (robot.parent / link).symlink_to(outside / target)
    (refusal,) = lines(robot)
    assert f"error [import.outside] {said}" in refusal
    assert refusal.endswith(f"(if it belongs to the robot: --allow-folder {outside})")
    (refusal,) = lines(robot, "--allow-folder", outside)
    assert NEXT in refusal


@each_case(
    "content",
    [
        # MuJoCo's parser takes the first ">" for the end of a document type.
        b'<!DOCTYPE mujoco [<!-- > <mujoco><include file="link.xml"/></mujoco> -->]><mujoco/>',
        # It keeps line ends in attributes, and takes names for bytes.
        b'<mujoco><include file="part\n.xml"/></mujoco>',
        b'<?xml version="1.0" encoding="iso-8859-1"?><mujoco><include file="part\xe9.xml"/></mujoco>',
    ],
)
def test_an_mjcf_that_mujoco_would_read_otherwise_is_refused(content: bytes, tmp_path: Path) -> None:
    robot = write(tmp_path / "robot.xml")
    robot.write_bytes(content)
    (refusal,) = lines(robot)
    assert "error [import.xml] robot.xml" in refusal


@each_case(
    "content",
    ['<mesh file="pipe.stl"/>', '<texture type="2d" file="/dev/zero"/>', '<hfield file="pipe.stl"/>'],
)
def test_what_never_ends_is_refused_before_mujoco_opens_it(content: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.stl")
    (refusal,) = lines(mjcf(tmp_path / "robot.xml", f"<asset>{content}</asset>"))
    assert "error [import.outside] robot.xml:2: " in refusal
    assert "is no regular file (name a file)" in refusal


def test_parts_of_an_mjcf_in_its_folder_need_no_option(tmp_path: Path) -> None:
    robot = mjcf(
        tmp_path / "robot.xml", '<include file="sub/inner.xml"/><asset><mesh file="part.stl"/></asset>'
    )
    write(tmp_path / "sub/inner.xml", '<mujoco><include file="other.xml"/><include file="top.xml"/></mujoco>')
    write(tmp_path / "sub/other.xml", "<mujoco><option/></mujoco>")
    write(tmp_path / "top.xml", "<mujoco><option/></mujoco>")
    (refusal,) = lines(robot)
    assert NEXT in refusal


def test_a_folder_that_is_allowed_exists(tmp_path: Path) -> None:
    (refusal,) = lines(urdf(tmp_path / "robot.urdf"), "--allow-folder", tmp_path / "none")
    assert "--allow-folder" in refusal
    assert "does not exist" in refusal

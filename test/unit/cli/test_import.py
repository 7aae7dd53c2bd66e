"""`usd_ros_bridge import`: what it refuses before it converts, each in one line. test/robots converts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli_calls import ROOT, call_cli
from markdown_docs import blocks, page_path
from usd_ros_bridge import load_plan
from usd_ros_bridge.cli.import_command import _directory_name

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

pytestmark = pytest.mark.app

ROBOT = '<robot name="arm"><link name="base"/></robot>'


@pytest.fixture(autouse=True)
def no_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.delenv("USD_ROS_CONVERTER", raising=False)


@pytest.fixture
def urdf(tmp_path: Path) -> Path:
    file = tmp_path / "robot.urdf"
    file.write_text(ROBOT, encoding="utf-8")
    return file


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_missing_converter_is_one_line_and_leaves_nothing(urdf: Path, tmp_path: Path) -> None:
    done = call_cli("import", urdf, "-o", tmp_path / "arm")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "`usd_ros_bridge import --install-converter` installs it" in line
    assert files(tmp_path) == {"robot.urdf"}


def test_every_fault_is_one_line_before_the_refusal(urdf: Path, tmp_path: Path) -> None:
    urdf.write_text(
        '<robot name="arm">\n<link name="base"/>\n<joint name="j" type="hinge">\n'
        '<parent link="bas"/>\n<child link="tip"/>\n</joint></robot>',
        encoding="utf-8",
    )
    done = call_cli("import", urdf, "-o", tmp_path / "arm")
    assert done.returncode == 2
    assert done.stdout == ""
    *faults, refusal = done.stderr.splitlines()
    assert [line.partition(": ")[0] for line in faults] == [
        f"error [import.joint] robot.urdf:{line}" for line in (3, 4, 5)
    ]
    assert refusal.startswith(f"usd_ros_bridge: {urdf} is not imported: correct the 3 errors above")
    assert files(tmp_path) == {"robot.urdf"}


def test_a_lone_fault_is_one_line(urdf: Path) -> None:
    urdf.write_text('<robot name="arm">\n</robot>', encoding="utf-8")
    (line,) = call_cli("import", urdf).stderr.splitlines()
    assert line == (
        f"usd_ros_bridge: {urdf} is not imported: error [import.link] robot.urdf:1: the robot has no link "
        "(write at least one <link>)"
    )


XACRO = '<robot name="arm" xmlns:xacro="http://wiki.ros.org/xacro">\n<link name="${1 + 1}"/>\n</robot>'


def test_a_xacro_without_the_converters_says_what_installs_them(urdf: Path, tmp_path: Path) -> None:
    xacro = urdf.rename(tmp_path / "robot.urdf.xacro")
    xacro.write_text(XACRO, encoding="utf-8")
    (line,) = call_cli("import", xacro, "side:=left").stderr.splitlines()
    assert "`usd_ros_bridge import --install-converter` installs it" in line
    assert files(tmp_path) == {"robot.urdf.xacro"}


def test_a_urdf_has_no_arguments(urdf: Path) -> None:
    (line,) = call_cli("import", urdf, "side:=left").stderr.splitlines()
    assert line == f"usd_ros_bridge: {urdf} is no xacro: side:=left has no meaning"


def test_a_python_without_xacro_is_said(urdf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USD_ROS_CONVERTER", str(ROOT / "test/support/recorded_converter/python"))
    urdf.write_text(XACRO, encoding="utf-8")
    (line,) = call_cli("import", urdf).stderr.splitlines()
    assert "error [import.xacro] robot.urdf: " in line
    assert "has no xacro: install it there" in line


@pytest.mark.parametrize(
    ("namespace", "written", "tf"), [("", "", "/tf"), ("cell/left", "cell/left", "/cell/left/tf")]
)
def test_a_namespace_is_chosen(
    namespace: str, written: str, tf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = [
        each.text for each in blocks(page_path("your_urdf_moves.md")) if each.title == "elbow_arm.urdf"
    ]
    (tmp_path / "elbow_arm.urdf").write_text(text, encoding="utf-8")
    monkeypatch.setenv("USD_ROS_CONVERTER", str(ROOT / "test/support/recorded_converter/python"))
    done = call_cli("import", tmp_path / "elbow_arm.urdf", "-o", tmp_path / "made", "--namespace", namespace)
    assert done.returncode == 0, done.stderr
    plan = load_plan(tmp_path / "made/robot.usda")
    assert [output.tf for output in plan.robots[0].tf_outputs] == [tf]
    assert f'string ros:context:namespace = "{written}"' in (tmp_path / "made/robot.usda").read_text(
        encoding="utf-8"
    )
    # Nobody can change what the converter writes.
    assert {each.severity for each in plan.diagnostics if each.code.endswith(".payload")} == {"info"}


def test_packages_are_named_on_the_command_line(urdf: Path, tmp_path: Path) -> None:
    mesh = '<visual><geometry><mesh filename="package://arm_meshes/base.stl"/></geometry></visual>'
    urdf.write_text(f'<robot name="arm"><link name="base">{mesh}</link></robot>', encoding="utf-8")
    assert "--package arm_meshes=DIRECTORY" in call_cli("import", urdf).stderr
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes/base.stl").touch()
    done = call_cli("import", urdf, "--package", f"arm_meshes={tmp_path / 'meshes'}")
    assert "urdf-usd-converter is not installed" in done.stderr


@pytest.mark.parametrize("name", ["package://robots/", "", "file:///"])
def test_a_mesh_whose_name_no_file_can_have_is_one_line(urdf: Path, name: str) -> None:
    mesh = f'<visual><geometry><mesh filename="{name}{"a" * 300}.stl"/></geometry></visual>'
    urdf.write_text(f'<robot name="arm"><link name="base">{mesh}</link></robot>', encoding="utf-8")
    done = call_cli("import", urdf)
    assert done.returncode == 2
    assert "is not imported: error [import.mesh]" in done.stderr or "--package robots=" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_import_goes_on_where_nobody_reads_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = [
        each.text for each in blocks(page_path("your_urdf_moves.md")) if each.title == "elbow_arm.urdf"
    ]
    (tmp_path / "elbow_arm.urdf").write_text(text, encoding="utf-8")
    monkeypatch.setenv("USD_ROS_CONVERTER", str(ROOT / "test/support/recorded_converter/python"))
    command = f"{sys.executable} -m usd_ros_bridge import elbow_arm.urdf -o made | true"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, timeout=100, check=True)
    assert (tmp_path / "made/robot.usda").is_file()


def test_the_directory_of_a_robot_is_never_an_option() -> None:
    assert _directory_name("-x") == "x"
    assert _directory_name("--") == "robot"


def test_a_directory_of_others_is_refused_before_a_converter_is_needed(urdf: Path, tmp_path: Path) -> None:
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm/thesis.tex").touch()
    for arguments in ((), ("--force",)):
        (line,) = call_cli("import", urdf, "-o", tmp_path / "arm", *arguments).stderr.splitlines()
        assert "exists and import did not make it" in line
    assert files(tmp_path / "arm") == {"thesis.tex"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument 'ROBOT'"),
        (("no.urdf",), "cannot open '/"),
        (("robot.urdf", "--drives", "--no-drives"), "--drives and --no-drives contradict each other"),
        (("robot.urdf", "--ground", "--no-ground"), "--ground and --no-ground contradict each other"),
        (("robot.urdf", "--free-base", "--fix-base"), "--free-base and --fix-base contradict each other"),
        (("robot.urdf", "--package", "arm"), "NAME=DIRECTORY"),
        (("robot.urdf", "--namespace", "no good"), "--namespace 'no good'"),
        (("no.urdf.xacro", "side:=left"), "cannot open '/"),
        (("robot.urdf", "left"), "'left' is no argument of a xacro: write NAME:=VALUE"),
    ],
)
def test_mistakes_of_the_caller_are_status_2_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = call_cli("import", *arguments)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert said.lower() in line.lower()


def test_text_of_a_robot_file_cannot_write_to_the_terminal(urdf: Path) -> None:
    urdf.write_text(
        '<robot name="arm"><link name="base"/><link name="&#x9b;31m&#x85;evil"/></robot>', encoding="utf-8"
    )
    done = call_cli("import", urdf)
    assert "\\x9b31m" in done.stderr
    assert "\x9b" not in done.stderr


@pytest.mark.parametrize("name", ["robot.urdf", "robot.xml", "robot.urdf.xacro"])
def test_run_and_inspect_of_a_robot_file_say_import(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(ROBOT, encoding="utf-8")
    (line,) = call_cli("inspect", tmp_path / name).stderr.splitlines()
    assert f"usd_ros_bridge import {tmp_path / name}" in line

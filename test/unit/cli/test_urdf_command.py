"""`usd_ros_bridge urdf` as a user meets it: its two streams, its files and its exit status."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cli_calls import call_cli

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "test" / "assets"
ROVER = ROOT / "examples" / "rover" / "rover.usda"
FLEET = ROOT / "examples" / "fleet" / "fleet.usda"


def urdf(*arguments: str | Path, meshes: Path) -> subprocess.CompletedProcess[str]:
    return call_cli("urdf", *arguments, "--meshes", meshes)


def test_the_document_alone_is_on_standard_output(tmp_path: Path) -> None:
    result = urdf(ROVER, meshes=tmp_path / "meshes")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith('<?xml version="1.0"?>\n<robot name="rover">')
    robot = ET.fromstring(result.stdout)
    files = {str(mesh.get("filename")) for mesh in robot.iter("mesh")}
    assert files
    for uri in files:
        assert uri.startswith("file://")
        assert Path(uri.removeprefix("file://")).is_file()


def test_a_second_time_gives_the_same(tmp_path: Path) -> None:
    first = urdf(ROVER, meshes=tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert urdf(ROVER, meshes=tmp_path).stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written


def test_remarks_are_on_standard_error(tmp_path: Path) -> None:
    result = urdf(ASSETS / "joint_loop.usda", meshes=tmp_path)
    assert result.returncode == 0
    ET.fromstring(result.stdout)
    assert "info [3.8.loop] /robot/closing: " in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_instead(tmp_path: Path) -> None:
    target = tmp_path / "rover.urdf"
    result = urdf(ROVER, "-o", target, meshes=tmp_path / "meshes")
    assert (result.returncode, result.stdout) == (0, "")
    assert ET.parse(target).getroot().get("name") == "rover"


def test_one_robot_of_several(tmp_path: Path) -> None:
    result = urdf(FLEET, "--robot", "/Fleet/arm", meshes=tmp_path)
    assert ET.fromstring(result.stdout).get("name") == "arm"


def test_mistakes_of_the_caller_are_one_line(tmp_path: Path) -> None:
    for arguments, expected in (
        ([FLEET], "/Fleet/arm, /Fleet/rover_1, /Fleet/rover_2"),
        ([FLEET, "--robot", "/Fleet/nope"], "/Fleet/nope"),
        ([ASSETS / "error_no_robot.usda"], "no robot"),
        ([ROVER, "-o", "/nowhere/rover.urdf"], "/nowhere/rover.urdf cannot be written"),
        (["nope.usda"], "nope.usda"),
        ([ROVER, "--variant", "/rover:nope=x"], "nope"),
    ):
        result = urdf(*arguments, meshes=tmp_path)
        assert (result.returncode, result.stdout) == (2, ""), arguments
        assert "Traceback" not in result.stderr
        last = result.stderr.strip().splitlines()[-1]
        assert last.startswith("usd_ros_bridge: ")
        assert expected in last


def test_strict_refuses_an_asset_with_an_error(tmp_path: Path) -> None:
    asset = ASSETS / "error_joint_names.usda"
    assert urdf(asset, meshes=tmp_path).returncode == 0
    result = urdf(asset, "--strict", meshes=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")


def test_a_directory_that_cannot_be_written_costs_the_meshes_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory", encoding="utf-8")
    result = urdf(ROVER, meshes=blocked / "meshes")
    assert result.returncode == 0
    assert result.stderr.count("3.8.mesh_directory") == 1
    robot = ET.fromstring(result.stdout)
    assert list(robot.iter("mesh")) == []
    assert len(robot.findall("link")) == 8


@pytest.mark.parametrize(("choice", "has_lidar"), [("none", False), ("lidar", True)])
def test_only_the_variant_that_is_selected(choice: str, has_lidar: bool, tmp_path: Path) -> None:
    """REP 0158 sections 3.7 and 3.8: the others are discarded, and nothing tells of them."""
    asset = tmp_path / "robot.usda"
    asset.write_text(VARIANTS, encoding="utf-8")
    result = urdf(asset, "--variant", f"/robot:sensor={choice}", meshes=tmp_path / "meshes")
    assert result.returncode == 0, result.stderr
    links = {link.get("name") for link in ET.fromstring(result.stdout).findall("link")}
    assert ("lidar_link" in links) == has_lidar
    assert "sensor" not in result.stdout


def test_plain_xforms_become_links_where_that_is_asked_for(tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    asset.write_text(VARIANTS, encoding="utf-8")
    assert "tool_mount" not in urdf(asset, meshes=tmp_path / "meshes").stdout
    assert "tool_mount" in urdf(asset, "--frames-from-xforms", meshes=tmp_path / "meshes").stdout


VARIANTS = """#usda 1.0
(
    defaultPrim = "robot"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)

def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
    variants = { string sensor = "none" }
    prepend variantSets = "sensor"
)
{
    def Xform "base" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]
    )
    {
        float physics:mass = 2
        float3 physics:diagonalInertia = (0.1, 0.1, 0.1)

        def Xform "tool_mount"
        {
        }
    }

    def PhysicsFixedJoint "anchor"
    {
        rel physics:body0 = </robot>
        rel physics:body1 = </robot/base>
    }

    variantSet "sensor" = {
        "none" {
        }
        "lidar" {
            def Xform "lidar_link" (
                prepend apiSchemas = ["RosFrameAPI"]
            )
            {
            }
        }
    }
}
"""

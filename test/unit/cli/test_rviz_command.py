"""`usd_ros_bridge rviz` as a user meets it: the file, the command that starts RViz, and one line for mistakes."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from cli_calls import call_cli

ROOT = Path(__file__).parents[3]
ROVER = ROOT / "examples" / "rover" / "world.usda"
ARM = ROOT / "examples" / "arm" / "arm.usda"
FLEET = ROOT / "examples" / "fleet" / "fleet.usda"


def rviz(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call_cli("rviz", *arguments)


def test_the_configuration_is_on_standard_output() -> None:
    result = rviz(ARM)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Class: rviz_default_plugins/RobotModel" in result.stdout
    assert "/arm/robot_description" in result.stdout


def test_a_file_instead_and_the_command_that_starts_rviz(tmp_path: Path) -> None:
    target = tmp_path / "my rover.rviz"
    result = rviz(ROVER, "-o", target)
    assert (result.returncode, result.stderr) == (0, "")
    words = shlex.split(result.stdout)
    assert words[:3] == ["rviz2", "-d", str(target)]
    assert words[3:6] == ["--ros-args", "-r", "/tf:=/rover/tf"]
    assert target.read_text(encoding="utf-8") == rviz(ROVER).stdout


def test_simulated_time_is_followed_where_the_bridge_has_it(tmp_path: Path) -> None:
    target = tmp_path / "rover.rviz"
    assert "use_sim_time:=true" not in rviz(ROVER, "--backend", "kinematic", "-o", target).stdout
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    assert rviz(ROVER, "-o", target, "--force").stdout.endswith(" -p use_sim_time:=true\n")


def test_options_are_those_of_the_bridge() -> None:
    found = rviz(ARM, "--namespace", "cell", "--tf-output", "global", "--interfaces", "none")
    assert "/cell/arm/robot_description" in found.stdout
    assert "TF Prefix: cell/arm" in found.stdout
    without = rviz(ROVER, "--interfaces", "none").stdout
    assert "LaserScan" in rviz(ROVER).stdout
    assert "LaserScan" not in without
    assert "Fixed Frame: world" in rviz(ROVER, "--base-transform", "ground_truth").stdout


def test_a_file_that_exists_is_kept_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "arm.rviz"
    target.write_text("mine", encoding="utf-8")
    result = rviz(ARM, "-o", target)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"usd_ros_bridge: {target} exists: --force overwrites it\n"
    assert target.read_text(encoding="utf-8") == "mine"
    assert rviz(ARM, "-o", target, "--force").returncode == 0
    assert target.read_text(encoding="utf-8") != "mine"


def test_what_is_not_shown_is_on_standard_error() -> None:
    result = rviz(FLEET)
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert "/Fleet/rover_2, /Fleet/arm are left out" in line
    lines = rviz(FLEET, "--tf-output", "both").stderr.splitlines()
    assert any("nothing connects rover_1/odom, rover_2/odom to world" in line for line in lines)


def test_json_for_launch_files(tmp_path: Path) -> None:
    target = tmp_path / "fleet.rviz"
    found = json.loads(rviz(FLEET, "-o", target, "--all-robots", "--json").stdout)
    assert (found["file"], found["tf_output"], found["fixed_frame"]) == (str(target), "both", "world")
    assert [link["child"] for link in found["links"]] == ["rover_1/odom", "rover_2/odom"]
    assert not any("nothing connects" in remark for remark in found["remarks"])
    one = json.loads(rviz(ARM, "-o", target, "--force", "--all-robots", "--json").stdout)
    assert one["tf_output"] is None
    assert one["remaps"] == [["/tf", "/arm/tf"], ["/tf_static", "/arm/tf_static"]]
    given = rviz(FLEET, "-o", target, "--force", "--all-robots", "--tf-output", "global", "--json")
    assert json.loads(given.stdout)["tf_output"] == "global"


def test_mistakes_of_the_caller_are_one_line() -> None:
    for arguments, expected in (
        ([ARM, "--json"], "--json goes with -o"),
        ([ARM, "-o", "/nowhere/arm.rviz"], "/nowhere/arm.rviz cannot be written"),
        ([ARM, "-o", f"{'a' * 300}.rviz"], "cannot be written: File name too long"),
        (["nope.usda"], "nope.usda"),
        ([ARM, "--variant", "/arm:grippr=x"], "gripper"),
        ([ARM, "--tf-output", "globl"], "globl"),
        ([ARM, "--backend", "mujco"], "mujoco"),
        ([], "ASSET"),
    ):
        result = rviz(*arguments)
        assert (result.returncode, result.stdout) == (2, ""), arguments
        (line,) = result.stderr.splitlines()
        assert line.startswith("usd_ros_bridge: ")
        assert expected in line


def test_strict_refuses_an_asset_with_an_error() -> None:
    asset = ROOT / "test" / "assets" / "error_joint_names.usda"
    assert rviz(asset).returncode == 0
    result = rviz(asset, "--strict")
    assert (result.returncode, result.stdout) == (1, "")

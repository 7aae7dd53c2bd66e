"""Diagnostics of what cannot move: 4.2.3.drive and 4.2.3.base, from the asset alone."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.assets import ARM, ASSETS, FLEET, ROVER, ROVER_IN_WORLD, plan_of
from case_tables import each_case
from usd_ros_bridge.model.diagnostics import Diagnostic

DRIVES = ASSETS / "actuation_drives.usda"
FIXED = ASSETS / "actuation_fixed_base.usda"


def arm(drives: str, *, physics: bool = True) -> dict[str, Diagnostic]:
    """The findings about an arm with these drives, by prim."""
    plan = plan_of(DRIVES, f"/robot:drives={drives}", physics=physics)
    return {each.path: each for each in plan.diagnostics if each.code.startswith("4.2.3")}


def test_joints_with_drives_are_no_finding() -> None:
    assert arm("both") == {}


def test_without_physics_nothing_is_said_of_drives() -> None:
    assert arm("none", physics=False) == {}


@each_case(
    ("drives", "severity", "words", "remedy"),
    [
        (
            "none",
            "info",
            "'shoulder' and 'elbow' (there is no drive)",
            "usd_ros_bridge scaffold {} --drives -o ",
        ),
        ("one", "warning", "'elbow' (there is no drive)", "usd_ros_bridge scaffold {} --drives -o "),
        (
            "damped",
            "warning",
            "'elbow' (the drive has no stiffness)",
            "author drive:angular:physics:stiffness",
        ),
        (
            "weak",
            "warning",
            "'shoulder' and 'elbow' (the effort limit is 0)",
            "author drive:angular:physics:maxForce",
        ),
    ],
)
def test_a_trajectory_controller_names_its_joints_the_reason_and_the_remedy(
    drives: str, severity: str, words: str, remedy: str
) -> None:
    found = arm(drives)["/robot/controller"]
    assert (found.code, found.severity) == ("4.2.3.drive", severity)
    assert f"position commands do not move {words}; its goals are refused" in found.message
    assert found.remedy.startswith(remedy.format(shlex.quote(str(DRIVES))))


def test_it_is_a_warning_where_auto_would_simulate_and_else_a_remark() -> None:
    assert arm("none")["/robot/controller"].message.startswith("where forces are simulated, ")
    assert arm("one")["/robot/controller"].message.startswith("position commands")


def test_command_topics_are_at_fault_as_a_whole_and_remarked_on_in_part() -> None:
    assert "efforts do" in arm("none")["/robot/joint_commands"].message
    assert arm("weak")["/robot/joint_commands"].severity == "warning"
    assert arm("one")["/robot/joint_commands"].severity == "info", "casters are meant to be passive"
    assert "/robot/joint_commands" not in arm("damped"), "a velocity moves a damped joint"
    assert arm("damped")["/robot/positions"].severity == "warning", "an array commands all joints"


def test_a_base_that_is_fixed_to_the_world_names_the_joint_and_the_remedy() -> None:
    plan = plan_of(FIXED)
    found = {each.path: each for each in plan.diagnostics if each.code == "4.2.3.base"}
    assert found.keys() == {"/robot/drive", "/robot/twist"}
    for each in found.values():
        assert each.severity == "warning"
        assert "fixed to the world by /robot/anchor" in each.message
        assert each.remedy.startswith(f"usd_ros_bridge scaffold {shlex.quote(str(FIXED))} --free-base -o ")
    assert plan.controllers[0].enabled, "its wheels turn"


@each_case("example", [ARM, FLEET, ROVER, ROVER_IN_WORLD])
def test_every_example_can_move(example: Path) -> None:
    assert [each for each in plan_of(example).diagnostics if each.code in ("4.2.3.drive", "4.2.3.base")] == []

"""`--degraded error`, and `diff`, about what is not simulated as authored (REP 0158 section 1.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.stage_text import BALL, body, header, world
from case_tables import each_case
from cli_calls import call_cli

LOCKED = "int physxRigidBody:lockedPosAxis = {}"


def write(path: Path, *values: int) -> Path:
    """Write a stage with a body for each value of an attribute that is not simulated; 0 is its fallback."""
    bodies = (body(f"b{number}", BALL, LOCKED.format(value)) for number, value in enumerate(values))
    path.write_text(header() + world(*bodies), encoding="utf-8")
    return path


@pytest.fixture
def asset(tmp_path: Path) -> Path:
    return write(tmp_path / "asset.usda", 4, 4, 4, 4)


@each_case("command", [["inspect"], ["inspect", "--json"]])
def test_error_is_status_1_with_the_number_and_the_first_property(asset: Path, command: list[str]) -> None:
    result = call_cli(command[0], asset, *command[1:], "--degraded", "error")
    assert result.returncode == 1
    (line,) = [each for each in result.stderr.splitlines() if "degraded is error" in each]
    assert line.startswith("usd_ros_bridge: 4 properties are not simulated as authored in ")
    assert (
        "/World/b0.physxRigidBody:lockedPosAxis = '4': not implemented: the body moves along all axes" in line
    )
    assert result.stdout


def test_a_report_is_written_before_it_fails(asset: Path, tmp_path: Path) -> None:
    log = tmp_path / "findings.sarif"
    result = call_cli("report", asset, "--format", "sarif", "-o", log, "--degraded", "error")
    assert result.returncode == 1
    found = json.loads(log.read_text(encoding="utf-8"))["runs"][0]["results"]
    lost = [each["properties"] for each in found if each["ruleId"] == "1.4.degraded"]
    assert lost == [{"reason": "not implemented", "value": "'4'"}] * 4


def test_a_warning_is_the_default(asset: Path) -> None:
    assert call_cli("inspect", asset).returncode == 0
    assert call_cli("inspect", asset, "--degraded", "warn").returncode == 0


def test_an_asset_that_is_simulated_as_authored_is_accepted(tmp_path: Path) -> None:
    assert call_cli("inspect", write(tmp_path / "plain.usda", 0, 0), "--degraded", "error").returncode == 0


def test_an_unknown_choice_is_a_usage_error(asset: Path) -> None:
    result = call_cli("inspect", asset, "--degraded", "fail")
    assert result.returncode == 2
    assert "warn" in result.stderr


def test_inspect_shows_equal_ones_as_one_row_and_json_has_all(asset: Path) -> None:
    text = call_cli("inspect", asset).stdout
    assert text.count("1.4.degraded") == 1
    assert "4 warnings" in text
    found: list[dict[str, Any]] = json.loads(call_cli("inspect", asset, "--json").stdout)["diagnostics"]
    assert [(each["path"], each["reason"], each["value"]) for each in found if each["reason"]] == [
        (f"/World/b{number}", "not implemented", "'4'") for number in range(4)
    ]


def test_diff_shows_what_came_and_went(tmp_path: Path) -> None:
    old, new = write(tmp_path / "old.usda", 4, 0), write(tmp_path / "new.usda", 0, 2)
    result = call_cli("diff", old, new)
    assert result.returncode == 1
    effect = "not implemented: the body moves along all axes"
    assert result.stdout.splitlines() == [
        "not simulated",
        f"  + /World/b1.physxRigidBody:lockedPosAxis = '2': {effect}",
        f"  - /World/b0.physxRigidBody:lockedPosAxis = '4': {effect}",
        "0 added, 0 removed, 0 changed, not simulated: 1 more, 1 fewer",
    ]
    found = json.loads(call_cli("diff", old, new, "--json").stdout)["degraded"]
    assert [(each["path"], each["value"]) for each in found["added"]] == [("/World/b1", "'2'")]
    assert [(each["path"], each["value"]) for each in found["removed"]] == [("/World/b0", "'4'")]


def test_diff_of_equal_assets_shows_nothing(asset: Path) -> None:
    result = call_cli("diff", asset, asset)
    assert (result.returncode, result.stdout) == (0, "no difference\n")

"""`usd_ros_bridge diff` as a user and CI meet it: two streams, an exit status, JSON, and the page that documents it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from cli_calls import call_cli
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.planning.diff import PlanItems

ROOT = Path(__file__).parents[3]
ARM = ROOT / "examples" / "arm" / "arm.usda"
ROVER = ROOT / "examples" / "rover" / "rover.usda"
PAGE = ROOT / "docs" / "reference" / "diff.md"

ITEM_KEYS = ["kind", "change", "label", "name", "path", "robot", "detail", "fields"]


def diff(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call_cli("diff", *arguments)


def overlay(path: Path, asset: Path, text: str) -> Path:
    # A root layer says the units of the stage, whatever the layers below it say.
    head = f'defaultPrim = "rover"\n    metersPerUnit = 1\n    upAxis = "Z"\n    subLayers = [@{asset}@]'
    path.write_text(f"#usda 1.0\n(\n    {head}\n)\n{text}\n", encoding="utf-8")
    return path


def test_no_difference_is_status_0() -> None:
    result = diff(ROVER, ROVER)
    assert (result.returncode, result.stdout, result.stderr) == (0, "no difference\n", "")


def test_differences_are_status_1_a_line_each(tmp_path: Path) -> None:
    new = overlay(
        tmp_path / "new.usda", ROVER,
        'over "rover"\n{\n    over "lidar_link"\n    {\n        double ros:topic:publish_rate = 20\n    }\n}',
    )  # fmt: skip
    result = diff(ROVER, new)
    assert result.returncode == 1
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "topics",
        "  ~ publisher /rover/scan  sensor_msgs/msg/LaserScan",
        "      publish_rate: 10 -> 20",
        "0 added, 0 removed, 1 changed",
    ]


def test_between_variants_as_json() -> None:
    result = diff(
        ARM, "--old-variant", "/arm:gripper=suction", "--new-variant", "/arm:gripper=none", "--json"
    )
    assert result.returncode == 1
    found = json.loads(result.stdout)
    assert list(found) == ["added", "removed", "changed", "items", "degraded"]
    assert all(list(item) == ITEM_KEYS for item in found["items"])
    assert {(i["change"], i["label"], i["name"]) for i in found["items"] if i["kind"] == "service"} == {
        ("removed", "service server", "/arm/vacuum")
    }
    assert found["removed"] == sum(item["change"] == "removed" for item in found["items"])
    same = diff(ARM, "--old-variant", "/arm:gripper=none", "--new-variant", "/arm:gripper=none", "--json")
    assert same.returncode == 0
    assert json.loads(same.stdout) == {
        "added": 0,
        "removed": 0,
        "changed": 0,
        "items": [],
        "degraded": {"added": [], "removed": []},
    }


def test_options_are_those_of_both() -> None:
    assert diff(ROVER, ROVER, "--namespace", "fleet").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([ARM], ["--new-variant"]),
        ([ARM, "no_such_file.usda"], ["no_such_file.usda"]),
        ([ARM, "--new-variant", "/arm:gripper=claw"], ["claw", "suction"]),
        ([ARM, "--new-variant", "nonsense"], ["nonsense", "/Prim/Path:set=choice"]),
    ],
)
def test_mistakes_of_the_caller_are_status_2_in_one_line(
    arguments: list[str | Path], named: list[str]
) -> None:
    result = diff(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert [text for text in named if text not in result.stderr] == []


def test_text_from_an_asset_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    evil = overlay(
        tmp_path / "evil.usda", ROVER,
        'over "rover"\n{\n    over "lidar_link"\n    {\n        string ros:topic:name = "[red]\\x1b]0;owned\\x07"\n'
        "    }\n}",
    )  # fmt: skip
    result = diff(ROVER, evil)
    assert result.returncode == 1
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout


def test_the_page_names_every_field() -> None:
    """Fields as they stand in the page, against those that are compared in the examples."""
    documented = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2 and "," in cells[1]:
            for kind in re.findall(r"`(\w+)`", cells[0]):
                documented.setdefault(kind, set(re.findall(r"`([\w.*]+)`", cells[1])))
    compared: dict[str, set[str]] = {}
    for path in (ROVER, ARM):
        plan = load_plan(path)
        items = PlanItems(plan)
        items.numbers |= {index: index for index in range(len(plan.robots))}
        for item in (
            *items.robots(), *items.interfaces(), *items.controllers(), *items.joints(), *items.frames(),
        ):  # fmt: skip
            several = re.compile(r"\.(?!lower|upper).*$")
            compared.setdefault(item.kind, {"path"}).update(several.sub(".*", name) for name in item.facts())
    for kind, fields in compared.items():
        assert documented[kind] - {"rotX.lower"} == fields, kind

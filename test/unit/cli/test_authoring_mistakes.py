"""Thirty authoring mistakes: each is found by `inspect`, by name, with its remedy, its layer and its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from authoring_mistakes import MISTAKES, Mistake
from cli_calls import call_cli

pytest.importorskip("rclpy", reason="which types are installed is known with ROS only")

EXAMPLES = ("rover", "arm")
ROWS = pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: f"{each.number} {each.title}")


def found_in(asset: Path) -> list[dict[str, Any]]:
    """Return the diagnostics of an asset."""
    result = call_cli("inspect", "--json", asset)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["diagnostics"]


def one_line(text: str) -> str:
    """Return printed text without frames of tables, line breaks and repeated spaces."""
    return " ".join(re.sub(r"[│┃]", " ", text).split())


def test_the_table_has_thirty_mistakes() -> None:
    assert {int(re.match(r"\d+", each.number)[0]) for each in MISTAKES} == set(range(1, 31))


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_assets_are_right_without_them(example: str) -> None:
    root = Path(__file__).parents[3] / "examples" / example
    found = [each for each in found_in(root / f"{example}.usda") if each["severity"] != "info"]
    assert found == []
    assert call_cli("inspect", "--strict", root / f"{example}.usda").returncode == 0


@ROWS
def test_the_diagnostic_has_the_cause_the_remedy_and_the_place(mistake: Mistake, tmp_path: Path) -> None:
    found = found_in(mistake.make(tmp_path))
    (diagnostic,) = [
        each
        for each in found
        if (each["code"], each["path"], each["attribute"]) == (mistake.code, mistake.path, mistake.attribute)
    ]
    assert diagnostic["severity"] == mistake.severity
    text = f"{diagnostic['message']} ({diagnostic['remedy']})"
    assert [words for words in mistake.says if words not in text] == [], text
    layer = tmp_path / mistake.asset / (mistake.at_layer or mistake.layer)
    assert Path(diagnostic["layer"]) == layer
    lines = layer.read_text().splitlines()
    assert mistake.at in lines[diagnostic["line"] - 1]
    assert not {each["code"] for each in found} & set(mistake.never)


@ROWS
def test_inspect_prints_it_and_strict_fails_for_errors(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wide enough that no text is wrapped.
    monkeypatch.setattr("usd_ros_bridge.cli.views.PIPED_WIDTH", 4000)
    result = call_cli("inspect", "--strict", mistake.make(tmp_path))
    assert result.returncode == (1 if mistake.severity == "error" or mistake.then else 0)
    printed = one_line(result.stdout)
    expected = (mistake.code, mistake.path, mistake.attribute, *mistake.says)
    assert [words for words in expected if words not in printed] == []


def test_an_unknown_attribute_comes_before_what_follows_from_it(tmp_path: Path) -> None:
    (mistake,) = [each for each in MISTAKES if each.then]
    codes = [each["code"] for each in found_in(mistake.make(tmp_path)) if each["path"] == mistake.path]
    assert codes == [mistake.code, mistake.then]

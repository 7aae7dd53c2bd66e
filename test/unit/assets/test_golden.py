"""Every small asset in test/assets, read and planned, against its golden plan in test/golden.

`.venv/bin/python -m pytest test/unit/assets --update` rewrites the golden files; read the difference before
committing it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from golden_texts import text_without_folder
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.testing.plan_snapshots import rounded

TEST = Path(__file__).parents[2]
ASSETS = TEST / "assets"
GOLDEN = TEST / "golden"
NAMES = sorted(path.stem for path in ASSETS.glob("*.usda") if path.stem != "secret")


def plan_of(name: str) -> dict[str, object]:
    packages = {"demo_description": str(ASSETS / "demo_description")}
    plan = load_plan(str(ASSETS / f"{name}.usda"), read_options=ReadOptions(packages=packages))
    found = rounded({**plan_to_json(plan), "asset": f"{name}.usda"})
    return comparable(text_without_folder(found, TEST))


def comparable(text: str) -> dict[str, object]:
    # Which package has a name like that depends on what is installed.
    text = re.sub(r"did you mean [^?]*\? (?=install it)", "", text)
    return json.loads(text)


@pytest.mark.parametrize("name", NAMES)
def test_plan_matches_golden(name: str, request: pytest.FixtureRequest) -> None:
    plan = plan_of(name)
    path = GOLDEN / f"{name}.json"
    if request.config.getoption("--update", default=False):
        path.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    assert plan == comparable(path.read_text(encoding="utf-8"))


def test_assets_have_the_findings_that_their_names_promise() -> None:
    """In their golden plans, which are those that are made."""
    for name in NAMES:
        found = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["diagnostics"]
        severities = {each["severity"] for each in found}
        if name.startswith("error_"):
            assert severities & {"error", "warning"}, f"{name} should have an error or a warning"
        else:
            assert "error" not in severities, name
        assert all(each["message"] and each["code"] for each in found), name


def test_every_golden_has_its_asset() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == NAMES

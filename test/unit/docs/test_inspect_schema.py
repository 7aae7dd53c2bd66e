"""The JSON Schema of `inspect --json`: it is that of the code, and complete for every asset here."""

from __future__ import annotations

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("jsonschema", reason="jsonschema is not installed: make setup-tests")

import jsonschema

from markdown_docs import ROOT
from usd_ros_bridge import AssetError, load_plan
from usd_ros_bridge.export.plan_json import plan_to_json

pytestmark = pytest.mark.docs

SCHEMA = ROOT / "usd_ros_bridge" / "export" / "inspect.schema.json"
EXAMPLES = (
    "arm/arm.usda",
    "fleet/fleet.usda",
    "mujoco_loop/pan_tilt.usda",
    "rover/rover.usda",
    "rover/world.usda",
)
ASSETS = [
    *(ROOT / "examples" / name for name in EXAMPLES),
    *sorted((ROOT / "test" / "assets").glob("*.usda")),
]


@cache
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(document: Any) -> list[str]:
    return [
        f"{'/'.join(map(str, each.absolute_path))}: {each.message}"
        for each in validator().iter_errors(document)
    ]


def test_the_schema_is_that_of_the_code() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "inspect_schema.py"))
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == tool["document"](), (
        "python tools/inspect_schema.py --write"
    )


def objects(schema: Any) -> list[Any]:
    """All parts of a schema that are about objects."""
    if isinstance(schema, list):
        return [found for each in schema for found in objects(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" else []
    return own + [found for each in schema.values() for found in objects(each)]


def test_every_object_is_closed() -> None:
    """Only attributes of solvers have names that the schema does not know."""
    free = [
        each
        for each in objects(json.loads(SCHEMA.read_text(encoding="utf-8")))
        if each["additionalProperties"] is not False
    ]
    assert all("properties" not in each for each in free)


def faults_of(asset: Path) -> list[str]:
    try:
        plan = load_plan(asset, physics=True)
    except AssetError:
        return []
    return faults(json.loads(json.dumps(plan_to_json(plan), allow_nan=False)))


def test_the_json_of_assets_is_valid() -> None:
    found = {asset.name: faults_of(asset) for asset in ASSETS}
    assert len(found) > 80
    assert {name: each for name, each in found.items() if each} == {}


def test_keys_that_are_missing_or_unknown_are_faults() -> None:
    plan = load_plan(ROOT / "examples" / "arm" / "arm.usda")
    document = json.loads(json.dumps(plan_to_json(plan)))
    assert faults(document) == []
    assert "physics" not in document
    document["topics"][0]["rate"] = 1.0
    del document["robots"][0]["path"]
    assert len(faults(document)) == 2

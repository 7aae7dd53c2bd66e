"""Nothing is dropped in silence (REP 0158 section 1.4): each physics opinion of an example is read or reported.

tools/authored_opinions.py lists them with usd-core alone. Whether one is read is found by trial: without it, or with
another value, the plan is another one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Gf, Sdf, Usd

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.plan_json import plan_to_json

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tools"))
from authored_opinions import API_SCHEMAS, TYPE_NAME, opinions, read_facts  # noqa: E402 - of the folder above

pytestmark = pytest.mark.heavy

Opinion = dict[str, Any]


@contextmanager
def layer_over(stage: Usd.Stage) -> Iterator[None]:
    """Edit a layer that is stronger than all others, and take it away again."""
    session, layer = stage.GetSessionLayer(), Sdf.Layer.CreateAnonymous()
    session.subLayerPaths.insert(0, layer.identifier)
    stage.SetEditTarget(layer)
    try:
        yield
    finally:
        stage.SetEditTarget(session)
        del session.subLayerPaths[0]


def plan_and_reported(stage: Usd.Stage) -> tuple[str, set[tuple[str, str]]]:
    """Return a plan without its diagnostics, and the prims and properties that these are about."""
    plan = plan_to_json(load_plan(stage, physics=True))
    found = {(each["path"], each["attribute"]) for each in plan.pop("diagnostics")}
    return json.dumps(plan, sort_keys=True, default=str), found


def trials(stage: Usd.Stage, opinion: Opinion) -> Iterator[None]:
    """Take an opinion away, then set other values in its place."""
    prim, name = stage.GetPrimAtPath(opinion["path"]), opinion["property"]
    with layer_over(stage):
        if name == API_SCHEMAS:
            prim.RemoveAppliedSchema(opinion["value"])
        elif name == TYPE_NAME:
            prim.SetTypeName("Scope")
        elif opinion["type"] == "rel":
            prim.GetRelationship(name).SetTargets([])
        else:
            prim.GetAttribute(name).Block()
        yield
    if name in (API_SCHEMAS, TYPE_NAME) or opinion["type"] == "rel":
        return
    for value in others(prim.GetAttribute(name).Get()):
        with layer_over(stage):
            prim.GetAttribute(name).Set(value)
            yield


def others(value: Any) -> list[Any]:
    """Return values for a property of which the authored one may be the fallback of another schema."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, float):
        return [1.7 * value + 0.37, -2.0 * abs(value) - 0.1]
    if isinstance(value, int):
        return [value + 3]
    if isinstance(value, (Gf.Quatf, Gf.Quatd)):
        return [type(value)(0.5, 0.5, 0.5, -0.5)]
    if isinstance(value, (Gf.Vec3f, Gf.Vec3d)):
        return [type(value)(value[0] + 0.37, value[1] - 0.21, value[2] + 1.3)]
    return []


@pytest.mark.parametrize("asset", ["arm/arm.usda", "rover/world.usda"])
def test_each_opinion_of_an_example_is_read_or_reported(asset: str) -> None:
    stage = Usd.Stage.Open(str(ROOT / "examples" / asset))
    stage.SetEditTarget(stage.GetSessionLayer())
    for prim in list(stage.Traverse()):
        prim.SetInstanceable(False)
    plan, reported = plan_and_reported(stage)
    found = [
        each
        for each, is_fallback in opinions(stage, read_facts(ROOT / "test" / "assets" / "schemas"))
        if not is_fallback
    ]

    silent = [
        (each["path"], each["property"], each["value"])
        for each in found
        if (each["path"], each["property"]) not in reported
        and not any(plan_and_reported(stage)[0] != plan for _ in trials(stage, each))
    ]

    assert len(found) > 50
    # A schema or a scene without properties of its own changes nothing: its properties are tried one by one.
    assert [each for each in silent if each[1] != API_SCHEMAS and each[2] != "PhysicsScene"] == []

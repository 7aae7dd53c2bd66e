"""The ledger: every property and API of the schemas has a row, with the type and fallback that its library has."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pxr import Plug

from builders.assets import ASSETS
from usd_ros_bridge.model.ledger import INSTANCE, LIBRARIES, ledger
from usd_ros_bridge.planning.kinematics import solver_attributes
from usd_ros_bridge.planning.kinematics.solver_attributes import TABLE
from usd_ros_bridge.planning.physics.degradation import is_fallback, resolved_names

ROOT = Path(__file__).resolve().parents[3]
FACTS = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (ASSETS / "schemas").glob("*.json")
}
OTHERS = "others"
"""Rows that no schema file has: older names, and those of importers."""

sys.path.append(str(ROOT / "tools"))
from schema_facts import read_schemas  # noqa: E402


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(plain, value))
    return float(value) if value in ("inf", "-inf") else value


def rows_of(library: str) -> dict[tuple[str, str], tuple[str, Any]]:
    found = {}
    for row in ledger().rows:
        if row.library == library:
            assert (row.schema, row.name) not in found, f"{row.schema} {row.name} has two rows"
            found[row.schema, row.name] = (row.type_name, row.fallback)
    return found


@pytest.mark.parametrize("library", sorted(FACTS))
def test_each_property_and_schema_has_a_row_with_its_type_and_fallback(library: str) -> None:
    facts: dict[tuple[str, str], tuple[str, Any]] = {}
    for schema, properties in FACTS[library]["schemas"].items():
        facts[schema, ""] = ("", None)
        facts |= {(schema, name): (kind, plain(value)) for name, (kind, value) in properties.items()}
    rows = rows_of(library)
    assert set(facts) - set(rows) == set(), "no row of the ledger names these"
    assert set(rows) - set(facts) == set(), "no schema has these"
    differing = {
        key: (rows[key], fact)
        for key, fact in facts.items()
        if rows[key][0] != fact[0]
        or not (rows[key][1] is fact[1] is None or is_fallback(rows[key][1], fact[1]))
    }
    assert differing == {}


def test_all_libraries_have_facts() -> None:
    assert {*FACTS, OTHERS} == set(LIBRARIES)


def test_facts_of_usd_physics_are_those_of_the_installed_usd() -> None:
    plugin = Plug.Registry().GetPluginWithName("usdPhysics")
    assert read_schemas(Path(plugin.resourcePath) / "generatedSchema.usda") == FACTS["usd_physics"]["schemas"]


def test_facts_of_newton_are_those_of_the_installed_package() -> None:
    package = importlib.metadata.distribution("newton-usd-schemas")
    file = Path(str(package.locate_file("newton_usd_schemas/generatedSchema.usda")))
    assert read_schemas(file) == FACTS["newton"]["schemas"]


def test_other_rows_repeat_no_fact() -> None:
    known = {
        (schema, name)
        for each in FACTS.values()
        for schema, facts in each["schemas"].items()
        for name in facts
    }
    assert [key for key in rows_of(OTHERS) if key in known] == []


def test_codes_are_documented() -> None:
    page = (ROOT / "docs" / "reference" / "diagnostics.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([\w.]+)`", page))
    codes = {each.code for row in ledger().rows for each in row.engines.values()} - {""}
    assert codes - documented == set()


def test_what_is_not_simulated_says_what_happens_instead() -> None:
    treatments = {each for row in ledger().rows for each in row.engines.values() if each.is_degraded}
    assert {each for each in treatments if not each.effect} == set()
    assert {each.effect for each in treatments if each.effect[0].isupper() or each.effect.endswith(".")} == {
        each.effect
        for each in treatments
        if each.effect.startswith(("MuJoCo", "PhysX", "Newton", "URDF", "CoACD"))
    }


def test_what_planning_resolves_is_in_the_ledger() -> None:
    degraded = {
        name: [row.engines["mujoco"].state for row in rows]
        for name in resolved_names()
        if not (rows := ledger().properties(name)) or all(row.engines["mujoco"].is_degraded for row in rows)
    }
    axes = {name for name in degraded if any(f":{axis}:" in name for axis in ("transX", "rotX"))}
    allowed = {
        name.replace("{axis}", axis)
        for by_solver in TABLE.values()
        for found in by_solver.values()
        for name in (each.name for each in found)
        for axis in ("transX", "rotX")
    }
    assert axes <= allowed
    # The states of physxJointAxis' dynamic friction depend on the static one.
    assert {name for name in degraded if "dynamicFriction" not in name} == set()


def test_fallbacks_that_planning_uses_are_those_of_the_schemas() -> None:
    fallbacks = {(row.schema, row.name): row.fallback for row in ledger().rows}
    tables = (
        solver_attributes.SCENE,
        solver_attributes.COLLIDER,
        solver_attributes.MATERIAL,
        solver_attributes.JOINT,
    )
    attributes = [each for table in tables for by_solver in table.values() for each in by_solver.values()]
    compared = 0
    for attribute in attributes:
        for api in attribute.apis:
            # An API that includes another one has its attributes.
            if attribute.fallback is not None and (api, attribute.name) in fallbacks:
                assert is_fallback(attribute.fallback, fallbacks[api, attribute.name]), attribute.name
                compared += 1
    assert compared > 40


def test_names_with_an_instance() -> None:
    (row,) = ledger().properties("physxLimit:rotX:stiffness")
    assert row.name == f"physxLimit:{INSTANCE}:stiffness"
    assert ledger().properties("physxLimit:rotX:nothing") == ()
    found = ledger().schema("PhysxLimitAPI:rotX")
    assert found is not None
    assert found.schema == "PhysxLimitAPI"

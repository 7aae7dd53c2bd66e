"""List what an asset authors about physics, with usd-core alone: nothing here knows what the bridge reads.

    python tools/authored_opinions.py ASSET [--schemas test/assets/schemas]

prints a line of JSON for each opinion: `path`, `property`, `type`, `value`, and `prim_type`. Opinions are

- attributes and relationships of the physics libraries, by their namespace or because a schema of the prim has them;
- API schemas of those libraries, as the property `apiSchemas`, and physics types of prims, as `typeName`.

A value that equals its fallback says nothing and is left out: usd-core knows the fallbacks of UsdPhysics; those of
vendors come from the facts in the folder that `--schemas` names. Prims that no simulation has (classes, inactive
prims, `over` without `def`) are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pxr import Gf, Sdf, Usd

FAMILIES: Final = re.compile(r"(Physics|Physx|Newton|Mjc|OmniPhysics|Isaac)\w*")
"""Names of schemas of physics."""

NAMESPACES: Final = re.compile(
    r"(physics|drive|limit|state|newton|mjc|omniphysics|deformablePose|isaac|physx\w*):.+"
)
"""Names of their properties."""

API_SCHEMAS: Final = "apiSchemas"
TYPE_NAME: Final = "typeName"

_INSTANCE: Final = "{instance}"
_TOLERANCE: Final = 1e-6
"""Relative: a float32 is not exactly what its text says."""

Facts = dict[str, dict[str, list[Any]]]
"""Type and fallback by property, by schema: what tools/schema_facts.py writes."""


def main() -> None:
    """Print the opinions of one asset."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("asset")
    parser.add_argument("--schemas", type=Path, help="folder with the facts of the vendors' schemas")
    parser.add_argument(
        "--fallbacks", action="store_true", help="print the opinions that equal a fallback instead"
    )
    given = parser.parse_args()
    facts = read_facts(given.schemas) if given.schemas else {}
    for opinion, is_fallback in opinions(Usd.Stage.Open(given.asset), facts):
        if is_fallback is given.fallbacks:
            print(json.dumps(opinion))


def read_facts(folder: Path) -> Facts:
    """Return the facts of all schemas in a folder."""
    found: Facts = {}
    for file in sorted(folder.glob("*.json")):
        found.update(json.loads(file.read_text(encoding="utf-8"))["schemas"])
    return found


def opinions(stage: Usd.Stage, facts: Facts) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each opinion of a stage, and whether it equals a fallback."""
    of_names = _by_name(facts)
    for prim in stage.Traverse(Usd.TraverseInstanceProxies()):
        where = {"path": str(prim.GetPath()), "prim_type": prim.GetTypeName()}
        if FAMILIES.fullmatch(prim.GetTypeName()):
            yield {**where, "property": TYPE_NAME, "type": "token", "value": prim.GetTypeName()}, False
        schemas = [str(each) for each in prim.GetPrimTypeInfo().GetAppliedAPISchemas()]
        for schema in filter(FAMILIES.match, schemas):
            yield {**where, "property": API_SCHEMAS, "type": "token", "value": schema}, False
        own = _own_names(prim, schemas, facts)
        for each in prim.GetAuthoredProperties():
            name = each.GetName()
            if (not NAMESPACES.fullmatch(name) and name not in own) or not _is_valued(each):
                continue
            type_name, value = _type_and_value(each)
            opinion = {**where, "property": name, "type": type_name, "value": value}
            yield opinion, _is_fallback(each, value, own.get(name) or of_names(name))


def _own_names(prim: Usd.Prim, schemas: list[str], facts: Facts) -> dict[str, list[Any]]:
    """Return the properties that physics schemas of a prim have, with their facts; none for those of usd-core."""
    found: dict[str, list[Any]] = {}
    registry = Usd.SchemaRegistry()
    for schema in filter(FAMILIES.match, [prim.GetTypeName(), *schemas]):
        name, _, instance = schema.partition(":")
        known = registry.FindConcretePrimDefinition(name) or registry.FindAppliedAPIPrimDefinition(name)
        if known:
            continue
        for each, fact in facts.get(name, {}).items():
            found[each.replace(_INSTANCE, instance)] = fact
    return found


def _by_name(facts: Facts) -> Any:
    """Return what finds the facts of a property whose schema its prim does not have."""
    exact: dict[str, list[Any]] = {}
    patterns = []
    for properties in facts.values():
        for name, fact in properties.items():
            if _INSTANCE in name:
                patterns.append((re.compile(re.escape(name).replace(re.escape(_INSTANCE), r"\w+")), fact))
            else:
                exact.setdefault(name, fact)

    def find(name: str) -> list[Any] | None:
        return exact.get(name) or next((fact for pattern, fact in patterns if pattern.fullmatch(name)), None)

    return find


def _is_valued(each: Usd.Property) -> bool:
    """Return whether a property has an opinion about its value: declarations and blocks have none."""
    if isinstance(each, Usd.Relationship):
        return bool(each.HasAuthoredTargets())
    return bool(each.HasAuthoredValue())


def _type_and_value(each: Usd.Property) -> tuple[str, Any]:
    if isinstance(each, Usd.Relationship):
        return "rel", [str(target) for target in each.GetTargets()]
    value = each.Get() if each.GetNumTimeSamples() == 0 else each.Get(each.GetTimeSamples()[0])
    return str(each.GetTypeName()), plain(value)


def _is_fallback(each: Usd.Property, value: Any, fact: list[Any] | None) -> bool:
    """Return whether an authored value is what its schema gives without it."""
    if isinstance(each, Usd.Relationship):
        return not value
    if each.GetNumTimeSamples() > 1:
        return False
    definition = each.GetPrim().GetPrimDefinition()
    fallback = definition.GetAttributeFallbackValue(each.GetName())
    if fallback is not None:
        return _equal(value, plain(fallback))
    return fact is not None and fact[1] is not None and _equal(value, fact[1])


def plain(value: Any) -> Any:
    """Return a value as JSON has it, quaternions as i, j, k, r."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (Gf.Quatf, Gf.Quatd, Gf.Quath)):
        return [plain(float(each)) for each in (*value.imaginary, value.real)]
    if isinstance(value, Sdf.AssetPath):
        return value.path
    return [plain(each) for each in value]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=_TOLERANCE)
    return bool(one == other)


if __name__ == "__main__":
    main()

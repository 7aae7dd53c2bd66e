"""Extract names, types and fallbacks from generated USD schemas, for the tests of the ledger: facts, no texts.

    python tools/schema_facts.py LIBRARY generatedSchema.usda --source "NVIDIA-Omniverse/PhysX a3d8a641"

writes test/assets/schemas/LIBRARY.json. Without a file, LIBRARY is usd_physics of the installed usd-core.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, Final

from pxr import Gf, Plug, Sdf, Usd

FOLDER: Final = Path(__file__).resolve().parent.parent / "test" / "assets" / "schemas"
INSTANCE: Final = "__INSTANCE_NAME__"
"""How usdGenSchema writes the instance name of a multiple-apply schema."""


def main() -> None:
    """Write the facts of one library."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--source", default="")
    given = parser.parse_args()
    file, source = given.file, given.source
    if file is None:
        plugin = Plug.Registry().GetPluginWithName("usdPhysics")
        file = Path(plugin.resourcePath) / "generatedSchema.usda"
        source = "usd-core " + ".".join(map(str, Usd.GetVersion()[1:]))
    found = {"source": source, "schemas": read_schemas(file)}
    target = FOLDER / f"{given.library}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(_compact(found), encoding="utf-8")
    print(f"{target}: {len(found['schemas'])} schemas, {sum(map(len, found['schemas'].values()))} properties")


def read_schemas(file: Path) -> dict[str, dict[str, list[Any]]]:
    """Return type and fallback by property of each schema of a file; `{instance}` stands for an instance name."""
    of_geometry = _names_of_geometry()
    layer = Sdf.Layer.OpenAsAnonymous(str(file))
    found = {}
    for prim in layer.rootPrims:
        facts = {}
        for each in prim.properties:
            if each.name not in of_geometry:
                name = each.name.replace(INSTANCE, "{instance}")
                is_rel = isinstance(each, Sdf.RelationshipSpec)
                facts[name] = ["rel", None] if is_rel else [str(each.typeName), plain(each.default)]
        found[prim.name] = dict(sorted(facts.items()))
    return dict(sorted(found.items()))


def plain(value: Any) -> Any:
    """Return a fallback as JSON has it; numbers that are not finite as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        # A float32 is written with the digits that tell it from others.
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (Gf.Quatf, Gf.Quatd, Gf.Quath)):
        return [plain(float(each)) for each in (*value.imaginary, value.real)]
    if isinstance(value, Sdf.AssetPath):
        return value.path
    return [plain(each) for each in value]


def _names_of_geometry() -> frozenset[str]:
    """Return the properties of UsdGeom's types, which types of other libraries inherit."""
    registry = Usd.SchemaRegistry()
    types = ("Mesh", "Points", "BasisCurves", "Cube", "Xform", "PointInstancer")
    found = (registry.FindConcretePrimDefinition(name).GetPropertyNames() for name in types)
    return frozenset(name for names in found for name in names)


def _compact(found: dict[str, Any]) -> str:
    """Return JSON with a line for each property."""
    lines = [f'{{\n "source": {json.dumps(found["source"])},\n "schemas": {{']
    schemas = []
    for schema, facts in found["schemas"].items():
        rows = ",\n".join(f"   {json.dumps(name)}: {json.dumps(fact)}" for name, fact in facts.items())
        schemas.append(f"  {json.dumps(schema)}: {{{chr(10) + rows + chr(10) + '  ' if rows else ''}}}")
    return "\n".join([*lines, ",\n".join(schemas), " }\n}\n"])


if __name__ == "__main__":
    main()

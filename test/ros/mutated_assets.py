"""Seeded mutations of every example and test asset, and what the bridge makes of each: run as a child process.

`python mutated_assets.py SEED FIRST LAST` writes a JSON line before and after each mutant: a mutant that ends the
process (OpenUSD, MuJoCo) is the last one that was begun. `python mutated_assets.py SEED NUMBER` keeps one mutant.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from pxr import Sdf, Tf, Usd, Vt

ROOT = Path(__file__).parents[2]
EXAMPLES = (
    "arm/arm.usda", "fleet/fleet.usda", "mujoco_loop/pan_tilt.usda", "rover/rover.usda", "rover/world.usda",
    "arm/arm.usda", "rover/rover.usda",
)  # fmt: skip
BRIDGE_EVERY = 8
MOST_MUTATIONS = 4
TICKS = 12
STEP_NS = 10_000_000
LONGEST_S = 20.0
"""Seconds of CPU that a mutant may take before the time is said: a mutant costs some ten milliseconds."""

HUGE, TINY = 1.7e308, 5e-324
NUMBERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.nan,
    math.inf,
    -math.inf,
    TINY,
    -TINY,
    HUGE,
    -HUGE,
    3.4e38,
    1e-20,
    1e20,
    90.0,
)
INTEGERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31))
STRINGS = (
    "", " ", "/", "//", ".", "..", "~", "[/x]", "[bold red]x", "]", "\x1b]0;owned\x07", "\x1b[2J\x1b[31m", "\x9b31m",
    "\x7f", "a\tb\nc\rd", "\u202egnp.exe", "\u2066x\u2069", "ünïcode", "世界", "👾", "x" * 3000, "{axis}", "%s%n",
    "${HOME}",
    "`id`", "'", '"', "\\", "<&>]]>", "nan", "0", "X", "Y", "Z", "rotX", "linear", "angular", "publisher", "server",
    "sensor_msgs/msg/JointState", "geometry_msgs/msg/Twist", "os/msg/system", "a/b/c", "/clock", "tf", "reliable",
    "robot_description", "keep_all", "transient_local", "match_publisher", "leftHanded", "convexHull", "sdf",
    "invisible",
    "guide", "../../etc/passwd", "package://nothing/x.usda", "package://../x", "file:///dev/null", "a" * 255 + "/b",
)  # fmt: skip
TYPES = (
    "bool", "uchar", "int", "uint", "int64", "uint64", "half", "float", "double", "timecode", "string", "token",
    "asset", "int2", "int3", "half3", "float2", "float3", "double2", "double3", "double4", "point3f", "point3d",
    "normal3f", "vector3f", "color3f", "quath", "quatf", "quatd", "matrix2d", "matrix3d", "matrix4d", "frame4d",
    "texCoord2f", "opaque", "group", "dictionary",
)  # fmt: skip
OPS = (
    "translate",
    "scale",
    "rotateX",
    "rotateZ",
    "rotateXYZ",
    "orient",
    "transform",
    "translate:pivot",
    "nonsense",
    "",
)
SCHEMAS = (
    "RosContextAPI", "RosTopicAPI", "RosServiceAPI", "RosActionAPI", "RosFrameAPI", "RosControlExternalAPI",
    "RosControlJointStateBroadcasterAPI", "RosControlJointTrajectoryAPI", "RosControlDiffDriveAPI",
    "RosControlRigidBodyTwistAPI", "PhysicsRigidBodyAPI", "PhysicsArticulationRootAPI", "PhysicsMassAPI",
    "PhysicsCollisionAPI", "PhysicsMeshCollisionAPI", "PhysicsMaterialAPI", "PhysicsFilteredPairsAPI",
    "PhysicsDriveAPI:angular", "PhysicsDriveAPI:linear", "PhysicsDriveAPI:rotX", "PhysicsDriveAPI:", "PhysicsDriveAPI",
    "PhysicsDriveAPI:a:b", "PhysicsLimitAPI:transX", "PhysicsLimitAPI:distance", "PhysicsLimitAPI:?",
    "PhysicsJointStateAPI:angular", "PhysicsJointStateAPI:linear", "NewtonMimicAPI", "PhysxMimicJointAPI:rotX",
    "IsaacRobotAPI", "IsaacLinkAPI", "IsaacJointAPI", "IsaacSiteAPI", "CollectionAPI:colliders", "CollectionAPI:arm",
    "MaterialBindingAPI", "SkelBindingAPI", "GeomModelAPI", "", "NoSuchAPI", "CollectionAPI:a:b:c",
)  # fmt: skip
PRIM_TYPES = (
    "", "Xform", "Scope", "Cube", "Sphere", "Cylinder", "Capsule", "Cone", "Plane", "Mesh", "Capsule_1", "Cylinder_1",
    "Camera", "Points", "PointInstancer", "BasisCurves", "GeomSubset", "Material", "Shader", "NodeGraph", "SphereLight",
    "PhysicsRevoluteJoint", "PhysicsPrismaticJoint", "PhysicsFixedJoint", "PhysicsSphericalJoint",
    "PhysicsDistanceJoint", "PhysicsJoint", "PhysicsScene", "PhysicsCollisionGroup", "SkelRoot", "Skeleton",
    "NoSuchType",
    "Xformable",
)  # fmt: skip
PRIM_METADATA = (
    "active",
    "hidden",
    "instanceable",
    "kind",
    "displayName",
    "documentation",
    "customData",
    "assetInfo",
    "comment",
    "permission",
    "symmetryFunction",
    "prefixSubstitutions",
    "variantSelection",
    "clips",
    "clipSets",
    "sceneName",
)
LAYER_METADATA = (
    "metersPerUnit", "kilogramsPerUnit", "upAxis", "timeCodesPerSecond", "framesPerSecond", "startTimeCode",
    "endTimeCode", "defaultPrim", "documentation", "customLayerData", "colorConfiguration", "expressionVariables",
    "framePrecision", "subLayerOffsets", "renderSettingsPrimPath", "fallbackPrimTypes",
)  # fmt: skip
PATHS = (
    "/", "/Nowhere", "/Nowhere/at/all", ".", "..", "/Nowhere.attribute", "/World", "/Robot", "/Robot.collection:arm",
    "/Nowhere.collection:colliders",
)  # fmt: skip
PRIM_NAMES = ("x", "tf", "_", "__", "ünï", "世界", "class", "n" * 600, "base_link", "joint_states", "A1")


def assets() -> list[Path]:
    """Return every asset that is mutated, in a fixed order."""
    examples = [ROOT / "examples" / name for name in EXAMPLES]
    return [*examples, *sorted(ROOT.glob("test/assets/*.usda"))]


def all_layers(asset: Path) -> list[Path]:
    """Return the files of an asset's own folder that it is composed from, the asset first."""
    folder = asset.parent.resolve()
    found, pending = [asset], [asset]
    while pending:
        layer = Sdf.Layer.FindOrOpen(str(pending.pop()))
        for dependency in layer.GetCompositionAssetDependencies() if layer else ():
            path = (Path(layer.realPath).parent / dependency).resolve()
            if path.is_file() and folder in path.parents and path not in found:
                found.append(path)
                pending.append(path)
    return found


class Mutator:
    """Change one layer in a few places. Equal seeds change equally."""

    def __init__(self, layer: Any, chance: random.Random) -> None:
        self._layer = layer
        self._random = chance
        self._kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (12, self.retype), (14, self.change_value), (6, self.remove_property), (4, self.block_property),
            (5, self.rename_property), (4, self.copy_property), (14, self.change_ops), (6, self.change_order),
            (12, self.sample), (12, self.retarget), (5, self.exchange_kinds), (10, self.change_schemas),
            (8, self.change_type), (4, self.change_specifier), (4, self.add_variants), (6, self.add_arc),
            (5, self.rename_prim), (5, self.move_prim), (4, self.copy_prim), (4, self.remove_prim),
            (8, self.change_metadata), (5, self.change_layer), (3, self.add_clips), (8, self.add_prim),
            (2, self.relocate), (3, self.add_property), (3, self.change_property_metadata),
        )  # fmt: skip

    def mutate(self) -> str:
        """Do one change that the layer takes, and say what it was."""
        weights, kinds = zip(*self._kinds, strict=True)
        for _ in range(50):
            kind = self._random.choices(kinds, weights)[0]
            try:
                done = kind()
            except (
                Tf.ErrorException,
                TypeError,
                ValueError,
                RuntimeError,
                OverflowError,
                AttributeError,
                LookupError,
            ):
                # Sdf refuses it: no change, another one.
                continue
            if done:
                return f"{kind.__name__}: {done}"
        return "nothing"

    # --- What there is ---

    def _specs(self) -> list[Any]:
        found: list[Any] = []

        def note(path: Any) -> None:
            if path.IsPrimPath() or path.IsPrimVariantSelectionPath():
                spec = self._layer.GetPrimAtPath(path)
                if spec:
                    found.append(spec)

        self._layer.Traverse("/", note)
        return sorted((spec for spec in found if spec.path != Sdf.Path("/")), key=lambda spec: str(spec.path))

    def _prim(self) -> Any:
        return self._random.choice(self._specs())

    def _movable(self) -> Any:
        # Sdf ends the process where the spec that stands for a variant is renamed.
        return self._random.choice([spec for spec in self._specs() if spec.path.IsPrimPath()])

    def _property(self, kind: type = object) -> Any:
        # One prim in all is as likely as any other: large ones do not win.
        prims = [prim for prim in self._specs() if any(isinstance(each, kind) for each in prim.properties)]
        if not prims:
            raise ValueError
        return self._random.choice(
            [each for each in self._random.choice(prims).properties if isinstance(each, kind)]
        )

    def _number(self) -> float:
        return (
            self._random.choice(NUMBERS) if self._random.random() < 0.7 else self._random.uniform(-1e3, 1e3)
        )

    def _name(self) -> str:
        chance = self._random
        names = [each.name for prim in self._specs() for each in prim.properties] or ["x"]
        return chance.choice(
            [chance.choice(names), f"xformOp:{chance.choice(OPS)}", "xformOpOrder", "points"]
        )

    def _path(self) -> Any:
        chance = self._random
        prims = self._specs()
        path = chance.choice(prims).path
        kinds = (
            lambda: path, lambda: path, lambda: path.AppendProperty(self._name()), path.GetParentPath,
            lambda: Sdf.Path(chance.choice(PATHS)), lambda: path.AppendChild("missing"),
            lambda: path.AppendVariantSelection("a", "b"), lambda: path.AppendProperty("rel").AppendTarget("/x"),
            lambda: path.MakeRelativePath(chance.choice(prims).path),
        )  # fmt: skip
        return chance.choice(kinds)()

    def _value(self, type_name: str) -> Any:
        """Return a value, often an odd one, of an Sdf type."""
        chance, number = self._random, self._number
        name = type_name.removesuffix("[]")
        if type_name.endswith("[]"):
            size = chance.choice((0, 1, 2, 3, 4, 9, 5000 if chance.random() < 0.1 else 12))
            default = Sdf.ValueTypeNames.Find(type_name).defaultValue
            return type(default)([self._value(name) for _ in range(size)])
        if name in ("string", "token"):
            return chance.choice(STRINGS) if chance.random() < 0.8 else chance.choice(self._specs()).name
        if name == "asset":
            return Sdf.AssetPath(chance.choice(STRINGS))
        if name == "bool":
            return chance.random() < 0.5
        if name in ("uchar", "int", "uint", "int64", "uint64"):
            return chance.choice(INTEGERS) if name.startswith("int") else abs(chance.choice(INTEGERS)) % 256
        if name in ("half", "float", "double"):
            return number()
        if name == "timecode":
            return Sdf.TimeCode(number())
        default = Sdf.ValueTypeNames.Find(name).defaultValue
        kind = type(default)
        if name.startswith("quat"):
            return kind(number(), number(), number(), number())
        if name.startswith(("matrix", "frame")):
            size = kind.dimension[0]
            return kind(*[number() for _ in range(size * size)])
        if name.startswith("int"):
            return kind(*[chance.choice(INTEGERS) for _ in range(len(default))])
        return kind(*[number() for _ in range(len(default))])

    def _type(self) -> str:
        name = self._random.choice(TYPES)
        return f"{name}[]" if self._random.random() < 0.3 and name not in ("opaque", "group") else name

    def _create(self, prim: Any, name: str, type_name: str) -> Any:
        if name in prim.properties:
            prim.RemoveProperty(prim.properties[name])
        variability = self._random.choice((Sdf.VariabilityVarying, Sdf.VariabilityUniform))
        return Sdf.AttributeSpec(prim, name, Sdf.ValueTypeNames.Find(type_name), variability)

    # --- Properties ---

    def retype(self) -> str:
        """Give an attribute another type, and a value of that."""
        old = self._property(Sdf.AttributeSpec)
        prim, name, type_name = old.owner, old.name, self._type()
        spec = self._create(prim, name, type_name)
        spec.default = self._value(type_name)
        return f"{prim.path}.{name} {type_name} {str(spec.default)[:60]!r}"

    def change_value(self) -> str:
        """Give an attribute another value of its own type, one element of it, or (where Sdf lets it) of another."""
        spec = self._property(Sdf.AttributeSpec)
        value = self._value(str(spec.typeName))
        if self._random.random() < 0.1:
            spec.SetInfo("default", self._value(self._type()))
            return f"{spec.path} (by SetInfo)"
        if (
            isinstance(spec.default, str)
            or not hasattr(spec.default, "__len__")
            or self._random.random() < 0.4
        ):
            spec.default = value
        else:
            elements = list(spec.default)
            place = self._random.randrange(len(elements))
            elements[place] = self._random.choice(
                (elements[place - 1], self._value(str(spec.typeName.scalarType)))
            )
            if self._random.random() < 0.3:
                del elements[place]
            spec.default = type(spec.default)(elements)
        return f"{spec.path} = {str(spec.default)[:60]!r}"

    def remove_property(self) -> str:
        """Remove a property."""
        spec = self._property()
        told = str(spec.path)
        spec.owner.RemoveProperty(spec)
        return told

    def block_property(self) -> str:
        """Block an attribute's value."""
        spec = self._property(Sdf.AttributeSpec)
        spec.default = Sdf.ValueBlock()
        return str(spec.path)

    def rename_property(self) -> str:
        """Rename a property to what another one is called."""
        spec = self._property()
        told, spec.name = str(spec.path), self._name()
        return f"{told} -> {spec.name}"

    def copy_property(self) -> str:
        """Copy a property to another prim."""
        spec, prim = self._property(), self._prim()
        Sdf.CopySpec(self._layer, spec.path, self._layer, prim.path.AppendProperty(spec.name))
        return f"{spec.path} -> {prim.path}"

    def add_property(self) -> str:
        """Add a property whose name means something."""
        prim, name, type_name = self._prim(), self._name(), self._type()
        self._create(prim, name, type_name).default = self._value(type_name)
        return f"{prim.path}.{name} {type_name}"

    def change_property_metadata(self) -> str:
        """Change what is said of a property."""
        spec = self._property()
        key = self._random.choice(
            ("interpolation", "elementSize", "custom", "displayName", "colorSpace", "allowedTokens")
        )
        spec.SetInfo(key, self._value(self._type()))
        return f"{spec.path} {key}"

    def exchange_kinds(self) -> str:
        """Make a relationship of an attribute, or an attribute of a relationship."""
        spec = self._property()
        prim, name = spec.owner, spec.name
        if isinstance(spec, Sdf.AttributeSpec):
            prim.RemoveProperty(spec)
            Sdf.RelationshipSpec(prim, name).targetPathList.explicitItems = [self._path()]
        else:
            type_name = self._type()
            self._create(prim, name, type_name).default = self._value(type_name)
        return f"{prim.path}.{name}"

    def sample(self) -> str:
        """Give an attribute time samples, of its own type, of any, or blocks."""
        chance = self._random
        spec = self._property(Sdf.AttributeSpec)
        if chance.random() < 0.3:
            name, type_name = spec.name, self._type()
            spec = self._create(spec.owner, name, type_name)
        same = chance.random() < 0.7
        for _ in range(chance.choice((1, 2, 3, 8))):
            at = chance.choice((0.0, 1.0, 2.0, -5.0, 1e300, TINY, chance.uniform(-10, 10), self._number()))
            value = self._value(str(spec.typeName) if same else self._type())
            self._layer.SetTimeSample(spec.path, at, Sdf.ValueBlock() if chance.random() < 0.1 else value)
        return f"{spec.path} ({spec.typeName})"

    def retarget(self) -> str:
        """Give a relationship other targets, or take them away."""
        chance = self._random
        spec = self._property(Sdf.RelationshipSpec)
        targets = [self._path() for _ in range(chance.choice((0, 1, 1, 1, 2, 5)))]
        items = chance.choice(
            ("explicitItems", "prependedItems", "appendedItems", "deletedItems", "addedItems")
        )
        if items == "explicitItems":
            spec.targetPathList.ClearEditsAndMakeExplicit()
        setattr(spec.targetPathList, items, list(dict.fromkeys(targets)))
        return f"{spec.path} {items} {[str(each) for each in targets]}"

    # --- Transforms ---

    def change_ops(self) -> str:
        """Add a transform op of any type, in the order or not."""
        chance, prim = self._random, self._prim()
        name = f"xformOp:{chance.choice(OPS[:-2] if chance.random() < 0.9 else OPS)}"
        kinds = (
            "float",
            "double",
            "float3",
            "double3",
            "quatf",
            "quatd",
            "quath",
            "matrix4d",
            "half3",
            "float3[]",
        )
        type_name = chance.choice(kinds) if chance.random() < 0.8 else self._type()
        spec = self._create(prim, name, type_name)
        if chance.random() < 0.3:
            for at in (0.0, 1.0):
                self._layer.SetTimeSample(spec.path, at, self._value(type_name))
        else:
            spec.default = self._value(type_name)
        return f"{prim.path}.{name} {type_name}{self._order(prim, name)}"

    def change_order(self) -> str:
        """Write nonsense into xformOpOrder."""
        prim = self._prim()
        return f"{prim.path}{self._order(prim, f'xformOp:{self._random.choice(OPS)}')}"

    def _order(self, prim: Any, name: str) -> str:
        chance = self._random
        old = prim.properties["xformOpOrder"].default if "xformOpOrder" in prim.properties else ()
        order = [str(each) for each in old] if isinstance(old, Vt.TokenArray) else []
        odd = (
            name,
            f"!invert!{name}",
            "!resetXformStack!",
            "",
            "!invert!",
            *order,
            *STRINGS[:12],
            "!invert!!invert!x",
        )
        if chance.random() < 0.8:
            order.insert(chance.randint(0, len(order)), name)
        for _ in range(chance.choice((0, 0, 0, 1, 3))):
            order.insert(chance.randint(0, len(order)), chance.choice(odd))
        type_name = "token[]" if chance.random() < 0.9 else self._type()
        spec = self._create(prim, "xformOpOrder", type_name)
        if type_name != "token[]":
            spec.default = self._value(type_name)
        elif chance.random() < 0.05:
            self._layer.SetTimeSample(spec.path, 1.0, Vt.TokenArray(order))
        else:
            spec.default = Vt.TokenArray(order)
        return f" {type_name} {order}"[:200]

    # --- Prims ---

    def change_schemas(self) -> str:
        """Apply schemas, repeat them, take them away."""
        chance, prim = self._random, self._prim()
        old = prim.GetInfo("apiSchemas")
        names = list(old.GetAddedOrExplicitItems()) if old else []
        if names and chance.random() < 0.3:
            names.remove(chance.choice(names))
        names += [chance.choice(SCHEMAS) for _ in range(chance.choice((0, 1, 1, 2, 6)))]
        listed = Sdf.TokenListOp.CreateExplicit(list(dict.fromkeys(names)))
        if chance.random() < 0.5:
            listed = Sdf.TokenListOp.Create(list(dict.fromkeys(names)))
        prim.SetInfo("apiSchemas", listed)
        return f"{prim.path} {names}"

    def change_type(self) -> str:
        """Give a prim another type."""
        prim = self._prim()
        prim.typeName = self._random.choice(PRIM_TYPES)
        return f"{prim.path} {prim.typeName!r}"

    def change_specifier(self) -> str:
        """Make an over or a class of a prim, or define it."""
        prim = self._prim()
        prim.specifier = self._random.choice((Sdf.SpecifierOver, Sdf.SpecifierClass, Sdf.SpecifierDef))
        return f"{prim.path} {prim.specifier}"

    def add_variants(self) -> str:
        """Add a variant set, and select what it has or what it has not."""
        chance, prim = self._random, self._prim()
        source, path, name = self._prim(), prim.path, chance.choice(("sensor", "v", "x_1"))
        variant = Sdf.CreateVariantInLayer(self._layer, path, name, "a")
        self._layer.GetPrimAtPath(path).variantSelections[name] = chance.choice(("a", "b", ""))
        child = Sdf.CreatePrimInLayer(self._layer, variant.path.AppendChild("added"))
        child.specifier, child.typeName = Sdf.SpecifierDef, chance.choice(PRIM_TYPES)
        for each in source.properties:
            Sdf.CopySpec(self._layer, each.path, self._layer, child.path.AppendProperty(each.name))
        return f"{path} {name}"

    def add_arc(self) -> str:
        """Reference, inherit, specialize or sublayer something: itself, what carries it, what is not there."""
        chance, prim, path = self._random, self._prim(), self._path()
        offset = Sdf.LayerOffset(self._number(), self._number())
        asset = chance.choice(("", "", "", chance.choice(STRINGS), Path(self._layer.identifier).name))
        kind = chance.choice(("reference", "payload", "inherit", "specialize", "sublayer"))
        if kind == "reference":
            prim.referenceList.prependedItems = [Sdf.Reference(asset, path, offset)]
        elif kind == "payload":
            prim.payloadList.prependedItems = [Sdf.Payload(asset, path, offset)]
        elif kind == "sublayer":
            self._layer.subLayerPaths.append(asset or "missing.usda")
        else:
            getattr(prim, f"{'inherit' if kind == 'inherit' else 'specializes'}PathList" if kind == "inherit" else
                    "specializesList").prependedItems = [path]  # fmt: skip
        if chance.random() < 0.4:
            prim.instanceable = True
        return f"{prim.path} {kind} @{asset[:40]}@<{path}>"

    def relocate(self) -> str:
        """Relocate a prim."""
        source, target = self._prim().path, self._prim().path.AppendChild("moved")
        self._layer.relocates = [(source, target)]
        return f"{source} -> {target}"

    def rename_prim(self) -> str:
        """Rename a prim."""
        prim = self._movable()
        told, prim.name = str(prim.path), self._random.choice(PRIM_NAMES)
        return f"{told} -> {prim.name[:20]}"

    def move_prim(self) -> str:
        """Move a prim below another."""
        prim, parent = self._movable(), self._movable()
        edit = Sdf.BatchNamespaceEdit()
        edit.Add(prim.path, parent.path.AppendChild(prim.name))
        return f"{prim.path} -> {parent.path}" if self._layer.Apply(edit) else ""

    def copy_prim(self) -> str:
        """Copy a prim, with all below it, to another place."""
        prim, parent = self._movable(), self._movable()
        if parent.path.HasPrefix(prim.path) or len(self._specs()) > 300:
            return ""
        target = parent.path.AppendChild(self._random.choice((prim.name, "copied")))
        return f"{prim.path} -> {target}" if Sdf.CopySpec(self._layer, prim.path, self._layer, target) else ""

    def remove_prim(self) -> str:
        """Remove a prim."""
        prim = self._movable()
        told = str(prim.path)
        edit = Sdf.BatchNamespaceEdit()
        edit.Add(prim.path, Sdf.Path.emptyPath)
        return told if self._layer.Apply(edit) and self._specs() else ""

    def add_prim(self) -> str:
        """Add a prim of any type and schema, and give it values of the attributes that its definition has."""
        chance, parent = self._random, self._prim()
        prim = Sdf.PrimSpec(
            parent, f"added_{chance.randrange(1000)}", Sdf.SpecifierDef, chance.choice(PRIM_TYPES)
        )
        schemas = [chance.choice(SCHEMAS) for _ in range(chance.choice((0, 1, 2)))]
        prim.SetInfo("apiSchemas", Sdf.TokenListOp.CreateExplicit(list(dict.fromkeys(schemas))))
        registry = Usd.SchemaRegistry()
        definition = registry.BuildComposedPrimDefinition(prim.typeName, [each for each in schemas if each])
        for name in definition.GetPropertyNames():
            if chance.random() < 0.4:
                attribute = definition.GetAttributeDefinition(name)
                if attribute:
                    type_name = str(attribute.GetTypeName()) if chance.random() < 0.8 else self._type()
                    self._create(prim, name, type_name).default = self._value(type_name)
                else:
                    Sdf.RelationshipSpec(prim, name).targetPathList.explicitItems = [self._path()]
        return f"{prim.path} {prim.typeName} {schemas}"

    # --- Metadata ---

    def change_metadata(self) -> str:
        """Give a prim's metadata a value of any kind."""
        chance, prim, key = self._random, self._prim(), self._random.choice(PRIM_METADATA)
        value = chance.choice(
            (True, False, self._value(self._type()), {"a": self._value(self._type())}, chance.choice(STRINGS))
        )
        prim.SetInfo(key, value)
        return f"{prim.path} {key} {str(value)[:40]!r}"

    def change_layer(self) -> str:
        """Give the layer's metadata a value of any kind."""
        chance, key = self._random, self._random.choice(LAYER_METADATA)
        numbers = (
            "metersPerUnit",
            "kilogramsPerUnit",
            "timeCodesPerSecond",
            "framesPerSecond",
            "startTimeCode",
            "endTimeCode",
        )
        value = self._number() if key in numbers and chance.random() < 0.8 else self._value(self._type())
        self._layer.pseudoRoot.SetInfo(key, value)
        return f"{key} {str(value)[:40]!r}"

    def add_clips(self) -> str:
        """Give a prim value clips that make no sense."""
        chance, prim = self._random, self._prim()
        clips = {
            "assetPaths": Sdf.AssetPathArray([Sdf.AssetPath(chance.choice(STRINGS)) for _ in range(2)]),
            "manifestAssetPath": Sdf.AssetPath(Path(self._layer.identifier).name),
            "primPath": chance.choice((str(prim.path), *PATHS)),
            "active": Vt.Vec2dArray([(self._number(), self._number())]),
            "times": Vt.Vec2dArray([(self._number(), self._number()), (0, 0)]),
            "templateAssetPath": "x.#.usda", "templateStartTime": self._number(), "templateEndTime": self._number(),
            "templateStride": self._number(), "interpolateMissingClipValues": True,
        }  # fmt: skip
        kept = {key: value for key, value in clips.items() if chance.random() < 0.6 and "template" not in key}
        prim.SetInfo("clips", {"default": kept})
        return f"{prim.path} {list(kept)}"


def make_mutant(seed: int, number: int, folder: Path) -> tuple[Path, list[str]]:
    """Write mutant `number` of a seed into a folder; return the asset and what was changed in which file."""
    chance = random.Random(f"{seed}/{number}")
    found = assets()
    asset = found[number % len(found)]
    layers = all_layers(asset)
    victim = chance.choice(layers)
    for each in asset.parent.iterdir():
        (folder / each.name).symlink_to(each)
    inside = victim.relative_to(asset.parent.resolve()) if victim != asset else Path(asset.name)
    for depth in range(1, len(inside.parts)):
        # Folders on the way to the file that is changed are folders of the copy.
        part = folder.joinpath(*inside.parts[:depth])
        part.unlink()
        part.mkdir()
        for each in asset.parent.joinpath(*inside.parts[:depth]).iterdir():
            (part / each.name).symlink_to(each)
    target = folder / inside
    target.unlink()
    layer = Sdf.Layer.CreateNew(str(target))
    layer.TransferContent(Sdf.Layer.FindOrOpen(str(victim)))
    mutator = Mutator(layer, chance)
    done = [f"{inside}: {mutator.mutate()}" for _ in range(chance.randint(1, MOST_MUTATIONS))]
    layer.Save()
    return folder / asset.name, done


# --- What the bridge makes of it ----------------------------------------------------------------------------------


def stages_of(asset: Path, number: int, meshes: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is done with an asset, in turn, by name."""
    from usd_ros_bridge.api import load_plan
    from usd_ros_bridge.cli.views import TerminalConsole, print_plan
    from usd_ros_bridge.errors import BridgeError
    from usd_ros_bridge.export.mesh_files import MeshCache
    from usd_ros_bridge.export.plan_json import plan_summary_text, plan_to_json
    from usd_ros_bridge.export.urdf import UrdfExporter

    plans: list[Any] = []

    def load() -> None:
        try:
            plans.append(load_plan(str(asset), physics=True))
        except BridgeError:
            # The root layer cannot be opened: that is the caller's fault, in one line.
            return

    def text() -> None:
        out = StringIO()
        print_plan(plans[0], TerminalConsole(file=out, width=200))
        shown = out.getvalue()
        raw = {each for each in shown if not each.isprintable()} - {"\n"}
        assert not raw, f"raw characters in inspect: {sorted(raw)!r}"

    def as_json() -> None:
        json.dumps(plan_to_json(plans[0]), allow_nan=False)
        plan_summary_text(plans[0])

    def urdf() -> None:
        import xml.etree.ElementTree as ElementTree

        exporter = UrdfExporter(plans[0], meshes=MeshCache(meshes))
        for robot in range(len(plans[0].robots)):
            ElementTree.fromstring(exporter.robot(robot).text)

    def bridge(backend: str) -> None:
        from usd_ros_bridge import Bridge, BridgeOptions

        with Bridge(
            plans[0],
            backend,
            options=BridgeOptions(handlers=()),
            report=lambda *_: None,
            inform=lambda *_: None,
        ) as live:
            for tick in range(TICKS):
                live.step(tick * STEP_NS)
            live.status()

    yield "load", load
    if plans:
        yield "inspect", text
        yield "json", as_json
        yield "urdf", urdf
        if number % BRIDGE_EVERY == 0:
            yield "kinematic", lambda: bridge("kinematic")
            yield "mujoco", lambda: bridge("mujoco")
        codes = {each.code for each in plans[0].diagnostics}
        yield "net", lambda: net(plans[0], codes)


def net(plan: Any, codes: set[str]) -> None:
    """Fail where something was caught by the net, and not where it belongs."""
    if "internal" in codes:
        raise AssertionError("; ".join(each.message for each in plan.diagnostics if each.code == "internal"))


def where_raised(error: BaseException) -> str:
    """Return the innermost lines of the bridge's own code that an exception went through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "usd_ros_bridge/" in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}:{frame.name}" for frame in own[:-4:-1])


def examine(seed: int, number: int, folder: Path, told: Callable[[Any], None]) -> dict[str, Any]:
    """Take one mutant through everything; return what went wrong, by what was done."""
    asset, done = make_mutant(seed, number, folder)
    told({"made": number, "done": done})
    failures = {}
    begin = time.process_time()
    for name, job in stages_of(asset, number, folder / "meshes"):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                job()
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                said = " ".join(str(error).split())[:300]
                failures[name] = f"{type(error).__name__} at {where_raised(error)}: {said}"
        for each in warned:
            if issubclass(each.category, RuntimeWarning):
                failures[f"{name} warning"] = f"{each.message} at {Path(each.filename).name}:{each.lineno}"
    spent = time.process_time() - begin
    if spent > LONGEST_S:
        failures["time"] = f"{spent:.1f} s"
    return {"number": number, "asset": asset.name, "failures": failures}


def main() -> None:
    """Examine mutants, one JSON line each."""
    seed, first = int(sys.argv[1]), int(sys.argv[2])
    out = os.fdopen(os.dup(1), "w")

    def told(line: Any) -> None:
        print(json.dumps(line), file=out, flush=True)

    # What OpenUSD and MuJoCo print is not what is asked for.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    if len(sys.argv) > 3:
        os.dup2(quiet, 2)
    for number in range(first, int(sys.argv[3]) if len(sys.argv) > 3 else first + 1):
        told({"begin": number})
        folder = Path(tempfile.mkdtemp(prefix="mutant"))
        try:
            told(examine(seed, number, folder, told))
        finally:
            if len(sys.argv) > 3:
                shutil.rmtree(folder)
            else:
                print(folder, file=out)


if __name__ == "__main__":
    main()

"""Scaffold layers: survey a stage for its scaffold, and write that as a layer that composes over the asset.

The survey finds Xforms that may be links, and names that are taken. The asset stays as it is.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.scaffold import JointFrame, Opinion, PlainXform, Property, Scaffold, Survey
from usd_ros_bridge.options import VariantSelection
from usd_ros_bridge.usd.open import author_selections
from usd_ros_bridge.usd.packages import URI_PREFIX
from usd_ros_bridge.usd.read.composition import is_behind_payload
from usd_ros_bridge.usd.read.properties import PREDICATE
from usd_ros_bridge.usd.read.stage_reader import PARTS_OF_A_LINK

_CONTAINER = "Xform"
_JOINT_NAME = "ros:joint:name"
_VALUES = {"quatf": Gf.Quatf, "int2": Gf.Vec2i}
"""Types whose values OpenUSD does not make of tuples."""


def survey(stage: Usd.Stage, robots: Collection[str]) -> Survey:
    """Survey a stage.

    Args:
        stage: The stage, payloads loaded.
        robots: Prim paths of the robots' roots.
    """
    ros: Counter[str] = Counter()
    closed, named, articulation_roots = set(), set(), set()
    empty: dict[str, PlainXform] = {}
    has_physics_scene = False
    for prim in stage.Traverse(PREDICATE):
        path = str(prim.GetPath())
        # Schemas that no plug-in registers are in the metadata alone.
        schemas = prim.GetAppliedSchemas() or ()
        ros.update(
            schema.partition(":")[0] for schema in {*schemas, *_applied(prim)} if schema.startswith("Ros")
        )
        has_physics_scene = has_physics_scene or prim.IsA(UsdPhysics.Scene)
        if "PhysicsArticulationRootAPI" in schemas:
            articulation_roots.add(path)
        if prim.IsInstance() or prim.IsInstanceProxy():
            closed.add(path)
        if prim.HasAttribute(_JOINT_NAME) and prim.GetAttribute(_JOINT_NAME).HasAuthoredValue():
            named.add(path)
        if _may_be_link(prim, schemas):
            empty[path] = PlainXform(path=path, display_name=str(prim.GetDisplayName()))
        elif prim.IsA(UsdGeom.Gprim) or _is_unloaded(prim):
            _drop_owner(prim, empty)
    return Survey(
        ros_prims=dict(sorted(ros.items())),
        xforms=tuple(empty.values()),
        children={path: children_of(stage, path) for path in robots},
        closed=frozenset(closed),
        named_joints=frozenset(named),
        payload_roots=frozenset(
            path for path in robots if _has_payload_with_joints(stage.GetPrimAtPath(path))
        ),
        creators={path: _creators(stage.GetPrimAtPath(path)) for path in robots},
        default_prim=str(stage.GetDefaultPrim().GetPath()) if stage.GetDefaultPrim() else "",
        articulation_roots=frozenset(articulation_roots),
        root_prims=frozenset(prim.GetName() for prim in stage.GetPseudoRoot().GetAllChildren()),
        has_physics_scene=has_physics_scene,
        meters=UsdGeom.GetStageMetersPerUnit(stage),
        kilograms=UsdPhysics.GetStageKilogramsPerUnit(stage),
        up_axis=str(UsdGeom.GetStageUpAxis(stage)),
    )


def frames_in(stage: Usd.Stage, body: str, joints: Mapping[str, int]) -> dict[str, JointFrame]:
    """Return the frames of joints in a body, where the authored transforms have them.

    Args:
        stage: The stage.
        body: Prim path of the body, or of another Xform.
        joints: By path of a joint: the end (0 or 1) that says where the joint is.
    """
    cache = UsdGeom.XformCache(Usd.TimeCode.EarliestTime())
    body_from_world = cache.GetLocalToWorldTransform(stage.GetPrimAtPath(body)).GetInverse()
    found = {}
    for path, end in joints.items():
        joint = UsdPhysics.Joint(stage.GetPrimAtPath(path))
        targets, position, rotation = (
            (joint.GetBody1Rel().GetTargets(), joint.GetLocalPos1Attr().Get(), joint.GetLocalRot1Attr().Get())
            if end
            else (
                joint.GetBody0Rel().GetTargets(),
                joint.GetLocalPos0Attr().Get(),
                joint.GetLocalRot0Attr().Get(),
            )
        )
        world_from_end = cache.GetLocalToWorldTransform(stage.GetPrimAtPath(targets[0]))
        body_from_end = world_from_end * body_from_world
        turned = body_from_end.RemoveScaleShear().ExtractRotationQuat() * Gf.Quatd(rotation)
        turned.Normalize()
        found[path] = JointFrame(
            position=tuple(body_from_end.Transform(Gf.Vec3d(position))),
            rotation=(turned.GetReal(), *turned.GetImaginary()),
        )
    return found


_MIMICS = re.compile(
    r"newton:mimicJoint|mjc:target|ext_physics:mimic:joint|physxMimicJoint:\w+:referenceJoint"
)
"""Relationships of mimic rules."""


def followers_in(stage: Usd.Stage) -> frozenset[str]:
    """Return the joints that name another one to follow; gears, which are prims of their own, are not among them."""
    joints = (prim for prim in stage.Traverse(PREDICATE) if prim.IsA(UsdPhysics.Joint))
    return frozenset(
        str(prim.GetPath())
        for prim in joints
        if any(_MIMICS.fullmatch(name) for name in prim.GetAuthoredPropertyNames())
    )


def pose_in(stage: Usd.Stage, outer: str, inner: str) -> JointFrame:
    """Return the pose of the prim `inner` in the prim `outer`, in the units of that one."""
    cache = UsdGeom.XformCache(Usd.TimeCode.EarliestTime())
    world_from_inner = cache.GetLocalToWorldTransform(stage.GetPrimAtPath(inner))
    relative = world_from_inner * cache.GetLocalToWorldTransform(stage.GetPrimAtPath(outer)).GetInverse()
    turned = relative.RemoveScaleShear().ExtractRotationQuat()
    turned.Normalize()
    return JointFrame(
        position=tuple(relative.ExtractTranslation()), rotation=(turned.GetReal(), *turned.GetImaginary())
    )


@contextmanager
def authored(stage: Usd.Stage, opinions: Iterable[Opinion]) -> Iterator[None]:
    """Put opinions on a stage's session layer for a while."""
    layer = Sdf.Layer.CreateAnonymous(SUFFIX)
    for opinion in opinions:
        _write(layer, opinion)
    session = stage.GetSessionLayer()
    session.subLayerPaths.append(layer.identifier)
    try:
        yield
    finally:
        session.subLayerPaths.remove(layer.identifier)


def _creators(prim: Usd.Prim) -> tuple[str, ...]:
    """Return what made the layers with opinions about a prim, as converters note in them, the strongest first."""
    layers = dict.fromkeys(spec.layer for spec in prim.GetPrimStack())
    found = (layer.customLayerData.get("creator") for layer in layers)
    return tuple(creator for creator in found if isinstance(creator, str))


def _applied(prim: Usd.Prim) -> Collection[str]:
    authored = prim.GetMetadata("apiSchemas")
    return authored.GetAppliedItems() if authored else ()


def _may_be_link(prim: Usd.Prim, schemas: Collection[str]) -> bool:
    return (
        prim.GetTypeName() == _CONTAINER
        and "PhysicsRigidBodyAPI" not in schemas
        and not prim.IsInstance()
        and not prim.IsInstanceProxy()
        and not UsdGeom.Xformable(prim).GetResetXformStack()
    )


def _drop_owner(prim: Usd.Prim, empty: dict[str, PlainXform]) -> None:
    """Remove the Xforms whose own geometry a prim is: those between it and the nearest body.

    A prim with a scope called `visual` or `collision` is a link (REP 0158 section 1.3.2), as those above it may be.
    """
    parent = prim.GetParent()
    while parent and not parent.HasAPI(UsdPhysics.RigidBodyAPI):
        empty.pop(str(parent.GetPath()), None)
        if parent.GetName().lower() in PARTS_OF_A_LINK:
            return
        parent = parent.GetParent()


def _is_unloaded(prim: Usd.Prim) -> bool:
    return prim.HasAuthoredPayloads() and not prim.IsLoaded()


def children_of(stage: Usd.Stage, path: str) -> frozenset[str]:
    """Return the names of a prim's children, inactive ones included."""
    return frozenset(_children(stage, path))


def _children(stage: Usd.Stage, path: str) -> Iterator[str]:
    for child in stage.GetPrimAtPath(path).GetAllChildren():
        if child.IsDefined():
            yield str(child.GetName())


def _has_payload_with_joints(root: Usd.Prim) -> bool:
    """Return whether a robot's root has a payload that defines all links and joints below it."""
    if not root.HasAuthoredPayloads():
        return False
    physics = [p for p in Usd.PrimRange(root) if p.IsA(UsdPhysics.Joint) or p.HasAPI(UsdPhysics.RigidBodyAPI)]
    return bool(physics) and all(is_behind_payload(prim) for prim in physics if prim != root)


SUFFIX = ".usda"


def layer_text(
    scaffold: Scaffold,
    stage: Usd.Stage,
    *,
    asset: str,
    output: Path,
    sublayer: bool = True,
    variants: Iterable[VariantSelection] = (),
) -> str:
    """Return a scaffold as the text of a layer.

    Args:
        scaffold: Content of the layer.
        stage: The asset, opened: the layer has its units, axes and default prim.
        asset: How the caller names the asset.
        output: Where the layer will be.
        sublayer: Whether the layer brings the asset along; without, it is for the asset's own sublayers.
        variants: Selections that the layer makes, because its content holds for them.
    """
    layer = Sdf.Layer.CreateAnonymous(SUFFIX)
    _write_metadata(layer, stage)
    if not stage.GetDefaultPrim():
        _name_default_prim(layer, scaffold)
    has_interfaces = any(schema.startswith("Ros") for each in scaffold.opinions for schema in each.schemas)
    content = "Physics"
    if has_interfaces:
        content = "ROS interfaces (REP 0158 section 2) and controllers (section 4.2.3)"
    elif scaffold.vendor:
        content = f"Proprietary layer (REP 0158 section 1.4): attributes of {scaffold.vendor}, of the joints"
    layer.documentation = f"{content} of {Path(asset).name}."
    path = _path_from(output, asset, stage)
    if scaffold.inner:
        _reference(layer, path, scaffold.inner, stage)
    elif sublayer:
        layer.subLayerPaths.append(path)
    author_selections(layer, (_moved(selection, scaffold.inner, stage) for selection in variants))
    for opinion in scaffold.opinions:
        _write(layer, opinion)
    text: str = layer.ExportToString()
    return text


def check_output(output: Path) -> None:
    """Check where a layer is to go.

    Raises:
        OptionError: It is no .usda file, or in no directory.
    """
    if output.suffix != SUFFIX:
        raise OptionError(
            f"{output}: layers that bear schemas are ASCII (REP 0158 section 1.2.1): name a .usda file"
        )
    if not os.path.isdir(output.parent):  # noqa: PTH112 - false for what is no name
        raise OptionError(f"{output}: no such directory as {str(output.parent)!r}")


def _path_from(output: Path, asset: str, stage: Usd.Stage) -> str:
    if asset.startswith(URI_PREFIX):
        return asset
    root = stage.GetRootLayer().realPath or asset
    path = Path(os.path.relpath(root, output.absolute().parent)).as_posix()
    # OpenUSD takes a path without ./ for one of its search path.
    return path if path.startswith("../") else f"./{path}"


def _write_metadata(layer: Any, stage: Usd.Stage) -> None:
    root = stage.GetRootLayer()
    default = stage.GetDefaultPrim()
    if default:
        layer.defaultPrim = default.GetName()
    pseudo = layer.pseudoRoot
    for key in ("metersPerUnit", "upAxis"):
        if root.pseudoRoot.HasInfo(key):
            pseudo.SetInfo(key, root.pseudoRoot.GetInfo(key))
    # 1 is what nothing authored means, and what REP 0158 section 1.1 wants to see.
    kilograms = (
        root.pseudoRoot.GetInfo("kilogramsPerUnit") if root.pseudoRoot.HasInfo("kilogramsPerUnit") else 1.0
    )
    pseudo.SetInfo("kilogramsPerUnit", kilograms)
    # Sublayers with another number of time codes in a second are scaled as they compose.
    codes = root.timeCodesPerSecond
    layer.timeCodesPerSecond = 1.0
    if root.HasStartTimeCode():
        layer.startTimeCode = root.startTimeCode / codes
    if root.HasEndTimeCode():
        layer.endTimeCode = root.endTimeCode / codes


def _name_default_prim(layer: Any, scaffold: Scaffold) -> None:
    """Make the robot the default prim, which an asset must have (REP 0158 section 1.2.5), where there is just one."""
    robots = [opinion.path for opinion in scaffold.opinions if "RosContextAPI" in opinion.schemas]
    if len(robots) == 1 and robots[0].count("/") == 1:
        layer.defaultPrim = robots[0][1:]


def _reference(layer: Any, path: str, inner: str, stage: Usd.Stage) -> None:
    """Refer to the asset's default prim one level down, and to its other root prims where they are."""
    default = stage.GetDefaultPrim()
    root = Sdf.CreatePrimInLayer(layer, default.GetPath())
    root.specifier, root.typeName = Sdf.SpecifierDef, "Xform"
    # The asset is a component as a rule: what contains it is none (REP 0158 section 1.2.2).
    root.SetInfo("kind", "assembly")
    if default.HasAuthoredAssetInfo():
        root.SetInfo("assetInfo", default.GetAssetInfo())
    spec = Sdf.CreatePrimInLayer(layer, inner)
    spec.specifier = Sdf.SpecifierDef
    spec.referenceList.prependedItems = [Sdf.Reference(path)]
    for prim in stage.GetPseudoRoot().GetChildren():
        if prim != default:
            other = Sdf.CreatePrimInLayer(layer, prim.GetPath())
            other.specifier = Sdf.SpecifierDef
            other.referenceList.prependedItems = [Sdf.Reference(path, prim.GetPath())]
    _keep_targets_outside(layer, default, Sdf.Path(inner))


def _keep_targets_outside(layer: Any, default: Usd.Prim, inner: Sdf.Path) -> None:
    """Author relationships that lead out of the default prim: a reference keeps those within alone."""
    root = default.GetPath()
    for prim in Usd.PrimRange(default):
        for relationship in prim.GetRelationships():
            outside = [each for each in relationship.GetTargets() if not each.HasPrefix(root)]
            if not outside:
                continue
            over = Sdf.CreatePrimInLayer(layer, prim.GetPath().ReplacePrefix(root, inner))
            spec = Sdf.RelationshipSpec(over, relationship.GetName(), custom=relationship.IsCustom())
            spec.targetPathList.prependedItems = outside


def _moved(selection: VariantSelection, inner: str, stage: Usd.Stage) -> VariantSelection:
    root = str(stage.GetDefaultPrim().GetPath()) if inner else ""
    if not inner or not (selection.prim_path + "/").startswith(root + "/"):
        return selection
    return replace(selection, prim_path=inner + selection.prim_path[len(root) :])


def _write(layer: Any, opinion: Opinion) -> None:
    spec = Sdf.CreatePrimInLayer(layer, opinion.path)
    if opinion.define:
        spec.specifier = Sdf.SpecifierDef
        spec.typeName = opinion.define
    if opinion.schemas or opinion.removed_schemas:
        schemas = Sdf.TokenListOp.Create(
            prependedItems=list(opinion.schemas), deletedItems=list(opinion.removed_schemas)
        )
        spec.SetInfo("apiSchemas", schemas)
    for each in opinion.properties:
        _write_property(spec, each)


def _write_property(spec: Any, authored: Property) -> None:
    if authored.type_name == "rel":
        relationship = spec.relationships.get(authored.name) or Sdf.RelationshipSpec(
            spec, authored.name, authored.custom
        )
        targets = [Sdf.Path(path) for path in authored.value]
        edits = relationship.targetPathList
        if authored.prepended:
            edits.prependedItems = [*targets, *(each for each in edits.prependedItems if each not in targets)]
        else:
            edits.ClearEditsAndMakeExplicit()
            edits.explicitItems = targets
        return
    variability = Sdf.VariabilityUniform if authored.uniform else Sdf.VariabilityVarying
    attribute = Sdf.AttributeSpec(
        spec, authored.name, Sdf.ValueTypeNames.Find(authored.type_name), variability, authored.custom
    )
    make = _VALUES.get(authored.type_name)
    attribute.default = authored.value if make is None else make(*authored.value)

"""Survey a stage for a scaffold: Xforms that may be links, and names that are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from pxr import Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.model.scaffold import PlainXform, Survey
from usd_ros_bridge.usd.read.composition import is_behind_payload
from usd_ros_bridge.usd.read.properties import PREDICATE

_CONTAINER = "Xform"
_OF_A_LINK = frozenset({"visual", "visuals", "collision", "collisions"})
_JOINT_NAME = "ros:joint:name"


def survey(stage: Usd.Stage, robots: Collection[str]) -> Survey:
    """Survey a stage.

    Args:
        stage: The stage, payloads loaded.
        robots: Prim paths of the robots' roots.
    """
    ros: Counter[str] = Counter()
    closed, named = set(), set()
    empty: dict[str, PlainXform] = {}
    for prim in stage.Traverse(PREDICATE):
        path = str(prim.GetPath())
        # Schemas that no plug-in registers are in the metadata alone.
        schemas = prim.GetAppliedSchemas() or ()
        ros.update(
            schema.partition(":")[0] for schema in {*schemas, *_applied(prim)} if schema.startswith("Ros")
        )
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
        children={path: frozenset(_children(stage, path)) for path in robots},
        closed=frozenset(closed),
        named_joints=frozenset(named),
        payload_roots=frozenset(
            path for path in robots if _has_payload_with_joints(stage.GetPrimAtPath(path))
        ),
        creators={path: _creators(stage.GetPrimAtPath(path)) for path in robots},
        default_prim=str(stage.GetDefaultPrim().GetPath()) if stage.GetDefaultPrim() else "",
    )


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
        if parent.GetName().lower() in _OF_A_LINK:
            return
        parent = parent.GetParent()


def _is_unloaded(prim: Usd.Prim) -> bool:
    return prim.HasAuthoredPayloads() and not prim.IsLoaded()


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

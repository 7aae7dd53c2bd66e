"""Targets of overrides: which attributes of a stage stand for the mass, friction or gains of prims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pxr import Sdf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.errors import OptionError, did_you_mean, quoted
from usd_ros_bridge.usd.edit.prim_selector import select_prims
from usd_ros_bridge.usd.read.materials import bound_materials
from usd_ros_bridge.usd.read.properties import PREDICATE

PHYSICS_MATERIAL: Final = "PhysicsMaterialAPI"
_MASS_API: Final = "PhysicsMassAPI"
_STANDARD_GRAVITY: Final = 9.81
"""m/s^2, where the scene authors none."""
_GAINS: Final = {"stiffness": "stiffness", "damping": "damping", "max_force": "maxForce"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeTarget:
    """An attribute that an override writes.

    Attributes:
        prim: Prim path.
        name: Attribute.
        type_name: Its type, as in a layer: `float`, `vector3f`.
        base: Its value without overrides, in stage units; None: unknown.
        schema: API schema to apply first, "" for none.
    """

    prim: str
    name: str
    type_name: str
    base: Any
    schema: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideTarget:
    """What one number changes.

    Attributes:
        prim: The selected prim, or what stands for it: a body, joint, collider, material or scene.
        attributes: Attributes that get the number.
        scaled: Attributes that change in the same ratio as the first of `attributes`: inertia with the mass.
        material: Of a collider: the material whose friction it has, "" for none. The collider gets one of its own.
        bearer: Of a collider: the prim that the material is bound to.
        instances: Instances that the prims are in: they become ordinary prims.
    """

    prim: str
    attributes: tuple[AttributeTarget, ...]
    scaled: tuple[AttributeTarget, ...] = ()
    material: str = ""
    bearer: str = ""
    instances: tuple[str, ...] = ()


def find_targets(
    stage: Any, selector: str, attribute: str, masses: Mapping[str, float]
) -> tuple[OverrideTarget, ...]:
    """Return what an override of an attribute writes, in traversal order.

    Args:
        stage: A Usd.Stage without overrides.
        selector: As for `select_prims`.
        attribute: `mass`, `friction`, `stiffness`, `damping`, `max_force`, `gravity`, or the name of an attribute.
        masses: Mass of each body by path, kg, for bodies that author none.

    Raises:
        OptionError: Nothing is selected, or nothing of it has the attribute.
    """
    prims = [stage.GetPrimAtPath(path) for path in select_prims(stage, selector)]
    kilograms = UsdPhysics.GetStageKilogramsPerUnit(stage)
    masses = {path: mass / kilograms for path, mass in masses.items()}
    find, what = _FINDERS.get(attribute, (None, ""))
    if find is not None:
        found = tuple(find(prims, masses))
    elif attribute in _GAINS:
        what = "no joint with a drive: a PhysicsDriveAPI"
        found = tuple(_gains(prims, _GAINS[attribute]))
    else:
        found = tuple(_plain_attributes(prims, attribute))
        if not found:
            names = {name for prim in prims for name in prim.GetPropertyNames()} | {*_FINDERS, *_GAINS}
            near = did_you_mean(attribute, names)
            raise OptionError(
                f"no prim of {quoted(selector)} has an attribute {quoted(attribute)}{'; ' + near if near else ''}"
            )
    if not found:
        raise OptionError(f"{quoted(selector)} selects {what}, whose {attribute} could be changed")
    return found


# --- What stands for the names -----------------------------------------------------------------------------------


def _masses(prims: Sequence[Any], masses: Mapping[str, float]) -> Iterator[OverrideTarget]:
    """Yield bodies, and colliders that have a mass of their own."""
    for prim in prims:
        has_own = prim.HasAPI(UsdPhysics.MassAPI)
        if not prim.HasAPI(UsdPhysics.RigidBodyAPI) and not (
            has_own and prim.HasAPI(UsdPhysics.CollisionAPI)
        ):
            continue
        path = str(prim.GetPath())
        own = UsdPhysics.MassAPI(prim).GetMassAttr().Get() if has_own else None
        mass = own if own else masses.get(path)
        inertia = UsdPhysics.MassAPI(prim).GetDiagonalInertiaAttr().Get() if has_own else None
        scaled: tuple[AttributeTarget, ...] = ()
        if inertia is not None and any(inertia):
            scaled = (
                AttributeTarget(
                    prim=path, name="physics:diagonalInertia", type_name="float3", base=tuple(inertia)
                ),
            )
        schema = "" if has_own else _MASS_API
        yield OverrideTarget(
            prim=path,
            attributes=(
                AttributeTarget(prim=path, name="physics:mass", type_name="float", base=mass, schema=schema),
            ),
            scaled=scaled,
            instances=_instances(prim),
        )


def _frictions(prims: Sequence[Any], _: Mapping[str, float]) -> Iterator[OverrideTarget]:
    """Yield colliders, and those of bodies; without any, the materials. Each once."""
    materials = [prim for prim in prims if prim.HasAPI(UsdPhysics.MaterialAPI)]
    colliders = {str(each.GetPath()): each for prim in prims for each in _colliders(prim)}
    # A glob over a robot selects both: a collider that gets a material of its own needs no other one.
    for material in () if colliders else materials:
        path = str(material.GetPath())
        yield OverrideTarget(prim=path, attributes=_friction(path, material), instances=_instances(material))
    bound = bound_materials(list(colliders.values()), "physics", [])
    for (path, collider), material in zip(colliders.items(), bound, strict=True):
        physical = material is not None and material.HasAPI(UsdPhysics.MaterialAPI)
        yield OverrideTarget(
            prim=path,
            attributes=_friction(path, material if physical else None),
            material=str(material.GetPath()) if material is not None and physical else "",
            bearer=path,
            instances=_instances(collider),
        )


def _friction(path: str, material: Any) -> tuple[AttributeTarget, ...]:
    return tuple(
        AttributeTarget(
            prim=path,
            name=f"physics:{name}",
            type_name="float",
            base=None if material is None else material.GetAttribute(f"physics:{name}").Get(),
        )
        for name in ("staticFriction", "dynamicFriction")
    )


def _colliders(prim: Any) -> Iterator[Any]:
    """Yield a collider, or those below a prim, short of the bodies there."""
    if prim.HasAPI(UsdPhysics.CollisionAPI):
        yield prim
        return
    prims = iter(Usd.PrimRange(prim, PREDICATE))
    for each in prims:
        if each != prim and each.HasAPI(UsdPhysics.RigidBodyAPI):
            prims.PruneChildren()
        elif each.HasAPI(UsdPhysics.CollisionAPI):
            yield each


def _gains(prims: Sequence[Any], name: str) -> Iterator[OverrideTarget]:
    for prim in prims:
        if not prim.IsA(UsdPhysics.Joint):
            continue
        path = str(prim.GetPath())
        names = [
            f"drive:{each.partition(':')[2]}:physics:{name}"
            for each in prim.GetAppliedSchemas()
            if each.startswith("PhysicsDriveAPI:")
        ]
        if names:
            attributes = tuple(
                AttributeTarget(prim=path, name=each, type_name="float", base=_value(prim.GetAttribute(each)))
                for each in names
            )
            yield OverrideTarget(prim=path, attributes=attributes, instances=_instances(prim))


def _gravities(prims: Sequence[Any], _: Mapping[str, float]) -> Iterator[OverrideTarget]:
    for prim in prims:
        if not prim.IsA(UsdPhysics.Scene):
            continue
        magnitude = UsdPhysics.Scene(prim).GetGravityMagnitudeAttr().Get()
        if magnitude is None or not magnitude >= 0.0:
            magnitude = _STANDARD_GRAVITY / UsdGeom.GetStageMetersPerUnit(prim.GetStage())
        path = str(prim.GetPath())
        attribute = AttributeTarget(
            prim=path, name="physics:gravityMagnitude", type_name="float", base=magnitude
        )
        yield OverrideTarget(prim=path, attributes=(attribute,), instances=_instances(prim))


def _plain_attributes(prims: Sequence[Any], name: str) -> Iterator[OverrideTarget]:
    for prim in prims:
        attribute = prim.GetAttribute(name) if Sdf.Path.IsValidNamespacedIdentifier(name) else None
        if attribute:
            path = str(prim.GetPath())
            target = AttributeTarget(
                prim=path, name=name, type_name=str(attribute.GetTypeName()), base=_value(attribute)
            )
            yield OverrideTarget(prim=path, attributes=(target,), instances=_instances(prim))


def _value(attribute: Any) -> Any:
    value = attribute.Get() if attribute else None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _instances(prim: Any) -> tuple[str, ...]:
    """Return the instances that a prim is in, the outermost first."""
    found: list[str] = []
    above = prim
    while above and not above.IsPseudoRoot():
        if above.IsInstance() and above != prim:
            found.append(str(above.GetPath()))
        above = above.GetParent()
    return tuple(reversed(found))


_Finder = Callable[[Sequence[Any], Mapping[str, float]], Iterator[OverrideTarget]]
_FINDERS: Final[dict[str, tuple[_Finder, str]]] = {
    "mass": (_masses, "no body"),
    "friction": (_frictions, "neither colliders nor physics materials"),
    "gravity": (_gravities, "no PhysicsScene"),
}
ATTRIBUTE_NAMES: Final = (*_FINDERS, *_GAINS)
"""Names that stand for attributes of several schemas."""

"""Overrides of a stage on its session layer: variants, poses, joint positions, attributes. Files stay as they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from pxr import Gf, Sdf, Tf, Usd, UsdGeom

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.options import VariantSelection
from usd_ros_bridge.spatial.transforms import FloatArray
from usd_ros_bridge.usd.edit.lock import lock_of
from usd_ros_bridge.usd.edit.override_targets import (
    PHYSICS_MATERIAL,
    AttributeTarget,
    OverrideTarget,
    find_targets,
)
from usd_ros_bridge.usd.open import author_selections, check_selections
from usd_ros_bridge.usd.tf_errors import first_line, quiet

OverrideOperation = Literal["set", "scale", "add"]
_MATERIAL: Final = "usd_ros_bridge_material"
"""Name of a collider's own material, a child: so it is on the stage wherever the collider is."""
_OP: Final = "xformOp:transform:usd_ros_bridge"
_ORDER: Final = "xformOpOrder"
_BINDING: Final = "material:binding:physics"
_BINDING_API: Final = "MaterialBindingAPI"
_GREATEST_FLOAT: Final = 3.4e38


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A new value of a target.

    Attributes:
        target: What it changes.
        operation: `set` the value, `scale` the one without overrides by it, or `add` it.
        value: In the units of the stage. A sequence for vectors and arrays.
    """

    target: OverrideTarget
    operation: OverrideOperation
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimPlacement:
    """Where a prim is to stand in the ROS world.

    Attributes:
        prim: Prim path.
        position: (3,) m, None: as it stands.
        rotation: (4,) quaternion x y z w, None: as it stands.
    """

    prim: str
    position: FloatArray | None = None
    rotation: FloatArray | None = None


class StageOverrides:
    """Overrides of a stage on its session layer. Each `apply` replaces those of the last one.

    Use it in the thread that reads the stage.
    """

    def __init__(self, stage: Any) -> None:
        """Store the stage, and what its session layer says so far.

        Args:
            stage: A Usd.Stage.
        """
        self._stage = stage
        self._base = Sdf.Layer.CreateAnonymous("base.usda")
        self._base.TransferContent(stage.GetSessionLayer())
        self._selected = self._base

    def select_variants(self, selections: Sequence[VariantSelection]) -> None:
        """Select variants, and drop all overrides: the stage is as its files are, with these variants.

        Raises:
            VariantError: A prim, variant set or variant does not exist.
        """
        layer = Sdf.Layer.CreateAnonymous("variants.usda")
        layer.TransferContent(self._base)
        author_selections(layer, selections)
        self._replace(layer)
        check_selections(self._stage, selections)
        self._selected = layer

    def find(self, selector: str, attribute: str, masses: Mapping[str, float]) -> tuple[OverrideTarget, ...]:
        """Return what an override of an attribute writes, as `find_targets`; no overrides may be applied.

        Raises:
            OptionError: Nothing is selected, or nothing of it has the attribute.
        """
        with lock_of(self._stage):
            return find_targets(self._stage, selector, attribute, masses)

    def apply(
        self,
        overrides: Iterable[Override],
        *,
        placements: Iterable[PrimPlacement] = (),
        joint_positions: Mapping[str, float] | None = None,
    ) -> None:
        """Replace the overrides. One edit: only what differs from the last ones is composed again.

        Args:
            overrides: Values of attributes; later ones see those of earlier ones.
            placements: Where prims stand.
            joint_positions: Positions at the start by joint path, rad or m.

        Raises:
            OptionError: A value does not fit its attribute, or a prim cannot be placed.
        """
        layer = Sdf.Layer.CreateAnonymous("overrides.usda")
        layer.TransferContent(self._selected)
        author = _LayerAuthor(self._stage, layer)
        with lock_of(self._stage):
            for override in overrides:
                author.override(override)
            for placement in placements:
                author.place(placement)
            for path, position in (joint_positions or {}).items():
                author.position_joint(path, position)
        self._replace(layer)

    def clear(self) -> None:
        """Drop all overrides; the variants stay."""
        self._replace(self._selected)

    def _replace(self, layer: Any) -> None:
        session = self._stage.GetSessionLayer()
        try:
            with quiet(), lock_of(self._stage):
                session.TransferContent(layer)
        except Tf.ErrorException as error:
            raise OptionError(f"the overrides cannot be composed: {first_line(error)}") from None


class _LayerAuthor:
    """Write overrides to a layer that is not on the stage yet."""

    def __init__(self, stage: Any, layer: Any) -> None:
        self._stage = stage
        self._layer = layer
        self._written: dict[tuple[str, str], Any] = {}
        self._materials: set[str] = set()

    # --- Attributes ------------------------------------------------------------------------------------------------

    def override(self, override: Override) -> None:
        """Write a value to all attributes of a target."""
        target = override.target
        for instance in target.instances:
            Sdf.CreatePrimInLayer(self._layer, instance).instanceable = False
        own = self._own_material(target) if target.bearer else ""
        ratio = 1.0
        for row, each in enumerate(target.attributes):
            base = self._base(each, own)
            value = _new_value(override, each, base)
            if row == 0 and isinstance(base, float) and base > 0.0 and isinstance(value, float | int):
                ratio = value / base
            self._write(own or each.prim, each, value)
        for each in target.scaled:
            base = self._base(each, "")
            self._write(each.prim, each, tuple(part * ratio for part in base))

    def _base(self, attribute: AttributeTarget, own: str) -> Any:
        """Return the value of an attribute before this override, numbers as float."""
        value = self._written.get((own or attribute.prim, attribute.name), attribute.base)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value

    def _write(self, prim: str, attribute: AttributeTarget, value: Any) -> None:
        spec = Sdf.CreatePrimInLayer(self._layer, prim)
        if attribute.schema:
            _apply_schema(spec, attribute.schema)
        self._written[prim, attribute.name] = value
        _set(spec, attribute.name, attribute.type_name, value)

    def _own_material(self, target: OverrideTarget) -> str:
        """Bind a material of its own to a collider: others may have the same one. Return its path."""
        own = f"{target.bearer}/{_MATERIAL}"
        if own in self._materials:
            return own
        self._materials.add(own)
        material = Sdf.CreatePrimInLayer(self._layer, own)
        material.specifier, material.typeName = Sdf.SpecifierDef, "Material"
        source = self._stage.GetPrimAtPath(target.material) if target.material else None
        schemas = list(source.GetPrimTypeInfo().GetAppliedAPISchemas()) if source else [PHYSICS_MATERIAL]
        for schema in schemas:
            _apply_schema(material, schema)
        for attribute in source.GetAuthoredAttributes() if source else ():
            value = self._written.get((target.material, str(attribute.GetName())), attribute.Get())
            if value is not None and not attribute.GetName().startswith(("outputs:", "inputs:")):
                _set(material, str(attribute.GetName()), str(attribute.GetTypeName()), value)
                self._written[own, str(attribute.GetName())] = value
        bearer = Sdf.CreatePrimInLayer(self._layer, target.bearer)
        _apply_schema(bearer, _BINDING_API)
        binding = bearer.relationships.get(_BINDING) or Sdf.RelationshipSpec(bearer, _BINDING, custom=False)
        binding.targetPathList.ClearEditsAndMakeExplicit()
        binding.targetPathList.explicitItems = [own]
        return own

    # --- Poses -----------------------------------------------------------------------------------------------------

    def place(self, placement: PrimPlacement) -> None:
        """Write where a prim stands; its scale stays."""
        prim = self._stage.GetPrimAtPath(placement.prim)
        xformable = UsdGeom.Xformable(prim) if prim else None
        if not xformable:
            raise OptionError(f"poses: {quoted(placement.prim)} is no prim that can be placed: no Xform")
        if prim.IsInstanceProxy():
            raise OptionError(f"poses: {quoted(placement.prim)} lies below an instance and cannot be placed")
        ros_from_stage = _ros_from_stage(self._stage)
        world = Gf.Matrix4d(xformable.ComputeLocalToWorldTransform(Usd.TimeCode.EarliestTime()))
        parent = xformable.ComputeParentToWorldTransform(Usd.TimeCode.EarliestTime())
        scale = Gf.Transform(world).GetScale()
        pose = world.RemoveScaleShear() * ros_from_stage
        if placement.rotation is not None:
            x, y, z, w = placement.rotation.tolist()
            position = pose.ExtractTranslation()
            pose.SetRotate(Gf.Quatd(w, x, y, z))
            pose.SetTranslateOnly(position)
        if placement.position is not None:
            unit = UsdGeom.GetStageMetersPerUnit(self._stage)
            pose.SetTranslateOnly(Gf.Vec3d(*(placement.position / unit).tolist()))
        local = Gf.Matrix4d().SetScale(scale) * pose * ros_from_stage.GetInverse() * parent.GetInverse()
        spec = Sdf.CreatePrimInLayer(self._layer, placement.prim)
        _set(spec, _OP, "matrix4d", local)
        _set(spec, _ORDER, "token[]", [_OP], uniform=True)

    def position_joint(self, path: str, position: float) -> None:
        """Write the position of a joint at the start: rad or m."""
        prim = self._stage.GetPrimAtPath(path)
        kind = str(prim.GetTypeName()) if prim else ""
        spec = Sdf.CreatePrimInLayer(self._layer, path)
        if kind == "PhysicsPrismaticJoint":
            _apply_schema(spec, "PhysicsJointStateAPI:linear")
            unit = UsdGeom.GetStageMetersPerUnit(self._stage)
            _set(spec, "state:linear:physics:position", "float", position / unit)
        elif kind == "PhysicsRevoluteJoint":
            _apply_schema(spec, "PhysicsJointStateAPI:angular")
            _set(spec, "state:angular:physics:position", "float", math.degrees(position))
        else:
            raise OptionError(f"joints: {quoted(path)} is no revolute or prismatic joint")


def _ros_from_stage(stage: Any) -> Any:
    """Return the rotation from the stage's axes to those of ROS, for row vectors."""
    if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.y:
        return Gf.Matrix4d().SetRotate(Gf.Rotation(Gf.Vec3d(1.0, 0.0, 0.0), 90.0))
    return Gf.Matrix4d(1.0)


def _new_value(override: Override, attribute: AttributeTarget, base: Any) -> Any:
    """Return the value of an attribute after an override."""
    value = override.value
    if override.operation == "set":
        return value
    if not isinstance(base, float) or isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        reason = "it has none" if base is None else "it is no number"
        raise OptionError(
            f"{attribute.prim}: {attribute.name} cannot be changed by {override.operation}: {reason}; "
            "use operation: set"
        )
    return base * value if override.operation == "scale" else base + value


def _apply_schema(spec: Any, schema: str) -> None:
    listed = spec.GetInfo("apiSchemas") if spec.HasInfo("apiSchemas") else Sdf.TokenListOp()
    names = list(listed.prependedItems)
    if schema not in names:
        listed.prependedItems = [*names, schema]
        spec.SetInfo("apiSchemas", listed)


def _set(spec: Any, name: str, type_name: str, value: Any, *, uniform: bool = False) -> None:
    """Write the value of an attribute to a prim spec."""
    found = Sdf.ValueTypeNames.Find(type_name)
    attribute = spec.attributes.get(name)
    if attribute is None:
        variability = Sdf.VariabilityUniform if uniform else Sdf.VariabilityVarying
        attribute = Sdf.AttributeSpec(spec, name, found, variability)
    try:
        attribute.default = _converted(value, found)
    except (TypeError, ValueError, OverflowError, Tf.ErrorException):
        raise OptionError(
            f"{spec.path}: {quoted(value)} is no value of {name}, which is of type {type_name}"
        ) from None


def _converted(value: Any, type_name: Any) -> Any:
    """Return a value as an attribute of a type takes it.

    Raises:
        TypeError: It does not fit.
        ValueError: Likewise.
    """
    kind = str(type_name)
    if kind in ("float", "double", "half"):
        if isinstance(value, (bool, str)) or (kind == "float" and abs(value) > _GREATEST_FLOAT):
            raise TypeError
        return float(value)
    if kind in ("int", "int64", "uint", "uint64", "uchar"):
        if isinstance(value, (bool, str)) or float(value) != int(value):
            raise TypeError
        return int(value)
    if kind == "bool":
        if not isinstance(value, bool):
            raise TypeError
        return value
    if kind in ("string", "token", "asset"):
        if not isinstance(value, str):
            raise TypeError
        return Sdf.AssetPath(value) if kind == "asset" else value
    python_class = type_name.type.pythonClass
    if isinstance(value, (tuple, list)) and python_class is not None:
        if type_name.isArray:
            return python_class(list(value))
        return python_class(*(float(each) for each in np.ravel(value)))
    return value

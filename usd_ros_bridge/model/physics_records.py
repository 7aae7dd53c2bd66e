"""Records of what engines need beside joints and bodies: masses, colliders, materials, groups, looks, sensors.

Read only where physics is asked for, because meshes are large. As in `records`: values exactly as composed, in stage
units, None where nothing is authored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.looks import Skin
from usd_ros_bridge.model.records import Matrix4, Quaternion, Record, Vector3, attribute

MASSLESS_BODIES: Final = "usd_ros_bridge:physics:massless_bodies"
"""Attribute: what bodies without mass weigh, at or below its prim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicsSceneRecord(Record):
    """A PhysicsScene prim.

    Attributes:
        applied: Applied API schemas of solvers (Newton, Physx, Mjc).
        solver_attributes: Every authored property under a vendor's prefix (newton:, physxScene:, mjc:) by USD name.
    """

    gravity_direction: Vector3 | None = attribute("physics:gravityDirection", "vector3f", (0.0, 0.0, 0.0))
    gravity_magnitude: float | None = attribute("physics:gravityMagnitude", "float", -float("inf"))
    applied: tuple[str, ...] = ()
    solver_attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MassRecord(Record):
    """PhysicsMassAPI, on a body, a collider or any prim above one (densities are inherited)."""

    mass: float | None = attribute("physics:mass", "float", 0.0)
    density: float | None = attribute("physics:density", "float", 0.0)
    center_of_mass: Vector3 | None = attribute(
        "physics:centerOfMass", "point3f", (-float("inf"), -float("inf"), -float("inf"))
    )
    diagonal_inertia: Vector3 | None = attribute("physics:diagonalInertia", "float3", (0.0, 0.0, 0.0))
    principal_axes: Quaternion | None = attribute("physics:principalAxes", "quatf", (0.0, 0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterialRecord(Record):
    """PhysicsMaterialAPI.

    Attributes:
        applied: Applied API schemas of solvers (Newton, Physx, Mjc).
        solver_attributes: Every authored property under a vendor's prefix (newton:, physxMaterial:, mjc:) by USD name.
    """

    static_friction: float | None = attribute("physics:staticFriction", "float", 0.0)
    dynamic_friction: float | None = attribute("physics:dynamicFriction", "float", 0.0)
    restitution: float | None = attribute("physics:restitution", "float", 0.0)
    density: float | None = attribute("physics:density", "float", 0.0)
    applied: tuple[str, ...] = ()
    solver_attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GeometryRecord(Record):
    """A UsdGeom gprim that collides or is to be seen.

    Attributes:
        type_name: Cube, Sphere, Cylinder, Capsule, Cone, Plane or Mesh (or what derives from one); any other type for
            a collider that nobody knows.
        world_from_prim: Local-to-world matrix, scale included, in stage units.
        detached_at: Nearest prim at or above that resets the transform stack, "" for none: what is above does not
            carry it.
        values: `size`, `radius`, `height`, `axis`, `width`, `length` as the type has them, fallbacks applied.
        points: (V, 3) float64 of a Mesh in its own frame, stage units; None for others.
        triangles: (T, 3) int32 of a Mesh, polygons fanned, counter-clockwise seen from outside (orientation honoured),
            holes and faces that name no points left out.
        collides: Whether PhysicsCollisionAPI is applied.
        collision_enabled: physics:collisionEnabled.
        approximation: physics:approximation as authored, "" where it is not; of a Mesh only.
        seen: Whether it is imageable, visible and of purpose default or render (computed, not authored, values).
        color: Linear red, green, blue, opacity: the bound look's (UsdPreviewSurface diffuseColor, opacity), else
            displayColor and displayOpacity, else None.
        skin: Of a Mesh with a texture, or with several colours; None for others.
        material: Bound material with PhysicsMaterialAPI (purpose physics, else all-purpose), "" for none.
        group_paths: PhysicsCollisionGroup prims whose `colliders` collection includes the prim, in traversal order.
        applied: Applied API schemas of solvers (Newton, Physx, Mjc).
        solver_attributes: Every authored property under a vendor's prefix (newton:, physxCollision:, mjc:).
    """

    type_name: str
    world_from_prim: Matrix4
    detached_at: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    points: NDArray[np.float64] | None = None
    triangles: NDArray[np.int32] | None = None
    collides: bool = False
    collision_enabled: bool = True
    approximation: str = ""
    seen: bool = True
    color: tuple[float, float, float, float] | None = None
    skin: Skin | None = None
    material: str = ""
    group_paths: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    solver_attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollisionGroupRecord(Record):
    """A PhysicsCollisionGroup prim; `merge_group` names are one group (physics:mergeGroup)."""

    filtered_groups: tuple[str, ...] | None = attribute("physics:filteredGroups", "rel")
    merge_group: str | None = attribute("physics:mergeGroup", "string", "")
    invert: bool | None = attribute("physics:invertFilteredGroups", "bool", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredPairsRecord(Record):
    """PhysicsFilteredPairsAPI, on a body, a collider or an articulation."""

    filtered_pairs: tuple[str, ...] | None = attribute("physics:filteredPairs", "rel")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorRecord(Record):
    """What is authored under `usd_ros_bridge:` on an interface's prim, and on its camera: by USD name, plain values."""

    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicsRecords:
    """Everything planning needs of a stage's physics beside StageRecords. All tuples are in traversal order.

    Attributes:
        joint_breaks: physics:breakForce and breakTorque that are authored and finite, by joint path.
        body_solver_attributes: Every authored property under a vendor's prefix, by path of a rigid body or of a prim
            with PhysicsArticulationRootAPI.
        sensors: By prim path, of every prim with RosTopicAPI that authors any.
        massless_bodies: `usd_ros_bridge:physics:massless_bodies` by path of each default prim, PhysicsScene, and prim
            at or above a body without a mass of its own that authors it.
        origin: `usd_ros_bridge:georeference:*` on the nearest prim that authors any (default prim, PhysicsScene).
    """

    scenes: tuple[PhysicsSceneRecord, ...] = ()
    masses: Mapping[str, MassRecord] = field(default_factory=dict)
    materials: Mapping[str, MaterialRecord] = field(default_factory=dict)
    geometries: tuple[GeometryRecord, ...] = ()
    groups: tuple[CollisionGroupRecord, ...] = ()
    filtered_pairs: tuple[FilteredPairsRecord, ...] = ()
    joint_breaks: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    body_solver_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sensors: Mapping[str, SensorRecord] = field(default_factory=dict)
    massless_bodies: Mapping[str, Any] = field(default_factory=dict)
    origin: SensorRecord | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

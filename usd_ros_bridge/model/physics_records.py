"""Records of what engines need beside joints and bodies: masses, colliders, materials, groups, looks, sensors.

Read only if physics is requested, because meshes are large. As in `records`: values exactly as composed, in stage
units, None where nothing is authored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.appearance import Skin, Unseen
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.records import Matrix4, Record, attribute
from usd_ros_bridge.spatial.scalar import Quaternion, Vector3

MASSLESS_BODIES: Final = "usd_ros_bridge:physics:massless_bodies"
"""Attribute: what bodies without mass weigh, at or below its prim."""
_ZEROS = (0.0,) * 9
SOLREF = (0.02, 1.0)
SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
"""Fallbacks of mjcPhysics for what it calls solref and solimp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """Opinions of a prim that engines may not simulate; see `model.ledger`.

    Attributes:
        type_name: Type of the prim.
        schemas: Prim type and applied API schemas that an engine does not simulate.
        unapplied: Schema of UsdPhysics by the name of a property of it, where it is not applied.
        values: Authored value by USD name, as plain values: () for relationships, None for long arrays and types that
            have no plain form.
    """

    type_name: str = ""
    schemas: tuple[str, ...] = ()
    unapplied: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


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
            an unknown collider.
        collider: The prim that is no gprim, mostly above, with the PhysicsCollisionAPI that makes this one collide; its
            own path where it is such a prim, without any gprim; "" otherwise. This record has its values.
        world_from_prim: Local-to-world matrix, scale included, in stage units.
        detached_at: Nearest prim at or above that resets the transform stack, "" for none: what is above does not
            carry it.
        values: `size`, `radius`, `height`, `axis`, `width`, `length` as the type has them, fallbacks applied.
        points: (V, 3) float64 of a Mesh in its own frame, stage units; None for others.
        triangles: (T, 3) int32 of a Mesh, polygons fanned, counter-clockwise seen from outside (orientation honoured),
            holes and faces that name no points left out.
        collides: PhysicsCollisionAPI is applied, to it or to `collider`.
        collision_enabled: physics:collisionEnabled.
        double_sided: doubleSided, of a Mesh.
        approximation: physics:approximation as authored, "" where it is not; of a Mesh only.
        seen: It is imageable, visible and of purpose default or render (computed, not authored, values).
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
    collider: str = ""
    collides: bool = False
    collision_enabled: bool = True
    double_sided: bool = False
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
class MjcActuatorRecord(Record):
    """An MjcActuator prim of MuJoCo's mjcPhysics (mujoco-usd-converter 0.8): MuJoCo's units, angles in radians.

    Attributes:
        display_name: The prim's display name: the actuator's own, where USD cannot hold that as a prim's name.
    """

    display_name: str = ""
    target: tuple[str, ...] | None = attribute("mjc:target", "rel")
    reference_site: tuple[str, ...] | None = attribute("mjc:refSite", "rel")
    slider_site: tuple[str, ...] | None = attribute("mjc:sliderSite", "rel")
    joint_in_parent: bool | None = attribute("mjc:jointInParent", "bool", False)
    gear: tuple[float, ...] | None = attribute("mjc:gear", "double[]", (1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    crank_length: float | None = attribute("mjc:crankLength", "double", 0.0)
    dynamics: str | None = attribute("mjc:dynType", "token", "none")
    dynamics_parameters: tuple[float, ...] | None = attribute("mjc:dynPrm", "double[]", (1.0, *_ZEROS))
    gain: str | None = attribute("mjc:gainType", "token", "fixed")
    gain_parameters: tuple[float, ...] | None = attribute("mjc:gainPrm", "double[]", (1.0, *_ZEROS))
    bias: str | None = attribute("mjc:biasType", "token", "none")
    bias_parameters: tuple[float, ...] | None = attribute("mjc:biasPrm", "double[]", (0.0, *_ZEROS))
    activation_dimension: int | None = attribute("mjc:actDim", "int", -1)
    acts_early: bool | None = attribute("mjc:actEarly", "bool", False)
    activation_limited: str | None = attribute("mjc:actLimited", "token", "auto")
    activation_min: float | None = attribute("mjc:actRange:min", "double", 0.0)
    activation_max: float | None = attribute("mjc:actRange:max", "double", 0.0)
    control_limited: str | None = attribute("mjc:ctrlLimited", "token", "auto")
    control_min: float | None = attribute("mjc:ctrlRange:min", "double", 0.0)
    control_max: float | None = attribute("mjc:ctrlRange:max", "double", 0.0)
    force_limited: str | None = attribute("mjc:forceLimited", "token", "auto")
    force_min: float | None = attribute("mjc:forceRange:min", "double", 0.0)
    force_max: float | None = attribute("mjc:forceRange:max", "double", 0.0)
    inherit_range: float | None = attribute("mjc:inheritRange", "double", 0.0)
    length_min: float | None = attribute("mjc:lengthRange:min", "double", 0.0)
    length_max: float | None = attribute("mjc:lengthRange:max", "double", 0.0)
    group: int | None = attribute("mjc:group", "int", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MjcTendonRecord(Record):
    """An MjcTendon prim of MuJoCo's mjcPhysics; units as of MjcActuatorRecord."""

    type: str | None = attribute("mjc:type", "token", "spatial")
    parts: tuple[str, ...] | None = attribute("mjc:path", "rel")
    indices: tuple[int, ...] | None = attribute("mjc:path:indices", "int[]", ())
    coefficients: tuple[float, ...] | None = attribute("mjc:path:coef", "double[]", ())
    segments: tuple[int, ...] | None = attribute("mjc:path:segments", "int[]", ())
    divisors: tuple[float, ...] | None = attribute("mjc:path:divisors", "double[]", ())
    side_sites: tuple[str, ...] | None = attribute("mjc:sideSites", "rel")
    side_indices: tuple[int, ...] | None = attribute("mjc:sideSites:indices", "int[]", ())
    stiffness: float | None = attribute("mjc:stiffness", "double", 0.0)
    damping: float | None = attribute("mjc:damping", "double", 0.0)
    spring_length: tuple[float, ...] | None = attribute("mjc:springlength", "double[]", (-1.0, -1.0))
    friction: float | None = attribute("mjc:frictionloss", "double", 0.0)
    armature: float | None = attribute("mjc:armature", "double", 0.0)
    limited: str | None = attribute("mjc:limited", "token", "auto")
    lower: float | None = attribute("mjc:range:min", "double", 0.0)
    upper: float | None = attribute("mjc:range:max", "double", 0.0)
    margin: float | None = attribute("mjc:margin", "double", 0.0)
    force_limited: str | None = attribute("mjc:actuatorfrclimited", "token", "auto")
    force_min: float | None = attribute("mjc:actuatorfrcrange:min", "double", 0.0)
    force_max: float | None = attribute("mjc:actuatorfrcrange:max", "double", 0.0)
    solref_limit: tuple[float, ...] | None = attribute("mjc:solreflimit", "double[]", SOLREF)
    solimp_limit: tuple[float, ...] | None = attribute("mjc:solimplimit", "double[]", SOLIMP)
    solref_friction: tuple[float, ...] | None = attribute("mjc:solreffriction", "double[]", SOLREF)
    solimp_friction: tuple[float, ...] | None = attribute("mjc:solimpfriction", "double[]", SOLIMP)
    width: float | None = attribute("mjc:width", "double", 0.003)
    color: tuple[float, ...] | None = attribute("mjc:rgba", "color4f", (0.5, 0.5, 0.5, 1.0))
    group: int | None = attribute("mjc:group", "int", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewtonActuatorRecord(Record):
    """A NewtonActuator prim (newton-usd-schemas 0.6): radians, and the stage's units of mass and length.

    Attributes:
        applied: Applied API schemas: the control law, delays and clamps.
    """

    applied: tuple[str, ...] = ()
    target: tuple[str, ...] | None = attribute("newton:targets", "rel")
    constant_effort: float | None = attribute("newton:constEffort", "float", 0.0)
    stiffness: float | None = attribute("newton:kp", "float", 0.0)
    damping: float | None = attribute("newton:kd", "float", 0.0)
    integral: float | None = attribute("newton:ki", "float", 0.0)
    integral_max: float | None = attribute("newton:integralMax", "float", float("inf"))
    max_effort: float | None = attribute("newton:maxEffort", "float", float("inf"))
    max_motor_effort: float | None = attribute("newton:maxMotorEffort", "float", float("inf"))
    stall_effort: float | None = attribute("newton:saturationEffort", "float", float("inf"))
    velocity_limit: float | None = attribute("newton:velocityLimit", "float", float("inf"))
    lookup_positions: tuple[float, ...] | None = attribute("newton:lookupPositions", "float[]", ())
    lookup_efforts: tuple[float, ...] | None = attribute("newton:lookupEfforts", "float[]", ())
    delay_steps: int | None = attribute("newton:delaySteps", "int", 1)
    model_path: str | None = attribute("newton:modelPath", "asset")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRecord(Record):
    """A prim with MjcSiteAPI or NewtonSiteAPI, or that an actuator or a tendon takes for a site.

    Attributes:
        world_from_prim: Local-to-world matrix, scale included, in stage units.
        detached_at: Nearest prim at or above that resets the transform stack, "" for none.
    """

    world_from_prim: Matrix4
    detached_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOwnerRecord(Record):
    """Which PhysicsScene simulates a body or a static collider."""

    simulation_owner: tuple[str, ...] | None = attribute("physics:simulationOwner", "rel")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorRecord(Record):
    """Values authored under `usd_ros_bridge:` on an interface's prim, and on its camera, by USD name."""

    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicsRecords:
    """Everything planning needs of a stage's physics beside StageRecords. All tuples are in traversal order.

    Attributes:
        joint_breaks: physics:breakForce and breakTorque that are authored and finite, by joint path.
        body_solver_attributes: Every authored property under a vendor's prefix, by path of a rigid body or of a prim
            with PhysicsArticulationRootAPI.
        owners: Targets of physics:simulationOwner, by path of a body or collider that has any.
        world_velocities: Bodies with velocities in the axes of the stage, as PhysX writes them.
        sensors: By prim path, of every prim with RosTopicAPI that authors any.
        massless_bodies: `usd_ros_bridge:physics:massless_bodies` by path of each default prim, PhysicsScene, and prim
            at or above a body without a mass of its own that authors it.
        actuators: Prims of type MjcActuator or NewtonActuator.
        tendons: Prims of type MjcTendon.
        sites: Sites that actuators and tendons may act at.
        wrapped: Gprims that tendons wrap around, colliders or not.
        keyframes: Prims of type MjcKeyframe.
        opinions: What engines may not simulate, by prim path; prims that are composed alike share it.
        origin: `usd_ros_bridge:georeference:*` on the nearest prim that authors any (default prim, PhysicsScene).
        unseen: What pictures of cameras do not show, on stages with cameras and interfaces.
    """

    scenes: tuple[PhysicsSceneRecord, ...] = ()
    masses: Mapping[str, MassRecord] = field(default_factory=dict)
    materials: Mapping[str, MaterialRecord] = field(default_factory=dict)
    geometries: tuple[GeometryRecord, ...] = ()
    groups: tuple[CollisionGroupRecord, ...] = ()
    filtered_pairs: tuple[FilteredPairsRecord, ...] = ()
    joint_breaks: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    body_solver_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    world_velocities: frozenset[str] = frozenset()
    sensors: Mapping[str, SensorRecord] = field(default_factory=dict)
    massless_bodies: Mapping[str, Any] = field(default_factory=dict)
    actuators: tuple[MjcActuatorRecord | NewtonActuatorRecord, ...] = ()
    tendons: tuple[MjcTendonRecord, ...] = ()
    sites: tuple[SiteRecord, ...] = ()
    wrapped: tuple[GeometryRecord, ...] = ()
    keyframes: tuple[str, ...] = ()
    opinions: Mapping[str, Opinions] = field(default_factory=dict)
    origin: SensorRecord | None = None
    unseen: tuple[Unseen, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

"""Scaffold: the REP 0158 layer for a robot without one, as data, with the reason of each decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["written", "left out", "note"]
SensorKind = Literal["camera", "lidar", "imu"]
Dialect = Literal["newton", "physx", "mjc"]

CONVERTERS = ("URDF USD Converter", "MuJoCo USD Converter")
"""How creators begin that convert formats in which links may weigh nothing."""


def free_name(name: str, taken: frozenset[str]) -> str:
    """Return a prim name that is not taken: `name`, else one that begins with `Ros`."""
    candidate = name
    number = 2
    if candidate in taken:
        candidate = f"Ros{name}"
    while candidate in taken:
        candidate = f"Ros{name}{number}"
        number += 1
    return candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainXform:
    """An Xform of the asset that is no rigid body and that nothing is drawn or collides in: perhaps a massless link.

    Attributes:
        path: Prim path.
        display_name: Prim metadata, where converters keep a name that USD cannot carry.
    """

    path: str
    display_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Facts of a stage that a scaffold needs beyond its plan.

    Attributes:
        ros_prims: Number of prims by Ros*API schema, by name.
        xforms: In traversal order.
        children: By prim path of a robot's root: names of all its children, inactive ones included.
        closed: Prims that no opinion can be authored on or below: instances and what lies below them.
        named_joints: Joints with an authored `ros:joint:name`.
        payload_roots: Robots' roots that bring their links and joints along by a payload.
        creators: By prim path of a robot's root: what the layers say that made them (`customLayerData["creator"]`).
        default_prim: Path of the stage's default prim, "" where it has none.
        articulation_roots: Prims with PhysicsArticulationRootAPI.
        root_prims: Names of the prims at the top of the stage.
        has_physics_scene: It has a PhysicsScene.
        meters: Metres per unit of length.
        kilograms: Kilograms per unit of mass.
        up_axis: "Y" or "Z".
    """

    ros_prims: Mapping[str, int] = field(default_factory=dict)
    xforms: tuple[PlainXform, ...] = ()
    children: Mapping[str, frozenset[str]] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    named_joints: frozenset[str] = frozenset()
    payload_roots: frozenset[str] = frozenset()
    creators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_prim: str = ""
    articulation_roots: frozenset[str] = frozenset()
    root_prims: frozenset[str] = frozenset()
    has_physics_scene: bool = False
    meters: float = 1.0
    kilograms: float = 1.0
    up_axis: str = "Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorRequest:
    """A sensor that a scaffold adds.

    Attributes:
        kind: Its kind.
        link: Name or prim path of the link that carries it.
    """

    kind: SensorKind
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveLimits:
    """Limits of a differential drive, None where nothing names one.

    Attributes:
        linear_velocity: m/s.
        angular_velocity: rad/s.
        linear_acceleration: m/s^2.
        angular_acceleration: rad/s^2.
        source: Where they are from, for people; "" for none.
        unread: File that is said to have them and cannot be read; "" for none.
    """

    linear_velocity: float | None = None
    angular_velocity: float | None = None
    linear_acceleration: float | None = None
    angular_acceleration: float | None = None
    source: str = ""
    unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaffoldRequest:
    """Physics and sensors that a scaffold adds.

    Attributes:
        drives: Give movable joints without a drive one.
        natural_frequency: Hz, of what a drive moves on the drive's spring.
        damping_ratio: Of the same; 1 is critical damping.
        base: Let the robots float, fix them to the world, or leave them as they are ("").
        ground: Put a ground plane below the robots.
        sensors: Sensors at links.
        limits: Limits of differential drives that a robot file names.
        namespace: Of the robot's context, "" for none; None for the name of its prim.
        dialect: Vendor in whose attributes the layer repeats what vendors' attributes of joints say, and nothing else.
    """

    drives: bool = False
    natural_frequency: float = 10.0
    damping_ratio: float = 1.0
    base: Literal["", "free", "fixed"] = ""
    ground: bool = False
    sensors: tuple[SensorRequest, ...] = ()
    limits: DriveLimits = DriveLimits()
    namespace: str | None = None
    dialect: Dialect | None = None

    def __bool__(self) -> bool:
        """Return whether anything is requested."""
        return self.drives or self.ground or bool(self.base or self.sensors or self.dialect)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointFrame:
    """A joint frame in a body, in the body's own units of length.

    Attributes:
        position: Origin.
        rotation: Quaternion w, x, y, z.
    """

    position: tuple[float, float, float]
    rotation: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """An authored property.

    Attributes:
        name: USD name.
        type_name: SdfValueTypeName, "rel" for a relationship.
        value: The value; paths of a relationship as a tuple.
        uniform: It cannot vary over time.
        custom: No schema has it.
        prepended: Targets of a relationship go before those of the asset, instead of replacing them.
    """

    name: str
    type_name: str
    value: Any
    uniform: bool = False
    custom: bool = False
    prepended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """Opinions of a layer about a prim.

    Attributes:
        path: Prim path in the stage that the layer makes.
        define: USD type where the prim is defined here, "" where it is the asset's.
        schemas: Applied API schemas, prepended.
        removed_schemas: API schemas that are no longer applied.
        properties: In the order in which they are written.
        inside: A defined prim is among those of the asset, and moves with them where the layer has a root of its own.
    """

    path: str
    define: str = ""
    schemas: tuple[str, ...] = ()
    removed_schemas: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()
    inside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision, for people.

    Attributes:
        outcome: Written, left out, or a note.
        subject: Its subject (`joint trajectory controller`).
        text: Which, or why not.
        path: Prim path.
    """

    outcome: Outcome
    subject: str
    text: str
    path: str

    def __str__(self) -> str:
        mark = {"written": "+", "left out": "-", "note": "!"}[self.outcome]
        return f"{mark} {self.subject}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold:
    """A ROS layer and the decisions that led to it.

    Attributes:
        opinions: Parents before children; each prim once.
        decisions: In the order in which they were taken.
        inner: Prim path that the asset's default prim is referenced at, "" where the layer goes over the asset and
            all paths are those of the asset.
        vendor: Vendor of the layer, "" for none.
    """

    opinions: tuple[Opinion, ...] = ()
    decisions: tuple[Decision, ...] = ()
    inner: str = ""
    vendor: str = ""

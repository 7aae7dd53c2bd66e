"""Physics: everything an engine needs to simulate an asset, in SI units, from UsdPhysics and the solvers' schemas.

It covers the whole stage, not only what robots consist of: props fall, and rovers bump into walls. The ROS world is
the world here (Z-up, metres); bodies are named by prim path and numbered parents first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.appearance import Skin
from usd_ros_bridge.model.records import DofAxis, JointType
from usd_ros_bridge.model.sensors import Sensor
from usd_ros_bridge.model.state import PoseTrack
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose
from usd_ros_bridge.spatial.scalar import Quaternion, Vector3

WORLD_BODY = -1
"""Index of the world, in place of a body."""

# --- Shapes -------------------------------------------------------------------------------------------------------

Approximation = Literal[
    "none", "convexHull", "convexDecomposition", "meshSimplification", "boundingSphere", "boundingCube"
]


@dataclass(frozen=True, slots=True)
class Sphere:
    """A ball about the origin; `radius` in m."""

    radius: float


@dataclass(frozen=True, slots=True)
class Box:
    """A box about the origin; `half` are half extents along X, Y and Z in m."""

    half: Vector3


@dataclass(frozen=True, slots=True)
class Capsule:
    """A capsule about the origin along Z; `half_height` is that of the cylindrical part, m."""

    radius: float
    half_height: float


@dataclass(frozen=True, slots=True)
class Cylinder:
    """A cylinder about the origin along Z, m."""

    radius: float
    half_height: float


@dataclass(frozen=True, slots=True)
class Cone:
    """A cone along Z, its apex at +half_height, m."""

    radius: float
    half_height: float


@dataclass(frozen=True, slots=True)
class Plane:
    """The plane Z = 0, solid below; `half` are half extents along X and Y in m, 0 for an endless side."""

    half: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Triangles.

    Attributes:
        points: (V, 3) float64, m, scale folded in.
        triangles: (T, 3) int32 rows of `points`, counter-clockwise seen from outside.
        approximation: How it collides (PhysicsMeshCollisionAPI).
        double_sided: Both sides of its triangles are outside (doubleSided of UsdGeom).
        skin: Its appearance, None if the colour of the collider or visual is enough.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int32]
    approximation: Approximation = "none"
    skin: Skin | None = None
    double_sided: bool = False


Shape = Sphere | Box | Capsule | Cylinder | Cone | Plane | Mesh

CONE_SIDES = 32
"""Sides of the pyramid that approximates a cone."""


def cone_mesh(cone: Cone) -> Mesh:
    """Return the pyramid with CONE_SIDES sides that approximates a cone; its corners are on the rim."""
    angles = np.arange(CONE_SIDES) * (2.0 * math.pi / CONE_SIDES)
    rim = np.column_stack(
        [
            cone.radius * np.cos(angles),
            cone.radius * np.sin(angles),
            np.full(CONE_SIDES, -cone.half_height),
        ]
    )
    points = np.vstack([rim, [[0.0, 0.0, cone.half_height], [0.0, 0.0, -cone.half_height]]])
    first = np.arange(CONE_SIDES)
    second = (first + 1) % CONE_SIDES
    apex, middle = np.full(CONE_SIDES, CONE_SIDES), np.full(CONE_SIDES, CONE_SIDES + 1)
    sides, base = np.column_stack([first, second, apex]), np.column_stack([second, first, middle])
    return Mesh(points, np.vstack([sides, base]).astype(np.int32), "convexHull")


# --- Bodies -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Inertial:
    """Mass properties of a body.

    Attributes:
        mass: kg.
        center: Centre of mass in the body's frame, m.
        diagonal: Principal moments of inertia about the centre of mass, kg m^2; of plans none is above the sum of the
            other two, and at most one is 0 (a rod).
        principal: `body_from_principal`, x, y, z, w.
    """

    mass: float
    center: Vector3 = (0.0, 0.0, 0.0)
    diagonal: Vector3 = (0.0, 0.0, 0.0)
    principal: Quaternion = (0.0, 0.0, 0.0, 1.0)


def nearest_moments(moments: Sequence[float]) -> Vector3:
    """Return the principal moments of inertia of a rigid body that are nearest (Euclidean) to given ones.

    A rigid body has none above the sum of the other two, so that none is negative; (0, I, I) is a rod and valid. The
    nearest point of the plane where the greatest equals that sum is a third of the excess off along each axis. Where
    one moment is so negative that this point is not valid either, the nearest one is a rod.

    Args:
        moments: Three finite numbers, kg m^2.
    """
    values = list(moments)
    rows = sorted(range(3), key=values.__getitem__)
    low, middle, high = (values[row] for row in rows)
    excess = high - low - middle
    if excess > 0.0 or low < 0.0:
        rod = max(0.5 * (middle + high), 0.0)
        low, middle = low + excess / 3.0, middle + excess / 3.0
        # The sum as engines make it: rounding would leave the greatest above it.
        high = low + middle
        if low < 0.0:
            low, middle, high = 0.0, rod, rod
        for row, value in zip(rows, (low, middle, high), strict=True):
            values[row] = value
    x, y, z = values
    return x, y, z


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceVelocity:
    """How the surface of a body moves while the body stays, as that of a conveyor belt (PhysxSurfaceVelocityAPI).

    Attributes:
        linear: m/s.
        angular: About the body's origin, rad/s.
        own_axes: Both are in the body's axes, else in the world's.
    """

    linear: Vector3 = (0.0, 0.0, 0.0)
    angular: Vector3 = (0.0, 0.0, 0.0)
    own_axes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A rigid body.

    Attributes:
        path: Prim path.
        row: Row in the plan's layout, -1 where the plan has no use for it.
        world_from_body: At rest: as in the layout where it has a row.
        kinematic: It is moved and not driven (physics:kinematicEnabled).
        inertial: Mass properties; all zero for a kinematic body that has none.
        linear_velocity: Of the origin at the start, in the world frame, m/s.
        angular_velocity: At the start, in the world frame, rad/s.
        gravity_scale: How much of gravity acts on it, 0 for none.
        linear_damping: Share of the velocity of its centre of mass that it loses per second (PhysX), 1/s.
        angular_damping: Share of its angular velocity that it loses per second (PhysX), 1/s.
        surface: Velocity of its surface, None for one that moves with the body.
        starts_asleep: It rests until something touches or moves it.
        parent: The body that it hangs from by joints, WORLD_BODY where it hangs from the world or from nothing.
        joints: Indices in PhysicsScene.joints of the edge to the parent; empty where the body is free.
        robot: Index in BridgePlan.robots, -1 for a prop.
    """

    path: str
    row: int = -1
    world_from_body: Pose = IDENTITY_POSE
    kinematic: bool = False
    inertial: Inertial = Inertial(mass=0.0)
    linear_velocity: Vector3 = (0.0, 0.0, 0.0)
    angular_velocity: Vector3 = (0.0, 0.0, 0.0)
    gravity_scale: float = 1.0
    linear_damping: float = 0.0
    angular_damping: float = 0.0
    surface: SurfaceVelocity | None = None
    starts_asleep: bool = False
    parent: int = WORLD_BODY
    joints: tuple[int, ...] = ()
    robot: int = -1


# --- Colliders and visuals ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactMaterial:
    """PhysicsMaterialAPI, dimensionless; UsdPhysics' fallbacks where a bound material leaves something out."""

    static_friction: float = 0.0
    dynamic_friction: float = 0.0
    restitution: float = 0.0


DEFAULT_MATERIAL = ContactMaterial(static_friction=0.5, dynamic_friction=0.5)
"""PhysX's default for colliders without a material. UsdPhysics has none; fallbacks of a bound material are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collider:
    """A gprim with PhysicsCollisionAPI, or below another prim that has it.

    Attributes:
        path: Prim path of the gprim.
        body: Index in PhysicsScene.bodies, WORLD_BODY for a static one.
        body_from_shape: The shape in its body (in the world for a static one), m.
        shape: The shape that collides.
        material: The bound material. Without one, MuJoCo's default (friction 1) with MjcCollisionAPI, else None:
            PhysX's default, friction 0.5 and restitution 0.
        group: Index of the collision group it is in, -1 for none.
        solver: Solver attributes of the prim by resolved name and in SI units: `margin`, `gap` (m), `condim`,
            `priority`, `solref`, `solimp`, `torsional_friction`, `rolling_friction` (m), `solmix`,
            `max_hull_vertices`, `max_hulls`; and of its material: `friction_combine`, `restitution_combine` (average,
            min, multiply or max: how it is combined with another's).
        color: Red, green, blue, opacity, 0 to 1, where it is also to be seen (purpose default or render); None where
            it is not.
    """

    path: str
    body: int
    body_from_shape: Pose
    shape: Shape
    material: ContactMaterial | None = None
    group: int = -1
    solver: Mapping[str, Any] = field(default_factory=dict)
    color: tuple[float, float, float, float] | None = None

    @property
    def contact_material(self) -> ContactMaterial:
        """The material that it has in contacts."""
        return DEFAULT_MATERIAL if self.material is None else self.material


@dataclass(frozen=True, slots=True, kw_only=True)
class Visual:
    """A prim that is only to be seen.

    Attributes:
        path: Prim path.
        body: Index in PhysicsScene.bodies, WORLD_BODY for scenery.
        body_from_shape: The shape in its body (in the world for scenery), m.
        shape: The visible shape.
        color: Red, green, blue, opacity, 0 to 1.
    """

    path: str
    body: int
    body_from_shape: Pose
    shape: Shape
    color: tuple[float, float, float, float] = (0.6, 0.6, 0.6, 1.0)


# --- Joints -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """PhysicsDriveAPI: `force = stiffness * (target_position - q) + damping * (target_velocity - v)`, bounded.

    Attributes:
        acceleration: The result is an acceleration: independent of the masses moved.
        stiffness: N m/rad or N/m (for accelerations 1/s^2).
        damping: N m s/rad or N s/m (for accelerations 1/s).
        constant_effort: N m or N, added to all of it.
        max_force: N m or N, inf for no bound.
        target_position: rad or m, at the start.
        target_velocity: rad/s or m/s, at the start.
    """

    acceleration: bool = False
    stiffness: float = 0.0
    damping: float = 0.0
    constant_effort: float = 0.0
    max_force: float = float("inf")
    target_position: float = 0.0
    target_velocity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mimic:
    """A degree of freedom that follows another: `position = multiplier * leader + offset`.

    Attributes:
        joint: Index of the leader's joint in PhysicsScene.joints.
        dof: Index of the leader in that joint's dofs.
        multiplier: Dimensionless, rad/m or m/rad.
        offset: rad or m.
        polynomial: Coefficients of the leader's second to fourth power, which are added; empty for none.
    """

    joint: int
    dof: int
    multiplier: float = 1.0
    offset: float = 0.0
    polynomial: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dof:
    """One degree of freedom of a joint; radians or metres.

    Attributes:
        axis: Motion of body1 relative to body0, in the joint frame. Several of one joint act in the order listed.
        row: Row in the plan's layout, -1 where the plan has no use for it.
        position: At the start.
        velocity: At the start.
        lower: Lower limit, -inf where there is none.
        upper: Upper limit, inf where there is none.
        max_velocity: Speed limit, inf where there is none.
        max_effort: Effort limit, N m or N, inf where there is none; the drive's own bound included.
        effort_range: Least and greatest effort of all that drives it, where they differ in the two directions.
        limit_stiffness: Of limits that give way, N m/rad or N/m; 0 for hard ones.
        limit_damping: Likewise, N m s/rad or N s/m.
        armature: Inertia of the drive train, kg m^2 or kg.
        friction: Dry friction, N m or N.
        stiffness: Of a spring without a drive (solver attributes), N m/rad or N/m.
        spring_position: Position at which that spring rests, rad or m.
        damping: Likewise, N m s/rad or N s/m.
        reference: MuJoCo's own coordinate at position 0 (mjc:ref), rad or m: actuators and tendons of the asset
            are in that coordinate. Limits and `spring_position` are not.
        drive: Its drive, None for a passive one.
        mimic: The rule it follows, None where it follows none.
    """

    axis: DofAxis
    row: int = -1
    position: float = 0.0
    velocity: float = 0.0
    lower: float = -float("inf")
    upper: float = float("inf")
    max_velocity: float = float("inf")
    max_effort: float = float("inf")
    effort_range: tuple[float, float] | None = None
    limit_stiffness: float = 0.0
    limit_damping: float = 0.0
    armature: float = 0.0
    friction: float = 0.0
    stiffness: float = 0.0
    spring_position: float = 0.0
    damping: float = 0.0
    reference: float = 0.0
    drive: Drive | None = None
    mimic: Mimic | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """A joint between two bodies, or a body and the world.

    `body0_from_body1 = body0_from_joint * motion * inverse(body1_from_joint)`, motion of body1 relative to body0.

    Attributes:
        path: Prim path.
        type: Kind; `generic` is a D6 joint whose locked axes are those without a dof.
        body0: Index in PhysicsScene.bodies, or WORLD_BODY.
        body1: Index in PhysicsScene.bodies, or WORLD_BODY.
        body0_from_joint: Joint frame in body0, in the world where that is the world.
        body1_from_joint: Joint frame in body1, in the world where that is the world.
        dofs: Degrees of freedom; empty for fixed and distance joints.
        axis: X, Y or Z of a revolute, prismatic or spherical joint, None for others.
        cone: Half angles of a spherical joint's limit towards the two axes after `axis`, rad; None where unlimited.
        distance: Least and greatest distance of a distance joint's ends, m; 0 and inf where unlimited.
        collides: The two bodies collide with each other (physics:collisionEnabled).
        closes_loop: No body hangs by it: it closes a loop, or was excluded from the articulation.
        solver: Solver attributes by resolved name: `solref_limit`, `solimp_limit`.
    """

    path: str
    type: JointType
    body0: int
    body1: int
    body0_from_joint: Pose = IDENTITY_POSE
    body1_from_joint: Pose = IDENTITY_POSE
    dofs: tuple[Dof, ...] = ()
    axis: Literal["X", "Y", "Z"] | None = None
    cone: tuple[float, float] | None = None
    distance: tuple[float, float] | None = None
    collides: bool = False
    closes_loop: bool = False
    solver: Mapping[str, Any] = field(default_factory=dict)


# --- Actuators and tendons -----------------------------------------------------------------------------------------

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A point of a body, with axes, that an actuator or a tendon may act at.

    Attributes:
        path: Prim path.
        body: Index in PhysicsScene.bodies, WORLD_BODY for one that does not move.
        body_from_site: The site in its body (in the world for WORLD_BODY), m.
    """

    path: str
    body: int = WORLD_BODY
    body_from_site: Pose = IDENTITY_POSE


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapShape:
    """A gprim that tendons wrap around. It does so beside whatever else it is.

    Attributes:
        path: Prim path.
        body: Index in PhysicsScene.bodies, WORLD_BODY for one that does not move.
        body_from_shape: The shape in its body, m.
        shape: Ball or cylinder; a capsule counts as the cylinder that it continues.
    """

    path: str
    body: int
    body_from_shape: Pose
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class TendonPoint:
    """One step on the path of a spatial tendon: a site, a shape, or a pulley.

    Attributes:
        site: Index in PhysicsScene.sites, -1 for none.
        shape: Index in PhysicsScene.wraps, -1 for none.
        side_site: Index in PhysicsScene.sites of the site on whose side of the shape it runs, -1 for none.
        divisor: By what lengths after a pulley are divided; 0 for no pulley.
    """

    site: int = -1
    shape: int = -1
    side_site: int = -1
    divisor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tendon:
    """A tendon: a sum of joint positions (fixed), or a string over sites and shapes (spatial). m, or as its joints are.

    Attributes:
        path: Prim path.
        joints: Of a fixed one: index of each joint in PhysicsScene.joints, and its coefficient.
        points: Of a spatial one.
        stiffness: Of its spring, force per length.
        damping: Force per speed.
        spring_length: Between these lengths the spring is slack; (-1, -1) for the length at the reference positions.
        friction: Dry friction, force.
        armature: Inertia against changes of its length.
        limits: Least and greatest length, None for none.
        margin: How far before a limit it begins to act.
        force_limits: Bounds of the sum of its actuators, None for none.
        group: MuJoCo's group.
        width: Radius that it is drawn with, m.
        color: Red, green, blue, opacity, 0 to 1.
        solver: `solref_limit`, `solimp_limit`, `solref_friction`, `solimp_friction`.
    """

    path: str
    joints: tuple[tuple[int, float], ...] = ()
    points: tuple[TendonPoint, ...] = ()
    stiffness: float = 0.0
    damping: float = 0.0
    spring_length: Range = (-1.0, -1.0)
    friction: float = 0.0
    armature: float = 0.0
    limits: Range | None = None
    margin: float = 0.0
    force_limits: Range | None = None
    group: int = 0
    width: float = 0.003
    color: tuple[float, ...] = (0.5, 0.5, 0.5, 1.0)
    solver: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actuator:
    """An MjcActuator: a control becomes a force on a joint, a tendon, a site or a body, as MuJoCo defines it.

    Attributes:
        path: Prim path.
        names: Its names in messages, the usual name first and its prim path last; unique in its robot.
        robot: Index in BridgePlan.robots, -1 for none.
        transmission: Kind of its target.
        joint: Index in PhysicsScene.joints, -1 for none.
        tendon: Index in PhysicsScene.tendons, -1 for none.
        site: Index in PhysicsScene.sites, -1 for none; of a slider-crank the crank's.
        other_site: Likewise the reference site, or the slider's.
        body: Index in PhysicsScene.bodies, WORLD_BODY for none.
        gear: Six numbers; the first alone counts for hinges, slides, tendons and slider-cranks.
        crank_length: m.
        dynamics: Kind of activation, and its parameters.
        gain: Kind of gain, and its parameters.
        bias: Kind of bias, and its parameters.
        control_range: None for none, as the ranges after it.
        force_range: Bounds of its force.
        activation_range: Bounds of its activation.
        length_range: Of a muscle; None: MuJoCo computes it.
        inherit_range: Above 0 the control range is that share of its joint's or tendon's limits.
        activation_dimension: -1 for what the kind of activation needs.
        acts_early: The activation at the end of a step counts.
        group: MuJoCo's group.
        interface: Kind of command of its joint that it executes, "" for its own control alone.
        control_per_command: Control for a command of 1 in that interface.
    """

    path: str
    names: tuple[str, ...] = ()
    robot: int = -1
    transmission: Literal["joint", "joint_in_parent", "tendon", "site", "slider_crank", "body"] = "joint"
    joint: int = -1
    tendon: int = -1
    site: int = -1
    other_site: int = -1
    body: int = WORLD_BODY
    gear: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    crank_length: float = 0.0
    dynamics: tuple[str, tuple[float, ...]] = ("none", (1.0,))
    gain: tuple[str, tuple[float, ...]] = ("fixed", (1.0,))
    bias: tuple[str, tuple[float, ...]] = ("none", ())
    control_range: Range | None = None
    force_range: Range | None = None
    activation_range: Range | None = None
    length_range: Range | None = None
    inherit_range: float = 0.0
    activation_dimension: int = -1
    acts_early: bool = False
    group: int = 0
    interface: Literal["", "position", "velocity", "effort"] = ""
    control_per_command: float = 1.0


# --- Scene --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicsScene:
    """A stage's physics.

    Attributes:
        gravity: In the world frame, m/s^2.
        timestep: Seconds, as a solver's attribute of the PhysicsScene prim has it; None where none does.
        solver: Other solver attributes of the PhysicsScene prim by resolved name: `iterations`, `cone`, `integrator`.
        mujoco_options: `solver` has all of MuJoCo's options; the engine chooses none.
        bodies: Parents before children; otherwise in traversal order.
        joints: In traversal order.
        colliders: In traversal order.
        visuals: In traversal order; empty if they were not requested.
        apart_bodies: Pairs of body indices that do not collide with each other, smaller first: joints whose
            `collides` is false, with what fixed joints weld to their ends, and filtered pairs.
        apart_colliders: Pairs of collider indices that do not, smaller first.
        groups: Prim paths of the collision groups.
        apart_groups: Pairs of group indices that do not collide, smaller first; a group may be apart from itself.
        sensors: Sensors of backends, in the order of the interfaces.
        tracks: Time samples of kinematic bodies; their rows are indices in `bodies`.
        sites: In traversal order.
        wraps: Shapes that tendons wrap around.
        tendons: In traversal order.
        actuators: MuJoCo's, in traversal order. Those of Newton are drives of their joints.
    """

    gravity: Vector3 = (0.0, 0.0, -9.81)
    timestep: float | None = None
    solver: Mapping[str, Any] = field(default_factory=dict)
    mujoco_options: bool = False
    bodies: tuple[Body, ...] = ()
    joints: tuple[Joint, ...] = ()
    colliders: tuple[Collider, ...] = ()
    visuals: tuple[Visual, ...] = ()
    apart_bodies: tuple[tuple[int, int], ...] = ()
    apart_colliders: tuple[tuple[int, int], ...] = ()
    groups: tuple[str, ...] = ()
    apart_groups: tuple[tuple[int, int], ...] = ()
    sensors: tuple[Sensor, ...] = ()
    tracks: tuple[PoseTrack, ...] = ()
    sites: tuple[Site, ...] = ()
    wraps: tuple[WrapShape, ...] = ()
    tendons: tuple[Tendon, ...] = ()
    actuators: tuple[Actuator, ...] = ()

    @property
    def needs_forces(self) -> bool:
        """Return whether drives, actuators or falling bodies make a kinematic model a poor one.

        A default backend is chosen by it.
        """
        driven = bool(self.actuators) or any(
            dof.drive is not None for joint in self.joints for dof in joint.dofs
        )
        floating = any(body.robot >= 0 and not (body.joints or body.kinematic) for body in self.bodies)
        return driven or floating

    @property
    def falling_body(self) -> str:
        """Return the path of the first body of a robot that falls forever, as nothing static collides; "" for none."""
        has_ground = any(
            collider.body == WORLD_BODY or self.bodies[collider.body].kinematic for collider in self.colliders
        )
        if has_ground or not any(self.gravity):
            return ""
        falling = (
            body.path
            for body in self.bodies
            if body.robot >= 0 and body.gravity_scale and not (body.joints or body.kinematic)
        )
        return next(falling, "")

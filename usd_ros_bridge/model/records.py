"""Records: what a stage authors, one class per schema, in the stage's own units and names.

A record holds values exactly as composed: degrees, stage units, unvalidated strings. An attribute that is not
authored is None; the schema's fallback stands in the field's metadata (`fallback`), because some rules depend on
whether a value was authored. The reader iterates over `attribute_fields`, so that a new schema attribute is one
new field here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal

from usd_ros_bridge.spatial.scalar import Quaternion, Vector3

Matrix4 = tuple[float, ...]
"""16 floats, row-major, for column vectors: `point_in_parent = matrix @ point`."""

JointType = Literal["revolute", "continuous", "prismatic", "fixed", "spherical", "distance", "generic"]
DofAxis = Literal["transX", "transY", "transZ", "rotX", "rotY", "rotZ"]
"""A motion that a joint leaves free, in the words of UsdPhysics."""


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """The USD side of a record's field: property name, SdfValueTypeName ("rel" for a relationship), fallback.

    `aliases` are other names of the same property in other releases of the schema; the first one authored counts.
    """

    name: str
    type_name: str
    fallback: Any = None
    aliases: tuple[str, ...] = ()


def attribute(name: str, type_name: str, fallback: Any = None, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a record field that is read from the USD property `name`; unauthored values are None."""
    return field(default=None, metadata={"usd": AttributeSpec(name, type_name, fallback, aliases)})


def attribute_fields(record_type: type) -> tuple[tuple[str, AttributeSpec], ...]:
    """Return (field name, spec) of every field of `record_type` that is read from a USD property."""
    return _attribute_fields(record_type)


@cache
def _attribute_fields(record_type: type) -> tuple[tuple[str, AttributeSpec], ...]:
    return tuple((f.name, f.metadata["usd"]) for f in fields(record_type) if "usd" in f.metadata)


def fallback(record: Record, field_name: str) -> Any:
    """Return the field's authored value, or the schema's fallback where none is authored."""
    value = getattr(record, field_name)
    record_type: type = type(record)
    return _fallbacks(record_type)[field_name] if value is None else value


@cache
def _fallbacks(record_type: type) -> dict[str, Any]:
    return {name: spec.fallback for name, spec in attribute_fields(record_type)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base of all records.

    Attributes:
        path: Path of the prim.
        invalid: USD names of properties whose authored value has a type that cannot be used; their fields are None.
            The reader has reported each of them.
        specs: Number of the prim specs that the prim is composed from. Records of one type and number, as a thousand
            references to one robot give them, have the same values but for paths. 0 if that is unknown.
    """

    path: str
    invalid: tuple[str, ...] = ()
    specs: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatedRecord(Record):
    """Targets of an MjcActuator or a NewtonActuator; the rest is in PhysicsRecords."""

    target: tuple[str, ...] | None = attribute("mjc:target", "rel", aliases=("newton:targets",))


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorModelRecord(Record):
    """A prim with the schema, or of the type, of a sensor model of another distribution.

    Attributes:
        schema: Name of the model.
        values: Authored values by USD name: of the model's attributes, and of others in their namespaces.
    """

    schema: str
    values: Mapping[str, Any]


# --- ROS interfaces (REP 0158 section 2) -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRecord(Record):
    """RosContextAPI (REP 0158 section 2.1)."""

    namespace: str | None = attribute("ros:context:namespace", "string")
    domain_id: int | None = attribute("ros:context:domain_id", "int")
    parent_frame: str | None = attribute("ros:context:parent_frame", "string", "world")
    base_transform: str | None = attribute("usd_ros_bridge:base_transform", "token", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(Record):
    """RosTopicAPI (REP 0158 section 2.4)."""

    role: str | None = attribute("ros:topic:role", "token")
    name: str | None = attribute("ros:topic:name", "string")
    type: str | None = attribute("ros:topic:type", "string")
    publish_rate: float | None = attribute("ros:topic:publish_rate", "double")
    override_frame_id: str | None = attribute("ros:topic:override_frame_id", "string")
    match_publisher: bool | None = attribute("ros:topic:qos:match_publisher", "bool", False)
    reliability: str | None = attribute("ros:topic:qos:reliability", "token", "system_default")
    durability: str | None = attribute("ros:topic:qos:durability", "token", "system_default")
    history: str | None = attribute("ros:topic:qos:history", "token", "system_default")
    depth: int | None = attribute("ros:topic:qos:depth", "int", 10)
    starts_enabled: bool | None = attribute("ros:topic:starts_enabled", "bool", True)
    source: tuple[str, ...] | None = attribute("usd_ros_bridge:source", "rel")
    child_frame_id: str | None = attribute("usd_ros_bridge:odometry:child_frame_id", "string", "")
    forward_joints: tuple[str, ...] | None = attribute("usd_ros_bridge:forward_command:joints", "rel")
    forward_interface: str | None = attribute("usd_ros_bridge:forward_command:interface", "token", "position")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord(Record):
    """RosServiceAPI (REP 0158 section 2.5)."""

    role: str | None = attribute("ros:service:role", "token")
    name: str | None = attribute("ros:service:name", "string")
    type: str | None = attribute("ros:service:type", "string")
    starts_enabled: bool | None = attribute("ros:service:starts_enabled", "bool", True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRecord(Record):
    """RosActionAPI (REP 0158 section 2.6).

    Grippers have no controller schema: what parallel_gripper_controller of ros2_controllers takes as parameters is
    authored beside the server, in the bridge's own namespace, with the same defaults. Without a goal tolerance
    it is 0.01, at most 2 % of the joint's stroke.
    """

    role: str | None = attribute("ros:action:role", "token")
    name: str | None = attribute("ros:action:name", "string")
    type: str | None = attribute("ros:action:type", "string")
    starts_enabled: bool | None = attribute("ros:action:starts_enabled", "bool", True)
    gripper_joints: tuple[str, ...] | None = attribute("usd_ros_bridge:gripper:joints", "rel")
    gripper_goal_tolerance: float | None = attribute("usd_ros_bridge:gripper:goal_tolerance", "double")
    gripper_stall_velocity_threshold: float | None = attribute(
        "usd_ros_bridge:gripper:stall_velocity_threshold", "double", 0.001
    )
    gripper_stall_timeout: float | None = attribute("usd_ros_bridge:gripper:stall_timeout", "double", 1.0)
    gripper_allow_stalling: bool | None = attribute("usd_ros_bridge:gripper:allow_stalling", "bool", False)
    gripper_max_effort: float | None = attribute("usd_ros_bridge:gripper:max_effort", "double", 0.0)
    gripper_action_monitor_rate: float | None = attribute(
        "usd_ros_bridge:gripper:action_monitor_rate", "double", 20.0
    )
    gripper_beyond_limits: str | None = attribute("usd_ros_bridge:gripper:beyond_limits", "token", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord(Record):
    """RosFrameAPI (REP 0158 section 2.7)."""

    id: str | None = attribute("ros:frame:id", "string")
    static: bool | None = attribute("ros:frame:static", "bool", True)


# --- Control extension schemas (ros-simulation/openusd-schemas) -------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRecord(Record):
    """Base of records of RosControl*API. Relationship targets may be prims or collections (`/P.collection:name`)."""

    starts_enabled: bool | None = attribute("control:starts_enabled", "bool", True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalControlRecord(ControllerRecord):
    """RosControlExternalAPI: joint state and command interfaces for a controller outside (ros2_control)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointStateBroadcasterRecord(ControllerRecord):
    """RosControlJointStateBroadcasterAPI."""

    publisher: tuple[str, ...] | None = attribute("ros:joint_state_broadcaster:publisher", "rel")
    joints: tuple[str, ...] | None = attribute("ros:joint_state_broadcaster:joints", "rel")
    frame_id: str | None = attribute("ros:joint_state_broadcaster:frame_id", "string", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTrajectoryRecord(ControllerRecord):
    """RosControlJointTrajectoryAPI."""

    server: tuple[str, ...] | None = attribute("ros:joint_trajectory:server", "rel")
    command_joints: tuple[str, ...] | None = attribute("ros:joint_trajectory:command_joints", "rel")
    action_monitor_rate: float | None = attribute("ros:joint_trajectory:action_monitor_rate", "double")
    stopped_velocity_tolerance: float | None = attribute(
        "ros:joint_trajectory:stopped_velocity_tolerance", "double"
    )
    timeout: float | None = attribute("ros:joint_trajectory:timeout", "double")
    beyond_limits: str | None = attribute("usd_ros_bridge:joint_trajectory:beyond_limits", "token", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffDriveRecord(ControllerRecord):
    """RosControlDiffDriveAPI."""

    subscriber: tuple[str, ...] | None = attribute("ros:diff_drive:subscriber", "rel")
    odom: tuple[str, ...] | None = attribute("ros:diff_drive:odom", "rel")
    left_wheels: tuple[str, ...] | None = attribute("ros:diff_drive:left_wheels", "rel")
    right_wheels: tuple[str, ...] | None = attribute("ros:diff_drive:right_wheels", "rel")
    wheel_separation: float | None = attribute("ros:diff_drive:wheel_separation", "double")
    wheel_radius: float | None = attribute("ros:diff_drive:wheel_radius", "double")
    cmd_vel_timeout: float | None = attribute("ros:diff_drive:cmd_vel_timeout", "double", 0.5)
    linear_max_velocity: float | None = attribute("ros:diff_drive:linear:x:max_velocity", "double")
    linear_max_acceleration: float | None = attribute("ros:diff_drive:linear:x:max_acceleration", "double")
    angular_max_velocity: float | None = attribute("ros:diff_drive:angular:z:max_velocity", "double")
    angular_max_acceleration: float | None = attribute("ros:diff_drive:angular:z:max_acceleration", "double")
    pose_covariance_diagonal: tuple[float, ...] | None = attribute(
        "usd_ros_bridge:diff_drive:pose_covariance_diagonal", "double[]", (0.0,) * 6
    )
    twist_covariance_diagonal: tuple[float, ...] | None = attribute(
        "usd_ros_bridge:diff_drive:twist_covariance_diagonal", "double[]", (0.0,) * 6
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RigidBodyTwistRecord(ControllerRecord):
    """RosControlRigidBodyTwistAPI."""

    subscriber: tuple[str, ...] | None = attribute("ros:rigid_body_twist:subscriber", "rel")
    body: tuple[str, ...] | None = attribute("ros:rigid_body_twist:body", "rel")


# --- UsdPhysics -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RigidBodyRecord(Record):
    """PhysicsRigidBodyAPI, with the body's time-sampled state where a stage carries one."""

    enabled: bool | None = attribute("physics:rigidBodyEnabled", "bool", True)
    kinematic_enabled: bool | None = attribute("physics:kinematicEnabled", "bool", False)
    velocity: Vector3 | None = attribute("physics:velocity", "vector3f", (0.0, 0.0, 0.0))
    angular_velocity: Vector3 | None = attribute("physics:angularVelocity", "vector3f", (0.0, 0.0, 0.0))
    starts_asleep: bool | None = attribute("physics:startsAsleep", "bool", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticulationRootRecord(Record):
    """PhysicsArticulationRootAPI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisLimitRecord(Record):
    """One instance of PhysicsLimitAPI on a joint; `axis` is the instance name (transX ... rotZ, distance).

    A part of JointRecord, which has the path; its own is "". So it is with DriveRecord.
    """

    axis: str
    low: float | None = attribute("limit:{axis}:physics:low", "float", -float("inf"))
    high: float | None = attribute("limit:{axis}:physics:high", "float", float("inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveRecord(Record):
    """One instance of PhysicsDriveAPI on a joint; `axis` is the instance name (angular, linear, transX ... rotZ)."""

    axis: str
    type: str | None = attribute("drive:{axis}:physics:type", "token", "force")
    max_force: float | None = attribute("drive:{axis}:physics:maxForce", "float", float("inf"))
    target_position: float | None = attribute("drive:{axis}:physics:targetPosition", "float", 0.0)
    target_velocity: float | None = attribute("drive:{axis}:physics:targetVelocity", "float", 0.0)
    damping: float | None = attribute("drive:{axis}:physics:damping", "float", 0.0)
    stiffness: float | None = attribute("drive:{axis}:physics:stiffness", "float", 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRecord(Record):
    """A prim of a UsdPhysics joint type, in stage units and degrees.

    Attributes:
        type_name: USD type, for example `PhysicsRevoluteJoint`; `PhysicsJoint` is the generic (D6) joint.
        kept_name: The joint's name before a converter, which kept it as the display name: USD cannot carry it.
        limits: PhysicsLimitAPI instances, in order of application.
        drives: PhysicsDriveAPI instances, in order of application.
        applied: Applied API schemas except those of limits and drives, in order; multiple-apply ones with their
            instance (`PhysxMimicJointAPI:rotX`). NewtonMimicAPI, for example, acts with only its relationship
            authored.
        solver_attributes: Every authored property under a vendor's prefix (newton:, physx...:, mjc:, ext_physics:,
            isaac:, state:, urdf:) by its USD name; relationships as tuples of paths, arrays as tuples. The resolver
            table reads these.
    """

    type_name: str
    kept_name: str = ""
    limits: tuple[AxisLimitRecord, ...] = ()
    drives: tuple[DriveRecord, ...] = ()
    applied: tuple[str, ...] = ()
    solver_attributes: Mapping[str, Any] = field(default_factory=dict)
    ros_name: str | None = attribute("ros:joint:name", "string")
    body0: tuple[str, ...] | None = attribute("physics:body0", "rel")
    body1: tuple[str, ...] | None = attribute("physics:body1", "rel")
    local_pos0: Vector3 | None = attribute("physics:localPos0", "point3f", (0.0, 0.0, 0.0))
    local_rot0: Quaternion | None = attribute("physics:localRot0", "quatf", (0.0, 0.0, 0.0, 1.0))
    local_pos1: Vector3 | None = attribute("physics:localPos1", "point3f", (0.0, 0.0, 0.0))
    local_rot1: Quaternion | None = attribute("physics:localRot1", "quatf", (0.0, 0.0, 0.0, 1.0))
    axis: str | None = attribute("physics:axis", "token", "X")
    lower_limit: float | None = attribute("physics:lowerLimit", "float", -float("inf"))
    upper_limit: float | None = attribute("physics:upperLimit", "float", float("inf"))
    cone_angle0: float | None = attribute("physics:coneAngle0Limit", "float", -1.0)
    cone_angle1: float | None = attribute("physics:coneAngle1Limit", "float", -1.0)
    min_distance: float | None = attribute("physics:minDistance", "float", -1.0)
    max_distance: float | None = attribute("physics:maxDistance", "float", -1.0)
    enabled: bool | None = attribute("physics:jointEnabled", "bool", True)
    exclude_from_articulation: bool | None = attribute("physics:excludeFromArticulation", "bool", False)
    collision_enabled: bool | None = attribute("physics:collisionEnabled", "bool", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GearRecord(Record):
    """PhysxPhysicsGearJoint: the bodies of two hinges turn with a ratio of speeds."""

    body0: tuple[str, ...] | None = attribute("physics:body0", "rel")
    body1: tuple[str, ...] | None = attribute("physics:body1", "rel")
    enabled: bool | None = attribute("physics:jointEnabled", "bool", True)
    collision_enabled: bool | None = attribute("physics:collisionEnabled", "bool", False)
    hinge0: tuple[str, ...] | None = attribute("physics:hinge0", "rel")
    hinge1: tuple[str, ...] | None = attribute("physics:hinge1", "rel")
    gear_ratio: float | None = attribute("physics:gearRatio", "float", 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RackRecord(Record):
    """PhysxPhysicsRackAndPinionJoint: the ratio is in degrees by stage unit."""

    body0: tuple[str, ...] | None = attribute("physics:body0", "rel")
    body1: tuple[str, ...] | None = attribute("physics:body1", "rel")
    enabled: bool | None = attribute("physics:jointEnabled", "bool", True)
    collision_enabled: bool | None = attribute("physics:collisionEnabled", "bool", False)
    hinge: tuple[str, ...] | None = attribute("physics:hinge", "rel")
    prismatic: tuple[str, ...] | None = attribute("physics:prismatic", "rel")
    ratio: float | None = attribute("physics:ratio", "float", 1.0)


# --- Isaac's robot schema ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaacRobotRecord(Record):
    """IsaacRobotAPI."""

    namespace: str | None = attribute("isaac:namespace", "string")
    description: str | None = attribute("isaac:description", "string")
    links: tuple[str, ...] | None = attribute("isaac:physics:robotLinks", "rel")
    joints: tuple[str, ...] | None = attribute("isaac:physics:robotJoints", "rel")


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaacLinkRecord(Record):
    """IsaacLinkAPI."""

    name_override: str | None = attribute("isaac:nameOverride", "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaacJointRecord(Record):
    """IsaacJointAPI: the reported name, and the order of the joint's degrees of freedom.

    Isaac Sim's schema writes a joint's override `isaac:NameOverride`, assets have either spelling. The per-axis offsets
    (two spellings as well) are what came before `isaac:physics:DofOffsetOpOrder` (tokens TransX ... RotZ).
    """

    name_override: str | None = attribute("isaac:nameOverride", "string", aliases=("isaac:NameOverride",))
    dof_offset_order: tuple[str, ...] | None = attribute("isaac:physics:DofOffsetOpOrder", "token[]")
    trans_x_offset: int | None = attribute(
        "isaac:physics:Tr_X:DofOffset", "int", aliases=("isaac:physics:Tr_X:DoFOffset",)
    )
    trans_y_offset: int | None = attribute(
        "isaac:physics:Tr_Y:DofOffset", "int", aliases=("isaac:physics:Tr_Y:DoFOffset",)
    )
    trans_z_offset: int | None = attribute(
        "isaac:physics:Tr_Z:DofOffset", "int", aliases=("isaac:physics:Tr_Z:DoFOffset",)
    )
    rot_x_offset: int | None = attribute(
        "isaac:physics:Rot_X:DofOffset", "int", aliases=("isaac:physics:Rot_X:DoFOffset",)
    )
    rot_y_offset: int | None = attribute(
        "isaac:physics:Rot_Y:DofOffset", "int", aliases=("isaac:physics:Rot_Y:DoFOffset",)
    )
    rot_z_offset: int | None = attribute(
        "isaac:physics:Rot_Z:DofOffset", "int", aliases=("isaac:physics:Rot_Z:DoFOffset",)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaacSiteRecord(Record):
    """IsaacSiteAPI, IsaacReferencePointAPI before Isaac Sim 6: a point of interest, as where a tool or a sensor is."""

    description: str | None = attribute("isaac:Description", "string", aliases=("isaac:description",))
    forward_axis: str | None = attribute("isaac:forwardAxis", "token", "X")


# --- Geometry ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraRecord(Record):
    """UsdGeomCamera; apertures and focal length in tenths of a stage unit, as OpenUSD defines them."""

    projection: str | None = attribute("projection", "token", "perspective")
    focal_length: float | None = attribute("focalLength", "float", 50.0)
    horizontal_aperture: float | None = attribute("horizontalAperture", "float", 20.955)
    vertical_aperture: float | None = attribute("verticalAperture", "float", 15.2908)
    horizontal_aperture_offset: float | None = attribute("horizontalApertureOffset", "float", 0.0)
    vertical_aperture_offset: float | None = attribute("verticalApertureOffset", "float", 0.0)
    clipping_range: tuple[float, float] | None = attribute("clippingRange", "float2", (1.0, 1000000.0))
    resolution: tuple[int, int] | None = attribute("usd_ros_bridge:camera:resolution", "int2", (640, 480))

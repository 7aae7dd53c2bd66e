"""Interface types: their names, and what each means to planning, to the runtime and to backends.

One row per type. How its messages are encoded and decoded is one row in `ros/codecs/`. No other module spells a type
name. Other distributions add types with entry points of the group `usd_ros_bridge.codecs`: each names a `CodecPlugin`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

from usd_ros_bridge.errors import BridgeError, quoted
from usd_ros_bridge.plugins import PluginEntry, Registry

CommandKind = Literal["", "joint_targets", "joint_array", "body_twist", "body_pose"]

ACCEL_STAMPED: Final = "geometry_msgs/msg/AccelStamped"
BOOL: Final = "std_msgs/msg/Bool"
CAMERA_INFO: Final = "sensor_msgs/msg/CameraInfo"
CLOCK: Final = "rosgraph_msgs/msg/Clock"
COMPRESSED_IMAGE: Final = "sensor_msgs/msg/CompressedImage"
FLOAT64_MULTI_ARRAY: Final = "std_msgs/msg/Float64MultiArray"
FLUID_PRESSURE: Final = "sensor_msgs/msg/FluidPressure"
IMAGE: Final = "sensor_msgs/msg/Image"
IMU: Final = "sensor_msgs/msg/Imu"
JOINT_STATE: Final = "sensor_msgs/msg/JointState"
JOINT_TRAJECTORY: Final = "trajectory_msgs/msg/JointTrajectory"
LASER_SCAN: Final = "sensor_msgs/msg/LaserScan"
LOG: Final = "rcl_interfaces/msg/Log"
MAGNETIC_FIELD: Final = "sensor_msgs/msg/MagneticField"
NAV_SAT_FIX: Final = "sensor_msgs/msg/NavSatFix"
OCCUPANCY_GRID: Final = "nav_msgs/msg/OccupancyGrid"
ODOMETRY: Final = "nav_msgs/msg/Odometry"
PARAMETER_EVENT: Final = "rcl_interfaces/msg/ParameterEvent"
PATH: Final = "nav_msgs/msg/Path"
POINT_CLOUD: Final = "sensor_msgs/msg/PointCloud2"
POINT_STAMPED: Final = "geometry_msgs/msg/PointStamped"
POSE_STAMPED: Final = "geometry_msgs/msg/PoseStamped"
POSE_WITH_COVARIANCE_STAMPED: Final = "geometry_msgs/msg/PoseWithCovarianceStamped"
RANGE: Final = "sensor_msgs/msg/Range"
STRING: Final = "std_msgs/msg/String"
TEMPERATURE: Final = "sensor_msgs/msg/Temperature"
TF_MESSAGE: Final = "tf2_msgs/msg/TFMessage"
TRANSFORM_STAMPED: Final = "geometry_msgs/msg/TransformStamped"
TWIST: Final = "geometry_msgs/msg/Twist"
TWIST_STAMPED: Final = "geometry_msgs/msg/TwistStamped"
WRENCH_STAMPED: Final = "geometry_msgs/msg/WrenchStamped"

GET_ENTITIES_STATES: Final = "simulation_interfaces/srv/GetEntitiesStates"
GET_PARAMETERS: Final = "rcl_interfaces/srv/GetParameters"
GET_RESOURCE: Final = "rviz_resource_interfaces/srv/GetResource"
SET_BOOL: Final = "std_srvs/srv/SetBool"
SET_PARAMETERS: Final = "rcl_interfaces/srv/SetParameters"
TRIGGER: Final = "std_srvs/srv/Trigger"
SIMULATOR_FEATURES: Final = "simulation_interfaces/srv/GetSimulatorFeatures"
"""Served by every simulator that follows the standard."""

FOLLOW_JOINT_TRAJECTORY: Final = "control_msgs/action/FollowJointTrajectory"
GRIPPER_COMMAND: Final = "control_msgs/action/GripperCommand"
PARALLEL_GRIPPER_COMMAND: Final = "control_msgs/action/ParallelGripperCommand"

GRIPPERS: Final = frozenset({GRIPPER_COMMAND, PARALLEL_GRIPPER_COMMAND})
TWISTS: Final = frozenset({TWIST, TWIST_STAMPED})

_SIMULATION: Final = "simulation_interfaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageType:
    """Meaning of a message type to planning.

    Attributes:
        best_effort: The system_default reliability is best effort, in both roles: a stream of measurements.
        latched: The system_default durability is transient local.
        latched_name: As `latched`, for topics whose last name segment is this.
        of_body: Its messages are about a body; on a prim of the whole robot, of the robot's base.
        in_world: Its messages place a body in the world: the header's frame is the robot's parent frame.
        has_child_frame: Its messages name the body in child_frame_id.
        of_joints: Its messages are about the joints of the interface's context.
        commands: Target of a subscription of the type that no controller names, "" for none.
        sensor: Second part of the names of sensor attributes (`usd_ros_bridge:lidar:...`), "" for no sensor.
        shows: USD value types of the attributes that its messages can show (`rel usd_ros_bridge:source`).
        display: Name of RViz's display (in rviz_default_plugins), "" for none.
    """

    best_effort: bool = False
    latched: bool = False
    latched_name: str = ""
    of_body: bool = False
    in_world: bool = False
    has_child_frame: bool = False
    of_joints: bool = False
    commands: CommandKind = ""
    sensor: str = ""
    shows: frozenset[str] = frozenset()
    display: str = ""


_INTEGERS: Final = frozenset({"uchar", "int", "uint", "int64", "uint64"})
_NUMBERS: Final = frozenset({"half", "float", "double", "timecode"}) | _INTEGERS
_TEXTS: Final = frozenset({"string", "token", "asset"})
_COLORS: Final = frozenset(
    f"{kind}{size}{precision}"
    for kind in ("color", "float")
    for size in (3, 4)
    for precision in ("h", "f", "d", "")
) | frozenset({"double3", "double4", "half3", "half4"})
_INTEGER_ARRAYS: Final = frozenset(f"{name}[]" for name in _INTEGERS)
_NUMBER_ARRAYS: Final = frozenset(f"{name}[]" for name in _NUMBERS)
_INTEGER_NAMES: Final = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")

_ROWS: Final[Mapping[str, MessageType]] = {
    ACCEL_STAMPED: MessageType(of_body=True, display="AccelStamped"),
    POSE_STAMPED: MessageType(of_body=True, in_world=True, commands="body_pose", display="Pose"),
    TRANSFORM_STAMPED: MessageType(of_body=True, in_world=True, has_child_frame=True),
    TWIST: MessageType(of_body=True, commands="body_twist"),
    TWIST_STAMPED: MessageType(of_body=True, commands="body_twist", display="TwistStamped"),
    WRENCH_STAMPED: MessageType(of_body=True, sensor="wrench", display="Wrench"),
    ODOMETRY: MessageType(of_body=True, has_child_frame=True, display="Odometry"),
    CAMERA_INFO: MessageType(best_effort=True),
    COMPRESSED_IMAGE: MessageType(best_effort=True, sensor="camera", display="Image"),
    FLUID_PRESSURE: MessageType(best_effort=True, sensor="barometer"),
    "sensor_msgs/msg/Illuminance": MessageType(best_effort=True, shows=_NUMBERS),
    IMAGE: MessageType(best_effort=True, sensor="camera", display="Image"),
    IMU: MessageType(best_effort=True, of_body=True, sensor="imu"),
    JOINT_STATE: MessageType(of_joints=True, commands="joint_targets"),
    LASER_SCAN: MessageType(best_effort=True, sensor="lidar", display="LaserScan"),
    MAGNETIC_FIELD: MessageType(best_effort=True, sensor="magnetometer"),
    NAV_SAT_FIX: MessageType(best_effort=True, sensor="gnss"),
    POINT_CLOUD: MessageType(best_effort=True, sensor="lidar", display="PointCloud2"),
    RANGE: MessageType(best_effort=True, sensor="range", display="Range"),
    "sensor_msgs/msg/RelativeHumidity": MessageType(best_effort=True, shows=_NUMBERS),
    TEMPERATURE: MessageType(best_effort=True, sensor="thermometer", shows=_NUMBERS),
    BOOL: MessageType(sensor="contact", shows=frozenset({"bool"})),
    "std_msgs/msg/Char": MessageType(shows=_INTEGERS),
    "std_msgs/msg/ColorRGBA": MessageType(shows=_COLORS),
    "std_msgs/msg/Float32": MessageType(shows=_NUMBERS),
    "std_msgs/msg/Float32MultiArray": MessageType(shows=_NUMBER_ARRAYS),
    "std_msgs/msg/Float64": MessageType(shows=_NUMBERS),
    FLOAT64_MULTI_ARRAY: MessageType(of_joints=True, commands="joint_array", shows=_NUMBER_ARRAYS),
    **{f"std_msgs/msg/{name}": MessageType(shows=_INTEGERS) for name in _INTEGER_NAMES},
    **{f"std_msgs/msg/{name}MultiArray": MessageType(shows=_INTEGER_ARRAYS) for name in _INTEGER_NAMES},
    STRING: MessageType(latched_name="robot_description", shows=_TEXTS),
    TF_MESSAGE: MessageType(latched_name="tf_static"),
}
"""Types that the bridge encodes or decodes."""

_WITHOUT_CODEC: Final[Mapping[str, MessageType]] = {
    OCCUPANCY_GRID: MessageType(latched=True, display="Map"),
    "sensor_msgs/msg/MultiEchoLaserScan": MessageType(best_effort=True),
    POINT_STAMPED: MessageType(display="PointStamped"),
    POSE_WITH_COVARIANCE_STAMPED: MessageType(display="PoseWithCovariance"),
    "geometry_msgs/msg/PolygonStamped": MessageType(display="Polygon"),
    "geometry_msgs/msg/PoseArray": MessageType(display="PoseArray"),
    "nav_msgs/msg/Path": MessageType(display="Path"),
    "visualization_msgs/msg/Marker": MessageType(display="Marker"),
    "visualization_msgs/msg/MarkerArray": MessageType(display="MarkerArray"),
}
"""Types that plug-ins may encode and decode."""

_WITHOUT_ROW: Final = frozenset({JOINT_TRAJECTORY, FOLLOW_JOINT_TRAJECTORY, *GRIPPERS})
"""Types that the bridge decodes, and that mean nothing to planning."""

_OTHER: Final = MessageType()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecPlugin:
    """A message type, or the type of a controller's action, of another distribution.

    Planning imports the module that has it, in a process without rclpy. Code that needs rclpy stays in the modules
    that it names.

    Attributes:
        meaning: Meaning of the message type to planning. None: the bridge's own, if it has a row for the type.
        codec: `module:attribute` of the `MessageCodec`, or of the `ActionCodec` of an action. "" for none.
        sink: `module:attribute` of a function `make(context, topic)` that returns the `Sink` of a subscription. "" for
            that of `meaning.commands`.
    """

    meaning: MessageType | None = None
    codec: str = ""
    sink: str = ""


def plugin_fault(found: object) -> str:
    """Return why an object is no codec plug-in, "" if it is one."""
    if not isinstance(found, CodecPlugin):
        return f"it is a {type(found).__name__}, no CodecPlugin"
    meaning: Any = found.meaning
    if not isinstance(meaning, MessageType | None):
        return f"its meaning is a {type(meaning).__name__}, no MessageType"
    for name in ("codec", "sink"):
        value = getattr(found, name)
        if value and not (isinstance(value, str) and all(value.partition(":"))):
            return f"its {name} {quoted(value)} is no module:attribute"
    return ""


def spell_type(entry_point: str) -> str:
    """Return the type (`my_msgs/msg/Heat`) that an entry point (`my_msgs.msg.Heat`) is named after."""
    return entry_point.replace(".", "/")


def is_own_type(name: str) -> bool:
    """Return whether the bridge itself encodes or decodes a type: no plug-in can replace that."""
    return name in _ROWS or name in _WITHOUT_ROW


def _meaning(entry: PluginEntry, plugin: Any) -> MessageType:
    if entry.name.count("/") != 2 or not {"msg", "action"} & set(entry.name.split("/")[1:2]):
        raise BridgeError("the entry point is named after no type, such as my_msgs.msg.Heat")
    return plugin.meaning or _WITHOUT_CODEC.get(entry.name, _OTHER)


MESSAGE_TYPES: Final = Registry(
    "codecs",
    "codec",
    _ROWS,
    check=plugin_fault,
    spell=spell_type,
    known=is_own_type,
    defaults=_WITHOUT_CODEC,
    convert=_meaning,
)
"""Meanings of message types: those of the bridge, and those of other distributions' codecs."""


def message_type(name: str) -> MessageType:
    """Return the meaning of a message type; the default for a type without a row."""
    meaning: MessageType = MESSAGE_TYPES.get(name, _OTHER)
    return meaning


def is_of_simulation(type_name: str) -> bool:
    """Return whether a type is one of simulation_interfaces."""
    return type_name.startswith(f"{_SIMULATION}/")


def simulation_type(kind: str, name: str) -> str:
    """Return the name of a type of simulation_interfaces; `kind` is msg, srv or action."""
    return f"{_SIMULATION}/{kind}/{name}"


class TypeCatalog(Protocol):
    """Which interface types the ROS environment has. Planning without one checks the form of type names only."""

    def contains(self, type_name: str) -> bool:
        """Return whether `type_name` (`sensor_msgs/msg/Image`) is installed. Imports nothing."""
        ...


@runtime_checkable
class TypeListing(TypeCatalog, Protocol):
    """A catalog that can list what there is: messages about a missing type then suggest another."""

    def types_of(self, package: str) -> Collection[str]:
        """Return the types of an installed package (`msg/Image`), none of another."""
        ...

    def packages(self) -> Collection[str]:
        """Return the installed packages that have interface types."""
        ...

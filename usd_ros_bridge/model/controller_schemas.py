"""Controller schemas, one row each, for reading, planning and running.

The control extension schemas of ros-simulation/openusd-schemas, the gripper, which has none, and those of plug-ins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Literal

from usd_ros_bridge.errors import alternatives, quoted
from usd_ros_bridge.model.message_types import (
    FOLLOW_JOINT_TRAJECTORY,
    GRIPPERS,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    MESSAGE_TYPES,
    ODOMETRY,
    TWISTS,
    message_type,
)
from usd_ros_bridge.model.plan import InterfacePlan
from usd_ros_bridge.model.records import (
    ControllerRecord,
    DiffDriveRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    RigidBodyTwistRecord,
    attribute_fields,
)
from usd_ros_bridge.plugins import Registry
from usd_ros_bridge.ranges import NumberRange, controller_range

DIFF_DRIVE: Final = "RosControlDiffDriveAPI"
EXTERNAL: Final = "RosControlExternalAPI"
GRIPPER: Final = "gripper"
"""Stands for a schema in plans of grippers."""
JOINT_STATE_BROADCASTER: Final = "RosControlJointStateBroadcasterAPI"
JOINT_TRAJECTORY_CONTROLLER: Final = "RosControlJointTrajectoryAPI"
RIGID_BODY_TWIST: Final = "RosControlRigidBodyTwistAPI"

CommandInterface = Literal["position", "velocity", "effort"]
"""Kind of command of a joint, as command interfaces of ros2_control are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPort:
    """A relationship of a controller to an interface.

    Attributes:
        field: The record's field.
        kind: Kind of the interface.
        role: Its role.
        types: Types that it may have.
        required: There is no controller without it.
        exclusive: No other controller may have the same one.
    """

    field: str
    kind: str
    role: str
    types: frozenset[str]
    required: bool = True
    exclusive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSchema:
    """One controller schema.

    Attributes:
        group: `module:class` that runs its controllers, a GroupFactory; imported when a plan has one.
        record: Record type of prims with the schema; None for controllers that only an interface implies.
        planner: `module:class` that plans one. The default plans what the fields below have.
        ports: Relationships to interfaces, in the schema's order.
        unnamed: Role and type of interfaces that a controller has without a relationship to them.
        joints: Fields with relationships to joints.
        writes: It commands its joints.
        commands: Kind of command without which it cannot move them; None where messages decide, or it has none.
        claims_base: It moves the base of its robot, and is the only one to command it.
        positive: Fields that must be authored as positive numbers.
        ranges: Ranges of numbers by field, in SI units; of others, those of `controller_range`.
        references: Names of the reference interfaces that its controllers export, as chainable controllers of
            ros2_control do: numbers that another controller may command instead of a topic.
        chain: Field with a relationship to the controllers whose references it commands, "" for none.
    """

    group: str
    record: type[ControllerRecord] | None = None
    planner: str = "usd_ros_bridge.planning.controller_planner:ControllerPlanner"
    ports: tuple[ControllerPort, ...] = ()
    unnamed: frozenset[tuple[str, str]] = frozenset()
    joints: tuple[str, ...] = ()
    writes: bool = True
    commands: CommandInterface | None = None
    claims_base: bool = False
    positive: tuple[str, ...] = ()
    ranges: Mapping[str, NumberRange] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    chain: str = ""

    def uses(self, interface: InterfacePlan) -> bool:
        """Return whether controllers of the schema use interfaces of a role and type: a prim may have several."""
        role, type_name = interface.role, interface.type
        return (role, type_name) in self.unnamed or any(
            role == port.role and type_name in port.types for port in self.ports
        )


_CMD_VEL = ControllerPort(
    field="subscriber", kind="topic", role="subscription", types=TWISTS, exclusive=False
)

CONTROLLER_SCHEMAS: Final[Mapping[str, ControllerSchema]] = {
    DIFF_DRIVE: ControllerSchema(
        record=DiffDriveRecord,
        group="usd_ros_bridge.controllers.diff_drive:DiffDrives",
        planner="usd_ros_bridge.planning.controller_planner:DiffDrivePlanner",
        ports=(
            _CMD_VEL,
            ControllerPort(
                field="odom", kind="topic", role="publisher", types=frozenset({ODOMETRY}), required=False
            ),
        ),
        joints=("left_wheels", "right_wheels"),
        commands="velocity",
        claims_base=True,
        positive=("wheel_separation", "wheel_radius"),
        # As diff_drive_controller calls them.
        references=("linear/velocity", "angular/velocity"),
    ),
    EXTERNAL: ControllerSchema(
        record=ExternalControlRecord,
        group="usd_ros_bridge.controllers.forward_command:ExternalControls",
        planner="usd_ros_bridge.planning.controller_planner:ExternalControlPlanner",
        unnamed=frozenset({("publisher", JOINT_STATE), ("subscription", JOINT_STATE)}),
    ),
    GRIPPER: ControllerSchema(
        group="usd_ros_bridge.controllers.gripper:Grippers",
        unnamed=frozenset(("server", name) for name in GRIPPERS),
        commands="position",
    ),
    JOINT_STATE_BROADCASTER: ControllerSchema(
        record=JointStateBroadcasterRecord,
        group="usd_ros_bridge.controllers.controller_group:JointStateBroadcasters",
        ports=(
            ControllerPort(field="publisher", kind="topic", role="publisher", types=frozenset({JOINT_STATE})),
        ),
        joints=("joints",),
        writes=False,
    ),
    JOINT_TRAJECTORY_CONTROLLER: ControllerSchema(
        record=JointTrajectoryRecord,
        group="usd_ros_bridge.controllers.trajectory.controller:JointTrajectoryControllers",
        ports=(
            ControllerPort(
                field="server", kind="action", role="server", types=frozenset({FOLLOW_JOINT_TRAJECTORY})
            ),
        ),
        unnamed=frozenset({("subscription", JOINT_TRAJECTORY)}),
        joints=("command_joints",),
        commands="position",
    ),
    RIGID_BODY_TWIST: ControllerSchema(
        record=RigidBodyTwistRecord,
        group="usd_ros_bridge.controllers.forward_command:RigidBodyTwists",
        planner="usd_ros_bridge.planning.controller_planner:RigidBodyTwistPlanner",
        ports=(_CMD_VEL,),
    ),
}
"""What is built in, by ControllerPlan.schema: the name of the applied API schema."""

_IMPLYING: Final = frozenset({FOLLOW_JOINT_TRAJECTORY, JOINT_TRAJECTORY, JOINT_STATE, *TWISTS, *GRIPPERS})
"""Types of interfaces that imply a built-in controller."""


def _is_taken(name: str) -> bool:
    """Return whether a name is built in: a schema, or a type that the bridge makes commands of by itself."""
    if name in CONTROLLER_SCHEMAS or name in _IMPLYING:
        return True
    # The meaning of a type that another plug-in has is not looked up: that would import it.
    return "/" in name and not MESSAGE_TYPES.is_foreign(name) and bool(message_type(name).commands)


def _fault_of(row: object) -> str:
    """Return what is wrong with the row of a plug-in, "" if nothing is."""
    if not isinstance(row, ControllerSchema):
        return f"it is a {type(row).__name__}, no ControllerSchema"
    for name in ("group", "planner"):
        if not all(getattr(row, name).partition(":")[::2]):
            return f"{name} is {quoted(getattr(row, name))}, not module:class"
    record: object = row.record
    if record is not None and not (isinstance(record, type) and issubclass(record, ControllerRecord)):
        return "its record is no subclass of ControllerRecord"
    fields = {} if row.record is None else dict(attribute_fields(row.record))
    named = (
        *(port.field for port in row.ports),
        *row.joints,
        *row.positive,
        *row.ranges,
        *filter(None, [row.chain]),
    )
    missing = next((name for name in named if name not in fields), None)
    if missing is not None:
        return f"its record has no field {quoted(missing)}; {alternatives(missing, fields)}"
    return ""


CONTROLLERS: Final[Registry[ControllerSchema]] = Registry(
    "controllers",
    "controller",
    CONTROLLER_SCHEMAS,
    check=_fault_of,
    # Metadata of distributions cannot hold a slash.
    spell=lambda name: name.replace(".", "/"),
    known=_is_taken,
)
"""All controllers, those of plug-ins too, by API schema or by interface type (`my_msgs/msg/Heat`)."""


_BY_RECORD: Final = {row.record: name for name, row in CONTROLLER_SCHEMAS.items() if row.record is not None}


def schema_name(record_type: type[ControllerRecord]) -> str:
    """Return the name of the schema whose prims are read as a record type."""
    found = _BY_RECORD.get(record_type)
    if found is not None:
        return found
    return next(name for name, schema in CONTROLLERS.loaded().items() if schema.record is record_type)


def uses_interface(schema: str, interface: InterfacePlan) -> bool:
    """Return whether controllers of a schema use interfaces of this role and type; without a row, they use all."""
    row = CONTROLLERS.get(schema)
    return row is None or schema == interface.type or row.uses(interface)


def parameter_range(schema: str, name: str) -> NumberRange:
    """Return the range of a controller's number.

    Args:
        schema: ControllerPlan.schema.
        name: Field of the record.
    """
    row = CONTROLLERS.get(schema)
    return controller_range(name) if row is None else row.ranges.get(name, controller_range(name))


def load_class(name: str) -> Any:
    """Import the class that a row names as `module:class`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)

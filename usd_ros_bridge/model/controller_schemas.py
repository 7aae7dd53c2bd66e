"""Controller schemas, one row each, for reading, planning and running.

The control extension schemas of ros-simulation/openusd-schemas, and the gripper, which has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from usd_ros_bridge.model.message_types import (
    FOLLOW_JOINT_TRAJECTORY,
    GRIPPERS,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    ODOMETRY,
    TWISTS,
)
from usd_ros_bridge.model.plan import InterfacePlan
from usd_ros_bridge.model.records import (
    ControllerRecord,
    DiffDriveRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    RigidBodyTwistRecord,
)

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
class Port:
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
        group: `module:class` in `usd_ros_bridge.controllers` that runs its controllers; imported when a plan has one.
        record: Record type of prims with the schema; None for controllers that only an interface implies.
        planner: `module:class` in `usd_ros_bridge.planning` that plans one. The default plans what the fields below
            have.
        ports: Relationships to interfaces, in the schema's order.
        unnamed: Role and type of interfaces that a controller has without a relationship to them.
        joints: Fields with relationships to joints.
        writes: It commands its joints.
        commands: Kind of command without which it cannot move them; None where messages decide, or it has none.
        claims_base: It moves the base of its robot, and is the only one to command it.
        positive: Fields that must be authored as positive numbers.
    """

    group: str
    record: type[ControllerRecord] | None = None
    planner: str = "controller_planner:ControllerPlanner"
    ports: tuple[Port, ...] = ()
    unnamed: frozenset[tuple[str, str]] = frozenset()
    joints: tuple[str, ...] = ()
    writes: bool = True
    commands: CommandInterface | None = None
    claims_base: bool = False
    positive: tuple[str, ...] = ()

    def uses(self, interface: InterfacePlan) -> bool:
        """Return whether controllers of the schema use interfaces of a role and type: a prim may have several."""
        role, type_name = interface.role, interface.type
        return (role, type_name) in self.unnamed or any(
            role == port.role and type_name in port.types for port in self.ports
        )


_CMD_VEL = Port(field="subscriber", kind="topic", role="subscription", types=TWISTS, exclusive=False)

CONTROLLER_SCHEMAS: Final[Mapping[str, ControllerSchema]] = {
    DIFF_DRIVE: ControllerSchema(
        record=DiffDriveRecord,
        group="diff_drive:DiffDrives",
        planner="controller_planner:DiffDrivePlanner",
        ports=(
            _CMD_VEL,
            Port(field="odom", kind="topic", role="publisher", types=frozenset({ODOMETRY}), required=False),
        ),
        joints=("left_wheels", "right_wheels"),
        commands="velocity",
        claims_base=True,
        positive=("wheel_separation", "wheel_radius"),
    ),
    EXTERNAL: ControllerSchema(
        record=ExternalControlRecord,
        group="forward_command:ExternalControls",
        planner="controller_planner:ExternalControlPlanner",
        unnamed=frozenset({("publisher", JOINT_STATE), ("subscription", JOINT_STATE)}),
    ),
    GRIPPER: ControllerSchema(
        group="gripper:Grippers",
        unnamed=frozenset(("server", name) for name in GRIPPERS),
        commands="position",
    ),
    JOINT_STATE_BROADCASTER: ControllerSchema(
        record=JointStateBroadcasterRecord,
        group="controller_group:JointStateBroadcasters",
        ports=(Port(field="publisher", kind="topic", role="publisher", types=frozenset({JOINT_STATE})),),
        joints=("joints",),
        writes=False,
    ),
    JOINT_TRAJECTORY_CONTROLLER: ControllerSchema(
        record=JointTrajectoryRecord,
        group="trajectory.controller:JointTrajectoryControllers",
        ports=(
            Port(field="server", kind="action", role="server", types=frozenset({FOLLOW_JOINT_TRAJECTORY})),
        ),
        unnamed=frozenset({("subscription", JOINT_TRAJECTORY)}),
        joints=("command_joints",),
        commands="position",
    ),
    RIGID_BODY_TWIST: ControllerSchema(
        record=RigidBodyTwistRecord,
        group="forward_command:RigidBodyTwists",
        planner="controller_planner:RigidBodyTwistPlanner",
        ports=(_CMD_VEL,),
    ),
}
"""By ControllerPlan.schema: the name of the applied API schema."""


def schema_name(record_type: type[ControllerRecord]) -> str:
    """Return the name of the schema whose prims are read as a record type."""
    return next(name for name, schema in CONTROLLER_SCHEMAS.items() if schema.record is record_type)


def uses_interface(schema: str, interface: InterfacePlan) -> bool:
    """Return whether controllers of a schema use interfaces of this role and type; without a row, they use all."""
    row = CONTROLLER_SCHEMAS.get(schema)
    return row is None or row.uses(interface)

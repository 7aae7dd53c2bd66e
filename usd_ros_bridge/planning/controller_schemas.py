"""The controller schemas: which interfaces and joints each names, as one table.

The control extension schemas of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usd_ros_bridge.model.records import (
    ControllerRecord,
    DiffDriveRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    RigidBodyTwistRecord,
)
from usd_ros_bridge.planning.interfaces import JOINT_STATE, ODOMETRY, TRAJECTORY, TWISTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A relationship of a controller to an interface."""

    field: str
    kind: str
    role: str
    types: frozenset[str]
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSchema:
    """What planning must know of a controller schema.

    Attributes:
        name: Schema name.
        ports: Relationships to interfaces, in the schema's order.
        joints: Fields with relationships to joints.
        writes: Whether it commands its joints.
        positive: Fields that must be authored as positive numbers.
    """

    name: str
    ports: tuple[Port, ...] = ()
    joints: tuple[str, ...] = ()
    writes: bool = True
    positive: tuple[str, ...] = ()


SCHEMAS: Mapping[type[ControllerRecord], ControllerSchema] = {
    ExternalControlRecord: ControllerSchema(name="RosControlExternalAPI"),
    JointStateBroadcasterRecord: ControllerSchema(
        name="RosControlJointStateBroadcasterAPI",
        ports=(Port(field="publisher", kind="topic", role="publisher", types=frozenset({JOINT_STATE})),),
        joints=("joints",),
        writes=False,
    ),
    JointTrajectoryRecord: ControllerSchema(
        name="RosControlJointTrajectoryAPI",
        ports=(Port(field="server", kind="action", role="server", types=frozenset({TRAJECTORY})),),
        joints=("command_joints",),
    ),
    DiffDriveRecord: ControllerSchema(
        name="RosControlDiffDriveAPI",
        ports=(
            Port(field="subscriber", kind="topic", role="subscription", types=TWISTS),
            Port(field="odom", kind="topic", role="publisher", types=frozenset({ODOMETRY}), required=False),
        ),
        joints=("left_wheels", "right_wheels"),
        positive=("wheel_separation", "wheel_radius"),
    ),
    RigidBodyTwistRecord: ControllerSchema(
        name="RosControlRigidBodyTwistAPI",
        ports=(Port(field="subscriber", kind="topic", role="subscription", types=TWISTS),),
    ),
}

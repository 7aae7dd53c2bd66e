"""The controller schemas: which interfaces and joints each names, as one table.

The control extension schemas of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usd_ros_bridge.model.plan import InterfacePlan
from usd_ros_bridge.model.records import (
    ControllerRecord,
    DiffDriveRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    RigidBodyTwistRecord,
)
from usd_ros_bridge.planning.interfaces import (
    GRIPPERS,
    JOINT_STATE,
    ODOMETRY,
    TRAJECTORY,
    TRAJECTORY_TOPIC,
    TWISTS,
    InterfaceDraft,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A relationship of a controller to an interface.

    Attributes:
        field: The record's field.
        kind: Kind of the interface.
        role: Its role.
        types: Types that it may have.
        required: Whether there is no controller without it.
        exclusive: Whether no other controller may have the same one.
    """

    field: str
    kind: str
    role: str
    types: frozenset[str]
    required: bool = True
    exclusive: bool = True

    def takes(self, draft: InterfaceDraft) -> bool:
        """Returns whether an interface is of the kind that is wanted."""
        return draft.kind == self.kind and draft.role == self.role and draft.type in self.types


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSchema:
    """What planning must know of a controller schema.

    Attributes:
        name: Schema name.
        ports: Relationships to interfaces, in the schema's order.
        joints: Fields with relationships to joints.
        writes: Whether it commands its joints.
        has_topic: Whether JointTrajectory subscriptions belong to it that no relationship names.
        positive: Fields that must be authored as positive numbers.
    """

    name: str
    ports: tuple[Port, ...] = ()
    joints: tuple[str, ...] = ()
    writes: bool = True
    has_topic: bool = False
    positive: tuple[str, ...] = ()


GRIPPER = "gripper"
"""What stands for a schema in plans of grippers, which have none."""

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
        has_topic=True,
    ),
    DiffDriveRecord: ControllerSchema(
        name="RosControlDiffDriveAPI",
        ports=(
            Port(field="subscriber", kind="topic", role="subscription", types=TWISTS, exclusive=False),
            Port(field="odom", kind="topic", role="publisher", types=frozenset({ODOMETRY}), required=False),
        ),
        joints=("left_wheels", "right_wheels"),
        positive=("wheel_separation", "wheel_radius"),
    ),
    RigidBodyTwistRecord: ControllerSchema(
        name="RosControlRigidBodyTwistAPI",
        ports=(Port(field="subscriber", kind="topic", role="subscription", types=TWISTS, exclusive=False),),
    ),
}

_BESIDE: Mapping[str, frozenset[tuple[str, str]]] = {
    SCHEMAS[JointTrajectoryRecord].name: frozenset({("subscription", TRAJECTORY_TOPIC)}),
    SCHEMAS[ExternalControlRecord].name: frozenset(
        {("publisher", JOINT_STATE), ("subscription", JOINT_STATE)}
    ),
    GRIPPER: frozenset(("server", name) for name in GRIPPERS),
}
"""Role and type of interfaces that controllers have without a relationship to them."""

_INTERFACES: Mapping[str, frozenset[tuple[str, str]]] = {
    **_BESIDE,
    **{
        schema.name: frozenset((port.role, name) for port in schema.ports for name in port.types)
        | _BESIDE.get(schema.name, frozenset())
        for schema in SCHEMAS.values()
    },
}


def serves(schema: str, interface: InterfacePlan) -> bool:
    """Returns whether controllers of a schema use interfaces of this role and type: a prim may have several.

    One that nothing is known of uses whatever it names.
    """
    known = _INTERFACES.get(schema)
    return known is None or (interface.role, interface.type) in known

"""MecanumDriveAPI: a controller for four mecanum wheels, as mecanum_drive_controller of ros2_controllers."""

from __future__ import annotations

from dataclasses import dataclass

from usd_ros_bridge import ControllerPort, ControllerRecord, ControllerSchema, NumberRange, attribute

USD_ROS_BRIDGE_PROTOCOL = 1

_LENGTH = NumberRange(low=1e-3, high=100.0, unit="m")
_TWISTS = frozenset({"geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"})
_ODOMETRY = frozenset({"nav_msgs/msg/Odometry"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MecanumDriveRecord(ControllerRecord):
    """What a prim with MecanumDriveAPI authors: metres, seconds, m/s, rad/s."""

    subscriber: tuple[str, ...] | None = attribute("mecanum:subscriber", "rel")
    odom: tuple[str, ...] | None = attribute("mecanum:odom", "rel")
    front_left: tuple[str, ...] | None = attribute("mecanum:front_left", "rel")
    front_right: tuple[str, ...] | None = attribute("mecanum:front_right", "rel")
    rear_left: tuple[str, ...] | None = attribute("mecanum:rear_left", "rel")
    rear_right: tuple[str, ...] | None = attribute("mecanum:rear_right", "rel")
    wheel_radius: float | None = attribute("mecanum:wheel_radius", "double")
    wheel_base: float | None = attribute("mecanum:wheel_base", "double")
    wheel_separation: float | None = attribute("mecanum:wheel_separation", "double")
    cmd_vel_timeout: float | None = attribute("mecanum:cmd_vel_timeout", "double", 0.5)
    x_max_velocity: float | None = attribute("mecanum:linear:x:max_velocity", "double")
    x_max_acceleration: float | None = attribute("mecanum:linear:x:max_acceleration", "double")
    y_max_velocity: float | None = attribute("mecanum:linear:y:max_velocity", "double")
    y_max_acceleration: float | None = attribute("mecanum:linear:y:max_acceleration", "double")
    yaw_max_velocity: float | None = attribute("mecanum:angular:z:max_velocity", "double")
    yaw_max_acceleration: float | None = attribute("mecanum:angular:z:max_acceleration", "double")


MECANUM_DRIVE = ControllerSchema(
    record=MecanumDriveRecord,
    group="mecanum_drive.mecanum_drives:MecanumDrives",
    planner="mecanum_drive.mecanum_planner:MecanumPlanner",
    ports=(
        ControllerPort(
            field="subscriber",
            kind="topic",
            role="subscription",
            types=_TWISTS,
            exclusive=False,
            required=False,
        ),
        ControllerPort(field="odom", kind="topic", role="publisher", types=_ODOMETRY, required=False),
    ),
    joints=("front_left", "front_right", "rear_left", "rear_right"),
    commands="velocity",
    claims_base=True,
    positive=("wheel_radius", "wheel_base", "wheel_separation"),
    ranges=dict.fromkeys(("wheel_radius", "wheel_base", "wheel_separation"), _LENGTH),
    references=("linear/x/velocity", "linear/y/velocity", "angular/z/velocity"),
)

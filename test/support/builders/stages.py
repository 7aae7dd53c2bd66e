"""Writes stages for benchmarks: fleets of robots, as references to one robot file or flat."""

from __future__ import annotations

import math
import os
from pathlib import Path

METADATA = """\
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
"""

LINK_LENGTH = 0.1
"""Metres between two links of a robot."""

SPACING = 2.0
"""Metres between two robots of a fleet."""

WHEEL_RADIUS = 0.1
"""Metres, of differential drives."""

WHEEL_SEPARATION = 0.4
"""Metres, of differential drives."""

_CYLINDER = f"""
        def Cylinder "visual" {{
            double height = {LINK_LENGTH}
            double radius = 0.03
            color3f[] primvars:displayColor = [(0.8, 0.3, 0.1)]
        }}
"""
_LIMITS = """\
        float physics:lowerLimit = -90
        float physics:upperLimit = 90
"""


def write_fleet(
    directory: str | os.PathLike[str],
    *,
    robots: int = 1000,
    links: int = 30,
    publish_rate: float = 100.0,
    flat: bool = False,
    visible: bool = False,
) -> Path:
    """Writes a stage with many equal robots, each an outermost context with a namespace of its own.

    A robot is a chain of `links` rigid bodies that stands on the ground: a fixed joint to the world, `links - 1`
    revolute joints about X, Y and Z in turn, and a publisher of joint states.

    Args:
        directory: Where `fleet.usda` goes, and `robot.usda` where the fleet refers to it. It is made if need be.
        robots: How many robots; they stand on a square grid and are called `robot_0`, `robot_1` and so on.
        links: Rigid bodies of each robot.
        publish_rate: Rate of joint states in Hz.
        flat: Whether each robot is written in full instead of as a reference to one robot file.
        visible: Whether links have shapes to be seen.

    Returns:
        The path of the stage.
    """
    return _write(Path(directory), robots, _robot_content(links, publish_rate, visible=visible), flat=flat)


def write_drives(
    directory: str | os.PathLike[str],
    *,
    robots: int = 200,
    publish_rate: float = 100.0,
    cmd_vel_timeout: float = 0.5,
    flat: bool = False,
) -> Path:
    """Writes a stage with many differential drives, each an outermost context with a namespace of its own.

    A robot is a base with two driven wheels, a RosControlDiffDriveAPI that listens to `cmd_vel` and owns `odom`, and a
    publisher of the wheels' joint states. Speeds are limited, accelerations are not.

    Args:
        directory: Where `fleet.usda` goes, and `robot.usda` where the fleet refers to it. It is made if need be.
        robots: How many robots; they stand on a square grid and are called `robot_0`, `robot_1` and so on.
        publish_rate: Rate of odometry and joint states in Hz.
        cmd_vel_timeout: Seconds after which a command is stale; 0 for never.
        flat: Whether each robot is written in full instead of as a reference to one robot file.

    Returns:
        The path of the stage.
    """
    return _write(Path(directory), robots, _drive_content(publish_rate, cmd_vel_timeout), flat=flat)


def write_arm(
    directory: str | os.PathLike[str],
    *,
    joints: int = 7,
    publish_rate: float = 100.0,
    monitor_rate: float = 20.0,
) -> Path:
    """Writes a stage with an arm that follows trajectories.

    It is a chain of `joints` revolute joints about X, Y and Z in turn that stands on the ground, with a
    RosControlJointTrajectoryAPI that serves `follow_joint_trajectory` and a publisher of joint states, in the namespace
    `arm`. Its joints, `joint_1` and so on, have no limits.

    Args:
        directory: Where `arm.usda` goes. It is made if need be.
        joints: Revolute joints.
        publish_rate: Rate of joint states in Hz.
        monitor_rate: Rate of feedback in Hz.

    Returns:
        The path of the stage.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    commanded = ", ".join(f"</arm/joint_{number}>" for number in range(1, joints + 1))
    controller = f"""
    def Scope "follow_joint_trajectory" (prepend apiSchemas = ["RosActionAPI"]) {{
        token ros:action:role = "server"
        string ros:action:name = "follow_joint_trajectory"
        string ros:action:type = "control_msgs/action/FollowJointTrajectory"
    }}
    def Scope "joint_trajectory_controller" (prepend apiSchemas = ["RosControlJointTrajectoryAPI"]) {{
        rel ros:joint_trajectory:server = </arm/follow_joint_trajectory>
        rel ros:joint_trajectory:command_joints = [{commanded}]
        uniform double ros:joint_trajectory:action_monitor_rate = {monitor_rate}
    }}
"""
    head = (
        f'#usda 1.0\n(\n    defaultPrim = "arm"\n{METADATA})\n\n'
        'def Xform "arm" (\n    prepend apiSchemas = ["RosContextAPI"]\n)\n{\n'
        '    string ros:context:namespace = "arm"\n'
    )
    parts = [
        head,
        _topic("joint_states", "sensor_msgs/msg/JointState", publish_rate),
        controller,
        *(_link(number) for number in range(joints + 1)),
        *(_joint(number, limits="").replace("<ROBOT", "</arm") for number in range(joints + 1)),
        "}\n",
    ]
    path = folder / "arm.usda"
    path.write_text("".join(parts), encoding="utf-8")
    return path


def _write(folder: Path, robots: int, content: str, *, flat: bool) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if not flat:
        (folder / "robot.usda").write_text(_robot_layer(content), encoding="utf-8")
    columns = max(1, math.isqrt(robots))
    parts = [f'#usda 1.0\n(\n    defaultPrim = "fleet"\n{METADATA})\n\ndef Xform "fleet"\n{{\n']
    for number in range(robots):
        row, column = divmod(number, columns)
        place = (SPACING * column, SPACING * row, 0.0)
        parts.append(_fleet_member(f"robot_{number}", place, content if flat else ""))
    parts.append("}\n")
    path = folder / "fleet.usda"
    path.write_text("".join(parts), encoding="utf-8")
    return path


def _robot_layer(content: str) -> str:
    return (
        f'#usda 1.0\n(\n    defaultPrim = "robot"\n{METADATA})\n\n'
        f'def Xform "robot" (\n    prepend apiSchemas = ["RosContextAPI"]\n)\n{{\n'
        f"{content.replace('<ROBOT', '</robot')}}}\n"
    )


def _fleet_member(name: str, place: tuple[float, float, float], content: str) -> str:
    """Returns one robot of the fleet: with its content, or as a reference where `content` is empty."""
    origin = 'prepend apiSchemas = ["RosContextAPI"]' if content else "prepend references = @./robot.usda@"
    return (
        f'    def Xform "{name}" (\n        {origin}\n    )\n    {{\n'
        f'        string ros:context:namespace = "{name}"\n'
        f"        double3 xformOp:translate = {place}\n"
        f'        uniform token[] xformOpOrder = ["xformOp:translate"]\n'
        f"{content.replace('<ROBOT', f'</fleet/{name}')}    }}\n"
    )


def _robot_content(links: int, publish_rate: float, *, visible: bool = False) -> str:
    """Returns the prims below a robot's root; `<ROBOT` stands for the start of that root's path."""
    prims = [_topic("joint_states", "sensor_msgs/msg/JointState", publish_rate)]
    prims += [_link(number, visible=visible) for number in range(links)]
    prims += [_joint(number) for number in range(links)]
    return "".join(prims)


def _link(number: int, *, visible: bool = False) -> str:
    shape = _CYLINDER if visible else ""
    return _body(f"link_{number}", (0.0, 0.0, LINK_LENGTH * number), root=number == 0, content=shape)


def _joint(number: int, *, limits: str = _LIMITS) -> str:
    if number == 0:
        return """
    def PhysicsFixedJoint "anchor" {
        rel physics:body1 = <ROBOT/link_0>
    }
"""
    return f"""
    def PhysicsRevoluteJoint "joint_{number}" (prepend apiSchemas = ["PhysicsDriveAPI:angular"]) {{
        uniform token physics:axis = "{"XYZ"[number % 3]}"
        rel physics:body0 = <ROBOT/link_{number - 1}>
        rel physics:body1 = <ROBOT/link_{number}>
        point3f physics:localPos0 = (0, 0, {LINK_LENGTH})
{limits}        float drive:angular:physics:maxForce = 50
        float drive:angular:physics:stiffness = 100
    }}
"""


def _drive_content(publish_rate: float, cmd_vel_timeout: float) -> str:
    """Returns the prims below a differential drive's root; `<ROBOT` stands for the start of that root's path."""
    half = WHEEL_SEPARATION / 2.0
    controller = f"""
    def Scope "diff_drive" (prepend apiSchemas = ["RosControlDiffDriveAPI"]) {{
        rel ros:diff_drive:subscriber = <ROBOT/cmd_vel>
        rel ros:diff_drive:odom = <ROBOT/odom>
        rel ros:diff_drive:left_wheels = <ROBOT/left_wheel_joint>
        rel ros:diff_drive:right_wheels = <ROBOT/right_wheel_joint>
        uniform double ros:diff_drive:wheel_separation = {WHEEL_SEPARATION}
        uniform double ros:diff_drive:wheel_radius = {WHEEL_RADIUS}
        uniform double ros:diff_drive:cmd_vel_timeout = {cmd_vel_timeout}
        uniform double ros:diff_drive:linear:x:max_velocity = 2
        uniform double ros:diff_drive:angular:z:max_velocity = 4
    }}
"""
    return "".join(
        [
            _topic("joint_states", "sensor_msgs/msg/JointState", publish_rate),
            _topic("odom", "nav_msgs/msg/Odometry", publish_rate),
            _topic("cmd_vel", "geometry_msgs/msg/Twist", None),
            controller,
            _body("base_link", (0.0, 0.0, 0.0), root=True),
            _wheel("left", half),
            _wheel("right", -half),
        ]
    )


def _topic(name: str, type_name: str, publish_rate: float | None) -> str:
    """Returns a publisher, or a subscription where there is no rate."""
    rate = "" if publish_rate is None else f"\n        double ros:topic:publish_rate = {publish_rate}"
    return f"""
    def Scope "{name}" (prepend apiSchemas = ["RosTopicAPI"]) {{
        token ros:topic:role = "{"subscription" if publish_rate is None else "publisher"}"
        string ros:topic:name = "{name}"
        string ros:topic:type = "{type_name}"{rate}
    }}
"""


def _body(name: str, place: tuple[float, float, float], *, root: bool = False, content: str = "") -> str:
    articulation = ', "PhysicsArticulationRootAPI"' if root else ""
    return f"""
    def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI"{articulation}]) {{
        double3 xformOp:translate = ({place[0]:.6g}, {place[1]:.6g}, {place[2]:.6g})
        uniform token[] xformOpOrder = ["xformOp:translate"]
{content}    }}
"""


def _wheel(side: str, offset: float) -> str:
    """Returns a wheel and its joint, `offset` to the left of the base."""
    return (
        _body(f"{side}_wheel", (0.0, offset, WHEEL_RADIUS))
        + f"""
    def PhysicsRevoluteJoint "{side}_wheel_joint" (prepend apiSchemas = ["PhysicsDriveAPI:angular"]) {{
        uniform token physics:axis = "Y"
        rel physics:body0 = <ROBOT/base_link>
        rel physics:body1 = <ROBOT/{side}_wheel>
        point3f physics:localPos0 = (0, {offset:.6g}, {WHEEL_RADIUS:.6g})
        float drive:angular:physics:damping = 10
        float drive:angular:physics:maxForce = 50
    }}
"""
    )

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


def write_fleet(
    directory: str | os.PathLike[str],
    *,
    robots: int = 1000,
    links: int = 30,
    publish_rate: float = 100.0,
    flat: bool = False,
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

    Returns:
        The path of the stage.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    content = _robot_content(links, publish_rate)
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


def _robot_content(links: int, publish_rate: float) -> str:
    """Returns the prims below a robot's root; `<ROBOT` stands for the start of that root's path."""
    prims = [
        f"""
    def Scope "joint_states" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {{
        token ros:topic:role = "publisher"
        string ros:topic:name = "joint_states"
        string ros:topic:type = "sensor_msgs/msg/JointState"
        double ros:topic:publish_rate = {publish_rate}
    }}
"""
    ]
    prims += [_link(number) for number in range(links)]
    prims += [_joint(number) for number in range(links)]
    return "".join(prims)


def _link(number: int) -> str:
    root = ', "PhysicsArticulationRootAPI"' if number == 0 else ""
    return f"""
    def Xform "link_{number}" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"{root}]
    )
    {{
        double3 xformOp:translate = (0, 0, {LINK_LENGTH * number:.6g})
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }}
"""


def _joint(number: int) -> str:
    if number == 0:
        return """
    def PhysicsFixedJoint "anchor"
    {
        rel physics:body1 = <ROBOT/link_0>
    }
"""
    return f"""
    def PhysicsRevoluteJoint "joint_{number}" (
        prepend apiSchemas = ["PhysicsDriveAPI:angular"]
    )
    {{
        uniform token physics:axis = "{"XYZ"[number % 3]}"
        rel physics:body0 = <ROBOT/link_{number - 1}>
        rel physics:body1 = <ROBOT/link_{number}>
        point3f physics:localPos0 = (0, 0, {LINK_LENGTH})
        float physics:lowerLimit = -90
        float physics:upperLimit = 90
        float drive:angular:physics:maxForce = 50
        float drive:angular:physics:stiffness = 100
    }}
"""

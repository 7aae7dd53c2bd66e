"""Distributions with plug-ins, written into a folder of `sys.path` as pip would install them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent


def install_plugin(
    folder: Path,
    name: str,
    *,
    entry_points: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str],
    version: str = "1.0",
) -> None:
    """Write a distribution: its metadata and its modules.

    Args:
        folder: A folder that is, or will be, in `sys.path`.
        name: Name of the distribution.
        entry_points: Entry points (`name: "module:attribute"`) by group, without `usd_ros_bridge.`.
        modules: Text of each module by its name.
        version: Version of the distribution.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )
    lines = []
    for group, points in entry_points.items():
        lines += [f"[usd_ros_bridge.{group}]", *(f"{key} = {value}" for key, value in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(dedent(text), encoding="utf-8")


SCALED_ARM = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
)
{
    string ros:context:namespace = "robot"

    def Xform "base" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    )
    {
    }

    def Xform "arm" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    )
    {
    }

    def Scope "command" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {
        token ros:topic:role = "subscription"
        string ros:topic:name = "command"
        string ros:topic:type = "std_msgs/msg/Float64MultiArray"
    }

    def PhysicsFixedJoint "fixed"
    {
        rel physics:body1 = </robot/base>
    }

    def PhysicsRevoluteJoint "pan"
    {
        rel physics:body0 = </robot/base>
        rel physics:body1 = </robot/arm>
    }

    def Scope "scaled" (
        prepend apiSchemas = ["SCHEMA"]
    )
    {
        rel scaled:joints = </robot/pan>
        rel scaled:subscriber = </robot/command>
        double scaled:scale = 3
    }
}
"""
"""An arm with a joint and a command topic; SCHEMA stands for the controller that has both."""

"""Formats of `usd_ros_bridge export` that need only the plan: JSON and URDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Final

from usd_ros_bridge.errors import AssetError, OptionError, alternatives
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.exporters import ExportContext, ExportOption
from usd_ros_bridge.model.plan import RobotPlan

_MAX_INDENT: Final = 16


class JsonFormat:
    """The plan as JSON, as `inspect --json` prints it."""

    suffix = ".json"
    options = (
        ExportOption(name="physics", kind="flag", help="Also write what the physics engine gets."),
        ExportOption(name="indent", kind="int", default=2, help="Spaces of indentation."),
    )

    def write(self, context: ExportContext, stream: BinaryIO) -> Sequence[Diagnostic]:
        """Write the plan. See `Exporter`.

        Raises:
            OptionError: The indentation is not possible.
        """
        import json
        from dataclasses import replace

        from usd_ros_bridge.export.plan_json import plan_to_json

        indent = context.options["indent"]
        if not 0 <= indent <= _MAX_INDENT:
            raise OptionError(f"--indent: {indent} is outside of 0 to {_MAX_INDENT}")
        plan = context.plan if context.options["physics"] else replace(context.plan, physics=None)
        text = json.dumps(plan_to_json(plan), indent=indent, allow_nan=False)
        stream.write(f"{text}\n".encode())
        return ()


class UrdfFormat:
    """One robot as URDF, as `usd_ros_bridge urdf` prints it."""

    suffix = ".urdf"
    options = (
        ExportOption(name="robot", help="Prim of the robot, if the asset has several."),
        ExportOption(
            name="meshes", kind="path", help="Directory for mesh files [default: one in the user's cache]."
        ),
    )

    def write(self, context: ExportContext, stream: BinaryIO) -> Sequence[Diagnostic]:
        """Write the robot. See `Exporter`.

        Raises:
            AssetError: The asset has no robot.
            OptionError: It has several and none is named, or none of that name.
        """
        from usd_ros_bridge.export.mesh_files import MeshCache, installed_meshes
        from usd_ros_bridge.export.urdf import robot_urdf

        plan, meshes = context.plan, context.options["meshes"]
        number = robot_index(plan.asset, plan.robots, context.options["robot"])
        cache = MeshCache(meshes, installed=installed_meshes(plan.asset) if meshes is None else None)
        found = robot_urdf(plan, number, meshes=cache)
        stream.write(found.text.encode())
        return found.diagnostics


def robot_index(asset: str, robots: Sequence[RobotPlan], wanted: str | None) -> int:
    """Return the index of the robot at the prim `wanted`, or of the only robot.

    Raises:
        AssetError: The asset has no robot.
        OptionError: It has several and none is named, or none of that name.
    """
    paths = [each.path for each in robots]
    if not paths:
        raise AssetError(
            f"{asset} has no robot: no prim has RosContextAPI, and nothing is below the default prim"
        )
    if wanted is None and len(paths) == 1:
        return 0
    if wanted is None:
        raise OptionError(f"{asset} has several robots; name one by --robot; {alternatives('', paths)}")
    if wanted not in paths:
        raise OptionError(f"{asset} has no robot {wanted}; {alternatives(wanted, paths)}")
    return paths.index(wanted)


JSON: Final = JsonFormat()
URDF: Final = UrdfFormat()

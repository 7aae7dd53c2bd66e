"""`usd_ros_bridge urdf`: a robot of an asset as URDF, without ROS."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import asset_options, load_asset, split_options
from usd_ros_bridge.errors import AssetError, OptionError, StrictError, choices, escaped
from usd_ros_bridge.model.diagnostics import has_errors

if TYPE_CHECKING:
    from usd_ros_bridge.model.diagnostics import Diagnostic
    from usd_ros_bridge.model.plan import RobotPlan


@click.command()
@asset_options
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE."
)
@click.option(
    "--meshes",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Where mesh files go [default: usd_ros_bridge/meshes in the user's cache].",
)
@click.option("--robot", default=None, metavar="PRIM", help="Which robot, of an asset with several.")
@click.option(
    "--frames-from-xforms/--no-frames-from-xforms",
    default=None,
    help="Make all plain Xforms directly below bodies links, or none [default: those that stand for links].",
)
def urdf(
    output: Path | None,
    meshes: Path | None,
    robot: str | None,
    frames_from_xforms: bool | None,
    strict: bool,
    **options: Any,
) -> None:
    """Print a robot of ASSET as URDF.

    Links are the frames of /tf and joints those of joint_states; of variants it is the selected one. The document alone
    is on standard output, remarks are on standard error.
    """
    from usd_ros_bridge.export.mesh_files import MeshCache
    from usd_ros_bridge.export.urdf import robot_urdf

    read, plan_options = split_options(options)
    if frames_from_xforms is not None:
        plan_options = replace(plan_options, frames_from_xforms=frames_from_xforms)
    plan = load_asset(options["asset"], read_options=read, plan_options=plan_options, physics=True)
    number = _robot_index(options["asset"], plan.robots, robot)
    found = robot_urdf(plan, number, meshes=MeshCache(meshes))
    of_asset = [each for each in plan.diagnostics if each.severity != "info"]
    _print_diagnostics([*of_asset, *found.diagnostics])
    if strict and has_errors([*of_asset, *found.diagnostics]):
        raise StrictError(f"{options['asset']} has errors")
    if output is None:
        sys.stdout.write(found.text)
        return
    try:
        output.write_text(found.text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{output} cannot be written: {error.strerror}") from error


def _robot_index(asset: str, robots: Sequence[RobotPlan], wanted: str | None) -> int:
    """Return the index of the robot named `wanted`, or of the only robot.

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
        raise OptionError(f"{asset} has several robots; name one by --robot: {choices(paths)}")
    if wanted not in paths:
        raise OptionError(f"{asset} has no robot {wanted}; there is: {choices(paths)}")
    return paths.index(wanted)


def _print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        print(escaped(str(diagnostic)), file=sys.stderr)

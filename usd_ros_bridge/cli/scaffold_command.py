"""`usd_ros_bridge scaffold`: the REP 0158 layer of a robot that has none, as a file, and what was decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import (
    READ,
    installed_types,
    load_asset,
    split_options,
    table_options,
)
from usd_ros_bridge.errors import AssetError

if TYPE_CHECKING:
    from usd_ros_bridge.model.plan import BridgePlan
    from usd_ros_bridge.model.scaffold import Scaffold, Survey
    from usd_ros_bridge.options import ReadOptions


@click.command()
@click.argument("asset")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the layer to FILE, which opens as the robot with its interfaces.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-sublayer", is_flag=True, help="Leave ASSET out: a layer for ASSET's own subLayers.")
@table_options("variants", *READ)
def scaffold(asset: str, output: Path, force: bool, no_sublayer: bool, **options: Any) -> None:
    """Write a ROS layer for a robot that has none, and print what it says and why.

    The layer goes over ASSET, which is not touched.
    """
    from usd_ros_bridge.planning.robot_scaffold import has_ros_layer, plan_scaffold
    from usd_ros_bridge.usd import quiet
    from usd_ros_bridge.usd.scaffold_survey import survey
    from usd_ros_bridge.usd.write_layer import check_output, layer_text, write_layer

    read, _ = split_options(options)
    with quiet():
        plan = _load(asset, read)
        if not plan.robots:
            raise AssetError(f"{asset} has no robot: nothing is below the default prim")
        found = survey(plan.stage, [robot.path for robot in plan.robots])
        if has_ros_layer(plan, found):
            raise AssetError(f"{asset} has a ROS layer already: {_schemas(found)}")
        check_output(output, plan.stage, overwrite=force)
        result = plan_scaffold(plan, found, wrap=not no_sublayer)
        text = layer_text(
            result, plan.stage, asset=asset, output=output, sublayer=not no_sublayer, variants=read.variants
        )
    write_layer(text, output)
    _print_decisions(result, output)


def _load(asset: str, read: ReadOptions) -> BridgePlan:
    from usd_ros_bridge.options import PlanOptions

    return load_asset(
        asset,
        read_options=read,
        # Links that are frames by default are to be frames by what the layer says.
        plan_options=PlanOptions(implicit_interfaces=False, frames_from_xforms=False),
        catalog=installed_types(),
        physics=True,
    )


def _schemas(found: Survey) -> str:
    return ", ".join(f"{number} {name}" for name, number in found.ros_prims.items())


def _print_decisions(result: Scaffold, output: Path) -> None:
    from rich.text import Text

    from usd_ros_bridge.cli.terminal import plain, standard_output

    styles = {"written": "green", "left out": "red", "note": "yellow"}
    console = standard_output()
    for decision in result.decisions:
        mark, rest = str(decision).split(" ", 1)
        line = Text.assemble((mark, styles[decision.outcome]), " ", plain(rest))
        console.print(line, soft_wrap=True)
    console.print(plain(f"{output}: {len(result.opinions)} prims", style="bold"), soft_wrap=True)

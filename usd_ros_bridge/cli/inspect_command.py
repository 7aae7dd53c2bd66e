"""`usd_ros_bridge inspect`: the plan of an asset, as tables or JSON."""

from __future__ import annotations

from typing import Any

import click

from usd_ros_bridge.cli.common import asset_options, installed_types, load_asset, split_options
from usd_ros_bridge.errors import StrictError
from usd_ros_bridge.model.diagnostics import has_errors
from usd_ros_bridge.process_settings import gc_paused


@click.command()
@asset_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option(
    "--physics", is_flag=True, help="Print what engines simulate, too: bodies, joints, drives, colliders."
)
def inspect(as_json: bool, physics: bool, strict: bool, **options: Any) -> None:
    """Print the ROS interfaces, frames and joints of ASSET, and what is wrong with it."""
    from usd_ros_bridge.cli.terminal import standard_output, write_json

    read, plan_options = split_options(options)
    with gc_paused():
        plan = load_asset(
            options["asset"],
            read_options=read,
            plan_options=plan_options,
            catalog=installed_types(),
            physics=physics,
        )
        if as_json:
            from usd_ros_bridge.export.plan_json import plan_to_json

            write_json(plan_to_json(plan))
        else:
            from usd_ros_bridge.cli.plan_view import print_plan

            print_plan(plan, standard_output())
    if strict and has_errors(plan.diagnostics):
        raise StrictError(f"{options['asset']} has errors")

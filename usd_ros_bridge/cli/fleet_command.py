"""`usd_ros_bridge fleet`: several bridges of one asset, in processes of this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from usd_ros_bridge.cli.common import BareValueCommand, asset_options, given_options
from usd_ros_bridge.cli.subcommands import run
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.fleet.fleet import FleetOptions, make_fleet
from usd_ros_bridge.fleet.fleet_processes import FleetProcesses
from usd_ros_bridge.fleet.shards import OWN
from usd_ros_bridge.options import BRIDGE, OPTIONS
from usd_ros_bridge.process_settings import ending_at_once


@click.command(cls=BareValueCommand)
@click.option("--shards", type=int, required=True, metavar="NUMBER", help="Number of bridges.")
@click.option(
    "--node-name",
    default=BRIDGE.node_name,
    show_default=True,
    metavar="NAME",
    help="Nodes are NAME_1, NAME_2 ...",
)
@asset_options
@click.pass_obj
def fleet(ros_args: list[str] | None, /, **options: Any) -> None:
    """Run ASSET with several bridges, each with its own robots. Arguments after --ros-args go to all of them.

    SIGINT and SIGTERM end all of them, and so does the end of one.
    """
    described = FleetOptions(
        asset=options["asset"],
        shards=options["shards"],
        node_name=options["node_name"],
        namespace=options["namespace"] or "",
        parameters=_parameters(options),
        ros_args=ros_args or (),
    )
    # To be ended is no failure of a service, not even before the first process runs.
    with ending_at_once():
        status = FleetProcesses(make_fleet(described)).run()
    if status:
        sys.exit(status)


def _add_options_of_run() -> None:
    """Add what `run` has besides: parameters of the node, but for those that the fleet sets."""
    present = {each.name for each in fleet.params}
    more = [each for each in run.params if each.name in OPTIONS and each.name not in present]
    fleet.params = [each for each in [*fleet.params, *more] if each.name not in OWN]


_add_options_of_run()


def _parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node parameters among the given options, as they are given.

    Raises:
        OptionError: One of them is not possible.
    """
    checked = given_options(options)
    for name, value in checked.items():
        if isinstance(value, int | float | str) and (fault := OPTIONS[name].fault(value)):
            raise OptionError(f"{name} {fault}")
    return {name: OPTIONS[name].normal(options[name]) for name in checked if name != "namespace"}

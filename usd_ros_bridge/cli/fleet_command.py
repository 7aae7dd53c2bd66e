"""`usd_ros_bridge fleet`: several bridges of one asset, in processes of one or more machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from usd_ros_bridge.cli.common import BareValueCommand, asset_options, given_options
from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.subcommands import run
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.fleet.fleet import FleetOptions, make_fleet
from usd_ros_bridge.fleet.machines import RemoteShell
from usd_ros_bridge.fleet.shards import OWN
from usd_ros_bridge.fleet.supervisor import MAX_RESTART_DELAY_S, Supervisor
from usd_ros_bridge.options import BRIDGE, OPTIONS
from usd_ros_bridge.process_settings import ending_at_once


@click.command(cls=BareValueCommand)
@click.option("--shards", type=int, required=True, metavar="NUMBER", help="Number of bridges.")
@click.option(
    "--machines",
    multiple=True,
    metavar="HOST[*WEIGHT][,HOST...]",
    help="Machines that run them, in blocks, by ssh; localhost is this one [default: localhost].",
)
@click.option(
    "--machine",
    default="",
    metavar="HOST",
    help="Start only the shards of this one of --machines, here, without ssh: run the same command on each machine.",
)
@click.option(
    "--discovery-server",
    default="",
    metavar="ADDRESS:PORT",
    help="Use Fast DDS's discovery server, started here if the address is this machine's; auto: on the loopback.",
)
@click.option(
    "--node-name",
    default=BRIDGE.node_name,
    show_default=True,
    metavar="NAME",
    help="Nodes are NAME_1, NAME_2 ...",
)
@click.option(
    "--ssh", default="ssh", show_default=True, metavar="COMMAND", help="The ssh command, with options."
)
@click.option(
    "--remote-setup",
    default="",
    metavar="COMMAND",
    help="What bash does first on another machine: source ...",
)
@click.option(
    "--remote-command",
    default="usd_ros_bridge",
    show_default=True,
    metavar="COMMAND",
    help="This command line on another machine.",
)
@click.option(
    "--max-restart-delay",
    type=FiniteRange(min=0.0),
    default=MAX_RESTART_DELAY_S,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait before a process that ended is started again.",
)
@asset_options
@click.pass_obj
def fleet(ros_args: list[str] | None, /, **options: Any) -> None:
    """Run ASSET with several bridges, each with its own robots. Arguments after --ros-args go to all of them.

    A bridge that ends is started again, and no other one notices. SIGINT and SIGTERM end all of them.
    """
    described = FleetOptions(
        asset=options["asset"],
        shards=options["shards"],
        machines=options["machines"],
        machine=options["machine"],
        discovery_server=options["discovery_server"],
        node_name=options["node_name"],
        namespace=options["namespace"] or "",
        parameters=_parameters(options),
        ros_args=ros_args or (),
        remote=RemoteShell(
            ssh=options["ssh"], setup=options["remote_setup"], command=options["remote_command"]
        ),
    )
    # To be ended is no failure of a service, also while the backend is chosen.
    with ending_at_once():
        Supervisor(make_fleet(described), max_restart_delay=options["max_restart_delay"]).run()


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

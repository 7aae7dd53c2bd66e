"""`usd_ros_bridge diff`: what changes in the ROS interface from one asset, or one variant, to another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import (
    PLAN,
    READ,
    installed_types,
    load_asset,
    split_options,
    table_options,
)

if TYPE_CHECKING:
    from usd_ros_bridge.model.plan import BridgePlan

EXIT_DIFFERENT = 1


def _variants(side: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        f"--{side}-variant",
        f"{side}_variants",
        multiple=True,
        metavar="/PRIM:SET=CHOICE",
        help=f"Select a variant of {side.upper()}.",
    )


@click.command()
@click.argument("old")
@click.argument("new", required=False)
@_variants("old")
@_variants("new")
@table_options(*PLAN, *READ)
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def diff(
    old: str,
    new: str | None,
    old_variants: tuple[str, ...],
    new_variants: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Print what differs in ROS interfaces, controllers, joints and frames between OLD and NEW.

    Without NEW, between two variants of OLD. The exit status is 0 where nothing differs, 1 where something does, and 2
    where they cannot be compared.
    """
    from usd_ros_bridge.cli.terminal import standard_output, write_json
    from usd_ros_bridge.planning.diff import difference

    if new is None and not (old_variants or new_variants):
        raise click.UsageError("nothing to compare OLD with: name NEW, or a variant by --new-variant")
    found = difference(
        _plan(old, old_variants, options), _plan(old if new is None else new, new_variants, options)
    )
    if as_json:
        from usd_ros_bridge.export.plan_json import difference_to_json

        write_json(difference_to_json(found))
    else:
        from usd_ros_bridge.cli.plan_view import print_difference

        print_difference(found, standard_output())
    if found:
        sys.exit(EXIT_DIFFERENT)


def _plan(asset: str, variants: tuple[str, ...], options: dict[str, Any]) -> BridgePlan:
    read, plan_options = split_options({**options, "variants": variants})
    return load_asset(asset, read_options=read, plan_options=plan_options, catalog=installed_types())

"""`usd_ros_bridge rviz`: write the RViz configuration of an asset, and print how RViz is started with it."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import asset_options, load_asset, split_options, table_options
from usd_ros_bridge.cli.output_files import USE_FORCE, write_output
from usd_ros_bridge.errors import escaped
from usd_ros_bridge.model.diagnostics import refuse

if TYPE_CHECKING:
    from usd_ros_bridge.export.rviz import RvizConfig
    from usd_ros_bridge.model.plan import BridgePlan


@click.command()
@asset_options
@table_options("interfaces", "tf_output", "frame_prefix", "base_transform", "backend")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--all-robots",
    is_flag=True,
    help="Without --tf-output, take tf_output both if the asset has several robots.",
)
@click.option("--json", "as_json", is_flag=True, help="With -o, print how RViz is started as JSON.")
def rviz(
    output: Path | None,
    force: bool,
    all_robots: bool,
    as_json: bool,
    strict: bool,
    degraded: str | None,
    **options: Any,
) -> None:
    """Print an RViz configuration (.rviz) for ASSET.

    It shows the robots, their transforms and their topics, with the names and the quality of service that the bridge
    uses with the same options. With -o, standard output gets the command that starts RViz.
    """
    from usd_ros_bridge.export.rviz import rviz_command, rviz_config

    if as_json and output is None:
        raise click.UsageError("--json goes with -o")
    plan = _load(options, all_robots=all_robots)
    refuse(options["asset"], plan.diagnostics, strict=strict, degraded=degraded)
    config = rviz_config(plan)
    use_sim_time = _owns_time(plan, options["backend"])
    for remark in (*config.remarks, *([] if as_json else [config.link_remark])):
        if remark:
            print(escaped(remark), file=sys.stderr)
    if output is None:
        sys.stdout.write(config.text)
        return
    write_output(output, config.text.encode(), plans=(plan,), refusal="" if force else USE_FORCE)
    if as_json:
        from usd_ros_bridge.cli.views import write_json

        write_json(_as_json(config, plan, output, use_sim_time=use_sim_time))
        return
    command = rviz_command(
        config.remaps, domain_id=config.domain_id, file=str(output), use_sim_time=use_sim_time
    )
    print(escaped(command))


def _load(options: dict[str, Any], *, all_robots: bool) -> BridgePlan:
    read, plan_options = split_options(options)
    if all_robots and not options["tf_output"]:
        # One robot is shown as with `namespaced`: by its own topics.
        plan_options = replace(plan_options, tf_output="both")
    return load_asset(options["asset"], read_options=read, plan_options=plan_options, physics=True)


def _owns_time(plan: BridgePlan, backend: str | None) -> bool:
    """Return whether the bridge publishes /clock for this asset, with this backend or the one it would choose."""
    from usd_ros_bridge.backends.base import needs_physics
    from usd_ros_bridge.ros.backend_choice import AUTO, choose

    return needs_physics(choose(plan, backend or AUTO, inform=lambda _key, _text: None).backend)


def _as_json(config: RvizConfig, plan: BridgePlan, output: Path, *, use_sim_time: bool) -> dict[str, Any]:
    has_several = len(plan.robots) > 1
    return {
        "file": str(output),
        "fixed_frame": config.fixed_frame,
        "remaps": [list(pair) for pair in config.remaps],
        "domain_id": config.domain_id,
        "use_sim_time": use_sim_time,
        "tf_output": plan.options.tf_output if has_several else None,
        "links": [
            {"parent": each.parent, "child": each.child, **asdict(each.parent_from_child)}
            for each in config.links
        ],
        "remarks": list(config.remarks),
    }

"""Commands of `usd_ros_bridge`: inspect, run, diff, resolver, urdf. Imports are late, for a fast `--help`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import (
    PLAN,
    READ,
    BareValueCommand,
    asset_options,
    engine_settings,
    given_options,
    installed_types,
    load_asset,
    split_options,
    table_options,
)
from usd_ros_bridge.cli.export_command import print_diagnostics
from usd_ros_bridge.cli.output_files import write_output
from usd_ros_bridge.cli.view_command import page_companions, page_options
from usd_ros_bridge.errors import OptionError, escaped
from usd_ros_bridge.model.diagnostics import refuse
from usd_ros_bridge.process_settings import ending_at_once, gc_paused

if TYPE_CHECKING:
    from usd_ros_bridge.model.plan import BridgePlan
    from usd_ros_bridge.view.page_process import PageAddress

EXIT_DIFFERENT = 1
FOXGLOVE = ("foxglove", "foxglove_host", "foxglove_control", "foxglove_origins")


@click.command()
@asset_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option(
    "--physics",
    is_flag=True,
    help="Also print the physics scene: bodies, joints, drives, colliders, and what MuJoCo makes of them.",
)
def inspect(as_json: bool, physics: bool, strict: bool, degraded: str | None, **options: Any) -> None:
    """Print the ROS interfaces, frames and joints of ASSET, and its faults."""
    from usd_ros_bridge.cli.views import print_plan, standard_output, write_json

    read, plan_options = split_options(options)
    with gc_paused():
        plan = load_asset(
            options["asset"],
            read_options=read,
            plan_options=plan_options,
            catalog=installed_types(),
            # `run` simulates where it can: what it would find wrong is found here, whatever is printed.
            physics=True,
        )
        settings = engine_settings(plan) if physics else None
        if not physics:
            plan = replace(plan, physics=None)
        if as_json:
            from usd_ros_bridge.export.plan_json import engine_to_json, plan_to_json

            write_json(plan_to_json(plan) | engine_to_json(settings))
        else:
            print_plan(plan, standard_output(), settings)
    refuse(options["asset"], plan.diagnostics, strict=strict, degraded=degraded)


@click.command(cls=BareValueCommand)
@asset_options
@table_options(
    "backend",
    "backend_options",
    "real_time_factor",
    "beyond_limits",
    "start_paused",
    "watch",
    "tf_output",
    "mesh_uris",
    "record",
    "duration",
    *FOXGLOVE,
)
@click.option(
    "--no-live", is_flag=True, help="Print log lines in place of the live view, also on a terminal."
)
@click.option(
    "--no-ros",
    is_flag=True,
    help="Open no ROS 2 participant: record to the file of --record, as fast as possible.",
)
@page_options
@click.pass_obj
def run(
    ros_args: list[str] | None, /, *, no_live: bool, no_ros: bool, page: PageAddress | None, **options: Any
) -> None:
    """Run the bridge on ASSET. Arguments after --ros-args go to ROS 2.

    On a terminal, a live view shows its findings, its interfaces and its log. With --view, a page in the browser shows
    the robots and drives them.
    """
    if no_ros:
        if ros_args:
            raise OptionError("--no-ros and --ros-args exclude each other")
        if any(options[name] not in (None, ()) for name in FOXGLOVE):
            raise OptionError("--no-ros and --foxglove exclude each other: the server is a part of the node")
        if page is not None:
            raise OptionError("--no-ros and --view exclude each other: the page is a ROS 2 client")
        from usd_ros_bridge.cli.offline_run import run_offline

        run_offline(given_options(options))
        return
    with ending_at_once():
        from usd_ros_bridge.cli.live_view import live_view, reason_against
        from usd_ros_bridge.cli.start_view import TerminalView
        from usd_ros_bridge.planner_process import start_planner
        from usd_ros_bridge.start_phases import EARLY_AFTER_S, LogView, StartPhases

        companions = page_companions(page)
        reason = "not wanted" if no_live else reason_against()
        if reason and sys.stdout.isatty() and not no_live:
            print(f"usd_ros_bridge: no live view: {reason}", file=sys.stderr)
        phases = StartPhases(LogView(early_after=EARLY_AFTER_S) if reason else TerminalView())
        with closing(phases), start_planner() as planner:
            from usd_ros_bridge.ros.node import run_node

            run_node(
                given=given_options(options),
                ros_args=ros_args or [],
                view=None if reason else live_view,
                companions=companions,
                planner=planner,
                phases=phases,
            )


def _variants_option(side: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
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
@_variants_option("old")
@_variants_option("new")
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
    """Print what differs in ROS interfaces, controllers, joints and frames, and what is not simulated.

    Without NEW, compare two variants of OLD. The exit status is 0 if nothing differs, 1 if something does, and 2
    if they cannot be compared.
    """
    from usd_ros_bridge.cli.views import print_difference, standard_output, write_json
    from usd_ros_bridge.planning.diff import difference

    if new is None and not (old_variants or new_variants):
        raise click.UsageError("nothing to compare OLD with: name NEW, or a variant by --new-variant")
    found = difference(
        _plan_side(old, old_variants, options), _plan_side(old if new is None else new, new_variants, options)
    )
    if as_json:
        from usd_ros_bridge.export.plan_json import difference_to_json

        write_json(difference_to_json(found))
    else:
        print_difference(found, standard_output())
    if found:
        sys.exit(EXIT_DIFFERENT)


def _plan_side(asset: str, variants: tuple[str, ...], options: dict[str, Any]) -> BridgePlan:
    read, plan_options = split_options({**options, "variants": variants})
    return load_asset(
        asset, read_options=read, plan_options=plan_options, catalog=installed_types(), physics=True
    )


@click.command()
@click.option("--build", "builds", is_flag=True, help="Compile the plugin and print its folder.")
@click.option(
    "--headers",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="OpenUSD's headers [default: pxr-ar-dev beside usd-core].",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Folder for the plugin [default: the one that the bridge searches].",
)
def resolver(builds: bool, headers: Path | None, directory: Path | None) -> None:
    """Print how package:// is resolved here (REP 0158 section 1.2.5), or compile the plugin that resolves it."""
    if builds:
        from usd_ros_bridge.usd.resolver.build import build

        click.echo(build(headers=headers, directory=directory))
        return
    if headers is not None or directory is not None:
        raise click.UsageError("--headers and --directory go with --build")
    click.echo(escaped(_resolver_summary(), keep="\n"))


def _resolver_summary() -> str:
    from usd_ros_bridge.usd.resolver import (
        PLUGIN_FILE,
        PackageResolution,
        default_directory,
        openusd_version,
        register_resolver,
    )

    way = {
        PackageResolution.PLUGIN: "the compiled resolver",
        PackageResolution.LINKS: "links, by the bridge on stages that it opens",
        PackageResolution.HOST: "a resolver of the host's",
    }[register_resolver()]
    directory = default_directory()
    built = "built" if (directory / PLUGIN_FILE).is_file() else "not built: usd_ros_bridge resolver --build"
    return f"package:// is resolved by {way}\nOpenUSD {openusd_version()}\n{directory} ({built})"


@click.command()
@asset_options
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE."
)
@click.option(
    "--meshes",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Directory for mesh files [default: usd_ros_bridge/meshes in the user's cache].",
)
@click.option("--robot", default=None, metavar="PRIM", help="Robot to print, if the asset has several.")
@click.option(
    "--frames-from-xforms/--no-frames-from-xforms",
    default=None,
    help="Make links of all plain Xforms directly below bodies, or of none [default: of links without mass].",
)
def urdf(
    output: Path | None,
    meshes: Path | None,
    robot: str | None,
    frames_from_xforms: bool | None,
    strict: bool,
    degraded: str | None,
    **options: Any,
) -> None:
    """Print a robot of ASSET as URDF.

    Links are the frames of /tf and joints those of joint_states, of the selected variants. Standard output gets only
    the document, diagnostics go to standard error.
    """
    from usd_ros_bridge.export.mesh_files import MeshCache, installed_meshes
    from usd_ros_bridge.export.plan_formats import robot_index
    from usd_ros_bridge.export.urdf import robot_urdf

    read, plan_options = split_options(options)
    if frames_from_xforms is not None:
        plan_options = replace(plan_options, frames_from_xforms=frames_from_xforms)
    plan = load_asset(options["asset"], read_options=read, plan_options=plan_options, physics=True)
    number = robot_index(options["asset"], plan.robots, robot)
    cache = MeshCache(meshes, installed=installed_meshes(options["asset"]) if meshes is None else None)
    found = robot_urdf(plan, number, meshes=cache)
    of_asset = [each for each in plan.diagnostics if each.severity != "info"]
    print_diagnostics([*of_asset, *found.diagnostics])
    refuse(options["asset"], [*of_asset, *found.diagnostics], strict=strict, degraded=degraded)
    if output is None:
        sys.stdout.write(found.text)
        return
    write_output(output, found.text.encode(), plans=(plan,))

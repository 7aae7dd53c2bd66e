"""`usd_ros_bridge scaffold`: write a layer with what an asset lacks, ROS interfaces and physics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
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
from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.output_files import USE_FORCE, write_output
from usd_ros_bridge.errors import AssetError, OptionError
from usd_ros_bridge.model.scaffold import Dialect, ScaffoldRequest, SensorKind, SensorRequest
from usd_ros_bridge.options import SOLVERS

if TYPE_CHECKING:
    from usd_ros_bridge.model.plan import BridgePlan
    from usd_ros_bridge.model.scaffold import Decision, Opinion, Scaffold, Survey
    from usd_ros_bridge.options import PlanOptions, ReadOptions

_DEFAULTS = ScaffoldRequest()
_SENSORS: Mapping[SensorKind, str] = {
    "camera": "a camera (Image, CameraInfo)",
    "lidar": "a lidar (LaserScan)",
    "imu": "an IMU (Imu)",
}


def addition_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for physics and sensors. `scaffold_request` takes their values."""
    for option in reversed(
        (
            click.option("--drives", is_flag=True, help="Give every movable joint without a drive one."),
            click.option(
                "--natural-frequency",
                type=FiniteRange(min=0.1, max=50.0),
                metavar="HZ",
                help=f"Natural frequency of the drives' springs [default: {_DEFAULTS.natural_frequency:g}].",
            ),
            click.option(
                "--damping-ratio",
                type=FiniteRange(min=0.0, max=100.0),
                metavar="RATIO",
                help=f"Damping ratio of the drives; 1 is critical damping [default: {_DEFAULTS.damping_ratio:g}].",
            ),
            click.option(
                "--free-base", is_flag=True, help="Let the robots float: switch off what fixes them."
            ),
            click.option("--fix-base", is_flag=True, help="Fix the robots to the world where they are."),
            click.option(
                "--ground",
                is_flag=True,
                help="Put a ground plane below the robots, and add gravity if there is none.",
            ),
            *(
                click.option(
                    f"--{kind}",
                    f"{kind}s",
                    multiple=True,
                    metavar="LINK",
                    help=f"Add {what} at LINK. Repeatable.",
                )
                for kind, what in _SENSORS.items()
            ),
        )
    ):
        command = option(command)
    return command


def scaffold_request(options: dict[str, Any]) -> ScaffoldRequest:
    """Take the values of the options for physics and sensors out of a command's options.

    Raises:
        OptionError: They contradict each other.
    """
    drives, free, fixed = (options.pop(name) for name in ("drives", "free_base", "fix_base"))
    ground = options.pop("ground")
    gains = {name: options.pop(name) for name in ("natural_frequency", "damping_ratio")}
    given = {name: value for name, value in gains.items() if value is not None}
    sensors = tuple(
        SensorRequest(kind=kind, link=link)
        for kind in _SENSORS
        for link in dict.fromkeys(options.pop(f"{kind}s"))
    )
    if free and fixed:
        raise OptionError("--free-base and --fix-base contradict each other: name one")
    if given and not drives:
        flag = "--" + next(iter(given)).replace("_", "-")
        raise OptionError(f"{flag} is of drives: add --drives")
    return ScaffoldRequest(
        drives=drives,
        base="free" if free else "fixed" if fixed else "",
        ground=ground,
        sensors=sensors,
        **given,
    )


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
@click.option(
    "--no-sublayer", is_flag=True, help="Do not include ASSET: write a layer for ASSET's own subLayers."
)
@addition_options
@click.option(
    "--dialect",
    type=click.Choice(SOLVERS),
    help="Write what vendors' attributes of joints say in those of this vendor, and nothing else.",
)
@table_options("variants", *READ)
def scaffold(
    asset: str, output: Path, force: bool, no_sublayer: bool, dialect: Dialect | None, **options: Any
) -> None:
    """Write a ROS layer for a robot without one, and print its content and the reasons.

    The options for drives, base, ground and sensors add these. If the robot has interfaces, only these are written.

    The layer goes over ASSET, which is not changed.
    """
    request = replace(scaffold_request(options), dialect=dialect)
    _check_dialect(request)
    read, _ = split_options(options)
    result = write_scaffold(asset, output, read=read, request=request, force=force, sublayer=not no_sublayer)
    print_decisions(result, output)


def _check_dialect(request: ScaffoldRequest) -> None:
    """Check that a vendor's layer is to have nothing else.

    Raises:
        OptionError: Something else is requested.
    """
    if request.dialect and (request.drives or request.ground or request.base or request.sensors):
        raise OptionError(
            "--dialect writes a vendor's layer, which has nothing else (REP 0158 section 1.4): name it alone"
        )


def write_scaffold(
    asset: str,
    output: Path,
    *,
    read: ReadOptions,
    request: ScaffoldRequest = _DEFAULTS,
    force: bool = False,
    sublayer: bool = True,
) -> Scaffold:
    """Write the layer of an asset. Return its content.

    Args:
        asset: As for `load_plan`.
        output: Where the layer goes, a .usda file.
        read: How the asset is opened.
        request: Physics and sensors that the layer adds.
        force: Overwrite a file.
        sublayer: Whether the layer brings the asset along.

    Raises:
        BridgeError: The asset, or the file, cannot be used. Nothing is written.
    """
    from usd_ros_bridge.planning.robot_scaffold import has_ros_layer, plan_scaffold
    from usd_ros_bridge.usd import quiet
    from usd_ros_bridge.usd.scaffold_layer import check_output, layer_text, survey

    with quiet():
        plan = load_asset(
            asset, read_options=read, plan_options=_plan_options(), catalog=installed_types(), physics=True
        )
        if not plan.robots:
            raise AssetError(f"{asset} has no robot: nothing is below the default prim")
        found = survey(plan.stage, [robot.path for robot in plan.robots])
        interfaces = not request.dialect and not has_ros_layer(plan, found)
        if not interfaces and not request:
            raise AssetError(
                f"{asset} has a ROS layer already: {_schemas(found)}; --drives, --ground, --free-base, --fix-base "
                "and sensors can be added"
            )
        check_output(output)
        with ExitStack() as stack:
            plan, additions = _add(plan, found, request, stack, interfaces=interfaces)
            result = plan_scaffold(
                plan,
                found,
                wrap=sublayer,
                interfaces=interfaces,
                additions=additions,
                namespace=request.namespace,
                limits=request.limits if request.drives else None,
            )
        result = replace(result, vendor=request.dialect or "")
        if not (result.opinions or interfaces):
            raise AssetError(
                f"{asset}: nothing to write: {'; '.join(each.text for each in result.decisions)}"
            )
        text = layer_text(
            result, plan.stage, asset=asset, output=output, sublayer=sublayer, variants=read.variants
        )
    write_output(output, text.encode(), plans=(plan,), refusal="" if force else USE_FORCE)
    return result


def _plan_options() -> PlanOptions:
    from usd_ros_bridge.options import PlanOptions

    # The layer declares links without mass as frames.
    return PlanOptions(implicit_interfaces=False, frames_from_xforms=False)


def _add(
    plan: BridgePlan, found: Survey, request: ScaffoldRequest, stack: ExitStack, *, interfaces: bool
) -> tuple[BridgePlan, Scaffold]:
    """Plan the requested physics and sensors, one step after another, each on the stage with the steps before.

    Args:
        plan: Of the asset.
        found: Survey of the asset.
        request: What is requested.
        stack: Keeps the opinions on the stage until it is closed.
        interfaces: The layer has interfaces, and lets bodies without mass of converted robots weigh nothing.

    Returns:
        The plan of the asset with them, and what they are.
    """
    from usd_ros_bridge.model.scaffold import Scaffold
    from usd_ros_bridge.planning.robot_scaffold import converter_of, weightless
    from usd_ros_bridge.planning.scaffold_base import plan_ground
    from usd_ros_bridge.planning.scaffold_dialect import plan_dialect
    from usd_ros_bridge.planning.scaffold_drives import plan_drives
    from usd_ros_bridge.planning.scaffold_sensors import plan_sensors
    from usd_ros_bridge.usd.scaffold_layer import children_of, followers_in

    if request.dialect:
        followers = followers_in(plan.stage)
        more, said = plan_dialect(plan, found, request.dialect, followers=followers)
        return plan, Scaffold(opinions=tuple(more), decisions=tuple(said))
    opinions, decisions = _plan_bases(plan, found, request, interfaces=interfaces)
    if not request:
        return plan, Scaffold(decisions=tuple(decisions))
    robots = [robot for robot in plan.robots if robot.path not in found.closed]
    light = [weightless(robot) for robot in robots if interfaces and converter_of(found, robot)]
    plan = _replan(plan, [*opinions, *light], stack)
    if request.ground:
        more, said = plan_ground(plan, found)
        opinions, decisions = opinions + more, decisions + said
    if request.drives:
        more, said = plan_drives(plan, found, request)
        opinions, decisions = opinions + more, decisions + said
        plan = _replan(plan, more, stack)
        more, said = _filter_overlaps(plan, found)
        opinions, decisions = opinions + more, decisions + said
    if request.sensors:
        more, said = plan_sensors(plan, found, request.sensors, partial(children_of, plan.stage))
        opinions, decisions = opinions + more, decisions + said
    return plan, Scaffold(opinions=tuple(opinions), decisions=tuple(decisions))


def _filter_overlaps(plan: BridgePlan, found: Survey) -> tuple[list[Opinion], list[Decision]]:
    """Filter the collisions of a robot's bodies that overlap at rest, as MuJoCo finds them."""
    from usd_ros_bridge.errors import BackendError
    from usd_ros_bridge.model.scaffold import Decision
    from usd_ros_bridge.planning.scaffold_collisions import filter_overlaps

    assert plan.physics is not None
    if not plan.physics.colliders:
        return [], []
    try:
        from usd_ros_bridge.backends.mujoco.gl_context import import_mujoco

        import_mujoco()
        from usd_ros_bridge.backends.mujoco.overlaps import overlaps_at_start

        overlaps = overlaps_at_start(plan.physics)
    except (ImportError, BackendError) as error:
        text = f"bodies that overlap at rest are not searched: {error}"
        return [], [Decision(outcome="left out", subject="collisions", text=text, path="/")]
    return filter_overlaps(plan, found, overlaps)


def _plan_bases(
    plan: BridgePlan, found: Survey, request: ScaffoldRequest, *, interfaces: bool
) -> tuple[list[Opinion], list[Decision]]:
    from usd_ros_bridge.planning.scaffold_base import describe_base, fix_base, free_base
    from usd_ros_bridge.usd.scaffold_layer import frames_in, pose_in

    opinions: list[Opinion] = []
    decisions: list[Decision] = []
    for index, robot in enumerate(plan.robots):
        if robot.path in found.closed:
            continue
        if request.base == "free":
            more, said = free_base(plan, index, found, partial(frames_in, plan.stage), interfaces=interfaces)
        elif request.base == "fixed":
            more, said = fix_base(plan, index, found, partial(pose_in, plan.stage))
        else:
            more, said = [], describe_base(plan, index, found)
        opinions += more
        decisions += said
    return opinions, decisions


def _replan(plan: BridgePlan, opinions: list[Opinion], stack: ExitStack) -> BridgePlan:
    """Return the plan of the stage with more opinions."""
    from usd_ros_bridge.api import reread
    from usd_ros_bridge.usd.scaffold_layer import authored

    if not opinions:
        return plan
    stack.enter_context(authored(plan.stage, opinions))
    return reread(plan, _plan_options(), variants=plan.variants)()


def _schemas(found: Survey) -> str:
    return ", ".join(f"{number} {name}" for name, number in found.ros_prims.items())


def print_decisions(result: Scaffold, output: Path) -> None:
    """Print what a scaffold decided, one decision a line, and its file."""
    from rich.text import Text

    from usd_ros_bridge.cli.views import plain, standard_output

    styles = {"written": "green", "left out": "red", "note": "yellow"}
    console = standard_output()
    for decision in result.decisions:
        mark, rest = str(decision).split(" ", 1)
        line = Text.assemble((mark, styles[decision.outcome]), " ", plain(rest))
        console.print(line, soft_wrap=True)
    count = len(result.opinions)
    counted = f"{count} prim" if count == 1 else f"{count} prims"
    console.print(plain(f"{output}: {counted}", style="bold"), soft_wrap=True)

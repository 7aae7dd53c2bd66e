"""What commands share: options from the table of options, and loading of an asset with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.options import OPTIONS, Option, PlanOptions, ReadOptions, make_options
from usd_ros_bridge.process_settings import run_interruptibly
from usd_ros_bridge.requirements import is_installed

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.engine_settings import EngineSettings
    from usd_ros_bridge.model.message_types import TypeCatalog
    from usd_ros_bridge.model.plan import BridgePlan


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

READ = ("packages", "max_prims", "max_layers", "max_bytes", "max_nesting", "max_arcs")
PLAN = ("namespace", "payloads", "implicit_context", "contexts", "shard")


def table_options(*names: str) -> Decorator:
    """Return a decorator that adds the options of these rows of the table."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            command = _click_option(OPTIONS[name])(command)
        return command

    return add


def asset_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the asset, or an example in its place, and the options of `inspect`, `run` and `urdf`."""

    @wraps(command)
    def with_asset(*arguments: Any, asset: str | None, example: str | None, **options: Any) -> Any:
        return command(*arguments, asset=_one_asset(asset, example), **options)

    table = table_options("variants", *PLAN, "massless_bodies", "strict", "degraded", *READ)
    chosen = click.option(
        "--example",
        metavar="NAME",
        help="Open an example in place of ASSET: `usd_ros_bridge examples` lists them.",
    )
    return click.argument("asset", required=False)(chosen(table(with_asset)))


def _one_asset(asset: str | None, example: str | None) -> str:
    if asset is not None and example is not None:
        raise click.UsageError("ASSET and --example exclude each other")
    if example is not None:
        from usd_ros_bridge.cli.examples import example_asset

        return example_asset(example)
    if asset is None:
        raise click.UsageError("Missing argument 'ASSET': a USD file, or --example NAME in its place.")
    return asset


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the given options, by their names in the table.

    Raises:
        OptionError: One of them is not possible.
    """
    return {
        name: OPTIONS[name].value(value)
        for name, value in options.items()
        if name in OPTIONS and value not in (None, (), "")
    }


def split_options(options: Mapping[str, Any]) -> tuple[ReadOptions, PlanOptions]:
    """Return the options for opening and planning an asset. Others have their defaults.

    Raises:
        OptionError: One of them is not possible.
    """
    given = given_options(options)
    return make_options(ReadOptions, given), make_options(PlanOptions, given)


def _click_option(option: Option) -> Decorator:
    """Make an option. Its value is None, or empty, if it is not given."""
    more: dict[str, Any] = {"metavar": option.metavar or None}
    default = option.parameter_default
    if option.kind == "bool":
        more, default = {"is_flag": True, "flag_value": not default}, ""
    elif option.kind == "strings":
        more, default = {**more, "multiple": True}, ""
    elif option.choices:
        more = {"type": click.Choice(option.choices)}
    elif option.kind == "int":
        low, high = (1, None) if option.range is None else map(int, option.range.limits)
        more |= {"type": click.IntRange(min=low, max=None if option.bare is None else high)}
        default = f"{default:,}" if option.bare is None else f"off; {option.bare} without a value"
    elif option.kind == "double":
        more |= {"type": float, "callback": lambda _context, _parameter, value: _checked(option, value)}
        default = f"{default:g}"
    shown = f" [default: {default}]" if default else ""
    limits = f" ({option.range})" if option.kind == "double" and option.range is not None else ""
    text = f"{option.help[:-1]}{limits}{shown}."
    if option.default is True:
        text = f"Do not {text[0].lower()}{text[1:]}"
    return click.option(option.flag, option.name, default=None, help=text, **more)


class BareValueCommand(click.Command):
    """Command with options whose value may be left out, also before an argument: `--foxglove robot.usda`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments, as click does; an option without its value gets the one of the table."""
        bare = {each.flag: each.bare for each in OPTIONS.values() if each.bare is not None}
        complete = []
        for number, argument in enumerate(args):
            following = args[number + 1 : number + 2]
            has_value = bool(following) and following[0].removeprefix("-").isdigit()
            complete.append(
                f"{argument}={bare[argument]}" if argument in bare and not has_value else argument
            )
        return super().parse_args(ctx, complete)


def _checked(option: Option, value: float | None) -> float | None:
    if value is not None and (fault := option.fault(value)):
        raise click.BadParameter(fault)
    return value


def load_asset(asset: str, **options: Any) -> BridgePlan:
    """Read and plan an asset without OpenUSD's own warnings. Signals end the process meanwhile.

    Args:
        asset: As for `load_plan`.
        options: As for `load_plan`.
    """
    from usd_ros_bridge.api import load_plan
    from usd_ros_bridge.usd import quiet

    return run_interruptibly(quiet()(partial(load_plan, asset, **options)))


def installed_types() -> TypeCatalog | None:
    """Return the interface types of the ROS environment, None without ROS."""
    # To import it takes longer than the rest of `inspect`.
    if not is_installed("rclpy"):
        return None
    from usd_ros_bridge.ros.interface_types import AmentCatalog

    return AmentCatalog()


def engine_settings(plan: BridgePlan) -> EngineSettings | str:
    """Return what MuJoCo makes of a plan's physics, or why that is not known."""
    from usd_ros_bridge.errors import BackendError

    if plan.physics is None or not (plan.physics.bodies or plan.physics.colliders):
        return "the asset has neither rigid bodies nor colliders"
    try:
        from usd_ros_bridge.backends.mujoco.gl_context import import_mujoco

        import_mujoco()
        from usd_ros_bridge.backends.mujoco.engine_settings import engine_settings as settings

        return settings(plan.physics)
    except ImportError:
        return "mujoco is not installed"
    except BackendError as error:
        return str(error)

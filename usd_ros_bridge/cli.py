"""The command line: the group of commands, `inspect`, `run`, and how all of them end."""

from __future__ import annotations

from usd_ros_bridge.ros.signals import ending_at_once

with ending_at_once(success=False):  # A signal while modules are imported is no traceback.
    import sys
    from collections.abc import Sequence
    from typing import Any, NoReturn

    import click

    from usd_ros_bridge import __version__
    from usd_ros_bridge.console.asset_options import (
        asset_options,
        installed_types,
        load_asset,
        split_options,
    )
    from usd_ros_bridge.console.diff_command import diff
    from usd_ros_bridge.console.resolver_command import resolver
    from usd_ros_bridge.console.scaffold_command import scaffold
    from usd_ros_bridge.console.urdf_command import urdf
    from usd_ros_bridge.model.collector import collector_paused
    from usd_ros_bridge.model.diagnostics import escaped, has_errors
    from usd_ros_bridge.model.errors import BridgeError, StrictError
    from usd_ros_bridge.model.parse import parse_key_values
    from usd_ros_bridge.model.ranges import FACTOR, NumberRange, shown

EXIT_STRICT = 1
EXIT_USAGE = 2

LIVE_ROS_ARGS = ["--ros-args", "--disable-stdout-logs"]


def _checked(value: float | None, possible: NumberRange) -> float | None:
    if value is not None and value not in possible:
        raise click.BadParameter(f"{shown(value)} is not possible: {possible}")
    return value


@click.group()
@click.version_option(__version__, prog_name="usd_ros_bridge")
def cli() -> None:
    """OpenUSD robots as live ROS 2 interfaces (REP 0158)."""


@cli.command()
@asset_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option(
    "--physics", is_flag=True, help="Print what engines simulate, too: bodies, joints, drives, colliders."
)
def inspect(as_json: bool, physics: bool, strict: bool, **options: Any) -> None:
    """Print the ROS interfaces, frames and joints of ASSET, and what is wrong with it."""
    from usd_ros_bridge.console.text import standard_output, write_json

    read, plan_options = split_options(options)
    with collector_paused():
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
            from usd_ros_bridge.console.inspect import print_plan

            print_plan(plan, standard_output())
    if strict and has_errors(plan.diagnostics):
        raise StrictError(f"{options['asset']} has errors")


@cli.command()
@asset_options
@click.option("--backend", default=None, help="Where the state comes from [default: auto].")
@click.option(
    "--backend-option", "backend_options", multiple=True, metavar="KEY=VALUE", help="Option of the backend."
)
@click.option(
    "--real-time-factor",
    type=float,
    default=None,
    metavar="FACTOR",
    callback=lambda _context, _parameter, value: _checked(value, FACTOR),
    help=f"Seconds of simulated time in a second ({FACTOR}); 0: as many as possible [default: 1].",
)
@click.option(
    "--beyond-limits",
    type=click.Choice(["reject", "clamp"]),
    default="reject",
    help="What becomes of goals with positions beyond a joint's limits.",
)
@click.option("--paused", is_flag=True, help="Start with simulated time standing still.")
@click.option("--watch", is_flag=True, help="Go on with what files of the asset become when they change.")
def run(
    backend: str | None, backend_options: tuple[str, ...], real_time_factor: float | None, paused: bool,
    watch: bool, strict: bool, **options: Any,
) -> None:  # fmt: skip
    """Run the bridge on ASSET. Arguments after --ros-args go to ROS 2."""
    with ending_at_once():
        try:
            from usd_ros_bridge.ros.run import run_node
        except ImportError as error:
            raise BridgeError(
                f"ROS 2 is not importable here ({error}); source a ROS 2 installation or use `make setup`"
            ) from error
        from usd_ros_bridge.console.live import live_view

        read, plan_options = split_options(options)
        on_terminal = sys.stdout.isatty()
        run_node(
            asset=options["asset"],
            backend=backend,
            backend_options=parse_key_values(backend_options, what="backend option"),
            real_time_factor=real_time_factor,
            paused=paused,
            read_options=read,
            plan_options=plan_options,
            strict=strict,
            watch=watch,
            # Log lines would tear the live table apart; it shows what they say.
            ros_args=[*(click.get_current_context().obj or []), *(LIVE_ROS_ARGS if on_terminal else [])],
            view=live_view if on_terminal else None,
        )


cli.add_command(diff)
cli.add_command(scaffold)
cli.add_command(resolver)
cli.add_command(urdf)


def _split_ros_args(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Takes `--ros-args ... [--]` sections out of `arguments`, as rcl does."""
    own: list[str] = []
    ros: list[str] = []
    target = own
    for argument in arguments:
        if argument == "--ros-args":
            target = ros
        if argument == "--" and target is ros:
            ros.append(argument)
            target = own
            continue
        target.append(argument)
    return own, ros


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits: 0, 1 (strict), or 2 (the caller's mistake, in one line on stderr)."""
    with ending_at_once(success=False):
        status = _run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(status)


def _run(arguments: Sequence[str]) -> int:
    own, ros = _split_ros_args(arguments)
    try:
        cli.main(args=own or ["--help"], prog_name="usd_ros_bridge", standalone_mode=False, obj=ros)
        status = 0 if own else EXIT_USAGE
    except click.NoSuchOption as error:
        status = _fail(f"{error.format_message()}{_known_options(error.ctx)}", EXIT_USAGE)
    except click.ClickException as error:
        status = _fail(error.format_message(), EXIT_USAGE)
    except StrictError as error:
        status = _fail(str(error), EXIT_STRICT)
    except BridgeError as error:
        status = _fail(str(error), EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        status = 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`); there is nobody left to tell.
        sys.stderr.close()
        status = 0
    return status


def _known_options(context: click.Context | None) -> str:
    """Returns the options that there are, to end a message with."""
    if context is None:
        return ""
    return " Possible: " + ", ".join(
        option
        for parameter in context.command.get_params(context)
        for option in parameter.opts
        if option[0] == "-"
    )


def _fail(message: str, status: int) -> int:
    print("usd_ros_bridge: " + escaped(" ".join(message.split())), file=sys.stderr)
    return status


if __name__ == "__main__":
    main()

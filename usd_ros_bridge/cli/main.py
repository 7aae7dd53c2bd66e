"""Entry point of the command line: exit statuses, and errors as one line on stderr."""

from __future__ import annotations

from usd_ros_bridge.process_settings import EXIT_INTERRUPTED, EXIT_USAGE, ending_at_once, fail, tune_process

with ending_at_once(success=False):  # No traceback for a signal during imports.
    import sys
    from collections.abc import Sequence
    from typing import NoReturn

    import click

    from usd_ros_bridge import __version__
    from usd_ros_bridge.cli.command_group import CommandGroup
    from usd_ros_bridge.errors import BridgeError


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="usd_ros_bridge")
def cli() -> None:
    """OpenUSD robots as live ROS 2 interfaces (REP 0158)."""


def main(
    arguments: Sequence[str] | None = None, *, group: click.Group = cli, program: str = "usd_ros_bridge"
) -> NoReturn:
    """Run the command line and exit: 0, 1 (strict), or 2 (the caller's mistake, in one line on stderr).

    Args:
        arguments: What follows the program's name; None for those of the process.
        group: The commands.
        program: Name of the program in its help.
    """
    tune_process()
    with ending_at_once(success=False):
        status = _run(sys.argv[1:] if arguments is None else arguments, group, program)
    sys.exit(status)


def _run(arguments: Sequence[str], group: click.Group, program: str) -> int:
    own, ros = _split_ros_args(arguments)
    try:
        group.main(args=own or ["--help"], prog_name=program, standalone_mode=False, obj=ros)
        status = 0 if own else EXIT_USAGE
    except click.NoSuchOption as error:
        status = fail(f"{error.format_message()}{_possible_options(error.ctx)}")
    except click.ClickException as error:
        status = fail(error.format_message())
    except BridgeError as error:
        status = fail(error)
    except (click.Abort, KeyboardInterrupt):
        status = EXIT_INTERRUPTED
    return status


def _split_ros_args(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off `--ros-args ... [--]` sections, as rcl does. Return the other arguments, and these."""
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


def _possible_options(context: click.Context | None) -> str:
    """Return the end of a message: the options that a command has."""
    if context is None:
        return ""
    return " Possible: " + ", ".join(
        option
        for parameter in context.command.get_params(context)
        for option in parameter.opts
        if option[0] == "-"
    )

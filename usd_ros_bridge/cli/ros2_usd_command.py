"""`ros2 usd`: the commands of `usd_ros_bridge` as a command of ros2cli, which loads this module by its entry point."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ros2cli.command import CommandExtension

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

    import click

_PROGRAM = "ros2 usd"
_ARGUMENTS = "usd_arguments"


class UsdCommand(CommandExtension):
    """Inspect, run, view and compare OpenUSD robots."""

    def add_arguments(self, parser: argparse.ArgumentParser, _cli_name: str) -> None:
        """Take all arguments as they are: click parses them, as for `usd_ros_bridge`.

        Args:
            parser: The parser of `ros2 usd`.
        """
        # ros2cli calls this in the process of `ros2 usd` only, where argparse would print a help without commands.
        parser.format_help = _help  # type: ignore[method-assign]
        arguments: Any = parser.add_argument(_ARGUMENTS, nargs=argparse.REMAINDER, metavar="COMMAND ...")
        arguments.completer = _complete

    def main(self, *, parser: argparse.ArgumentParser, args: argparse.Namespace) -> NoReturn:
        """Run a command in this process and exit, with the status that `usd_ros_bridge` has."""
        del parser
        from usd_ros_bridge.process_settings import own_process

        with own_process():
            from usd_ros_bridge.cli.main import main

            main(getattr(args, _ARGUMENTS), group=_group(), program=_PROGRAM)


def _group() -> click.Group:
    """Return the commands of `usd_ros_bridge`. Its help leaves out those that ros2cli has itself."""
    from usd_ros_bridge.cli.command_group import ROS2CLI_COMMANDS, CommandGroup
    from usd_ros_bridge.cli.main import cli

    class Ros2Group(CommandGroup):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return [name for name in super().list_commands(ctx) if name not in ROS2CLI_COMMANDS]

    # Without --version: ros2cli's parser takes options that stand before the command.
    return Ros2Group(help=cli.help, context_settings=cli.context_settings)


def _help() -> str:
    """Return the help of the commands."""
    import click

    from usd_ros_bridge.process_settings import missing_requirements_explained

    with missing_requirements_explained():
        group = _group()
        return group.get_help(click.Context(group, info_name=_PROGRAM, **group.context_settings)) + "\n"


def _complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    """Return the commands, options and choices that may follow on the command line, for argcomplete.

    Args:
        prefix: The beginning of the word.
        parsed_args: The words before it.
    """
    try:
        from click.shell_completion import ShellComplete
    except ImportError:
        return []
    words = list(getattr(parsed_args, _ARGUMENTS, None) or [])
    found = ShellComplete(_group(), {}, _PROGRAM, "").get_completions(words, prefix)
    # Without any, the shell completes names of files.
    return [each.value for each in found if each.type == "plain"]

"""Commands of `usd_ros_bridge`: the registry of built-in ones and those of plug-ins, imported when they are used."""

from __future__ import annotations

import errno
from importlib import metadata
from typing import Any, Final

import click

from usd_ros_bridge.errors import BridgeError, OptionError, escaped, quoted
from usd_ros_bridge.plugins import PluginEntry, Registry
from usd_ros_bridge.process_settings import discard_output, flush_output
from usd_ros_bridge.reporting import describe

_CLI = "usd_ros_bridge.cli"
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _command_fault(found: object) -> str:
    return "" if isinstance(found, click.Command) else f"it is a {type(found).__name__}, no click command"


COMMANDS: Final[Registry[click.Command]] = Registry(
    "commands",
    "command",
    {
        "inspect": f"{_CLI}.subcommands:inspect",
        "run": f"{_CLI}.subcommands:run",
        "fleet": f"{_CLI}.fleet_command:fleet",
        "view": f"{_CLI}.view_command:view",
        "sweep": f"{_CLI}.sweep_command:sweep",
        "diff": f"{_CLI}.subcommands:diff",
        "import": f"{_CLI}.import_command:import_robot",
        "scaffold": f"{_CLI}.scaffold_command:scaffold",
        "resolver": f"{_CLI}.subcommands:resolver",
        "report": f"{_CLI}.report_command:report",
        "export": f"{_CLI}.export_command:export",
        "urdf": f"{_CLI}.subcommands:urdf",
        "rviz": f"{_CLI}.rviz_command:rviz",
        "recover": f"{_CLI}.recover_command:recover",
        "examples": f"{_CLI}.environment:examples",
        "backends": f"{_CLI}.environment:backends",
        "plugins": f"{_CLI}.plugins_command:plugins",
        "doctor": f"{_CLI}.environment:doctor",
        "topic": f"{_CLI}.graph.topic_command:topic",
        "service": f"{_CLI}.graph.service_command:service",
        "action": f"{_CLI}.graph.action_command:action",
        "param": f"{_CLI}.graph.param_command:param",
    },
    check=_command_fault,
)
"""Commands by name."""

ROS2CLI_COMMANDS: Final = ("topic", "service", "action", "param")
"""Commands that give way to ros2cli where it is installed."""


class CommandGroup(click.Group):
    """The commands of the registry. Help shows those of plug-ins without importing them."""

    def __init__(self, **settings: Any) -> None:
        """Take the commands from the registry; settings: as for `click.Group`."""
        super().__init__(**settings)
        # A mapping that imports what is asked for.
        self.commands = COMMANDS  # type: ignore[assignment]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported if necessary.

        Raises:
            BridgeError: It cannot be used; the message says why.
        """
        del ctx
        command: click.Command | None = COMMANDS.get(cmd_name)
        if command is None and (fault := COMMANDS.fault(cmd_name)):
            raise BridgeError(fault)
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, sorted. Imports nothing."""
        del ctx
        return sorted(COMMANDS.names())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with a line each; those of plug-ins below a heading of their own."""
        names = self.list_commands(ctx)
        # click counts like this, so that a line ends with the terminal's.
        limit = formatter.width - 6 - max(map(len, names))
        own = [name for name in names if not COMMANDS.is_foreign(name)]
        rows = [(name, COMMANDS[name].get_short_help_str(limit)) for name in own]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        foreign = [each for each in COMMANDS.entries() if not (each.builtin or each.conflict)]
        if foreign:
            with formatter.section("Commands of plug-ins"):
                formatter.write_dl([(escaped(each.name), escaped(_summary(each))) for each in foreign])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. It ends with status 0 where the reader of its output goes away (`| head`).

        What a plug-in's raises is one line.

        Raises:
            BridgeError: The command failed.
        """
        try:
            result = super().invoke(ctx)
            flush_output()
            return result
        except BrokenPipeError:
            # Here: click would end the process with status 1.
            discard_output()
            return None
        except (BridgeError, click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
                discard_output(errors=False)
                raise OptionError(f"the output cannot be written: {error.strerror}") from error
            entry = COMMANDS.entry(ctx.invoked_subcommand or "")
            if entry is None or entry.builtin:
                raise
            what = f"command {quoted(entry.name)} of {entry.origin} {entry.version}".rstrip()
            raise BridgeError(f"{what} failed: {describe(error)}") from error


def _summary(entry: PluginEntry) -> str:
    """Return what the metadata of a command's distribution says, without importing it."""
    try:
        # A message of the email package: `[]` gives None for what is missing.
        text = metadata.metadata(entry.origin)["Summary"] or ""
    except (metadata.PackageNotFoundError, KeyError):
        text = ""
    origin = f"from {entry.origin} {entry.version}".rstrip()
    return f"{' '.join(text.split())} ({origin})" if text else origin

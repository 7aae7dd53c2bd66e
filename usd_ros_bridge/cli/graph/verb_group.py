"""What all verbs share: they give way to ros2cli where it is; their ends, faults, output and waits."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from shutil import which
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.errors import BridgeError, escaped
from usd_ros_bridge.process_settings import Ending, ended_by_signals, fail
from usd_ros_bridge.requirements import is_installed

if TYPE_CHECKING:
    from usd_ros_bridge.cli.graph.peer_client import PeerClient

EXIT_FAILURE = 1
"""Exit status where the graph does not have what was asked for, or does not do it: that of ros2cli."""
QUIET_S = 0.5
"""How long no change of the graph ends discovery."""
NAMED_WAIT_S = 5.0
"""How long something is waited for that has a name. Fast DDS repeats an announcement that was lost after 3 s."""
ALONE_S = 10.0
"""How long it is waited for where no other node is found: on a busy machine the first one takes the longest."""
SETTLE_S = 0.2
"""How long no change of the graph is enough after a topic was found: it may have more publishers."""

_GIVEN = f"{__name__}.given"
_ENDING = f"{__name__}.ending"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class GraphError(BridgeError):
    """The ROS graph does not have what was asked for, or refuses it. The exit status is 1."""


class VerbGroup(click.Group):
    """A group of verbs that belongs to ros2cli where that is installed: `topic`, `service`, `action`, `param`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Make the group. Without a verb it prints its help."""
        super().__init__(*arguments, **{**settings, "invoke_without_command": True})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember the arguments as they were given."""
        ctx.meta[_GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb. It ends with status 0 on SIGINT and SIGTERM.

        Raises:
            BridgeError: ros2cli is installed.
        """
        from usd_ros_bridge.cli.graph.peer_client import ClientEndedError

        name = ctx.info_name or ""
        if _is_ros2s(name):
            words = shlex.join(["ros2", name, *ctx.meta[_GIVEN]])
            raise BridgeError(f"ros2cli is installed: use `{words}`")
        with ended_by_signals() as ending:
            ctx.meta[_ENDING] = ending
            try:
                super().invoke(ctx)
                if ctx.invoked_subcommand is None:
                    click.echo(ctx.get_help())
            except ClientEndedError:
                pass
            except GraphError as error:
                fail(error)
                sys.exit(EXIT_FAILURE)
            except Exception as error:
                if not _is_of_ros(error):
                    raise
                # A second line points at the place of the fault.
                raise BridgeError(" ".join(str(error).split()).removesuffix(" ^")) from None
        return None


def _is_ros2s(group: str) -> bool:
    """Return whether ros2cli is installed and has the verbs of this group."""
    if is_installed("ros2cli"):
        return is_installed(f"ros2{group}")
    return which("ros2") is not None


def _is_of_ros(error: Exception) -> bool:
    """Return whether rclpy refused a name or an argument."""
    if "rclpy" not in sys.modules:
        return False
    from usd_ros_bridge.ros.compat import ROS_ERRORS

    return isinstance(error, ROS_ERRORS)


def show(text: str = "", *, end: str = "\n") -> None:
    """Print text from other nodes: what a terminal would obey is escaped."""
    click.echo(escaped(text, keep="\n\t") + end, nl=False)


def warn(text: str) -> None:
    """Print a line on stderr."""
    click.echo(escaped(text), err=True)


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """Options of all verbs.

    Attributes:
        spin_time: Seconds to wait for discovery; None for the default.
        use_sim_time: Use the time of /clock.
        ros_arguments: Arguments for the verb's own node.
        ending: Ends the verb.
    """

    spin_time: float | None
    use_sim_time: bool
    ros_arguments: tuple[str, ...]
    ending: Ending

    def open(self, name: str | None = None) -> PeerClient:
        """Open the node of a verb.

        Args:
            name: Its name; None for a hidden one.
        """
        from usd_ros_bridge.cli.graph.peer_client import PeerClient

        # From now on a signal ends the waits of the client, not what it happens to do.
        self.ending.stop = lambda: None
        return PeerClient(
            name or f"_usd_ros_bridge_{os.getpid()}",
            ended=lambda: self.ending.asked,
            ros_arguments=self.ros_arguments,
            use_sim_time=self.use_sim_time,
        )

    def discover(self, client: PeerClient) -> None:
        """Wait until the graph does not change any more."""
        quiet = QUIET_S if self.spin_time is None else self.spin_time
        client.wait_until_quiet(quiet, alone=max(NAMED_WAIT_S, quiet))

    def find(self, client: PeerClient, condition: Callable[[], bool], *, settle: float = 0.0) -> bool:
        """Wait until something that has a name is there. Return whether it is.

        Args:
            client: The client.
            condition: Whether it is there.
            settle: Seconds to watch the graph afterwards.
        """
        if self.spin_time is None:
            client.spin_until(lambda: condition() or not client.is_alone(), ALONE_S)
            found = client.spin_until(condition, 0.0 if client.is_alone() else NAMED_WAIT_S)
        else:
            found = client.spin_until(condition, self.spin_time)
        if found and settle:
            client.wait_until_quiet(settle)
        return found


def graph_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of all verbs. The command gets them as `graph`."""

    @click.option(
        "--spin-time",
        metavar="SECONDS",
        type=FiniteRange(min=0.0),
        help="Wait so long for discovery: at most for something that has a name (default: 5 s, or 10 s where no "
        "other node is found), else without a change of the graph (default: 0.5 s; 5 s at least where no other node is "
        "found).",
    )
    @click.option("-s", "--use-sim-time", is_flag=True, help="Use the time of /clock.")
    @click.option("--no-daemon", is_flag=True, help="Does nothing: there is no daemon.")
    @wraps(command)
    def with_graph(
        *arguments: Any,
        spin_time: float | None,
        use_sim_time: bool,
        no_daemon: bool,  # noqa: ARG001 - accepted for commands that are written for ros2cli
        **options: Any,
    ) -> Any:
        context = click.get_current_context()
        graph = GraphOptions(
            spin_time=spin_time,
            use_sim_time=use_sim_time,
            ros_arguments=tuple(context.obj or ()),
            ending=context.meta[_ENDING],
        )
        return command(*arguments, graph=graph, **options)

    return with_graph

"""The page in a browser on the command line: `usd_ros_bridge view`, and the options of `run --view`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.common import asset_options, given_options, split_options, table_options
from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.process_settings import ended_by_signals, ending_at_once

if TYPE_CHECKING:
    from usd_ros_bridge.ros.node import Companion
    from usd_ros_bridge.view.page_process import PageAddress

DEFAULT_BRIDGE = "/usd_ros_bridge"
MAX_PORT = 65535

_ADDRESS = (
    click.option(
        "--view-port",
        type=click.IntRange(min=0, max=MAX_PORT),
        default=None,
        metavar="PORT",
        help="TCP port of the page; 0 for any that is free [default: 8080].",
    ),
    click.option(
        "--view-host",
        default=None,
        metavar="ADDRESS",
        help="Address of the page [default: 127.0.0.1, this machine alone]. Anyone who reaches another one can drive.",
    ),
    click.option("--open", "opens", is_flag=True, help="Open the page in your browser."),
)


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `run` about the page. The command gets `page`: its address, None for no page."""

    @wraps(command)
    def with_page(
        *arguments: Any, view: bool, view_port: int | None, view_host: str | None, opens: bool, **options: Any
    ) -> Any:
        wanted = view or opens or view_port is not None or view_host is not None
        page = _address(view_port, view_host, opens=opens) if wanted else None
        return command(*arguments, page=page, **options)

    flag = click.option(
        "--view", is_flag=True, help="Serve a page in the browser that shows and drives the robots."
    )
    return flag(_with_address(with_page))


def page_companions(page: PageAddress | None) -> Sequence[Companion]:
    """Return the page as what runs beside a bridge, nothing for None.

    Raises:
        BridgeError: The page cannot be served; why.
    """
    if page is None:
        return ()
    from usd_ros_bridge.view.page_process import page_beside

    page.check()
    return (partial(page_beside, page),)


def _with_address(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_ADDRESS):
        command = option(command)
    return command


def _address(port: int | None, host: str | None, *, opens: bool) -> PageAddress:
    from usd_ros_bridge.view.page_process import PageAddress
    from usd_ros_bridge.view.page_server import DEFAULT_HOST, DEFAULT_PORT

    return PageAddress(
        host=DEFAULT_HOST if host is None else host,
        port=DEFAULT_PORT if port is None else port,
        opens_browser=opens,
    )


@click.command()
@asset_options
@table_options("backend_options", "watch")
@_with_address
@click.option(
    "--no-bridge",
    "attaches",
    is_flag=True,
    help="Show a bridge that runs already, in place of starting one.",
)
@click.option(
    "--bridge",
    default=None,
    metavar="NODE",
    help=f"Name of the node that runs already [default: {DEFAULT_BRIDGE}]; implies --no-bridge.",
)
@click.pass_obj
def view(
    ros_args: list[str] | None,
    /,
    *,
    view_port: int | None,
    view_host: str | None,
    opens: bool,
    attaches: bool,
    bridge: str | None,
    **options: Any,
) -> None:
    """Show ASSET in the browser, and move its joints by sliders, without physics.

    The page publishes joint states, and a bridge makes transforms of them: what joint_state_publisher_gui and
    robot_state_publisher do for a URDF. With --no-bridge, the page shows and drives a bridge that runs already, for
    the same asset. Arguments after --ros-args go to ROS 2.
    """
    with ending_at_once():
        page = _address(view_port, view_host, opens=opens)
        if attaches or bridge is not None:
            _attach(page, bridge or DEFAULT_BRIDGE, options, ros_args or [])
            return
        from usd_ros_bridge.planner_process import start_planner
        from usd_ros_bridge.start_phases import EARLY_AFTER_S, LogView, StartPhases

        companions = page_companions(page)
        with start_planner() as planner:
            from usd_ros_bridge.ros.node import run_node

            run_node(
                given={**given_options(options), "backend": "joint_states"},
                ros_args=ros_args or [],
                companions=companions,
                planner=planner,
                phases=StartPhases(LogView(early_after=EARLY_AFTER_S)),
            )


def _attach(page: PageAddress, bridge: str, options: dict[str, Any], ros_args: Sequence[str]) -> None:
    """Serve the page of a bridge that runs already, until a signal."""
    if ros_args:
        raise OptionError("--no-bridge starts no node of a bridge: leave out --ros-args")
    from usd_ros_bridge.view.page_process import show_page
    from usd_ros_bridge.view.plan_follower import PlanSource

    name = _node_name(bridge)
    page.check()
    read, plan_options = split_options(options)
    source = PlanSource(asset=options["asset"], read=read, options=plan_options)
    with ended_by_signals():
        show_page(page, source, bridge=name)


def _node_name(bridge: str) -> str:
    """Return the full name of a node.

    Raises:
        OptionError: No node can have it.
    """
    from rclpy.exceptions import InvalidTopicNameException
    from rclpy.validate_full_topic_name import validate_full_topic_name

    name = "/" + bridge.lstrip("/")
    try:
        validate_full_topic_name(name)
    except InvalidTopicNameException as error:
        raise OptionError(
            f"--bridge {quoted(bridge)}: nodes have names of letters, digits, _ and /"
        ) from error
    return name

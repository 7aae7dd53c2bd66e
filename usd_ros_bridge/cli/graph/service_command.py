"""`usd_ros_bridge service`: list, type, find, info and call, as ros2cli has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.graph.graph_names import absolute, interface_class, unknown, visible
from usd_ros_bridge.cli.graph.qos_options import QosOptions, qos_options
from usd_ros_bridge.cli.graph.verb_group import (
    QUIET_S,
    GraphError,
    GraphOptions,
    VerbGroup,
    graph_options,
    show,
)
from usd_ros_bridge.cli.graph.yaml_values import check_fields, read_values, values_text, write_message

if TYPE_CHECKING:
    from usd_ros_bridge.cli.graph.peer_client import PeerClient

HIDDEN = "include_hidden_services"


@click.group(cls=VerbGroup)
@click.option("--include-hidden-services", "hidden", is_flag=True, help="Consider hidden services, too.")
@click.pass_context
def service(context: click.Context, hidden: bool) -> None:
    """Look at services and call them, as `ros2 service` does.

    For where ROS 2 came from pip. With ros2cli installed, `ros2 service` is the one to use.
    """
    context.meta[HIDDEN] = hidden


def hidden_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --include-hidden-services to a verb, where ros2cli has it a second time."""
    return click.option(
        "--include-hidden-services", "hidden", is_flag=True, help="Consider hidden services, too."
    )(command)


def _asked_hidden(hidden: bool = False) -> bool:
    return hidden or bool(click.get_current_context().meta.get(HIDDEN))


@service.command("list")
@click.option("-t", "--show-types", is_flag=True, help="Show the types, too.")
@click.option("-c", "--count-services", is_flag=True, help="Show only the number of services.")
@hidden_option
@graph_options
def list_services(show_types: bool, count_services: bool, hidden: bool, graph: GraphOptions) -> None:
    """List the services."""
    with graph.open() as client:
        graph.discover(client)
        found = visible(client.node.get_service_names_and_types(), hidden=_asked_hidden(hidden))
        if count_services:
            show(str(len(found)))
            return
        for name, types in found:
            show(f"{name} [{', '.join(types)}]" if show_types else name)


@service.command("type")
@click.argument("name", metavar="SERVICE")
@graph_options
def type_of(name: str, graph: GraphOptions) -> None:
    """Print the type of SERVICE."""
    with graph.open() as client:
        for each in _find_types(client, graph, absolute(name)):
            show(each)


@service.command("info")
@click.argument("name", metavar="SERVICE")
@graph_options
def info(name: str, graph: GraphOptions) -> None:
    """Print the type of SERVICE, and how many clients and servers it has."""
    name = absolute(name)
    with graph.open() as client:
        types = _find_types(client, graph, name, settle=QUIET_S)
        show(f"Type: {types[0] if len(types) == 1 else types}")
        show(f"Clients count: {client.node.count_clients(name)}")
        show(f"Services count: {client.node.count_services(name)}")


@service.command("find")
@click.argument("service_type", metavar="TYPE")
@click.option("-c", "--count-services", is_flag=True, help="Show only the number of services.")
@hidden_option
@graph_options
def find(service_type: str, count_services: bool, hidden: bool, graph: GraphOptions) -> None:
    """List the services of a TYPE, such as std_srvs/srv/Trigger."""
    with graph.open() as client:
        graph.discover(client)
        services = visible(client.node.get_service_names_and_types(), hidden=_asked_hidden(hidden))
        found = [name for name, types in services if service_type in types]
        for line in [str(len(found))] if count_services else found:
            show(line)


def _find_types(client: PeerClient, graph: GraphOptions, name: str, *, settle: float = 0.0) -> list[str]:
    """Wait for a service. Return its types.

    Raises:
        GraphError: Nobody has the service.
    """

    def services() -> dict[str, list[str]]:
        return dict(client.node.get_service_names_and_types())

    if not graph.find(client, lambda: name in services(), settle=settle):
        raise unknown("service", name, services())
    return services()[name]


@service.command("call")
@click.argument("name", metavar="SERVICE")
@click.argument("service_type", metavar="TYPE")
@click.argument("values", metavar="[VALUES]", required=False)
@click.option("--stdin", is_flag=True, help="Read VALUES from standard input.")
@click.option(
    "-r",
    "--rate",
    metavar="HZ",
    type=FiniteRange(min=0.0, min_open=True),
    help="Repeat the call so often.",
)
@qos_options("client", "services_default")
@graph_options
def call(
    name: str,
    service_type: str,
    values: str | None,
    stdin: bool,
    rate: float | None,
    qos: QosOptions,
    graph: GraphOptions,
) -> None:
    """Call SERVICE with VALUES, a request in YAML such as "{data: true}".

    Fields that it leaves out keep their defaults. `now` stands for the time of the call, `auto` for a header with it.
    """
    check_fields()
    text = values_text(values, stdin=stdin)
    with graph.open() as client:
        kind = interface_class("srv", service_type)
        request = write_message(kind.Request, read_values(text))
        caller = client.node.create_client(kind, absolute(name), qos_profile=qos.make())
        if not caller.service_is_ready():
            show("waiting for service to become available...")
            client.spin_until(caller.service_is_ready)
        while True:
            request.stamp(client.node.get_clock().now().to_msg())
            show(f"requester: making request: {request.message!r}\n")
            called = time.monotonic()
            future = caller.call_async(request.message)
            client.spin_until(future.done)
            if future.exception() is not None:
                raise GraphError(f"Exception while calling service: {future.exception()!r}")
            show(f"response:\n{future.result()!r}\n")
            if rate is None:
                return
            client.spin_for(called + 1.0 / rate - time.monotonic())

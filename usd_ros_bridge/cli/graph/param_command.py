"""`usd_ros_bridge param`: list, get, set, describe and dump, as ros2cli has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.graph.graph_names import absolute
from usd_ros_bridge.cli.graph.verb_group import (
    GraphError,
    GraphOptions,
    VerbGroup,
    graph_options,
    show,
    warn,
)
from usd_ros_bridge.errors import did_you_mean

if TYPE_CHECKING:
    from usd_ros_bridge.cli.graph.peer_client import PeerClient

SERVICE_WAIT_S = 5.0
"""How long a node's parameter services are waited for, and their answers."""

_KINDS: dict[str, tuple[str, str]] = {
    "PARAMETER_BOOL": ("boolean", "Boolean value is:"),
    "PARAMETER_INTEGER": ("integer", "Integer value is:"),
    "PARAMETER_DOUBLE": ("double", "Double value is:"),
    "PARAMETER_STRING": ("string", "String value is:"),
    "PARAMETER_BYTE_ARRAY": ("byte array", "Byte values are:"),
    "PARAMETER_BOOL_ARRAY": ("boolean array", "Boolean values are:"),
    "PARAMETER_INTEGER_ARRAY": ("integer array", "Integer values are:"),
    "PARAMETER_DOUBLE_ARRAY": ("double array", "Double values are:"),
    "PARAMETER_STRING_ARRAY": ("string array", "String values are:"),
    "PARAMETER_NOT_SET": ("not set", "Parameter not set."),
}
"""By the constants of rcl_interfaces/ParameterType: a type's name, and what stands before a value."""


@click.group(cls=VerbGroup)
def param() -> None:
    """Look at parameters of nodes and set them, as `ros2 param` does.

    For where ROS 2 came from pip. With ros2cli installed, `ros2 param` is the one to use.
    """


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of verbs about one node."""
    hidden = click.option(
        "--include-hidden-nodes",
        is_flag=True,
        help="Does nothing: a node that is named is found, hidden or not.",
    )
    timeout = click.option(
        "--timeout",
        metavar="SECONDS",
        type=FiniteRange(min=0.0),
        default=None,
        help="Wait so long at most for the node (default: 5 s).",
    )
    return hidden(timeout(command))


@param.command("list")
@click.argument("node_name", metavar="[NODE]", required=False)
@click.option("--filter", "pattern", metavar="REGEX", help="Show only names that begin as this pattern says.")
@click.option("--include-hidden-nodes", is_flag=True, help="Consider hidden nodes, too.")
@click.option(
    "--param-prefixes", "prefixes", metavar="PREFIX", multiple=True, help="Show only names below PREFIX."
)
@click.option("--param-type", is_flag=True, help="Show the types, too.")
@graph_options
def list_parameters(
    node_name: str | None,
    pattern: str | None,
    include_hidden_nodes: bool,
    prefixes: tuple[str, ...],
    param_type: bool,
    graph: GraphOptions,
) -> None:
    """List the parameters of NODE, or of all nodes."""
    chosen = _compiled(pattern)
    with graph.open() as client:
        if node_name is None:
            graph.discover(client)
            own = client.node.get_fully_qualified_name()
            nodes = [
                name
                for name in sorted(_node_names(client))
                if name != own and (include_hidden_nodes or not name.rpartition("/")[2].startswith("_"))
            ]
        else:
            nodes = [_find_node(client, graph, node_name, None)]
        for node in nodes:
            try:
                peer = _Parameters(client, node)
                names = sorted(filter(chosen.match, peer.names(prefixes)))
                kinds = peer.kinds(names) if param_type and names else {}
            except GraphError as error:
                if node_name is not None:
                    raise
                warn(str(error))
                continue
            if node_name is None and names:
                show(f"{node}:")
            for name in names:
                show(f"  {name} (type: {kinds[name]})" if param_type else f"  {name}")


def _compiled(pattern: str | None) -> re.Pattern[str]:
    try:
        return re.compile(pattern or "")
    except re.error as error:
        raise GraphError(f"--filter: {pattern!r} is no regular expression: {error}") from None


@param.command("get")
@click.argument("node_name", metavar="NODE")
@click.argument("name", metavar="PARAMETER")
@click.option("--hide-type", is_flag=True, help="Show the value alone.")
@node_options
@graph_options
def get(
    node_name: str,
    name: str,
    hide_type: bool,
    timeout: float | None,
    include_hidden_nodes: bool,  # noqa: ARG001 - accepted, as of ros2cli
    graph: GraphOptions,
) -> None:
    """Print the value of a PARAMETER of NODE."""
    with graph.open() as client:
        peer = _Parameters(client, _find_node(client, graph, node_name, timeout))
        values = peer.values([name])
        if not values:
            raise _not_set(name, peer)
        _, label = _KINDS[_kind(values[0].type)]
        value = _python(values[0])
        if value is None:
            show(str(value) if hide_type else label)
        else:
            show(str(value) if hide_type else f"{label} {value}")


@param.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("node_name", metavar="NODE")
@click.argument("name", metavar="PARAMETER")
@click.argument("value", metavar="VALUE")
@node_options
@graph_options
def set_parameter(
    node_name: str,
    name: str,
    value: str,
    timeout: float | None,
    include_hidden_nodes: bool,  # noqa: ARG001 - accepted, as of ros2cli
    graph: GraphOptions,
) -> None:
    """Set a PARAMETER of NODE to VALUE, in YAML: 5.0, true, text, or "['/arm:gripper=suction']"."""
    with graph.open() as client:
        from rcl_interfaces.msg import Parameter
        from rclpy.parameter import get_parameter_value

        node = _find_node(client, graph, node_name, timeout)
        try:
            parameter = Parameter(name=name, value=get_parameter_value(string_value=value))
        except (ValueError, TypeError, OverflowError) as error:
            raise GraphError(
                f"{value!r} is no value of a parameter: {' '.join(str(error).split())}"
            ) from None
        peer = _Parameters(client, node)
        (result,) = peer.set([parameter])
        reason = f": {result.reason}" if result.reason else ""
        if not result.successful:
            question = did_you_mean(name, set(peer.names()) - {name})
            known = name in peer.names()
            raise GraphError(
                f"Setting parameter failed{reason}{'' if known or not question else '; ' + question}"
            )
        show(f"Set parameter successful{reason}")


@param.command("describe")
@click.argument("node_name", metavar="NODE")
@click.argument("names", metavar="PARAMETER...", nargs=-1, required=True)
@node_options
@graph_options
def describe(
    node_name: str,
    names: tuple[str, ...],
    timeout: float | None,
    include_hidden_nodes: bool,  # noqa: ARG001 - accepted, as of ros2cli
    graph: GraphOptions,
) -> None:
    """Print type, description and limits of PARAMETERs of NODE."""
    with graph.open() as client:
        peer = _Parameters(client, _find_node(client, graph, node_name, timeout))
        for descriptor in peer.descriptors(names):
            _show_descriptor(descriptor)


def _show_descriptor(descriptor: Any) -> None:
    show(f"Parameter name: {descriptor.name}")
    show(f"  Type: {_KINDS[_kind(descriptor.type)][0]}")
    if descriptor.description:
        show(f"  Description: {descriptor.description}")
    show("  Constraints:")
    if descriptor.read_only:
        show("    Read only: true")
    for limits in [*descriptor.floating_point_range, *descriptor.integer_range][:1]:
        show(f"    Min value: {limits.from_value}\n    Max value: {limits.to_value}")
        if limits.step:
            show(f"    Step: {limits.step}")
    if descriptor.additional_constraints:
        show(f"    Additional constraints: {descriptor.additional_constraints}")


@param.command("dump")
@click.argument("node_name", metavar="NODE")
@node_options
@graph_options
def dump(
    node_name: str,
    timeout: float | None,
    include_hidden_nodes: bool,  # noqa: ARG001 - accepted, as of ros2cli
    graph: GraphOptions,
) -> None:
    """Print all parameters of NODE as a parameter file in YAML."""
    with graph.open() as client:
        import yaml

        node = _find_node(client, graph, node_name, timeout)
        peer = _Parameters(client, node)
        names = sorted(peer.names())
        tree: dict[str, Any] = {}
        for name, value in zip(names, peer.values(names), strict=True):
            *groups, last = name.split(".")
            branch = tree
            for group in groups:
                branch = branch.setdefault(group, {})
            branch[last] = _python(value)
        show(yaml.dump({node: {"ros__parameters": tree}}, default_flow_style=False))


# --- A node's parameters ------------------------------------------------------------------------------------------


def _node_names(client: PeerClient) -> set[str]:
    found = client.node.get_node_names_and_namespaces()
    return {f"{namespace.rstrip('/')}/{name}" for name, namespace in found}


def _find_node(client: PeerClient, graph: GraphOptions, name: str, timeout: float | None) -> str:
    """Wait for a node. Return its full name.

    Raises:
        GraphError: There is none of this name.
    """
    full = absolute(name)

    def is_there() -> bool:
        return full in _node_names(client)

    found = graph.find(client, is_there) if timeout is None else client.spin_until(is_there, timeout)
    if not found:
        others = _node_names(client) - {client.node.get_fully_qualified_name()}
        question = did_you_mean(full, others)
        raise GraphError(f"Node not found: '{full}'{'; ' if question else ''}{question}")
    return full


class _Parameters:
    """The parameters of another node, over its services."""

    def __init__(self, client: PeerClient, node: str) -> None:
        """Wait for the services.

        Args:
            client: The client.
            node: Full name of the node.

        Raises:
            GraphError: They did not appear.
        """
        from rclpy.parameter_client import AsyncParameterClient

        self._client = client
        self._node = node
        self._services = AsyncParameterClient(client.node, node)
        if not client.spin_until(self._services.services_are_ready, SERVICE_WAIT_S):
            raise GraphError(f"Wait for service timed out waiting for parameter services for node {node}")

    def names(self, prefixes: Iterable[str] = ()) -> list[str]:
        """Return the names of all parameters, or of those below some prefixes."""
        return list(self._answer(self._services.list_parameters(prefixes=list(prefixes))).result.names)

    def values(self, names: Iterable[str]) -> list[Any]:
        """Return the values: rcl_interfaces/ParameterValue. The node may give none for a name that it has not."""
        return list(self._answer(self._services.get_parameters(list(names))).values)

    def descriptors(self, names: Iterable[str]) -> list[Any]:
        """Return the descriptors: rcl_interfaces/ParameterDescriptor."""
        return list(self._answer(self._services.describe_parameters(list(names))).descriptors)

    def kinds(self, names: Iterable[str]) -> dict[str, str]:
        """Return the names of the types, by name of the parameter."""
        return {each.name: _KINDS[_kind(each.type)][0] for each in self.descriptors(names)}

    def set(self, parameters: list[Any]) -> list[Any]:
        """Set parameters. Return the results: rcl_interfaces/SetParametersResult."""
        return list(self._answer(self._services.set_parameters(parameters)).results)

    def _answer(self, future: Any) -> Any:
        if not self._client.spin_until(future.done, SERVICE_WAIT_S):
            raise GraphError(f"The node {self._node} does not answer: no answer after {SERVICE_WAIT_S:g} s")
        if future.exception() is not None:
            raise GraphError(f"Exception while calling service of node {self._node}: {future.exception()}")
        return future.result()


def _not_set(name: str, peer: _Parameters) -> GraphError:
    question = did_you_mean(name, peer.names())
    return GraphError(f"Parameter not set: '{name}'{'; ' if question else ''}{question}")


def _kind(number: int) -> str:
    """Return the constant of rcl_interfaces/ParameterType that has a number."""
    from rcl_interfaces.msg import ParameterType

    return next((name for name in _KINDS if getattr(ParameterType, name) == number), "PARAMETER_NOT_SET")


def _python(value: Any) -> Any:
    """Return the value of a ParameterValue. Lists are lists, whatever the message has."""
    from rclpy.parameter import parameter_value_to_python

    found = parameter_value_to_python(value)
    return found if found is None or isinstance(found, (bool, int, float, str)) else list(found)

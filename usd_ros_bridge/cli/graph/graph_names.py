"""Names and types in the ROS graph: what there is, what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from usd_ros_bridge.cli.graph.verb_group import GraphError, GraphOptions
from usd_ros_bridge.errors import did_you_mean, nearest

if TYPE_CHECKING:
    from usd_ros_bridge.cli.graph.peer_client import PeerClient


def absolute(name: str) -> str:
    """Return the full name of a topic, service, action or node: names without a namespace belong to the root."""
    return name if name.startswith("/") else f"/{name}"


def is_hidden(name: str) -> bool:
    """Return whether a part of a name begins with `_`."""
    return any(part.startswith("_") for part in name.split("/"))


def visible(names: Iterable[tuple[str, list[str]]], *, hidden: bool) -> list[tuple[str, list[str]]]:
    """Return names and types without hidden names, unless those are asked for."""
    return [(name, types) for name, types in names if hidden or not is_hidden(name)]


def unknown(kind: str, name: str, names: Iterable[str]) -> GraphError:
    """Return the error for a name that nobody has: `Unknown topic '/scam'; did you mean /scan?`."""
    question = did_you_mean(name, names)
    return GraphError(f"Unknown {kind} '{name}'{'; ' if question else ''}{question}")


def interface_class(kind: str, name: str) -> Any:
    """Return the class of an interface.

    Args:
        kind: `msg`, `srv` or `action`.
        name: Its type. The middle part may be left out: `std_msgs/String`.

    Raises:
        GraphError: It is not installed.
    """
    from usd_ros_bridge.ros.interface_types import AmentCatalog, InterfaceTypeError, import_interface

    noun = {"msg": "message", "srv": "service", "action": "action"}[kind]
    package, _, rest = name.partition("/")
    full = name if "/" in rest else f"{package}/{kind}/{rest}"
    catalog = AmentCatalog()
    if f"/{kind}/" in full and catalog.contains(full):
        try:
            return import_interface(full, catalog)
        except InterfaceTypeError as error:
            raise GraphError(str(error)) from None
    packages = [package] if catalog.types_of(package) else nearest(package, catalog.packages())
    candidates = [f"{each}/{rest}" for each in packages for rest in catalog.types_of(each) if kind in rest]
    question = did_you_mean(full, candidates)
    raise GraphError(
        f"The passed {noun} type is invalid: '{name}' is not installed{'; ' if question else ''}{question}"
    )


def find_types(client: PeerClient, graph: GraphOptions, name: str, *, settle: float = 0.0) -> list[str]:
    """Wait for a topic. Return its types.

    Raises:
        GraphError: Nobody has the topic.
    """
    if not find_topic(client, graph, name, settle=settle):
        raise unknown("topic", name, topic_types(client))
    return topic_types(client)[name]


def find_topic(client: PeerClient, graph: GraphOptions, name: str, *, settle: float = 0.0) -> bool:
    """Wait for a topic, and then some seconds for more of its publishers. Return whether it is there."""
    while graph.find(client, lambda: name in topic_types(client), settle=settle):
        # It may have been another client's, which has ended.
        if name in topic_types(client):
            return True
    return False


def topic_types(client: PeerClient) -> dict[str, list[str]]:
    """Return the types of all topics by name, hidden ones included."""
    return dict(client.node.get_topic_names_and_types())


def topic_class(client: PeerClient, name: str) -> Any | None:
    """Return the message class of a topic, None while nobody has the topic.

    Raises:
        GraphError: It has several types, or one that is not installed.
    """
    types = topic_types(client).get(name)
    if types is None:
        return None
    if len(types) > 1:
        raise GraphError(
            f"Cannot echo topic '{name}', as it contains more than one type: [{', '.join(types)}]"
        )
    return interface_class("msg", types[0])

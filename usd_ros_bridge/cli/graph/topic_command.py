"""`usd_ros_bridge topic`: list, info, type, find, echo, pub, hz and bw, as ros2cli has them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.graph.echo_command import echo
from usd_ros_bridge.cli.graph.graph_names import (
    absolute,
    find_topic,
    find_types,
    topic_class,
    topic_types,
    visible,
)
from usd_ros_bridge.cli.graph.pub_command import pub
from usd_ros_bridge.cli.graph.qos_options import QosOptions, qos_options
from usd_ros_bridge.cli.graph.verb_group import (
    QUIET_S,
    SETTLE_S,
    GraphError,
    GraphOptions,
    VerbGroup,
    graph_options,
    show,
)

if TYPE_CHECKING:
    from usd_ros_bridge.cli.graph.peer_client import PeerClient
    from usd_ros_bridge.cli.graph.topic_statistics import MessageArrivals

HIDDEN = "include_hidden_topics"


@click.group(cls=VerbGroup)
@click.option("--include-hidden-topics", "hidden", is_flag=True, help="Consider hidden topics, too.")
@click.pass_context
def topic(context: click.Context, hidden: bool) -> None:
    """Look at topics and use them, as `ros2 topic` does.

    For where ROS 2 came from pip. With ros2cli installed, `ros2 topic` is the one to use.
    """
    context.meta[HIDDEN] = hidden


topic.add_command(echo)
topic.add_command(pub)


def hidden_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --include-hidden-topics to a verb, where ros2cli has it a second time."""
    return click.option(
        "--include-hidden-topics", "hidden", is_flag=True, help="Consider hidden topics, too."
    )(command)


def _asked_hidden(hidden: bool = False) -> bool:
    return hidden or bool(click.get_current_context().meta.get(HIDDEN))


@topic.command("list")
@click.option("-t", "--show-types", is_flag=True, help="Show the types, too.")
@click.option("-c", "--count-topics", is_flag=True, help="Show only the number of topics.")
@click.option("-v", "--verbose", is_flag=True, help="Show types and numbers of publishers and subscribers.")
@hidden_option
@graph_options
def list_topics(
    show_types: bool, count_topics: bool, verbose: bool, hidden: bool, graph: GraphOptions
) -> None:
    """List the topics."""
    with graph.open() as client:
        graph.discover(client)
        found = visible(client.node.get_topic_names_and_types(), hidden=_asked_hidden(hidden))
        if count_topics:
            show(str(len(found)))
        elif verbose:
            _show_ends("Published", "publisher", found, client.node.count_publishers)
            _show_ends("Subscribed", "subscriber", found, client.node.count_subscribers)
        else:
            for name, types in found:
                show(f"{name} [{', '.join(types)}]" if show_types else name)


def _show_ends(
    heading: str, noun: str, topics: list[tuple[str, list[str]]], count: Callable[[str], int]
) -> None:
    show(f"{heading} topics:")
    for name, types in topics:
        if number := count(name):
            show(f" * {name} [{', '.join(types)}] {number} {noun}{'s' if number > 1 else ''}")
    show()


@topic.command("info")
@click.argument("name", metavar="TOPIC")
@click.option("-v", "--verbose", is_flag=True, help="Show node, type hash, GUID and QoS of each endpoint.")
@graph_options
def info(name: str, verbose: bool, graph: GraphOptions) -> None:
    """Print the type of TOPIC, and how many publishers and subscriptions it has."""
    name, end = absolute(name), "\n\n" if verbose else "\n"
    with graph.open() as client:
        types = find_types(client, graph, name, settle=QUIET_S)
        node = client.node
        show(f"Type: {types[0] if len(types) == 1 else types}", end=end)
        for noun, count, infos in (
            ("Publisher", node.count_publishers, node.get_publishers_info_by_topic),
            ("Subscription", node.count_subscribers, node.get_subscriptions_info_by_topic),
        ):
            show(f"{noun} count: {count(name)}", end=end)
            for each in infos(name) if verbose else ():
                show(str(each), end=end)


@topic.command("type")
@click.argument("name", metavar="TOPIC")
@graph_options
def type_of(name: str, graph: GraphOptions) -> None:
    """Print the type of TOPIC."""
    with graph.open() as client:
        for each in find_types(client, graph, absolute(name)):
            show(each)


@topic.command("find")
@click.argument("topic_type", metavar="TYPE")
@click.option("-c", "--count-topics", is_flag=True, help="Show only the number of topics.")
@hidden_option
@graph_options
def find(topic_type: str, count_topics: bool, hidden: bool, graph: GraphOptions) -> None:
    """List the topics of a TYPE, such as std_msgs/msg/String."""
    with graph.open() as client:
        graph.discover(client)
        topics = visible(client.node.get_topic_names_and_types(), hidden=_asked_hidden(hidden))
        found = [name for name, types in topics if topic_type in types]
        show(str(len(found)) if count_topics else "\n".join(found), end="\n" if count_topics or found else "")


# --- hz and bw ----------------------------------------------------------------------------------------------------


def _count_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "-w",
        "--window",
        metavar="N",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Number of messages to average over.",
    )


@topic.command("hz")
@click.argument("names", metavar="TOPIC...", nargs=-1)
@click.option("-a", "--all", "all_topics", is_flag=True, help="All topics that there are.")
@_count_option(10_000)
@click.option("--wall-time", is_flag=True, help="Use wall time, also with --use-sim-time.")
@qos_options("subscription", "sensor_data")
@graph_options
def hz(
    names: tuple[str, ...],
    all_topics: bool,
    window: int,
    wall_time: bool,
    qos: QosOptions,
    graph: GraphOptions,
) -> None:
    """Print every second how often messages of each TOPIC arrive."""
    from usd_ros_bridge.cli.graph.topic_statistics import MessageArrivals, rate_text

    if all_topics == bool(names):
        raise GraphError(
            "Cannot specify both --all/-a and topic names"
            if names
            else "Either specify topic names or use --all/-a option"
        )
    with graph.open() as client:
        topics = [absolute(name) for name in names]
        if all_topics:
            graph.discover(client)
            found = visible(client.node.get_topic_names_and_types(), hidden=_asked_hidden())
            topics = [name for name, _ in found]
            show(f"Subscribing to all {len(topics)} available topics..." if topics else "No topics available")
        clock = _clock(client, wall_time)
        arrivals = {name: MessageArrivals(window) for name in topics}
        for name, each in arrivals.items():
            _subscribe_raw(client, graph, qos, name, partial(_note, each, clock))
            if len(topics) > 1:
                show(f"Subscribed to [{name}]")
        while topics:
            client.spin_for(1.0)
            if text := rate_text(arrivals):
                show(("\x1b[H\x1b[2J" if all_topics and sys.stdout.isatty() else "") + text)


def _note(arrivals: MessageArrivals, clock: Callable[[], int], _: bytes) -> None:
    arrivals.add(clock())


@topic.command("bw")
@click.argument("name", metavar="TOPIC")
@_count_option(100)
@qos_options("subscription", "sensor_data")
@graph_options
def bw(name: str, window: int, qos: QosOptions, graph: GraphOptions) -> None:
    """Print every second how many bytes a second of TOPIC arrive."""
    from usd_ros_bridge.cli.graph.topic_statistics import Sizes

    name = absolute(name)
    with graph.open() as client:
        clock = _clock(client, wall_time=False)
        sizes = Sizes(window)
        _subscribe_raw(client, graph, qos, name, lambda data: sizes.add(clock(), len(data)))
        show(f"Subscribed to [{name}]")
        while True:
            client.spin_for(1.0)
            if text := sizes.text(clock()):
                show(text)


def _clock(client: PeerClient, wall_time: bool) -> Callable[[], int]:
    """Return a function that returns the time, in nanoseconds."""
    from rclpy.clock import Clock

    clock = Clock() if wall_time else client.node.get_clock()
    return lambda: int(clock.now().nanoseconds)


def _subscribe_raw(
    client: PeerClient,
    graph: GraphOptions,
    qos: QosOptions,
    name: str,
    callback: Callable[[bytes], None],
) -> None:
    """Wait for a topic and subscribe to its serialized messages."""
    if not find_topic(client, graph, name, settle=SETTLE_S):
        show(f"WARNING: topic [{name}] does not appear to be published yet")
        client.spin_until(lambda: name in topic_types(client))
        client.wait_until_quiet(SETTLE_S)
    while (message_class := topic_class(client, name)) is None:
        client.spin_until(lambda: name in topic_types(client))
    client.node.create_subscription(message_class, name, callback, qos.match(client, name), raw=True)

"""`usd_ros_bridge topic pub`: publish messages that are written in YAML."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.graph.graph_names import absolute, interface_class
from usd_ros_bridge.cli.graph.qos_options import QosOptions, qos_options
from usd_ros_bridge.cli.graph.verb_group import GraphError, GraphOptions, graph_options, show
from usd_ros_bridge.cli.graph.yaml_values import check_fields, read_values, values_text, write_message

if TYPE_CHECKING:
    from usd_ros_bridge.cli.graph.peer_client import PeerClient

_POSITIVE = FiniteRange(min=0.0, min_open=True)
_TOLD_EVERY_S = 1.0


@click.command()
@click.argument("name", metavar="TOPIC")
@click.argument("message_type", metavar="TYPE")
@click.argument("values", metavar="[VALUES]", required=False)
@click.option("--stdin", is_flag=True, help="Read VALUES from standard input.")
@click.option("--yaml-file", metavar="FILE", help="Publish the messages in FILE, such as the output of echo.")
@click.option(
    "-r", "--rate", metavar="HZ", type=_POSITIVE, default=1.0, show_default=True, help="Messages a second."
)
@click.option(
    "-p",
    "--print",
    "print_nth",
    metavar="N",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Print every N-th message only, 0: none.",
)
@click.option("-1", "--once", "once", is_flag=True, help="Publish one message.")
@click.option("-t", "--times", metavar="N", type=click.IntRange(min=0), help="Publish N messages.")
@click.option(
    "-w",
    "--wait-matching-subscriptions",
    "wait",
    metavar="N",
    type=click.IntRange(min=0),
    help="Wait for N subscriptions (default: 1 with --once and --times, else 0).",
)
@click.option(
    "--max-wait-time-secs", "max_wait", metavar="SECONDS", type=_POSITIVE, help="Wait so long at most."
)
@click.option(
    "--keep-alive",
    metavar="SECONDS",
    type=_POSITIVE,
    default=0.1,
    show_default=True,
    help="Stay so long after the last message.",
)
@click.option("-n", "--node-name", metavar="NAME", help="Name of the node (default: a hidden one).")
@qos_options("publisher", "default")
@graph_options
def pub(
    name: str,
    message_type: str,
    values: str | None,
    stdin: bool,
    yaml_file: str | None,
    rate: float,
    print_nth: int,
    once: bool,
    times: int | None,
    wait: int | None,
    max_wait: float | None,
    keep_alive: float,
    node_name: str | None,
    qos: QosOptions,
    graph: GraphOptions,
) -> None:
    """Publish VALUES, a message in YAML such as "{data: hello}", again and again.

    Fields that it leaves out keep their defaults. `now` stands for the time of sending, `auto` for a header with it.
    """
    if yaml_file is not None and (stdin or values is not None):
        raise click.UsageError("--yaml-file and other values exclude each other")
    if once and times is not None:
        raise click.UsageError("--once and --times exclude each other")
    check_fields()
    limit = 1 if once else times or None
    wanted = wait if wait is not None else int(limit is not None)
    if max_wait is not None and not wanted:
        raise GraphError(
            "--max-wait-time-secs option is only effective with --wait-matching-subscriptions, --once or --times"
        )
    text = values_text(values, stdin=stdin)
    written = None if yaml_file is None else _documents(Path(yaml_file))
    with graph.open(node_name) as client:
        message_class = interface_class("msg", message_type)
        messages = _messages(message_class, read_values(text) if written is None else written)
        first = next(messages, None)
        publisher = client.node.create_publisher(message_class, absolute(name), qos.make())
        _wait_for_subscriptions(client, publisher, wanted, max_wait)
        show("publisher: beginning loop")
        _publish(client, publisher, first, messages, period=1.0 / rate, limit=limit, print_nth=print_nth)
        client.spin_for(keep_alive)


def _documents(file: Path) -> list[Mapping[Any, Any]]:
    """Return the YAML documents of a file.

    Raises:
        GraphError: It cannot be read, or holds something else than messages.
    """
    import yaml

    try:
        found = [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each is not None]
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise GraphError(f"cannot read {file}: {' '.join(str(error).split())}") from None
    if not all(isinstance(each, Mapping) for each in found):
        raise GraphError(
            f"{file}: The contents in YAML file need to be a YAML format: a dictionary for each message"
        )
    return found


def _messages(message_class: Any, values: Mapping[Any, Any] | list[Mapping[Any, Any]]) -> Iterator[Any]:
    """Yield the messages to send: one for each document of a file, or the same one for ever."""
    if isinstance(values, list):
        yield from [write_message(message_class, each) for each in values]
    else:
        yield from itertools.repeat(write_message(message_class, values))


def _wait_for_subscriptions(client: PeerClient, publisher: Any, wanted: int, longest: float | None) -> None:
    """Wait for subscriptions that match. Say so every second."""
    deadline = None if longest is None else time.monotonic() + longest

    def matched() -> bool:
        return int(publisher.get_subscription_count()) >= wanted

    while not matched():
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0.0:
            raise GraphError(
                f"Timed out waiting for subscribers: Expected {wanted} subscribers but only got "
                f"{publisher.get_subscription_count()} subscribers"
            )
        show(f"Waiting for at least {wanted} matching subscription(s)...")
        client.spin_until(matched, _TOLD_EVERY_S if left is None else min(left, _TOLD_EVERY_S))


def _publish(
    client: PeerClient,
    publisher: Any,
    first: Any,
    others: Iterator[Any],
    *,
    period: float,
    limit: int | None,
    print_nth: int,
) -> None:
    """Publish messages at a rate, until there are no more or `limit` were sent."""
    count, due, message = 0, time.monotonic(), first
    while message is not None:
        message.stamp(client.node.get_clock().now().to_msg())
        count += 1
        if print_nth and count % print_nth == 0:
            show(f"publishing #{count}: {message.message!r}\n")
        publisher.publish(message.message)
        if limit is not None and count >= limit:
            return
        # Late, as after a halt: go on from now, without a burst.
        due = max(due + period, time.monotonic() - period)
        client.spin_for(due - time.monotonic())
        message = next(others, None)

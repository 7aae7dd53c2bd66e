"""`usd_ros_bridge topic echo`: the messages of a topic as YAML or comma-separated values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.graph.graph_names import (
    absolute,
    find_topic,
    interface_class,
    topic_class,
    topic_types,
)
from usd_ros_bridge.cli.graph.qos_options import QosOptions, qos_options
from usd_ros_bridge.cli.graph.verb_group import SETTLE_S, GraphError, GraphOptions, graph_options, show
from usd_ros_bridge.errors import alternatives, did_you_mean

TRUNCATE_LENGTH = 128
_INDEX = re.compile(r"\[(\d+)\]")
_CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True, kw_only=True)
class EchoForm:
    """How messages are printed.

    Attributes:
        fields: Paths of the fields to print; none for the whole message.
        csv: Print comma-separated values.
        flow_style: Print YAML in one line.
        truncate_length: The most elements and characters; None for all.
        no_arr: Print no elements of arrays.
        no_str: Print no strings.
        with_info: Print the times and sequence numbers of the middleware, too.
        clear: Clear the terminal before each message.
    """

    fields: Sequence[Sequence[str]]
    csv: bool
    flow_style: bool
    truncate_length: int | None
    no_arr: bool
    no_str: bool
    with_info: bool
    clear: bool

    def show(self, message: Any, info: Mapping[str, Any]) -> None:
        """Print a message.

        Args:
            message: The message, or the bytes of it.
            info: What rclpy says of its reception.

        Raises:
            GraphError: It has no such field.
        """
        parts = [_part(message, path) for path in self.fields] or [message]
        if self.clear:
            click.echo(_CLEAR, nl=False)
        for part in parts:
            self._show_part(part, info, end="---\n" if part is parts[-1] else "")

    def _show_part(self, part: Any, info: Mapping[str, Any], *, end: str) -> None:
        from usd_ros_bridge.ros.interface_types import is_message
        from usd_ros_bridge.ros.message_text import TextLimits, message_to_csv, message_to_yaml

        limits = TextLimits(truncate_length=self.truncate_length, no_arr=self.no_arr, no_str=self.no_str)
        if not is_message(part):
            if self.with_info:
                show(f"---Got new message, message info:---\n{dict(info)}\n---Message data:---")
            show(str(part), end="\n" + end)
        elif self.csv:
            numbers = "".join(f"{value}," for value in info.values()) if self.with_info else ""
            show(numbers + message_to_csv(part, limits))
        else:
            if self.with_info:
                import yaml

                show(yaml.dump(dict(info)), end=end)
            show(message_to_yaml(part, limits, flow_style=self.flow_style), end=end)


def _part(message: Any, path: Sequence[str]) -> Any:
    part = message
    for name in path:
        index = _INDEX.fullmatch(name)
        try:
            part = part[int(index[1])] if index else getattr(part, name)
        except (AttributeError, IndexError, TypeError) as error:
            fields: dict[str, str] = getattr(part, "get_fields_and_field_types", dict)()
            remedy = f"; {alternatives(name, fields, count=20)}" if fields else ""
            raise GraphError(f"Invalid field '{'.'.join(path)}': {error}{remedy}") from None
    return part


@click.command()
@click.argument("name", metavar="TOPIC")
@click.argument("message_type", metavar="[TYPE]", required=False)
@qos_options("subscription", "sensor_data")
@click.option("--csv", is_flag=True, help="Print all values of a message in a line, separated by commas.")
@click.option(
    "--field",
    "fields",
    metavar="FIELD",
    multiple=True,
    help="Print only this field, such as pose.pose.position or ranges.[0]. Repeat it for several.",
)
@click.option("-f", "--full-length", is_flag=True, help="Print all of long arrays and strings.")
@click.option(
    "-l",
    "--truncate-length",
    metavar="N",
    type=click.IntRange(min=0),
    default=TRUNCATE_LENGTH,
    show_default=True,
    help="Print at most N elements of an array and characters of a string.",
)
@click.option("--no-arr", is_flag=True, help="Print type and length of arrays in place of their elements.")
@click.option("--no-str", is_flag=True, help="Print the length of strings in place of the strings.")
@click.option("--flow-style", is_flag=True, help="Print what is in an array in one line.")
@click.option("--no-lost-messages", is_flag=True, help="Do not report lost messages.")
@click.option("--raw", is_flag=True, help="Print the bytes of the messages.")
@click.option("--once", is_flag=True, help="End after the first message.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=FiniteRange(min=0.0, min_open=True),
    help="End after a time.",
)
@click.option("-i", "--include-message-info", "with_info", is_flag=True, help="Print times and numbers, too.")
@click.option("-c", "--clear", is_flag=True, help="Clear the terminal before each message.")
@click.option("-n", "--node-name", metavar="NAME", help="Name of the node (default: a hidden one).")
@graph_options
def echo(
    name: str,
    message_type: str | None,
    qos: QosOptions,
    fields: tuple[str, ...],
    full_length: bool,
    truncate_length: int,
    no_lost_messages: bool,
    raw: bool,
    once: bool,
    timeout: float | None,
    node_name: str | None,
    graph: GraphOptions,
    **form: bool,
) -> None:
    """Print the messages of TOPIC.

    The QoS is that of its publishers, unless an option says otherwise.
    """
    shown = EchoForm(
        fields=[_path(field) for field in fields],
        truncate_length=None if full_length else truncate_length,
        **form,
    )
    name = absolute(name)
    with graph.open(node_name) as client:
        message_class = None if message_type is None else interface_class("msg", message_type)
        found = find_topic(client, graph, name, settle=SETTLE_S)
        if message_class is None:
            message_class = topic_class(client, name) if found else None
            if message_class is None:
                show(f"WARNING: topic [{name}] does not appear to be published yet")
                question = did_you_mean(name, topic_types(client)) or "give its type, too"
                raise GraphError(f"Could not determine the type for the passed topic '{name}'; {question}")
        received = 0

        def take(message: Any, info: Any) -> None:
            nonlocal received
            if once and received:
                return
            received += 1
            shown.show(message, info)

        client.node.create_subscription(
            message_class,
            name,
            take,
            qos.match(client, name),
            raw=raw,
            event_callbacks=_events(report_lost=not no_lost_messages),
        )
        client.spin_until(lambda: bool(once and received), timeout)


def _path(field: str) -> list[str]:
    path = [each for each in field.split(".") if each]
    if not path:
        raise GraphError(f"Invalid field value '{field}'")
    return path


def _events(*, report_lost: bool) -> Any:
    from rclpy.event_handler import SubscriptionEventCallbacks

    return SubscriptionEventCallbacks(message_lost=_show_lost if report_lost else None)


def _show_lost(status: Any) -> None:
    show(
        f"A message was lost!!!\n\ttotal count change:{status.total_count_change}"
        f"\n\ttotal count: {status.total_count}",
        end="---\n",
    )

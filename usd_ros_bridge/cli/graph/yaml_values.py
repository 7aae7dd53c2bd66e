"""Values that the user writes in YAML: fields of messages, requests and goals."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.graph.verb_group import GraphError
from usd_ros_bridge.errors import BridgeError

if TYPE_CHECKING:
    from usd_ros_bridge.ros.message_values import WrittenMessage


def check_fields() -> None:
    """Make messages check the values of their fields. To call before rclpy is imported."""
    os.environ.update(ROS_PYTHON_CHECK_FIELDS="1")


def values_text(argument: str | None, *, stdin: bool) -> str:
    """Return the values that were given, `{}` where none were.

    Args:
        argument: Those on the command line.
        stdin: Whether they are on standard input.
    """
    if argument is not None and stdin:
        raise click.UsageError("values and --stdin exclude each other")
    return sys.stdin.read() if stdin else argument or "{}"


def read_values(text: str) -> Mapping[Any, Any]:
    """Return the mapping that a text in YAML holds.

    Raises:
        GraphError: It holds something else.
    """
    import yaml

    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise GraphError(f"The passed value needs to be in YAML: {where}") from None
    if not isinstance(values, Mapping):
        raise GraphError(f"The passed value needs to be a dictionary in YAML format, not {text!r}")
    return values


def write_message(message_class: Any, values: Mapping[Any, Any]) -> WrittenMessage:
    """Return a message with these fields.

    Raises:
        GraphError: It has no such field, or a value does not fit.
    """
    from usd_ros_bridge.ros.message_values import WrittenMessage

    try:
        return WrittenMessage(message_class, values)
    except BridgeError as error:
        raise GraphError(f"Failed to populate field: {error}") from None

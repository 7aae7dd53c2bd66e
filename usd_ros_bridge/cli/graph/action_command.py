"""`usd_ros_bridge action`: list, type, find, info and send_goal, as ros2cli has them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.graph.graph_names import absolute, interface_class, unknown
from usd_ros_bridge.cli.graph.peer_client import ClientEndedError
from usd_ros_bridge.cli.graph.verb_group import (
    NAMED_WAIT_S,
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

CANCEL_WAIT_S = 5.0
"""How long an interrupted verb waits for the answer to its cancellation, and for the result."""
_STATUS = ("UNKNOWN", "ACCEPTED", "EXECUTING", "CANCELING", "SUCCEEDED", "CANCELED", "ABORTED")
"""By the constants of action_msgs/GoalStatus."""


@click.group(cls=VerbGroup)
def action() -> None:
    """Look at actions and send goals, as `ros2 action` does.

    For where ROS 2 came from pip. With ros2cli installed, `ros2 action` is the one to use.
    """


def _actions(client: PeerClient) -> list[tuple[str, list[str]]]:
    from rclpy.action import get_action_names_and_types

    found: list[tuple[str, list[str]]] = get_action_names_and_types(client.node)
    return found


@action.command("list")
@click.option("-t", "--show-types", is_flag=True, help="Show the types, too.")
@click.option("-c", "--count-actions", is_flag=True, help="Show only the number of actions.")
@graph_options
def list_actions(show_types: bool, count_actions: bool, graph: GraphOptions) -> None:
    """List the actions."""
    with graph.open() as client:
        graph.discover(client)
        found = _actions(client)
        if count_actions:
            show(str(len(found)))
            return
        for name, types in found:
            show(f"{name} [{', '.join(types)}]" if show_types else name)


@action.command("type")
@click.argument("name", metavar="ACTION")
@graph_options
def type_of(name: str, graph: GraphOptions) -> None:
    """Print the type of ACTION."""
    name = absolute(name)
    with graph.open() as client:
        if not graph.find(client, lambda: name in dict(_actions(client))):
            raise unknown("action", name, dict(_actions(client)))
        for each in dict(_actions(client))[name]:
            show(each)


@action.command("find")
@click.argument("action_type", metavar="TYPE")
@click.option("-c", "--count-actions", is_flag=True, help="Show only the number of actions.")
@graph_options
def find(action_type: str, count_actions: bool, graph: GraphOptions) -> None:
    """List the actions of a TYPE, such as control_msgs/action/FollowJointTrajectory."""
    with graph.open() as client:
        graph.discover(client)
        found = [name for name, types in _actions(client) if action_type in types]
        for line in [str(len(found))] if count_actions else found:
            show(line)


@action.command("info")
@click.argument("name", metavar="ACTION")
@click.option("-t", "--show-types", is_flag=True, help="Show the types, too.")
@click.option("-c", "--count", "count_only", is_flag=True, help="Show only the numbers.")
@graph_options
def info(name: str, show_types: bool, count_only: bool, graph: GraphOptions) -> None:
    """Print the nodes that are clients and servers of ACTION."""
    from rclpy.action import get_action_client_names_and_types_by_node as of_clients
    from rclpy.action import get_action_server_names_and_types_by_node as of_servers

    full = absolute(name)
    with graph.open() as client:
        graph.find(client, lambda: full in dict(_actions(client)), settle=QUIET_S)
        show(f"Action: {name}")
        for noun, ends in (("clients", of_clients), ("servers", of_servers)):
            found = _nodes(client, full, ends)
            show(f"Action {noun}: {len(found)}")
            for node, types in [] if count_only else found:
                show(f"    {node} [{', '.join(types)}]" if show_types else f"    {node}")


def _nodes(client: PeerClient, action_name: str, ends: Any) -> list[tuple[str, list[str]]]:
    """Return the nodes that are at one end of an action, with the types that they use."""
    from rclpy.exceptions import InvalidHandle

    found = []
    for name, namespace in client.node.get_node_names_and_namespaces():
        try:
            actions = dict(ends(client.node, name, namespace))
        except (InvalidHandle, RuntimeError, ValueError):
            # The node has just gone.
            continue
        if action_name in actions:
            found.append((f"{namespace.rstrip('/')}/{name}", actions[action_name]))
    return found


@action.command("send_goal")
@click.argument("name", metavar="ACTION")
@click.argument("action_type", metavar="TYPE")
@click.argument("goal", metavar="[GOAL]", required=False)
@click.option("--stdin", is_flag=True, help="Read GOAL from standard input.")
@click.option("-f", "--feedback", is_flag=True, help="Print the feedback.")
@click.option(
    "-t",
    "--timeout",
    metavar="SECONDS",
    type=click.IntRange(min=0),
    help="Wait so long at most for the server, and for the result.",
)
@graph_options
def send_goal(
    name: str,
    action_type: str,
    goal: str | None,
    stdin: bool,
    feedback: bool,
    timeout: int | None,
    graph: GraphOptions,
) -> None:
    """Send GOAL, in YAML such as "{steps: 100}", to ACTION and wait for its result.

    Fields that it leaves out keep their defaults. SIGINT cancels the goal.
    """
    from usd_ros_bridge.ros.message_text import message_to_yaml

    check_fields()
    text = values_text(goal, stdin=stdin)
    with graph.open() as client:
        from rclpy.action import ActionClient
        from rclpy.validate_topic_name import validate_topic_name

        validate_topic_name(name)
        kind = interface_class("action", action_type)
        written = write_message(kind.Goal, read_values(text))
        sender = ActionClient(client.node, kind, absolute(name))
        try:
            show("Waiting for an action server to become available...")
            # Discovery takes its time, even where the result may take none.
            longest = None if timeout is None else max(float(timeout), NAMED_WAIT_S)
            if not client.spin_until(sender.server_is_ready, longest):
                raise GraphError(f"Action server is not available after waiting {longest:g} seconds.")
            written.stamp(client.node.get_clock().now().to_msg())
            show(f"Sending goal:\n     {message_to_yaml(written.message)}")
            printer = _FeedbackPrinter()
            sent = sender.send_goal_async(written.message, printer.receive if feedback else None)
            client.spin_until(sent.done)
            if sent.exception() is not None:
                raise GraphError(f"Exception while sending goal: {sent.exception()!r}")
            _follow_goal(client, sent.result(), timeout, printer)
        finally:
            sender.destroy()


class _FeedbackPrinter:
    """Print feedback, after the acceptance of its goal: topic and service are two ways, and either may be faster."""

    def __init__(self) -> None:
        self._early: list[Any] | None = []

    def receive(self, message: Any) -> None:
        """Print a feedback message, or keep it until `start`."""
        from usd_ros_bridge.ros.message_text import message_to_yaml

        if self._early is None:
            show(f"Feedback:\n    {message_to_yaml(message.feedback)}")
        else:
            self._early.append(message)

    def start(self) -> None:
        """Print what arrived so far, and from now on everything at once."""
        early, self._early = self._early or [], None
        for message in early:
            self.receive(message)


def _follow_goal(client: PeerClient, handle: Any, timeout: int | None, feedback: _FeedbackPrinter) -> None:
    """Wait for the result of a goal, and print it. An interruption cancels the goal.

    Raises:
        GraphError: The server rejected the goal, or gave no result in time.
    """
    from usd_ros_bridge.ros.message_text import message_to_yaml

    if not handle.accepted:
        raise GraphError("Goal was rejected.")
    show(f"Goal accepted with ID: {bytes(handle.goal_id.uuid).hex()}\n")
    feedback.start()
    future = handle.get_result_async()
    try:
        if not client.spin_until(future.done, timeout):
            raise GraphError(f"Timed out waiting for result after {timeout} seconds.")
    except ClientEndedError:
        if not _cancel(client, handle, future):
            return
    if future.exception() is not None:
        raise GraphError(f"Exception while getting result: {future.exception()!r}")
    answer = future.result()
    show(f"Result:\n    {message_to_yaml(answer.result)}")
    status = _STATUS[answer.status] if 0 <= answer.status < len(_STATUS) else _STATUS[0]
    show(f"Goal finished with status: {status}")


def _cancel(client: PeerClient, handle: Any, result: Any) -> bool:
    """Cancel a goal of a client that is to end. Return whether its result came.

    Raises:
        GraphError: The server did not cancel it.
    """
    show("Canceling goal...")
    deadline = time.monotonic() + CANCEL_WAIT_S
    cancelled = handle.cancel_goal_async()
    if not client.finish(cancelled.done, deadline) or not cancelled.result().goals_canceling:
        raise GraphError("Failed to cancel goal")
    show("Goal canceled.")
    return client.finish(result.done, deadline)

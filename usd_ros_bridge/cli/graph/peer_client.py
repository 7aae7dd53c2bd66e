"""A ROS 2 client of a command: a node of its own in a context of its own, and what it waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.ranges import MAX_DOMAIN_ID

POLL_S = 0.05
"""The longest that a client waits before it looks whether it is to end."""
_LOOK_SHARE = 0.1
"""Of the time that looking at the graph may take: the middleware copies the whole graph."""


class ClientEndedError(Exception):
    """The user, or whatever else a client serves, ended it while it waited."""


class PeerClient:
    """A node that is a peer of all others, without logging to /rosout and without parameter services.

    Attributes:
        node: The rclpy node.
    """

    def __init__(
        self,
        name: str,
        *,
        ended: Callable[[], bool],
        domain_id: int | None = None,
        ros_arguments: Sequence[str] = (),
        use_sim_time: bool = False,
    ) -> None:
        """Open the node. Signals stay those of the process.

        Args:
            name: Name of the node. A name with `_` in front is hidden.
            ended: Return whether the client is to end.
            domain_id: The ROS domain; None for that of the environment.
            ros_arguments: Arguments such as `--ros-args -r __ns:=/fleet`.
            use_sim_time: Use the time of /clock.

        Raises:
            BridgeError: The domain is not possible.
        """
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.parameter import Parameter

        self._ended = ended
        if os.environ.get("ROS_DISCOVERY_SERVER"):
            # Other clients of a discovery server hear of those only that they exchange messages with.
            os.environ.setdefault("ROS_SUPER_CLIENT", "TRUE")
        self._context = rclpy.Context()
        self._context.init(args=list(ros_arguments), domain_id=domain_id)
        try:
            if self._context.get_domain_id() > MAX_DOMAIN_ID:
                # Fast DDS would end the process.
                raise BridgeError(
                    f"domain id {self._context.get_domain_id()} is not possible: 0 to {MAX_DOMAIN_ID}"
                )
            self.node: Any = rclpy.create_node(
                name,
                context=self._context,
                enable_rosout=False,
                start_parameter_services=False,
                parameter_overrides=[Parameter("use_sim_time", value=use_sim_time)],
            )
            self._executor = SingleThreadedExecutor(context=self._context)
            self._executor.add_node(self.node)
        except BaseException:
            self._context.try_shutdown()
            raise

    def __enter__(self) -> PeerClient:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the node and its context."""
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def spin(self) -> None:
        """Handle messages until the client is to end."""
        while not self._ended():
            self._executor.spin_once(timeout_sec=POLL_S)

    def spin_until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Handle messages until a condition holds. Return whether it does.

        Args:
            condition: Checked after each message, and every 50 ms.
            timeout: Seconds to wait at most; None for as long as it takes.

        Raises:
            ClientEndedError: The client is to end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not condition():
            if self._ended():
                raise ClientEndedError
            left = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if left <= 0.0:
                return False
            self._executor.spin_once(timeout_sec=left)
        return True

    def finish(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Handle messages until a condition holds, also where the client is to end. Return whether it does.

        Args:
            condition: As for `spin_until`.
            deadline: A time of the monotonic clock, seconds.
        """
        while not condition() and time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=POLL_S)
        return condition()

    def spin_for(self, seconds: float) -> None:
        """Handle messages for a time, in seconds.

        Raises:
            ClientEndedError: The client is to end.
        """
        self.spin_until(lambda: False, max(0.0, seconds))

    def is_alone(self) -> bool:
        """Return whether no other node is found."""
        return len(self.node.get_node_names()) < 2

    def wait_until_quiet(self, seconds: float, *, alone: float = 0.0) -> None:
        """Wait until no node, topic or service has come or gone for a time. No event marks the end of discovery.

        Args:
            seconds: The time. The wait ends after ten such times at the latest.
            alone: Seconds to wait at most where no other node is found.
        """
        start = time.monotonic()
        latest = start + max(alone, 10.0 * seconds)
        known: Any = None
        quiet_at = start + max(alone, seconds)
        while (now := time.monotonic()) < min(quiet_at, latest):
            found = self._graph()
            looked = time.monotonic()
            if found != known and (known is not None or len(found[0]) > 1):
                quiet_at = looked + seconds
            known = found
            pause = max(POLL_S, (looked - now) / _LOOK_SHARE)
            self.spin_for(min(pause, max(0.0, min(quiet_at, latest) - looked)))

    def _graph(self) -> Any:
        node = self.node
        topics = node.get_topic_names_and_types()
        return (
            sorted(node.get_node_names_and_namespaces()),
            [
                (name, types, node.count_publishers(name), node.count_subscribers(name))
                for name, types in topics
            ],
            node.get_service_names_and_types(),
        )

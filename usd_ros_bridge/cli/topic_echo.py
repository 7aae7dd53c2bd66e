"""The newest message of a topic, and how long it was under way: a plain ROS 2 client, for the live view."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.text import Text

from usd_ros_bridge.cli.graph.peer_client import PeerClient

if TYPE_CHECKING:
    from usd_ros_bridge.ros.bridge_status import InterfaceStatus

MAX_LINES = 200
"""Lines of a message that are shown."""
MAX_ELEMENTS = 12
"""Elements of an array that are shown."""
MAX_TEXT = 200
"""Characters of a string that are shown."""
LATENCIES = 50
"""Messages whose latency counts."""
NODE_NAME = "usd_ros_bridge_view"


class TopicEcho:
    """Subscribe to one topic while it is shown, in a context and a thread of its own. It is a peer of the topic."""

    def __init__(self, row: InterfaceStatus) -> None:
        """Args: row: The topic."""
        self._row = row
        self._fault = ""
        self._count = 0
        self._newest: Any = None
        self._latencies: deque[float] = deque(maxlen=LATENCIES)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic echo", daemon=True)
        self._thread.start()

    def is_of(self, row: InterfaceStatus) -> bool:
        """Return whether this is the topic of a row."""
        mine = self._row
        return (mine.name, mine.type, mine.domain_id) == (row.name, row.type, row.domain_id)

    def close(self) -> None:
        """Unsubscribe. The thread ends by itself soon."""
        self._ended.set()

    def heading(self) -> str:
        """Return what stands above the message."""
        if self._fault:
            return self._fault
        if self._newest is None:
            return "no message yet (the view is one of the peers)"
        return f"message {self._count} since it is shown (the view is one of the peers)"

    def latency_text(self) -> Text:
        """Return the median and the worst time from publication to reception, of the last messages."""
        found = list(self._latencies)
        if not found:
            return Text("-")
        return Text(f"median {median(found) * 1e3:.2f} ms, worst {max(found) * 1e3:.2f} ms of {len(found)}")

    def lines(self) -> list[str]:
        """Return the newest message, a field on each line, bounded."""
        message = self._newest
        if message is None:
            return []
        found: list[str] = []
        for line in message_lines(message):
            if len(found) >= MAX_LINES:
                found.append("...")
                break
            found.append(line)
        return found

    def _run(self) -> None:
        try:
            self._listen()
        except Exception as error:  # noqa: BLE001 - shown in the pane; the view goes on
            self._fault = f"cannot subscribe: {type(error).__name__}: {error}"

    def _listen(self) -> None:
        from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface

        row = self._row
        message_type = import_interface(row.type, AmentCatalog())
        with PeerClient(NODE_NAME, ended=self._ended.is_set, domain_id=row.domain_id) as client:
            client.node.create_subscription(message_type, row.name, self._take, _profile(row))
            client.spin()

    def _take(self, message: Any, info: Any) -> None:
        self._newest = message
        self._count += 1
        sent, received = info["source_timestamp"], info["received_timestamp"]
        if sent and received:
            self._latencies.append((received - sent) * 1e-9)


def _profile(row: InterfaceStatus) -> Any:
    """Return a QoS that every publisher of the topic is compatible with, and that requests its kept messages."""
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    keeps = row.qos is not None and row.role == "publisher" and row.qos.durability == "transient_local"
    return QoSProfile(
        depth=1,
        reliability=ReliabilityPolicy.RELIABLE if keeps else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if keeps else DurabilityPolicy.VOLATILE,
    )


def message_lines(message: Any, indent: str = "") -> Iterator[str]:
    """Yield a message as lines `field: value`, nested messages indented. Long arrays and texts are cut."""
    for name in message.get_fields_and_field_types():
        value = getattr(message, name)
        if hasattr(value, "get_fields_and_field_types"):
            yield f"{indent}{name}:"
            yield from message_lines(value, indent + "  ")
        elif isinstance(value, (list, tuple)) and value and hasattr(value[0], "get_fields_and_field_types"):
            yield f"{indent}{name}: {len(value)}"
            for element in value[:MAX_ELEMENTS]:
                yield f"{indent}-"
                yield from message_lines(element, indent + "  ")
            if len(value) > MAX_ELEMENTS:
                yield f"{indent}... {len(value) - MAX_ELEMENTS} more"
        else:
            yield f"{indent}{name}: {_value_text(value)}"


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "...")
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (bool, int, bytes)):
        return str(value)
    shown = ", ".join(_value_text(each) for each in value[:MAX_ELEMENTS])
    more = len(value) - MAX_ELEMENTS
    return f"[{shown}, ... {more} more]" if more > 0 else f"[{shown}]"

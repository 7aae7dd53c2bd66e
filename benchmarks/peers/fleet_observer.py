"""Listens to some robots of a fleet: how many messages of each arrive, and how long they are on the wire.

`python -m benchmarks.peers.fleet_observer ROBOT,ROBOT...`. Lines of its input: `heard`, how many topics gave a
message; `count SECONDS`, what arrives in that time.
"""

from __future__ import annotations

import sys
import threading
import time
from functools import partial

import rclpy
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from benchmarks.peers import tell

_TOPICS = {"tf": TFMessage, "joint_states": JointState}
_DEPTH = 100
_POLL_S = 0.1


class Counter:
    """Counts what arrives, by topic.

    Attributes:
        counts: Messages since `begin`.
        sizes: Bytes of the last message.
    """

    def __init__(self, topics: list[str]) -> None:
        """Args: topics: Names."""
        self.sizes = dict.fromkeys(topics, 0)
        self.begin()

    def begin(self) -> None:
        """Begins to count."""
        self.counts = dict.fromkeys(self.sizes, 0)
        self._begin = time.monotonic()

    def note(self, topic: str, message: bytes) -> None:
        """Counts a message."""
        self.counts[topic] += 1
        self.sizes[topic] = len(message)

    def rates(self) -> list[float]:
        """Returns messages a second of each topic, since `begin`."""
        counts, seconds = list(self.counts.values()), time.monotonic() - self._begin
        return [count / seconds for count in counts]


def main() -> None:
    """Runs until the end of the input."""
    names = [f"/{robot}/{topic}" for robot in sys.argv[1].split(",") for topic in _TOPICS]
    counter = Counter(names)
    rclpy.init()
    node = rclpy.create_node("fleet_observer", enable_rosout=False, start_parameter_services=False)
    # Reliable, as subscriptions of rclpy are by default.
    qos = QoSProfile(depth=_DEPTH)
    for name in names:
        message_class = _TOPICS[name.rpartition("/")[2]]
        node.create_subscription(message_class, name, partial(counter.note, name), qos, raw=True)
    executor = EventsExecutor()
    executor.add_node(node)
    ended = threading.Event()
    threading.Thread(target=_answer, args=(counter, ended), daemon=True).start()
    tell("ready")
    while not ended.is_set():
        executor.spin_once(timeout_sec=_POLL_S)
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()


def _answer(counter: Counter, ended: threading.Event) -> None:
    """Counts when it is told to."""
    for line in sys.stdin:
        word, _, text = line.strip().partition(" ")
        if word == "heard":
            tell("heard", topics=sum(bool(size) for size in counter.sizes.values()))
        elif word == "count":
            counter.begin()
            time.sleep(float(text))
            tell("counted", rates=counter.rates(), sizes=counter.sizes)
    ended.set()


if __name__ == "__main__":
    main()

"""Record topics into a rosbag2: the bytes from rclpy, at their bridge time."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rclpy.qos import QoSProfile
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.base import Nodetype
from rosidl_parser.definition import (
    AbstractNestedType,
    AbstractString,
    AbstractWString,
    Array,
    BasicType,
    BoundedSequence,
    NamespacedType,
)

DEPTH = 1000
BAG_VERSION = 9
BASIC_NAMES = {"boolean": "bool", "float": "float32", "double": "float64", "octet": "octet", "char": "uint8"}

StampOf = Callable[[bytes], int]


@dataclass(frozen=True)
class Topic:
    """A recorded topic: its name, the class of its messages, and where a message says what time it belongs to."""

    name: str
    message_class: Any
    stamp_of: StampOf | None = None


class Recorder:
    """Subscribes to topics and keeps what arrives, in the order of bridge time.

    Attributes:
        now_ns: Bridge time that messages without a stamp of their own are kept under.
        counts: How many messages arrived, by topic.
    """

    def __init__(self, node: Any) -> None:
        self.now_ns = 0
        self.counts: Counter[str] = Counter()
        self._node = node
        self._topics: list[Topic] = []
        self._messages: list[tuple[int, int, int, bytes]] = []

    def listen(self, topic: Topic, quality: QoSProfile | None = None) -> None:
        """Records a topic from here on."""
        number = len(self._topics)
        self._topics.append(topic)

        def take(data: bytes) -> None:
            time_ns = self.now_ns if topic.stamp_of is None else topic.stamp_of(data)
            self._messages.append((time_ns, number, len(self._messages), bytes(data)))
            self.counts[topic.name] += 1

        self._node.create_subscription(
            topic.message_class, topic.name, take, quality or QoSProfile(depth=DEPTH), raw=True
        )

    def write(self, path: Path) -> None:
        """Writes what was recorded, the topics and times in order, as an MCAP bag.

        Raises:
            rosbags.rosbag2.WriterError: The directory exists already.
        """
        with Writer(path, version=BAG_VERSION, storage_plugin=StoragePlugin.MCAP) as writer:
            connections = [_connect(writer, topic) for topic in self._topics]
            for time_ns, number, _, data in sorted(self._messages):
                writer.write(connections[number], time_ns, data)


def _connect(writer: Writer, topic: Topic) -> Any:
    named, written = get_typestore(Stores.ROS2_KILTED), get_typestore(Stores.ROS2_KILTED)
    name = register(named, topic.message_class)
    definition, _ = written.generate_msgdef(register(written, topic.message_class, kind="msg"), ros_version=2)
    return writer.add_connection(topic.name, name, msgdef=definition, rihs01=named.hash_rihs01(name))


def register(store: Any, message_class: Any, *, kind: str = "") -> str:
    """Adds a class of rclpy's and all that it holds to a rosbags type store, as this ROS distribution has them.

    Args:
        store: The type store.
        message_class: Of a message, or of an action's feedback.
        kind: What to call all types, `msg` or `action`; "" for what they are.

    Returns:
        The type's name.
    """
    package, own_kind, *_ = message_class.__module__.split(".")
    name = f"{package}/{kind or own_kind}/{message_class.__name__}"
    if name not in store.fielddefs:
        fields = message_class.get_fields_and_field_types()
        described = [
            (field, _described(slot, message_class.__module__, lambda each: register(store, each, kind=kind)))
            for field, slot in zip(fields, message_class.SLOT_TYPES, strict=True)
        ]
        store.register({name: ([], described)})
    return name


def _described(slot: Any, module: str, name_of: Callable[[Any], str]) -> Any:
    """Returns a field's type in rosbags' terms."""
    if isinstance(slot, AbstractNestedType):
        element = _described(slot.value_type, module, name_of)
        if isinstance(slot, Array):
            return Nodetype.ARRAY, (element, slot.size)
        return Nodetype.SEQUENCE, (element, slot.maximum_size if isinstance(slot, BoundedSequence) else 0)
    if isinstance(slot, NamespacedType):
        # Goals, results and feedback stand beside what wraps them, in the module of their action alone.
        places = (importlib.import_module(each) for each in (".".join(slot.namespaces), module))
        found = next(getattr(each, slot.name) for each in places if hasattr(each, slot.name))
        return Nodetype.NAME, name_of(found)
    if isinstance(slot, (AbstractString, AbstractWString)):
        return Nodetype.BASE, ("string", getattr(slot, "maximum_size", 0))
    assert isinstance(slot, BasicType)
    return Nodetype.BASE, (BASIC_NAMES.get(slot.typename, slot.typename), 0)

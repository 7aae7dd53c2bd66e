"""Publisher handles: bytes arrive, however rclpy takes them; nothing crashes whoever destroys the publisher."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import TransformStamped
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.ros import publisher_handle
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.wire.cdr_template import Template

TEXT = Template(String(data="text")).data


def test_bytes_arrive(ros_harness: Any) -> None:
    received: list[TFMessage] = []
    handle = PublisherHandle(ros_harness.node, ros_harness.node.create_publisher(TFMessage, "handle", 10))
    assert handle.subscriptions() == 0
    ros_harness.node.create_subscription(TFMessage, "handle", received.append, 10)
    ros_harness.wait_for(lambda: handle.subscriptions() == 1, what="the subscription")
    template = Template(TFMessage(transforms=[TransformStamped()] * 3))
    column = template.column("transforms[].transform")
    for value in (1.0, 2.0):
        column.write(np.full((3, 7), value))
        handle.send(template.data)
    ros_harness.wait_for(lambda: len(received) == 2, what="two messages")
    shown = [[each.transform.rotation.w for each in message.transforms] for message in received]
    assert shown == [[1.0] * 3, [2.0] * 3]
    handle.close(ros_harness.node.destroy_publisher)


class WithoutByteArrays:
    """A publisher of an rclpy whose `publish_raw` takes bytes alone, or is not there."""

    def __init__(self, publisher: Any, fault: type[Exception]) -> None:
        self._publisher, self._fault = publisher, fault
        self.handle = self
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        if name in {"topic_name", "qos_profile"}:
            return getattr(self._publisher, name)
        return getattr(self._publisher.handle, name)

    def __enter__(self) -> None:
        self._publisher.handle.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._publisher.handle.__exit__(*raised)

    def publish_raw(self, data: bytearray) -> None:
        assert data
        self.asked += 1
        raise self._fault("publish_raw")

    def publish(self, message: Any) -> None:
        assert type(message) is bytes
        self._publisher.publish(message)


@pytest.mark.parametrize("fault", [TypeError, AttributeError])
def test_bytes_arrive_from_an_rclpy_without_byte_arrays(ros_harness: Any, fault: type[Exception]) -> None:
    received: list[String] = []
    real = ros_harness.node.create_publisher(String, "handle_bytes", 10)
    publisher = WithoutByteArrays(real, fault)
    handle = PublisherHandle(ros_harness.node, publisher)
    ros_harness.node.create_subscription(String, "handle_bytes", received.append, 10)
    ros_harness.wait_for(lambda: handle.subscriptions() == 1, what="the subscription")
    handle.send(TEXT)
    handle.send(TEXT)
    ros_harness.wait_for(lambda: len(received) == 2, what="the messages")
    assert [each.data for each in received] == ["text"] * 2
    assert publisher.asked == 1
    publisher.__exit__(None, None, None)


def test_a_publisher_that_others_destroy_goes_when_its_handle_closes(ros_harness: Any) -> None:
    node = ros_harness.node
    publisher = node.create_publisher(String, "handle_destroyed", 10)
    handle = PublisherHandle(ros_harness.node, publisher)
    node.destroy_publisher(publisher)
    handle.send(TEXT)
    assert (handle.subscriptions(), node.count_publishers("handle_destroyed")) == (0, 1)
    handle.close(node.destroy_publisher)
    ros_harness.wait_for(lambda: node.count_publishers("handle_destroyed") == 0, what="the publisher to go")
    with pytest.raises(InvalidHandle):
        PublisherHandle(ros_harness.node, publisher)


def test_what_is_sent_while_another_thread_destroys_the_publisher_is_sent(ros_harness: Any) -> None:
    node = ros_harness.node
    for _ in range(20):
        publisher = node.create_publisher(String, "handle_raced", 10)
        handle = PublisherHandle(ros_harness.node, publisher)
        thread = threading.Thread(target=publisher.destroy)
        thread.start()
        while thread.is_alive():
            handle.send(TEXT)
        handle.send(TEXT)
        handle.close(node.destroy_publisher)


def test_what_is_sent_after_closing_is_an_error_and_no_crash(ros_harness: Any) -> None:
    handle = PublisherHandle(ros_harness.node, ros_harness.node.create_publisher(String, "handle_closed", 10))
    handle.send(TEXT)
    handle.close(ros_harness.node.destroy_publisher)
    for call in (lambda: handle.send(TEXT), handle.subscriptions):
        with pytest.raises(Exception, match="publisher"):
            call()


class Miscounting:
    """A publisher of a middleware that lost a change of its matches: Fast DDS before pull request 6371."""

    def __init__(self, publisher: Any, count: int) -> None:
        self._publisher, self._count = publisher, count
        self.handle = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._publisher, name)

    def __enter__(self) -> None:
        self._publisher.handle.__enter__()

    def get_subscription_count(self) -> int:
        return self._count


@pytest.fixture
def other_node(ros_harness: Any) -> Iterator[Any]:
    """A node of another participant: one refuses two types on a topic."""
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("other", context=context)
    yield node
    node.destroy_node()
    context.try_shutdown()


@pytest.mark.parametrize("counted", [0, 2])
def test_a_wrong_count_of_the_middleware_is_seen_in_the_graph(
    ros_harness: Any, other_node: Any, counted: int
) -> None:
    node, topic = ros_harness.node, f"miscounted_{counted}"
    publisher = node.create_publisher(String, topic, qos_profile_sensor_data)
    node.create_subscription(String, topic, lambda _: None, qos_profile_sensor_data)
    # A reliable subscription gets nothing from a best-effort publisher, and one of another type from none.
    node.create_subscription(String, topic, lambda _: None, 10)
    other_node.create_subscription(TFMessage, topic, lambda _: None, qos_profile_sensor_data)
    ros_harness.wait_for(lambda: node.count_subscribers(topic) == 3, what="the subscriptions")
    handle = PublisherHandle(node, Miscounting(publisher, counted))
    assert (handle.matched(), handle.has_uncounted()) == (1, True)


def test_the_count_of_the_middleware_stands_where_a_host_has_destroyed_its_node(ros_harness: Any) -> None:
    node = Node("destroyed", context=ros_harness.node.context)
    publisher = node.create_publisher(String, "node_destroyed", 10)
    handle = PublisherHandle(node, publisher)
    ros_harness.node.create_subscription(String, "node_destroyed", lambda _: None, 10)
    ros_harness.wait_for(lambda: handle.matched() == 1, what="the subscription")
    node.destroy_node()
    with pytest.raises(InvalidHandle):
        node.count_subscribers("node_destroyed")
    assert handle.matched() == handle.subscriptions() == 1
    handle.close(node.destroy_publisher)


def test_a_publisher_without_subscribers_looks_for_uncounted_ones_once_a_second(
    ros_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, topic = ros_harness.node, "uncounted"
    handle = PublisherHandle(node, Miscounting(node.create_publisher(String, topic, 10), 0))
    clock = iter((10.0, 10.9, 11.0))
    monkeypatch.setattr(publisher_handle, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert not handle.has_uncounted()
    node.create_subscription(String, topic, lambda _: None, 10)
    ros_harness.wait_for(lambda: node.count_subscribers(topic) == 1, what="the subscription")
    assert not handle.has_uncounted()
    assert handle.has_uncounted()

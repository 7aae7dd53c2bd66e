"""Entities are destroyed while publishers come and go: rclpy survives, and nothing that was created stays.

ENTITY_STORM says how many rounds of publishers there are, ENTITY_STORM_SEED which ones, BRIDGE_CYCLES how often a
bridge is opened, changed and closed.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

import rclpy
from entity_storm import EXECUTORS, run_cycles, storm
from rclpy.action import ActionServer
from rclpy.context import Context
from rclpy.event_handler import EventHandler, PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import SetBool
from test_msgs.action import Fibonacci

from programs import run_python
from usd_ros_bridge.ros.compat import make_executor, queues_events
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.action_client import GoalClient

HERE = Path(__file__).resolve()
ROUNDS = int(os.environ.get("ENTITY_STORM", "12"))
SEEDS = tuple(int(each) for each in os.environ.get("ENTITY_STORM_SEED", "1").split(","))
CYCLES = int(os.environ.get("BRIDGE_CYCLES", "12"))
KINDS: dict[str, Callable[..., Any]] = {
    "single": SingleThreadedExecutor,
    "multi": MultiThreadedExecutor,
    "events": make_executor,
}


@pytest.mark.storm
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_publishers_of_all_kinds_come_and_go(executor: str, seed: int) -> None:
    made = storm(ROUNDS, executor=executor, seed=seed)
    assert (made.status, made.unmatched, made.lost) == (0, (), ()), made
    assert "ros." not in made.errors, made.errors


@pytest.mark.storm
def test_a_bridge_is_opened_changed_and_closed_again_and_again() -> None:
    status, output = run_cycles(CYCLES)
    assert status == 0, output
    assert "callback manager" not in output
    assert "ros." not in output, output


# --- One entity ------------------------------------------------------------------------------------------------------


@contextmanager
def make_node(name: str) -> Iterator[Any]:
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(name, context=context, enable_rosout=False, start_parameter_services=False)
    try:
        yield node
    finally:
        node.destroy_node()
        context.try_shutdown()


def create_entities(node: Any) -> list[Any]:
    """One entity of each kind."""

    def ignore(*_: Any) -> None:
        pass

    return [
        node.create_publisher(String, "out", 10, event_callbacks=PublisherEventCallbacks(matched=ignore)),
        node.create_subscription(
            String, "in", ignore, 10, event_callbacks=SubscriptionEventCallbacks(matched=ignore)
        ),
        node.create_service(SetBool, "service", lambda _, response: response),
        node.create_client(SetBool, "client"),
        node.create_timer(0.001, ignore),
        ActionServer(node, Fibonacci, "action", ignore),
        GoalClient(node, Fibonacci, "action_client"),
    ]


def count_entities(node: Any) -> int:
    groups = (
        node.publishers,
        node.subscriptions,
        node.services,
        node.clients,
        node.timers,
        node.waitables,
        node.guards,
    )
    return sum(len(list(group)) for group in groups)


def in_graph(node: Any) -> set[str]:
    """The topics and services of `create_entities` that are still there."""
    mine = (node.get_name(), node.get_namespace())
    found = [
        *node.get_publisher_names_and_types_by_node(*mine),
        *node.get_subscriber_names_and_types_by_node(*mine),
        *node.get_service_names_and_types_by_node(*mine),
        *node.get_client_names_and_types_by_node(*mine),
    ]
    return {name for name, _ in found if name.startswith(("/out", "/in", "/service", "/client", "/action"))}


def make_domain(node: Any, failures: list[str]) -> Domain:
    return Domain(node, owned=False, report=lambda *told: failures.append(": ".join(told)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_spinning_executor_lets_go_of_every_kind_of_entity(kind: str, ros_harness: Any) -> None:
    failures: list[str] = []
    with make_node("host") as node:
        executor = KINDS[kind](context=node.context)
        executor.add_node(node)
        domain, done = make_domain(node, failures), threading.Event()

        def spin() -> None:
            try:
                while not done.is_set():
                    executor.spin_once(timeout_sec=0.05)
            except Exception as error:  # noqa: BLE001 - shown below
                failures.append(repr(error))

        thread = threading.Thread(target=spin)
        thread.start()
        try:
            domain.start()
            before = count_entities(node)
            for _ in range(20):
                for entity in create_entities(node):
                    domain.destroy(entity)
            ros_harness.wait_for(lambda: count_entities(node) == before, what="the node without its entities")
            ros_harness.wait_for(lambda: not in_graph(node), what="a graph without them")
        finally:
            done.set()
            thread.join()
            executor.shutdown()
    assert failures == []


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_an_executor_that_is_just_adding_an_event_to_its_wait_set_is_waited_for(kind: str) -> None:
    """The method was called before the destruction, and uses the handle of the event after it has begun."""
    within, destroyed = threading.Event(), threading.Event()
    failures: list[str] = []
    raised: list[BaseException] = []

    def pause(frame: Any, event: str, _: Any) -> None:
        adds = event == "call" and frame.f_code is EventHandler.add_to_wait_set.__code__
        if adds and frame.f_locals["self"] in publisher.event_handlers:
            within.set()
            destroyed.wait(0.2)

    with make_node("adds_events") as node:
        domain = make_domain(node, failures)
        callbacks = PublisherEventCallbacks(matched=lambda _: None)
        publisher = node.create_publisher(String, "out", 10, event_callbacks=callbacks)
        executor = KINDS[kind](context=node.context)
        executor.add_node(node)

        def spin() -> None:
            sys.settrace(pause)
            try:
                executor.spin_once(timeout_sec=0.0)
            except BaseException as error:  # noqa: BLE001 - whatever would end a host's executor
                raised.append(error)
            finally:
                sys.settrace(None)

        thread = threading.Thread(target=spin)
        thread.start()
        assert within.wait(10.0)
        domain.destroy(publisher)
        destroyed.set()
        thread.join(10.0)
        executor.shutdown()
    assert (raised, failures) == ([], [])


@pytest.fixture
def frame_reads() -> Iterator[list[bool]]:
    """Whether garbage was collected, for each time that the frames of all threads were read."""
    reads: list[bool] = []
    ended = threading.Event()

    def note(event: str, _: tuple[Any, ...]) -> None:
        if event == "sys._current_frames" and not ended.is_set():
            reads.append(gc.isenabled())

    # There is no way to remove a hook.
    sys.addaudithook(note)
    yield reads
    ended.set()


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_other_threads_are_read_only_where_they_cannot_go_meanwhile(
    kind: str, frame_reads: list[bool]
) -> None:
    """Reading them beside a collection of garbage ended the process once in a thousand changes."""
    failures: list[str] = []
    with make_node("reads_frames") as node:
        executor = KINDS[kind](context=node.context)
        executor.add_node(node)
        callbacks = PublisherEventCallbacks(matched=lambda _: None)
        publisher = node.create_publisher(String, "out", 10, event_callbacks=callbacks)
        make_domain(node, failures).destroy(publisher)
        deadline = time.monotonic() + 10.0
        while publisher in node.publishers and time.monotonic() < deadline:
            executor.spin_once(timeout_sec=0.1)
        assert publisher not in node.publishers
        waits = not queues_events(executor)
        executor.shutdown()
    assert bool(frame_reads) is waits
    assert not any(frame_reads)
    assert gc.isenabled()
    assert failures == []


@pytest.mark.parametrize("kind", [*KINDS, "none"])
@pytest.mark.parametrize("state", ["never run", "shut down"])
def test_entities_go_at_once_where_no_executor_runs(kind: str, state: str) -> None:
    failures: list[str] = []
    with make_node("host") as node:
        executor = KINDS[kind](context=node.context) if kind in KINDS else None
        if executor is not None:
            executor.add_node(node)
        domain = make_domain(node, failures)
        domain.start()
        before = count_entities(node)
        entities = create_entities(node)
        if executor is not None and state == "shut down":
            for _ in range(5):
                executor.spin_once(timeout_sec=0.01)
            executor.shutdown()
        for entity in entities:
            domain.destroy(entity)
        assert count_entities(node) == before
        entities.clear()
        assert in_graph(node) == set()
    assert failures == []


def destroy_polled(kind: str, node: Any, failures: list[str]) -> tuple[Any, Domain, int]:
    """Destroy entities of a node whose executor has run, and runs no more.

    Returns:
        The executor, the domain, and how many entities the node had before.
    """
    executor = KINDS[kind](context=node.context)
    executor.add_node(node)
    domain = make_domain(node, failures)
    domain.start()
    before = count_entities(node)
    entities = create_entities(node)
    for _ in range(20):
        executor.spin_once(timeout_sec=0.01)
    for entity in entities:
        domain.destroy(entity)
    return executor, domain, before


@pytest.mark.parametrize("kind", KINDS)
def test_an_executor_that_is_polled_lets_go_at_the_next_poll(kind: str, ros_harness: Any) -> None:
    failures: list[str] = []
    with make_node("host") as node:
        executor, domain, before = destroy_polled(kind, node, failures)
        domain.close()

        def gone() -> bool:
            executor.spin_once(timeout_sec=0.0)
            return count_entities(node) == before and not in_graph(node)

        ros_harness.wait_for(gone, what="the node without its entities")
        executor.shutdown()
    assert failures == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_the_context_ends_what_an_executor_still_holds(kind: str) -> None:
    failures: list[str] = []
    with make_node("host") as node:
        executor, domain, before = destroy_polled(kind, node, failures)
        domain.close()
        executor.shutdown()
        node.context.try_shutdown()
        assert count_entities(node) <= before
    assert failures == []


QUEUED_EVENT = """
import rclpy, sys
from rclpy.context import Context
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from usd_ros_bridge.ros.compat import make_executor, queues_events
from usd_ros_bridge.ros.domains import Domain

context = Context()
rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
node = rclpy.create_node("host", context=context)
executor = make_executor(context)
executor.add_node(node)
domain = Domain(node, owned=False, report=print)
domain.start()
events = SubscriptionEventCallbacks(matched=lambda _: None)
subscription = node.create_subscription(String, "topic", lambda _: None, 10, event_callbacks=events)
for _ in range(50):
    executor.spin_once(timeout_sec=0.02)
peer = rclpy.create_node("peer", context=context)
domain.destroy(subscription)
# Its event is queued behind the task, or the update, that removes the subscription.
publisher = peer.create_publisher(String, "topic", 10)
while not publisher.get_subscription_count():
    pass
del subscription
for _ in range(200):
    executor.spin_once(timeout_sec=0.0)
executor.shutdown()
node.destroy_node()
context.try_shutdown()
"""


@pytest.mark.process
def test_an_event_that_comes_between_is_not_queued() -> None:
    assert run_python(QUEUED_EVENT, env={"PYTHONPATH": str(HERE.parents[2])}).returncode == 0

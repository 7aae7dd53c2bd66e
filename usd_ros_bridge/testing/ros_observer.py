"""ROS observer: a node of the test, which observes a bridge, and other nodes, from outside."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import rclpy
from action_msgs.srv import CancelGoal
from rclpy.action import (
    ActionClient,
    get_action_client_names_and_types_by_node,
    get_action_names_and_types,
)
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from usd_ros_bridge.errors import BridgeError, alternatives, quoted
from usd_ros_bridge.model.message_types import TF_MESSAGE
from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan, QosPlan, TopicPlan
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface, make_message
from usd_ros_bridge.ros.recording.message_definitions import type_name
from usd_ros_bridge.testing.message_store import brief
from usd_ros_bridge.testing.transform_buffer import TransformBuffer, only_namespace

POLL_S = 0.01
"""How often a condition is asked again where no callback comes, seconds."""
_ASK_AGAIN_S = 0.5
"""How long an answer may take before it counts as lost, seconds."""
_STATIC_QOS = QosPlan(reliability="reliable", durability="transient_local", depth=100)

Advance = Callable[[], object]
"""Let something happen: step bridges of the test, or wait a moment."""


class RosObserver:
    """A node in a domain, in a context of its own: rclpy's default context and signals stay those of the test.

    Attributes:
        node: The rclpy node.
        context: Its context.
        executor: Its executor.
    """

    def __init__(
        self, *, domain_id: int | None = None, name: str = "test_node", spinning: bool = True
    ) -> None:
        """Open the node.

        Args:
            domain_id: Its domain. None: that of the process (ROS_DOMAIN_ID).
            name: Its name.
            spinning: Whether a background thread runs its callbacks. False: `spin_once` does.
        """
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node(name, context=self.context, enable_rosout=False, start_parameter_services=False)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._buffers: dict[str, TransformBuffer] = {}
        self._activity = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True) if spinning else None
        if self._thread is not None:
            self._thread.start()

    def close(self) -> None:
        """Destroy the node. Idempotent."""
        if self._closing:
            return
        self._closing = True
        # Not `wake`: that leaves `spin_once` waiting for the rest of its second.
        self.executor.create_task(lambda: None)
        if self._thread is not None:
            self._thread.join()
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()

    def spin_once(self, timeout: float = 0.05) -> None:
        """Wait for a callback and run it; if a thread runs them, wait until it has run one.

        Args:
            timeout: Seconds to wait at most.
        """
        if self._thread is None:
            self.executor.spin_once(timeout_sec=timeout)
        else:
            self._activity.wait(timeout)
            self._activity.clear()

    def wait_for(self, condition: Callable[[], Any], *, timeout: float, what: str, advance: Advance) -> Any:
        """Wait until a condition holds. Return its value.

        Args:
            condition: Asked again and again.
            timeout: Seconds to wait. After that the test fails.
            what: What is awaited, for the message.
            advance: Called between two times.
        """
        __tracebackhide__ = True
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not within {timeout:g} s")
            advance()
        return value

    # --- Messages ----------------------------------------------------------------------------------------------

    def wait_for_message(
        self,
        topic: str,
        message_type: Any,
        where: Callable[[Any], bool] | None,
        *,
        timeout: float,
        advance: Advance,
    ) -> Any:
        """Wait for a message of any publisher, with the QoS that its publishers offer. Return it.

        Args:
            topic: Name of the topic.
            message_type: Class or name of its type. None: that of the publishers.
            where: Whether a message is the one that is awaited. None: any.
            timeout: Seconds to wait. After that the test fails.
            advance: Called while nothing comes.
        """
        __tracebackhide__ = True
        name = topic if topic.startswith(("/", "~")) else f"/{topic}"
        deadline = time.monotonic() + timeout
        offered: list[Any] = []
        while not (offered := self.node.get_publishers_info_by_topic(name)):
            if time.monotonic() > deadline:
                pytest.fail(f"{name} has no publisher after {timeout:g} s; {self._topics_like(name)}")
            advance()
        message_class = self._class_of(name, message_type, {each.topic_type for each in offered})
        profile = qos_profiles.profile(
            qos_profiles.matching(QosPlan(depth=100), [each.qos_profile for each in offered])
        )
        received: list[Any] = []
        subscription = self.node.create_subscription(message_class, name, received.append, profile)
        try:
            seen = 0
            while True:
                while seen < len(received):
                    seen += 1
                    if where is None or where(received[seen - 1]):
                        return received[seen - 1]
                if time.monotonic() > deadline:
                    break
                advance()
        finally:
            self.node.destroy_subscription(subscription)
        if not received:
            pytest.fail(f"no message on {name} within {timeout:g} s, from {len(offered)} publisher(s)")
        pytest.fail(
            f"none of {len(received)} messages on {name} within {timeout:g} s is as awaited; "
            f"the last one: {brief(received[-1])}"
        )

    def _topics_like(self, name: str) -> str:
        names = [
            each for each, _ in self.node.get_topic_names_and_types() if self.node.count_publishers(each)
        ]
        return alternatives(name, names, label="topics with publishers")

    def _class_of(self, name: str, message_type: Any, published: set[str]) -> Any:
        __tracebackhide__ = True
        if message_type is not None and not isinstance(message_type, str):
            wanted = type_name(message_type)
        else:
            wanted = message_type or min(published)
        if wanted not in published:
            pytest.fail(f"{name} is of type {', '.join(sorted(published))}, not {wanted}")
        return interface_class(wanted) if isinstance(message_type, str | None) else message_type

    # --- Actions -----------------------------------------------------------------------------------------------

    def send_goal(
        self,
        name: str,
        action_type: Any,
        goal: Any,
        *,
        feedback: Callable[[Any], object] | None,
        timeout: float,
        advance: Advance,
    ) -> Any:
        """Send a goal that has to be accepted, and wait for its end. Return the response: `status` and `result`.

        Args:
            name: Name of the action.
            action_type: Class or name of its type.
            goal: The goal: a message, or a mapping of its fields.
            feedback: Called with each feedback message.
            timeout: Seconds to wait for the server, the answer and the result. After that the test fails.
            advance: Called meanwhile.
        """
        __tracebackhide__ = True
        action_class = interface_class(action_type) if isinstance(action_type, str) else action_type
        message = make_message(action_class.Goal, goal)
        client = ActionClient(self.node, action_class, name)
        # Made last: a server that knows it knows the others, too.
        probe = self.node.create_client(CancelGoal, f"{name}/_action/cancel_goal")
        deadline = time.monotonic() + timeout

        def wait(condition: Callable[[], Any], what: str) -> None:
            __tracebackhide__ = True
            while not condition():
                if time.monotonic() > deadline:
                    pytest.fail(
                        f"action {name}: no {what} within {timeout:g} s{self._actions_like(name, what)}"
                    )
                advance()

        def show(message: Any) -> None:
            if feedback is not None:
                feedback(message.feedback)

        try:
            wait(client.server_is_ready, "server")
            # A goal is sent once. Before it, the server is asked to cancel a goal that does not exist.
            wait(answers(probe, _cancel_of_no_goal()), "answer")
            sent = client.send_goal_async(message, feedback_callback=show)
            wait(sent.done, "answer to the goal")
            handle = sent.result()
            if not handle.accepted:
                pytest.fail(f"action {name} refused the goal")
            result = handle.get_result_async()
            wait(result.done, "result")
            return result.result()
        finally:
            self.node.destroy_client(probe)
            client.destroy()

    def _actions_like(self, name: str, what: str) -> str:
        if what != "server":
            return ""
        return f"; {alternatives(name, (each for each, _ in get_action_names_and_types(self.node)))}"

    # --- Transforms --------------------------------------------------------------------------------------------

    def tf_buffer(self, namespace: str | None) -> TransformBuffer:
        """Return the buffer that listens to the transforms of a namespace, from the first call on.

        Args:
            namespace: Namespace of the robot, "" for /tf. None: the only one with transforms.

        Raises:
            UnknownTransformError: There are none yet, or those of several namespaces.
        """
        if namespace is None:
            name = only_namespace(self._tf_namespaces(), None, where="the ROS graph")
        else:
            name = namespace.strip("/")
        if name not in self._buffers:
            prefix = f"/{name}" if name else ""
            buffer = self._buffers[name] = TransformBuffer(f"{prefix}/tf")
            for topic, qos in (("tf", qos_profiles.TF_QOS), ("tf_static", _STATIC_QOS)):
                self.node.create_subscription(
                    interface_class(TF_MESSAGE),
                    f"{prefix}/{topic}",
                    _adder(buffer, static=topic == "tf_static"),
                    qos_profiles.profile(qos),
                )
        return self._buffers[name]

    def _tf_namespaces(self) -> Iterator[str]:
        for name, types in self.node.get_topic_names_and_types():
            folder, _, last = name.rpartition("/")
            if TF_MESSAGE in types and last in ("tf", "tf_static") and self.node.count_publishers(name):
                yield folder.strip("/")

    # --- Interfaces --------------------------------------------------------------------------------------------

    def missing_interfaces(self, interfaces: Iterable[InterfacePlan], kind: str) -> list[str]:
        """Return what is not as planned, a line for each interface: no peer, another type, incompatible QoS.

        Args:
            interfaces: Of the domain of this node.
            kind: topic, service or action.
        """
        faults = []
        for each in interfaces:
            fault = self._topic_fault(each) if isinstance(each, TopicPlan) else self._other_fault(each, kind)
            if fault:
                faults.append(f"{kind} {each.name} [{each.type}] of {each.path}: {fault}")
        return faults

    def _topic_fault(self, topic: TopicPlan) -> str:
        publishes = topic.role == "publisher"
        find = (
            self.node.get_publishers_info_by_topic if publishes else self.node.get_subscriptions_info_by_topic
        )
        found = find(self.node.resolve_topic_name(topic.name))
        typed = [each for each in found if each.topic_type == topic.type]
        if not typed:
            types = ", ".join(sorted({each.topic_type for each in found}))
            return f"{topic.role}s are of type {types}" if types else f"no {topic.role}"
        if topic.qos.match_publisher:
            return ""
        planned = qos_profiles.profile(topic.qos)
        reasons = set()
        for each in typed:
            pair = (each.qos_profile, planned) if publishes else (planned, each.qos_profile)
            reason = _qos_fault(*pair)
            if not reason:
                return ""
            reasons.add(reason)
        return f"the QoS of the {topic.role} is not that of the plan: {', '.join(sorted(reasons))}"

    def _other_fault(self, interface: InterfacePlan, kind: str) -> str:
        is_server = interface.role in ("server", "")
        types = [
            each
            for name, found in self._names_and_types(kind, is_server)
            if name == interface.name
            for each in found
        ]
        if interface.type in types:
            return ""
        return f"it is of type {', '.join(sorted(set(types)))}" if types else f"no {interface.role}"

    def _names_and_types(self, kind: str, is_server: bool) -> Iterator[tuple[str, list[str]]]:
        if is_server:
            yield from (
                self.node.get_service_names_and_types()
                if kind == "service"
                else get_action_names_and_types(self.node)
            )
            return
        for name, namespace in self.node.get_node_names_and_namespaces():
            try:
                if kind == "service":
                    yield from self.node.get_client_names_and_types_by_node(name, namespace)
                else:
                    yield from get_action_client_names_and_types_by_node(self.node, name, namespace)
            except RuntimeError:
                # The node has ended meanwhile.
                continue

    # --- Own ---------------------------------------------------------------------------------------------------

    def _spin(self) -> None:
        while not self._closing and self.context.ok():
            try:
                self.executor.spin_once(timeout_sec=1.0)
            except ExternalShutdownException:
                return
            self._activity.set()


def missing_in_graph(
    plan: BridgePlan, observer_of: Callable[[int | None], RosObserver], without: frozenset[str]
) -> list[str]:
    """Return what a graph has not of a plan, a line for each interface.

    Args:
        plan: The plan. Interfaces that are disabled, or not enabled at the start, are left out.
        observer_of: Return the observer of a domain, None for the default one.
        without: Prim paths and names of interfaces that are left out.
    """
    faults = []
    for kind, rows in (("topic", plan.topics), ("service", plan.services), ("action", plan.actions)):
        for each in rows:
            if each.enabled and each.starts_enabled and without.isdisjoint((each.path, each.name)):
                faults += observer_of(each.domain_id).missing_interfaces([each], kind)
    return faults


def count_interfaces(plan: BridgePlan, without: frozenset[str]) -> int:
    """Return how many interfaces `missing_in_graph` searches."""
    rows = (*plan.topics, *plan.services, *plan.actions)
    return sum(
        each.enabled and each.starts_enabled and without.isdisjoint((each.path, each.name)) for each in rows
    )


def interface_class(name: str) -> Any:
    """Return the class of an interface type, `sensor_msgs/msg/LaserScan`. The test fails if it is not installed."""
    __tracebackhide__ = True
    parts = name.split("/")
    if len(parts) != 3:
        pytest.fail(f"{quoted(name)} is no interface type: write PACKAGE/msg/NAME")
    try:
        return import_interface(name, AmentCatalog())
    except (BridgeError, ImportError) as error:
        pytest.fail(f"{name}: {error}")


def answers(client: Any, request: Any) -> Callable[[], bool]:
    """Return a condition: whether a service has answered a request, which may be made several times.

    The condition makes the request, and again while no answer comes: the middleware drops an answer to a client that
    the server has not discovered yet. Discovery is in order: a server that answers the client that was made last knows
    the others of the node, too.

    Args:
        client: Client of the service.
        request: What is asked.
    """
    sent: list[Any] = []
    again_s = 0.0

    def answered() -> bool:
        nonlocal again_s
        if time.monotonic() >= again_s and client.service_is_ready():
            again_s = time.monotonic() + _ASK_AGAIN_S
            sent.append(client.call_async(request))
        return any(each.done() for each in sent)

    return answered


def _cancel_of_no_goal() -> Any:
    request = CancelGoal.Request()
    request.goal_info.goal_id.uuid = list(uuid.uuid4().bytes)
    return request


def _qos_fault(offered: Any, requested: Any) -> str:
    """Return why a publisher's profile does not reach a subscription's, "" if it does. The graph shows no defaults."""
    if (
        requested.reliability == ReliabilityPolicy.RELIABLE
        and offered.reliability == ReliabilityPolicy.BEST_EFFORT
    ):
        return "best effort is offered, and reliable requested"
    if (
        requested.durability == DurabilityPolicy.TRANSIENT_LOCAL
        and offered.durability == DurabilityPolicy.VOLATILE
    ):
        return "volatile is offered, and transient local requested"
    return ""


def _adder(buffer: TransformBuffer, *, static: bool) -> Callable[[Any], None]:
    def add(message: Any) -> None:
        buffer.add(message.transforms, static=static)

    return add

"""Parameters of another node: get and set them, and follow their changes, without waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from usd_ros_bridge.model.message_types import GET_PARAMETERS, PARAMETER_EVENT, SET_PARAMETERS
from usd_ros_bridge.view.graph_client import GraphClient

TIMEOUT_S = 5.0
EVENTS_TOPIC = "/parameter_events"
_DEPTH = 100


class RemoteParameters:
    """Client of a node's parameter services. Futures and callbacks run in threads of the graph client."""

    def __init__(self, graph: GraphClient, node: str) -> None:
        """Create the clients.

        Args:
            graph: The ROS 2 client.
            node: Fully qualified name of the node.
        """
        self._graph = graph
        self._node = node
        self._get = graph.service_client(f"{node}/get_parameters", GET_PARAMETERS)
        self._set = graph.service_client(f"{node}/set_parameters", SET_PARAMETERS)
        self._events: Any = None

    def close(self) -> None:
        """Destroy the clients. Calls in progress fail. Idempotent."""
        self.unfollow()
        self._graph.destroy(self._get)
        self._graph.destroy(self._set)

    def get(self, names: Iterable[str]) -> Future[dict[str, Any]]:
        """Return a future of the values of parameters, by name; those that are not set are left out.

        It fails with CallTimeoutError where the node does not answer.
        """
        asked = list(names)

        def values(answer: Any) -> dict[str, Any]:
            found = zip(asked, map(_value, answer.values), strict=False)
            return {name: value for name, value in found if value is not None}

        return _then(self._get.call({"names": asked}, timeout=TIMEOUT_S), values)

    def set(self, name: str, value: Any) -> Future[str]:
        """Return a future of the reason why a parameter cannot have a value, "" where it has it.

        It fails with CallTimeoutError where the node does not answer.
        """
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])

        def reason(answer: Any) -> str:
            result = answer.results[0]
            return "" if result.successful else str(result.reason) or "the node gave no reason"

        return _then(self._set.call(request, timeout=TIMEOUT_S), reason)

    def follow(self, callback: Callable[[Mapping[str, Any]], object]) -> None:
        """Call `callback(values)` with the new values of parameters, whoever changed them."""
        from usd_ros_bridge.model.plan import QosPlan

        def received(event: Any) -> None:
            if event.node == self._node:
                changed = (*event.new_parameters, *event.changed_parameters)
                callback({each.name: _value(each.value) for each in changed})

        self.unfollow()
        self._events = self._graph.subscribe(
            EVENTS_TOPIC, PARAMETER_EVENT, received, qos=QosPlan(depth=_DEPTH)
        )

    def unfollow(self) -> None:
        """End `follow`. Idempotent."""
        events, self._events = self._events, None
        if events is not None:
            self._graph.destroy(events)


def _value(message: Any) -> Any:
    """Return the value of a rcl_interfaces/msg/ParameterValue, None where it is not set."""
    from rclpy.parameter import parameter_value_to_python

    value = parameter_value_to_python(message)
    return value if value is None or isinstance(value, (bool, int, float, str)) else list(value)


def _then(future: Future[Any], convert: Callable[[Any], Any]) -> Future[Any]:
    """Return a future of what `convert` makes of a future's result."""
    converted: Future[Any] = Future()

    def done(given: Future[Any]) -> None:
        with suppress(InvalidStateError):
            try:
                converted.set_result(convert(given.result()))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
                converted.set_exception(error)

    future.add_done_callback(done)
    return converted

"""A node's parameter services, as `ros2 param` uses them."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.parameter import Parameter

from usd_ros_bridge.testing.ros_observer import answers

_FIELDS = {
    ParameterType.PARAMETER_BOOL: "bool_value",
    ParameterType.PARAMETER_INTEGER: "integer_value",
    ParameterType.PARAMETER_DOUBLE: "double_value",
    ParameterType.PARAMETER_STRING: "string_value",
    ParameterType.PARAMETER_STRING_ARRAY: "string_array_value",
}


def call(harness: Any, node: str, kind: Any, name: str, request: Any, *, timeout: float = 60.0) -> Any:
    """Calls a parameter service of a node; returns the response.

    The request may do something, and is sent once. Before it the node is asked, until it answers, for the values of no
    parameters.
    """
    client = harness.node.create_client(kind, f"{node}/{name}")
    probe = harness.node.create_client(GetParameters, f"{node}/get_parameters")
    try:
        harness.wait_for(client.service_is_ready, timeout=timeout, what=name)
        known = answers(probe, GetParameters.Request())
        harness.wait_for(known, timeout=timeout, what=f"an answer of {node}")
        future = client.call_async(request)
        harness.wait_for(future.done, timeout=timeout, what=f"the answer of {name}")
        return future.result()
    finally:
        for each in (client, probe):
            harness.node.destroy_client(each)


class ParameterClient:
    """Sets, gets, lists and describes parameters of a node elsewhere."""

    def __init__(self, harness: Any, node: str = "/usd_ros_bridge") -> None:
        self._harness = harness
        self._node = node

    def call(self, kind: Any, name: str, request: Any) -> Any:
        return call(self._harness, self._node, kind, name, request)

    def set(self, name: str, value: Any) -> str:
        """Sets one; returns the reason why not."""
        request = SetParameters.Request(parameters=_messages({name: value}))
        (result,) = self.call(SetParameters, "set_parameters", request).results
        return str(result.reason)

    def set_together(self, values: dict[str, Any]) -> str:
        """Sets several in one request; returns the reason why not."""
        request = SetParametersAtomically.Request(parameters=_messages(values))
        return str(self.call(SetParametersAtomically, "set_parameters_atomically", request).result.reason)

    def get(self, name: str) -> Any:
        values = self.call(GetParameters, "get_parameters", GetParameters.Request(names=[name])).values
        if not values or values[0].type not in _FIELDS:
            return None
        value = getattr(values[0], _FIELDS[values[0].type])
        return list(value) if values[0].type == ParameterType.PARAMETER_STRING_ARRAY else value

    def wait(self, name: str, value: Any) -> None:
        """Waits until a parameter has a value."""
        self._harness.wait_for(lambda: self.get(name) == value, what=f"{name} = {value}")

    def names(self) -> set[str]:
        return set(self.call(ListParameters, "list_parameters", ListParameters.Request()).result.names)

    def describe(self, name: str) -> Any:
        request = DescribeParameters.Request(names=[name])
        (found,) = self.call(DescribeParameters, "describe_parameters", request).descriptors
        return found


def _messages(values: dict[str, Any]) -> list[Any]:
    return [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]

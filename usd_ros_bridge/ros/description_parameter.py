"""The parameter robot_description, where a node has it: some tools ask robot_state_publisher for it, not the topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException
from rclpy.parameter import Parameter

from usd_ros_bridge.model.diagnostics import escaped
from usd_ros_bridge.model.errors import OptionError
from usd_ros_bridge.ros.domains import Domain

ROBOT_DESCRIPTION = "robot_description"


def declare_description(node: Any) -> str:
    """Declares the parameter on a node, and returns what it was given: text that the asset's own will replace.

    Raises:
        OptionError: It was given something else than text.
    """
    about = ParameterDescriptor(description="The robot as URDF, once it is made from the asset.")
    try:
        return str(node.declare_parameter(ROBOT_DESCRIPTION, "", about).value)
    except ParameterException as error:
        raise OptionError(f"parameter {ROBOT_DESCRIPTION}: {' '.join(str(error).split())}") from error


class DescriptionParameter:
    """Shows the description of one robot as a parameter, where the node has it, and lets nobody else change it."""

    def __init__(self, domain: Domain) -> None:
        """Stores whose parameter; `open` begins to watch it."""
        self._domain = domain
        self._text: str | None = None
        self._watched = False

    def open(self) -> None:
        """Refuses what others ask for from here on."""
        node = self._domain.node
        if node.has_parameter(ROBOT_DESCRIPTION):
            node.add_on_set_parameters_callback(self._check)
            self._watched = True

    def show(self, text: str) -> None:
        """Makes it say `text`, from any thread."""
        if self._watched:
            self._text = text
            # Requests are handled there, too.
            self._domain.defer(self._set)

    def close(self) -> None:
        """Leaves the parameter alone. Idempotent."""
        watched, self._watched = self._watched, False
        if watched:
            self._domain.node.remove_on_set_parameters_callback(self._check)

    def _set(self) -> None:
        if self._watched:
            self._domain.node.set_parameters(
                [Parameter(ROBOT_DESCRIPTION, Parameter.Type.STRING, self._text)]
            )

    def _check(self, parameters: Sequence[Any]) -> Any:
        for parameter in parameters:
            if parameter.name == ROBOT_DESCRIPTION and parameter.value != self._text:
                reason = f"{ROBOT_DESCRIPTION} is made from the asset: edit that, or start with another one"
                return SetParametersResult(successful=False, reason=escaped(reason))
        return SetParametersResult(successful=True)

"""Messages from mappings of their fields, as `ros2 service call` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import BridgeError, choices


def make_message(message_class: Any, fields: Any) -> Any:
    """Returns a message of fields by name, nested ones likewise; a message is returned as it is.

    Args:
        message_class: Class of a message, request or goal.
        fields: One of them, or a mapping. Fields that it leaves out keep their defaults.

    Raises:
        BridgeError: A field does not exist, or its value does not fit.
    """
    if isinstance(fields, message_class):
        return fields
    if not isinstance(fields, Mapping):
        raise BridgeError(
            f"a {message_class.__name__} or a mapping of its fields is needed, not {type(fields).__name__}"
        )
    message = message_class()
    types = message.get_fields_and_field_types()
    for name, value in fields.items():
        if name not in types:
            raise BridgeError(
                f"{message_class.__name__} has no field {quoted(str(name))}; there are: {choices(types)}"
            )
        try:
            setattr(message, name, _fitting(getattr(message, name), value, types[name]))
        except (AssertionError, TypeError, ValueError) as error:
            text = " ".join(str(error).split())
            raise BridgeError(f"{message_class.__name__}: the field {name}: {text}") from None
    return message


def _fitting(before: Any, value: Any, type_name: str) -> Any:
    """Returns `value` as a field takes it whose default is `before`."""
    if isinstance(value, Mapping) and hasattr(before, "get_fields_and_field_types"):
        return make_message(type(before), value)
    if isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value):
        element = _element_class(type_name)
        return [make_message(element, each) for each in value]
    if isinstance(before, float) and type(value) is int:
        return float(value)
    # Without ROS_PYTHON_CHECK_FIELDS, messages take anything and fail where they are sent.
    if isinstance(before, (bool, int, float, str)) and not isinstance(value, type(before)):
        raise TypeError(f"it is {type(before).__name__}, not {type(value).__name__}")
    if type(value) is bool and type(before) is int:
        raise TypeError("it is int, not bool")
    return value


def _element_class(type_name: str) -> Any:
    """Returns the class of the elements of `sequence<package/Name>`, `sequence<package/Name, 3>` or an array."""
    element = type_name.removeprefix("sequence<").partition("[")[0].partition(",")[0].rstrip(">")
    package, _, name = element.partition("/")
    if not name:
        raise TypeError(f"its elements are {element}, no messages")
    # The definition of an installed type names it: nothing that came from an asset.
    return getattr(import_module(f"{package}.msg"), name)

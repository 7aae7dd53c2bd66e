"""Interface types of the ROS environment, and messages made from mappings of their fields."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from usd_ros_bridge.ament_index import resource_names, resource_text
from usd_ros_bridge.errors import BridgeError, alternatives, quoted

_TYPE_NAME = re.compile(r"(?P<package>[a-z][a-z0-9_]*)/(?P<kind>msg|srv|action)/(?P<name>[A-Z][A-Za-z0-9]*)")


_INTERFACES = "rosidl_interfaces"
_PACKAGE = re.compile(r"[a-z][a-z0-9_]*")


class InterfaceTypeError(Exception):
    """An interface type is not installed or cannot be imported. It disables one interface and ends there."""


class AmentCatalog:
    """The interface types of the ROS environment (a `TypeCatalog` for planning).

    A package's listing is read once, from the resource `rosidl_interfaces` of the ament index; nothing is imported.
    """

    def __init__(self) -> None:
        self._packages: dict[str, frozenset[str]] = {}

    def contains(self, type_name: str) -> bool:
        """Return whether `type_name` (`sensor_msgs/msg/Image`) is installed."""
        match = _TYPE_NAME.fullmatch(type_name)
        return match is not None and f"{match['kind']}/{match['name']}" in self._listing(match["package"])

    def types_of(self, package: str) -> frozenset[str]:
        """Return the types of an installed package (`msg/Image`), none of another."""
        return self._listing(package) if _PACKAGE.fullmatch(package) else frozenset()

    def packages(self) -> frozenset[str]:
        """Return the installed packages that have interface types."""
        return resource_names(_INTERFACES)

    def _listing(self, package: str) -> frozenset[str]:
        listing = self._packages.get(package)
        if listing is None:
            content = resource_text(_INTERFACES, package) or ""
            # One definition file a line: msg/Image.msg, msg/Image.idl.
            listing = frozenset(line.strip().rpartition(".")[0] for line in content.splitlines())
            self._packages[package] = listing
        return listing


def import_interface(type_name: str, catalog: AmentCatalog) -> Any:
    """Import a message, service or action class.

    Args:
        type_name: `package/msg/Name`, `package/srv/Name` or `package/action/Name`.
        catalog: What is installed; nothing else is ever imported (a type string comes from an asset).

    Raises:
        InterfaceTypeError: The type is not in the ament index, or its Python module cannot be imported.
    """
    if not catalog.contains(type_name):
        raise InterfaceTypeError(f"the type {type_name!r} is not installed in this ROS environment")
    try:
        return _get_interface(type_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InterfaceTypeError(
            f"the type {type_name!r} is installed without its Python module: {error}"
        ) from error


def make_message(message_class: Any, fields: Any) -> Any:
    """Return a message made of fields by name, nested ones likewise; return a message as it is.

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
    checked = _check_fields(message, fields)
    try:
        _set_fields(message, checked)
    except (AssertionError, AttributeError, OverflowError, TypeError, ValueError) as error:
        raise BridgeError(f"{message_class.__name__}: {' '.join(str(error).split())}") from None
    return message


def _check_fields(message: Any, fields: Mapping[Any, Any]) -> dict[str, Any]:
    """Return `fields` as plain values and mappings of them.

    rosidl_runtime_py converts whatever it gets, and takes "false" for true; messages without ROS_PYTHON_CHECK_FIELDS
    take anything, and fail where they are sent.
    """
    types = message.get_fields_and_field_types()
    checked = {}
    for name, value in fields.items():
        if name not in types:
            raise BridgeError(
                f"{type(message).__name__} has no field {quoted(str(name))}; {alternatives(str(name), types, count=20)}"
            )
        try:
            checked[name] = _checked(getattr(message, name), value, types[name])
        except TypeError as error:
            raise BridgeError(f"{type(message).__name__}: the field {name}: {error}") from None
    return checked


def _checked(default: Any, value: Any, type_name: str) -> Any:
    if is_message(default):
        if isinstance(value, Mapping):
            return _check_fields(default, value)
        fits = isinstance(value, type(default))
    elif isinstance(default, (list, array, np.ndarray)):
        if isinstance(value, (list, tuple)) and any(
            is_message(each) or isinstance(each, Mapping) for each in value
        ):
            return [
                _check_fields(element, each) if isinstance(each, Mapping) else _plain(each)
                for each in value
                for element in (element_class(type_name)(),)
            ]
        fits = not isinstance(value, (str, Mapping))
    else:
        if isinstance(default, float) and type(value) is int:
            return float(value)
        fits = isinstance(value, type(default)) and (type(value) is not bool or type(default) is bool)
    if not fits:
        raise TypeError(f"it is {type(default).__name__}, not {type(value).__name__}")
    return value


def is_message(value: Any) -> bool:
    """Return whether a value is a message of any type."""
    return hasattr(value, "get_fields_and_field_types")


def _plain(value: Any) -> Any:
    """Return a message as a mapping of its fields: rosidl_runtime_py takes no messages within lists."""
    if is_message(value):
        return {name: _plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


# --- rosidl_runtime_py, and what stands in where only the wheels of rclpy are installed -------------------------------


def _get_interface(type_name: str) -> Any:
    try:
        from rosidl_runtime_py.utilities import get_interface
    except ImportError:
        package, kind, name = type_name.split("/")
        return getattr(import_module(f"{package}.{kind}"), name)
    return get_interface(type_name)


def _set_fields(message: Any, values: Mapping[str, Any]) -> None:
    try:
        from rosidl_runtime_py import set_message_fields
    except ImportError:
        set_message_fields = _set_plain_fields
    set_message_fields(message, values)


def _set_plain_fields(message: Any, values: Mapping[str, Any]) -> None:
    types = message.get_fields_and_field_types()
    for name, value in values.items():
        given = value
        if isinstance(value, Mapping):
            given = getattr(message, name)
            _set_plain_fields(given, value)
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            element = element_class(types[name])
            given = [element() for _ in value]
            for each, fields in zip(given, value, strict=True):
                _set_plain_fields(each, fields)
        setattr(message, name, given)


def element_class(type_name: str) -> Any:
    """Return the class of the elements of `sequence<package/Name>`, `sequence<package/Name, 3>` or an array.

    Raises:
        TypeError: The elements are no messages.
    """
    element = type_name.removeprefix("sequence<").partition("[")[0].partition(",")[0].rstrip(">")
    package, _, name = element.partition("/")
    if not name:
        raise TypeError(f"its elements are {element}, no messages")
    # The definition of an installed type names it: nothing that came from an asset.
    return _get_interface(f"{package}/msg/{name}")

"""Interface types of the ROS environment: looked up in the ament index, and imported only when they stand there."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from ament_index_python import get_resource

_TYPE_NAME = re.compile(r"(?P<package>[a-z][a-z0-9_]*)/(?P<kind>msg|srv|action)/(?P<name>[A-Z][A-Za-z0-9]*)")


class InterfaceTypeError(Exception):
    """An interface type is not installed or cannot be imported. It disables one interface and ends there."""


class AmentCatalog:
    """The interface types that the sourced environment has (a `TypeCatalog` for planning).

    A package's listing is read once, from the resource `rosidl_interfaces` of the ament index; nothing is imported.
    """

    def __init__(self) -> None:
        self._packages: dict[str, frozenset[str]] = {}

    def contains(self, type_name: str) -> bool:
        """Returns whether `type_name` (`sensor_msgs/msg/Image`) is installed."""
        match = _TYPE_NAME.fullmatch(type_name)
        return match is not None and f"{match['kind']}/{match['name']}" in self._listing(match["package"])

    def _listing(self, package: str) -> frozenset[str]:
        listing = self._packages.get(package)
        if listing is None:
            try:
                content, _ = get_resource("rosidl_interfaces", package)
            except (LookupError, OSError):
                content = ""
            # One definition file a line: msg/Image.msg, msg/Image.idl.
            listing = frozenset(line.strip().rpartition(".")[0] for line in content.splitlines())
            self._packages[package] = listing
        return listing


def import_interface(type_name: str, catalog: AmentCatalog) -> Any:
    """Imports a message, service or action class.

    Args:
        type_name: `package/msg/Name`, `package/srv/Name` or `package/action/Name`.
        catalog: What is installed; nothing else is ever imported (a type string comes from an asset).

    Raises:
        InterfaceTypeError: The type is not in the ament index, or its Python module cannot be imported.
    """
    if not catalog.contains(type_name):
        raise InterfaceTypeError(f"the type {type_name!r} is not installed in this ROS environment")
    package, kind, name = type_name.split("/")
    try:
        return getattr(import_module(f"{package}.{kind}"), name)
    except (ImportError, AttributeError) as error:
        raise InterfaceTypeError(
            f"the type {type_name!r} is installed without its Python module: {error}"
        ) from error

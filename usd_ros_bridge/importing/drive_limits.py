"""Limits of a differential drive that a URDF names: in plug-ins of Gazebo, and in parameters of ros2_control."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from usd_ros_bridge.importing.xml_file import Element
from usd_ros_bridge.model.scaffold import DriveLimits

_CLASSIC = "diff_drive"
"""In the file names of Gazebo Classic's plug-ins: libgazebo_ros_diff_drive.so, and gazebo_ros's for skid steering."""
_GZ = ("gz-sim-diff-drive-system", "ignition-gazebo-diff-drive-system")
_CONTROL = "ros2_control"
_GZ_TAGS = {
    "linear_velocity": ("max_linear_velocity", "max_velocity"),
    "angular_velocity": ("max_angular_velocity", "max_velocity"),
    "linear_acceleration": ("max_linear_acceleration", "max_acceleration"),
    "angular_acceleration": ("max_angular_acceleration", "max_acceleration"),
}
"""Tags of gz-sim's DiffDrive, m and rad: those of one direction, then those of both."""
_PARAMETERS = {
    "linear_velocity": ("linear.x", "velocity"),
    "angular_velocity": ("angular.z", "velocity"),
    "linear_acceleration": ("linear.x", "acceleration"),
    "angular_acceleration": ("angular.z", "acceleration"),
}
"""Parameters of ros2_controllers' diff_drive_controller."""


def drive_limits(root: Element, find_file: Callable[[Element], Path | None]) -> DriveLimits:
    """Return the limits of the first plug-in that names any.

    Args:
        root: `<robot>` of a URDF.
        find_file: Return the file that a `<parameters>` names, None for one that is not read.
    """
    unread = ""
    for plugin in (each for each in root.walk() if each.tag == "plugin"):
        name = plugin.attributes.get("filename", "")
        if any(each in name for each in _GZ):
            found = _of_tags(plugin, _GZ_TAGS, f"{name} at {plugin.place}")
        elif _CLASSIC in name:
            # It bounds the speed of the tread.
            tags = {"linear_acceleration": ("max_wheel_acceleration",)}
            found = _of_tags(plugin, tags, f"{name} at {plugin.place}")
        elif _CONTROL in name and (parameters := plugin.first("parameters")) is not None:
            path = find_file(parameters)
            found = _of_parameters(path) if path is not None else DriveLimits()
            if found.unread or path is None:
                unread = parameters.text
        else:
            continue
        if found.source:
            return found
    return DriveLimits(unread=unread)


def _of_tags(plugin: Element, tags: Mapping[str, tuple[str, ...]], source: str) -> DriveLimits:
    values: dict[str, Any] = {}
    for field, names in tags.items():
        texts = [found.text for name in names if (found := plugin.first(name)) is not None]
        value = _limit(texts[0]) if texts else None
        if value is not None:
            values[field] = value
    return DriveLimits(**values, source=source) if values else DriveLimits()


def _limit(value: object) -> float | None:
    """Return a limit, None for what bounds nothing: 0, NaN, infinity, or no number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number > 0.0 else None


def _of_parameters(path: Path) -> DriveLimits:
    """Return the limits of the first diff_drive_controller in a file of parameters, `unread` for a file that fails."""
    try:
        nodes = _read_nodes(path)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return DriveLimits(unread=str(path))
    for flat in nodes:
        if "left_wheel_names" not in flat:
            continue
        values: dict[str, Any] = {}
        for field, (axis, kind) in _PARAMETERS.items():
            value = _limit(flat.get(f"{axis}.max_{kind}"))
            if value is not None and flat.get(f"{axis}.has_{kind}_limits", True) is not False:
                values[field] = value
        if values:
            return replace(DriveLimits(**values), source=path.name)
    return DriveLimits()


def _read_nodes(path: Path) -> list[dict[str, Any]]:
    """Return the parameters of every node in a file, by dotted name.

    Raises:
        ValueError: It is no file, or has aliases: a small file could be a large one.
    """
    if not path.is_file():
        raise ValueError("it is no file")
    content = path.read_bytes()
    if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(content)):
        raise ValueError("it has aliases")
    return [dict(_flat(each)) for each in _nodes(yaml.safe_load(content))]


def _nodes(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters of every node, whatever namespaces are above it."""
    if not isinstance(content, Mapping):
        return
    for name, value in content.items():
        if name == "ros__parameters" and isinstance(value, Mapping):
            yield value
        else:
            yield from _nodes(value)


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

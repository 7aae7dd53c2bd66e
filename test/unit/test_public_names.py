"""What `usd_ros_bridge` exports: the names are loaded late, from texts, and each says what it is."""

from __future__ import annotations

import inspect

import pytest

import usd_ros_bridge


def without_docstring(name: str) -> list[str]:
    """A public name, and methods of it, where they have no docstring."""
    found = getattr(usd_ros_bridge, name)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return []
    missing = [] if found.__doc__ else [name]
    for member, value in vars(found).items() if inspect.isclass(found) else ():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not member.startswith("_") and inspect.isfunction(function) and not function.__doc__:
            missing.append(f"{name}.{member}")
    return missing


def test_public_names_resolve_and_have_docstrings() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    names = usd_ros_bridge.__all__
    assert [getattr(usd_ros_bridge, name).__name__.rpartition(".")[2] for name in names] == names
    assert [each for name in names for each in without_docstring(name)] == []

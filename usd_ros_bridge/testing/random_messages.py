"""Random messages: every installed message class, random contents for any of them, and the numbers in a message."""

from __future__ import annotations

import importlib
import random
import struct
from collections.abc import Iterator
from typing import Any

from rosidl_parser import definition

from usd_ros_bridge.ament_index import resource_names, resource_text

INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
TEXTS = ("", "a", "frame_1", "Grüße", "関節", "🦾 arm", "x" * 41)


def installed_types() -> dict[str, Any]:
    """Return all installed messages by name: of topics, both sides of services, and what actions send."""
    found: dict[str, Any] = {}
    for package in sorted(resource_names("rosidl_interfaces")):
        for line in (resource_text("rosidl_interfaces", package) or "").splitlines():
            kind, _, file = line.partition("/")
            name, _, suffix = file.rpartition(".")
            if suffix != "msg" and (kind, suffix) not in (("srv", "srv"), ("action", "action")):
                continue
            interface = getattr(importlib.import_module(f"{package}.{kind}"), name)
            found.update((f"{package}/{kind}/{part}", cls) for part, cls in _messages(name, kind, interface))
    return found


def _messages(name: str, kind: str, interface: Any) -> Iterator[tuple[str, Any]]:
    if kind == "msg":
        yield name, interface
    elif kind == "srv":
        yield f"{name}_Request", interface.Request
        yield f"{name}_Response", interface.Response
    else:
        impl = interface.Impl
        yield f"{name}_Goal", interface.Goal
        yield f"{name}_Result", interface.Result
        yield f"{name}_FeedbackMessage", impl.FeedbackMessage
        yield f"{name}_SendGoal_Request", impl.SendGoalService.Request
        yield f"{name}_SendGoal_Response", impl.SendGoalService.Response
        yield f"{name}_GetResult_Response", impl.GetResultService.Response


def fields(message: Any) -> dict[str, Any]:
    """Return the slot types by field name."""
    return dict(zip(message.get_fields_and_field_types(), message.SLOT_TYPES, strict=True))


def fill(message: Any, rng: random.Random, depth: int = 0, *, least: int = 0) -> Any:
    """Fill every field of a message with random contents, and return it.

    Args:
        message: A message object.
        rng: Random numbers.
        depth: Messages around it.
        least: Least number of elements of a sequence; there are at most four.
    """
    for name, slot_type in fields(message).items():
        if isinstance(slot_type, definition.NamespacedType):
            fill(getattr(message, name), rng, depth + 1, least=least)
            continue
        if not isinstance(slot_type, definition.AbstractNestedType):
            setattr(message, name, _random(slot_type, rng, depth))
            continue
        size = getattr(slot_type, "size", None)
        if size is None:
            most = min(4 if depth < 3 else 1, getattr(slot_type, "maximum_size", 4))
            size = rng.randint(min(least, most), most)
        values = [_random(slot_type.value_type, rng, depth + 1) for _ in range(size)]
        current = getattr(message, name)
        if hasattr(current, "dtype"):
            current[:] = values
        else:
            setattr(message, name, values)
    return message


def _random(slot_type: Any, rng: random.Random, depth: int) -> Any:
    if isinstance(slot_type, definition.AbstractGenericString):
        wide = isinstance(slot_type, definition.AbstractWString)
        text = rng.choice(TEXTS)
        limit = getattr(slot_type, "maximum_size", None)
        return (
            text
            if limit is None
            else text.encode("ascii", "ignore").decode()[:limit]
            if not wide
            else text[:limit]
        )
    if isinstance(slot_type, definition.NamespacedType):
        module = importlib.import_module(".".join(slot_type.namespaces))
        return fill(getattr(module, slot_type.name)(), rng, depth + 1)
    return random_number(slot_type.typename, rng)


def random_number(type_name: str, rng: random.Random) -> Any:
    """Return a random number of an IDL type, as rclpy represents it."""
    if type_name == "boolean":
        return rng.random() < 0.5
    if type_name == "octet":
        return bytes([rng.randrange(256)])
    if type_name == "double":
        return rng.uniform(-1e6, 1e6)
    if type_name == "float":
        return struct.unpack("f", struct.pack("f", rng.uniform(-1e6, 1e6)))[0]
    sign, bits = INTEGERS[type_name]
    return rng.randrange(1 << bits) - (0 if sign else 1 << (bits - 1))


def numbers(message: Any, prefix: str = "") -> Iterator[tuple[str, str, list[Any]]]:
    """Yield path, IDL type and values of every field that holds numbers."""
    for name, slot_type in fields(message).items():
        value, path = getattr(message, name), prefix + name
        many = isinstance(slot_type, definition.AbstractNestedType)
        element = slot_type.value_type if many else slot_type
        if isinstance(element, definition.BasicType):
            yield path, element.typename, list(value) if many else [value]
        elif isinstance(element, definition.NamespacedType):
            if not many:
                yield from numbers(value, path + ".")
                continue
            for index, item in enumerate(value):
                yield from numbers(item, f"{path}[{index}].")


def contents(message: Any) -> Iterator[Any]:
    """Yield every text and every length of a sequence, in the order of the wire."""
    for name, slot_type in fields(message).items():
        value = getattr(message, name)
        many = isinstance(slot_type, definition.AbstractNestedType)
        if many:
            yield len(value)
        element = slot_type.value_type if many else slot_type
        for item in value if many else [value]:
            if isinstance(element, definition.AbstractGenericString):
                yield item
            elif isinstance(element, definition.NamespacedType):
                yield from contents(item)

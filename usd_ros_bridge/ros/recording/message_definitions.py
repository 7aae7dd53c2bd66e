"""Message definitions: the text of a type and of all types in it, as MCAP's schema encoding `ros2msg` has it."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from usd_ros_bridge.ament_index import share_directory

_SEPARATOR = "=" * 80
_WORDS = {"boolean": "bool", "octet": "byte", "float": "float32", "double": "float64"}
"""Names of IDL, in which rosidl describes fields, that a .msg file writes differently."""

_SEQUENCE = re.compile(r"sequence<(?P<element>[^,]+)(?:, (?P<bound>\d+))?>")
_ARRAY = re.compile(r"(?P<element>.+)\[(?P<size>\d+)\]")
_TEXT = re.compile(r"(?P<text>w?string)<(?P<bound>\d+)>")


def type_name(message_class: Any) -> str:
    """Return the type of a message class, as `std_msgs/msg/String`; of a request, `std_srvs/srv/SetBool_Request`."""
    package, kind = message_class.__module__.split(".")[:2]
    return f"{package}/{kind}/{message_class.__name__}"


@cache
def message_definition(message_class: Any) -> str:
    """Return the definition of a type, followed by those of all types in it.

    The text is that of the package's .msg file. Where it is not installed, it is made from the fields of the class;
    constants and defaults are then missing.

    Args:
        message_class: Class of a message, a request, a response or a goal.
    """
    texts = [_own_definition(message_class)]
    found = {type_name(message_class)}
    waiting = _nested(message_class)
    while waiting:
        each = waiting.pop(0)
        name = type_name(each)
        if name in found:
            continue
        found.add(name)
        texts.append(f"{_SEPARATOR}\nMSG: {name.replace('/msg/', '/')}\n{_own_definition(each)}")
        waiting += _nested(each)
    return "\n".join(texts)


@cache
def type_hash(message_class: Any) -> str:
    """Return the type's hash (REP 2016), `RIHS01_...`; "" where the package does not say."""
    file = _definition_file(message_class, ".json")
    if file is None:
        return ""
    try:
        hashes = json.loads(file.read_text(encoding="utf-8"))["type_hashes"]
        wanted = type_name(message_class)
        return next(str(each["hash_string"]) for each in hashes if each["type_name"] == wanted)
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return ""


def _own_definition(message_class: Any) -> str:
    file = _definition_file(message_class, ".msg")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            pass
    types = message_class.get_fields_and_field_types()
    return "".join(f"{_field_type(kind)} {name}\n" for name, kind in types.items())


def _definition_file(message_class: Any, suffix: str) -> Path | None:
    package, kind, name = type_name(message_class).split("/")
    share = share_directory(package)
    file = None if share is None else share / kind / f"{name}{suffix}"
    return file if file is not None and file.is_file() else None


def _field_type(kind: str) -> str:
    """Return the type of a field in the words of .msg files."""
    if sequence := _SEQUENCE.fullmatch(kind):
        bound = f"<={sequence['bound']}" if sequence["bound"] else ""
        return f"{_field_type(sequence['element'])}[{bound}]"
    if array := _ARRAY.fullmatch(kind):
        return f"{_field_type(array['element'])}[{array['size']}]"
    if text := _TEXT.fullmatch(kind):
        return f"{text['text']}<={text['bound']}"
    return _WORDS.get(kind, kind)


def _nested(message_class: Any) -> list[Any]:
    """Return the classes of the messages among the fields of a class."""
    classes = []
    for kind in message_class.get_fields_and_field_types().values():
        element = kind
        while match := _SEQUENCE.fullmatch(element) or _ARRAY.fullmatch(element):
            element = match["element"]
        if "/" in element:
            package, name = element.split("/")
            classes.append(getattr(import_module(f"{package}.msg"), name))
    return classes

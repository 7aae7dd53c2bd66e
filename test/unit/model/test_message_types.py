"""Type names are spelled in two places: the table of what types mean, and the codecs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import usd_ros_bridge
from foreign_plugins import install_plugin
from usd_ros_bridge.model.message_types import MESSAGE_TYPES, MessageType, message_type

PACKAGE = Path(usd_ros_bridge.__file__).parent
TYPE_NAME = re.compile(r"[a-z][a-z0-9_]*/(msg|srv|action)/([A-Z]|$)")
PART = re.compile(r"\b(msg|srv|action)/")
SPELLED = ("model/message_types.py", "ros/codecs/", "testing/")


def spelled(source: str) -> list[int]:
    """The lines with a type name in a string, docstrings apart."""
    tree = ast.parse(source)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and TYPE_NAME.search(node.value)
    ]


def test_no_other_module_spells_a_type_name() -> None:
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }
    found = {
        f"{name}:{line}"
        for name, source in sources.items()
        # Most modules have no such text at all: to parse them would cost a second.
        if not name.startswith(SPELLED) and PART.search(source)
        for line in spelled(source)
    }
    assert not found


def test_the_search_finds_type_names() -> None:
    for source in (
        'TYPE = "sensor_msgs/msg/Imu"',
        'f"sensor_msgs/msg/{name}"',
        'say("author a std_srvs/srv/Trigger")',
    ):
        assert PART.search(source)
        assert spelled(source) == [1]
        assert not spelled(f"'''{source}'''")


def test_a_type_without_a_row_means_nothing() -> None:
    assert message_type("my_msgs/msg/Thing") == MessageType()
    assert all(meaning != MessageType() for meaning in MESSAGE_TYPES.values()), "a row that says nothing"


def test_a_plugin_says_what_a_type_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = """
        from usd_ros_bridge import CodecPlugin, MessageType

        HEAT = CodecPlugin(meaning=MessageType(of_body=True))
        KEPT = CodecPlugin()
    """
    points = {
        "my_msgs.msg.Heat": "plugin_of_meanings:HEAT",
        "visualization_msgs.msg.Marker": "plugin_of_meanings:KEPT",
        "nav_msgs.msg.Path": "plugin_of_meanings:HEAT",
        "sensor_msgs.msg.Imu": "plugin_of_meanings:HEAT",
        "my_msgs.Cold": "plugin_of_meanings:HEAT",
    }
    install_plugin(
        tmp_path, "meanings", entry_points={"codecs": points}, modules={"plugin_of_meanings": text}
    )
    assert message_type("my_msgs/msg/Heat") == message_type("nav_msgs/msg/Path") == MessageType(of_body=True)
    assert message_type("visualization_msgs/msg/Marker").display == "Marker"
    assert message_type("sensor_msgs/msg/Imu").sensor == "imu"
    assert "the entry point is named after no type, such as my_msgs.msg.Heat" in MESSAGE_TYPES.fault(
        "my_msgs/Cold"
    )

"""Message definitions: rosbags, which parses them by itself, finds the types that the packages describe."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from case_tables import each_case

pytest.importorskip("ament_index_python", reason="ROS 2 is not installed: make setup, or source ROS 2")

from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from usd_ros_bridge.ros.codecs import CODECS
from usd_ros_bridge.ros.recording import message_definitions
from usd_ros_bridge.ros.recording.message_definitions import message_definition, type_hash, type_name

pytestmark = pytest.mark.app


def message_class(name: str) -> Any:
    package, kind, message = name.split("/")
    return getattr(import_module(f"{package}.{kind}"), message)


@each_case("name", [*sorted(CODECS), "tf2_msgs/msg/TFMessage", "diagnostic_msgs/msg/DiagnosticArray"])
@each_case("installed", [True, False])
def test_a_parser_of_others_finds_the_same_type(
    name: str, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = message_class(name)
    if not installed:
        monkeypatch.setattr(message_definitions, "share_directory", lambda _: None)
    message_definition.cache_clear()
    try:
        text = message_definition(kind)
    finally:
        message_definition.cache_clear()
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(text, name))
    monkeypatch.undo()
    assert type_name(kind) == name
    # rosbags takes char for another name of uint8.
    if type_hash(kind) and name != "std_msgs/msg/Char":
        # REP 2016: the hash is of names and types of all fields, of all types within.
        assert store.hash_rihs01(name) == type_hash(kind)
    assert [each for each, _ in store.fielddefs[name][1]] == list(kind.get_fields_and_field_types())


def test_a_request_has_a_definition_too() -> None:
    from std_srvs.srv import SetBool

    assert type_name(SetBool.Request) == "std_srvs/srv/SetBool_Request"
    assert message_definition(SetBool.Request) == "bool data\n"

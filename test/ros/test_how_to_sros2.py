"""The recipe for SROS 2: its policy allows what the bridge of the example rover uses, and nothing else."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from markdown_docs import blocks, page_path
from programs import Program

pytestmark = pytest.mark.docs

NODE = "usd_ros_bridge"
ON_DEMAND = {"/tf", "/tf_static"}
"""Subscribed to only while other nodes publish there."""


def allowed(kind: str, how: str) -> set[str]:
    """The full names that the policy allows the bridge."""
    (text,) = [block.text for block in blocks(page_path("sros2.md")) if block.title == "rover_policy.xml"]
    (profile,) = [
        each for each in ET.fromstring(text.encode()).iter("profile") if each.attrib["node"] == NODE
    ]
    found = {
        each.text or "" for group in profile if group.attrib.get(how) == "ALLOW" for each in group.iter(kind)
    }
    return {name.replace("~", f"/{NODE}", 1) for name in found}


def test_the_policy_is_what_the_bridge_uses(ros_harness, tmp_path):
    command = Path(sys.executable).parent / "usd_ros_bridge"
    restricted = ["-p", "remote_control:=none", "-p", "simulation_services:=false"]
    arguments = [str(command), "run", "--example", "rover", "--no-live", "--ros-args", *restricted]
    node = ros_harness.node

    def now(question: str) -> set[str]:
        return {name for name, _ in getattr(node, question)(NODE, "/")}

    with Program(arguments, cwd=tmp_path) as bridge:
        bridge.wait_for(": ready")
        ros_harness.wait_for(
            lambda: (
                (NODE, "/") in node.get_node_names_and_namespaces()
                and now("get_publisher_names_and_types_by_node") == allowed("topic", "publish")
                and now("get_service_names_and_types_by_node") == allowed("service", "reply")
                and now("get_subscriber_names_and_types_by_node") - ON_DEMAND
                == allowed("topic", "subscribe") - ON_DEMAND
            ),
            timeout=60.0,
            what="the names of the policy",
        )
        assert not now("get_client_names_and_types_by_node")
        assert bridge.interrupt() == 0

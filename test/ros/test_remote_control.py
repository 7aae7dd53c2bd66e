"""What other nodes may do to a bridge, by `remote_control`: held to the table of docs/reference/remote_control.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from parameter_client import ParameterClient
from rcl_interfaces.srv import GetParameters
from std_srvs.srv import Trigger

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "remote_control.md").read_text(encoding="utf-8")
ROVER = ROOT / "examples" / "rover" / "rover.usda"
LEVELS = ("all", "read_only", "none")


def offered_by_the_table(level: str) -> set[str]:
    """The services and actions that the table says are offered, apart from the asset's and rclpy's own."""
    names = set()
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 5 and cells[2 + LEVELS.index(level)] == "yes":
            names.update(re.findall(r"`(~/\w+|/rviz/\w+|\w+)`", cells[0]))
    return names - {"robot_description", "~/plan"}


def services_of(harness: Any) -> set[str]:
    """The names of the bridge's services, parameter services left out, and of its actions."""
    found = harness.node.get_service_names_and_types_by_node("usd_ros_bridge", "/")
    names = {
        name for name, types in found if not types[0].startswith(("rcl_interfaces/", "type_description"))
    }
    actions = {name.split("/_action/")[0] for name in names if "/_action/" in name}
    return {name for name in names if "/_action/" not in name} | actions


@pytest.mark.parametrize("level", LEVELS)
def test_services_are_those_of_the_table(start, ros_harness, tmp_path, level):
    start(
        load_plan(ROVER, physics=True),
        "mujoco",
        backend_options={"gl": "none"},
        remote_control=level,
        start_paused=True,
        spawn_roots=(str(tmp_path),),
    )
    ros_harness.wait_for(
        lambda: (
            "usd_ros_bridge" in ros_harness.node.get_node_names()
            and (level == "none" or "/get_entities" in services_of(ros_harness))
        ),
        what="the bridge's node",
    )
    # Parameter services come with the node, before the others would.
    client = ros_harness.node.create_client(GetParameters, "/usd_ros_bridge/get_parameters")
    ros_harness.wait_for(client.service_is_ready, what="its parameters")
    expected = {name.replace("~", "/usd_ros_bridge") for name in offered_by_the_table(level)}
    expected = {name if name.startswith("/") else f"/{name}" for name in expected}
    # They are discovered one by one.
    ros_harness.wait_for(lambda: services_of(ros_harness) >= expected, what=f"{sorted(expected)}")
    getters = {name for name in services_of(ros_harness) if name.startswith("/get_")}
    assert bool(getters) == (level != "none")
    assert services_of(ros_harness) - getters - {"/rover/set_headlights"} == expected


@pytest.mark.parametrize("level", LEVELS)
def test_parameters_are_set_by_others_only_where_that_is_allowed(start, ros_harness, level):
    bridge = start(load_plan(ROVER), remote_control=level).bridge
    client = ParameterClient(ros_harness)
    name = next(each for each in client.names() if each.startswith("enabled."))
    rate = next(each for each in client.names() if each.startswith("rate."))
    reason = "" if level == "all" else f"remote_control is {level}: {{}} cannot be set"
    for each, value in (("tf_output", "global"), (name, True), (rate, 7.0)):
        assert client.set(each, value) == reason.format(each)
    assert client.get(rate) is not None
    if level != "all":
        assert client.get("tf_output") == "namespaced"
        # What the host itself asks for is done, and shown.
        bridge.change(plan_options=bridge.changes.plan_options.__class__(tf_output="both")).result(30.0)
        client.wait("tf_output", "both")
        client.wait(rate, client.get(rate))


@pytest.mark.parametrize("level", ["all", "read_only"])
def test_reload_is_there_for_all_alone(start, ros_harness, level):
    bridge = start(load_plan(ROVER), remote_control=level).bridge
    client = ros_harness.node.create_client(Trigger, "/usd_ros_bridge/reload")
    rows = {row.name for row in bridge.status().interfaces}
    assert ("/usd_ros_bridge/reload" in rows) == (level == "all")
    if level == "all":
        ros_harness.wait_for(client.service_is_ready, what="~/reload")


def test_a_spawn_root_that_is_no_directory_is_refused_at_every_level(tmp_path):
    plan = load_plan(ROVER, physics=True)
    for level in LEVELS:
        options = BridgeOptions(
            backend_options={"gl": "none"}, remote_control=level, spawn_roots=(str(tmp_path / "gone"),)
        )
        with pytest.raises(OptionError, match="gone' is no directory"):
            Bridge(plan, "mujoco", options=options).open()


def test_another_level_is_refused():
    with pytest.raises(OptionError, match="remote_control 'some' is not possible; there are: all, none"):
        Bridge(load_plan(ROVER), options=BridgeOptions(remote_control="some")).open()

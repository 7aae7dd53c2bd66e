"""One name has one type in a process: the first in the order of the plan has it, and the others say why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ros_plans import plan, publisher, subscription
from usd_ros_bridge import Bridge, BridgeOptions
from usd_ros_bridge.testing.graphs import graph_of

POSE, TWIST, MISSING = (
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/TwistStamped",
    "no_such_msgs/msg/Thing",
)


def rows(*topics):
    with Bridge(
        plan(*topics), options=BridgeOptions(threaded=False), report=lambda *_: None, inform=lambda *_: None
    ) as bridge:
        return {row.path: row for row in bridge.status().interfaces if row.path}


@pytest.mark.parametrize("make", [publisher, subscription])
def test_the_second_type_of_a_name_is_disabled(make):
    first = publisher("/arm/place", POSE)
    second = replace(make("/arm/place", TWIST), path="/arm/second")
    found = rows(first, second)
    assert found[first.path].state != "disabled"
    assert found["/arm/second"].state == "disabled"
    assert found["/arm/second"].reason == f"{first.path} has the name /arm/place with the type {POSE}"


def test_two_of_one_type_both_work_and_a_type_that_is_missing_takes_no_name():
    missing = replace(publisher("/arm/place", MISSING), path="/arm/missing")
    first = publisher("/arm/place", POSE)
    other = replace(first, path="/arm/other")
    found = rows(missing, first, other)
    assert found["/arm/missing"].state == "disabled"
    assert [found[path].state != "disabled" for path in (first.path, "/arm/other")] == [True, True]


def test_a_disabled_interface_takes_no_name():
    off = replace(publisher("/arm/place", POSE), path="/arm/off", enabled=False, reason="off")
    with Bridge(
        plan(off, publisher("/arm/place", TWIST)),
        options=BridgeOptions(threaded=False),
        report=lambda *_: None,
        inform=lambda *_: None,
    ) as bridge:
        assert any(line.startswith(f"publisher /arm/place [{TWIST}]") for line in graph_of(bridge).lines)

"""Waiting for a bridge from outside: for its plan, for what it serves, and for messages, whatever their QoS."""

from __future__ import annotations

import threading

import pytest

from ros_plans import JOINT_COMMANDS, JOINT_STATES, plan, publisher
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.plan import QosPlan, ServicePlan
from usd_ros_bridge.testing.readiness import (
    NotReadyError,
    ReadinessObserver,
    ServedInterface,
    served_interfaces,
)

NODE = "/usd_ros_bridge"
SWITCHED_OFF = publisher(
    "/arm/off", "sensor_msgs/msg/Imu", enabled=False, starts_enabled=False, reason="switched off"
)


def read_plan():
    with ReadinessObserver(timeout=60.0) as observer:
        return observer.wait_for_plan(NODE)


def test_the_plan_of_a_bridge_that_starts_later_is_waited_for(start):
    found = []
    thread = threading.Thread(target=lambda: found.append(read_plan()))
    thread.start()
    start(plan(JOINT_STATES))
    thread.join(60.0)
    assert [each["name"] for each in found[0]["topics"]] == ["/arm/joint_states"]


def test_what_is_served_exists_with_its_type(start):
    start(plan(JOINT_STATES, JOINT_COMMANDS, SWITCHED_OFF))
    with ReadinessObserver(timeout=60.0) as observer:
        rows = served_interfaces(observer.wait_for_plan(NODE))
        assert [str(row) for row in rows] == [
            "publisher /arm/joint_states",
            "subscription /arm/joint_commands",
        ]
        observer.wait_for_interfaces(rows)


def test_names_after_remaps_are_those_that_are_waited_for(start):
    start(plan(JOINT_STATES), ros_args=["--ros-args", "-r", "/arm/joint_states:=/elsewhere"])
    rows = served_interfaces(read_plan())
    assert [row.name for row in rows] == ["/elsewhere"]
    with ReadinessObserver(timeout=60.0) as observer:
        observer.wait_for_interfaces(rows)


@pytest.mark.parametrize(
    "qos", [QosPlan(reliability="best_effort", depth=5), QosPlan(durability="transient_local", depth=1)]
)
def test_messages_of_any_qos_are_met(start, qos):
    start(plan(publisher("/arm/joint_states", JOINT_STATES.type, qos=qos)))
    with ReadinessObserver(timeout=60.0) as observer:
        rows = served_interfaces(observer.wait_for_plan(NODE))
        assert [row.qos for row in rows] == [qos]
        observer.wait_for_messages(rows)


def test_what_is_missing_is_told(start):
    start(plan(JOINT_STATES))
    other = ServedInterface(
        kind="topic", role="publisher", path="/arm/imu", name="/arm/imu", type="sensor_msgs/msg/Imu"
    )
    with (
        ReadinessObserver(timeout=0.5) as observer,
        pytest.raises(NotReadyError, match=r"no publisher /arm/imu"),
    ):
        observer.wait_for_interfaces([other])
    with (
        ReadinessObserver(timeout=0.5) as observer,
        pytest.raises(NotReadyError, match=r"no message on /arm/imu$"),
    ):
        observer.wait_for_messages([other])
    with (
        ReadinessObserver(timeout=0.5) as observer,
        pytest.raises(NotReadyError, match=r"no message on /other/plan"),
    ):
        observer.wait_for_plan("other")


def test_a_wait_that_is_stopped_ends_at_once():
    observer = ReadinessObserver(timeout=100.0)
    timer = threading.Timer(0.2, observer.stop)
    timer.start()
    with observer, pytest.raises(NotReadyError, match="stopped"):
        observer.wait_for_plan(NODE)


def test_names_that_the_bridge_does_not_serve_are_refused(start):
    client = ServicePlan(path="/arm/call", role="client", name="/arm/call", type="std_srvs/srv/Trigger")
    start(plan(JOINT_STATES, SWITCHED_OFF, services=(client,)))
    summary = read_plan()
    assert [row.path for row in served_interfaces(summary, only=[JOINT_STATES.path])] == [JOINT_STATES.path]
    assert len(served_interfaces(summary)) == 1
    with pytest.raises(BridgeError, match=r"serves no /arm/joint_state; did you mean /arm/joint_states\?"):
        served_interfaces(summary, only=["/arm/joint_state"])
    with pytest.raises(BridgeError, match=r"/arm/off is disabled: switched off"):
        served_interfaces(summary, only=["/arm/off"])
    with pytest.raises(BridgeError, match=r"the plan has version 2, not 1"):
        served_interfaces({**summary, "version": 2})

"""Controllers are listed and switched through the bridge, from any thread, together or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge import Bridge, BridgeError, BridgeOptions, load_plan

ARM = Path(__file__).parents[2] / "examples" / "arm" / "arm.usda"
FOLLOW = "/arm/Controllers/joint_trajectory_controller"
STATES = "/arm/Controllers/joint_state_broadcaster"
ACTION = "/arm/joint_trajectory_controller/follow_joint_trajectory"


def active(bridge):
    return {each.path for each in bridge.controllers() if each.active}


def test_controllers_are_switched_in_the_next_tick(start):
    running = start(load_plan(ARM))
    bridge = running.bridge
    assert {FOLLOW, STATES} <= active(bridge)
    assert running.row(ACTION, "server").served_by == FOLLOW
    assert bridge.switch_controllers(deactivate=[FOLLOW]).result(60.0) is None
    assert FOLLOW not in active(bridge)

    async def back():
        await bridge.switch_controllers(activate=[FOLLOW], deactivate=[STATES])

    asyncio.run(back())
    assert FOLLOW in active(bridge)
    assert STATES not in active(bridge)


def test_what_is_not_possible_is_an_error_and_changes_nothing(start):
    bridge = start(load_plan(ARM)).bridge
    before = active(bridge)
    with pytest.raises(BridgeError, match="/arm/nothing"):
        bridge.switch_controllers(activate=["/arm/nothing"], deactivate=[FOLLOW])
    assert active(bridge) == before


def test_a_host_switches_between_two_steps():
    with Bridge(load_plan(ARM), options=BridgeOptions(threaded=False), report=lambda *_: None) as bridge:
        bridge.step(0)
        call = bridge.switch_controllers(deactivate=[FOLLOW])
        assert not call.done()
        bridge.step(10_000_000)
        assert call.result(0.0) is None
        assert FOLLOW not in active(bridge)


def test_a_bridge_that_is_not_open_has_none():
    bridge = Bridge(load_plan(ARM))
    for ask in (bridge.controllers, bridge.switch_controllers):
        with pytest.raises(BridgeError, match="not open"):
            ask()


def test_an_impossible_rate_of_controllers_is_an_error():
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BridgeError, match="controller_rate"):
            Bridge(load_plan(ARM), options=BridgeOptions(controller_rate=rate)).open()

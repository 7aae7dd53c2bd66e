"""SetBool and Trigger switch lights on real stages, over DDS: REP 0158 section 2.5's blinking light."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd, UsdGeom
from std_srvs.srv import SetBool, Trigger

from usd_ros_bridge import Bridge, BridgeOptions, load_plan

ROVER = Path(__file__).parents[2] / "examples" / "rover" / "rover.usda"
SERVICE = "/rover/set_headlights"
LAMPS = [f"/rover/headlights/{side}_lamp" for side in ("left", "right")]

BLINKER = """#usda 1.0
(
    defaultPrim = "tower"
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "tower" (
    prepend apiSchemas = ["RosContextAPI"]
)
{
    def Xform "beacon"
    {
        def Sphere "bulb"
        {
        }

        def Scope "blink" (
            prepend apiSchemas = ["RosServiceAPI"]
        )
        {
            string ros:service:name = "blink"
            token ros:service:role = "server"
            string ros:service:type = "std_srvs/srv/Trigger"
        }
    }

    def SphereLight "lamp"
    {
    }

    def Scope "estop" (
        prepend apiSchemas = ["RosServiceAPI"]
    )
    {
        string ros:service:name = "estop"
        token ros:service:role = "server"
        string ros:service:type = "std_srvs/srv/Trigger"
    }

    def Scope "enable" (
        prepend apiSchemas = ["RosServiceAPI"]
    )
    {
        string ros:service:name = "enable"
        token ros:service:role = "server"
        string ros:service:type = "std_srvs/srv/SetBool"
    }

    def Xform "empty"
    {
        def Scope "reboot" (
            prepend apiSchemas = ["RosServiceAPI"]
        )
        {
            string ros:service:name = "reboot"
            token ros:service:role = "server"
            string ros:service:type = "std_srvs/srv/Trigger"
        }
    }
}
"""


@pytest.fixture
def ask(ros_harness):
    def call(service_class, name, **fields):
        client = ros_harness.node.create_client(service_class, name)
        ros_harness.wait_for(client.service_is_ready, what=f"service {name}")
        future = client.call_async(service_class.Request(**fields))
        ros_harness.wait_for(future.done, what=f"the answer of {name}")
        return future.result()

    return call


def lit(stage):
    return [
        UsdGeom.Imageable(stage.GetPrimAtPath(path)).ComputeVisibility() != UsdGeom.Tokens.invisible
        for path in LAMPS
    ]


def test_the_rovers_headlights_are_switched(start, ask):
    plan = load_plan(ROVER)
    running = start(plan)
    row = running.row(SERVICE, "server")
    assert (row.served_by, row.state, row.reason) == ("built-in", "idle", "")
    answer = ask(SetBool, SERVICE, data=False)
    assert answer.success is True
    assert answer.message == f"2 lights are off: {', '.join(LAMPS)}"
    assert lit(plan.stage) == [False, False]
    assert ask(SetBool, SERVICE, data=True).success is True
    assert lit(plan.stage) == [True, True]
    assert not plan.stage.GetRootLayer().dirty
    assert running.warnings.containing(SERVICE) == []


def test_a_trigger_blinks_what_stands_beside_it(start, ask, tmp_path):
    (tmp_path / "tower.usda").write_text(BLINKER, encoding="utf-8")
    plan = load_plan(tmp_path / "tower.usda")
    running = start(plan)
    for state in ("hidden", "visible", "hidden"):
        answer = ask(Trigger, "/blink")
        assert (answer.success, answer.message) == (True, f"the shape /tower/beacon/bulb is {state}")
    answer = ask(Trigger, "/reboot")
    assert answer.success is False
    assert "neither a light nor visible geometry" in answer.message
    assert "short of the robot" in answer.message
    assert running.row("/reboot", "server").state == "silent"


def test_services_of_the_whole_robot_switch_none_of_its_lights(start, ask, tmp_path):
    (tmp_path / "tower.usda").write_text(BLINKER, encoding="utf-8")
    plan = load_plan(tmp_path / "tower.usda")
    running = start(plan)
    for answer in (ask(Trigger, "/estop"), ask(SetBool, "/enable", data=False)):
        assert answer.success is False
        assert "no handler is bound" in answer.message
    lamp = UsdGeom.Imageable(plan.stage.GetPrimAtPath("/tower/lamp"))
    assert lamp.ComputeVisibility() != UsdGeom.Tokens.invisible
    assert running.row("/estop", "server").state == running.row("/enable", "server").state == "silent"


def test_a_handler_comes_before_what_is_built_in(start, ask):
    plan = load_plan(ROVER)
    running = start(plan)
    running.bridge.on_service(SERVICE, lambda _, response: setattr(response, "message", "mine"))
    assert ask(SetBool, SERVICE, data=False).message == "mine"
    assert lit(plan.stage) == [True, True]


def test_a_hosts_stage_is_read_only_unless_it_asks(ask, ros_harness):
    stage = Usd.Stage.Open(str(ROVER))
    before = stage.GetSessionLayer().ExportToString()
    with Bridge(load_plan(stage), report=lambda *_: None) as bridge:
        answer = ask(SetBool, SERVICE, data=False)
        assert answer.success is False
        assert "the stage is the host's and read only" in answer.message
        assert bridge.step(0)
    assert stage.GetSessionLayer().ExportToString() == before
    assert lit(stage) == [True, True]
    with Bridge(load_plan(stage), options=BridgeOptions(scene_edits=True), report=lambda *_: None) as bridge:
        client = ros_harness.node.create_client(SetBool, SERVICE)
        ros_harness.wait_for(client.service_is_ready, what="the service")
        future = client.call_async(SetBool.Request(data=False))
        # Edits wait for the host's own thread.
        ros_harness.wait_for(
            lambda: [row.count for row in bridge.status().interfaces if row.name == SERVICE] == [1],
            what="the request",
        )
        # It is counted before its job is queued.
        ros_harness.wait_for(lambda: bridge.parts.runtime.inbox.pending, what="the job")
        assert lit(stage) == [True, True]
        assert not future.done()
        # What is pending may be another job of the bridge's.
        ros_harness.wait_for(lambda: bridge.step(0) and future.done(), what="the answer")
        assert lit(stage) == [False, False]
        assert future.result().success is True

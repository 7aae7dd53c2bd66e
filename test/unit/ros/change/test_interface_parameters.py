"""What `enabled.` and `rate.` of a plan's interfaces say, and the options that they make."""

from __future__ import annotations

from typing import Any

from pxr import Sdf, Usd

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.ros.change.live_parameters import InterfaceParameters

FIRST, SECOND, POSE = "/robot/first", "/robot/second", "/robot/pose"


def plan(**options: Any) -> BridgePlan:
    """Two servers of one name, of which the second is off, and a publisher."""
    stage = Usd.Stage.CreateInMemory()
    stage.SetDefaultPrim(stage.DefinePrim("/robot", "Xform"))
    stage.GetPrimAtPath("/robot").AddAppliedSchema("RosContextAPI")
    for path in (FIRST, SECOND):
        prim = stage.DefinePrim(path, "Xform")
        prim.AddAppliedSchema("RosServiceAPI")
        prim.CreateAttribute("ros:service:name", Sdf.ValueTypeNames.String).Set("same")
        prim.CreateAttribute("ros:service:role", Sdf.ValueTypeNames.Token).Set("server")
        prim.CreateAttribute("ros:service:type", Sdf.ValueTypeNames.String).Set("std_srvs/srv/Trigger")
    stage.GetPrimAtPath(SECOND).CreateAttribute("ros:service:starts_enabled", Sdf.ValueTypeNames.Bool).Set(
        False
    )
    prim = stage.DefinePrim(POSE, "Xform")
    prim.AddAppliedSchema("RosTopicAPI")
    prim.CreateAttribute("ros:topic:name", Sdf.ValueTypeNames.String).Set("pose")
    prim.CreateAttribute("ros:topic:role", Sdf.ValueTypeNames.Token).Set("publisher")
    prim.CreateAttribute("ros:topic:type", Sdf.ValueTypeNames.String).Set("geometry_msgs/msg/PoseStamped")
    prim.CreateAttribute("ros:topic:publish_rate", Sdf.ValueTypeNames.Double).Set(10.0)
    return load_plan(stage, plan_options=PlanOptions(**options))


def of(made: BridgePlan, *controlled: str) -> InterfaceParameters:
    parameters = InterfaceParameters()
    parameters.set_plan(made, controlled)
    return parameters


def test_what_has_controllers_is_theirs() -> None:
    assert set(of(plan()).names) == {f"enabled.{path}" for path in (FIRST, SECOND, POSE)} | {f"rate.{POSE}"}
    assert set(of(plan(), POSE, FIRST).names) == {f"enabled.{SECOND}", f"rate.{POSE}"}


def test_what_holds_is_what_is_live_or_was_asked_for() -> None:
    parameters = of(plan(enabled={SECOND: True}))
    options = PlanOptions(enabled={SECOND: True})
    # It is wanted, and it is not there: another one has the name.
    assert parameters.value(f"enabled.{SECOND}", options) is False
    assert parameters.value(f"enabled.{FIRST}", PlanOptions(enabled={FIRST: False})) is False
    assert parameters.value(f"enabled.{SECOND}", PlanOptions()) is False
    assert parameters.value(f"rate.{POSE}", PlanOptions(rates={POSE: 5.0})) == 5.0


def test_servers_of_one_name_change_places() -> None:
    parameters, options = of(plan(enabled={SECOND: True})), PlanOptions(enabled={SECOND: True})
    assert "is served by /robot/first" in parameters.refusal({f"enabled.{SECOND}": True})
    both = {f"enabled.{FIRST}": False, f"enabled.{SECOND}": True}
    assert parameters.refusal(both) == ""
    change = parameters.change(both, options)
    assert change is not None
    made = plan(enabled=change(options).enabled)
    assert [service.enabled for service in made.services] == [False, True]


def test_what_is_wanted_in_vain_can_be_wanted_no_more() -> None:
    options = PlanOptions(enabled={SECOND: True})
    parameters = of(plan(enabled={SECOND: True}))
    assert parameters.value(f"enabled.{SECOND}", options) is False
    change = parameters.change({f"enabled.{SECOND}": False}, options)
    assert change is not None
    assert dict(change(options).enabled) == {}


def test_what_is_as_authored_needs_no_option() -> None:
    before = PlanOptions(enabled={FIRST: False, "/other": True}, rates={POSE: 5.0})
    parameters = of(plan())
    parameters.set_plan(plan(enabled={FIRST: False}, rates={POSE: 5.0}), ())
    change = parameters.change({f"enabled.{FIRST}": True, f"rate.{POSE}": 10.0}, before)
    assert change is not None
    after = change(before)
    assert dict(after.enabled) == {"/other": True}
    assert dict(after.rates) == {}
    assert parameters.change({f"enabled.{FIRST}": False, f"rate.{POSE}": 5.0}, before) is None

"""The plan as JSON: exactly the documented keys, and nothing that JSON cannot say."""

from __future__ import annotations

import json
import math

from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    ControllerPlan,
    DofPlan,
    FramePlan,
    JointPlan,
    RobotPlan,
    ServicePlan,
    TfOutput,
    TopicPlan,
)
from usd_ros_bridge.spatial.pose import Pose

INTERFACE = {"path", "role", "name", "type", "domain_id", "enabled", "reason"}


def example() -> BridgePlan:
    joint = JointPlan(
        name="j",
        path="/r/j",
        type="continuous",
        parent="base",
        child="link",
        parent_path="/r/base",
        child_path="/r/link",
        axis="Z",
        dofs=(DofPlan(name="j", row=0, axis="rotZ", position=0.5, upper=1.0),),
    )
    ball = JointPlan(
        name="b",
        path="/r/b",
        type="spherical",
        parent="base",
        child="ball",
        parent_path="/r/base",
        child_path="/r/ball",
        dofs=tuple(DofPlan(name=f"b_{i}", row=i, axis="rotX") for i in range(3)),
    )
    robot = RobotPlan(
        path="/r",
        namespace="/r",
        domain_id=None,
        joints=(joint, ball),
        frames=(
            FramePlan(
                id="r", parent="world", path="/r", static=True, parent_from_frame=Pose((1.0, 2.0, 3.0))
            ),
        ),
        tf_outputs=(TfOutput(tf="/r/tf", tf_static="/r/tf_static"),),
    )
    return BridgePlan(
        asset="a.usda",
        robots=(robot,),
        topics=(
            TopicPlan(path="/r/t", role="publisher", name="/r/t", type="x/msg/Y", publish_rate=math.nan),
        ),
        services=(ServicePlan(path="/r/s", role="server", name="/r/s", type="x/srv/Y", domain_id=3),),
        actions=(
            ActionPlan(
                path="/r/a", role="server", name="/r/a", type="x/action/Y", enabled=False, reason="no"
            ),
        ),
        controllers=(
            ControllerPlan(path="/r/c", schema="S", interfaces=("/r/t",), joints=("j",), dofs=(0,)),
        ),
        diagnostics=(Diagnostic(code="2.3.name", severity="error", path="/r/t", message="m", remedy="r"),),
    )


def test_the_keys_are_exactly_the_documented_ones() -> None:
    data = plan_to_json(example())
    assert list(data) == ["asset", "robots", "topics", "services", "actions", "controllers", "diagnostics"]
    (robot,) = data["robots"]
    assert list(robot) == ["path", "namespace", "domain_id", "parent_frame", "tf_topics", "frames", "joints"]
    assert list(robot["frames"][0]) == ["id", "parent", "path", "static", "translation", "rotation"]
    assert list(robot["joints"][0]) == [
        "name",
        "path",
        "type",
        "parent",
        "child",
        "axis",
        "position",
        "lower",
        "upper",
    ]
    (topic,) = data["topics"]
    assert set(topic) == INTERFACE | {"publish_rate", "frame_id", "qos"}
    assert set(topic["qos"]) == {"reliability", "durability", "history", "depth", "match_publisher"}
    assert set(data["services"][0]) == set(data["actions"][0]) == INTERFACE
    assert list(data["controllers"][0]) == ["path", "schema", "interfaces", "joints", "enabled", "reason"]
    keys = ["code", "severity", "path", "attribute", "message", "remedy", "reason", "value", "layer", "line"]
    assert list(data["diagnostics"][0]) == keys


def test_values() -> None:
    data = json.loads(json.dumps(plan_to_json(example()), allow_nan=False))
    robot = data["robots"][0]
    assert robot["tf_topics"] == ["/r/tf", "/r/tf_static"]
    assert robot["frames"][0]["translation"] == [1.0, 2.0, 3.0]
    assert robot["frames"][0]["rotation"] == [0.0, 0.0, 0.0, 1.0]
    single, ball = robot["joints"]
    assert (single["axis"], single["position"], single["lower"], single["upper"]) == ("Z", 0.5, None, 1.0)
    assert (ball["axis"], ball["position"], ball["lower"], ball["upper"]) == (None, None, None, None)
    assert data["topics"][0]["publish_rate"] is None
    assert data["services"][0]["domain_id"] == 3
    assert data["actions"][0]["reason"] == "no"

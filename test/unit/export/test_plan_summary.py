"""The plan in short: what is there, why something is not, and nothing that JSON cannot say."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from usd_ros_bridge.export.plan_json import MAX_FINDINGS, SUMMARY_VERSION, plan_summary, plan_summary_text
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    ControllerPlan,
    DofPlan,
    FramePlan,
    JointPlan,
    QosPlan,
    RobotPlan,
    ServicePlan,
    TfOutput,
    TopicPlan,
)
from usd_ros_bridge.options import VariantSelection
from usd_ros_bridge.spatial.pose import Pose

SCAN = TopicPlan(
    path="/r/scan",
    role="publisher",
    name="/r/scan",
    type="sensor_msgs/msg/LaserScan",
    publish_rate=10.0,
    frame_id="lidar",
)
COMMANDS = TopicPlan(
    path="/r/commands",
    role="subscription",
    name="/r/commands",
    type="sensor_msgs/msg/JointState",
    frame_id="r",
)
LIGHT = ServicePlan(
    path="/r/light",
    role="server",
    name="/r/light",
    type="std_srvs/srv/SetBool",
    enabled=False,
    reason="its name is not valid",
)
FOLLOW = ActionPlan(
    path="/r/follow",
    role="server",
    name="/r/follow",
    type="control_msgs/action/FollowJointTrajectory",
    domain_id=7,
)


def frame(name: str, *, static: bool) -> FramePlan:
    return FramePlan(id=name, parent="world", path=f"/r/{name}", static=static, parent_from_frame=Pose())


ROBOT = RobotPlan(
    path="/r",
    namespace="/r",
    domain_id=None,
    tf_outputs=(TfOutput(tf="/r/tf", tf_static="/r/tf_static"),),
    frames=(frame("base", static=False), frame("lidar", static=True), frame("imu", static=True)),
    joints=(
        JointPlan(
            name="stage",
            path="/r/stage",
            type="generic",
            parent="base",
            child="link",
            parent_path="/r/base",
            child_path="/r/link",
            dofs=(
                DofPlan(name="stage_tx", row=0, axis="transX"),
                DofPlan(name="stage_ty", row=1, axis="transY"),
            ),
        ),
    ),
)


def example(**changes) -> BridgePlan:
    return BridgePlan(
        **{
            "asset": "r.usda",
            "robots": (ROBOT,),
            "topics": (SCAN, COMMANDS),
            "services": (LIGHT,),
            "actions": (FOLLOW,),
            "controllers": (
                ControllerPlan(
                    path="/r/arm",
                    schema="RosControlJointTrajectoryAPI",
                    interfaces=("/r/follow",),
                    joints=("stage_tx",),
                    enabled=False,
                    reason="starts_enabled is false",
                ),
            ),
            "variants": (VariantSelection("/r", "head", "lidar"), VariantSelection("/r", "arm", "long")),
            **changes,
        }
    )


def test_a_summary_says_what_there_is():
    summary = plan_summary(example())
    assert re.fullmatch("[0-9a-f]{16}", summary.pop("digest"))
    assert summary == {
        "version": SUMMARY_VERSION,
        "asset": "r.usda",
        "variants": {"/r": {"head": "lidar", "arm": "long"}},
        "robots": [
            {
                "path": "/r",
                "namespace": "/r",
                "tf_topics": ["/r/tf", "/r/tf_static"],
                "parent_frame": "world",
                "frames": {"moving": 1, "static": 2},
                "joints": ["stage_tx", "stage_ty"],
            }
        ],
        "topics": [
            {
                "path": "/r/scan",
                "role": "publisher",
                "name": "/r/scan",
                "type": "sensor_msgs/msg/LaserScan",
                "rate": 10.0,
                "frame_id": "lidar",
            },
            {
                "path": "/r/commands",
                "role": "subscription",
                "name": "/r/commands",
                "type": "sensor_msgs/msg/JointState",
            },
        ],
        "services": [
            {
                "path": "/r/light",
                "role": "server",
                "name": "/r/light",
                "type": "std_srvs/srv/SetBool",
                "disabled": "its name is not valid",
            }
        ],
        "actions": [
            {
                "path": "/r/follow",
                "role": "server",
                "name": "/r/follow",
                "type": "control_msgs/action/FollowJointTrajectory",
                "domain_id": 7,
            }
        ],
        "controllers": [
            {
                "path": "/r/arm",
                "schema": "RosControlJointTrajectoryAPI",
                "interfaces": ["/r/follow"],
                "joints": ["stage_tx"],
                "disabled": "starts_enabled is false",
            }
        ],
        "diagnostics": {"error": 0, "warning": 0, "info": 0, "findings": []},
    }


def test_what_was_found_at_the_opening_is_said_and_the_plan_goes_before_it():
    found = {"/r/scan": "its type is not installed", "/r/light": "it could not be created"}
    summary = plan_summary(example(), disabled=found)
    assert summary["topics"][0]["disabled"] == "its type is not installed"
    assert "disabled" not in summary["topics"][1]
    assert summary["services"][0]["disabled"] == "its name is not valid"


def test_something_that_is_disabled_without_a_reason_still_says_that_it_is():
    summary = plan_summary(example(topics=(replace(SCAN, enabled=False),)))
    assert summary["topics"][0]["disabled"] == "disabled"


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), None])
def test_a_rate_that_is_none_is_left_out(rate):
    summary = plan_summary(example(topics=(replace(SCAN, publish_rate=rate),)))
    assert "rate" not in summary["topics"][0]


def test_the_digest_is_that_of_what_is_served():
    digest = plan_summary(example())["digest"]
    warning = Diagnostic(code="2.2.placement", severity="warning", path="/r", message="on a body")
    assert plan_summary(example(asset="/elsewhere/r.usda", diagnostics=(warning,)))["digest"] == digest
    assert plan_summary(example(topics=(SCAN,)))["digest"] != digest
    assert plan_summary(example(), disabled={"/r/scan": "not installed"})["digest"] != digest


def test_policies_of_a_topic_that_are_not_the_defaults_are_told():
    qos = QosPlan(reliability="best_effort", depth=1)
    assert plan_summary(example(topics=(replace(SCAN, qos=qos),)))["topics"][0]["qos"] == {
        "reliability": "best_effort",
        "depth": 1,
    }


def test_names_after_remaps_are_told_where_they_differ():
    summary = plan_summary(example(), resolve=lambda interface: interface.name.replace("/r/scan", "/front"))
    assert [each.get("remapped") for each in summary["topics"]] == ["/front", None]
    assert "remapped" not in summary["services"][0]


def test_findings_are_counted_and_the_worst_of_them_told():
    remark = Diagnostic(code="2.1.implicit", severity="info", path="/r", message="acts as the context")
    warnings = [
        Diagnostic(code="2.2.placement", severity="warning", path=f"/r/{n}", message="on a body")
        for n in range(MAX_FINDINGS + 5)
    ]
    error = Diagnostic(
        code="2.3.name", severity="error", path="/r/light", attribute="ros:service:name", message="'a b'",
        remedy="use letters",
    )  # fmt: skip
    told = plan_summary(example(diagnostics=(remark, *warnings, error)))["diagnostics"]
    assert (told["error"], told["warning"], told["info"]) == (1, MAX_FINDINGS + 5, 1)
    assert len(told["findings"]) == MAX_FINDINGS
    assert told["findings"][0] == {
        "code": "2.3.name",
        "severity": "error",
        "path": "/r/light",
        "attribute": "ros:service:name",
        "message": "'a b'",
        "remedy": "use letters",
    }
    assert {each["severity"] for each in told["findings"][1:]} == {"warning"}


def test_the_text_is_one_line_of_ascii_that_reads_back():
    plan = example(asset="r\n\u00e4\ud800.usda")
    text = plan_summary_text(plan)
    assert text.isascii()
    assert "\n" not in text
    assert ": " not in text
    assert json.loads(text) == plan_summary(plan)

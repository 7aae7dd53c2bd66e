"""Publishers that show attributes: values, time samples and live edits over DDS, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf, Usd
from sensor_msgs.msg import Temperature
from std_msgs import msg as std_msgs

from usd_ros_bridge import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.usd.edit.notices import StageListener, follow_source

HEAD = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 10
    upAxis = "Z"
    startTimeCode = 0
    endTimeCode = 20
)
"""

VALUES = {
    "on": ("bool", "true", "Bool", True),
    "count": ("int", "-7", "Int32", -7),
    "small": ("uchar", "200", "UInt8", 200),
    "large": ("int64", "-5000000000", "Int64", -5_000_000_000),
    "ratio": ("float", "0.25", "Float32", 0.25),
    "volts": ("double", "24.6", "Float64", 24.6),
    "whole": ("int", "3", "Float64", 3.0),
    "text": ("string", '"Gr\u00fc\u00dfe"', "String", "Gr\u00fc\u00dfe"),
    "word": ("token", '"idle"', "String", "idle"),
    "color": ("color3f", "(1, 0.5, 0.25)", "ColorRGBA", (1.0, 0.5, 0.25, 1.0)),
    "numbers": ("double[]", "[1, 2.5]", "Float64MultiArray", [1.0, 2.5]),
    "bytes": ("int[]", "[1, 255]", "UInt8MultiArray", [1, 255]),
}


def publisher(name: str, message: str, target: str, *, role: str = "publisher") -> str:
    rate = "double ros:topic:publish_rate = 50" if role == "publisher" else ""
    return f"""
    def Scope "show_{name}" (
        prepend apiSchemas = ["RosTopicAPI"]
    )
    {{
        token ros:topic:role = "{role}"
        string ros:topic:name = "{name}"
        string ros:topic:type = "{message}"
        {rate}
        custom rel usd_ros_bridge:source = {target}
    }}
"""


def stage_of(attributes: str, publishers: str) -> Any:
    text = (
        f'{HEAD}def Xform "robot" (\n    prepend apiSchemas = ["RosContextAPI"]\n)\n{{\n{publishers}}}\n'
        f'def Scope "data"\n{{\n{attributes}}}\n'
    )
    layer = Sdf.Layer.CreateAnonymous("sources.usda")
    assert layer.ImportFromString(text)
    return Usd.Stage.Open(layer)


def plan_of(stage: Any) -> BridgePlan:
    return load_plan(stage)


def shown(message: Any) -> Any:
    if isinstance(message, std_msgs.ColorRGBA):
        return message.r, message.g, message.b, message.a
    return list(message.data) if hasattr(message, "layout") else message.data


def test_values_of_every_kind_are_shown(start: Any, ros_harness: Any) -> None:
    attributes = "".join(
        f"    custom {kind} {name} = {text}\n" for name, (kind, text, _, _) in VALUES.items()
    )
    publishers = "".join(
        publisher(name, f"std_msgs/msg/{message}", f"</data.{name}>")
        for name, (_, _, message, _) in VALUES.items()
    )
    stage = stage_of(attributes, publishers)
    plan = plan_of(stage)
    assert not [each for each in plan.diagnostics if each.severity == "error"]
    heard = {
        name: ros_harness.listen(getattr(std_msgs, message), f"/{name}")
        for name, (_, _, message, _) in VALUES.items()
    }
    start(plan)
    ros_harness.wait_for(lambda: all(heard.values()), timeout=20.0, what="every message")
    assert {name: shown(each[0]) for name, each in heard.items()} == {
        name: row[3] for name, row in VALUES.items()
    }


def test_edits_are_in_the_next_messages_and_plan_nothing_anew(step_on: Any, ros_harness: Any) -> None:
    stage = stage_of(
        '    custom double volts = 1\n    custom string text = "a"\n',
        publisher("volts", "std_msgs/msg/Float64", "</data.volts>")
        + publisher("text", "std_msgs/msg/String", "</data.text>"),
    )
    volts = ros_harness.listen(std_msgs.Float64, "/volts")
    texts = ros_harness.listen(std_msgs.String, "/text")
    here = step_on(stage)
    plan = here.bridge.plan
    here.until(lambda: volts and texts, what="the first values")
    listener = StageListener(stage, lambda: None).open()
    attribute = stage.GetAttributeAtPath("/data.volts")
    for value in (2.0, 3.5):
        attribute.Set(value)
        here.until(lambda wanted=value: volts[-1].data == wanted, what=f"{value}")
    with Usd.EditContext(stage, stage.GetSessionLayer()):
        stage.GetAttributeAtPath("/data.text").Set("a longer text")
        attribute.Set(-1.0)
    here.until(lambda: texts[-1].data == "a longer text" and volts[-1].data == -1.0, what="session edits")
    assert here.bridge.plan is plan
    assert listener.take() == frozenset()
    stage.GetSessionLayer().Clear()
    listener.take()
    with Sdf.ChangeBlock():
        prim = stage.GetRootLayer().GetPrimAtPath("/data")
        prim.RemoveProperty(prim.attributes["text"])
        Sdf.AttributeSpec(prim, "text", Sdf.ValueTypeNames.Token).custom = True
    assert listener.take() == {"/data.text"}
    listener.close()


def test_a_temperature_has_its_source_and_a_stamp(start: Any, ros_harness: Any) -> None:
    stage = stage_of(
        "    custom float motor = 61.5\n", publisher("heat", "sensor_msgs/msg/Temperature", "</data.motor>")
    )
    heard: list[Any] = []
    from rclpy.qos import qos_profile_sensor_data

    ros_harness.node.create_subscription(Temperature, "/heat", heard.append, qos_profile_sensor_data)
    start(plan_of(stage))
    ros_harness.wait_for(lambda: heard, what="a temperature")
    assert (heard[0].temperature, heard[0].header.frame_id) == (61.5, "robot")
    assert heard[0].header.stamp.sec > 0


def test_time_samples_are_played_round_and_round(start: Any, ros_harness: Any) -> None:
    stage = stage_of(
        "    custom double level.timeSamples = { 0: 0, 20: 2 }\n    custom int step.timeSamples = { 0: 1, 10: 2 }\n",
        publisher("level", "std_msgs/msg/Float64", "</data.level>")
        + publisher("step", "std_msgs/msg/Int32", "</data.step>"),
    )
    levels = ros_harness.listen(std_msgs.Float64, "/level")
    steps = ros_harness.listen(std_msgs.Int32, "/step")
    start(plan_of(stage))

    def went_round() -> bool:
        values = [each.data for each in levels]
        return any(after < before for before, after in pairwise(values))

    def all_kinds_came() -> bool:
        return len({each.data for each in levels}) > 10 and {each.data for each in steps} == {1, 2}

    ros_harness.wait_for(went_round, timeout=60.0, what="the samples to start over")
    # 50 Hz for two seconds, interpolated; a loaded machine misses some, which come in a later round.
    ros_harness.wait_for(all_kinds_came, timeout=60.0, what="values between the samples, and both steps")
    values = [each.data for each in levels]
    assert min(values) >= 0.0
    assert max(values) <= 2.0


def test_samples_are_interpolated_where_numbers_are_continuous() -> None:
    stage = stage_of(
        "    custom double level.timeSamples = { 10: 1, 20: 3 }\n"
        "    custom float3 vector.timeSamples = { 0: (0, 0, 0), 10: (1, 2, 4) }\n"
        "    custom bool flag.timeSamples = { 0: 0, 10: 1 }\n",
        "",
    )
    level, vector, flag = (follow_source(stage, f"/data.{name}") for name in ("level", "vector", "flag"))
    assert [level.at(seconds) for seconds in (0.0, 1.0, 1.5, 2.0, 9.0)] == [1.0, 1.0, 2.0, 3.0, 3.0]
    assert vector.at(0.5) == (0.5, 1.0, 2.0)
    assert [flag.at(seconds) for seconds in (0.0, 0.9, 1.0)] == [False, False, True]
    stage.GetAttributeAtPath("/data.level").Clear()
    assert level.at(1.5) is None
    stage.RemovePrim("/data")
    assert vector.at(0.5) is None


def test_a_wrong_source_is_an_error_of_its_publisher_alone() -> None:
    for message, target, part in (
        ("std_msgs/msg/Float64", "</data.nothing>", "is no attribute"),
        ("std_msgs/msg/Float64", "</data>", "is no attribute"),
        ("std_msgs/msg/Float64", "[</data.volts>, </data.text>]", "2 targets"),
        ("std_msgs/msg/Float64", "</data.text>", "'string'"),
        ("std_msgs/msg/Bool", "</data.volts>", "'double'"),
        ("sensor_msgs/msg/Imu", "</data.volts>", "shows no value"),
    ):
        stage = stage_of(
            '    custom double volts = 1\n    custom string text = "a"\n',
            publisher("wrong", message, target) + publisher("right", "std_msgs/msg/Float64", "</data.volts>"),
        )
        plan = plan_of(stage)
        (found,) = [each for each in plan.diagnostics if each.code == "2.4.source"]
        assert (found.severity, found.path) == ("error", "/robot/show_wrong")
        assert part in found.message
        assert [topic.enabled for topic in plan.topics if not topic.implicit] == [False, True]


def test_a_subscription_has_no_source() -> None:
    stage = stage_of(
        "    custom double volts = 1\n",
        publisher("wanted", "std_msgs/msg/Float64", "</data.volts>", role="subscription"),
    )
    (found,) = [each for each in plan_of(stage).diagnostics if each.code == "2.4.source"]
    assert found.severity == "warning"


def test_copies_of_a_robot_show_attributes_of_their_own() -> None:
    robots = "".join(
        f'def Xform "r{number}" (\n prepend references = </proto>\n)\n'
        f'{{\n string ros:context:namespace = "r{number}"\n}}\n'
        for number in range(3)
    )
    body = '    def Scope "unit"\n    {\n        custom double volts = 5\n    }\n' + publisher(
        "volts", "std_msgs/msg/Float64", "</proto/unit.volts>"
    )
    text = f"""{HEAD}class Xform "proto" (
    prepend apiSchemas = ["RosContextAPI"]
)
{{
{body}
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{}}
    def Xform "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{}}
    def PhysicsRevoluteJoint "joint"
    {{
        rel physics:body0 = </proto/base>
        rel physics:body1 = </proto/arm>
    }}
}}
{robots}"""
    layer = Sdf.Layer.CreateAnonymous("fleet.usda")
    assert layer.ImportFromString(text)
    plan = plan_of(Usd.Stage.Open(layer))
    sources = [topic.source for topic in plan.topics if topic.source]
    assert sources == [f"/r{number}/unit.volts" for number in range(3)]

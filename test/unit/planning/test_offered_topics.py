"""Topics that the bridge publishes itself, declared by an asset: tf, tf_static, robot_description."""

from __future__ import annotations

from builders.records import Stage, arm, found, topics
from case_tables import each_case
from usd_ros_bridge.planning.conflicts import BRIDGES_OWN, leave_offered

STRING = "std_msgs/msg/String"
TF = "tf2_msgs/msg/TFMessage"
OFFERED = {"tf": TF, "tf_static": TF, "robot_description": STRING}


def declared(**more: str) -> Stage:
    stage = arm()
    for name, type_name in OFFERED.items():
        stage.topic(f"/robot/{name}", more.get(name, type_name))
    return stage


def test_the_bridges_own_publishers_serve_them() -> None:
    plan = declared().plan()
    assert [topic.enabled for topic in plan.topics] == [True] * 3
    assert [(each.severity, each.path) for each in found(plan, "2.7.offered")] == [
        ("info", f"/robot/{name}") for name in OFFERED
    ]
    live = leave_offered(plan, describes=True, sourced=())
    assert [(topic.enabled, topic.reason) for topic in live.topics] == [(False, BRIDGES_OWN)] * 3


def test_what_the_bridge_does_not_publish_is_left_to_others() -> None:
    plan = declared().plan(publish_tf=False)
    assert [each.path for each in found(plan, "2.7.offered")] == ["/robot/robot_description"]
    live = leave_offered(plan, describes=False, sourced=())
    assert [topic.enabled for topic in live.topics] == [True] * 3


def test_a_source_takes_the_place_of_the_description() -> None:
    live = leave_offered(declared().plan(), describes=True, sourced={"/robot/robot_description", "/robot/tf"})
    assert {topic.path for topic in live.topics if topic.enabled} == {"/robot/robot_description"}


@each_case("name", OFFERED)
def test_another_type_is_refused(name: str) -> None:
    plan = declared(**{name: "std_msgs/msg/Int32"}).plan()
    (error,) = [each for each in found(plan, "2.7.offered") if each.severity == "error"]
    assert (error.path, topics(plan)[f"/robot/{name}"].enabled) == (f"/robot/{name}", False)


def test_a_nested_context_has_no_transforms_of_its_own() -> None:
    stage = arm()
    stage.context("/robot/hand", "hand")
    for name, type_name in OFFERED.items():
        stage.topic(f"/robot/hand/{name}", type_name)
    plan = stage.plan()
    assert {path: topic.enabled for path, topic in topics(plan).items()} == {
        "/robot/hand/tf": False,
        "/robot/hand/tf_static": False,
        "/robot/hand/robot_description": True,
    }
    assert [each.severity for each in found(plan, "2.7.offered")] == ["error", "error", "warning"]


def test_a_subscription_stays() -> None:
    stage = arm()
    for name, type_name in OFFERED.items():
        stage.topic(f"/robot/{name}", type_name, role="subscription")
    plan = stage.plan()
    assert found(plan, "2.7.offered") == []
    assert leave_offered(plan, describes=True, sourced=()).topics == plan.topics


def test_the_global_topics_count() -> None:
    stage = arm()
    stage.topic("/robot/tf", TF, name="/tf")
    (topic,) = leave_offered(stage.plan(tf_output="both"), describes=True, sourced=()).topics
    assert topic.reason == BRIDGES_OWN

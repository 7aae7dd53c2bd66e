"""Layers that plans give to the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.plans import PlanBuilder, rover
from usd_ros_bridge import load_plan
from usd_ros_bridge.model.plan import STARTS_DISABLED, QosPlan
from usd_ros_bridge.view.display_layers import KINDS, LATCHED, NEWEST, display_layers

pytestmark = pytest.mark.app

EXAMPLES = Path(__file__).parents[3] / "examples"


def of_example(path):
    return display_layers(load_plan(EXAMPLES / path, physics=True))


def plan_with(*topics, count=1):
    """A plan of robots with publishers `(name, type)`."""
    builder = PlanBuilder()
    for number in range(count):
        robot = builder.robot(f"/robot_{number}", namespace=f"/robot_{number}")
        robot.body("base")
        for name, kind in topics:
            robot.topic(name, kind, "publisher", publish_rate=10.0)
    return builder.build()


def test_the_rover_has_a_layer_for_each_topic_that_it_publishes():
    found = {(each.kind, each.topic, each.frame, each.shown) for each in of_example("rover/world.usda")}
    assert found == {
        ("scan", "/rover/scan", "lidar_link", True),
        ("imu", "/rover/imu", "imu_link", False),
        ("image", "/rover/image_raw", "camera_optical_frame", True),
        ("camera", "/rover/camera_info", "camera_optical_frame", False),
        ("values", "/rover/joint_states", "base_link", False),
        ("odometry", "/rover/odom", "odom", True),
        ("trail", "", "base_link", False),
    }


def test_the_arm_has_layers_of_what_its_controller_follows_and_of_the_way_of_its_tool():
    layers = of_example("arm/arm.usda")
    trajectories = {each.topic: each for each in layers if each.kind == "trajectory"}
    assert set(trajectories) == {
        "/arm/joint_trajectory_controller/joint_trajectory",
        "/arm/joint_trajectory_controller/follow_joint_trajectory/_action/feedback",
    }
    for layer in trajectories.values():
        assert layer.frame == "gripper_tcp"
        assert [name for name, _ in layer.joints] == [f"joint_{number}" for number in range(1, 7)]
    assert [each.frame for each in layers if each.kind == "trail"] == ["gripper_tcp"]


def test_pictures_of_many_cameras_are_off_at_the_start():
    layers = of_example("fleet/fleet.usda")
    assert not any(each.shown for each in layers if each.kind == "image")
    assert all(each.shown for each in layers if each.kind == "scan")
    assert [each.robot for each in layers] == sorted(each.robot for each in layers)


def test_labels_leave_the_namespace_out_and_hints_have_everything():
    layer = next(each for each in of_example("rover/world.usda") if each.kind == "scan")
    assert layer.label == "scan"
    assert layer.hint == "/rover/scan, sensor_msgs/msg/LaserScan, 10 Hz"


def test_of_many_robots_nothing_is_shown_at_the_start():
    layers = display_layers(plan_with(("scan", "sensor_msgs/msg/LaserScan"), count=9))
    assert len([each for each in layers if each.kind == "scan"]) == 9
    assert not any(each.shown for each in layers)


@pytest.mark.parametrize(("kind", "layer"), sorted(KINDS.items()))
def test_every_type_that_is_drawn_has_its_layer(kind, layer):
    assert layer in {each.kind for each in display_layers(plan_with(("topic", kind)))}


def test_other_types_are_values_and_transforms_are_none():
    layers = display_layers(
        plan_with(
            ("fix", "sensor_msgs/msg/NavSatFix"), ("odd", "my_msgs/msg/Odd"), ("tf", "tf2_msgs/msg/TFMessage")
        )
    )
    assert [(each.kind, each.label) for each in layers if each.topic] == [
        ("values", "fix"),
        ("values", "odd"),
    ]


def test_a_bool_is_a_contact_only_where_it_is_a_sensor():
    from usd_ros_bridge.model.physics import PhysicsScene
    from usd_ros_bridge.model.sensors import ContactSensor

    plan = plan_with(("bumper", "std_msgs/msg/Bool"), ("switch", "std_msgs/msg/Bool"))
    sensor = ContactSensor(path=plan.topics[0].path, type="std_msgs/msg/Bool", rate=10.0)
    plan = replace(plan, physics=PhysicsScene(sensors=(sensor,)))
    assert [each.kind for each in display_layers(plan) if each.topic] == ["contact", "values"]


def test_only_publishers_that_can_be_on_have_layers():
    plan = plan_with(*((name, "sensor_msgs/msg/Imu") for name in ("works", "off", "broken", "listens")))
    works, off, broken, listens = plan.topics
    plan = replace(
        plan,
        topics=(
            works,
            replace(off, enabled=False, reason=STARTS_DISABLED),
            replace(broken, enabled=False, reason="its name is invalid"),
            replace(listens, role="subscription"),
        ),
    )
    assert [each.label for each in display_layers(plan) if each.topic] == ["works", "off"]


def test_two_publishers_of_a_topic_are_one_layer():
    plan = plan_with(("scan", "sensor_msgs/msg/LaserScan"))
    again = replace(plan.topics[0], path="/robot_0/other")
    layers = display_layers(replace(plan, topics=(*plan.topics, again)))
    assert len([each for each in layers if each.topic]) == 1
    assert len({each.key for each in layers}) == len(layers)


def test_streams_are_asked_for_without_a_queue_and_latched_topics_with_their_last_message():
    plan = plan_with(("map", "nav_msgs/msg/OccupancyGrid"), ("scan", "sensor_msgs/msg/LaserScan"))
    latched = replace(plan.topics[0], qos=QosPlan(durability="transient_local"))
    layers = display_layers(replace(plan, topics=(latched, plan.topics[1])))
    assert [each.qos for each in layers if each.topic] == [LATCHED, NEWEST]
    assert NEWEST.depth == LATCHED.depth == 1


def test_a_robot_that_drives_leaves_the_trail_of_its_base():
    plan = rover().build()
    trails = [each for each in display_layers(plan) if each.kind == "trail"]
    assert [each.frame for each in trails] == [plan.robots[0].frames[plan.robots[0].base].id]


def test_what_cannot_move_leaves_no_trail():
    builder = PlanBuilder()
    robot = builder.robot("/post")
    robot.body("base")
    robot.joint("anchor", "", "base", kind="fixed")
    assert not [each for each in display_layers(builder.build()) if each.kind == "trail"]


def test_a_plan_without_robots_has_no_layers():
    assert display_layers(PlanBuilder().build()) == ()

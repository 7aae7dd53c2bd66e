"""The .rviz files of plans, read back, against what RViz' own sources define."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.rviz import MAX_ROBOTS, RvizConfig, rviz_command, rviz_config, start_lines
from usd_ros_bridge.model.message_types import MESSAGE_TYPES, message_type
from usd_ros_bridge.model.plan import BridgePlan, QosPlan, TfOutput
from usd_ros_bridge.options import PlanOptions

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")

EXAMPLES = Path(__file__).parents[3] / "examples"
ROVER = EXAMPLES / "rover" / "world.usda"
ARM = EXAMPLES / "arm" / "arm.usda"
FLEET = EXAMPLES / "fleet" / "fleet.usda"

# Class and property names of ros2/rviz at f7112b1ae4337363c4d8177bffe7cce6bbcabf29 (14.3.1 and later):
# rviz_default_plugins/plugins_description.xml, the constructors of the displays, tools and view controllers in
# rviz_default_plugins/src, and rviz_common/src/rviz_common/{panel,display}_factory.cpp.
DISPLAY = {"Class", "Name", "Enabled", "Value"}
QOS = {"Depth", "History Policy", "Reliability Policy", "Durability Policy", "Value"}
POINTS = {
    "Selectable", "Style", "Size (m)", "Size (Pixels)", "Alpha", "Decay Time", "Position Transformer",
    "Color Transformer", "Color", "Use Fixed Frame",
}  # fmt: skip
PROPERTIES: dict[str, set[str]] = {
    "rviz_common/Displays": {"Name"},
    "rviz_common/Selection": {"Name"},
    "rviz_common/Tool Properties": {"Name"},
    "rviz_common/Views": {"Name"},
    "rviz_common/Time": {"Name", "SyncMode", "SyncSource"},
    "rviz_common/Group": {"Displays"},
    "rviz_default_plugins/Grid": {
        "Reference Frame", "Plane Cell Count", "Normal Cell Count", "Cell Size", "Line Style", "Color", "Alpha",
        "Plane", "Offset",
    },
    "rviz_default_plugins/TF": {
        "Show Names", "Show Axes", "Show Arrows", "Marker Scale", "Update Interval", "Frame Timeout", "Frames",
    },
    "rviz_default_plugins/RobotModel": {
        "Visual Enabled", "Collision Enabled", "Mass Properties", "Update Interval", "Alpha", "Description Source",
        "Description File", "Description Topic", "TF Prefix", "Links",
    },
    "rviz_default_plugins/LaserScan": {"Topic"} | POINTS,
    "rviz_default_plugins/PointCloud2": {"Topic"} | POINTS,
    "rviz_default_plugins/Image": {"Topic", "Normalize Range", "Min Value", "Max Value", "Median window"},
    "rviz_default_plugins/Odometry": {
        "Topic", "Position Tolerance", "Angle Tolerance", "Keep", "Shape", "Covariance",
    },
    "rviz_default_plugins/Path": {"Topic", "Line Style", "Color", "Alpha", "Buffer Length", "Pose Style"},
    "rviz_default_plugins/Pose": {"Topic", "Shape", "Color", "Alpha", "Axes Length", "Axes Radius"},
    "rviz_default_plugins/PoseArray": {"Topic", "Color", "Alpha"},
    "rviz_default_plugins/PoseWithCovariance": {"Topic", "Color", "Alpha"},
    "rviz_default_plugins/PointStamped": {"Topic", "Color", "Alpha"},
    "rviz_default_plugins/Polygon": {"Topic", "Color", "Alpha"},
    "rviz_default_plugins/Range": {"Topic", "Color", "Alpha", "Buffer Length"},
    "rviz_default_plugins/Map": {"Topic", "Update Topic", "Alpha", "Color Scheme", "Draw Behind", "Use Timestamp"},
    "rviz_default_plugins/Marker": {"Topic"},
    "rviz_default_plugins/MarkerArray": {"Topic"},
    "rviz_default_plugins/TwistStamped": {"Topic"},
    "rviz_default_plugins/AccelStamped": {"Topic"},
    "rviz_default_plugins/Wrench": {
        "Topic", "Accept NaN Values", "Force Color", "Torque Color", "Alpha", "Force Arrow Scale", "Torque Arrow Scale",
        "Arrow Width", "History Length",
    },
    "rviz_default_plugins/Interact": {"Hide Inactive Objects"},
    "rviz_default_plugins/MoveCamera": set(),
    "rviz_default_plugins/Select": set(),
    "rviz_default_plugins/FocusCamera": set(),
    "rviz_default_plugins/Measure": {"Line color"},
    "rviz_default_plugins/SetInitialPose": {"Topic", "Covariance x", "Covariance y", "Covariance yaw"},
    "rviz_default_plugins/SetGoal": {"Topic"},
    "rviz_default_plugins/PublishPoint": {"Topic", "Single click"},
    "rviz_default_plugins/Orbit": {
        "Distance", "Enable Stereo Rendering", "Focal Point", "Focal Shape Fixed Size", "Focal Shape Size",
        "Invert Z Axis", "Near Clip Distance", "Pitch", "Target Frame", "Yaw",
    },
}  # fmt: skip
# The message types that plugins_description.xml lists for each display.
MESSAGES = {
    "AccelStamped": "geometry_msgs/msg/AccelStamped",
    "LaserScan": "sensor_msgs/msg/LaserScan",
    "Map": "nav_msgs/msg/OccupancyGrid",
    "Marker": "visualization_msgs/msg/Marker",
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "Odometry": "nav_msgs/msg/Odometry",
    "Path": "nav_msgs/msg/Path",
    "PointCloud2": "sensor_msgs/msg/PointCloud2",
    "PointStamped": "geometry_msgs/msg/PointStamped",
    "Polygon": "geometry_msgs/msg/PolygonStamped",
    "Pose": "geometry_msgs/msg/PoseStamped",
    "PoseArray": "geometry_msgs/msg/PoseArray",
    "PoseWithCovariance": "geometry_msgs/msg/PoseWithCovarianceStamped",
    "Range": "sensor_msgs/msg/Range",
    "TwistStamped": "geometry_msgs/msg/TwistStamped",
    "Wrench": "geometry_msgs/msg/WrenchStamped",
}


def plan_of(asset: Path, **options: Any) -> BridgePlan:
    return load_plan(asset, plan_options=PlanOptions(**options))


def read(config: RvizConfig) -> dict[str, Any]:
    document = yaml.safe_load(config.text)
    assert isinstance(document, dict)
    return document


def manager(config: RvizConfig) -> dict[str, Any]:
    found = read(config)["Visualization Manager"]
    assert isinstance(found, dict)
    return found


def displays(config: RvizConfig) -> list[dict[str, Any]]:
    """Every display, of groups, too."""
    found = []
    for each in manager(config)["Displays"]:
        found += each.get("Displays", []) if each["Class"] == "rviz_common/Group" else [each]
    return found


def shown(config: RvizConfig, name: str) -> list[dict[str, Any]]:
    return [each for each in displays(config) if each["Class"] == f"rviz_default_plugins/{name}"]


def with_every_type(plan: BridgePlan) -> BridgePlan:
    """The plan, and a publisher of each type that the bridge knows."""
    scan = plan.topics[0]
    names = {each: f"/rover/{number}/compressed" for number, each in enumerate(MESSAGE_TYPES)}
    more = (replace(scan, type=each, name=name, path=name) for each, name in names.items())
    return replace(plan, topics=(*plan.topics, *more))


def classes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("Class"):
            yield node
        for each in node.values():
            yield from classes(each)
    elif isinstance(node, list):
        for each in node:
            yield from classes(each)


# --- RViz' names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asset", [ROVER, ARM, FLEET], ids=lambda path: path.stem)
def test_classes_and_properties_are_those_of_rviz(asset: Path) -> None:
    plan = plan_of(asset, tf_output="both")
    config = rviz_config(with_every_type(plan) if asset == ROVER else plan)
    found = list(classes(read(config)))
    assert len(found) > 10
    for node in found:
        name = node["Class"]
        if name == "rviz_default_plugins/TF" and set(node) == {"Class"}:
            continue  # The transformer, which has no properties.
        assert set(node) - DISPLAY <= PROPERTIES[name], name
        for topic in (node.get(key) for key in ("Topic", "Update Topic", "Description Topic")):
            assert topic is None or set(topic) == QOS
    assert set(read(config)) == {"Panels", "Visualization Manager", "Window Geometry"}


def test_displays_are_of_the_types_that_rviz_has_them_for() -> None:
    images = {"sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"}
    assert {name: each.display for name, each in MESSAGE_TYPES.items() if each.display} == {
        **{type_name: display for display, type_name in MESSAGES.items()},
        **dict.fromkeys(images, "Image"),
    }
    config = rviz_config(with_every_type(plan_of(ROVER)))
    by_topic = {each["Topic"]["Value"]: each["Class"] for each in displays(config) if "Topic" in each}
    for number, name in enumerate(MESSAGE_TYPES):
        display = message_type(name).display
        expected = f"rviz_default_plugins/{display}" if display else None
        assert by_topic.get(f"/rover/{number}/compressed") == expected, name


def test_a_compressed_image_that_rviz_would_take_for_a_plain_one_is_left_out() -> None:
    plan = plan_of(ROVER)
    image = replace(plan.topics[0], type="sensor_msgs/msg/CompressedImage", name="/rover/jpeg")
    assert shown(rviz_config(replace(plan, topics=(image,))), "Image") == []


# --- One robot ----------------------------------------------------------------------------------------------------


def test_the_rover() -> None:
    config = rviz_config(plan_of(ROVER))
    assert config.remaps == (("/tf", "/rover/tf"), ("/tf_static", "/rover/tf_static"))
    assert (config.links, config.remarks, config.domain_id) == ((), (), None)
    assert config.fixed_frame == manager(config)["Global Options"]["Fixed Frame"] == "odom"
    (model,) = shown(config, "RobotModel")
    assert model["TF Prefix"] == ""
    assert model["Description Topic"] == {
        "Depth": 1,
        "Durability Policy": "Transient Local",
        "History Policy": "Keep Last",
        "Reliability Policy": "Reliable",
        "Value": "/rover/robot_description",
    }
    (scan,) = shown(config, "LaserScan")
    assert scan["Enabled"] is scan["Value"] is True
    assert scan["Topic"]["Value"] == "/rover/scan"
    assert scan["Topic"]["Reliability Policy"] == "Best Effort"
    assert scan["Topic"]["Depth"] == 5
    (odometry,) = shown(config, "Odometry")
    assert odometry["Topic"]["Reliability Policy"] == "Reliable"
    assert [each["Topic"]["Value"] for each in shown(config, "Image")] == ["/rover/image_raw"]


def test_tools_publish_where_the_asset_listens_else_where_nav2_does() -> None:
    def topics(plan: BridgePlan) -> list[str]:
        return [tool["Topic"]["Value"] for tool in manager(rviz_config(plan))["Tools"] if tool.get("Topic")]

    plan = plan_of(ROVER)
    assert topics(plan) == ["/rover/initialpose", "/rover/goal_pose", "/rover/clicked_point"]
    (twist,) = [topic for topic in plan.topics if topic.role == "subscription"]
    goal = replace(twist, type="geometry_msgs/msg/PoseStamped", name="/rover/target")
    assert topics(replace(plan, topics=(goal,)))[1] == "/rover/target"
    assert topics(plan_of(ROVER, namespace="fleet"))[1] == "/fleet/rover/goal_pose"


def test_names_have_the_namespace_of_the_node() -> None:
    config = rviz_config(plan_of(ROVER, namespace="one"))
    assert config.remaps[0] == ("/tf", "/one/rover/tf")
    names = {each["Topic"]["Value"] for each in displays(config) if "Topic" in each}
    assert names == {"/one/rover/scan", "/one/rover/image_raw", "/one/rover/odom"}
    assert [each["Name"] for each in shown(config, "LaserScan")] == ["scan"]


@pytest.mark.parametrize(
    ("options", "fixed", "prefix", "remaps"),
    [
        ({"tf_output": "global"}, "rover/odom", "rover", 0),
        ({"tf_output": "shared"}, "odom", "", 0),
        ({"tf_output": "both"}, "odom", "", 2),
        ({"frame_prefix": "a/"}, "a/odom", "a", 2),
        ({"base_transform": "ground_truth"}, "world", "", 2),
        ({"base_transform": "none"}, "base_link", "", 2),
        ({"publish_tf": False}, "odom", "", 0),
    ],
)
def test_frames_and_topics_follow_the_options(
    options: dict[str, Any], fixed: str, prefix: str, remaps: int
) -> None:
    plan = plan_of(ROVER, **options)
    config = rviz_config(plan)
    assert config.fixed_frame == fixed
    assert [each["TF Prefix"] for each in shown(config, "RobotModel")] == [prefix]
    assert len(config.remaps) == remaps
    assert all(each["Enabled"] for each in displays(config))
    assert config.remarks == ()


def test_a_prefix_that_rviz_cannot_express_is_remarked() -> None:
    config = rviz_config(plan_of(ROVER, frame_prefix="a_"))
    assert shown(config, "RobotModel") == []
    (remark,) = config.remarks
    assert "/World/rover" in remark
    assert "'a_'" in remark


def test_quality_of_service_never_asks_for_more_than_is_offered() -> None:
    plan = plan_of(ROVER)
    odom = next(topic for topic in plan.topics if topic.name == "/rover/odom")
    for qos, expected in (
        (QosPlan(reliability="best_effort"), ("Best Effort", "Volatile", "Keep Last", 10)),
        (QosPlan(durability="transient_local", history="keep_all", depth=0),
         ("Reliable", "Transient Local", "Keep Last", 1)),
        (QosPlan(reliability="system_default", durability="system_default", depth=100_000),
         ("System Default", "System Default", "Keep Last", 1000)),
    ):  # fmt: skip
        (display,) = shown(rviz_config(replace(plan, topics=(replace(odom, qos=qos),))), "Odometry")
        keys = ("Reliability Policy", "Durability Policy", "History Policy", "Depth")
        assert tuple(display["Topic"][key] for key in keys) == expected


def test_an_interface_that_is_off_for_good_is_not_shown() -> None:
    plan = plan_of(ROVER)
    scan = plan.topics[0]
    broken = replace(plan, topics=(replace(scan, enabled=False, reason="a fault"),))
    assert shown(rviz_config(broken), "LaserScan") == []
    off = replace(plan, topics=(replace(scan, enabled=False, starts_enabled=False),))
    assert len(shown(rviz_config(off), "LaserScan")) == 1


def test_the_view_has_the_whole_robot_in_sight() -> None:
    for asset in (ARM, FLEET):
        config = rviz_config(plan_of(asset, tf_output="both"))
        view = manager(config)["Views"]["Current"]
        assert view["Class"] == "rviz_default_plugins/Orbit"
        assert view["Distance"] >= 1.5
        assert all(abs(each) < 2.0 for each in view["Focal Point"].values())


def test_an_asset_without_a_robot_is_a_grid() -> None:
    config = rviz_config(BridgePlan(asset="empty.usda"))
    assert [each["Name"] for each in displays(config)] == ["Grid", "TF"]
    assert config.fixed_frame == "world"
    assert len(config.remarks) == 1


# --- Several robots -----------------------------------------------------------------------------------------------


def test_a_fleet_on_one_topic_has_a_group_and_a_colour_for_each() -> None:
    config = rviz_config(plan_of(FLEET, tf_output="global"))
    groups = [each for each in manager(config)["Displays"] if each["Class"] == "rviz_common/Group"]
    assert [each["Name"] for each in groups] == ["rover_1", "rover_2", "arm"]
    assert [each["TF Prefix"] for each in shown(config, "RobotModel")] == ["rover_1", "rover_2", "arm"]
    colors = [each["Color"] for each in shown(config, "LaserScan")]
    assert len(colors) == len(set(colors)) == 2
    assert all(each["Enabled"] for each in shown(config, "LaserScan"))
    images = shown(config, "Image")
    assert sum(each["Enabled"] for each in images) == 2 < len(images)
    assert config.remaps == ()
    assert config.remarks == ()


def test_trees_of_a_fleet_are_linked_where_the_robots_stand() -> None:
    config = rviz_config(plan_of(FLEET, tf_output="both"))
    assert config.fixed_frame == "world"
    assert [(each.parent, each.child) for each in config.links] == [
        ("world", "rover_1/odom"),
        ("world", "rover_2/odom"),
    ]
    assert config.links[0].parent_from_child.translation == pytest.approx((-1.0, 0.6, 0.0))
    assert config.links[1].parent_from_child.rotation == pytest.approx((0.0, 0.0, 0.258819, 0.965926))
    assert "rover_1/odom, rover_2/odom" in config.link_remark
    assert rviz_config(plan_of(FLEET, tf_output="both", base_transform="ground_truth")).links == ()


def test_headers_without_the_prefix_switch_displays_off() -> None:
    config = rviz_config(plan_of(FLEET, tf_output="both"))
    assert [each["Enabled"] for each in shown(config, "LaserScan")] == [False, False]
    assert [each for each in config.remarks if "/rover_1/scan" in each and "tf_output global" in each]


def test_robots_on_other_topics_are_left_out_and_named() -> None:
    config = rviz_config(plan_of(FLEET))
    assert len(shown(config, "RobotModel")) == 1
    (remark,) = config.remarks
    assert "/Fleet/rover_2, /Fleet/arm are left out" in remark
    assert "tf_output both" in remark


def test_robots_of_another_domain_are_left_out_and_the_command_has_the_domain() -> None:
    plan = plan_of(FLEET, tf_output="global")
    robots = tuple(
        replace(robot, domain_id=None if robot.path == "/Fleet/arm" else 7) for robot in plan.robots
    )
    topics = tuple(replace(topic, domain_id=7) for topic in plan.topics)
    config = rviz_config(replace(plan, robots=robots, topics=topics))
    assert config.domain_id == 7
    assert len(shown(config, "RobotModel")) == 2
    assert "those of domain 7" in config.remarks[0]
    assert rviz_command(config.remaps, domain_id=7) == "ROS_DOMAIN_ID=7 rviz2"


def test_of_a_thousand_robots_a_few_are_shown() -> None:
    plan = plan_of(ARM, tf_output="global")
    (robot,) = plan.robots
    robots = tuple(
        replace(
            robot,
            path=f"/arm_{number}",
            namespace=f"/arm_{number}",
            tf_outputs=(TfOutput(tf="/tf", tf_static="/tf_static", prefix=f"arm_{number}/"),),
        )
        for number in range(1000)
    )
    config = rviz_config(replace(plan, robots=robots))
    assert len(shown(config, "RobotModel")) == MAX_ROBOTS
    assert [each["Enabled"] for each in shown(config, "TF")] == [False]
    assert [each for each in config.remarks if each.startswith("1000 robots: RViz shows the first 16")]
    assert len(config.text) < 100_000


# --- The command --------------------------------------------------------------------------------------------------


def test_the_line_at_the_start() -> None:
    rover = plan_of(ROVER)
    assert start_lines(rover.robots) == (
        "RViz: rviz2 --ros-args -r /tf:=/rover/tf -r /tf_static:=/rover/tf_static",
    )
    (line,) = start_lines(rover.robots, use_sim_time=True)
    assert line.endswith(" -p use_sim_time:=true")
    (line,) = start_lines(plan_of(FLEET).robots)
    assert line.startswith("RViz: 3 robots, ")
    assert "/rover_1/tf" in line
    assert "/rover_2/tf" not in line
    assert "tf_output both" in line


def test_no_line_where_rviz_needs_no_remaps() -> None:
    for output in ("global", "both", "shared"):
        assert start_lines(plan_of(ROVER, tf_output=output).robots) == ()
    assert start_lines(plan_of(ROVER, publish_tf=False).robots) == ()


def test_a_file_with_spaces_is_quoted() -> None:
    assert rviz_command((), file="my rover.rviz") == "rviz2 -d 'my rover.rviz'"

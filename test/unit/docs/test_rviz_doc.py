"""The pages about RViz, Nav2 and MoveIt against the example assets: names in their YAML are names of the bridge."""

from __future__ import annotations

from typing import Any

import pytest

from markdown_docs import ROOT, blocks, page_path
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.rviz import start_lines
from usd_ros_bridge.model.plan import BridgePlan

pytestmark = pytest.mark.docs

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")


def document(page: str) -> dict[str, Any]:
    (block,) = [block for block in blocks(page_path(page)) if block.language == "yaml"]
    found: dict[str, Any] = yaml.safe_load(block.text)
    return found


def example(path: str) -> BridgePlan:
    return load_plan(ROOT / "examples" / path)


def test_the_costmap_listens_to_the_rovers_scan_in_the_rovers_frames() -> None:
    nav2 = document("nav2.md")
    parameters = nav2["local_costmap"]["local_costmap"]["ros__parameters"]
    rover = example("rover/world.usda")
    (robot,) = rover.robots
    assert nav2["amcl"]["ros__parameters"]["base_frame_id"] == robot.frames[robot.base].id
    (command,) = [topic for topic in rover.topics if topic.name.endswith("/cmd_vel")]
    stamped = [
        each["ros__parameters"].get("enable_stamped_cmd_vel")
        for each in nav2.values()
        if "ros__parameters" in each
    ]
    assert set(stamped) == {None, command.type.endswith("TwistStamped")}
    assert parameters["global_frame"] == robot.odom_frame
    assert parameters["robot_base_frame"] == robot.frames[robot.base].id
    source = parameters["obstacle_layer"]["scan"]
    (scan,) = [topic for topic in rover.topics if topic.name == source["topic"]]
    assert scan.type.endswith(f"/{source['data_type']}")


def test_moveits_controllers_are_the_arms() -> None:
    moveit = document("moveit.md")["moveit_simple_controller_manager"]
    arm = example("arm/arm.usda")
    actions = {action.name: action.type for action in arm.actions}
    joints = {controller.joints for controller in arm.controllers if controller.interfaces}
    assert len(moveit["controller_names"]) == len(actions)
    for name in moveit["controller_names"]:
        controller = moveit[name]
        assert actions[f"/arm/{name}/{controller['action_ns']}"].endswith(f"/{controller['type']}")
        assert tuple(controller["joints"]) in joints


def test_the_line_of_the_log_is_what_the_bridge_says() -> None:
    (line,) = start_lines(example("rover/world.usda").robots, use_sim_time=True)
    assert line in (page_path("rviz.md")).read_text(encoding="utf-8")

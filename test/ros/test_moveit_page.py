"""docs/tutorials/arm_moveit.md without MoveIt: its files against the URDF, and their names against a running bridge."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from rclpy.action import get_action_names_and_types
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from page_files import write_page_files
from page_runs import ARM
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.urdf import robot_urdf

pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

pytestmark = pytest.mark.docs

PAGE = "arm_moveit.md"
TIMEOUT_S = 90.0
TYPES = {
    "FollowJointTrajectory": "control_msgs/action/FollowJointTrajectory",
    "ParallelGripperCommand": "control_msgs/action/ParallelGripperCommand",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return write_page_files(PAGE, tmp_path)


@pytest.fixture(scope="module")
def urdf() -> ET.Element:
    return ET.fromstring(robot_urdf(load_plan(ARM, physics=True), 0).text)


@pytest.fixture
def arm(start: Any) -> Any:
    return start(load_plan(ARM, physics=True), "mujoco")


def load(files: dict[str, Path], name: str) -> Any:
    return yaml.safe_load(files[name].read_text(encoding="utf-8"))


def movable(urdf: ET.Element) -> dict[str, ET.Element]:
    return {joint.get("name", ""): joint for joint in urdf.findall("joint") if joint.get("type") != "fixed"}


def test_the_srdf_names_links_and_joints_of_the_urdf(files: dict[str, Path], urdf: ET.Element) -> None:
    srdf = ET.fromstring(files["arm.srdf"].read_text(encoding="utf-8"))
    links = {link.get("name") for link in urdf.findall("link")}
    assert srdf.get("name") == urdf.get("name")
    for chain in srdf.iter("chain"):
        assert {chain.get("base_link"), chain.get("tip_link")} <= links
    for pair in srdf.iter("disable_collisions"):
        assert {pair.get("link1"), pair.get("link2")} <= links
    assert {joint.get("name") for joint in srdf.iter("joint")} <= set(movable(urdf))
    assert {end.get("parent_link") for end in srdf.iter("end_effector")} <= links
    passive = {joint.get("name") for joint in srdf.iter("passive_joint")}
    assert passive == {name for name, joint in movable(urdf).items() if joint.find("mimic") is not None}


def test_the_chain_has_the_joints_of_the_controller(files: dict[str, Path], urdf: ET.Element) -> None:
    chain = ET.fromstring(files["arm.srdf"].read_text(encoding="utf-8")).find("group/chain")
    assert chain is not None
    above = {joint.find("child").get("link"): joint for joint in urdf.findall("joint")}  # type: ignore[union-attr]
    link, joints = chain.get("tip_link"), []
    while link != chain.get("base_link"):
        joint = above[link]
        joints.append(joint.get("name"))
        link = joint.find("parent").get("link")  # type: ignore[union-attr]
    controllers = load(files, "moveit_controllers.yaml")["moveit_simple_controller_manager"]
    arm = controllers["joint_trajectory_controller"]["joints"]
    assert [name for name in reversed(joints) if name in movable(urdf)] == arm


def test_neighbours_that_collide_may_touch(files: dict[str, Path], urdf: ET.Element) -> None:
    """Links that a joint connects and both have colliders."""
    srdf = ET.fromstring(files["arm.srdf"].read_text(encoding="utf-8"))
    disabled = {frozenset((pair.get("link1"), pair.get("link2"))) for pair in srdf.iter("disable_collisions")}
    colliding = {link.get("name") for link in urdf.findall("link") if link.find("collision") is not None}
    neighbours = {
        frozenset((joint.find("parent").get("link"), joint.find("child").get("link")))  # type: ignore[union-attr]
        for joint in urdf.findall("joint")
    }
    needed = {pair for pair in neighbours if pair <= colliding}
    assert needed <= disabled
    assert disabled - needed == {frozenset(("left_finger", "right_finger"))}


def test_states_and_limits_are_within_those_of_the_urdf(files: dict[str, Path], urdf: ET.Element) -> None:
    limits = {name: joint.find("limit").attrib for name, joint in movable(urdf).items()}  # type: ignore[union-attr]
    for joint in ET.fromstring(files["arm.srdf"].read_text(encoding="utf-8")).findall("group_state/joint"):
        limit = limits[joint.get("name", "")]
        assert float(limit["lower"]) <= float(joint.get("value", "")) <= float(limit["upper"]) + 1e-6
    authored = load(files, "joint_limits.yaml")["joint_limits"]
    leaders = {name for name, joint in movable(urdf).items() if joint.find("mimic") is None}
    assert set(authored) == leaders
    for name, limit in authored.items():
        assert 0.9 * limit["max_velocity"] <= float(limits[name]["velocity"])
        assert limit["max_velocity"] <= float(limits[name]["velocity"])


def test_kinematics_and_planning_name_groups_and_pipelines(files: dict[str, Path]) -> None:
    groups = {
        group.get("name")
        for group in ET.fromstring(files["arm.srdf"].read_text(encoding="utf-8")).findall("group")
    }
    assert set(load(files, "kinematics.yaml")) <= groups
    planning = load(files, "planning.yaml")
    assert planning["default_planning_pipeline"] in planning["planning_pipelines"]
    assert set(planning["planning_pipelines"]) <= set(planning)


def test_controllers_of_the_file_are_actions_of_the_bridge(
    files: dict[str, Path], arm: Any, ros_harness: Any
) -> None:
    controllers = load(files, "moveit_controllers.yaml")["moveit_simple_controller_manager"]
    wanted = {
        f"/arm/{name}/{controllers[name]['action_ns']}": [TYPES[controllers[name]["type"]]]
        for name in controllers["controller_names"]
    }

    def served() -> bool:
        found = dict(get_action_names_and_types(ros_harness.node))
        return wanted.items() <= found.items()

    ros_harness.wait_for(served, timeout=TIMEOUT_S, what=f"the actions {wanted}")


def test_joint_states_and_description_are_those_of_the_files(
    files: dict[str, Path], urdf: ET.Element, arm: Any, ros_harness: Any
) -> None:
    states: list[Any] = []
    descriptions: list[Any] = []
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    ros_harness.node.create_subscription(JointState, "/arm/joint_states", states.append, 10)
    ros_harness.node.create_subscription(String, "/arm/robot_description", descriptions.append, latched)
    ros_harness.wait_for(lambda: states and descriptions, timeout=TIMEOUT_S, what="states and a description")
    assert set(states[-1].name) == set(movable(urdf))
    published = ET.fromstring(descriptions[-1].data)
    for kind in ("link", "joint"):
        assert [each.get("name") for each in published.findall(kind)] == [
            each.get("name") for each in urdf.findall(kind)
        ]
    controllers = load(files, "moveit_controllers.yaml")["moveit_simple_controller_manager"]
    commanded = itertools.chain.from_iterable(
        controllers[name]["joints"] for name in controllers["controller_names"]
    )
    assert set(commanded) <= set(states[-1].name)


def test_transforms_connect_the_links_as_the_description_does(
    urdf: ET.Element, arm: Any, ros_harness: Any
) -> None:
    parents: dict[str, str] = {}

    def keep(message: Any) -> None:
        parents.update({row.child_frame_id: row.header.frame_id for row in message.transforms})

    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    ros_harness.node.create_subscription(TFMessage, "/arm/tf", keep, 10)
    ros_harness.node.create_subscription(TFMessage, "/arm/tf_static", keep, latched)
    described = {
        joint.find("child").get("link"): joint.find("parent").get("link")  # type: ignore[union-attr]
        for joint in urdf.findall("joint")
    }
    ros_harness.wait_for(lambda: set(described) <= set(parents), timeout=TIMEOUT_S, what="all frames")
    assert {child: parents[child] for child in described} == described

"""Sensors that `usd_ros_bridge scaffold` adds at links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from scaffolding import HEADER, Scaffolded, body, joint, robot, run, scaffold, scaffold_text, without_layer

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.sensors import CameraSensor
from usd_ros_bridge.spatial.transforms import pose_array, rotate

IMAGE, CAMERA_INFO = "sensor_msgs/msg/Image", "sensor_msgs/msg/CameraInfo"
LASER_SCAN, IMU = "sensor_msgs/msg/LaserScan", "sensor_msgs/msg/Imu"


def robot_with_links() -> str:
    inside = 'def Xform "camera_link" {}\n    def Xform "lidar_link" {}\n    def Xform "eye_optical_frame" {}'
    return robot(body("base_link", inside), body("tip"), joint("j", "/robot/base_link", "/robot/tip"))


def topic(plan: BridgePlan, name: str) -> TopicPlan:
    return next(each for each in plan.topics if each.name == name)


def findings(result: Scaffolded) -> set[str]:
    """What is wrong with the plan with physics beyond what is wrong with the asset itself."""
    # Without places: the layer over it says the same of the whole stage.
    before = {
        text_of(each) for each in load_plan(result.path.parent / "robot.usda", physics=True).diagnostics
    }
    plan = load_plan(result.path, physics=True)
    return {text_of(each) for each in plan.diagnostics if each.severity != "info"} - before


def text_of(diagnostic: Diagnostic) -> str:
    return str(replace(diagnostic, layer="", line=0))


@pytest.mark.parametrize("meters", [1.0, 0.01])
def test_a_camera_looks_along_x_of_its_link(tmp_path: Path, meters: float) -> None:
    asset = tmp_path / "robot.usda"
    header = HEADER.format(name="robot").replace("metersPerUnit = 1", f"metersPerUnit = {meters}")
    asset.write_text(header + robot_with_links(), encoding="utf-8")
    result = scaffold(asset, tmp_path / "ros.usda", "--camera", "camera_link")
    plan = load_plan(result.path, physics=True)
    assert plan.physics is not None
    (sensor,) = plan.physics.sensors
    assert isinstance(sensor, CameraSensor)
    ahead, right, down = rotate(
        pose_array(sensor.body_from_sensor)[3:], np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0.0]])
    )
    assert ahead == pytest.approx([1, 0, 0], abs=1e-6)
    assert right == pytest.approx([0, -1, 0], abs=1e-6)
    assert down == pytest.approx([0, 0, -1], abs=1e-6)
    (camera,) = plan.scene.cameras
    assert (camera.width, camera.height) == (640, 480)
    assert camera.fx == pytest.approx(640 * 0.0193 / 0.02652, rel=1e-5)
    assert (camera.near, camera.far) == pytest.approx((0.05, 100.0), rel=1e-5)
    for leaf, message in (("image_raw", IMAGE), ("camera_info", CAMERA_INFO)):
        found = topic(plan, f"/robot/camera/{leaf}")
        assert (found.type, found.publish_rate, found.frame_id) == (message, 15.0, "camera_optical_frame")
        assert (found.qos.reliability, found.qos.depth) == ("best_effort", 5)
    assert findings(result) == set()


def test_a_camera_looks_along_z_of_an_optical_frame(tmp_path: Path) -> None:
    result = scaffold_text(robot_with_links(), tmp_path, "--camera", "eye_optical_frame")
    plan = load_plan(result.path, physics=True)
    assert plan.physics is not None
    (sensor,) = plan.physics.sensors
    ahead = rotate(pose_array(sensor.body_from_sensor)[3:], np.array([0.0, 0.0, 1.0]))
    assert ahead == pytest.approx([0, 0, 1], abs=1e-6)
    assert topic(plan, "/robot/eye/image_raw").frame_id == "eye_optical_frame"
    assert findings(result) == set()


def test_a_lidar_and_an_imu_publish_in_the_frame_of_their_link(tmp_path: Path) -> None:
    result = scaffold_text(robot_with_links(), tmp_path, "--lidar", "lidar_link", "--imu", "base_link")
    scan, imu = topic(result.plan, "/robot/scan"), topic(result.plan, "/robot/imu")
    assert (scan.type, scan.publish_rate, scan.frame_id) == (LASER_SCAN, 10.0, "lidar_link")
    assert scan.qos.reliability == "reliable"
    assert (imu.type, imu.publish_rate, imu.frame_id) == (IMU, 100.0, "base_link")
    assert findings(result) == set()


def test_several_sensors_of_a_kind_are_named_after_their_links(tmp_path: Path) -> None:
    result = scaffold_text(robot_with_links(), tmp_path, "--imu", "base_link", "--imu", "/robot/tip")
    assert {name for name, kind in result.topics().items() if kind == IMU} == {
        "/robot/base/imu",
        "/robot/tip/imu",
    }


def test_a_link_that_is_named_twice_has_one_sensor(tmp_path: Path) -> None:
    result = scaffold_text(
        robot_with_links(), tmp_path, "--imu", "camera_link", "--imu", "/robot/base_link/camera_link"
    )
    assert [name for name, kind in result.topics().items() if kind == IMU] == ["/robot/imu"]


def test_names_that_are_equal_without_their_ends_get_numbers(tmp_path: Path) -> None:
    ends = ("front", "front_link", "front_frame")
    links = "\n    ".join(f'def Xform "{name}" {{}}' for name in ends)
    text = robot(body("base_link", links), body("tip"), joint("j", "/robot/base_link", "/robot/tip"))
    arguments = [word for name in ends for word in ("--camera", name, "--lidar", name)]
    result = scaffold_text(text, tmp_path, *arguments)
    assert findings(result) == set()
    found = result.topics()
    assert {name for name, kind in found.items() if kind == LASER_SCAN} == {
        "/robot/front/scan", "/robot/front_2/scan", "/robot/front_3/scan",
    }  # fmt: skip
    scopes = {name.rpartition("/")[0] for name, kind in found.items() if kind == IMAGE}
    assert scopes == {name.rpartition("/")[0] for name, kind in found.items() if kind == CAMERA_INFO}
    assert scopes == {"/robot/front", "/robot/front_camera", "/robot/front_camera_2"}


def test_a_link_whose_name_ros_does_not_allow_has_a_topic(tmp_path: Path) -> None:
    text = robot(
        body("base_link", 'def Xform "ä_link" {}'), body("tip"), joint("j", "/robot/base_link", "/robot/tip")
    )
    result = scaffold_text(text, tmp_path, "--camera", "ä_link", "--lidar", "ä_link")
    assert {name for name, kind in result.topics().items() if kind == IMAGE} == {"/robot/_/image_raw"}
    assert findings(result) == set()


def test_sensors_can_be_added_to_a_robot_with_interfaces(tmp_path: Path) -> None:
    scaffold(without_layer("rover", tmp_path), tmp_path / "ros.usda", "--lidar", "lidar_link")
    result = scaffold(tmp_path / "ros.usda", tmp_path / "more.usda", "--lidar", "camera_link")
    assert {name for name, kind in result.topics().items() if kind == LASER_SCAN} == {
        "/rover/scan",
        "/rover/camera/scan",
    }


def test_sensors_in_a_payload_move_with_their_link(tmp_path: Path) -> None:
    (tmp_path / "content.usda").write_text(HEADER.format(name="robot") + robot_with_links(), encoding="utf-8")
    asset = tmp_path / "robot.usda"
    asset.write_text(
        HEADER.format(name="robot") + 'def Xform "robot" ( prepend payload = @./content.usda@ ) {}\n',
        encoding="utf-8",
    )
    result = scaffold(asset, tmp_path / "ros.usda", "--lidar", "lidar_link", "--camera", "camera_link")
    assert topic(result.plan, "/robot/scan").path == "/robot/robot/base_link/lidar_link/lidar"
    assert topic(result.plan, "/robot/camera/image_raw").frame_id == "camera_optical_frame"


def test_an_ambiguous_link_is_refused(tmp_path: Path) -> None:
    text = robot(
        body("one", 'def Xform "mount" {}'),
        body("two", 'def Xform "mount" {}'),
        joint("j", "/robot/one", "/robot/two"),
    )
    asset = tmp_path / "robot.usda"
    asset.write_text(HEADER.format(name="robot") + text, encoding="utf-8")
    with pytest.raises(
        OptionError, match="several links have this name; name a path: /robot/one/mount, /robot/two/mount"
    ):
        run(asset, "-o", tmp_path / "ros.usda", "--camera", "mount")
    assert not (tmp_path / "ros.usda").exists()

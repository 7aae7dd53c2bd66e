"""What a URDF's plug-ins say about the limits of a differential drive: Gazebo Classic, gz-sim and ros2_control."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from case_tables import each_case
from usd_ros_bridge.importing.robot_file import read_robot_file
from usd_ros_bridge.model.scaffold import DriveLimits

pytestmark = pytest.mark.app

CLASSIC = '<plugin filename="libgazebo_ros_diff_drive.so" name="d">{}</plugin>'
GZ = '<plugin filename="gz-sim-diff-drive-system" name="gz::sim::systems::DiffDrive">{}</plugin>'
CONTROL = '<plugin filename="libgazebo_ros2_control.so" name="c"><parameters>{}</parameters></plugin>'


def limits(plugin: str, folder: Path) -> DriveLimits:
    file = folder / "robot.urdf"
    file.write_text(
        f'<robot name="r">\n<link name="base"/>\n<gazebo>{plugin}</gazebo></robot>', encoding="utf-8"
    )
    return read_robot_file(file, {"rover": folder}.get).drive_limits


@each_case(
    ("plugin", "expected"),
    [
        (
            CLASSIC.format("<max_wheel_acceleration> 2.5 </max_wheel_acceleration>"),
            {"linear_acceleration": 2.5},
        ),
        # 0 is Gazebo's word for none.
        (CLASSIC.format("<max_wheel_acceleration>0</max_wheel_acceleration>"), {}),
        (CLASSIC.format("<wheel_diameter>0.1</wheel_diameter>"), {}),
        (CLASSIC.format("<max_wheel_acceleration>fast</max_wheel_acceleration>"), {}),
        (
            GZ.format("<max_linear_acceleration>0.5</max_linear_acceleration><max_velocity>2</max_velocity>"),
            {"linear_acceleration": 0.5, "linear_velocity": 2.0, "angular_velocity": 2.0},
        ),
        (
            GZ.format(
                "<max_acceleration>3</max_acceleration><max_angular_acceleration>4</max_angular_acceleration>"
            ),
            {"linear_acceleration": 3.0, "angular_acceleration": 4.0},
        ),
        ('<plugin filename="libgazebo_ros_imu.so" name="i"><max_velocity>1</max_velocity></plugin>', {}),
    ],
)
def test_limits_are_read_from_gazebo_plugins(plugin: str, expected: dict[str, float], tmp_path: Path) -> None:
    found = limits(plugin, tmp_path)
    assert found == DriveLimits(**expected, source=found.source)
    assert bool(found.source) == bool(expected)
    if expected:
        assert found.source.endswith(" at robot.urdf:3")


PARAMETERS = """
controller_manager: {ros__parameters: {update_rate: 30}}
other: {ros__parameters: {linear.x.max_velocity: 9.0}}
/**/base:
  ros__parameters:
    left_wheel_names: [left]
    linear.x.max_velocity: 0.7
    linear.x.has_acceleration_limits: false
    linear.x.max_acceleration: 5.0
    angular: {z: {max_acceleration: 2.0, max_velocity: .nan}}
"""


@each_case("path", ["rover.yaml", "package://rover/rover.yaml", "{}/rover.yaml", "file://{}/rover.yaml"])
def test_parameters_of_ros2_control(path: str, tmp_path: Path) -> None:
    (tmp_path / "rover.yaml").write_text(PARAMETERS, encoding="utf-8")
    assert limits(CONTROL.format(path.format(tmp_path)), tmp_path) == DriveLimits(
        linear_velocity=0.7, angular_acceleration=2.0, source="rover.yaml"
    )


@each_case(("path", "content"), [("rover.yaml", "{"), ("no.yaml", ""), ("package://unknown/rover.yaml", "")])
def test_parameters_that_cannot_be_read_are_said(path: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "rover.yaml").write_text(content, encoding="utf-8")
    assert limits(CONTROL.format(path), tmp_path) == DriveLimits(unread=path)


@each_case(
    "content",
    [
        "[" * 5000,
        "\n".join(
            f"a{n + 1}: &a{n + 1} {{x: *a{n}, y: *a{n}}}" if n else "a1: &a1 {x: 1}" for n in range(40)
        ),
        "a: &a {ros__parameters: {left_wheel_names: [l], linear: *a}}",
    ],
)
def test_parameters_that_would_take_a_machine_down_are_not_read(content: str, tmp_path: Path) -> None:
    (tmp_path / "rover.yaml").write_text(content, encoding="utf-8")
    assert limits(CONTROL.format("rover.yaml"), tmp_path) == DriveLimits(unread="rover.yaml")


@each_case("path", ["/dev/zero", ".", "pipe"])
def test_parameters_are_a_file(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert limits(CONTROL.format(path), tmp_path) == DriveLimits(unread=path)

"""Sides by name: which names of wheels say left or right, and which say nothing."""

from __future__ import annotations

from case_tables import each_case
from usd_ros_bridge.planning.drive_wheels import side_of


@each_case(
    ("name", "side"),
    [
        ("left_wheel", "left"),
        ("wheel_right_joint", "right"),
        ("LeftWheelJoint", "left"),
        ("rightwheel", "right"),
        ("wheel_l", "left"),
        ("WheelR", "right"),
        ("FL_wheel", "left"),
        ("wheel_rear_right_1", "right"),
        ("wheel_RR_joint", "right"),
        ("rl_wheel", "left"),
        ("lr_wheel", "left"),
        ("wheel", ""),
        ("wheel_1", ""),
        ("wheel_left_right", ""),
        ("roller", ""),
        ("wheel_front", ""),
    ],
)
def test_side_of(name: str, side: str) -> None:
    assert side_of(name) == side

"""Every kind of sensor over DDS, in MuJoCo: a robot that stands in a corner with a weight on a string of its own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from rclpy.qos import QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from sensor_msgs.msg import Imu, NavSatFix
from sensor_stage import KINDS, sensor_plan


@pytest.fixture(scope="module")
def plan():
    return sensor_plan()


def stamp(message):
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


def test_every_kind_of_sensor_measures(start, ros_harness, plan):
    heard = {name: [] for name in KINDS}
    for name, (kind, _, _) in KINDS.items():
        ros_harness.node.create_subscription(
            kind, f"/robot/{name}", heard[name].append, qos_profile_sensor_data
        )
    running = start(plan, "mujoco", real_time_factor=4.0)
    ros_harness.wait_for(
        lambda: stamp(heard["fix"][-1]) >= 2_000_000_000 if heard["fix"] else False, timeout=90.0, what="two seconds"
    )  # fmt: skip
    ros_harness.wait_for(lambda: all(heard.values()), what="a message of each kind")
    last = {name: messages[-1] for name, messages in heard.items()}
    running.close()

    for name, message in last.items():
        frame = getattr(getattr(message, "header", None), "frame_id", name)
        assert frame == name
    scan = last["scan"]
    assert scan.ranges[4] == pytest.approx(2.0, abs=1e-3)
    assert [np.isinf(scan.ranges[index]) for index in (0, 2, 6)] == [True] * 3
    assert (scan.angle_increment, scan.scan_time) == (pytest.approx(np.pi / 4.0), pytest.approx(0.05))
    assert (last["points"].height, last["points"].width, last["points"].is_dense) == (3, 1024, False)
    assert last["range"].range == pytest.approx(2.0, abs=1e-3)

    imu = last["imu"]
    assert imu.linear_acceleration.z == pytest.approx(9.81, abs=1e-2)
    assert abs(imu.angular_velocity.x) < np.deg2rad(6.0)
    assert imu.angular_velocity_covariance[0] == pytest.approx(np.deg2rad(1.0) ** 2)
    assert imu.angular_velocity.x != heard["imu"][-2].angular_velocity.x
    wrench = last["wrench"].wrench
    assert wrench.force.z == pytest.approx(-2.0 * 9.81, rel=1e-2)
    assert last["bumper"].data
    fix = last["fix"]
    assert (fix.latitude, fix.longitude) == (pytest.approx(48.1, abs=1e-7), pytest.approx(11.5, abs=1e-7))
    assert fix.altitude == pytest.approx(520.25, abs=1e-2)
    assert fix.position_covariance_type == NavSatFix.COVARIANCE_TYPE_UNKNOWN
    assert last["field"].magnetic_field.z == pytest.approx(-44e-6, abs=1e-8)
    assert last["air"].fluid_pressure == pytest.approx(
        101_325.0 * (1.0 - 2.25577e-5 * 520.25) ** 5.25588, rel=1e-5
    )


@pytest.mark.parametrize("name", ["imu", "scan"])
def test_what_is_measured_keeps_its_rate_in_simulated_time(start, ros_harness, plan, name):
    kind, rate, _ = KINDS[name]
    heard = []
    # The bridge is in this process, too: a short queue would be full before this thread has its turn.
    quality = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
    ros_harness.node.create_subscription(kind, f"/robot/{name}", heard.append, quality)
    start(plan, "mujoco", real_time_factor=4.0)
    ros_harness.wait_for(lambda: len(heard) >= 2.0 * rate, timeout=90.0, what="two seconds of it")
    stamps = np.array([stamp(message) for message in heard])
    period = 1_000_000_000 // rate
    apart = np.diff(stamps)
    # Best effort may lose a few: never more often than asked for, never between two periods.
    assert (apart % period == 0).all(), apart
    assert (apart == period).mean() > 0.9, apart
    assert (stamps % 2_000_000 == 0).all()


def test_an_ideal_imu_is_published_where_no_backend_measures(start, ros_harness, plan):
    heard = ros_harness.listen(Imu, "/robot/imu", qos_profile_sensor_data)
    running = start(plan, "kinematic")
    ros_harness.wait_for(lambda: bool(heard), what="an Imu")
    assert heard[-1].linear_acceleration.z == pytest.approx(9.81)
    assert heard[-1].angular_velocity_covariance.tolist() == [0.0] * 9
    assert "serves no sensor" in running.row("/robot/scan").reason

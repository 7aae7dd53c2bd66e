"""Motion of points on bodies for arrays: what the scalar functions are held to, itself held to scipy.

All functions broadcast over leading axes. Poses are (..., 7), twists and accelerations (..., 6), linear then angular.
"""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.spatial.transforms import FloatArray, compose, quaternion_conjugate, relative, rotate

GRAVITY: FloatArray = np.array([0.0, 0.0, -9.81])
"""Acceleration of gravity in the ROS world, m/s^2: what UsdPhysics scenes have unless they say otherwise."""
GRAVITY.setflags(write=False)


def odometry_pose(world_from_start: FloatArray, world_from_body: FloatArray) -> FloatArray:
    """Returns `odom_from_body`: odometry starts where the body was at the start (REP 105)."""
    return relative(world_from_start, world_from_body)


def twist_at(world_from_body: FloatArray, body_twist: FloatArray, body_from_point: FloatArray) -> FloatArray:
    """Returns the twist of a point that is fixed to a body, in the world frame.

    Args:
        world_from_body: Pose of the body.
        body_twist: Twist of the body's origin in the world frame, m/s and rad/s.
        body_from_point: Pose of the point in the body.
    """
    lever = rotate(world_from_body[..., 3:], body_from_point[..., :3])
    linear = body_twist[..., :3] + np.cross(body_twist[..., 3:], lever)
    return np.concatenate((linear, np.broadcast_to(body_twist[..., 3:], linear.shape)), axis=-1)


def in_frame(world_from_frame: FloatArray, twist: FloatArray) -> FloatArray:
    """Returns a twist or acceleration of the world frame expressed in another frame's axes, as in nav_msgs/Odometry."""
    turn = quaternion_conjugate(world_from_frame[..., 3:])
    return np.concatenate((rotate(turn, twist[..., :3]), rotate(turn, twist[..., 3:])), axis=-1)


def acceleration_at(
    world_from_body: FloatArray,
    body_twist: FloatArray,
    body_acceleration: FloatArray,
    body_from_point: FloatArray,
) -> FloatArray:
    """Returns the linear acceleration (..., 3) of a point that is fixed to a body, in the world frame, m/s^2.

    Args:
        world_from_body: Pose of the body.
        body_twist: Twist of the body's origin in the world frame.
        body_acceleration: Acceleration of the body's origin in the world frame, without gravity.
        body_from_point: Pose of the point in the body.
    """
    lever = rotate(world_from_body[..., 3:], body_from_point[..., :3])
    spin = body_twist[..., 3:]
    result: FloatArray = (
        body_acceleration[..., :3]
        + np.cross(body_acceleration[..., 3:], lever)
        + np.cross(spin, np.cross(spin, lever))
    )
    return result


def imu(
    world_from_body: FloatArray,
    body_twist: FloatArray,
    body_acceleration: FloatArray,
    body_from_sensor: FloatArray,
    gravity: FloatArray = GRAVITY,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns what an ideal IMU measures (REP 145).

    Args:
        world_from_body: Pose of the body that carries the sensor.
        body_twist: Twist of the body's origin in the world frame.
        body_acceleration: Acceleration of the body's origin in the world frame, without gravity.
        body_from_sensor: Pose of the sensor in the body; off-centre sensors feel the body's rotation.
        gravity: (..., 3) acceleration of gravity in the world frame.

    Returns:
        Orientation (..., 4) of the sensor in the world; angular velocity (..., 3) rad/s and specific force (..., 3)
        m/s^2 in the sensor frame: at rest, gravity pointing up.
    """
    world_from_sensor = compose(world_from_body, body_from_sensor)
    turn = quaternion_conjugate(world_from_sensor[..., 3:])
    force = acceleration_at(world_from_body, body_twist, body_acceleration, body_from_sensor) - gravity
    return world_from_sensor[..., 3:], rotate(turn, body_twist[..., 3:]), rotate(turn, force)

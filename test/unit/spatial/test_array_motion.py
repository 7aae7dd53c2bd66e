"""What sensors measure, against motions worked out by hand and by numerical differentiation."""

from __future__ import annotations

import numpy as np
from array_motion import GRAVITY, acceleration_at, imu, in_frame, odometry_pose, twist_at
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from usd_ros_bridge.spatial.transforms import FloatArray, compose, exponential, pose, rotate, to_matrix

vectors = arrays(np.float64, 3, elements=st.floats(-3.0, 3.0, allow_subnormal=False))


def test_an_imu_at_rest_feels_gravity_upwards() -> None:
    still = np.zeros(6)
    orientation, spin, force = imu(pose(), still, still, pose((0.3, 0.0, 0.1)))
    assert_allclose(orientation, [0.0, 0.0, 0.0, 1.0])
    assert_allclose(spin, 0.0)
    assert_allclose(force, [0.0, 0.0, 9.81])


def test_an_imu_mounted_on_its_side_feels_gravity_along_its_own_axis() -> None:
    still = np.zeros(6)
    on_its_side = pose(rotation=(np.sin(np.pi / 4), 0.0, 0.0, np.cos(np.pi / 4)))
    assert_allclose(imu(pose(), still, still, on_its_side)[2], [0.0, 9.81, 0.0], atol=1e-12)


def test_an_imu_in_free_fall_feels_nothing() -> None:
    falling = np.array([*GRAVITY, 0.0, 0.0, 0.0])
    assert_allclose(imu(pose(), np.zeros(6), falling, pose((1.0, 2.0, 3.0)))[2], 0.0, atol=1e-12)


def test_an_imu_off_the_axis_of_a_turntable_feels_the_centripetal_acceleration() -> None:
    spinning = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 4.0])
    for angle in (0.0, 1.0):
        turned = pose(rotation=exponential(np.array([0.0, 0.0, angle])))
        _, spin, force = imu(turned, spinning, np.zeros(6), pose((0.5, 0.0, 0.0)))
        assert_allclose(spin, [0.0, 0.0, 4.0], atol=1e-12)
        assert_allclose(force, [-8.0, 0.0, 9.81], atol=1e-12)


@given(vectors, vectors, vectors, vectors, vectors)
def test_a_point_of_a_body_moves_as_its_position_differentiated_twice(
    turn: FloatArray, velocity: FloatArray, spin: FloatArray, linear: FloatArray, angular: FloatArray
) -> None:
    """x(t) of a point under v + a t and a rotation with spin + angular t, differentiated numerically at t = 0."""
    lever = np.array([0.4, -0.3, 0.2])
    start = Rotation.from_rotvec(turn)

    def position(t: float) -> FloatArray:
        # To second order in t; the Magnus term is of third order.
        rotation = Rotation.from_rotvec(spin * t + 0.5 * angular * t * t) * start
        return velocity * t + 0.5 * linear * t * t + rotation.apply(lever)

    h = 1e-4
    body = pose(rotation=start.as_quat())
    twist, acceleration = np.concatenate((velocity, spin)), np.concatenate((linear, angular))
    first = (position(h) - position(-h)) / (2.0 * h)
    second = (position(h) - 2.0 * position(0.0) + position(-h)) / h**2
    point = pose(lever)
    assert_allclose(twist_at(body, twist, point)[:3], first, atol=1e-5)
    assert_allclose(acceleration_at(body, twist, acceleration, point), second, atol=1e-4)


def test_odometry_is_relative_to_the_start_with_its_twist_in_the_child() -> None:
    start = pose((2.0, 1.0, 0.0), exponential(np.array([0.0, 0.0, 0.5])))
    moved = pose((0.3, 0.1, 0.0), exponential(np.array([0.0, 0.0, 0.2])))
    assert_allclose(to_matrix(odometry_pose(start, compose(start, moved))), to_matrix(moved), atol=1e-12)
    heading = exponential(np.array([0.0, 0.0, 0.7]))
    ahead = np.concatenate((rotate(heading, np.array([1.5, 0.0, 0.0])), [0.0, 0.0, 0.25]))
    assert_allclose(in_frame(pose(rotation=heading), ahead), [1.5, 0.0, 0.0, 0.0, 0.0, 0.25], atol=1e-12)


def test_many_at_once() -> None:
    rng = np.random.default_rng(4)
    poses = np.concatenate((rng.normal(size=(5, 3)), exponential(rng.normal(size=(5, 3)))), axis=-1)
    twists, accelerations = rng.normal(size=(5, 6)), rng.normal(size=(5, 6))
    together = imu(poses, twists, accelerations, pose((0.1, 0.0, 0.0)))
    for row in range(5):
        alone = imu(poses[row], twists[row], accelerations[row], pose((0.1, 0.0, 0.0)))
        for many, one in zip(together, alone, strict=True):
            assert_allclose(many[row], one)

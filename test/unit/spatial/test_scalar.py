"""Scalar math against the array functions of array_motion.py and spatial/transforms.py."""

from __future__ import annotations

import array_motion
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge.spatial import scalar, transforms

NUMBERS = st.floats(-1e3, 1e3, allow_nan=False)
VECTORS = st.tuples(NUMBERS, NUMBERS, NUMBERS)
TWISTS = st.tuples(*[st.floats(-50.0, 50.0, allow_nan=False)] * 6)
QUATERNIONS = st.tuples(*[st.floats(-1.0, 1.0, allow_nan=False)] * 4).filter(
    lambda q: np.linalg.norm(q) > 0.1
)


@st.composite
def poses(draw):
    rotation = np.array(draw(QUATERNIONS))
    return (*draw(VECTORS), *(rotation / np.linalg.norm(rotation)).tolist())


def agree(scalars, arrays):
    np.testing.assert_allclose(scalars, arrays, rtol=1e-9, atol=1e-6)


def arrays(*values):
    return [np.array(each) for each in values]


@given(poses(), poses(), VECTORS)
def test_rotations(left, right, vector):
    p, q, v = arrays(left, right, vector)
    agree(scalar.rotate(left[3:], vector), transforms.rotate(p[3:], v))
    agree(scalar.rotate_back(left[3:], vector), transforms.rotate(transforms.quaternion_conjugate(p[3:]), v))
    agree(scalar.multiply(left[3:], right[3:]), transforms.quaternion_multiply(p[3:], q[3:]))
    agree(scalar.cross(left[:3], vector), np.cross(p[:3], v))


@given(poses(), poses())
def test_odometry(start, body):
    agree(scalar.relative(start, body), array_motion.odometry_pose(*arrays(start, body)))


@given(poses(), TWISTS, TWISTS, poses())
def test_twists_and_accelerations_of_points(body, twist, change, point):
    b, t, c, p = arrays(body, twist, change, point)
    agree(scalar.in_axes(body[3:], twist), array_motion.in_frame(b, t))
    agree(scalar.velocity_at(body[3:], twist, point[:3]), array_motion.twist_at(b, t, p))
    agree(
        scalar.acceleration_at(body[3:], twist, change, point[:3]), array_motion.acceleration_at(b, t, c, p)
    )


@given(poses(), TWISTS, TWISTS, poses(), st.booleans())
def test_imu(body, twist, change, sensor, centred):
    if centred:
        sensor = (0.0, 0.0, 0.0, *sensor[3:])
    found = scalar.imu(body[3:], twist, change, scalar.Mounting(sensor))
    for scalars, expected in zip(found, array_motion.imu(*arrays(body, twist, change, sensor)), strict=True):
        agree(scalars, expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_finite(bad):
    assert scalar.finite([1.0, 2.0])
    assert not scalar.finite([1.0, bad, 2.0])
    assert not scalar.finite([np.inf, -np.inf])


def test_gravity_is_that_of_the_array_functions():
    assert tuple(-array_motion.GRAVITY) == scalar.UP

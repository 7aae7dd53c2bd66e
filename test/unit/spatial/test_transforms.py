"""Pose functions against scipy's rotations and matrices, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from usd_ros_bridge.spatial.transforms import (
    FEW_ANGLES,
    IDENTITY,
    FloatArray,
    axis_rotation,
    compose,
    decompose,
    exponential,
    from_rotation_matrix,
    half_sine_and_cosine,
    inverse,
    normalized,
    pose,
    quaternion_multiply,
    relative,
    rotate,
    rotation_vector,
    to_matrix,
    twist_exponential,
)

numbers = st.floats(-10.0, 10.0, allow_subnormal=False)
vectors = arrays(np.float64, 3, elements=numbers)
rotation_vectors = arrays(np.float64, 3, elements=st.floats(-1.7, 1.7, allow_subnormal=False))


@st.composite
def poses(draw: st.DrawFn) -> FloatArray:
    return np.concatenate((draw(vectors), exponential(draw(vectors))))


def same_pose(actual: FloatArray, expected: FloatArray, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(to_matrix(actual), to_matrix(expected), atol=tolerance)


@given(poses(), poses())
def test_compose_is_the_product_of_matrices(a: FloatArray, b: FloatArray) -> None:
    np.testing.assert_allclose(to_matrix(compose(a, b)), to_matrix(a) @ to_matrix(b), atol=1e-9)


@given(poses(), poses(), poses())
def test_compose_is_associative(a: FloatArray, b: FloatArray, c: FloatArray) -> None:
    same_pose(compose(compose(a, b), c), compose(a, compose(b, c)), 1e-8)


@given(poses())
def test_inverse_undoes(a: FloatArray) -> None:
    same_pose(compose(a, inverse(a)), IDENTITY)
    same_pose(compose(inverse(a), a), IDENTITY)


@given(poses(), poses())
def test_relative_leads_from_one_to_the_other(a: FloatArray, b: FloatArray) -> None:
    same_pose(compose(a, relative(a, b)), b)


@given(vectors, vectors)
def test_rotate_agrees_with_scipy(turn: FloatArray, vector: FloatArray) -> None:
    expected = Rotation.from_rotvec(turn).apply(vector)
    np.testing.assert_allclose(rotate(exponential(turn), vector), expected, atol=1e-9)


@given(vectors, vectors)
def test_quaternion_product_agrees_with_scipy(a: FloatArray, b: FloatArray) -> None:
    expected = (Rotation.from_rotvec(a) * Rotation.from_rotvec(b)).as_quat()
    actual = quaternion_multiply(exponential(a), exponential(b))
    assert abs(np.dot(actual, expected)) == pytest.approx(1.0)


@given(rotation_vectors)
def test_rotation_vector_inverts_exponential(turn: FloatArray) -> None:
    np.testing.assert_allclose(rotation_vector(exponential(turn)), turn, atol=1e-9)
    np.testing.assert_allclose(rotation_vector(-exponential(turn)), turn, atol=1e-9)


@given(st.sampled_from(np.eye(3).tolist()), st.floats(-20.0, 20.0))
def test_axis_rotation_agrees_with_scipy(axis: list[float], angle: float) -> None:
    expected = Rotation.from_rotvec(np.array(axis) * angle).as_matrix()
    np.testing.assert_allclose(
        to_matrix(pose(rotation=axis_rotation(np.array(axis), np.array(angle))))[:3, :3], expected, atol=1e-9
    )


@given(poses(), arrays(np.float64, 3, elements=st.floats(0.01, 100.0)), st.booleans())
def test_decompose_inverts_pose_and_scale(a: FloatArray, scale: FloatArray, mirrored: bool) -> None:
    scale = scale * np.array([1.0, 1.0, -1.0 if mirrored else 1.0])
    matrix = to_matrix(a) @ np.diag([*scale, 1.0])
    found, found_scale = decompose(matrix)
    np.testing.assert_allclose(found_scale, scale, rtol=1e-9)
    same_pose(found, a, 1e-8)
    assert found[6] >= 0.0


@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_decompose_marks_matrices_without_a_pose(fault: float) -> None:
    matrices = np.tile(np.eye(4), (3, 1, 1))
    matrices[0, 0, 3] = fault
    matrices[1, 0, 0] = 0.0
    found, _ = decompose(matrices)
    assert np.isnan(found[:2]).all()
    np.testing.assert_allclose(found[2], IDENTITY)


@given(vectors)
def test_rotation_matrices_give_their_quaternion(turn: FloatArray) -> None:
    expected = Rotation.from_rotvec(turn)
    actual = from_rotation_matrix(expected.as_matrix())
    assert abs(np.dot(actual, expected.as_quat())) == pytest.approx(1.0)


def test_a_zero_quaternion_becomes_nan() -> None:
    assert np.isnan(normalized(np.zeros((2, 4)))).all()
    np.testing.assert_allclose(normalized(np.array([0.0, 0.0, 0.0, 3.0])), [0.0, 0.0, 0.0, 1.0])


def twist_matrix(twist: FloatArray) -> FloatArray:
    x, y, z = twist[3:]
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    matrix[:3, 3] = twist[:3]
    return matrix


@given(arrays(np.float64, 6, elements=st.floats(-4.0, 4.0, allow_subnormal=False)))
def test_twist_exponential_is_the_matrix_exponential(twist: FloatArray) -> None:
    np.testing.assert_allclose(to_matrix(twist_exponential(twist)), expm(twist_matrix(twist)), atol=1e-9)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 9.9e-5, 1.01e-4, 1e-3])
def test_twist_exponential_is_smooth_at_small_angles(angle: float) -> None:
    twist = np.array([0.3, -0.2, 0.5, angle, -0.5 * angle, 0.1 * angle])
    np.testing.assert_allclose(to_matrix(twist_exponential(twist)), expm(twist_matrix(twist)), atol=1e-15)


def test_functions_broadcast_over_leading_axes() -> None:
    rng = np.random.default_rng(1)
    many = np.concatenate((rng.normal(size=(3, 4, 3)), exponential(rng.normal(size=(3, 4, 3)))), axis=-1)
    one = many[1, 2]
    np.testing.assert_allclose(compose(many, one)[2, 3], compose(many[2, 3], one))
    np.testing.assert_allclose(compose(one, many)[2, 3], compose(one, many[2, 3]))
    np.testing.assert_allclose(inverse(many)[2, 3], inverse(many[2, 3]))


@given(arrays(np.float64, (4, 4), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_decompose_takes_any_matrix(matrix: FloatArray) -> None:
    found, _ = decompose(matrix)
    assert np.isfinite(found).all() or np.isnan(found).all()


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_decompose_marks_what_overflows_or_vanishes_when_squared(size: float) -> None:
    found, _ = decompose(np.diag([size, 1.0, 1.0, 1.0]))
    assert np.isnan(found).all()


@pytest.mark.parametrize("repeats", [1, 10], ids=["few", "many"])
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_half_sine_and_cosine_are_exact_to_rounding(repeats: int, angles: list[float]) -> None:
    # Multiples of two pi among them: the tangent of a quarter of the angle has its poles there.
    turns = np.pi * np.array([0.0, 0.5, 1.0, -1.0, 2.0, -2.0, 3.0, 4.0, 6.0])
    angle = np.tile([*angles, *turns, 1e9], repeats)
    assert (angle.size > FEW_ANGLES) == (repeats > 1)
    sine, cosine = np.empty_like(angle), np.empty_like(angle)
    half_sine_and_cosine(angle, sine, cosine)
    np.testing.assert_allclose(sine, np.sin(0.5 * angle), rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(cosine, np.cos(0.5 * angle), rtol=0.0, atol=1e-15)

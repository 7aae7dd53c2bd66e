"""Rigid transforms as arrays of (..., 7): x, y, z in metres, then a unit quaternion x, y, z, w.

A pose named `parent_from_child` maps a point in the child to the parent. All functions broadcast over leading axes.
Quaternion order is that of geometry_msgs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usd_ros_bridge.spatial.pose import Pose

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

IDENTITY: FloatArray = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
IDENTITY.setflags(write=False)
FEW_ANGLES = 64
"""Up to how many angles three calls of numpy are faster than seven."""
_QUARTER, _HALF, _ONE, _TWO = np.array(0.25), np.array(0.5), np.array(1.0), np.array(2.0)

# np.roll takes ten times as long.
_WXYZ, _XYZW = [3, 0, 1, 2], [1, 2, 3, 0]


def quaternion_multiply(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the Hamilton product of quaternions, shape (..., 4)."""
    lx, ly, lz, lw = (left[..., i] for i in range(4))
    rx, ry, rz, rw = (right[..., i] for i in range(4))
    product = np.empty(np.broadcast_shapes(left.shape, right.shape))
    product[..., 0] = lw * rx + lx * rw + ly * rz - lz * ry
    product[..., 1] = lw * ry - lx * rz + ly * rw + lz * rx
    product[..., 2] = lw * rz + lx * ry - ly * rx + lz * rw
    product[..., 3] = lw * rw - lx * rx - ly * ry - lz * rz
    return product


def quaternion_conjugate(quaternion: FloatArray) -> FloatArray:
    """Return the inverse rotation of unit quaternions, shape (..., 4)."""
    result: FloatArray = quaternion * np.array([-1.0, -1.0, -1.0, 1.0])
    return result


def rotate(quaternion: FloatArray, vector: FloatArray) -> FloatArray:
    """Return vectors (..., 3) rotated by unit quaternions (..., 4)."""
    x, y, z, w = (quaternion[..., i] for i in range(4))
    vx, vy, vz = (vector[..., i] for i in range(3))
    # v + 2 w (u x v) + 2 u x (u x v), u the quaternion's vector part: spelled out, a third of what np.cross costs.
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    rotated = np.empty((*np.broadcast_shapes(x.shape, vx.shape), 3))
    rotated[..., 0] = vx + w * tx + (y * tz - z * ty)
    rotated[..., 1] = vy + w * ty + (z * tx - x * tz)
    rotated[..., 2] = vz + w * tz + (x * ty - y * tx)
    return rotated


def half_sine_and_cosine(angle: FloatArray, sine: FloatArray, cosine: FloatArray) -> None:
    """Compute the sine and the cosine of half of angles, to a few units in the last place of 1.

    Of many angles both follow from the tangent of a quarter, which numpy computes with vector instructions where the
    CPU has them, and sine and cosine of float64 one by one: a thousand take a quarter of the time.

    Args:
        angle: (N,) radians.
        sine: (N,) is overwritten.
        cosine: (N,) is overwritten.
    """
    # By position and in place: keyword arguments, scalars to convert and new arrays are half of what a call costs.
    if angle.size <= FEW_ANGLES:
        np.multiply(angle, _HALF, sine)
        np.cos(sine, cosine)
        np.sin(sine, sine)
        return
    np.multiply(angle, _QUARTER, sine)
    np.tan(sine, sine)
    np.multiply(sine, sine, cosine)
    np.add(cosine, _ONE, cosine)
    np.divide(_TWO, cosine, cosine)
    np.multiply(sine, cosine, sine)
    np.subtract(cosine, _ONE, cosine)


def normalized(quaternion: FloatArray) -> FloatArray:
    """Return unit quaternions; a zero or non-finite one becomes NaN, so that callers can find it."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # einsum: an eighth of what np.linalg.norm costs for one.
        length = np.sqrt(np.einsum("...i,...i->...", quaternion, quaternion))
        result: FloatArray = quaternion / length[..., None]
    return result


def wxyz(quaternion: FloatArray) -> FloatArray:
    """Reorder quaternions (..., 4) x, y, z, w to w, x, y, z, normalized."""
    return normalized(np.asarray(quaternion, dtype=np.float64))[..., _WXYZ]


def xyzw(quaternion: FloatArray) -> FloatArray:
    """Reorder quaternions (..., 4) w, x, y, z to x, y, z, w."""
    return quaternion[..., _XYZW]


def pose(translation: ArrayLike = (0.0, 0.0, 0.0), rotation: ArrayLike = (0.0, 0.0, 0.0, 1.0)) -> FloatArray:
    """Return poses (..., 7) from translations (..., 3) and unit quaternions (..., 4)."""
    t, r = np.asarray(translation, dtype=np.float64), np.asarray(rotation, dtype=np.float64)
    shape = np.broadcast_shapes(t.shape[:-1], r.shape[:-1])
    return np.concatenate((np.broadcast_to(t, (*shape, 3)), np.broadcast_to(r, (*shape, 4))), axis=-1)


def pose_array(value: Pose) -> FloatArray:
    """Return a pose of a plan as an array (7,), its quaternion normalised."""
    rotation = normalized(np.array(value.rotation, dtype=np.float64))
    return np.concatenate((np.array(value.translation, dtype=np.float64), rotation))


def compose(a_from_b: FloatArray, b_from_c: FloatArray) -> FloatArray:
    """Return `a_from_c`, poses of shape (..., 7)."""
    translation = a_from_b[..., :3] + rotate(a_from_b[..., 3:], b_from_c[..., :3])
    return np.concatenate((translation, quaternion_multiply(a_from_b[..., 3:], b_from_c[..., 3:])), axis=-1)


def inverse(a_from_b: FloatArray) -> FloatArray:
    """Return `b_from_a`, poses of shape (..., 7)."""
    rotation = quaternion_conjugate(a_from_b[..., 3:])
    return np.concatenate((-rotate(rotation, a_from_b[..., :3]), rotation), axis=-1)


def relative(world_from_a: FloatArray, world_from_b: FloatArray) -> FloatArray:
    """Return `a_from_b`, poses of shape (..., 7)."""
    return compose(inverse(world_from_a), world_from_b)


def axis_rotation(axis: FloatArray, angle: FloatArray) -> FloatArray:
    """Return quaternions (..., 4) that rotate by `angle` (...) radians about unit vectors `axis` (..., 3)."""
    half = 0.5 * np.asarray(angle, dtype=np.float64)[..., None]
    return np.concatenate((axis * np.sin(half), np.cos(half)), axis=-1)


def rotation_vector(quaternion: FloatArray) -> FloatArray:
    """Return rotation vectors (..., 3), radians, at most pi long, of unit quaternions (..., 4)."""
    q = np.where(quaternion[..., 3:4] < 0.0, -quaternion, quaternion)
    length = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(length, q[..., 3:4])
    scale = np.where(length > 1e-12, angle / np.where(length > 1e-12, length, 1.0), 2.0)
    result: FloatArray = q[..., :3] * scale
    return result


def exponential(vector: FloatArray) -> FloatArray:
    """Return unit quaternions (..., 4) of rotation vectors (..., 3) in radians."""
    angle = np.linalg.norm(vector, axis=-1, keepdims=True)
    half = 0.5 * angle
    scale = np.where(angle > 1e-12, np.sin(half) / np.where(angle > 1e-12, angle, 1.0), 0.5)
    return np.concatenate((vector * scale, np.cos(half)), axis=-1)


def twist_exponential(twist: FloatArray) -> FloatArray:
    """Return the poses (..., 7) that body-frame twists (..., 6) reach in unit time: the exponential map of SE(3).

    Args:
        twist: Linear then angular velocity times the duration, in the moving frame: metres, radians.
    """
    vx, vy, vz, wx, wy, wz = (twist[..., i] for i in range(6))
    angle = np.sqrt(wx * wx + wy * wy + wz * wz)
    small = angle < 1e-4
    safe = np.where(small, 1.0, angle)
    square = safe * safe
    sine, cosine = np.sin(0.5 * safe), np.cos(0.5 * safe)
    # Series to third order where the closed forms lose all digits.
    series = angle * angle
    a = np.where(small, 0.5 - series / 48.0, sine / safe)
    b = np.where(small, 0.5 - series / 24.0, 2.0 * sine * sine / square)
    c = np.where(small, 1.0 / 6.0 - series / 120.0, (safe - 2.0 * sine * cosine) / (square * safe))
    # w x v and w x (w x v), spelled out as in `rotate`.
    x, y, z = wy * vz - wz * vy, wz * vx - wx * vz, wx * vy - wy * vx
    poses = np.empty((*twist.shape[:-1], 7))
    poses[..., 0] = vx + b * x + c * (wy * z - wz * y)
    poses[..., 1] = vy + b * y + c * (wz * x - wx * z)
    poses[..., 2] = vz + b * z + c * (wx * y - wy * x)
    poses[..., 3] = a * wx
    poses[..., 4] = a * wy
    poses[..., 5] = a * wz
    poses[..., 6] = np.where(small, 1.0 - series / 8.0, cosine)
    return poses


def interpolate_poses(time: FloatArray, poses: FloatArray, at: FloatArray) -> FloatArray:
    """Return poses at other times: positions linearly, rotations along the shortest arc.

    Args:
        time: (T,) increasing, at least one.
        poses: (T, 7) at those.
        at: (M,) times; before the first and after the last the poses are those.

    Returns:
        (M, 7) poses.
    """
    lower = np.clip(np.searchsorted(time, at, side="right") - 1, 0, max(len(time) - 2, 0))
    upper = np.minimum(lower + 1, len(time) - 1)
    length = time[upper] - time[lower]
    share = np.clip((at - time[lower]) / np.where(length > 0.0, length, 1.0), 0.0, 1.0)[:, None]
    first, last = poses[lower], poses[upper]
    start = normalized(first[:, 3:])
    turn = quaternion_multiply(normalized(last[:, 3:]), quaternion_conjugate(start))
    rotation = quaternion_multiply(exponential(share * rotation_vector(turn)), start)
    return np.concatenate(
        (first[:, :3] + share * (last[:, :3] - first[:, :3]), normalized(rotation)), axis=-1
    )


def from_rotation_matrix(matrix: FloatArray) -> FloatArray:
    """Return unit quaternions (..., 4), w not negative, of proper rotation matrices (..., 3, 3)."""
    m = np.asarray(matrix, dtype=np.float64)
    # The eigenvector of the largest eigenvalue of this symmetric form is the closest rotation (Bar-Itzhack 2000):
    # no case distinction, and matrices that are orthonormal to float32 only give a clean quaternion.
    k = np.empty((*m.shape[:-2], 4, 4))
    k[..., 0, 0] = m[..., 0, 0] - m[..., 1, 1] - m[..., 2, 2]
    k[..., 1, 1] = m[..., 1, 1] - m[..., 0, 0] - m[..., 2, 2]
    k[..., 2, 2] = m[..., 2, 2] - m[..., 0, 0] - m[..., 1, 1]
    k[..., 3, 3] = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    k[..., 0, 1] = k[..., 1, 0] = m[..., 0, 1] + m[..., 1, 0]
    k[..., 0, 2] = k[..., 2, 0] = m[..., 0, 2] + m[..., 2, 0]
    k[..., 1, 2] = k[..., 2, 1] = m[..., 1, 2] + m[..., 2, 1]
    k[..., 0, 3] = k[..., 3, 0] = m[..., 2, 1] - m[..., 1, 2]
    k[..., 1, 3] = k[..., 3, 1] = m[..., 0, 2] - m[..., 2, 0]
    k[..., 2, 3] = k[..., 3, 2] = m[..., 1, 0] - m[..., 0, 1]
    quaternion: FloatArray = np.linalg.eigh(k / 3.0)[1][..., :, 3]
    return np.where(quaternion[..., 3:4] < 0.0, -quaternion, quaternion)


def decompose(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split affine matrices into poses and scales.

    Args:
        matrix: (..., 4, 4) for column vectors, without shear.

    Returns:
        Poses (..., 7) and scales (..., 3). A mirrored matrix has a negative last scale; a singular or non-finite
        one gives a NaN pose.
    """
    m = np.asarray(matrix, dtype=np.float64)
    linear = m[..., :3, :3]
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.linalg.norm(linear, axis=-2)
        mirrored = np.linalg.det(linear) < 0.0
    scale = np.where(mirrored[..., None], scale * np.array([1.0, 1.0, -1.0]), scale)
    # Squares of huge or tiny entries overflow or vanish, though the entries themselves are finite.
    fit = np.isfinite(scale) & (np.abs(scale) > 0.0)
    usable: NDArray[np.bool_] = np.asarray(np.isfinite(m).all(axis=(-2, -1)) & fit.all(axis=-1))
    normal = np.where(usable[..., None, None], linear / np.where(fit, scale, 1.0)[..., None, :], np.eye(3))
    result = np.concatenate((m[..., :3, 3], from_rotation_matrix(normal)), axis=-1)
    return np.where(usable[..., None], result, np.nan), scale


def to_matrix(a_from_b: FloatArray) -> FloatArray:
    """Return matrices (..., 4, 4) for column vectors of poses (..., 7)."""
    x, y, z, w = np.moveaxis(a_from_b[..., 3:], -1, 0)
    m = np.zeros((*a_from_b.shape[:-1], 4, 4))
    m[..., 0, 0], m[..., 0, 1], m[..., 0, 2] = (
        1 - 2 * (y * y + z * z),
        2 * (x * y - z * w),
        2 * (x * z + y * w),
    )
    m[..., 1, 0], m[..., 1, 1], m[..., 1, 2] = (
        2 * (x * y + z * w),
        1 - 2 * (x * x + z * z),
        2 * (y * z - x * w),
    )
    m[..., 2, 0], m[..., 2, 1], m[..., 2, 2] = (
        2 * (x * z - y * w),
        2 * (y * z + x * w),
        1 - 2 * (x * x + y * y),
    )
    m[..., :3, 3] = a_from_b[..., :3]
    m[..., 3, 3] = 1.0
    return m

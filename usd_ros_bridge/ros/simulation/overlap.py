"""Whether boxes of entities overlap with a sphere or a box in the world: the `bounds` of entity filters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.transforms import FloatArray, inverse, rotate, to_matrix

_PARALLEL = 1e-9
"""Added to projections, so that the cross product of parallel edges separates nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Box:
    """A box aligned with the axes of a frame.

    Attributes:
        pose: (7,) `world_from_frame`.
        low: (3,) lowest corner, m.
        high: (3,) highest corner, m.
    """

    pose: FloatArray
    low: FloatArray
    high: FloatArray


def sphere_overlaps(box: Box, centre: FloatArray, radius: float) -> bool:
    """Returns whether a sphere touches a box.

    Args:
        box: The box.
        centre: (3,) in the world frame, m.
        radius: m.
    """
    inside = inverse(box.pose)
    point = rotate(inside[3:], centre) + inside[:3]
    distance = np.linalg.norm(point - np.clip(point, box.low, box.high))
    return bool(distance <= radius)


def box_overlaps(box: Box, low: FloatArray, high: FloatArray) -> bool:
    """Returns whether a box that is aligned with the world's axes touches another.

    Two convex solids are apart exactly where an axis separates them; of boxes these are the normals of their faces and
    the cross products of their edges.

    Args:
        box: The other.
        low: (3,) lowest corner in the world frame, m.
        high: (3,) highest corner, m.
    """
    matrix = to_matrix(box.pose)
    rotation = matrix[:3, :3]
    offset = matrix[:3, 3] + rotation @ ((box.low + box.high) / 2.0) - (low + high) / 2.0
    half, other = (high - low) / 2.0, (box.high - box.low) / 2.0
    crossed = [np.cross(np.eye(3)[i], rotation[:, j]) for i in range(3) for j in range(3)]
    axes = np.concatenate((np.eye(3), rotation.T, crossed))
    reach = np.abs(axes) @ half + np.abs(axes @ rotation) @ other
    return bool((np.abs(axes @ offset) <= reach + _PARALLEL).all())

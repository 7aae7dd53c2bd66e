"""Poses as MuJoCo takes them: quaternions w, x, y, z."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import Pose
from usd_ros_bridge.model.transforms import normalized
from usd_ros_bridge.model.transforms import pose as make_pose

FloatArray = NDArray[np.float64]


def pose_of(pose: Pose) -> FloatArray:
    """Returns a pose of the model as an array (7,): x, y, z, quaternion x, y, z, w."""
    return make_pose(pose.translation, pose.rotation)


def wxyz(quaternion: FloatArray) -> FloatArray:
    """Returns quaternions (..., 4) x, y, z, w as w, x, y, z, normalised."""
    return np.roll(normalized(np.asarray(quaternion, dtype=np.float64)), 1, axis=-1)


def xyzw(quaternion: FloatArray) -> FloatArray:
    """Returns quaternions (..., 4) w, x, y, z as x, y, z, w."""
    return np.roll(quaternion, -1, axis=-1)


def place(element: Any, pose: FloatArray) -> None:
    """Puts an element of a specification where `parent_from_element` (7,) says."""
    element.pos = pose[:3]
    element.quat = wxyz(pose[3:])

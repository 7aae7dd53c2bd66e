"""Messages of entities: states, bounds and information, to and from numpy and the plan's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Vector3
from simulation_interfaces.msg import Bounds, EntityCategory
from simulation_interfaces.srv import SetEntityState

from usd_ros_bridge.backends.protocol import EntityState
from usd_ros_bridge.model.plan import WORLD
from usd_ros_bridge.model.ranges import POSITION, SPEED
from usd_ros_bridge.model.transforms import FloatArray, compose, normalized, rotate
from usd_ros_bridge.ros.simulation.entities import Category
from usd_ros_bridge.ros.simulation.overlap import Box, box_overlaps, sphere_overlaps
from usd_ros_bridge.ros.simulation.results import FAILED, UNSUPPORTED, RefusedError

Overlaps = Callable[[Box], bool]

_CATEGORIES: dict[Category, int] = {
    "object": EntityCategory.CATEGORY_OBJECT,
    "robot": EntityCategory.CATEGORY_ROBOT,
    "human": EntityCategory.CATEGORY_HUMAN,
    "dynamic_object": EntityCategory.CATEGORY_DYNAMIC_OBJECT,
    "static_object": EntityCategory.CATEGORY_STATIC_OBJECT,
}
_NAMES = {number: name for name, number in _CATEGORIES.items()}
INVALID_POSE = int(getattr(SetEntityState.Response, "INVALID_POSE", 101))
"""Of SetEntityState, which has no name for it before 1.0.1."""
_ROUNDED = 0.01
"""How far the length of a quaternion may be from 1: people type 0.707."""


def category_number(category: Category) -> int:
    """Returns the number of a category."""
    return _CATEGORIES[category]


def category_name(number: int) -> Category:
    """Returns the category of a number.

    Raises:
        RefusedError: There is no such category.
    """
    if number not in _NAMES:
        raise RefusedError(FAILED, f"there is no entity category {number}")
    return _NAMES[number]


def fill_state(message: Any, state: EntityState, time_ns: int) -> None:
    """Writes how an entity moves, in the world frame.

    Args:
        message: simulation_interfaces/msg/EntityState.
        state: What to write.
        time_ns: Bridge time of the state.
    """
    message.header.frame_id = WORLD
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(time_ns, 1_000_000_000)
    pose = state.pose.tolist()
    _fill(message.pose.position, pose[:3])
    _fill(message.pose.orientation, pose[3:])
    _fill_pair(message.twist, state.twist)
    if state.acceleration is not None:
        _fill_pair(message.acceleration, state.acceleration)


def asked_pose(message: Any, world_from_frame: FloatArray, *, invalid: int = INVALID_POSE) -> FloatArray:
    """Returns `world_from_body` (7,) that is asked for.

    Args:
        message: geometry_msgs/msg/Pose.
        world_from_frame: (7,) the frame it is given in.
        invalid: Code of the answer where it is no pose.

    Raises:
        RefusedError: It is no pose.
    """
    p, q = message.position, message.orientation
    pose = np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
    if not np.isfinite(pose).all():
        raise RefusedError(invalid, "the pose has numbers that are not finite")
    if any(value not in POSITION for value in pose[:3].tolist()):
        raise RefusedError(invalid, f"the position is not in {POSITION}")
    length = float(np.linalg.norm(pose[3:]))
    if abs(length - 1.0) > _ROUNDED:
        raise RefusedError(invalid, f"the orientation is no unit quaternion: its length is {length:.6g}")
    pose[3:] = normalized(pose[3:])
    return compose(world_from_frame, pose)


def asked_twist(message: Any, world_from_frame: FloatArray) -> FloatArray:
    """Returns the linear, then angular velocity (6,) in the world frame that is asked for.

    Args:
        message: geometry_msgs/msg/Twist or Accel, in the axes of the frame.
        world_from_frame: (7,) the frame it is given in.

    Raises:
        RefusedError: It has numbers that are not finite.
    """
    linear, angular = message.linear, message.angular
    twist = np.array([[linear.x, linear.y, linear.z], [angular.x, angular.y, angular.z]])
    if not np.isfinite(twist).all():
        raise RefusedError(FAILED, "the twist or acceleration has numbers that are not finite")
    if any(value not in SPEED for value in twist.ravel().tolist()):
        raise RefusedError(FAILED, f"the twist or acceleration is not in {SPEED}")
    return rotate(world_from_frame[3:], twist).ravel()


def fill_box(message: Any, corners: tuple[FloatArray, FloatArray] | None) -> None:
    """Writes bounds: a box, the greatest corner first; empty for None."""
    message.type = Bounds.TYPE_EMPTY if corners is None else Bounds.TYPE_BOX
    message.points = [] if corners is None else [_vector(corner) for corner in reversed(corners)]


def overlap_filter(message: Any) -> Overlaps | None:
    """Returns what tells whether a box overlaps with bounds in the world frame; None where they are empty.

    Args:
        message: simulation_interfaces/msg/Bounds.

    Raises:
        RefusedError: They are of a kind that is not supported, or not valid.
    """
    if message.type == Bounds.TYPE_EMPTY:
        return None
    if message.type not in (Bounds.TYPE_BOX, Bounds.TYPE_SPHERE):
        raise RefusedError(
            UNSUPPORTED, f"bounds of type {message.type}: entities are filtered by boxes and spheres"
        )
    points = np.array([[point.x, point.y, point.z] for point in message.points[:3]])
    if points.shape != (2, 3) or any(value not in POSITION for value in points.ravel().tolist()):
        raise RefusedError(
            FAILED, f"a box has two corners and a sphere a centre and a radius, all in {POSITION}"
        )
    if message.type == Bounds.TYPE_BOX:
        low, high = points.min(axis=0), points.max(axis=0)
        return lambda box: box_overlaps(box, low, high)
    radius = float(points[1, 0])
    if radius < 0.0:
        raise RefusedError(FAILED, f"a sphere of radius {radius:g} m is not possible")
    return lambda box: sphere_overlaps(box, points[0], radius)


def fill_info(message: Any, category: Category, description: str, tags: Iterable[str]) -> None:
    """Writes simulation_interfaces/msg/EntityInfo."""
    message.category.category = category_number(category)
    message.description, message.tags = description, list(tags)


def _fill(message: Any, values: Sequence[float]) -> None:
    for name, value in zip("xyzw", values, strict=False):
        setattr(message, name, value)


def _fill_pair(message: Any, values: FloatArray) -> None:
    numbers = values.tolist()
    _fill(message.linear, numbers[:3])
    _fill(message.angular, numbers[3:])


def _vector(point: FloatArray) -> Any:
    x, y, z = point.tolist()
    return Vector3(x=x, y=y, z=z)

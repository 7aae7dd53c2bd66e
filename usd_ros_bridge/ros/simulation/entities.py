"""Entities: robots and bodies of a simulation, their names, frames, bounds and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from geometry_msgs.msg import Vector3
from simulation_interfaces.msg import Bounds, EntityCategory
from simulation_interfaces.srv import SetEntityState

from usd_ros_bridge.backends.base import EntityBackend, EntityState
from usd_ros_bridge.errors import did_you_mean, quoted
from usd_ros_bridge.model.plan import WORLD, BridgePlan, FramePlan
from usd_ros_bridge.ranges import POSITION, SPEED
from usd_ros_bridge.ros.simulation.results import FAILED, NOT_FOUND, UNSUPPORTED, RefusedError
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    inverse,
    normalized,
    pose_array,
    rotate,
    to_matrix,
)

Category = Literal["object", "robot", "human", "dynamic_object", "static_object"]

NOTHING_SPAWNED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A robot, body or link that services report and move.

    Attributes:
        name: Unique.
        path: Prim path of its body; of a robot, its root body.
        robot: Index in BridgePlan.robots of the robot, also of a link's robot; -1 for other bodies.
        kinematic: Whether forces do not move it.
        category: Category.
        description: Text for people.
        tags: Tags for filters.
    """

    name: str
    path: str
    robot: int = -1
    kinematic: bool = False
    category: Category = "object"
    description: str = ""
    tags: tuple[str, ...] = ()


_SEARCHED = 1000


class EntityTable:
    """The entities by their names; also by the prim paths of their bodies, and of robots' contexts.

    Attributes:
        entities: Robots, then bodies that belong to none, then links; otherwise in traversal order.
    """

    def __init__(self, entities: Sequence[Entity], aliases: Iterable[tuple[str, str]] = ()) -> None:
        self.entities = tuple(entities)
        by_name = {entity.name: entity for entity in self.entities}
        self._found = {entity.path: entity for entity in reversed(self.entities)}
        self._found.update({alias: by_name[name] for alias, name in aliases if name in by_name})
        self._found.update(by_name)

    def get(self, name: str) -> Entity | None:
        """Return the entity of that name, None where there is none."""
        return self._found.get(name)

    def suggestion(self, name: str) -> str:
        """Return what a misspelt name may stand for, as the end of a sentence; "" if nothing is like it."""
        # Services answer between two ticks: a long list is not searched.
        question = did_you_mean(name, (each.name for each in self.entities[:_SEARCHED]))
        return f"; {question}" if question else ""


def make_table(
    plan: BridgePlan, paths: Sequence[str], spawned: Mapping[str, str] = NOTHING_SPAWNED
) -> EntityTable:
    """Name the robots and bodies of a simulation.

    A robot has the name of its context's prim, a body that belongs to no robot that of its own prim, and a link that
    of its robot, a slash and the prim's. Where that is not unique, as many of the prims above as it takes come in
    front, with slashes between. A robot stands for its root body, which has no other entry.

    Args:
        plan: The plan.
        paths: Prim paths of all bodies.
        spawned: Names by the paths of prims that were spawned: the first robot at or below one, else the first body,
            has that name.
    """
    known, unnamed = set(paths), dict(spawned)

    def candidates_of(path: str) -> list[str]:
        for prim, name in unnamed.items():
            if f"{path}/".startswith(f"{prim}/"):
                del unnamed[prim]
                return [name, *_tails(path)]
        return _tails(path)

    robot_of, kinematic = _owners(plan), _kinematic(plan)
    animated = {plan.layout.bodies[track.row] for track in plan.scene.pose_tracks}
    roots = {
        index: plan.layout.bodies[robot.base_row]
        for index, robot in enumerate(plan.robots)
        if robot.base_row >= 0 and plan.layout.bodies[robot.base_row] in known
    }
    taken: set[str] = set()
    contexts = [plan.robots[index].path for index in roots]
    robot_names = dict(
        zip(roots, unique_names([candidates_of(path) for path in contexts], taken), strict=True)
    )
    entities = [_robot(plan, index, name, roots[index]) for index, name in robot_names.items()]
    rest = [path for path in paths if path not in set(roots.values())]
    props = [path for path in rest if robot_of.get(path, -1) not in roots]
    for path, name in zip(props, unique_names([candidates_of(path) for path in props], taken), strict=True):
        entities.append(_prop(path, name, kinematic=path in kinematic, animated=path in animated))
    links = [path for path in rest if robot_of.get(path, -1) in roots]
    candidates = []
    for path in links:
        robot = robot_of[path]
        inner = _tails(path, plan.robots[robot].path)[:-1]
        candidates.append([*(f"{robot_names[robot]}/{tail}" for tail in inner), path])
    for path, name in zip(links, unique_names(candidates, taken), strict=True):
        robot = robot_of[path]
        entities.append(
            Entity(
                name=name,
                path=path,
                robot=robot,
                description=f"{path}, link of {robot_names[robot]}",
                kinematic=path in kinematic,
                tags=("link",),
            )
        )
    return EntityTable(entities, [(plan.robots[index].path, name) for index, name in robot_names.items()])


def unique_names(candidates: Sequence[Sequence[str]], taken: set[str]) -> list[str]:
    """Choose a name for each: the first of its candidates that is unique.

    Args:
        candidates: For each, from the shortest name on; the last one is unique.
        taken: Names of others; the chosen ones are added.
    """
    level = [0] * len(candidates)
    while True:
        names = [each[min(at, len(each) - 1)] for each, at in zip(candidates, level, strict=True)]
        count = Counter(names)
        clashing = [i for i, name in enumerate(names) if count[name] > 1 or name in taken]
        growing = [i for i in clashing if level[i] < len(candidates[i]) - 1]
        if not growing:
            taken.update(names)
            return names
        for i in growing:
            level[i] += 1


def tags_pass(tags: Iterable[str], wanted: Set[str], *, every: bool) -> bool:
    """Return whether `tags` has any of `wanted`, or all of them with `every`. An empty `wanted` lets all pass."""
    return not wanted or (wanted <= set(tags) if every else not wanted.isdisjoint(tags))


def _tails(path: str, above: str = "") -> list[str]:
    """Return the ends of a prim path, from the shortest on; the whole path last.

    Args:
        path: Prim path.
        above: A prim at or above it, whose name and what is above it are left out of the others.
    """
    inner = path[len(above) :] if above and path.startswith(f"{above}/") else path
    parts = inner.strip("/").split("/")
    return ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)] + [path]


def _owners(plan: BridgePlan) -> dict[str, int]:
    owners = {
        plan.layout.bodies[row]: index for index, robot in enumerate(plan.robots) for row in robot.bodies
    }
    for body in plan.physics.bodies if plan.physics is not None else ():
        if body.robot >= 0:
            owners.setdefault(body.path, body.robot)
    return owners


def _kinematic(plan: BridgePlan) -> set[str]:
    layout = plan.layout
    kinematic = {path for path, flag in zip(layout.bodies, layout.kinematic.tolist(), strict=True) if flag}
    if plan.physics is not None:
        kinematic |= {body.path for body in plan.physics.bodies if body.kinematic}
    return kinematic


def _robot(plan: BridgePlan, index: int, name: str, path: str) -> Entity:
    robot = plan.robots[index]
    dofs = sum(len(joint.dofs) for joint in robot.joints)
    where = f"{robot.path}, namespace {robot.namespace}, {dofs} degrees of freedom"
    return Entity(name=name, path=path, robot=index, category="robot", description=where, tags=("robot",))


def _prop(path: str, name: str, *, kinematic: bool, animated: bool) -> Entity:
    category: Category = "static_object" if kinematic else "object"
    return Entity(
        name=name,
        path=path,
        kinematic=kinematic,
        category="dynamic_object" if animated else category,
        description=path,
        tags=("prop", "kinematic") if kinematic else ("prop",),
    )


def world_frame_ids(plan: BridgePlan) -> frozenset[str]:
    """Return the names of the world frame: its own, none, and what robots' topmost frames hang from."""
    return frozenset(("", WORLD, *(robot.parent_frame for robot in plan.robots)))


def world_from_frame(runtime: Runtime, backend: EntityBackend, frame_id: str) -> FloatArray | None:
    """Return where a frame is now, (7,); None where no robot has it. In the tick's thread.

    A frame is named by its id, where one robot alone has that, or with the robot's namespace in front, as on /tf.

    Args:
        runtime: Whose frames.
        backend: Knows where bodies are, also those that were put elsewhere since the last tick.
        frame_id: The frame.

    Raises:
        RefusedError: Several robots have the frame, or nothing is known yet of the one that does.
    """
    plan = runtime.plan
    if frame_id in world_frame_ids(plan):
        return IDENTITY
    found = []
    for robot in plan.robots:
        prefix = robot.namespace.strip("/")
        for frame in robot.frames:
            full = f"{prefix}/{frame.id}" if prefix else frame.id
            if frame_id == full:
                return _pose(runtime, backend, frame)
            if frame_id == frame.id:
                found.append((frame, full))
    if len(found) > 1:
        names = ", ".join(sorted(full for _, full in found))
        raise RefusedError(FAILED, f"the frame {quoted(frame_id)} is one of several: {names}")
    return _pose(runtime, backend, found[0][0]) if found else None


def unknown_frame(frame_id: str, table: EntityTable) -> RefusedError:
    """Return the refusal of a request in an unknown frame."""
    return RefusedError(
        NOT_FOUND, f"there is no frame or entity {quoted(frame_id)}{table.suggestion(frame_id)}"
    )


def unknown_entity(name: str, table: EntityTable) -> RefusedError:
    """Return the refusal of a request about an entity that does not exist."""
    return RefusedError(NOT_FOUND, f"there is no entity {quoted(name)}{table.suggestion(name)}")


def _pose(runtime: Runtime, backend: EntityBackend, frame: FramePlan) -> FloatArray:
    offset = pose_array(frame.carrier_from_frame)
    if frame.carrier < 0:
        return offset
    try:
        carrier = backend.entity_state(runtime.plan.layout.bodies[frame.carrier]).pose
    except KeyError:
        # An animated Xform: no body, and known from the last tick alone.
        if runtime.time_ns is None:
            raise RefusedError(FAILED, f"where the frame {quoted(frame.id)} is, is not known yet") from None
        carrier = runtime.snapshot.pose(frame.carrier)
    return compose(carrier, offset)


_PARALLEL = 1e-9
"""Added to projections, so that the cross product of parallel edges separates nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrientedBox:
    """A box aligned with the axes of a frame.

    Attributes:
        pose: (7,) `world_from_frame`.
        low: (3,) lowest corner, m.
        high: (3,) highest corner, m.
    """

    pose: FloatArray
    low: FloatArray
    high: FloatArray


def sphere_overlaps(box: OrientedBox, centre: FloatArray, radius: float) -> bool:
    """Return whether a sphere touches a box.

    Args:
        box: The box.
        centre: (3,) in the world frame, m.
        radius: m.
    """
    inside = inverse(box.pose)
    point = rotate(inside[3:], centre) + inside[:3]
    distance = np.linalg.norm(point - np.clip(point, box.low, box.high))
    return bool(distance <= radius)


def box_overlaps(box: OrientedBox, low: FloatArray, high: FloatArray) -> bool:
    """Return whether a box that is aligned with the world's axes touches another.

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


Overlaps = Callable[[OrientedBox], bool]

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
    """Return the number of a category."""
    return _CATEGORIES[category]


def category_name(number: int) -> Category:
    """Return the category of a number.

    Raises:
        RefusedError: There is no such category.
    """
    if number not in _NAMES:
        raise RefusedError(FAILED, f"there is no entity category {number}")
    return _NAMES[number]


def fill_state(message: Any, state: EntityState, time_ns: int) -> None:
    """Write the state of an entity, in the world frame.

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


def requested_pose(message: Any, world_from_frame: FloatArray, *, invalid: int = INVALID_POSE) -> FloatArray:
    """Return the requested `world_from_body` (7,).

    Args:
        message: geometry_msgs/msg/Pose.
        world_from_frame: (7,) the frame it is given in.
        invalid: Result code if it is no pose.

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


def requested_twist(message: Any, world_from_frame: FloatArray) -> FloatArray:
    """Return the requested linear, then angular velocity (6,) in the world frame.

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
    """Write bounds: a box, the greatest corner first; empty for None."""
    message.type = Bounds.TYPE_EMPTY if corners is None else Bounds.TYPE_BOX
    message.points = [] if corners is None else [_vector(corner) for corner in reversed(corners)]


def overlap_filter(message: Any) -> Overlaps | None:
    """Return a function that tests whether a box overlaps bounds in the world frame; None if they are empty.

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
    """Write simulation_interfaces/msg/EntityInfo."""
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

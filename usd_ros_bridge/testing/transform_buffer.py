"""Transform buffer: look up transforms between any two frames of a tree, as tf2's buffer does. It needs no tf2."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped

from usd_ros_bridge.errors import BridgeError, alternatives, quoted
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.spatial.pose import roll_pitch_yaw
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    axis_rotation,
    compose,
    interpolate_poses,
    normalized,
    quaternion_multiply,
    relative,
    rotation_vector,
)

KEPT_NS = 10 * SECOND_NS
"""How long moving transforms are kept, nanoseconds: the default of tf2."""
TOLERANCE = 1e-3
"""Default tolerance of `assert_transform`, metres and radians."""
_AXES = np.eye(3)


class UnknownTransformError(BridgeError):
    """A transform is not known, or not at that time."""


@dataclass(slots=True)
class _Edge:
    """Transforms of a frame in its parent, in the order of their stamps."""

    parent: str
    static: bool
    stamps: list[int] = field(default_factory=list)
    poses: list[FloatArray] = field(default_factory=list)

    def add(self, stamp_ns: int, pose: FloatArray) -> None:
        if self.static:
            self.stamps, self.poses = [stamp_ns], [pose]
            return
        if self.stamps and stamp_ns < self.stamps[-1]:
            # Time started again.
            self.stamps, self.poses = [], []
        self.stamps.append(stamp_ns)
        self.poses.append(pose)
        while self.stamps[-1] - self.stamps[0] > KEPT_NS:
            del self.stamps[0], self.poses[0]

    def at(self, time_ns: int) -> FloatArray:
        stamps = np.array(self.stamps, dtype=np.float64)
        found: FloatArray = interpolate_poses(stamps, np.array(self.poses), np.array([float(time_ns)]))[0]
        return found


class TransformBuffer:
    """Transforms of one tree of frames. Thread-safe.

    Names are those of tf2: the transform of `lookup_transform(target, source)` is the pose of `source` in `target`.
    """

    def __init__(self, name: str = "/tf") -> None:
        """Args: name: The topic of the transforms, for messages."""
        self.name = name
        self._edges: dict[str, _Edge] = {}
        self._lock = threading.Lock()

    def add(self, transforms: Iterable[Any], *, static: bool) -> None:
        """Add TransformStamped messages.

        Args:
            transforms: The messages; of a frame in the order of their stamps.
            static: Whether they are of /tf_static.
        """
        with self._lock:
            for each in transforms:
                child, parent = _frame(each.child_frame_id), _frame(each.header.frame_id)
                edge = self._edges.get(child)
                if edge is None or edge.parent != parent or edge.static != static:
                    edge = self._edges[child] = _Edge(parent=parent, static=static)
                edge.add(_stamp_ns(each.header.stamp), _pose_of(each.transform))

    def frames(self) -> frozenset[str]:
        """Return the names of all frames."""
        with self._lock:
            return frozenset(self._edges) | {edge.parent for edge in self._edges.values()}

    def lookup_transform(self, target: str, source: str, *, time_ns: int | None = None) -> Any:
        """Return the pose of a frame in another one as a geometry_msgs TransformStamped.

        Args:
            target: Frame in which the pose is.
            source: Frame whose pose it is.
            time_ns: Time, nanoseconds. None: the latest at which all transforms between the two are known.

        Raises:
            UnknownTransformError: A frame is not known, the two are not connected, or not at that time.
        """
        pose, stamp_ns = self._find(_frame(target), _frame(source), time_ns)
        found = TransformStamped(child_frame_id=_frame(source))
        found.header.frame_id = _frame(target)
        found.header.stamp.sec, found.header.stamp.nanosec = divmod(stamp_ns, SECOND_NS)
        place, turn = found.transform.translation, found.transform.rotation
        place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = map(float, pose)
        return found

    def can_transform(self, target: str, source: str, *, time_ns: int | None = None) -> bool:
        """Return whether `lookup_transform` knows the transform."""
        try:
            self._find(_frame(target), _frame(source), time_ns)
        except UnknownTransformError:
            return False
        return True

    def pose(self, target: str, source: str, *, time_ns: int | None = None) -> FloatArray:
        """Return the pose of `source` in `target`, (7,): x y z in metres, then the unit quaternion x y z w.

        Args:
            target: As for `lookup_transform`.
            source: As for `lookup_transform`.
            time_ns: As for `lookup_transform`.

        Raises:
            UnknownTransformError: As for `lookup_transform`.
        """
        return self._find(_frame(target), _frame(source), time_ns)[0]

    def _find(self, target: str, source: str, time_ns: int | None) -> tuple[FloatArray, int]:
        with self._lock:
            ways = [self._way_up(target), self._way_up(source)]
            shared = next((frame for frame in ways[0] if frame in ways[1]), None)
            if shared is None:
                raise UnknownTransformError(
                    f"{quoted(target)} and {quoted(source)} are not connected on {self.name}"
                )
            chains = [[self._edges[frame] for frame in way[: way.index(shared)]] for way in ways]
            moving = [edge for chain in chains for edge in chain if not edge.static]
            if time_ns is None:
                time_ns = min((edge.stamps[-1] for edge in moving), default=0)
            for edge in moving:
                if not edge.stamps[0] <= time_ns <= edge.stamps[-1]:
                    raise UnknownTransformError(
                        f"{quoted(target)} to {quoted(source)} is not known at {time_ns / SECOND_NS:.9g} s, but from "
                        f"{edge.stamps[0] / SECOND_NS:.9g} to {edge.stamps[-1] / SECOND_NS:.9g} s"
                    )
            poses = [_chained([edge.at(time_ns) for edge in chain]) for chain in chains]
        # The first is the pose of the target, the second that of the source, both in the shared frame.
        return relative(*poses), time_ns

    def _way_up(self, frame: str) -> list[str]:
        """Return a frame and those above it."""
        known = set(self._edges) | {edge.parent for edge in self._edges.values()}
        if frame not in known:
            raise UnknownTransformError(
                f"there is no frame {quoted(frame)} on {self.name}; {alternatives(frame, sorted(known))}"
            )
        way = [frame]
        while (edge := self._edges.get(way[-1])) is not None:
            if edge.parent in way:
                raise UnknownTransformError(f"the frames of {self.name} are a loop: {', '.join(way)}")
            way.append(edge.parent)
        return way


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTransform:
    """What `assert_transform` expects.

    Attributes:
        target: Frame in which the pose is.
        source: Frame whose pose it is.
        xyz: Position, metres. None: any.
        rpy: Angles about fixed x, y and z axes, in this order, as in URDF, radians. None: any.
        tolerance: Largest difference: metres of the position, radians of the rotation between the two.
    """

    target: str
    source: str
    xyz: tuple[float, float, float] | None = None
    rpy: tuple[float, float, float] | None = None
    tolerance: float = TOLERANCE

    def difference(self, pose: FloatArray) -> str:
        """Return how a pose (7,) differs, in lines with expected, found and difference; "" if it does not."""
        found = {"xyz": pose[:3], "rpy": np.array(roll_pitch_yaw(_quaternion(pose)))}
        rows, distances = [], []
        for name, wanted in (("xyz", self.xyz), ("rpy", self.rpy)):
            if wanted is None:
                continue
            expected = np.array(wanted, dtype=np.float64)
            difference = found[name] - expected
            if name == "rpy":
                difference = (difference + math.pi) % (2.0 * math.pi) - math.pi
                distances.append(("rad", _angle_between(rotation_of(wanted), pose[3:])))
            else:
                distances.append(("m", float(np.linalg.norm(difference))))
            unit = distances[-1][0]
            rows += [
                f"  {name} expected    {_numbers(expected)} {unit}",
                f"  {name} found       {_numbers(found[name])} {unit}",
                f"  {name} difference  {_numbers(difference)} {unit}, {distances[-1][1]:.4g} {unit} in all",
            ]
        if all(distance <= self.tolerance for _, distance in distances):
            return ""
        head = f"{self.source} in {self.target} is not where it should be (tolerance {self.tolerance:g} m and rad):"
        return "\n".join([head, *rows])


def check_transform(buffer: TransformBuffer, expected: ExpectedTransform) -> str:
    """Return why the latest transform is not as expected, "" if it is."""
    try:
        return expected.difference(buffer.pose(expected.target, expected.source))
    except UnknownTransformError as error:
        return str(error)


def expect_transform(
    target: str,
    source: str,
    xyz: Iterable[float] | None,
    rpy: Iterable[float] | None,
    tolerance: float,
) -> ExpectedTransform:
    """Return what a test expects. The test fails if that is nothing.

    Args:
        target: Frame in which the pose is.
        source: Frame whose pose it is.
        xyz: As of `ExpectedTransform`.
        rpy: As of `ExpectedTransform`.
        tolerance: As of `ExpectedTransform`.
    """
    __tracebackhide__ = True
    for name, values in (("xyz", xyz), ("rpy", rpy)):
        if values is not None and len(tuple(values)) != 3:
            pytest.fail(f"{name} is three numbers, not {values!r}")
    if xyz is None and rpy is None:
        pytest.fail("assert_transform needs xyz, rpy or both")
    place = None if xyz is None else _triple(xyz)
    turn = None if rpy is None else _triple(rpy)
    return ExpectedTransform(target=target, source=source, xyz=place, rpy=turn, tolerance=tolerance)


def rotation_of(rpy: Iterable[float]) -> FloatArray:
    """Return the unit quaternion (4,), x y z w, of angles about fixed x, y and z axes, in this order, radians."""
    roll, pitch, yaw = (axis_rotation(axis, np.array(angle)) for axis, angle in zip(_AXES, rpy, strict=True))
    return quaternion_multiply(yaw, quaternion_multiply(pitch, roll))


def _chained(poses: list[FloatArray]) -> FloatArray:
    """Return the pose of the first frame in the last one's parent, of poses from the first frame up."""
    result: FloatArray = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    for parent_from_child in poses:
        result = compose(parent_from_child, result)
    return result


def _angle_between(first: FloatArray, second: FloatArray) -> float:
    identity = np.zeros(3)
    turn = relative(np.concatenate((identity, first)), np.concatenate((identity, second)))
    return float(np.linalg.norm(rotation_vector(turn[3:])))


def _pose_of(transform: Any) -> FloatArray:
    place, turn = transform.translation, transform.rotation
    rotation = normalized(np.array([turn.x, turn.y, turn.z, turn.w]))
    return np.concatenate((np.array([place.x, place.y, place.z]), rotation))


def _quaternion(pose: FloatArray) -> tuple[float, float, float, float]:
    x, y, z, w = map(float, pose[3:])
    return x, y, z, w


def _triple(values: Iterable[float]) -> tuple[float, float, float]:
    first, second, third = map(float, values)
    return first, second, third


def _numbers(values: FloatArray) -> str:
    return " ".join(f"{value + 0.0:10.4f}" for value in np.round(values, 6))


def _frame(name: str) -> str:
    return name.removeprefix("/")


def _stamp_ns(stamp: Any) -> int:
    return int(stamp.sec) * SECOND_NS + int(stamp.nanosec)


def only_namespace(found: Iterable[str], wanted: str | None, *, where: str) -> str:
    """Return the namespace whose transforms a test means.

    Args:
        found: Namespaces in which there are transforms, "" for /tf.
        wanted: What the test asks for. None: the only one.
        where: What the namespaces are of, for messages.

    Raises:
        UnknownTransformError: There is none, or there are several and the test names none of them.
    """
    names = sorted(set(found))
    if wanted is not None:
        if wanted.strip("/") in names:
            return wanted.strip("/")
        there = ", ".join(f"/{name}" for name in names) or "none"
        raise UnknownTransformError(
            f"no transforms of {where} in /{wanted.strip('/')}; namespaces with some: {there}"
        )
    if not names:
        raise UnknownTransformError(f"there are no transforms of {where} yet")
    if len(names) > 1:
        listed = ", ".join(repr(name) for name in names)
        raise UnknownTransformError(
            f"{where} has several trees of transforms: say which, namespace= one of {listed}"
        )
    return names[0]

"""Single bodies as plain floats: their poses up the chain of joints that carries them, and how they move.

An interface mounted on one body needs that body alone. Resolving the whole tree and differentiating every body with
numpy costs as much for one as for a hundred.
"""

from __future__ import annotations

from math import atan2, isnan, sqrt

from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.runtime.kinematics import Kinematics, Link
from usd_ros_bridge.runtime.scalar import Floats, multiply

_Step = tuple[int, int, Floats | None]
"""A body, the edge that ends in it, and what comes before the edge: None for nothing."""
STILL: Floats = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def compose(a_from_b: Floats, b_from_c: Floats) -> list[float]:
    """Returns `a_from_c`: 7 floats."""
    # `rotate` and `multiply` written out: this is called for every joint between a body and what carries it.
    ax, ay, az, x, y, z, w = a_from_b
    vx, vy, vz, rx, ry, rz, rw = b_from_c
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return [
        ax + vx + w * tx + y * tz - z * ty,
        ay + vy + w * ty + z * tx - x * tz,
        az + vz + w * tz + x * ty - y * tx,
        w * rx + x * rw + y * rz - z * ry,
        w * ry - x * rz + y * rw + z * rx,
        w * rz + x * ry - y * rx + z * rw,
        w * rw - x * rx - y * ry - z * rz,
    ]


class Chains:
    """Which body carries which, and how."""

    def __init__(self, kinematics: Kinematics) -> None:
        """Looks up nothing yet.

        Args:
            kinematics: Of the plan.
        """
        self._kinematics = kinematics
        self._links: dict[int, Link] | None = None
        self._ways: dict[int, tuple[int, tuple[_Step, ...]]] = {}

    def pose(
        self, row: int, edge_pose: FloatArray, body_pose: FloatArray, known: dict[int, list[float]]
    ) -> list[float]:
        """Computes the pose of one body.

        Args:
            row: The body's row in the layout.
            edge_pose: (E, 7) `parent_from_child`.
            body_pose: (B, 7) `world_from_body` where measured.
            known: Poses of this tick by row; what is computed on the way is added.

        Returns:
            `world_from_body`: 7 floats.
        """
        root, way = self._ways.get(row) or self._find_way(row)
        pose = known.get(root)
        if pose is None and root >= 0:
            pose = known[root] = body_pose[root].tolist()
        for below, edge, offset in way:
            found = known.get(below)
            if found is None:
                found = edge_pose[edge].tolist()
                if offset is not None:
                    found = compose(offset, found)
                if pose is not None:
                    found = compose(pose, found)
                known[below] = found
            pose = found
        assert pose is not None
        return pose

    def _find_way(self, row: int) -> tuple[int, tuple[_Step, ...]]:
        """Returns the body that carries all others, -1 for the world, and the steps from there to a body."""
        if self._links is None:
            self._links = self._kinematics.links()
        steps: list[_Step] = []
        at = row
        while at >= 0 and (link := self._links.get(at)) is not None:
            steps.append((at, link.edge, link.carrier_from_parent))
            at = link.carrier
        found = self._ways[row] = (at, tuple(reversed(steps)))
        return found


class BodyMotion:
    """One body's twist and acceleration, differentiated between states where they are not measured.

    The first state has no velocity: zeros. A state with the time of the last one changes nothing.

    Attributes:
        twist: Linear then angular velocity of the body's origin in the world frame, m/s and rad/s.
        acceleration: Their change, per second, gravity left out.
    """

    __slots__ = ("_pose", "_time_ns", "_twist_known", "acceleration", "twist")

    def __init__(self) -> None:
        """Starts with nothing known."""
        self.clear()

    def clear(self) -> None:
        """Forgets everything, after a reset."""
        self.twist: Floats = STILL
        self.acceleration: Floats = STILL
        self._pose: Floats | None = None
        self._time_ns = 0
        self._twist_known = False

    def observe(self, time_ns: int, pose: Floats, measured: Floats | None) -> None:
        """Takes a state.

        Args:
            time_ns: Of the state; negative where nothing is known of the body's robot.
            pose: `world_from_body`, 7 floats.
            measured: Its twist in the world frame, NaN where not measured; None where none is.
        """
        before = self._pose
        if time_ns < 0 or (before is not None and time_ns == self._time_ns):
            return
        seconds = (time_ns - self._time_ns) * 1e-9
        forward = before is not None and seconds > 0.0
        whole = measured is not None and not isnan(sum(measured))
        if whole:
            assert measured is not None
            twist = measured
        else:
            twist = mean_twist(before, pose, seconds) if forward and before is not None else STILL
            if measured is not None:
                twist = [t if isnan(m) else m for t, m in zip(twist, measured, strict=True)]
        self.acceleration = change(self.twist, twist, seconds) if forward and self._twist_known else STILL
        self.twist = twist
        self._twist_known = forward or whole
        self._pose = pose
        self._time_ns = time_ns


def change(before: Floats, after: Floats, seconds: float) -> Floats:
    """Returns the mean rate of change between two twists: 6 floats."""
    # Spelled out, at half the cost of a loop.
    ax, ay, az, bx, by, bz = before
    cx, cy, cz, dx, dy, dz = after
    rate = 1.0 / seconds
    return (
        (cx - ax) * rate,
        (cy - ay) * rate,
        (cz - az) * rate,
        (dx - bx) * rate,
        (dy - by) * rate,
        (dz - bz) * rate,
    )


def mean_twist(before: Floats, after: Floats, seconds: float) -> Floats:
    """Returns the mean twist between two poses: linear then angular, in the frame that the poses are given in."""
    bx, by, bz, *start = before
    ax, ay, az, *end = after
    x, y, z, w = multiply(end, (-start[0], -start[1], -start[2], start[3]))
    if w < 0.0:
        x, y, z, w = -x, -y, -z, -w
    length = sqrt(x * x + y * y + z * z)
    scale = (2.0 * atan2(length, w) / length if length > 1e-12 else 2.0) / seconds
    rate = 1.0 / seconds
    return (
        (ax - bx) * rate,
        (ay - by) * rate,
        (az - bz) * rate,
        x * scale,
        y * scale,
        z * scale,
    )

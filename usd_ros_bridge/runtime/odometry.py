"""Odometry of controllers: the base poses that wheel odometry gives, for messages and /tf."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from usd_ros_bridge.controllers.controller_group import OdometryGroup
from usd_ros_bridge.runtime.kinematics import Selection, selection
from usd_ros_bridge.spatial.scalar import Floats
from usd_ros_bridge.spatial.transforms import FloatArray

_Places = tuple[OdometryGroup, Selection, Selection]
"""A group, rows of it, and where these go."""


class Odometry(NamedTuple):
    """Pose and twist of a robot's base, measured by a controller. Plain floats, SI units.

    Attributes:
        pose: `odom_from_base`, 7 floats.
        twist: Linear then angular velocity in the base's own frame, 6 floats.
        pose_covariance: Diagonal of the covariance of the pose: x, y, z, and rotations about them.
        twist_covariance: Diagonal of the covariance of the twist.
    """

    pose: Floats
    twist: Floats
    pose_covariance: Floats
    twist_covariance: Floats


class _Source:
    """Odometry of one group, converted to lists of floats at most once per state."""

    def __init__(self, group: OdometryGroup) -> None:
        self.group = group
        self.tick = -1
        self.rows: list[Odometry] = []
        # These stay as they are.
        self._covariances = (group.pose_covariance.tolist(), group.twist_covariance.tolist())

    def update(self, tick: int) -> None:
        self.tick = tick
        group = self.group
        poses, twists = group.odom_from_base.tolist(), group.base_twist.tolist()
        self.rows = list(map(Odometry, poses, twists, *self._covariances))


class OdometryTable:
    """Odometry of controllers, by robot. The first controller of a robot counts."""

    def __init__(self, groups: Iterable[tuple[OdometryGroup, Iterable[int]]] = ()) -> None:
        """Store the arguments.

        Args:
            groups: Groups, each with the rows of it that can work.
        """
        self._rows: dict[int, tuple[_Source, int]] = {}
        self._all: tuple[FloatArray, FloatArray] | None = None
        self._all_tick = -1
        self._places: list[_Places] = []
        for group, rows in groups:
            source = _Source(group)
            robots = group.odometry_robots.tolist()
            for row in rows:
                if robots[row] >= 0:
                    self._rows.setdefault(robots[row], (source, row))

    def __contains__(self, robot: int) -> bool:
        """Return whether a controller serves the robot with this index."""
        return robot in self._rows

    def of(self, robot: int, tick: int) -> Odometry | None:
        """Return a robot's odometry, None where no controller serves it.

        Args:
            robot: Index in BridgePlan.robots.
            tick: Counts states: what was asked for at the same one holds.
        """
        place = self._rows.get(robot)
        if place is None:
            return None
        source, row = place
        if source.tick != tick:
            source.update(tick)
        return source.rows[row]

    def of_all(self, tick: int, robots: int) -> tuple[FloatArray, FloatArray]:
        """Return poses (R, 7) and twists (R, 6) by robot; a row begins with NaN where there is nothing to show.

        Args:
            tick: As for `of`.
            robots: R, how many robots there are.
        """
        if self._all is None:
            self._all = np.full((robots, 7), np.nan), np.zeros((robots, 6))
            self._places = self._places_of_all()
        poses, twists = self._all
        if self._all_tick != tick:
            self._all_tick = tick
            for group, rows, places in self._places:
                pose, twist = group.odom_from_base[rows], group.base_twist[rows]
                poses[places], twists[places] = pose, twist
                if not (np.isfinite(pose).all() and np.isfinite(twist).all()):
                    finite = np.isfinite(pose).all(axis=1) & np.isfinite(twist).all(axis=1)
                    # Readers look at the first number of a row.
                    poses[places, 0] = np.where(finite, poses[places, 0], np.nan)
        return poses, twists

    def _places_of_all(self) -> list[_Places]:
        robots: dict[_Source, list[tuple[int, int]]] = {}
        for robot, (source, row) in self._rows.items():
            robots.setdefault(source, []).append((row, robot))
        pairs = ((source.group, np.array(each, dtype=np.intp)) for source, each in robots.items())
        return [(group, selection(each[:, 0]), selection(each[:, 1])) for group, each in pairs]

    def writer(self, robots: Iterable[int], slots: Iterable[int]) -> OdometryWriter:
        """Return what writes poses of robots that controllers serve into columns `slots`."""
        by_source: dict[_Source, tuple[list[int], list[int]]] = {}
        for robot, slot in zip(robots, slots, strict=True):
            source, row = self._rows[robot]
            rows, places = by_source.setdefault(source, ([], []))
            rows.append(row)
            places.append(slot)
        return OdometryWriter(
            [
                (source.group, selection(rows), selection(places))
                for source, (rows, places) in by_source.items()
            ]
        )


class OdometryWriter:
    """Write `odom_from_base` of many robots into the array of frames, with one assignment per group."""

    def __init__(self, parts: list[_Places]) -> None:
        self._parts = parts

    def write(self, components: FloatArray) -> bool:
        """Write into (7, F) `components`; return whether every number is finite."""
        finite = True
        for group, rows, slots in self._parts:
            poses = group.odom_from_base[rows]
            components[:, slots] = poses.T
            finite = finite and bool(np.isfinite(poses).all())
        return finite

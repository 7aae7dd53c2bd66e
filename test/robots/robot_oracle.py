"""Reads a robot's oracle (pinocchio's link placements) and measures how far poses are from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_POSITION_ERROR = 1e-6
"""Metres."""
MAX_ANGLE_ERROR = 1e-6
"""Radians."""


@dataclass(frozen=True)
class Pose:
    """A rigid transform: translation in metres, shape (3,), and a unit quaternion x y z w, shape (4,)."""

    translation: Array
    rotation: Array

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(
            self.translation + rotate(self.rotation, other.translation),
            multiply(self.rotation, other.rotation),
        )


IDENTITY = Pose(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))


@dataclass(frozen=True)
class Configuration:
    """Joint positions (rad or m), those to publish, and each link's pose in the URDF's root link."""

    positions: Mapping[str, float]
    published: Mapping[str, float]
    poses: Mapping[str, Pose]


@dataclass(frozen=True)
class RobotOracle:
    """A converted robot and what pinocchio says about its URDF."""

    name: str
    asset: Path
    default_prim: str
    links: tuple[str, ...]
    solid_links: tuple[str, ...]
    moving_links: tuple[str, ...]
    limits: Mapping[str, tuple[float, float]]
    """By joint, rad or m; infinite for a continuous joint."""
    configurations: tuple[Configuration, ...]

    @property
    def moving_solid_links(self) -> tuple[str, ...]:
        return tuple(link for link in self.moving_links if link in self.solid_links)


def load_oracle(directory: Path) -> RobotOracle:
    content = json.loads((directory / "oracle.json").read_text(encoding="utf-8"))
    links = tuple(content["links"])
    configurations = tuple(
        Configuration(
            configuration["positions"],
            configuration["published"],
            {
                link: Pose(np.array(pose[:3]), np.array(pose[3:]))
                for link, pose in zip(links, configuration["poses"], strict=True)
            },
        )
        for configuration in content["configurations"]
    )
    return RobotOracle(
        name=directory.name,
        asset=directory / content["asset"],
        default_prim=content["default_prim"],
        links=links,
        solid_links=tuple(content["solid_links"]),
        moving_links=tuple(content["moving_links"]),
        limits={
            joint: (-inf, inf) if limits is None else (limits[0], limits[1])
            for joint, limits in content["limits"].items()
        },
        configurations=configurations,
    )


@dataclass
class Errors:
    """The largest errors seen, where, and how many poses were compared."""

    position: float = 0.0
    position_at: str = "-"
    angle: float = 0.0
    angle_at: str = "-"
    configurations: int = 0
    frames: int = 0
    poses: int = 0

    def compare(self, configuration: Configuration, poses: Mapping[str, Pose]) -> None:
        """Takes in one configuration's poses, given in the URDF's root link, of the links that are frames."""
        self.configurations += 1
        self.frames = max(self.frames, len(poses))
        for link, pose in poses.items():
            position, angle = distance(pose, configuration.poses[link])
            # A NaN is taken in and never left again: nothing compares greater than it.
            if position > self.position or np.isnan(position):
                self.position, self.position_at = position, link
            if angle > self.angle or np.isnan(angle):
                self.angle, self.angle_at = angle, link
            self.poses += 1

    @property
    def small(self) -> bool:
        return self.position <= MAX_POSITION_ERROR and self.angle <= MAX_ANGLE_ERROR


def multiply(a: Array, b: Array) -> Array:
    """The quaternion product a b, x y z w."""
    vector = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
    return np.append(vector, a[3] * b[3] - a[:3] @ b[:3])


def rotate(quaternion: Array, vector: Array) -> Array:
    """The vector, shape (3,), turned by a unit quaternion x y z w."""
    axis, w = quaternion[:3], quaternion[3]
    turned: Array = vector + 2.0 * np.cross(axis, np.cross(axis, vector) + w * vector)
    return turned


def distance(a: Pose, b: Pose) -> tuple[float, float]:
    """The distance of the origins (m) and the angle of the rotation between (rad, 0 to pi).

    The angle comes from the arctangent: an arccosine of the quaternions' product cannot tell angles under
    1e-8 apart from zero, and has lost half of its digits at 1e-6.
    """
    between = multiply(a.rotation * [-1.0, -1.0, -1.0, 1.0], b.rotation)
    angle = 2.0 * np.arctan2(np.linalg.norm(between[:3]), abs(between[3]))
    return float(np.linalg.norm(a.translation - b.translation)), float(angle)


def poses_from_tf(parents: Mapping[str, tuple[str, Pose]], root: str) -> dict[str, Pose]:
    """Composes transforms (child -> parent and pose in it) to poses in `root`, of all that hangs from it.

    Raises:
        ValueError: the transforms hold a cycle.
    """
    poses = {root: IDENTITY}
    for leaf in parents:
        frame = leaf
        chain: list[str] = []
        while frame not in poses and frame in parents:
            if frame in chain:
                raise ValueError(f"cycle in TF: {' -> '.join([*chain, frame])}")
            chain.append(frame)
            frame = parents[frame][0]
        if frame in poses:
            for link in reversed(chain):
                parent, pose = parents[link]
                poses[link] = poses[parent] @ pose
    return poses

"""Tool paths: where trajectories in joint space move a robot's tool. Pure, by the plan's forward kinematics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan
from usd_ros_bridge.runtime.kinematics import group_edges
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, pose_array

MAX_SAMPLES = 200
"""Points of a path."""


def tool_frame(robot: RobotPlan, rows: Collection[int]) -> str:
    """Return the frame that most of some degrees of freedom move and least others: a flange, or a tool on it.

    Args:
        robot: The robot.
        rows: Layout rows of the degrees of freedom.

    Returns:
        The frame's id, the farthest one along fixed joints; "" if none moves with them.
    """
    wanted = frozenset(rows)
    best, chosen = (0, 0, 0), ""
    scores: list[tuple[int, int, int]] = []
    for frame in robot.frames:
        by_these, by_others, depth = scores[frame.parent_index] if frame.parent_index >= 0 else (0, 0, 0)
        for row in _rows_of(robot, frame):
            by_these, by_others = (by_these + 1, by_others) if row in wanted else (by_these, by_others - 1)
        scores.append((by_these, by_others, depth + 1))
        if by_these and scores[-1] > best:
            best, chosen = scores[-1], frame.id
    return chosen


def _rows_of(robot: RobotPlan, frame: FramePlan) -> list[int]:
    """Return the layout rows of the degrees of freedom between a frame and its parent."""
    if frame.edge < 0:
        return []
    return [dof.row for joint in robot.edges[frame.edge].joints for dof in robot.joints[joint].dofs]


@dataclass(frozen=True, slots=True)
class _Follower:
    row: int
    leader: int
    multiplier: float
    offset: float


class ToolPath:
    """Forward kinematics of the chain from a fixed link of a robot to a frame.

    Attributes:
        root: Frame id at which the chain begins; "" for what the topmost frame hangs from.
    """

    def __init__(self, plan: BridgePlan, robot: int, frame: str) -> None:
        """Compile the chain.

        Args:
            plan: The plan.
            robot: Index in `plan.robots`.
            frame: Frame id at which the chain ends.

        Raises:
            ValueError: The robot has no such frame.
        """
        owner = plan.robots[robot]
        number = next((i for i, each in enumerate(owner.frames) if each.id == frame), -1)
        if number < 0:
            raise ValueError(f"the robot {owner.path} has no frame {frame}")
        chain: list[FramePlan] = []
        while number >= 0 and _is_rigid_or_joint(owner, owner.frames[number]):
            chain.append(owner.frames[number])
            number = owner.frames[number].parent_index
        self.root = owner.frames[number].id if number >= 0 else ""
        chain.reverse()
        edges = [(owner, owner.edges[each.edge]) for each in chain if each.edge >= 0]
        self._poses, self._groups = group_edges(edges)
        self._constants = [None if each.edge >= 0 else pose_array(each.parent_from_frame) for each in chain]
        self._position = np.array(plan.layout.joint_position, dtype=np.float64)
        self._given: set[int] = set()
        self._followers = [
            _Follower(dof.row, dof.mimic.leader, dof.mimic.multiplier, dof.mimic.offset)
            for _, edge in edges
            for joint in edge.joints
            for dof in owner.joints[joint].dofs
            if dof.mimic is not None
        ]

    def pose(self, positions: Mapping[int, float]) -> FloatArray:
        """Return `root_from_frame` (7,).

        Args:
            positions: Positions by layout row, rad or m. Joints that were never given are at rest, others where they
                were last.
        """
        for row, value in positions.items():
            if 0 <= row < len(self._position) and np.isfinite(value):
                self._position[row] = value
                self._given.add(row)
        for each in self._followers:
            # At rest, a follower may be authored elsewhere than its leader says.
            if each.leader in self._given:
                self._position[each.row] = each.multiplier * self._position[each.leader] + each.offset
        for group in self._groups:
            group.write(self._position)
        result, column = IDENTITY, 0
        for constant in self._constants:
            if constant is not None:
                result = compose(result, constant)
            else:
                result, column = compose(result, self._poses[:, column]), column + 1
        return result

    def points(self, rows: Sequence[int], positions: FloatArray) -> FloatArray:
        """Return the path (P, 3) of a trajectory in the root's frame, at most MAX_SAMPLES points.

        Between its points the trajectory is taken as straight in joint space.

        Args:
            rows: Layout rows of the columns.
            positions: (N, J) rad or m.
        """
        sampled = resampled(positions)
        return np.array([self.pose(dict(zip(rows, each, strict=True)))[:3] for each in sampled]).reshape(
            -1, 3
        )


def resampled(positions: FloatArray) -> FloatArray:
    """Return joint positions (N, J) with more, or fewer, points in between: at most MAX_SAMPLES."""
    count = len(positions)
    if count < 2:
        return positions
    samples = min(MAX_SAMPLES, (count - 1) * max(1, (MAX_SAMPLES - 1) // (count - 1)) + 1)
    at = np.linspace(0.0, count - 1.0, samples)
    columns = [np.interp(at, np.arange(count), column) for column in positions.T]
    return np.stack(columns, axis=1) if columns else np.zeros((samples, 0))


def _is_rigid_or_joint(robot: RobotPlan, frame: FramePlan) -> bool:
    """Return whether joint positions alone give the frame in its parent."""
    if frame.edge >= 0:
        edge = robot.edges[frame.edge]
        return edge.rigid or any(robot.joints[index].dofs for index in edge.joints)
    parent_carrier = robot.frames[frame.parent_index].carrier if frame.parent_index >= 0 else -1
    return frame.static or frame.carrier == parent_carrier

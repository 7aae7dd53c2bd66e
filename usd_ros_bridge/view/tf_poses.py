"""Frame poses of the page: what /tf and /tf_static say, composed to the fixed frame, in arrays."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import WORLD, BridgePlan, RobotPlan
from usd_ros_bridge.planning.names import join
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    inverse,
    normalized,
    pose_array,
    wxyz,
)
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.tf_messages import TransformNames
from usd_ros_bridge.view.tf_topics import TfTopics, TreeKey

_ROOT = -1
MAX_FOREIGN_FRAMES = 10_000
"""Frames of other nodes that are remembered: poses of robots may hang from them."""


@dataclass(slots=True, eq=False)
class _Tree:
    """Frames of one pair of topics. A frame id means another frame in each.

    Attributes:
        rows: Row of each frame by its id, with the prefix it has in messages.
        places: By the names of a message: rows of its children, and which of its transforms have one, None for all.
    """

    rows: dict[str, int] = field(default_factory=dict)
    places: dict[TransformNames, tuple[NDArray[np.intp], NDArray[np.intp] | None]] = field(
        default_factory=dict
    )


class FramePoses:
    """Poses of a plan's frames in the fixed frame, row by row.

    A frame is where the plan has it at rest until the first message about it. A frame whose parent hangs from nothing,
    such as `odom`, is where it was at rest: tf2 would know no pose at all.

    Attributes:
        rows: Row of each frame, by robot (index in `plan.robots`) and frame id.
        positions: (F, 3) metres, in the fixed frame (`parent_frame`, "world").
        rotations: (F, 4) quaternions, scalar first as viser has them.
        known: (F,) whether /tf or /tf_static has said where the frame is.
        changes: Counts the updates that changed a pose.
        heard_s: Time (`time.monotonic`) of the last message, seconds.
    """

    def __init__(self, plan: BridgePlan) -> None:
        """Args: plan: The frames, at rest before the first message."""
        rows = {(number, frame.id): 0 for number, robot in enumerate(plan.robots) for frame in robot.frames}
        self.rows: Mapping[tuple[int, str], int] = {key: row for row, key in enumerate(rows)}
        self._count = len(rows)
        self.known: NDArray[np.bool_] = np.zeros(self._count, bool)
        self.changes = 0
        self.heard_s = 0.0
        self._plan = plan
        self._trees: dict[TreeKey, _Tree] = {}
        self._local = np.tile(IDENTITY, (self._count, 1))
        self._parent = np.full(self._count, _ROOT, dtype=np.intp)
        self._levels: tuple[NDArray[np.intp], ...] | None = None
        self._heard = np.zeros(self._count, bool)
        self._world = self._local
        self._stand_ins: dict[int, set[int]] = {}
        """Rows that stand in for a parent that is not yet known, by its row."""
        self._at_rest()
        self._topics: TfTopics | None = None
        self.positions: NDArray[np.float64] = np.zeros((self._count, 3))
        self.rotations: NDArray[np.float64] = np.zeros((self._count, 4))
        self.compose()

    # --- Life cycle ---

    def resume(self, graph: GraphClient) -> None:
        """Subscribe to all transforms of the robots."""
        if self._topics is None:
            self._topics = TfTopics(graph)
            per_tree: dict[TreeKey, int] = defaultdict(int)
            for robot in self._plan.robots:
                for key, _ in _tree_keys(robot):
                    per_tree[key] += 1
            for key, robots in per_tree.items():
                self._topics.subscribe(key, robots)
            self.heard_s = time.monotonic()

    def pause(self) -> None:
        """Unsubscribe. The poses stay."""
        topics, self._topics = self._topics, None
        if topics is not None:
            topics.close()

    def update(self) -> bool:
        """Take what has arrived. Return whether a pose has changed."""
        if self._topics is None:
            return False
        messages = list(self._topics.take())
        if not messages:
            return False
        self.heard_s = time.monotonic()
        changed = self.receive(messages)
        if changed:
            self.compose()
            self.changes += 1
        return changed

    def pose_of(self, robot: int, frame_id: str) -> FloatArray | None:
        """Return `fixed_from_frame` (7,) of a frame that a message names, None for one that nobody has named yet.

        Args:
            robot: Index in `plan.robots` of the robot whose transforms are meant; -1 for the first one that knows it.
            frame_id: Of the robot, with or without the prefix that it has on /tf, or of another node.
        """
        for number in (robot,) if robot >= 0 else range(len(self._plan.robots)):
            owner = self._plan.robots[number]
            for key, prefix in _tree_keys(owner):
                # Several robots may share the topics: a robot's own frames come first, then what they hang from.
                own = frame_id.removeprefix(prefix) if prefix else frame_id
                row = self.rows.get((number, own), _ROOT)
                if row == _ROOT:
                    row = self._outside_row(number, own)
                if row == _ROOT:
                    row = self._trees[key].rows.get(frame_id, _ROOT)
                if row != _ROOT:
                    pose: FloatArray = self._world[row]
                    return pose
            if frame_id in (WORLD, owner.parent_frame):
                return IDENTITY
        return None

    def _outside_row(self, robot: int, frame_id: str) -> int:
        """Return the row of a frame that a robot's topmost frames hang from, _ROOT for none."""
        for frame in self._plan.robots[robot].frames:
            if frame.parent_index < 0 and frame.parent == frame_id:
                return int(self._parent[self.rows[robot, frame.id]])
        return _ROOT

    # --- Messages ---

    def receive(self, messages: Sequence[tuple[TreeKey, TransformNames, FloatArray]]) -> bool:
        """Apply the transforms of messages, in their order. Return whether any differs from what was known.

        Args:
            messages: Topics, names, and (N, 7) poses `parent_from_child` of each.
        """
        placed = []
        for key, names, poses in messages:
            tree = self._trees[key]
            rows, chosen = tree.places.get(names) or self._place(tree, names)
            placed.append((rows, poses if chosen is None else poses[chosen]))
        # All in one: a fleet sends a message for each robot.
        rows = np.concatenate([each for each, _ in placed])
        values = np.concatenate([each for _, each in placed])
        known = np.isfinite(values).all(axis=1) & values[:, 3:].any(axis=1)
        if not known.all():
            rows, values = rows[known], values[known]
        if not len(rows):
            return False
        new = not self._heard[rows].all()
        if not new and np.array_equal(self._local[rows], values):
            return False
        self._local[rows] = values
        if new:
            self._notice(rows)
        return True

    def _notice(self, rows: NDArray[np.intp]) -> None:
        """Note that there is news about frames, some for the first time."""
        self._heard[rows] = True
        self.known[rows[rows < self._count]] = True
        for row in self._stand_ins.keys() & set(rows.tolist()):
            for stand_in in self._stand_ins[row]:
                self._local[stand_in], self._parent[stand_in] = IDENTITY, row
            self._levels = None

    def _place(self, tree: _Tree, names: TransformNames) -> tuple[NDArray[np.intp], NDArray[np.intp] | None]:
        """Find the rows of a message's transforms, with new rows for new frames, and who hangs from whom."""
        rows, chosen = [], []
        for number, (child, parent) in enumerate(zip(names.children, names.parents, strict=True)):
            row = self._row(tree, child)
            parent_row = _ROOT if parent == WORLD and parent not in tree.rows else self._row(tree, parent)
            if row is None or parent_row is None or row == parent_row:
                continue
            rows.append(row)
            chosen.append(number)
            if self._parent[row] in self._stand_ins.get(parent_row, ()):
                continue
            if self._parent[row] != parent_row:
                self._parent[row] = parent_row
                self._levels = None
        whole = len(chosen) == len(names.children)
        place = (np.array(rows, dtype=np.intp), None if whole else np.array(chosen, dtype=np.intp))
        # A publisher whose names change all the time must not fill the memory.
        if len(tree.places) >= MAX_FOREIGN_FRAMES:
            tree.places.clear()
        tree.places[names] = place
        return place

    def _row(self, tree: _Tree, frame_id: str) -> int | None:
        row = tree.rows.get(frame_id)
        if row is None:
            if len(self._local) - self._count >= MAX_FOREIGN_FRAMES:
                return None
            row = tree.rows[frame_id] = self._new_row(IDENTITY)
        return row

    def _new_row(self, pose: FloatArray) -> int:
        self._local = np.vstack([self._local, pose])
        self._parent = np.append(self._parent, _ROOT)
        self._heard = np.append(self._heard, False)
        self._levels = None
        return len(self._local) - 1

    # --- Poses ---

    def _at_rest(self) -> None:
        """Set all frames to the plan's poses."""
        row = 0
        for robot in self._plan.robots:
            first = row
            keys = _tree_keys(robot)
            for key, _ in keys:
                self._trees.setdefault(key, _Tree())
            for frame in robot.frames:
                self._local[row] = pose_array(frame.parent_from_frame)
                for key, prefix in keys:
                    self._trees[key].rows.setdefault(prefix + frame.id, row)
                row += 1
            for number, frame in enumerate(robot.frames):
                if frame.parent_index >= 0:
                    self._parent[first + number] = first + frame.parent_index
                elif frame.parent != WORLD:
                    self._parent[first + number] = self._outside(robot, number, keys)

    def _outside(self, robot: RobotPlan, number: int, keys: Sequence[tuple[TreeKey, str]]) -> int:
        """Return the row that a robot's topmost frame hangs from: one that stands in for `odom`, or another parent.

        It is where the parent is at rest, until the parent itself is received. Robots may share the parent, and
        nevertheless start at different places.
        """
        frame = robot.frames[number]
        pose = IDENTITY
        if frame.parent == robot.odom_frame:
            pose = compose(self._world_from(robot, number), inverse(pose_array(frame.parent_from_frame)))
        stand_in = self._new_row(pose)
        for key, prefix in keys:
            name = frame.parent if frame.parent == robot.parent_frame else prefix + frame.parent
            parent = self._row(self._trees[key], name)
            if parent is not None:
                self._stand_ins.setdefault(parent, set()).add(stand_in)
        return stand_in

    def _world_from(self, robot: RobotPlan, number: int) -> FloatArray:
        frame = robot.frames[number]
        carrier_from_frame = pose_array(frame.carrier_from_frame)
        if frame.carrier < 0:
            return carrier_from_frame
        return compose(self._plan.layout.body_pose[frame.carrier], carrier_from_frame)

    def compose(self) -> None:
        """Compose all poses, level by level of the tree."""
        if self._levels is None:
            self._levels = levels(self._parent)
        world = self._local.copy()
        world[:, 3:] = normalized(world[:, 3:])
        for rows in self._levels[1:]:
            world[rows] = compose(world[self._parent[rows]], world[rows])
        self._world = world
        self.positions = world[: self._count, :3]
        self.rotations = wxyz(world[: self._count, 3:])


def levels(parent: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
    """Return the rows of a forest by depth, roots first; rows in a cycle are left out.

    Args:
        parent: (N,) row of the parent of each, -1 for roots.
    """
    depth = np.full(len(parent), -1, dtype=np.intp)
    level = np.flatnonzero(parent < 0)
    found = [level]
    depth[level] = 0
    waiting = np.flatnonzero(parent >= 0)
    while len(waiting):
        ready = depth[parent[waiting]] >= 0
        level = waiting[ready]
        if not len(level):
            break
        found.append(level)
        depth[level] = len(found) - 1
        waiting = waiting[~ready]
    return tuple(found)


def _tree_keys(robot: RobotPlan) -> tuple[tuple[TreeKey, str], ...]:
    """Return the pair of topics that a robot's transforms are taken from, and the prefix of its frames there."""
    if robot.tf_outputs:
        # Where there are two they say the same.
        output = robot.tf_outputs[0]
        return (((robot.domain_id, output.tf, output.tf_static), output.prefix),)
    return (((robot.domain_id, join(robot.namespace, "tf"), join(robot.namespace, "tf_static")), ""),)

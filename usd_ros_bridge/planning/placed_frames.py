"""Frames as plans: what each hangs from, by which transform, and what moves it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from usd_ros_bridge.model import transforms
from usd_ros_bridge.model.plan import FramePlan, Pose
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.planning.frames import FrameDraft
from usd_ros_bridge.planning.kinematics import Kinematics
from usd_ros_bridge.planning.paths import Nearest
from usd_ros_bridge.planning.poses import as_poses
from usd_ros_bridge.planning.stage_index import StageIndex

_HALF = math.sqrt(0.5)
_X_ALONG: Final[Mapping[str, FloatArray]] = {
    "Y": np.array([0.0, 0.0, 0.0, 0.0, 0.0, _HALF, _HALF]),
    "Z": np.array([0.0, 0.0, 0.0, 0.0, -_HALF, 0.0, _HALF]),
}
"""The shortest rotation that takes X to another axis, as a pose."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedFrames:
    """Frames of all robots as plans.

    Attributes:
        robots: Frames of each robot, parents first.
        by_path: Robot and index of each frame by prim path.
        nearest: Nearest frame at or above a prim.
    """

    robots: Sequence[tuple[FramePlan, ...]]
    by_path: Mapping[str, tuple[int, int]]
    nearest: Nearest

    def at(self, path: str) -> FramePlan | None:
        """Returns the nearest frame at or above a prim."""
        found = self.by_path.get(self.nearest(path))
        return None if found is None else self.robots[found[0]][found[1]]


def place_frames(
    drafts: Sequence[Sequence[FrameDraft]],
    index: StageIndex,
    kinematics: Kinematics,
    body_rows: Mapping[str, int],
    world_from_body: FloatArray,
    odom_frames: Mapping[str, str],
) -> PlacedFrames:
    """Computes transforms at rest of all frames at once.

    Args:
        drafts: Frames of each robot, parents first.
        index: The stage.
        kinematics: The joints, with transforms along edges.
        body_rows: Row of each body by path.
        world_from_body: (B, 7) bodies at rest.
        odom_frames: Odometry frame by path of the base body that it replaces the parent of.
    """
    flat = [draft for of_robot in drafts for draft in of_robot]
    position = {draft.path: number for number, draft in enumerate(flat)}
    world_from_frame, carrier_from_frame = _world_poses(flat, index, body_rows, world_from_body)
    parents = np.array([position.get(draft.parent, -1) for draft in flat], dtype=np.intp)
    world_from_parent = np.where(
        (parents < 0)[:, None], transforms.IDENTITY, world_from_frame[parents] if flat else world_from_frame
    )
    parent_from_frame = transforms.relative(world_from_parent, world_from_frame)
    edges = [(i, kinematics.edge_offsets[d.robot] + d.edge) for i, d in enumerate(flat) if d.edge >= 0]
    if edges:
        rows, of_edges = np.array(edges, dtype=np.intp).T
        parent_from_frame[rows] = kinematics.edge_rest[of_edges]
    for number, draft in enumerate(flat):
        if draft.path in odom_frames:
            parent_from_frame[number] = transforms.IDENTITY
    return _as_plans(
        drafts,
        position,
        as_poses(parent_from_frame),
        as_poses(carrier_from_frame),
        kinematics,
        body_rows,
        odom_frames,
    )


def _world_poses(
    flat: Sequence[FrameDraft], index: StageIndex, body_rows: Mapping[str, int], world_from_body: FloatArray
) -> tuple[FloatArray, FloatArray]:
    poses = index.poses
    frame_rows = poses.find_rows([draft.path for draft in flat])
    carriers = np.array([body_rows.get(draft.carrier, -1) for draft in flat], dtype=np.intp)
    carrier_prims = poses.find_rows([draft.carrier for draft in flat])
    authored = poses.world_from_prim
    carrier_from_frame = transforms.relative(authored[carrier_prims], authored[frame_rows])
    carrier_from_frame[frame_rows == carrier_prims] = transforms.IDENTITY
    for number, draft in enumerate(flat):
        if draft.turn != "X":
            carrier_from_frame[number] = transforms.compose(carrier_from_frame[number], _X_ALONG[draft.turn])
    bodies = np.concatenate((world_from_body, transforms.IDENTITY[None]))
    return transforms.compose(bodies[carriers], carrier_from_frame), carrier_from_frame


def _as_plans(
    drafts: Sequence[Sequence[FrameDraft]],
    position: Mapping[str, int],
    parent_from_frame: Sequence[Pose],
    carrier_from_frame: Sequence[Pose],
    kinematics: Kinematics,
    body_rows: Mapping[str, int],
    odom_frames: Mapping[str, str],
) -> PlacedFrames:
    by_path: dict[str, tuple[int, int]] = {}
    ids: dict[str, str] = {}
    robots = []
    for robot, of_robot in enumerate(drafts):
        plans: list[FramePlan] = []
        top = kinematics.robots[robot].context.parent_frame
        for draft in of_robot:
            by_path[draft.path] = (robot, len(plans))
            ids[draft.path] = draft.name
            number = position[draft.path]
            odom = odom_frames.get(draft.path)
            plans.append(
                FramePlan(
                    id=draft.name,
                    parent=ids.get(draft.parent, top) if odom is None else odom,
                    path=draft.path,
                    static=draft.static and odom is None,
                    parent_from_frame=parent_from_frame[number],
                    parent_index=by_path[draft.parent][1] if draft.parent in by_path and odom is None else -1,
                    edge=draft.edge if odom is None else -1,
                    carrier=body_rows.get(draft.carrier, -1),
                    carrier_from_frame=carrier_from_frame[number],
                )
            )
        robots.append(tuple(plans))
    return PlacedFrames(robots, by_path, Nearest(by_path))

"""Frame poses of the page: what /tf and /tf_static say, composed to the fixed frame, in arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan


class FramePoses:
    """Poses of a plan's frames in the fixed frame, row by row.

    Attributes:
        rows: Row of each frame, by robot (index in `plan.robots`) and frame id.
        positions: (F, 3) metres, in the fixed frame (`parent_frame`, "world").
        rotations: (F, 4) quaternions, scalar first as viser has them.
        known: (F,) whether /tf or /tf_static has said where the frame is.
        changes: Counts the messages that changed a pose.
    """

    def __init__(self, plan: BridgePlan) -> None:
        """Args: plan: The frames, at rest before the first message."""
        rows: dict[tuple[int, str], int] = {}
        for number, robot in enumerate(plan.robots):
            for frame in robot.frames:
                rows[number, frame.id] = len(rows)
        self.rows: Mapping[tuple[int, str], int] = rows
        count = len(rows)
        self.positions: NDArray[np.float64] = np.zeros((count, 3))
        self.rotations: NDArray[np.float64] = np.tile((1.0, 0.0, 0.0, 0.0), (count, 1))
        self.known: NDArray[np.bool_] = np.zeros(count, bool)
        self.changes = 0

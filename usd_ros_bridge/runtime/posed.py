"""Frames whose transform is the difference of two world poses, each carried by a body, by nothing, or by a start."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from usd_ros_bridge.model.transforms import IDENTITY, FloatArray, compose, normalized, relative
from usd_ros_bridge.runtime import bodies, scalar
from usd_ros_bridge.runtime.edges import selection
from usd_ros_bridge.runtime.kinematics import Kinematics

if TYPE_CHECKING:
    from usd_ros_bridge.runtime.snapshot import Snapshot

FEW = 4
"""Up to how many frames are computed one by one: numpy's calls cost as much for one as for a hundred."""
WORLD = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PosedFrame:
    """A frame between two carriers.

    Attributes:
        slot: Column of the frame in the array that it is written into.
        carrier: Row of the body that carries it, WORLD where nothing does.
        carrier_from_frame: (7,).
        parent_carrier: Row of the body that carries its parent, WORLD where nothing does.
        carrier_from_parent: (7,).
        from_start: Whether the parent's carrier stands where it was at the start: an odometry frame.
    """

    slot: int
    carrier: int
    carrier_from_frame: FloatArray
    parent_carrier: int
    carrier_from_parent: FloatArray
    from_start: bool


class PosedFrames(Protocol):
    """What computes posed frames."""

    def write(self, snapshot: Snapshot) -> bool:
        """Writes `parent_from_frame` of each into its column; NaN where the rotation has no length.

        Returns:
            Whether every number is known to be finite.
        """


def posed_frames(
    frames: Sequence[PosedFrame], kinematics: Kinematics, *, joint_driven: bool, components: FloatArray
) -> PosedFrames | None:
    """Returns what computes frames, None where there are none.

    Args:
        frames: Which.
        kinematics: Of the plan.
        joint_driven: Whether the backend's joint positions determine the bodies below joints.
        components: (7, F), C-contiguous: what to write into.
    """
    if not frames:
        return None
    if len(frames) <= FEW:
        return _Few(frames, components)
    return _Many(frames, kinematics, joint_driven, components)


class _Few:
    """A handful of frames, as plain floats."""

    def __init__(self, frames: Sequence[PosedFrame], components: FloatArray) -> None:
        width = components.shape[1]
        self._frames = [
            (
                range(frame.slot, 7 * width, width),
                frame.carrier,
                _offset(frame.carrier_from_frame),
                frame.parent_carrier,
                _offset(frame.carrier_from_parent),
                frame.from_start,
            )
            for frame in frames
        ]
        # Floats go into a memoryview at a third of what numpy takes for it.
        self._cells = _cells(components)

    def write(self, snapshot: Snapshot) -> bool:
        known, cells = True, self._cells
        for places, carrier, offset, parent_carrier, parent_offset, from_start in self._frames:
            pose: scalar.Floats = snapshot.body(carrier) if carrier >= 0 else _ORIGIN
            if offset is not None:
                pose = bodies.compose(pose, offset)
            parent: scalar.Floats | None = parent_offset
            if parent_carrier >= 0:
                parent = (
                    snapshot.start_pose(parent_carrier).tolist()
                    if from_start
                    else snapshot.body(parent_carrier)
                )
                if parent_offset is not None:
                    parent = bodies.compose(parent, parent_offset)
            x, y, z, qx, qy, qz, qw = pose if parent is None else scalar.relative(parent, pose)
            square = qx * qx + qy * qy + qz * qz + qw * qw
            # As `normalized`: what has no direction shows as NaN.
            length = sqrt(square) if 0.0 < square < inf else nan
            rotation = (qx / length, qy / length, qz / length, qw / length)
            for place, value in zip(places, (x, y, z, *rotation), strict=True):
                cells[place] = value
            known = known and isfinite(x + y + z + length)
        return known


class _Many:
    """Any number of frames, a few numpy calls for all."""

    def __init__(
        self,
        frames: Sequence[PosedFrame],
        kinematics: Kinematics,
        joint_driven: bool,
        components: FloatArray,
    ) -> None:
        world = len(kinematics.driven)
        self._slots = selection([frame.slot for frame in frames])
        self._out = components.T
        child_rows = [frame.carrier if frame.carrier >= 0 else world for frame in frames]
        parent_rows = [frame.parent_carrier if frame.parent_carrier >= 0 else world for frame in frames]
        self._child_rows = np.array(child_rows, dtype=np.intp)
        self._parent_rows = np.array(parent_rows, dtype=np.intp)
        self._child_offsets = _Offsets([frame.carrier_from_frame for frame in frames])
        self._parent_offsets = _Offsets([frame.carrier_from_parent for frame in frames])
        self._odometry = np.flatnonzero([frame.from_start for frame in frames])
        self._bodies = np.tile(IDENTITY, (world + 1, 1))
        used = np.concatenate((self._child_rows, self._parent_rows))
        # Bodies right below the world, the only moving frames of most robots that come from poses.
        self._direct = bool(
            (self._parent_rows == world).all()
            and (self._child_rows < world).all()
            and not (self._odometry.size or self._child_offsets.used or self._parent_offsets.used)
        )
        self._complete = joint_driven and bool(kinematics.driven[used[used < world]].any())

    def write(self, snapshot: Snapshot) -> bool:
        body_pose = snapshot.body_pose if self._complete else snapshot.state.body_pose
        if self._direct:
            pose: FloatArray = body_pose[self._child_rows]
        else:
            self._bodies[:-1] = body_pose
            child = self._child_offsets.apply(self._bodies[self._child_rows])
            parent = self._bodies[self._parent_rows]
            if self._odometry.size:
                parent[self._odometry] = snapshot.start_poses[self._parent_rows[self._odometry]]
            pose = relative(self._parent_offsets.apply(parent), child)
        pose[:, 3:] = normalized(pose[:, 3:])
        self._out[self._slots] = pose
        return bool(np.isfinite(pose).all())


class _Offsets:
    """Constant poses to the right of others; identities, which most are, cost nothing."""

    def __init__(self, offsets: list[FloatArray]) -> None:
        poses = np.array(offsets)
        self._rows = np.flatnonzero(np.any(poses != IDENTITY, axis=-1))
        self._poses = poses[self._rows]
        self.used = self._rows.size > 0

    def apply(self, poses: FloatArray) -> FloatArray:
        if self._rows.size:
            poses[self._rows] = compose(poses[self._rows], self._poses)
        return poses


_ORIGIN: list[float] = IDENTITY.tolist()


def _cells(array: FloatArray) -> MutableSequence[float]:
    """Returns the numbers of a C-contiguous array, to write one by one."""
    # What the type checker is told of a memoryview knows of bytes only.
    cells: Any = memoryview(array.reshape(-1).data)
    numbers: MutableSequence[float] = cells
    return numbers


def _offset(pose: FloatArray) -> list[float] | None:
    """Returns a pose as floats, None for the identity."""
    values: list[float] = pose.tolist()
    return None if values == _ORIGIN else values

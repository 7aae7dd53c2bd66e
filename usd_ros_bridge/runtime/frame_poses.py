"""Frames of all robots: their transforms, and the rules of what is sent to /tf (REP 0158 section 2.7)."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import Any, Protocol

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.runtime.kinematics import Kinematics, selection
from usd_ros_bridge.runtime.odometry import OdometryTable, OdometryWriter
from usd_ros_bridge.spatial import scalar
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    IndexArray,
    compose,
    normalized,
    pose_array,
    relative,
)

FEW = 4
"""Up to how many frames are computed one by one: numpy's calls cost as much for one as for a hundred."""
WORLD = -1
"""Row that stands for the world, among those of bodies: nothing moves it."""


class PoseSource(Protocol):
    """Poses of one tick: what frames need of a `Snapshot`. See there for units and shapes."""

    state: State

    @property
    def edge_pose(self) -> FloatArray:
        """(E, 7) `parent_from_child` of all edges."""
        ...

    @property
    def body_pose(self) -> FloatArray:
        """(B, 7) `world_from_body` of all bodies."""
        ...

    @property
    def start_poses(self) -> FloatArray:
        """(B, 7) `world_from_body` where odometry starts."""
        ...

    def pose(self, row: int) -> FloatArray:
        """Return `world_from_body` (7,) of one body."""
        ...

    def body(self, row: int) -> list[float]:
        """Return `world_from_body` of one body as 7 floats."""
        ...

    def start_pose(self, row: int) -> list[float]:
        """Return `world_from_body` of one body where odometry starts as 7 floats."""
        ...


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
    """Compute posed frames."""

    def write(self, snapshot: PoseSource) -> bool:
        """Write `parent_from_frame` of each into its column; NaN where the rotation has no length.

        Returns:
            Whether every number is known to be finite.
        """


def posed_frames(
    frames: Sequence[PosedFrame], kinematics: Kinematics, *, joint_driven: bool, components: FloatArray
) -> PosedFrames | None:
    """Return what computes frames, None where there are none.

    Args:
        frames: Which.
        kinematics: Of the plan.
        joint_driven: Whether the backend's joint positions determine the bodies below joints.
        components: (7, F), C-contiguous: what to write into.
    """
    if not frames:
        return None
    if len(frames) <= FEW:
        return _FrameLoop(frames, components)
    return _FrameArrays(frames, kinematics, joint_driven, components)


class _FrameLoop:
    """A handful of frames, as plain floats."""

    def __init__(self, frames: Sequence[PosedFrame], components: FloatArray) -> None:
        width = components.shape[1]
        self._frames = [
            (
                tuple(range(frame.slot, 7 * width, width)),
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

    def write(self, snapshot: PoseSource) -> bool:
        known, cells = True, self._cells
        for (a, b, c, d, e, f, g), carrier, offset, parent_carrier, parent_offset, from_start in self._frames:
            pose: scalar.Floats = snapshot.body(carrier) if carrier >= 0 else _ORIGIN
            if offset is not None:
                pose = scalar.compose(pose, offset)
            parent: scalar.Floats | None = parent_offset
            if parent_carrier >= 0:
                parent = snapshot.start_pose(parent_carrier) if from_start else snapshot.body(parent_carrier)
                if parent_offset is not None:
                    parent = scalar.compose(parent, parent_offset)
            x, y, z, qx, qy, qz, qw = pose if parent is None else scalar.relative(parent, pose)
            square = qx * qx + qy * qy + qz * qz + qw * qw
            # As `normalized`: what has no direction shows as NaN.
            length = sqrt(square) if 0.0 < square < inf else nan
            # Written out: a loop takes twice as long.
            cells[a], cells[b], cells[c] = x, y, z
            cells[d], cells[e], cells[f], cells[g] = qx / length, qy / length, qz / length, qw / length
            known = known and isfinite(x + y + z + length)
        return known


class _FrameArrays:
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

    def write(self, snapshot: PoseSource) -> bool:
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
    """Return the numbers of a C-contiguous array, to write one by one."""
    # What the type checker is told of a memoryview knows of bytes only.
    cells: Any = memoryview(array.reshape(-1).data)
    numbers: MutableSequence[float] = cells
    return numbers


def _offset(pose: FloatArray) -> list[float] | None:
    """Return a pose as floats, None for the identity."""
    values: list[float] = pose.tolist()
    return None if values == _ORIGIN else values


_ALL, _ROTATION = slice(None), slice(3, None)
"""Rows of poses by component."""
ONE_THREAD = 8192
"""Up to how many numbers BLAS multiplies in the thread that asks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RobotFrames:
    """The broadcast frames of a robot, and their rows.

    Attributes:
        moving: Indices in RobotPlan.frames of the frames that go to /tf, in the plan's order.
        static: Indices in RobotPlan.frames of the frames that go to /tf_static, in the plan's order.
        static_poses: (S, 7) `parent_from_frame` of those.
        span: Rows of the moving frames among those of all robots.
        rotate_only: Whether no state changes the translations of the moving frames: they are the same in every sample.
    """

    moving: tuple[int, ...]
    static: tuple[int, ...]
    static_poses: FloatArray
    span: slice
    rotate_only: bool


class FrameTable:
    """Transforms of the moving frames of all robots, in one array; the static ones are constants.

    Attributes:
        robots: By robot index.
        robot_poses: (F, 7) of each robot's moving frames: rows of what `evaluate` returns.
        finite: Whether every number of the last `evaluate` is finite.
    """

    def __init__(
        self,
        plan: BridgePlan,
        kinematics: Kinematics,
        *,
        joint_driven: bool,
        report: Report,
        odometry: OdometryTable | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            plan: The plan.
            kinematics: The plan's kinematics.
            joint_driven: Whether the backend's joint positions determine the bodies below joints; if not, the
                transforms of frames that joints end in come from body poses, too.
            report: Where a transform that is not finite is reported.
            odometry: What controllers know of their robots' bases: it is the transform of a base whose robot says
                `odometry`; where none does, the base's true motion since the start is.
        """
        self._plan = plan
        self._kinematics = kinematics
        self._joint_driven = joint_driven
        self._report = report
        self._reckoned = odometry or OdometryTable()
        self.robots: tuple[RobotFrames, ...] = self._split(plan)
        self._compile()

    def evaluate(self, snapshot: PoseSource) -> FloatArray:
        """Compute the moving frames of all robots.

        Returns:
            (F, 7) `parent_from_frame`: a view of an array by component, whose rows the `.T` of it has, overwritten by
            the next call.
        """
        finite = self._constants_finite
        if self._from_edges:
            # Computes the edges: into the array that the source's columns are views of.
            _ = snapshot.edge_pose
            position = snapshot.state.joint_position
            # Edges are products of finite constants, sines and positions: a sum of squares of the positions finds any
            # NaN or infinity, and any number so large that a product could overflow, without a warning.
            finite = finite and isfinite(sum_of_squares(position))
            if self._gather is not None:
                # One gather into every column, those of posed frames and constants put right below.
                np.take(self._source, self._gather, axis=1, out=self._columns, mode="clip")
                self._components[:, self._constant_slots] = self._constants
            elif self._columns is not None:
                self._columns[...] = self._source
        if self._posed is not None:
            finite = self._posed.write(snapshot) and finite
        if self._odometry is not None:
            finite = self._odometry.write(self._components) and finite
        self.finite = finite or bool(np.isfinite(self._components).all())
        return self._out

    def edge_rows(self, robot: int) -> dict[int, int]:
        """Return the rows of edges that determine a robot's moving frames, by the frames' rows in `frame_poses`."""
        frames = self._plan.robots[robot].frames
        rows = {
            place: self._edge(robot, frames[number]) for place, number in enumerate(self.robots[robot].moving)
        }
        return {place: edge for place, edge in rows.items() if edge >= 0}

    @property
    def only_edges_move(self) -> bool:
        """Return whether frames without an edge stand still as long as bodies do that no joint determines."""
        carriers = {row for frame in self._posed_frames for row in (frame.carrier, frame.parent_carrier)}
        return self._odometry is None and not any(
            row >= 0 and self._kinematics.driven[row] for row in carriers
        )

    def world_from_frame(self, snapshot: PoseSource, robot: int, frame_id: str) -> FloatArray | None:
        """Return `world_from_frame` (7,) of a frame by its id without prefix, None where the robot has none such."""
        for frame in self._plan.robots[robot].frames:
            if frame.id == frame_id:
                offset = pose_array(frame.carrier_from_frame)
                return offset if frame.carrier < 0 else compose(snapshot.pose(frame.carrier), offset)
        return None

    def _split(self, plan: BridgePlan) -> tuple[RobotFrames, ...]:
        robots, first = [], 0
        for index, robot in enumerate(plan.robots):
            moving = tuple(
                i for i, frame in enumerate(robot.frames) if not frame.static and not _skipped(robot, i)
            )
            static = tuple(
                i
                for i, frame in enumerate(robot.frames)
                if frame.static and not _skipped(robot, i) and self._usable(frame)
            )
            robots.append(
                RobotFrames(
                    moving=moving,
                    static=static,
                    static_poses=np.array(
                        [pose_array(robot.frames[i].parent_from_frame) for i in static]
                    ).reshape(-1, 7),
                    span=slice(first, first + len(moving)),
                    rotate_only=all(self._keeps_translation(index, i) for i in moving),
                )
            )
            first += len(moving)
        return tuple(robots)

    def _edge(self, robot: int, frame: FramePlan) -> int:
        """Return the row of the edge that is the frame's transform, -1 where body poses or nothing determine it."""
        edge = self._kinematics.first_edge[robot] + frame.edge
        from_joints = self._joint_driven and frame.edge >= 0 and edge not in self._kinematics.free_edges
        return edge if from_joints else -1

    def _keeps_translation(self, robot: int, number: int) -> bool:
        edge = self._edge(robot, self._plan.robots[robot].frames[number])
        return edge >= 0 and not self._kinematics.translates[edge]

    def _usable(self, frame: FramePlan) -> bool:
        if np.isfinite(pose_array(frame.parent_from_frame)).all():
            return True
        self._report(
            f"frames.finite:{frame.path}", f"the transform of frame {frame.id} is not finite: left out"
        )
        return False

    def _compile(self) -> None:
        edge_slots: list[int] = []
        edge_rows: list[int] = []
        posed: list[PosedFrame] = []
        bases: dict[int, int] = {}
        rest = []
        for index, robot in enumerate(self._plan.robots):
            for place, number in enumerate(self.robots[index].moving):
                frame, slot = robot.frames[number], self.robots[index].span.start + place
                rest.append(pose_array(frame.parent_from_frame))
                edge = self._edge(index, frame)
                if edge >= 0:
                    edge_slots.append(slot)
                    edge_rows.append(edge)
                elif number == robot.base and robot.base_transform == "odometry" and index in self._reckoned:
                    bases[index] = slot
                elif (between := _posed(robot, number, slot)) is not None:
                    posed.append(between)
        constant = np.ones(len(rest), dtype=bool)
        constant[[*edge_slots, *(frame.slot for frame in posed), *bases.values()]] = False
        self._constant_slots: IndexArray = np.flatnonzero(constant)
        # By component, (7, F), as the edges: see Kinematics.
        components: FloatArray = np.ascontiguousarray(np.array(rest).reshape(-1, 7).T)
        self._constants: FloatArray = components[:, self._constant_slots]
        # At zero, every constant of an edge that is not finite shows in its pose.
        zero = self._kinematics.edge_poses(np.zeros(len(self._plan.layout.dofs))).T
        components[:, edge_slots] = zero[:, edge_rows]
        self._constants_finite: bool = bool(
            np.isfinite(zero[:, edge_rows]).all() and np.isfinite(self._constants).all()
        )
        self._from_edges: bool = bool(edge_slots)
        part = _ALL if self._kinematics.translates[edge_rows].any() else _ROTATION
        # Columns that edges determine: views, and of the kinematics' array, because each tick uses the same two.
        self._source: FloatArray = zero[part]
        self._columns: FloatArray | None = None
        self._gather: IndexArray | None = None
        slots, rows = selection(edge_slots), selection(edge_rows)
        if not (isinstance(slots, slice) and isinstance(rows, slice)):
            self._gather = np.zeros(len(rest), dtype=np.intp)
            self._gather[edge_slots] = edge_rows
            self._columns = components[part]
        elif len(edge_slots) == len(rest):
            # Nothing but edges, in their order: their array is this one.
            components = zero[:, rows]
        else:
            self._source, self._columns = zero[part, rows], components[part, slots]
        self._components: FloatArray = components
        self._out: FloatArray = components.T
        self.robot_poses: tuple[FloatArray, ...] = tuple(self._out[robot.span] for robot in self.robots)
        self.finite = False
        self._odometry: OdometryWriter | None = (
            self._reckoned.writer(bases, bases.values()) if bases else None
        )
        self._posed_frames = tuple(posed)
        self._posed: PosedFrames | None = posed_frames(
            posed, self._kinematics, joint_driven=self._joint_driven, components=components
        )


def sum_of_squares(values: FloatArray) -> float:
    """Return the sum of the squares of numbers (N,)."""
    # More than 10,000 numbers OpenBLAS shares among threads, which wait milliseconds for each other on a busy machine.
    if len(values) > ONE_THREAD:
        return float(np.einsum("i,i", values, values))
    # Not `dot`, which is faster alone: it releases the interpreter to other threads, and a tick waits to get it back.
    return float(np.vdot(values, values))


def _skipped(robot: RobotPlan, number: int) -> bool:
    """Return whether another node publishes the frame: the robot's pose in the world, by `base_transform`."""
    frame = robot.frames[number]
    if robot.base_transform != "none" or (frame.parent_index >= 0 and number != robot.base):
        return False
    if robot.base >= 0:
        return True
    # Where joints move what hangs from parent_frame, or there is more than one, the robot begins there.
    moves = frame.edge >= 0 and not robot.edges[frame.edge].rigid
    return not moves and sum(each.parent_index < 0 for each in robot.frames) == 1


def _posed(robot: RobotPlan, number: int, slot: int) -> PosedFrame | None:
    """Return what the frame's transform follows from, None where nothing moves it in its parent."""
    frame = robot.frames[number]
    from_start = number == robot.base and robot.base_transform == "odometry" and frame.carrier >= 0
    carrier_from_frame = pose_array(frame.carrier_from_frame)
    if from_start:
        parent_carrier, carrier_from_parent = frame.carrier, carrier_from_frame
    elif frame.parent_index < 0:
        parent_carrier, carrier_from_parent = WORLD, IDENTITY
    else:
        parent = robot.frames[frame.parent_index]
        parent_carrier, carrier_from_parent = parent.carrier, pose_array(parent.carrier_from_frame)
    if parent_carrier == frame.carrier and not from_start:
        return None
    return PosedFrame(
        slot=slot,
        carrier=frame.carrier,
        carrier_from_frame=carrier_from_frame,
        parent_carrier=parent_carrier,
        carrier_from_parent=carrier_from_parent,
        from_start=from_start,
    )

"""Frames of all robots at once, and the rules of what is sent to /tf (REP 0158 section 2.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan
from usd_ros_bridge.model.transforms import IDENTITY, FloatArray, compose
from usd_ros_bridge.runtime.edges import IndexArray, Selection, pose_array, selection
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.odometry import OdometryTable, OdometryWriter
from usd_ros_bridge.runtime.posed import WORLD, PosedFrame, PosedFrames, posed_frames

if TYPE_CHECKING:
    from usd_ros_bridge.runtime.snapshot import Snapshot

Report = Callable[[str, str], None]
_ALL, _ROTATION = slice(None), slice(3, None)
"""Rows of poses by component."""
ONE_THREAD = 8192
"""Up to how many numbers BLAS multiplies in the thread that asks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RobotFrames:
    """Which frames of a robot are broadcast, and where.

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformSample:
    """What one robot's TFMessage of one tick shows.

    Attributes:
        stamp_ns: Time of the state, nanoseconds.
        poses: (F, 7) `parent_from_frame` in the order of RobotFrames.moving; overwritten at the next tick.
        valid: (F,) which of them may be sent, None for all.
    """

    stamp_ns: int
    poses: FloatArray
    valid: NDArray[np.bool_] | None


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
        """Makes the index arrays.

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

    def evaluate(self, snapshot: Snapshot) -> FloatArray:
        """Computes the moving frames of all robots.

        Returns:
            (F, 7) `parent_from_frame`: a view of an array by component, whose rows the `.T` of it has, overwritten by
            the next call.
        """
        finite = self._constants_finite
        if self._from_edges:
            edges = snapshot.edge_pose
            position = snapshot.state.joint_position
            # Edges are products of finite constants, sines and positions: a sum of squares of the positions finds any
            # NaN or infinity, and any number so large that a product could overflow, without a warning.
            finite = finite and isfinite(_square(position))
            if self._gather is not None:
                # One gather into every column, those of posed frames and constants put right below.
                part = self._edge_part
                np.take(edges.T[part], self._gather, axis=1, out=self._components[part], mode="clip")
                self._components[:, self._constant_slots] = self._constants
            elif self._edge_columns is not None:
                self._edge_columns[...] = edges.T[self._edge_part, self._edge_rows]
        if self._posed is not None:
            finite = self._posed.write(snapshot) and finite
        if self._odometry is not None:
            finite = self._odometry.write(self._components) and finite
        self.finite = finite or bool(np.isfinite(self._components).all())
        return self._out

    def world_from_frame(self, snapshot: Snapshot, robot: int, frame_id: str) -> FloatArray | None:
        """Returns `world_from_frame` (7,) of a frame by its id without prefix, None where the robot has none such."""
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
        """Returns the row of the edge that is the frame's transform, -1 where body poses or nothing determine it."""
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
        self._edge_rows: Selection = selection(edge_rows)
        self._edge_part: slice = _ALL if self._kinematics.translates[edge_rows].any() else _ROTATION
        self._edge_columns: FloatArray | None = None
        self._gather: IndexArray | None = None
        slots = selection(edge_slots)
        if not (isinstance(slots, slice) and isinstance(self._edge_rows, slice)):
            self._gather = np.zeros(len(rest), dtype=np.intp)
            self._gather[edge_slots] = edge_rows
        elif len(edge_slots) == len(rest):
            # Nothing but edges, in their order: their array is this one.
            components = zero[:, self._edge_rows]
        else:
            self._edge_columns = components[self._edge_part, slots]
        self._components: FloatArray = components
        self._out: FloatArray = components.T
        self.robot_poses: tuple[FloatArray, ...] = tuple(self._out[robot.span] for robot in self.robots)
        self.finite = False
        self._odometry: OdometryWriter | None = (
            self._reckoned.writer(bases, bases.values()) if bases else None
        )
        self._posed: PosedFrames | None = posed_frames(
            posed, self._kinematics, joint_driven=self._joint_driven, components=components
        )


def _square(values: FloatArray) -> float:
    """Returns the sum of the squares of numbers (N,)."""
    # More than 10,000 numbers OpenBLAS shares among threads, which wait milliseconds for each other on a busy machine.
    if len(values) > ONE_THREAD:
        return float(np.einsum("i,i", values, values))
    return float(np.vdot(values, values))


def _skipped(robot: RobotPlan, number: int) -> bool:
    """Whether the frame's place is the robot's in the world, and another node's to say, by `base_transform`."""
    frame = robot.frames[number]
    if robot.base_transform != "none" or (frame.parent_index >= 0 and number != robot.base):
        return False
    if robot.base >= 0:
        return True
    # Where joints move what hangs from parent_frame, or there is more than one, the robot begins there.
    moves = frame.edge >= 0 and not robot.edges[frame.edge].rigid
    return not moves and sum(each.parent_index < 0 for each in robot.frames) == 1


def _posed(robot: RobotPlan, number: int, slot: int) -> PosedFrame | None:
    """Returns what the frame's transform follows from, None where nothing moves it in its parent."""
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


class TransformFeed:
    """What to send to /tf for one robot, tick by tick: each state once, and nothing that is not finite.

    Attributes:
        stamp_ns: Time of the state that was taken last, nanoseconds; -1 before. Who sends a state without asking
            whether it is `due` writes it.
        valid: (F,) which of its poses may be sent, None for all.
    """

    __slots__ = ("_path", "_report", "_robot", "stamp_ns", "valid")

    def __init__(self, plan: BridgePlan, robot: int, report: Report) -> None:
        """Makes a feed of the robot with index `robot`."""
        self._robot = robot
        self._path = plan.robots[robot].path
        self._report = report
        self.stamp_ns = -1
        self.valid: NDArray[np.bool_] | None = None

    def reset(self) -> None:
        """Allows the last stamp again: time may have started over."""
        self.stamp_ns = -1

    def due(self, snapshot: Snapshot) -> bool:
        """Returns whether there is something to send now; if so, `stamp_ns` and `valid` tell about it.

        There is nothing where nothing is known of the robot, its state has been sent already, or no pose is finite.
        """
        stamp = snapshot.common_ns
        if stamp is None:
            stamp = snapshot.robot_time_ns(self._robot)
        if stamp < 0 or stamp == self.stamp_ns:
            return False
        # All robots' at once; which robot's, and which frames, matters only where one is not.
        if snapshot.frames_finite:
            self.valid = None
        else:
            self.valid = self._find_valid(snapshot, snapshot.frame_poses(self._robot))
            if self.valid is not None and not self.valid.any():
                return False
        self.stamp_ns = stamp
        return True

    def sample(self, snapshot: Snapshot) -> TransformSample | None:
        """Returns what to send now as one object; None where nothing is `due`, or the robot has no moving frame."""
        if not self.due(snapshot):
            return None
        poses = snapshot.frame_poses(self._robot)
        return TransformSample(stamp_ns=self.stamp_ns, poses=poses, valid=self.valid) if len(poses) else None

    def _find_valid(self, snapshot: Snapshot, poses: FloatArray) -> NDArray[np.bool_] | None:
        finite: NDArray[np.bool_] = np.asarray(np.isfinite(poses).all(axis=-1))
        if finite.all():
            return None
        self._report_dropped(snapshot, finite)
        return finite

    def _report_dropped(self, snapshot: Snapshot, valid: NDArray[np.bool_]) -> None:
        robot = snapshot.plan.robots[self._robot]
        moving = snapshot.moving_frames(self._robot)
        names = [robot.frames[moving[i]].id for i in np.flatnonzero(~valid)[:5]]
        self._report(
            f"tf.finite:{self._path}",
            f"transforms of {self._path} are not finite and left out: {', '.join(names)}"
            + (" and more" if np.count_nonzero(~valid) > len(names) else ""),
        )

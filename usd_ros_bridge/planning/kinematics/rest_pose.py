"""The pose at rest: joint frames in their bodies, joint positions, and the transforms along the tree.

`body0_from_body1 = body0_from_joint * motion * inverse(body1_from_joint)`. All arrays are in metres and radians, in
the ROS world, computed for all joints of a stage at once: a fleet must plan in about a second.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.planning.kinematics.dofs import AXIS_INDEX, FreeAxis
from usd_ros_bridge.planning.kinematics.joint_graph import Edge, TreeJoint, local_frames
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    inverse,
    normalized,
    relative,
    rotation_vector,
)

_NOISE = 5e-7
"""Positions below this many radians or metres are what single precision makes of zero."""

_ROUNDING = 2e-7
"""Share of itself that single precision rounds a number by, at most, and some."""

_DECIMALS = 13
"""Decimals of metres that products of a few transforms leave right."""

_AGREEMENT = 1e-4
"""Metres and radians within which an authored frame counts as meeting an authored pose."""

_ITERATIONS = 20


@dataclass(frozen=True, slots=True, eq=False)
class JointFrames:
    """Joint frames in the prims that joints connect.

    Attributes:
        base0_from_joint: (J, 7) joint frame in body0, or in what stands for the world.
        base1_from_joint: (J, 7) joint frame in body1, or in what stands for the world.
    """

    base0_from_joint: FloatArray
    base1_from_joint: FloatArray


class _Ends(NamedTuple):
    """Ends of joints: rows of prims, -1 for the world. Ends within a robot are those of the robot that it repeats.

    Attributes:
        target0: What body0 names, -1 where it is empty.
        target1: What body1 names, -1 where it is empty.
        base0: Body at end 0, or what stands for the world.
        base1: Body at end 1, or what stands for the world.
    """

    target0: NDArray[np.intp]
    target1: NDArray[np.intp]
    base0: NDArray[np.intp]
    base1: NDArray[np.intp]


def _find_ends(
    joints: Sequence[TreeJoint],
    motions: Sequence[tuple[FreeAxis, ...]],
    world_bases: Sequence[str],
    index: StageIndex,
) -> _Ends:
    poses = index.poses
    target0 = poses.find_rows([joint.target0 for joint in joints])
    target1 = poses.find_rows([joint.target1 for joint in joints])
    base0 = poses.find_rows([joint.body0 or base for joint, base in zip(joints, world_bases, strict=True)])
    base1 = poses.find_rows([joint.body1 or base for joint, base in zip(joints, world_bases, strict=True)])
    # Where an empty end is of a joint that moves may depend on where the robot stands.
    rigid = np.array([not of_joint for of_joint in motions], dtype=bool)
    ends = np.where((target0 < 0) & rigid, base0, target0), np.where((target1 < 0) & rigid, base1, target1)
    end0, end1, base0, base1 = poses.model_rows(*ends, base0, base1)
    return _Ends(np.where(target0 < 0, -1, end0), np.where(target1 < 0, -1, end1), base0, base1)


class RestSolver:
    """Joint frames and positions at rest of all joints of a stage. Equal joints of equal robots are solved once.

    Rows of all arrays are the joints in the order given.

    Attributes:
        positions: Positions at rest of each joint's degrees of freedom.
        frames: Joint frames in what the joints connect.
    """

    def __init__(
        self,
        joints: Sequence[TreeJoint],
        motions: Sequence[tuple[FreeAxis, ...]],
        world_bases: Sequence[str],
        index: StageIndex,
    ) -> None:
        """Solve all joints.

        Args:
            joints: The joints that are edges.
            motions: Degrees of freedom of each joint.
            world_bases: For each joint, the prim that stands for the world at an end without a body, "" for the
                world itself.
            index: The stage.
        """
        self._motions = motions
        self._index = index
        ends = _find_ends(joints, motions, world_bases, index)
        specs = [joint.record.specs or -1 - row for row, joint in enumerate(joints)]
        first, which = _distinct_keys(
            zip(*(each.tolist() for each in ends), specs, map(id, motions), strict=True)
        )
        solved = _Solution(
            [joints[row] for row in first],
            [motions[row] for row in first],
            _Ends(*(each[first] for each in ends)),
            index,
        )
        self.positions = [solved.positions[number] for number in which]
        self.frames = JointFrames(solved.base0_from_joint[which], solved.base1_from_joint[which])
        self._motion_poses = solved.motion_poses()[which]

    def edge_poses(self, edges: Sequence[Edge], rows: Mapping[str, int]) -> tuple[FloatArray, FloatArray]:
        """Return `parent_from_child` of edges at rest, and with every degree of freedom at zero, both (E, 7).

        Positions of several joints on one edge are found together, and kept.

        Args:
            edges: Edges of any robots.
            rows: Row of each joint by path.
        """
        last = np.array([rows[edge.joints[-1].path] for edge in edges], dtype=np.intp)
        inverted = np.array([edge.inverted for edge in edges], dtype=bool)[:, None]
        f0, f1 = self.frames.base0_from_joint[last], self.frames.base1_from_joint[last]
        zero = compose(f0, inverse(f1))
        rest = compose(compose(f0, self._motion_poses[last]), inverse(f1))
        zero = np.where(inverted, inverse(zero), zero)
        rest = np.where(inverted, inverse(rest), rest)
        for number, edge in enumerate(edges):
            if len(edge.joints) > 1:
                rest[number] = self._joint_rest(
                    edge, [rows[joint.path] for joint in edge.joints], zero[number]
                )
        return rest, zero

    def _joint_rest(self, edge: Edge, joint_rows: Sequence[int], zero: FloatArray) -> FloatArray:
        """`parent_from_child` of an edge of several joints: motions about the rest pose, one after another."""
        frames = self.frames.base1_from_joint if edge.inverted else self.frames.base0_from_joint
        chain = [
            (frames[row], motion.axis, -1.0 if edge.inverted else 1.0)
            for row in joint_rows
            for motion in self._acting(edge, row)
        ]
        poses = self._index.poses
        authored = [motion.authored_position for row in joint_rows for motion in self._acting(edge, row)]
        values = [0.0] * len(chain)
        known = edge.parent and poses.is_usable(edge.parent) and poses.is_usable(edge.child)
        if known:
            wanted = poses.relative(poses.find_rows([edge.parent]), poses.find_rows([edge.child]))[0]
            values = solve_chain(chain, compose(wanted, inverse(zero)))
        values = [value if state is None else state for value, state in zip(values, authored, strict=True)]
        remaining = iter(values)
        for row in joint_rows:
            found = [next(remaining) for _ in self._motions[row]]
            self.positions[row] = found[::-1] if edge.inverted else found
        return compose(_chain_pose(chain, values), zero)

    def _acting(self, edge: Edge, row: int) -> Sequence[FreeAxis]:
        """Return the motions of a joint in the order in which they act from the parent on."""
        return self._motions[row][::-1] if edge.inverted else self._motions[row]


def _distinct_keys(keys: Iterable[Hashable]) -> tuple[list[int], list[int]]:
    """Return where each of `keys` is first, and for every key, which of these it equals."""
    first: list[int] = []
    which: list[int] = []
    numbers: dict[Hashable, int] = {}
    for row, key in enumerate(keys):
        number = numbers.setdefault(key, len(first))
        if number == len(first):
            first.append(row)
        which.append(number)
    return first, which


class _Solution:
    """Joint frames and positions at rest of joints that all differ.

    Attributes:
        positions: Positions at rest of each joint's degrees of freedom.
        base0_from_joint: (J, 7) joint frame in what is at end 0.
        base1_from_joint: (J, 7) joint frame in what is at end 1.
    """

    def __init__(
        self,
        joints: Sequence[TreeJoint],
        motions: Sequence[tuple[FreeAxis, ...]],
        ends: _Ends,
        index: StageIndex,
    ) -> None:
        self._motions = motions
        self._index = index
        self.positions = [[0.0] * len(of_joint) for of_joint in motions]
        self._solve_frames(joints, ends)

    def _solve_frames(self, joints: Sequence[TreeJoint], ends: _Ends) -> None:
        index, poses = self._index, self._index.poses
        target0, target1, base0, base1 = ends
        empty0, empty1 = target0 < 0, target1 < 0
        position0, rotation0, position1, rotation1 = local_frames(joints)
        local0 = self._local0 = self._local(position0, rotation0, target0)
        local1 = self._local1 = self._local(position1, rotation1, target1)
        world = poses.world_from_prim
        self.world_from_joint0 = compose(world[target0], local0)
        self.world_from_joint1 = compose(world[target1], local1)
        if index.units.world_from_stage is not IDENTITY:
            # An empty end is in the stage's world, which is not the ROS world here.
            stage = index.units.world_from_stage
            self.world_from_joint0[empty0] = compose(stage, local0[empty0])
            self.world_from_joint1[empty1] = compose(stage, local1[empty1])
        # Where a prim's transform cannot be used, its joint frames can: the position is then as in the frames alone.
        lost0 = ~poses.usable[base0] | ~poses.usable[target0]
        lost1 = ~poses.usable[base1] | ~poses.usable[target1]
        self._project(empty0, empty1, lost0 | lost1, world[base0], world[base1])
        base0_from_joint = np.where(
            (base0 == target0)[:, None] | lost0[:, None],
            local0,
            relative(world[base0], self.world_from_joint0),
        )
        base1_from_joint = np.where(
            (base1 == target1)[:, None] | lost1[:, None],
            local1,
            relative(world[base1], self.world_from_joint1),
        )
        # An empty end with no base is in the world already; nothing was to be divided out.
        base0_from_joint = np.where(
            (empty0 & ~lost0)[:, None], relative(world[base0], self.world_from_joint0), base0_from_joint
        )
        base1_from_joint = np.where(
            (empty1 & ~lost1)[:, None], relative(world[base1], self.world_from_joint1), base1_from_joint
        )
        sharp = self._sharpened(world[base0], world[base1], base0_from_joint, base1_from_joint)
        single = (empty0 | empty1 | lost0 | lost1)[:, None]
        self.base0_from_joint = np.where(single, base0_from_joint, sharp)
        self.base1_from_joint = base1_from_joint

    def _sharpened(
        self,
        world_from_base0: FloatArray,
        world_from_base1: FloatArray,
        frame0: FloatArray,
        frame1: FloatArray,
    ) -> FloatArray:
        """Return joint frames in body0 as the poses of the bodies have them where the two agree.

        UsdPhysics has joint frames in single precision, and transforms of prims are in double: within the former's
        rounding they agree, and the latter are exact.
        """
        exact = compose(
            compose(relative(world_from_base0, world_from_base1), frame1), inverse(self.motion_poses())
        )
        size = np.maximum(1.0, np.abs(frame0[:, :3]).max(axis=1, initial=0.0))
        near = np.abs(exact[:, :3] - frame0[:, :3]).max(axis=1, initial=0.0) < _ROUNDING * size
        along = (exact[:, 3:] * frame0[:, 3:]).sum(axis=1)
        alike = near & (np.abs(np.abs(along) - 1.0) < 1e-13)
        exact[:, 3:] *= np.where(along < 0.0, -1.0, 1.0)[:, None]
        # Without what these products round: zeros stay zeros, and two fingers stay symmetrical.
        exact[:, :3] = exact[:, :3].round(_DECIMALS)
        differs = np.abs(exact - frame0) > 10.0**-_DECIMALS * size[:, None]
        return np.where(alike[:, None] & differs, exact, frame0)

    def _local(self, position: FloatArray, rotation: FloatArray, target: NDArray[np.intp]) -> FloatArray:
        scale = self._index.poses.scale[target]
        return np.concatenate((position * scale * self._index.units.meters, normalized(rotation)), axis=-1)

    def _project(
        self,
        empty0: NDArray[np.bool_],
        empty1: NDArray[np.bool_],
        lost: NDArray[np.bool_],
        world_from_base0: FloatArray,
        world_from_base1: FloatArray,
    ) -> None:
        """Find the positions at rest, and move empty ends to where the authored pose of their body puts them."""
        joint0_from_joint1 = relative(self.world_from_joint0, self.world_from_joint1)
        single = self._single_positions(joint0_from_joint1)
        empty = empty0 | empty1
        at_empty_end, unusable = empty.tolist(), lost.tolist()
        for row, motions in enumerate(self._motions):
            if motions and at_empty_end[row] and not unusable[row]:
                self._positions_at_empty_end(
                    row, motions, bool(empty0[row]), world_from_base0, world_from_base1
                )
            elif len(motions) == 1 and not unusable[row]:
                self.positions[row][0] = single[row]
            elif motions and not unusable[row]:
                self.positions[row] = solve_motions(
                    [motion.axis for motion in motions], joint0_from_joint1[row]
                )
            for dof, motion in enumerate(motions):
                if motion.authored_position is not None:
                    self.positions[row][dof] = motion.authored_position
        if not empty.any():
            return
        moved = self.motion_poses()
        self.world_from_joint0 = np.where(
            (empty0 & ~lost)[:, None], compose(self.world_from_joint1, inverse(moved)), self.world_from_joint0
        )
        self.world_from_joint1 = np.where(
            (empty1 & ~lost)[:, None], compose(self.world_from_joint0, moved), self.world_from_joint1
        )

    def _single_positions(self, joint0_from_joint1: FloatArray) -> list[float]:
        axes = np.array(
            [AXIS_INDEX[motions[0].axis] if len(motions) == 1 else 0 for motions in self._motions],
            dtype=np.intp,
        )
        rows = np.arange(len(axes))
        angle = 2.0 * np.arctan2(joint0_from_joint1[rows, np.maximum(axes, 3)], joint0_from_joint1[:, 6])
        angle -= 2.0 * math.pi * np.round(angle / (2.0 * math.pi))
        result = np.where(axes < 3, joint0_from_joint1[rows, np.minimum(axes, 2)], angle)
        cleaned: list[float] = np.where(np.abs(result) < _NOISE, 0.0, result).tolist()
        return cleaned

    def _positions_at_empty_end(
        self,
        row: int,
        motions: Sequence[FreeAxis],
        at_body0: bool,
        world_from_base0: FloatArray,
        world_from_base1: FloatArray,
    ) -> None:
        """An empty end was authored in the asset's own world: where the robot's root prim, or the world, now is.

        Where the frame meets the authored pose in neither, the robot has been moved and its joint is at zero.
        """
        axes = [motion.axis for motion in motions]
        base = (world_from_base0 if at_body0 else world_from_base1)[row]
        for world_from_asset in (base, self._index.units.world_from_stage):
            if at_body0:
                target = relative(compose(world_from_asset, self._local0[row]), self.world_from_joint1[row])
            else:
                target = relative(self.world_from_joint0[row], compose(world_from_asset, self._local1[row]))
            positions = solve_motions(axes, target)
            if _distance(motion_pose(axes, positions), target) < _AGREEMENT:
                self.positions[row] = positions
                return

    def motion_poses(self) -> FloatArray:
        """Return (J, 7) motions of all joints at rest."""
        result = np.tile(IDENTITY, (len(self._motions), 1))
        singles = [row for row, motions in enumerate(self._motions) if len(motions) == 1]
        if singles:
            axes = np.array([AXIS_INDEX[self._motions[row][0].axis] for row in singles], dtype=np.intp)
            values = np.array([self.positions[row][0] for row in singles])
            result[singles] = axis_motions(axes, values)
        for row, motions in enumerate(self._motions):
            if len(motions) > 1:
                result[row] = motion_pose([motion.axis for motion in motions], self.positions[row])
        return result


# --- Motions ----------------------------------------------------------------------------------------------------


def axis_motions(axes: NDArray[np.intp], values: FloatArray) -> FloatArray:
    """Return (N, 7) motions by `values` (N,) along axes given by index (three translations, three rotations)."""
    result = np.tile(IDENTITY, (len(axes), 1))
    rows = np.arange(len(axes))
    linear = axes < 3
    result[rows[linear], axes[linear]] = values[linear]
    half = 0.5 * values[~linear]
    result[rows[~linear], axes[~linear]] = np.sin(half)
    result[rows[~linear], 6] = np.cos(half)
    return result


def motion_pose(axes: Sequence[str], values: Sequence[float]) -> FloatArray:
    """Return the (7,) motion of several degrees of freedom, one after another."""
    return _chain_pose([(IDENTITY, axis, 1.0) for axis in axes], values)


Chain = Sequence[tuple[FloatArray, str, float]]
"""Frames in the parent, axes, and the sign of the motion, of degrees of freedom that act one after another."""


def _chain_pose(chain: Chain, values: Sequence[float]) -> FloatArray:
    result = IDENTITY
    for (frame, axis, sign), value in zip(chain, values, strict=True):
        motion = axis_motions(np.array([AXIS_INDEX[axis]]), np.array([sign * value]))[0]  # type: ignore[index]
        result = compose(result, compose(compose(frame, motion), inverse(frame)))
    return result


def solve_motions(axes: Sequence[str], target: FloatArray) -> list[float]:
    """Return the positions that bring several degrees of freedom of one joint closest to `target`."""
    return solve_chain([(IDENTITY, axis, 1.0) for axis in axes], target)


def solve_chain(chain: Chain, target: FloatArray) -> list[float]:
    """Return the positions at which a chain of motions comes closest to the pose `target` (7,).

    Gauss-Newton with differences; a target that is the identity, as converters author it, gives zeros at once.
    """
    values = np.zeros(len(chain))
    if not chain or _distance(IDENTITY, target) < _NOISE:
        return [0.0] * len(chain)
    step = 1e-6
    for _ in range(_ITERATIONS):
        residual = _error(_chain_pose(chain, values.tolist()), target)
        if not np.isfinite(residual).all():
            return [0.0] * len(chain)
        jacobian = np.stack(
            [
                (_error(_chain_pose(chain, (values + step * unit).tolist()), target) - residual) / step
                for unit in np.eye(len(chain))
            ],
            axis=-1,
        )
        change = np.linalg.lstsq(jacobian, -residual, rcond=1e-9)[0]
        rotational = np.array([axis.startswith("rot") for _, axis, _ in chain])
        change = np.where(rotational, np.clip(change, -1.0, 1.0), change)
        values = values + change
        if np.abs(change).max() < 1e-12:
            break
    wrapped = np.where(rotational, values - 2.0 * math.pi * np.round(values / (2.0 * math.pi)), values)
    cleaned: list[float] = np.where(np.abs(wrapped) < _NOISE, 0.0, wrapped).tolist()
    return cleaned


def _error(actual: FloatArray, target: FloatArray) -> FloatArray:
    difference = relative(actual, target)
    return np.concatenate((actual[:3] - target[:3], -rotation_vector(difference[3:])))


def _distance(actual: FloatArray, target: FloatArray) -> float:
    return float(np.abs(_error(actual, target)).max())

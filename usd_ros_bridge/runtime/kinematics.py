"""Forward kinematics of all robots of a plan at once: index arrays first, then a handful of numpy calls per tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan, DofAxis, EdgePlan, JointPlan, Pose, RobotPlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.model.transforms import (
    IDENTITY,
    FloatArray,
    axis_rotation,
    compose,
    inverse,
    normalized,
    quaternion_multiply,
    rotate,
    sine_and_cosine,
)

IndexArray = NDArray[np.intp]
Selection = IndexArray | slice

_AXIS: dict[DofAxis, int] = {"transX": 0, "transY": 1, "transZ": 2, "rotX": 0, "rotY": 1, "rotZ": 2}


def pose_array(pose: Pose) -> FloatArray:
    """Returns a plan's pose as an array (7,), its quaternion normalised."""
    rotation = normalized(np.array(pose.rotation, dtype=np.float64))
    return np.concatenate((np.array(pose.translation, dtype=np.float64), rotation))


def selection(rows: Sequence[int] | IndexArray) -> Selection:
    """Returns `rows` as a slice where they are consecutive: numpy copies those without looking up indices."""
    index = np.asarray(rows, dtype=np.intp)
    if index.size and np.array_equal(index, np.arange(index[0], index[0] + index.size)):
        return slice(int(index[0]), int(index[0]) + index.size)
    return index


@dataclass(frozen=True, slots=True)
class _Motion:
    """An elementary motion of an edge: about or along an axis of the joint frame, driven by a layout row."""

    axis: int
    angular: bool
    row: int
    sign: float


@dataclass(slots=True)
class _Product:
    """`parent_from_child = constants[0] * motions[0] * constants[1] * motions[1] ... constants[-1]`."""

    constants: list[FloatArray] = field(default_factory=lambda: [IDENTITY])
    motions: list[_Motion] = field(default_factory=list)

    def then(self, pose: FloatArray) -> None:
        self.constants[-1] = compose(self.constants[-1], pose)

    def move(self, joint: JointPlan) -> None:
        sign = -1.0 if joint.inverted else 1.0
        dofs = reversed(joint.dofs) if joint.inverted else joint.dofs
        for dof in dofs:
            self.motions.append(_Motion(_AXIS[dof.axis], dof.axis.startswith("rot"), dof.row, sign))
            self.constants.append(IDENTITY)


def _product(robot: RobotPlan, edge: EdgePlan) -> _Product:
    """Spells an edge out as constants and motions, as EdgePlan and JointPlan define it."""
    product = _Product()
    joints = [robot.joints[index] for index in edge.joints]
    ends = [(pose_array(joint.body0_from_joint), pose_array(joint.body1_from_joint)) for joint in joints]
    if len(joints) == 1:
        start, end = ends[0][::-1] if joints[0].inverted else ends[0]
        product.then(start)
        product.move(joints[0])
        product.then(inverse(end))
        return product
    for joint, (body0_from_joint, body1_from_joint) in zip(joints, ends, strict=True):
        parent_from_joint = body1_from_joint if joint.inverted else body0_from_joint
        product.then(parent_from_joint)
        product.move(joint)
        product.then(inverse(parent_from_joint))
    product.then(pose_array(edge.rest))
    return product


def moves_freely(robot: RobotPlan, edge: EdgePlan) -> bool:
    """Returns whether no joint position determines the edge (a distance joint): its child comes from its own pose."""
    return not edge.rigid and not any(robot.joints[index].dofs for index in edge.joints)


class _AngularEdges:
    """Edges with one rotation: each component of the pose is linear in the sine and cosine of the (half) angle."""

    def __init__(self, edges: Sequence[int], products: Sequence[_Product]) -> None:
        first = np.array([p.constants[0] for p in products]).reshape(-1, 7)
        last = np.array([p.constants[1] for p in products]).reshape(-1, 7)
        axis = np.eye(3)[[p.motions[0].axis for p in products]].reshape(-1, 3)
        sign = np.array([[p.motions[0].sign] for p in products]).reshape(-1, 1)
        pure = np.concatenate((sign * axis, np.zeros((len(products), 1))), axis=-1)
        self.rows = selection([p.motions[0].row for p in products])
        self.out = selection(edges)
        whole = quaternion_multiply(first[:, 3:], last[:, 3:])
        # By component, (4, N): numpy multiplies long rows far faster than many short ones.
        self._cosine = np.ascontiguousarray(whole.T)
        self._sine = np.ascontiguousarray(
            quaternion_multiply(quaternion_multiply(first[:, 3:], pure), last[:, 3:]).T
        )
        self._rotation, self._part = np.empty_like(self._cosine), np.empty_like(self._sine)
        along = axis * np.sum(axis * last[:, :3], axis=-1, keepdims=True)
        radial = last[:, :3] - along
        # Edges whose child's joint frame lies in its origin, nearly all of a converted URDF, only rotate.
        lever = np.flatnonzero(np.any(radial != 0.0, axis=-1))
        self._lever = selection(lever)
        self._lever_out = self.translating = selection(np.asarray(edges, dtype=np.intp)[lever])
        turn = first[lever, 3:]
        self._centre = first[lever, :3] + rotate(turn, along[lever])
        self._lever_cosine = rotate(turn, radial[lever])
        self._lever_sine = rotate(turn, sign[lever] * np.cross(axis[lever], last[lever, :3]))
        self.rest = np.concatenate((first[:, :3] + rotate(first[:, 3:], last[:, :3]), whole), axis=-1)

    def write(self, joint_position: FloatArray, out: FloatArray) -> None:
        sine, cosine = sine_and_cosine(0.5 * joint_position[self.rows])
        np.multiply(self._cosine, cosine, out=self._rotation)
        np.multiply(self._sine, sine, out=self._part)
        if isinstance(self.out, slice):
            np.add(self._rotation, self._part, out=out[3:, self.out])
        else:
            out[3:, self.out] = np.add(self._rotation, self._part, out=self._rotation)
        if len(self._centre):
            s, c = sine[self._lever, None], cosine[self._lever, None]
            offset = (1.0 - 2.0 * s * s) * self._lever_cosine + (2.0 * s * c) * self._lever_sine
            out[:3, self._lever_out] = (self._centre + offset).T


class _LinearEdges:
    """Edges with one translation: only the position moves."""

    def __init__(self, edges: Sequence[int], products: Sequence[_Product]) -> None:
        first = np.array([p.constants[0] for p in products]).reshape(-1, 7)
        last = np.array([p.constants[1] for p in products]).reshape(-1, 7)
        axis = np.eye(3)[[p.motions[0].axis for p in products]].reshape(-1, 3)
        sign = np.array([[p.motions[0].sign] for p in products]).reshape(-1, 1)
        self.rows = selection([p.motions[0].row for p in products])
        self.out = self.translating = selection(edges)
        self.rest = compose(first, last)
        self._direction = rotate(first[:, 3:], sign * axis)

    def write(self, joint_position: FloatArray, out: FloatArray) -> None:
        out[:3, self.out] = (self.rest[:, :3] + joint_position[self.rows][:, None] * self._direction).T


class _CompoundEdges:
    """Edges with several degrees of freedom: one pass per place in the sequence over all edges that are that long."""

    def __init__(self, edges: Sequence[int], products: Sequence[_Product]) -> None:
        self.out = self.translating = selection(edges)
        self.rest = np.array([p.constants[0] for p in products]).reshape(-1, 7)
        self._passes = []
        for place in range(max((len(p.motions) for p in products), default=0)):
            members = [i for i, p in enumerate(products) if len(p.motions) > place]
            motions = [products[i].motions[place] for i in members]
            after = np.array([products[i].constants[place + 1] for i in members])
            axis = np.eye(3)[[m.axis for m in motions]] * np.array([[m.sign] for m in motions])
            angular = np.array([m.angular for m in motions])
            rows = np.array([m.row for m in motions], dtype=np.intp)
            self._passes.append((selection(members), rows, axis, angular, after))

    def write(self, joint_position: FloatArray, out: FloatArray) -> None:
        pose = self.rest.copy()
        for members, rows, axis, angular, after in self._passes:
            value = joint_position[rows]
            rotation = axis_rotation(axis, np.where(angular, value, 0.0))
            motion = np.concatenate((axis * np.where(angular, 0.0, value)[:, None], rotation), axis=-1)
            pose[members] = compose(compose(pose[members], motion), after)
        out[:, self.out] = pose.T


class _Tree:
    """Which body hangs from which, and how to walk there in rounds: each doubles the stretch that is known.

    After round k a body's pose is relative to its 2^k-th ancestor, so a chain of a thousand bodies takes ten rounds
    of array operations instead of a thousand steps.
    """

    def __init__(self, count: int, parent: IndexArray) -> None:
        ancestor = parent.copy()
        self.rounds: list[tuple[IndexArray, IndexArray]] = []
        for _ in range(max(1, count).bit_length() + 1):
            rows = np.flatnonzero(ancestor >= 0)
            if not rows.size:
                return
            self.rounds.append((rows, ancestor[rows]))
            ancestor[rows] = ancestor[ancestor[rows]]
        raise ValueError("the plan's edges form a cycle")

    def resolve(self, pose: FloatArray) -> None:
        """Turns poses relative to the parent into poses relative to the world, in place."""
        for rows, ancestors in self.rounds:
            pose[rows] = compose(pose[ancestors], pose[rows])


class Link(NamedTuple):
    """How a body hangs from what carries it: `carrier_from_parent * parent_from_child`.

    Attributes:
        carrier: Body row, -1 for the world.
        edge: Row in `edge_poses` of the edge that ends in the body.
        carrier_from_parent: Where the edge starts in the carrier: 7 floats, None for its origin.
    """

    carrier: int
    edge: int
    carrier_from_parent: list[float] | None


class Kinematics:
    """Edges and bodies of all robots of a plan.

    Attributes:
        first_edge: First row in `edge_poses` of each robot's edges, by robot index.
        free_edges: Rows in `edge_poses` of edges that no joint position determines (distance joints).
        driven: (B,) bool, bodies whose pose follows from joint positions.
        body_robot: (B,) index of the robot that a body belongs to, -1 where it belongs to none.
        translates: (E,) bool, edges whose translation depends on joint positions.
    """

    def __init__(self, plan: BridgePlan) -> None:
        """Makes the index arrays.

        Args:
            plan: The plan; edges and their joints as planning orients them.

        Raises:
            ValueError: The plan's edges form a cycle, which planning rules out.
        """
        self.plan = plan
        self.first_edge = np.cumsum([0, *(len(robot.edges) for robot in plan.robots)])[:-1].tolist()
        self._edges = [(robot, edge) for robot in plan.robots for edge in robot.edges]
        self.free_edges = frozenset(
            row for row, (robot, edge) in enumerate(self._edges) if moves_freely(robot, edge)
        )
        rest, self._groups = self._compile_edges()
        # By component, (7, E): what a tick computes and copies are then a few long rows.
        self._components: FloatArray = np.ascontiguousarray(rest.T)
        self._out: FloatArray = self._components.T
        self.translates = np.zeros(len(self._edges), dtype=bool)
        for group in self._groups:
            self.translates[group.translating] = True
        self._compile_bodies()

    def edge_poses(self, joint_position: FloatArray) -> FloatArray:
        """Computes the pose of every edge of every robot.

        Args:
            joint_position: (D,) rad or m.

        Returns:
            (E, 7) `parent_from_child`, robots and their edges in the plan's order, at rest where the edge is free. The
            array is a view of one by component, `.T` is C-contiguous, and is overwritten by the next call.
        """
        for group in self._groups:
            group.write(joint_position, self._components)
        return self._out

    def body_poses(self, state: State, edge_poses: FloatArray | None = None) -> FloatArray:
        """Completes the poses of bodies that joints determine.

        Args:
            state: A state whose other rows of `body_pose` are measured.
            edge_poses: `edge_poses(state.joint_position)` where the caller has it already.

        Returns:
            (B, 7) `world_from_body`, a new array.
        """
        edges = self.edge_poses(state.joint_position) if edge_poses is None else edge_poses
        pose: FloatArray = state.body_pose.copy()
        local = edges[self._child_edges]
        if self._offset_rows.size:
            local[self._offset_rows] = compose(self._offsets, local[self._offset_rows])
        pose[self._child_rows] = local
        self._tree.resolve(pose)
        return pose

    def links(self) -> dict[int, Link]:
        """Returns what carries each driven body, by the body's row."""
        rows = np.arange(len(self.driven))[self._child_rows]
        offsets = dict(zip(self._offset_rows.tolist(), self._offsets.tolist(), strict=True))
        places = zip(
            rows.tolist(), self._parent[rows].tolist(), self._child_edges.tolist(), strict=True
        )  # fmt: skip
        return {
            row: Link(parent, edge, offsets.get(place)) for place, (row, parent, edge) in enumerate(places)
        }

    def _compile_edges(self) -> tuple[FloatArray, list[_AngularEdges | _LinearEdges | _CompoundEdges]]:
        products = [_product(robot, edge) for robot, edge in self._edges]
        rest = np.array([product.constants[0] for product in products]).reshape(-1, 7)
        angular = [i for i, p in enumerate(products) if len(p.motions) == 1 and p.motions[0].angular]
        linear = [i for i, p in enumerate(products) if len(p.motions) == 1 and not p.motions[0].angular]
        compound = [i for i, p in enumerate(products) if len(p.motions) > 1]
        groups: list[_AngularEdges | _LinearEdges | _CompoundEdges] = []
        for members, kind in ((angular, _AngularEdges), (linear, _LinearEdges), (compound, _CompoundEdges)):
            if members:
                group: _AngularEdges | _LinearEdges | _CompoundEdges = kind(
                    members, [products[i] for i in members]
                )
                rest[members] = group.rest
                groups.append(group)
        return rest, groups

    def _compile_bodies(self) -> None:
        layout = self.plan.layout
        parent = np.full(len(layout.bodies), -1, dtype=np.intp)
        self.driven = np.zeros(len(layout.bodies), dtype=bool)
        self.body_robot = np.full(len(layout.bodies), -1, dtype=np.intp)
        for index, robot in enumerate(self.plan.robots):
            self.body_robot[list(robot.bodies)] = index
        child_rows, child_edges, offsets = [], [], []
        for row, (robot, edge) in enumerate(self._edges):
            child = layout.body_index.get(edge.child_path, -1)
            if child < 0 or row in self.free_edges:
                continue
            parent[child], offset = self._carrier(robot, edge.parent_path)
            child_rows.append(child)
            child_edges.append(row)
            offsets.append(offset)
        self.driven[child_rows] = True
        self._child_rows: Selection = selection(child_rows)
        # An index array on purpose: it copies, and the copy is changed in place.
        self._child_edges = np.array(child_edges, dtype=np.intp)
        offset_poses = np.array(offsets).reshape(-1, 7)
        self._offset_rows = np.flatnonzero(np.any(offset_poses != IDENTITY, axis=-1))
        self._offsets = offset_poses[self._offset_rows]
        self._parent = parent
        self._tree = _Tree(len(layout.bodies), parent)

    def _carrier(self, robot: RobotPlan, path: str) -> tuple[int, FloatArray]:
        """Returns the body row that moves the prim at `path`, -1 for the world, and the prim in it."""
        row = self.plan.layout.body_index.get(path, -1)
        if row >= 0:
            return row, IDENTITY
        for frame in robot.frames:
            if frame.path == path:
                return frame.carrier, pose_array(frame.carrier_from_frame)
        return -1, IDENTITY

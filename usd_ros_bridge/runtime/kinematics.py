"""Forward kinematics of all robots of a plan at once: edges by kind of motion, then bodies; few numpy calls a tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan, EdgePlan, JointPlan, RobotPlan, carrier_of
from usd_ros_bridge.model.records import DofAxis
from usd_ros_bridge.model.state import State
from usd_ros_bridge.spatial.pose import IDENTITY_POSE
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    IndexArray,
    axis_rotation,
    compose,
    half_sine_and_cosine,
    inverse,
    pose_array,
    quaternion_multiply,
    rotate,
)

Selection = IndexArray | slice

_AXIS: dict[DofAxis, int] = {"transX": 0, "transY": 1, "transZ": 2, "rotX": 0, "rotY": 1, "rotZ": 2}
_W = 3
_ROUNDING = float(np.finfo(np.float64).eps)


def selection(rows: Sequence[int] | IndexArray) -> Selection:
    """Return `rows` as a slice where they are consecutive: numpy copies those without looking up indices."""
    index = np.asarray(rows, dtype=np.intp)
    if index.size and np.array_equal(index, np.arange(index[0], index[0] + index.size)):
        return slice(int(index[0]), int(index[0]) + index.size)
    return index


def moves_freely(robot: RobotPlan, edge: EdgePlan) -> bool:
    """Return whether no joint position determines the edge (a distance joint): its child comes from its own pose."""
    return not edge.rigid and not any(robot.joints[index].dofs for index in edge.joints)


class EdgeTurn(NamedTuple):
    """Rotation of an edge by one joint, by component: `rest * cos(angle / 2) + swung * sin(angle / 2)`.

    Attributes:
        dof: Row of the joint's position in the layout.
        rest: 4 floats. An aligned turn has (0, 0, 0, 1).
        swung: 4 floats. An aligned turn has one of the first three.
        aligned: Whether a component is the sine, or that times its factor, w the cosine, and the others zero.
    """

    dof: int
    rest: list[float]
    swung: list[float]
    aligned: bool


class EdgeGroup(Protocol):
    """Edges that are computed together."""

    def mark_varying(self, varying: NDArray[np.bool_]) -> None:
        """Set what joint positions change to True in (7, E): components by edge."""

    def write(self, joint_position: FloatArray) -> None:
        """Write the poses of the group's edges at joint positions (D,), rad or m."""


def group_edges(edges: Sequence[tuple[RobotPlan, EdgePlan]]) -> tuple[FloatArray, list[EdgeGroup]]:
    """Sort edges into groups that write into one array.

    Args:
        edges: Each with its robot, in the order of the array's columns.

    Returns:
        The array, by component (7, E): what a tick computes and copies are then a few long rows. Each column shows
        `parent_from_child` at rest. And the groups.
    """
    products = [_product(robot, edge) for robot, edge in edges]
    rest = np.array([product.constants[0] for product in products]).reshape(-1, 7)
    components: FloatArray = np.ascontiguousarray(rest.T)
    angular = [i for i, p in enumerate(products) if len(p.motions) == 1 and p.motions[0].angular]
    linear = [i for i, p in enumerate(products) if len(p.motions) == 1 and not p.motions[0].angular]
    compound = [i for i, p in enumerate(products) if len(p.motions) > 1]
    groups: list[EdgeGroup] = [
        kind(members, [products[i] for i in members], components)
        for members, kind in ((angular, _AngularEdges), (linear, _LinearEdges), (compound, _CompoundEdges))
        if members
    ]
    return components, groups


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
    """Spell an edge out as constants and motions, as EdgePlan and JointPlan define it."""
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


class _AngularEdges:
    """Edges with one rotation: each component of the pose is linear in the sine and cosine of the (half) angle."""

    def __init__(self, edges: Sequence[int], products: Sequence[_Product], components: FloatArray) -> None:
        first = np.array([p.constants[0] for p in products])
        last = np.array([p.constants[1] for p in products])
        axis = np.eye(3)[[p.motions[0].axis for p in products]]
        sign = np.array([[p.motions[0].sign] for p in products])
        pure = np.concatenate((sign * axis, np.zeros((len(products), 1))), axis=-1)
        self._rows = selection([p.motions[0].row for p in products])
        whole = quaternion_multiply(first[:, 3:], last[:, 3:])
        swung = quaternion_multiply(quaternion_multiply(first[:, 3:], pure), last[:, 3:])
        components[:3, edges] = (first[:, :3] + rotate(first[:, 3:], last[:, :3])).T
        components[3:, edges] = whole.T
        self._turn = _turns(edges, whole, swung, components)
        self._sine, self._cosine = np.empty(len(edges)), self._turn.cosine
        along = axis * np.sum(axis * last[:, :3], axis=-1, keepdims=True)
        radial = last[:, :3] - along
        # Edges whose child's joint frame lies in its origin, nearly all of a converted URDF, only rotate.
        lever = np.flatnonzero(np.any(radial != 0.0, axis=-1))
        self.translating = selection(np.asarray(edges, dtype=np.intp)[lever])
        start = first[lever]
        self._levers = _Levers(
            selection(lever),
            centre=start[:, :3] + rotate(start[:, 3:], along[lever]),
            cosine=rotate(start[:, 3:], radial[lever]),
            sine=rotate(start[:, 3:], sign[lever] * np.cross(axis[lever], last[lever, :3])),
        )
        self._out = components
        self._edges, self._constants = list(edges), (whole, swung)

    def turns(self) -> dict[int, EdgeTurn]:
        """Return the constants of the edges by their rows; none of an edge whose translation changes, too."""
        rows = np.arange(self._rows.stop)[self._rows] if isinstance(self._rows, slice) else self._rows
        translating = set(np.arange(self._out.shape[1])[self.translating].tolist())
        rest, swung = self._turn.factors(*self._constants)
        aligned = isinstance(self._turn, _AlignedTurns)
        each = zip(self._edges, rows.tolist(), rest.tolist(), swung.tolist(), strict=True)
        return {edge: EdgeTurn(row, r, s, aligned) for edge, row, r, s in each if edge not in translating}

    def mark_varying(self, varying: NDArray[np.bool_]) -> None:
        varying[:3, self.translating] = True
        self._turn.mark_varying(varying)

    def write(self, joint_position: FloatArray) -> None:
        sine, cosine = self._sine, self._cosine
        half_sine_and_cosine(joint_position[self._rows], sine, cosine)
        if self._levers.used:
            self._out[:3, self.translating] = self._levers.positions(sine, cosine)
        self._turn.write(sine)


class _Turns:
    """Rotations of edges: `rest * cos(angle / 2) + swung * sin(angle / 2)`, of quaternions.

    Attributes:
        cosine: (N,) where the cosines go before `write`.
    """

    def __init__(
        self, columns: Selection, rest: FloatArray, swung: FloatArray, components: FloatArray
    ) -> None:
        # By component, (4, N): numpy multiplies long rows far faster than many short ones.
        self._rest, self._swung = np.ascontiguousarray(rest.T), np.ascontiguousarray(swung.T)
        self._sum, self._part = np.empty_like(self._rest), np.empty_like(self._swung)
        self._columns = columns
        self._out = components[3:]
        self._view = self._out[:, columns] if isinstance(columns, slice) else None
        self.cosine: FloatArray = np.empty(len(rest))

    def factors(self, rest: FloatArray, swung: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors (N, 4) of the cosine and of the sine that `write` uses, from those of `_turns`."""
        return rest, swung

    def mark_varying(self, varying: NDArray[np.bool_]) -> None:
        varying[3:, self._columns] = True

    def write(self, sine: FloatArray) -> None:
        np.multiply(self._rest, self.cosine, self._sum)
        np.multiply(self._swung, sine, self._part)
        if self._view is not None:
            np.add(self._sum, self._part, self._view)
        else:
            self._out[:, self._columns] = np.add(self._sum, self._part, self._sum)


class _AlignedTurns:
    """Rotations about axes of the parent, from no rotation at zero: one component is a sine, w the cosine.

    The other two stay zero. A third of what `_Turns` costs.

    Attributes:
        cosine: (N,) where the cosines go before `write`.
    """

    def __init__(
        self, columns: Selection, axis: IndexArray, factor: FloatArray, components: FloatArray
    ) -> None:
        width = components.shape[1]
        places = np.arange(width)[columns]
        self._flat = components.reshape(-1)
        self._sines = (3 + axis) * width + places
        self._factor = None if np.all(factor == 1.0) else factor
        self._cosines = None if isinstance(columns, slice) else (3 + _W) * width + places
        self.cosine: FloatArray = components[3 + _W, columns]
        self._columns = columns

    def mark_varying(self, varying: NDArray[np.bool_]) -> None:
        varying.reshape(-1)[self._sines] = True
        varying[3 + _W, self._columns] = True

    def factors(self, rest: FloatArray, swung: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors (N, 4) of the cosine and of the sine: those of `_turns` without what rounding left."""
        return np.tile(IDENTITY[3:], (len(rest), 1)), np.where(np.abs(swung) > _ROUNDING, swung, 0.0)

    def write(self, sine: FloatArray) -> None:
        self._flat[self._sines] = sine if self._factor is None else np.multiply(sine, self._factor, sine)
        # Where the edges lie side by side, the cosines are in their places already.
        if self._cosines is not None:
            self._flat[self._cosines] = self.cosine


def _turns(
    edges: Sequence[int], rest: FloatArray, swung: FloatArray, components: FloatArray
) -> _Turns | _AlignedTurns:
    """Return what writes the rotations of edges, by what their quaternions (N, 4) at rest and at half a turn are."""
    columns = selection(edges)
    # What rounding leaves of joint frames that were turned there and back, as exporters author any axis but x.
    axes = np.where(np.abs(swung) > _ROUNDING, swung, 0.0)
    still = np.abs(rest - IDENTITY[3:]).max(axis=-1) <= _ROUNDING
    aligned = still & (np.count_nonzero(axes, axis=-1) == 1) & (axes[:, _W] == 0.0)
    if not aligned.all():
        return _Turns(columns, rest, swung, components)
    components[3:, columns] = IDENTITY[3:, None]
    axis = np.argmax(axes != 0.0, axis=-1)
    return _AlignedTurns(columns, axis, axes[np.arange(len(axis)), axis], components)


class _Levers:
    """Translations of edges whose child's origin turns about the axis: linear in the sine and cosine of the angle."""

    def __init__(
        self, members: Selection, *, centre: FloatArray, cosine: FloatArray, sine: FloatArray
    ) -> None:
        """Store the arguments.

        Args:
            members: Which of the sines and cosines.
            centre: (L, 3) metres.
            cosine: (L, 3) metres.
            sine: (L, 3) metres.
        """
        self.used = len(centre) > 0
        self._members = members
        self._centre, self._cosine, self._sine = (np.ascontiguousarray(c.T) for c in (centre, cosine, sine))

    def positions(self, half_sine: FloatArray, half_cosine: FloatArray) -> FloatArray:
        """Return (3, L) from the sines and cosines of the group's half angles."""
        s, c = half_sine[self._members], half_cosine[self._members]
        twice = s + s
        result: FloatArray = self._cosine * (1.0 - twice * s)
        result += self._sine * (twice * c)
        result += self._centre
        return result


class _LinearEdges:
    """Edges with one translation: only the position moves."""

    def __init__(self, edges: Sequence[int], products: Sequence[_Product], components: FloatArray) -> None:
        first = np.array([p.constants[0] for p in products])
        last = np.array([p.constants[1] for p in products])
        axis = np.eye(3)[[p.motions[0].axis for p in products]]
        sign = np.array([[p.motions[0].sign] for p in products])
        self._rows = selection([p.motions[0].row for p in products])
        self.translating = selection(edges)
        components[:, edges] = compose(first, last).T
        self._out = components
        self._start = components[:3, edges].copy()
        self._direction = np.ascontiguousarray(rotate(first[:, 3:], sign * axis).T)

    def mark_varying(self, varying: NDArray[np.bool_]) -> None:
        varying[:3, self.translating] = True

    def write(self, joint_position: FloatArray) -> None:
        self._out[:3, self.translating] = self._start + joint_position[self._rows] * self._direction


class _CompoundEdges:
    """Edges with several degrees of freedom: one pass per place in the sequence over all edges that are that long."""

    def __init__(self, edges: Sequence[int], products: Sequence[_Product], components: FloatArray) -> None:
        self.translating = selection(edges)
        self._out = components
        self._rest = np.array([p.constants[0] for p in products])
        self._passes = []
        for place in range(max(len(p.motions) for p in products)):
            members = [i for i, p in enumerate(products) if len(p.motions) > place]
            motions = [products[i].motions[place] for i in members]
            after = np.array([products[i].constants[place + 1] for i in members])
            axis = np.eye(3)[[m.axis for m in motions]] * np.array([[m.sign] for m in motions])
            angular = np.array([m.angular for m in motions])
            rows = np.array([m.row for m in motions], dtype=np.intp)
            self._passes.append((selection(members), rows, axis, angular, after))

    def mark_varying(self, varying: NDArray[np.bool_]) -> None:
        varying[:, self.translating] = True

    def write(self, joint_position: FloatArray) -> None:
        pose = self._rest.copy()
        for members, rows, axis, angular, after in self._passes:
            value = joint_position[rows]
            rotation = axis_rotation(axis, np.where(angular, value, 0.0))
            motion = np.concatenate((axis * np.where(angular, 0.0, value)[:, None], rotation), axis=-1)
            pose[members] = compose(compose(pose[members], motion), after)
        self._out[:, self.translating] = pose.T


class _Tree:
    """Tree of bodies, composed in rounds: each doubles the length of the known chains.

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
        """Turn poses relative to the parent into poses relative to the world, in place."""
        for rows, ancestors in self.rounds:
            pose[rows] = compose(pose[ancestors], pose[rows])


class Link(NamedTuple):
    """Pose of a body in the body that carries it: `carrier_from_parent * parent_from_child`.

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
        """Store the arguments.

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
        self._components, self._groups = group_edges(self._edges)
        self._out: FloatArray = self._components.T
        self._varying = np.zeros(self._components.shape, dtype=bool)
        for group in self._groups:
            group.mark_varying(self._varying)
        self.translates: NDArray[np.bool_] = np.logical_or.reduce(self._varying[:3], axis=0)
        self._compile_bodies()

    def edge_poses(self, joint_position: FloatArray) -> FloatArray:
        """Compute the pose of every edge of every robot.

        Args:
            joint_position: (D,) rad or m.

        Returns:
            (E, 7) `parent_from_child`, robots and their edges in the plan's order, at rest where the edge is free. The
            array is a view of one by component, `.T` is C-contiguous, and is overwritten by the next call.
        """
        for group in self._groups:
            group.write(joint_position)
        return self._out

    def turns(self) -> dict[int, EdgeTurn]:
        """Return the constants of all edges that one joint rotates and nothing else moves, by their rows."""
        return {
            edge: turn
            for group in self._groups
            if isinstance(group, _AngularEdges)
            for edge, turn in group.turns().items()
        }

    def body_poses(self, state: State, edge_poses: FloatArray | None = None) -> FloatArray:
        """Complete the poses of bodies that joints determine.

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

    def constants(self, edge: int) -> list[float | None]:
        """Return the 7 components of an edge's pose, None for those that joint positions change."""
        column: list[float] = self._components[:, edge].tolist()
        varying: list[bool] = self._varying[:, edge].tolist()
        return [None if varies else value for varies, value in zip(varying, column, strict=True)]

    def links(self) -> dict[int, Link]:
        """Return what carries each driven body, by the body's row."""
        rows = np.arange(len(self.driven))[self._child_rows]
        offsets = dict(zip(self._offset_rows.tolist(), self._offsets.tolist(), strict=True))
        places = zip(rows.tolist(), self._parent[rows].tolist(), self._child_edges.tolist(), strict=True)
        return {
            row: Link(parent, edge, offsets.get(place)) for place, (row, parent, edge) in enumerate(places)
        }

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
            parent[child], pose = carrier_of(layout, robot, edge.parent_path)
            offset = IDENTITY if pose is IDENTITY_POSE else pose_array(pose)
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

"""Forward kinematics of all robots of a plan at once: index arrays first, then a handful of numpy calls per tick."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, carrier_of
from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.joint_transforms import Selection, group_edges, moves_freely, selection
from usd_ros_bridge.spatial.pose import IDENTITY_POSE
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, IndexArray, compose, pose_array


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
        """Turn poses relative to the parent into poses relative to the world, in place."""
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
        self.translates = np.zeros(len(self._edges), dtype=bool)
        for group in self._groups:
            self.translates[group.translating] = True
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

"""The kinematics of all robots: their joints planned and measured together, and where their bodies rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.plan import DofPlan, JointType
from usd_ros_bridge.model.transforms import (
    FloatArray,
    compose,
    quaternion_conjugate,
    quaternion_multiply,
    relative,
)
from usd_ros_bridge.planning import joint_names
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.dofs import Motion
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.joints import Joint
from usd_ros_bridge.planning.rest import RestSolver
from usd_ros_bridge.planning.robot_dofs import (
    find_mimics,
    find_motions,
    hold_all_followers,
    joint_state_order,
    name_all_joints,
    name_context_dofs,
    number_dofs,
)
from usd_ros_bridge.planning.robot_tree import RobotTree, plan_robot_tree
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.planning.tree import Edge, assign_bodies, joints_by_robot

_AGREEMENT = 1e-4
"""Metres and radians by which authored poses may miss the joint frames without a remark."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Kinematics:
    """All robots, and what was computed for all their joints at once.

    Attributes:
        robots: In traversal order of their contexts.
        owners: Path of the robot's context by body.
        joint_rows: Row in the solver's arrays by joint path.
        kinds: Kind of each joint.
        motions: Degrees of freedom of each joint.
        solver: Joint frames and positions.
        dofs: Degrees of freedom of each joint, named and numbered.
        names: ROS name of each joint by path.
        local_names: Name of each joint of a nested context in the nearest one, by path.
        edge_offsets: Row of each robot's first edge in the arrays below.
        edge_rest: (E, 7) `parent_from_child` at rest.
        edge_zero: (E, 7) `parent_from_child` with every degree of freedom at zero.
        joint_state_rows: Degrees of freedom in the order of JointState, by robot.
        context_dofs: Path of each nested context to the names that its degrees of freedom have in it, by row.
    """

    robots: tuple[RobotTree, ...]
    owners: Mapping[str, str]
    joint_rows: Mapping[str, int]
    kinds: Sequence[JointType]
    motions: Sequence[tuple[Motion, ...]]
    solver: RestSolver
    dofs: Sequence[tuple[DofPlan, ...]]
    names: Mapping[str, str]
    local_names: Mapping[str, str]
    edge_offsets: Sequence[int]
    edge_rest: FloatArray
    edge_zero: FloatArray
    joint_state_rows: Sequence[tuple[int, ...]]
    context_dofs: Mapping[str, Mapping[int, str]]

    def joint_dofs(self, path: str) -> tuple[DofPlan, ...]:
        """Returns the degrees of freedom of a joint in the tree, none for any other path."""
        row = self.joint_rows.get(path)
        return () if row is None else self.dofs[row]

    def moves_freely(self, edge: Edge) -> bool:
        """Returns whether no joint position determines the child (a distance joint)."""
        return edge.joints[0].kind == "distance"

    def is_rigid(self, edge: Edge) -> bool:
        """Returns whether an edge has no freedom at all."""
        return not any(
            joint.kind == "distance" or self.motions[self.joint_rows[joint.path]] for joint in edge.joints
        )


def plan_kinematics(
    index: StageIndex,
    contexts: Contexts,
    joints: Sequence[Joint],
    options: PlanOptions,
    findings: Findings,
) -> Kinematics:
    """Builds the trees of all robots, then names and measures their joints."""
    owners = assign_bodies(joints, index.bodies, contexts.root_of)
    grouped = joints_by_robot(joints, owners, findings)
    authored = joint_names.authored_names(joints, findings)
    robots = tuple(
        plan_robot_tree(root, grouped.get(root, []), index, contexts, findings) for root in contexts.roots
    )
    flat = [joint for robot in robots for joint in robot.joints]
    joint_rows = {joint.path: row for row, joint in enumerate(flat)}
    kinds, motions = find_motions(flat, index, options, findings)
    hold_all_followers(robots, joint_rows, motions, index, options)
    anchors = [robot.anchor for robot in robots for _ in robot.joints]
    solver = RestSolver(flat, motions, anchors, index)
    edges = [edge for robot in robots for edge in robot.edges]
    rest, zero = solver.edge_poses(edges, joint_rows)
    place_free_edges(edges, [robot.anchor for robot in robots for _ in robot.edges], rest, zero, index)
    offsets = np.cumsum([0, *(len(robot.edges) for robot in robots)]).tolist()
    names, context_names, local_names = name_all_joints(robots, authored, index, contexts, options, findings)
    mimics = find_mimics(robots, joint_rows, motions, index, options, findings)
    dofs = number_dofs(robots, joint_rows, motions, solver, names, mimics)
    return Kinematics(
        robots=robots,
        owners=owners,
        joint_rows=joint_rows,
        kinds=kinds,
        motions=motions,
        solver=solver,
        dofs=dofs,
        names=names,
        local_names=local_names,
        edge_offsets=offsets,
        edge_rest=rest,
        edge_zero=zero,
        joint_state_rows=joint_state_order(robots, joint_rows, dofs, index),
        context_dofs=name_context_dofs(context_names, joint_rows, dofs),
    )


def place_free_edges(
    edges: Sequence[Edge], anchors: Sequence[str], rest: FloatArray, zero: FloatArray, index: StageIndex
) -> None:
    """Sets poses of distance joints' children: such a joint says nothing, the child is where it was authored."""
    free = [number for number, edge in enumerate(edges) if edge.joints[0].kind == "distance"]
    if free:
        poses = index.poses
        parents = [poses.row(edges[number].parent or anchors[number]) for number in free]
        children = [poses.row(edges[number].child) for number in free]
        rest[free] = relative(poses.world_from_prim[parents], poses.world_from_prim[children])
        zero[free] = rest[free]


# --- Bodies at rest ---------------------------------------------------------------------------------------------


def rest_body_poses(
    kinematics: Kinematics, rows: Mapping[str, int], index: StageIndex, findings: Findings
) -> FloatArray:
    """Returns `world_from_body` (B, 7) at rest: as authored, or as the joints have it where the two disagree.

    Args:
        kinematics: Trees and joint positions.
        rows: Row of each body by path, in order.
        index: The stage.
        findings: Takes authored poses that the joint frames do not meet.
    """
    robots = [(robot.anchor, robot.edges) for robot in kinematics.robots]
    return settle_bodies(robots, kinematics.edge_rest, rows, index, findings)


def settle_bodies(
    robots: Sequence[tuple[str, Sequence[Edge]]],
    edge_rest: FloatArray,
    rows: Mapping[str, int],
    index: StageIndex,
    findings: Findings,
) -> FloatArray:
    """Returns `world_from_body` (B, 7) at rest, of whatever joints connect.

    Args:
        robots: What stands for the world at the end of a joint (as RobotTree.anchor), and the edges, parents first.
        edge_rest: (E, 7) `parent_from_child` of all edges at rest.
        rows: Row of each body by path, in order.
        index: The stage.
        findings: Takes authored poses that the joint frames do not meet.
    """
    poses = index.poses
    result = poses.world_from_prim[poses.find_rows(rows)]
    edges = [(anchor, edge) for anchor, of_robot in robots for edge in of_robot]
    parents = poses.find_rows([edge.parent or anchor for anchor, edge in edges])
    children = poses.find_rows([edge.child for _, edge in edges])
    authored = relative(poses.world_from_prim[parents], poses.world_from_prim[children])
    misses = _distances(edge_rest, authored)
    usable = poses.usable[parents] & poses.usable[children]
    moved = (misses > _SAME) | ~usable
    if not moved.any():
        return result
    for number in np.flatnonzero((misses > _AGREEMENT) & usable).tolist():
        _report_miss(edges[number][1], float(misses[number]), findings)
    last = 0
    for anchor, of_robot in robots:
        first, last = last, last + len(of_robot)
        if (misses[first:last] > _AGREEMENT).any() or not usable[first:last].all():
            for edge_row, edge in zip(range(first, last), of_robot, strict=True):
                parent = (
                    result[rows[edge.parent]] if edge.parent else poses.world_from_prim[poses.row(anchor)]
                )
                result[rows[edge.child]] = compose(parent, edge_rest[edge_row])
    return result


def _distances(first: FloatArray, second: FloatArray) -> FloatArray:
    """The larger of metres and radians between poses (N, 7)."""
    turn = quaternion_multiply(quaternion_conjugate(first[:, 3:]), second[:, 3:])
    angle = 2.0 * np.arctan2(np.linalg.norm(turn[:, :3], axis=-1), np.abs(turn[:, 3]))
    result: FloatArray = np.maximum(np.linalg.norm(first[:, :3] - second[:, :3], axis=-1), angle)
    return result


def _report_miss(edge: Edge, miss: float, findings: Findings) -> None:
    joint = edge.joints[0]
    if any(
        name.startswith(("state:", "newton:")) and name.endswith(":position")
        for each in edge.joints
        for name in each.record.solver_attributes
    ):
        findings.info(
            "1.3.pose",
            joint.path,
            f"the authored joint position moves {edge.child} by {miss:.3g} (m or rad) from its authored pose",
        )
        return
    findings.warning(
        "1.3.pose",
        joint.path,
        f"the joint frames miss the authored pose of {edge.child} by {miss:.3g} (m or rad); the joint frames win",
        "author body poses and joint frames that agree",
    )

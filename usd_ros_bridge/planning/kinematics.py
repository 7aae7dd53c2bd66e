"""Robots as trees of joints: which joints each has, their names, rows, frames and positions at rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.plan import DofPlan, JointType, MimicPlan
from usd_ros_bridge.model.transforms import (
    FloatArray,
    compose,
    quaternion_conjugate,
    quaternion_multiply,
    relative,
)
from usd_ros_bridge.planning import joint_names
from usd_ros_bridge.planning.contexts import Context, Contexts
from usd_ros_bridge.planning.dofs import Motion, joint_motions
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.joints import Joint
from usd_ros_bridge.planning.mimic import resolve_mimics
from usd_ros_bridge.planning.rest import RestSolver, lengths
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.planning.tree import Edge, Tree, assign_bodies, joints_by_robot, span

_AGREEMENT = 1e-4
"""Metres and radians by which authored poses may miss the joint frames without a remark."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class RobotTree:
    """The joints and bodies of one robot.

    Attributes:
        context: The outermost context.
        trees: The anchored tree first, then floating ones.
        edges: Edges of all trees, parents first.
        joints: Joints of all edges, in traversal order.
        bodies: Bodies of all trees.
        anchor: Prim that stands for the world at the end of a joint: the context, or "" (the world itself) where the
            context prim is a body or moves.
    """

    context: Context
    trees: tuple[Tree, ...]
    edges: tuple[Edge, ...]
    joints: tuple[Joint, ...]
    bodies: tuple[str, ...]
    anchor: str


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
        edge_offsets: Row of each robot's first edge in the arrays below.
        edge_rest: (E, 7) `parent_from_child` at rest.
        edge_zero: (E, 7) `parent_from_child` with every degree of freedom at zero.
        joint_state_rows: Degrees of freedom in the order of JointState, by robot.
    """

    robots: tuple[RobotTree, ...]
    owners: Mapping[str, str]
    joint_rows: Mapping[str, int]
    kinds: Sequence[JointType]
    motions: Sequence[tuple[Motion, ...]]
    solver: RestSolver
    dofs: Sequence[tuple[DofPlan, ...]]
    names: Mapping[str, str]
    edge_offsets: Sequence[int]
    edge_rest: FloatArray
    edge_zero: FloatArray
    joint_state_rows: Sequence[tuple[int, ...]]

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
        _robot_tree(root, grouped.get(root, []), authored, index, contexts, findings)
        for root in contexts.roots
    )
    flat = [joint for robot in robots for joint in robot.joints]
    joint_rows = {joint.path: row for row, joint in enumerate(flat)}
    kinds, motions = _motions(flat, index, options, findings)
    anchors = [robot.anchor for robot in robots for _ in robot.joints]
    solver = RestSolver(flat, motions, anchors, index)
    edges = [edge for robot in robots for edge in robot.edges]
    rest, zero = solver.edge_poses(edges, joint_rows)
    place_free_edges(edges, [robot.anchor for robot in robots for _ in robot.edges], rest, zero, index)
    offsets = np.cumsum([0, *(len(robot.edges) for robot in robots)]).tolist()
    names = _names(robots, authored, index, contexts, options, findings)
    mimics = _mimics(robots, joint_rows, motions, index, options, findings)
    dofs = _dofs(robots, joint_rows, motions, solver, names, mimics)
    return Kinematics(
        robots=robots,
        owners=owners,
        joint_rows=joint_rows,
        kinds=kinds,
        motions=motions,
        solver=solver,
        dofs=dofs,
        names=names,
        edge_offsets=offsets,
        edge_rest=rest,
        edge_zero=zero,
        joint_state_rows=_joint_state_order(robots, joint_rows, dofs, index),
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


def _robot_tree(
    root: str,
    joints: Sequence[Joint],
    authored: Mapping[str, str],
    index: StageIndex,
    contexts: Contexts,
    findings: Findings,
) -> RobotTree:
    moves = root in index.bodies or bool(index.carrier_at(root)) or not index.poses.is_usable(root)
    trees = span(
        joint_names.drop_equal_names(joints, authored, findings),
        order=index.order,
        preferred_root=root,
        articulation_roots=index.articulation_roots,
        findings=findings,
    )
    edges = tuple(edge for tree in trees for edge in tree.edges)
    kept = [joint for edge in edges for joint in edge.joints]
    return RobotTree(
        context=contexts.by_path[root],
        trees=tuple(trees),
        edges=edges,
        joints=tuple(sorted(kept, key=lambda joint: index.order(joint.path))),
        bodies=tuple(body for tree in trees for body in tree.bodies),
        anchor="" if moves else root,
    )


def _motions(
    joints: Sequence[Joint], index: StageIndex, options: PlanOptions, findings: Findings
) -> tuple[list[JointType], list[tuple[Motion, ...]]]:
    """Returns the kind and the degrees of freedom of each joint; equal joints of equal robots are looked at once."""
    kinds, motions = [], []
    known: dict[tuple[int, ...], tuple[JointType, tuple[Motion, ...]]] = {}
    for joint, length in zip(joints, lengths(joints, index).tolist(), strict=True):
        key = (joint.record.specs, *length)
        same = known.get(key)
        if same is not None:
            kinds.append(same[0])
            motions.append(same[1])
            continue
        before = len(findings)
        kind, of_joint = joint_motions(
            joint.record,
            joint.kind,
            length=length,
            solvers=options.schema_resolvers,
            units=index.units,
            findings=findings,
        )
        if joint.record.specs and len(findings) == before:
            known[key] = kind, of_joint
        kinds.append(kind)
        motions.append(of_joint)
    return kinds, motions


def _names(
    robots: Sequence[RobotTree],
    authored: Mapping[str, str],
    index: StageIndex,
    contexts: Contexts,
    options: PlanOptions,
    findings: Findings,
) -> dict[str, str]:
    overrides = {r.path: r.name_override for r in index.records.isaac_joints if r.name_override}
    result: dict[str, str] = {}
    for robot in robots:
        isaac = overrides if options.isaac_names or robot.context.path in contexts.without_ros else {}
        result.update(joint_names.name_joints(robot.joints, authored, isaac, findings))
    return result


def _mimics(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: Sequence[tuple[Motion, ...]],
    index: StageIndex,
    options: PlanOptions,
    findings: Findings,
) -> dict[int, MimicPlan]:
    result: dict[int, MimicPlan] = {}
    first = 0
    for robot in robots:
        of_robot = {joint.path: motions[joint_rows[joint.path]] for joint in robot.joints}
        rows = {}
        for path, of_joint in of_robot.items():
            rows[path] = first
            first += len(of_joint)
        result.update(
            resolve_mimics(
                robot.joints,
                of_robot,
                rows,
                solvers=options.schema_resolvers,
                units=index.units,
                findings=findings,
            )
        )
    return result


def _dofs(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: Sequence[tuple[Motion, ...]],
    solver: RestSolver,
    names: Mapping[str, str],
    mimics: Mapping[int, MimicPlan],
) -> list[tuple[DofPlan, ...]]:
    result: list[tuple[DofPlan, ...]] = [()] * len(joint_rows)
    row = 0
    for robot in robots:
        taken = {names[joint.path] for joint in robot.joints}
        for joint in robot.joints:
            number = joint_rows[joint.path]
            of_joint = motions[number]
            if not of_joint:
                continue
            plans = []
            dof_names = joint_names.dof_names(names[joint.path], [m.axis for m in of_joint], taken)
            for name, motion, position in zip(dof_names, of_joint, solver.positions[number], strict=True):
                plans.append(
                    DofPlan(
                        name=name,
                        row=row,
                        axis=motion.axis,
                        position=position,
                        lower=motion.lower,
                        upper=motion.upper,
                        max_velocity=motion.max_velocity,
                        max_effort=motion.max_effort,
                        mimic=mimics.get(row),
                    )
                )
                row += 1
            result[number] = tuple(plans)
    return result


def _joint_state_order(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    dofs: Sequence[tuple[DofPlan, ...]],
    index: StageIndex,
) -> list[tuple[int, ...]]:
    result = []
    records = index.records
    for robot in robots:
        of_robot = [(joint, dofs[joint_rows[joint.path]]) for joint in robot.joints]
        rows = [dof.row for _, of_joint in of_robot for dof in of_joint]
        isaac = None
        if records.isaac_robots or records.isaac_joints:
            isaac = joint_names.isaac_order(robot.context.path, records.isaac_robots, records.isaac_joints)
        if isaac is not None:
            keys = {
                dof.row: isaac.sort_key(joint.record, dof.axis, place, number)
                for place, (joint, of_joint) in enumerate(of_robot)
                for number, dof in enumerate(of_joint)
            }
            rows.sort(key=keys.__getitem__)
        result.append(tuple(rows))
    return result


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

"""Kinematic model: all joints of a stage, planned and measured once, for /tf, URDF and physics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.model.diagnostics import Diagnostic, DiagnosticCollector
from usd_ros_bridge.model.plan import DofPlan, MimicPlan
from usd_ros_bridge.model.records import JointType
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.contexts import Context, Contexts
from usd_ros_bridge.planning.kinematics import joint_names
from usd_ros_bridge.planning.kinematics.dialects import KINEMATIC, report_dialects, report_extended
from usd_ros_bridge.planning.kinematics.dofs import FreeAxis, joint_motions
from usd_ros_bridge.planning.kinematics.gears import GearRule, plan_gears
from usd_ros_bridge.planning.kinematics.joint_graph import (
    ActingJoints,
    Attachment,
    Edge,
    RobotTree,
    Tree,
    TreeJoint,
    assign_bodies,
    find_acting_joints,
    joints_by_robot,
    plan_robot_tree,
)
from usd_ros_bridge.planning.kinematics.mimic import hold_followers, resolve_mimics
from usd_ros_bridge.planning.kinematics.rest_pose import RestSolver
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.spatial.transforms import FloatArray, compose, quaternion_conjugate, quaternion_multiply

_AGREEMENT = 1e-4
"""Metres and radians by which authored poses may miss the joint frames without a remark."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class KinematicModel:
    """All joints of a stage, planned and measured together.

    Rows of sequences and arrays are joints: those of the robots' trees, then, if the stage was read with physics, those
    that act but are left out of /tf.

    Attributes:
        robots: In traversal order of their contexts.
        owners: Path of the robot's context by body.
        joints: All joints.
        joint_rows: Row of each joint that is in a robot's tree, by path. A joint that is not here is left out of /tf.
        kinds: Kind of each joint.
        motions: Degrees of freedom of each joint.
        free_joints: Paths of joints with degrees of freedom, or whose child moves freely.
        solver: Joint frames and positions.
        dofs: Degrees of freedom of each joint, named and numbered; those left out of /tf have no name, and their
            numbers follow those of the layout.
        names: ROS name of each joint by path.
        local_names: Name of each joint of a nested context in the nearest one, by path.
        edge_offsets: Row of each robot's first edge in the arrays below.
        edge_rest: (E, 7) `parent_from_child` at rest.
        edge_zero: (E, 7) `parent_from_child` with every degree of freedom at zero.
        joint_state_rows: Degrees of freedom in the order of JointState, by robot.
        context_dofs: Path of each nested context to the names that its degrees of freedom have in it, by row.
        attachments: Parent of each body and the joints in between, if the stage was read with physics.
        prop_poses: (7,) `world_from_body` at rest by path, of bodies outside robots that joints connect.
        left_out: What is wrong with joints that are left out of /tf.
    """

    robots: tuple[RobotTree, ...]
    owners: Mapping[str, str]
    joints: tuple[TreeJoint, ...]
    joint_rows: Mapping[str, int]
    kinds: Sequence[JointType]
    motions: Sequence[tuple[FreeAxis, ...]]
    free_joints: frozenset[str]
    solver: RestSolver
    dofs: Sequence[tuple[DofPlan, ...]]
    names: Mapping[str, str]
    local_names: Mapping[str, str]
    edge_offsets: Sequence[int]
    edge_rest: FloatArray
    edge_zero: FloatArray
    joint_state_rows: Sequence[tuple[int, ...]]
    context_dofs: Mapping[str, Mapping[int, str]]
    attachments: Mapping[str, Attachment]
    prop_poses: Mapping[str, FloatArray]
    left_out: tuple[Diagnostic, ...]

    def joint_dofs(self, path: str) -> tuple[DofPlan, ...]:
        """Return the degrees of freedom of a joint in the tree, none for any other path."""
        row = self.joint_rows.get(path)
        return () if row is None else self.dofs[row]

    def moves_freely(self, edge: Edge) -> bool:
        """Return whether no joint position determines the child (a distance joint)."""
        return edge.joints[0].kind == "distance"

    def is_rigid(self, edge: Edge) -> bool:
        """Return whether an edge has no freedom at all."""
        if len(edge.joints) == 1:
            return edge.joints[0].path not in self.free_joints
        return self.free_joints.isdisjoint([joint.path for joint in edge.joints])


def plan_kinematics(
    index: StageIndex,
    contexts: Contexts,
    joints: Sequence[TreeJoint],
    options: PlanOptions,
    findings: DiagnosticCollector,
) -> KinematicModel:
    """Build the trees of all robots, and, where physics was read, of everything else; name and measure the joints."""
    owners = assign_bodies(joints, index.bodies, contexts.root_of)
    grouped = joints_by_robot(joints, owners, findings)
    authored = joint_names.authored_names(joints, findings)
    robots = tuple(
        plan_robot_tree(root, grouped.get(root, []), index, contexts, findings) for root in contexts.roots
    )
    of_robots = [joint for robot in robots for joint in robot.joints]
    joint_rows = {joint.path: row for row, joint in enumerate(of_robots)}
    left_out, acting = DiagnosticCollector(), ActingJoints()
    if index.records.physics is not None:
        acting = find_acting_joints(joints, robots, owners, index, left_out)
    flat = (*of_robots, *acting.joints)
    rows = {joint.path: row for row, joint in enumerate(flat)} if acting.joints else joint_rows

    kinds, motions = find_motions(of_robots, index, options, findings)
    hold_all_followers(robots, joint_rows, motions, index, options)
    other_kinds, other_motions = find_motions(acting.joints, index, options, left_out)
    kinds += other_kinds
    motions += other_motions

    anchors = [robot.anchor for robot in robots for _ in robot.joints]
    solver = RestSolver(flat, motions, [*anchors, *([""] * len(acting.joints))], index)
    edges = [edge for robot in robots for edge in robot.edges]
    bases = [robot.anchor for robot in robots for _ in robot.edges]
    prop_edges = [edge for tree in acting.trees for edge in tree.edges]
    rest, zero = solver.edge_poses([*edges, *prop_edges], rows)
    place_free_edges([*edges, *prop_edges], [*bases, *([""] * len(prop_edges))], rest, zero, index)

    offsets = np.cumsum([0, *(len(robot.edges) for robot in robots)]).tolist()
    names, context_names, local_names = name_all_joints(robots, authored, index, contexts, options, findings)
    gears = plan_gears(flat, motions, solver, index, findings)
    mimics = find_mimics(robots, joint_rows, motions, index, options, findings, gears)
    dofs = number_dofs(robots, joint_rows, motions, solver, names, mimics)
    prop_poses = _prop_poses(acting.trees, rest[len(edges) :], index, left_out)
    dofs += _other_dofs(acting.joints, other_motions, solver, dofs, index, options, left_out, gears)
    _report_vendors(flat, motions, index, options, findings)
    return KinematicModel(
        robots=robots,
        owners=owners,
        joints=flat,
        joint_rows=joint_rows,
        kinds=kinds,
        motions=motions,
        free_joints=frozenset(
            joint.path
            for joint, of_joint in zip(flat, motions, strict=True)
            if of_joint or joint.kind == "distance"
        ),
        solver=solver,
        dofs=dofs,
        names=names,
        local_names=local_names,
        edge_offsets=offsets,
        edge_rest=rest[: len(edges)],
        edge_zero=zero[: len(edges)],
        joint_state_rows=joint_state_order(robots, joint_rows, dofs, index),
        context_dofs=name_context_dofs(context_names, joint_rows, dofs),
        attachments=acting.attachments,
        prop_poses=prop_poses,
        left_out=left_out.all(),
    )


def _report_vendors(
    joints: Sequence[TreeJoint],
    motions: Sequence[tuple[FreeAxis, ...]],
    index: StageIndex,
    options: PlanOptions,
    findings: DiagnosticCollector,
) -> None:
    """Report what vendors' layers say of the joints' motion and is not used."""
    solvers = options.schema_resolvers
    report_dialects(
        (
            (joint.record, [motion.axis for motion in of_joint])
            for joint, of_joint in zip(joints, motions, strict=True)
        ),
        KINEMATIC,
        solvers=solvers,
        units=index.units,
        findings=findings,
    )
    report_extended((joint.record for joint in joints), solvers=solvers, findings=findings)


def place_free_edges(
    edges: Sequence[Edge], anchors: Sequence[str], rest: FloatArray, zero: FloatArray, index: StageIndex
) -> None:
    """Set poses of distance joints' children: such a joint says nothing, the child is where it was authored."""
    free = [number for number, edge in enumerate(edges) if edge.joints[0].kind == "distance"]
    if free:
        poses = index.poses
        parents = poses.find_rows([edges[number].parent or anchors[number] for number in free])
        children = poses.find_rows([edges[number].child for number in free])
        rest[free] = poses.relative(parents, children)
        zero[free] = rest[free]


# --- Bodies at rest ---------------------------------------------------------------------------------------------


def rest_body_poses(
    kinematics: KinematicModel, rows: Mapping[str, int], index: StageIndex, findings: DiagnosticCollector
) -> FloatArray:
    """Return `world_from_body` (B, 7) at rest: as authored, or as the joints have it where the two disagree.

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
    findings: DiagnosticCollector,
) -> FloatArray:
    """Return `world_from_body` (B, 7) at rest, of whatever joints connect.

    Args:
        robots: What stands for the world at the end of a joint (as RobotTree.anchor), and the edges, parents first.
        edge_rest: (E, 7) `parent_from_child` of all edges at rest.
        rows: Row of each body by path, in order.
        index: The stage.
        findings: Takes authored poses that the joint frames do not meet.
    """
    poses = index.poses
    result = poses.world_from_prim[poses.find_rows(rows)]
    edges = [edge for _, of_robot in robots for edge in of_robot]
    parents = poses.find_rows([edge.parent or anchor for anchor, of_robot in robots for edge in of_robot])
    children = poses.find_rows([edge.child for edge in edges])
    authored = poses.relative(parents, children)
    misses = _distances(edge_rest, authored)
    usable = poses.usable[parents] & poses.usable[children]
    moved = (misses > _SAME) | ~usable
    if not moved.any():
        return result
    for number in np.flatnonzero((misses > _AGREEMENT) & usable).tolist():
        _report_miss(edges[number], float(misses[number]), findings)
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
    """Return the larger of metres and radians between poses (N, 7)."""
    turn = quaternion_multiply(quaternion_conjugate(first[:, 3:]), second[:, 3:])
    angle = 2.0 * np.arctan2(np.linalg.norm(turn[:, :3], axis=-1), np.abs(turn[:, 3]))
    result: FloatArray = np.maximum(np.linalg.norm(first[:, :3] - second[:, :3], axis=-1), angle)
    return result


def _report_miss(edge: Edge, miss: float, findings: DiagnosticCollector) -> None:
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


def _prop_poses(
    trees: Sequence[Tree], edge_rest: FloatArray, index: StageIndex, findings: DiagnosticCollector
) -> dict[str, FloatArray]:
    """Return where the bodies of trees outside robots are at rest."""
    bodies = index.sort({body for tree in trees for body in tree.bodies})
    rows = {body: row for row, body in enumerate(bodies)}
    if not rows:
        return {}
    poses = settle_bodies([("", tree.edges) for tree in trees], edge_rest, rows, index, findings)
    return dict(zip(bodies, poses, strict=True))


# --- Degrees of freedom -------------------------------------------------------------------------------------------


def find_motions(
    joints: Sequence[TreeJoint],
    index: StageIndex,
    options: PlanOptions,
    findings: DiagnosticCollector,
) -> tuple[list[JointType], list[tuple[FreeAxis, ...]]]:
    """Return the kind and the degrees of freedom of each joint; equal joints of equal robots are planned once."""
    kinds, motions = [], []
    known: dict[tuple[int, JointType], tuple[JointType, tuple[FreeAxis, ...]]] = {}
    for joint in joints:
        key = (joint.record.specs, joint.kind)
        same = known.get(key)
        if same is not None:
            kinds.append(same[0])
            motions.append(same[1])
            continue
        before = len(findings)
        kind, of_joint = joint_motions(
            joint.record,
            joint.kind,
            solvers=options.schema_resolvers,
            units=index.units,
            findings=findings,
        )
        if joint.record.specs and len(findings) == before:
            known[key] = kind, of_joint
        kinds.append(kind)
        motions.append(of_joint)
    return kinds, motions


def hold_all_followers(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: list[tuple[FreeAxis, ...]],
    index: StageIndex,
    options: PlanOptions,
) -> None:
    """Lock the degrees of freedom that mimic a fixed joint, in place: they stay at the rule's offset."""
    for robot in robots:
        held = hold_followers(
            robot.joints,
            {joint.path: motions[joint_rows[joint.path]] for joint in robot.joints},
            solvers=options.schema_resolvers,
            units=index.units,
        )
        for path, of_joint in held.items():
            motions[joint_rows[path]] = of_joint


def name_all_joints(
    robots: Sequence[RobotTree],
    authored: Mapping[str, str],
    index: StageIndex,
    contexts: Contexts,
    options: PlanOptions,
    findings: DiagnosticCollector,
) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, str]]:
    """Name the joints of all robots.

    Returns:
        The ROS name of each joint by path, unique in its robot; the same for each nested context by path; and the name
        that each joint in a nested context has in the nearest one, by path.
    """
    overrides = {r.path: r.name_override for r in index.records.isaac_joints if r.name_override}
    result: dict[str, str] = {}
    in_contexts: dict[str, dict[str, str]] = {}
    nearest: dict[str, str] = {}
    for robot in robots:
        isaac = overrides if options.isaac_names or robot.context.path in contexts.without_ros else {}
        around = _contexts_of_joints(robot, contexts)
        result.update(joint_names.name_joints(robot.joints, authored, isaac, around, findings))
        nested = {context.path for found in around.values() for context in found}
        for path in sorted(nested):
            own = [joint for joint in robot.joints if any(each.path == path for each in around[joint.path])]
            inner = {
                j.path: [each for each in around[j.path] if each.path.startswith(path + "/")] for j in own
            }
            # What is wrong with their names was found for the whole robot.
            in_contexts[path] = joint_names.name_joints(own, authored, isaac, inner, DiagnosticCollector())
        nearest.update({path: in_contexts[found[0].path][path] for path, found in around.items() if found})
    return result, in_contexts, nearest


def _contexts_of_joints(robot: RobotTree, contexts: Contexts) -> dict[str, list[Context]]:
    """Return the nested contexts that each joint is in, nearest first: by its own prim, else by the body it moves."""
    if not contexts.has_nested(robot.context.path):
        return {}
    children = {joint.path: edge.child for edge in robot.edges for joint in edge.joints}
    return {
        joint.path: list(
            dict.fromkeys([*contexts.nested(joint.path), *contexts.nested(children[joint.path])])
        )
        for joint in robot.joints
    }


def name_context_dofs(
    context_names: Mapping[str, Mapping[str, str]],
    joint_rows: Mapping[str, int],
    dofs: Sequence[tuple[DofPlan, ...]],
) -> dict[str, dict[int, str]]:
    """Return for each nested context by path the names of its degrees of freedom by row.

    Args:
        context_names: Names of each context's joints by path.
        joint_rows: Row in `dofs` by joint path.
        dofs: Degrees of freedom of each joint.
    """
    result: dict[str, dict[int, str]] = {}
    for context, names in context_names.items():
        taken = set(names.values())
        of_context = result[context] = {}
        for path, name in names.items():
            of_joint = dofs[joint_rows[path]]
            own = joint_names.dof_names(name, [dof.axis for dof in of_joint], taken)
            of_context.update(zip((dof.row for dof in of_joint), own, strict=True))
    return result


def find_mimics(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: Sequence[tuple[FreeAxis, ...]],
    index: StageIndex,
    options: PlanOptions,
    findings: DiagnosticCollector,
    gears: Sequence[GearRule] = (),
) -> dict[int, MimicPlan]:
    """Return what each degree of freedom that mimics another follows, by row."""
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
                gears=gears,
            )
        )
    return result


def number_dofs(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    motions: Sequence[tuple[FreeAxis, ...]],
    solver: RestSolver,
    names: Mapping[str, str],
    mimics: Mapping[int, MimicPlan],
) -> list[tuple[DofPlan, ...]]:
    """Return the degrees of freedom of each joint, in the order of `joint_rows`; robot by robot they get rows."""
    result: list[tuple[DofPlan, ...]] = [()] * len(joint_rows)
    row = 0
    for robot in robots:
        taken = {names[joint.path] for joint in robot.joints}
        for joint in robot.joints:
            number = joint_rows[joint.path]
            of_joint = motions[number]
            if not of_joint:
                continue
            dof_names = joint_names.dof_names(names[joint.path], [m.axis for m in of_joint], taken)
            result[number] = _dof_plans(dof_names, row, of_joint, solver.positions[number], mimics)
            row += len(of_joint)
    return result


def _dof_plans(
    names: Sequence[str],
    first_row: int,
    motions: Sequence[FreeAxis],
    positions: Sequence[float],
    mimics: Mapping[int, MimicPlan],
) -> tuple[DofPlan, ...]:
    return tuple(
        [
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
            for row, (name, motion, position) in enumerate(
                zip(names, motions, positions, strict=True), start=first_row
            )
        ]
    )


def _other_dofs(
    joints: Sequence[TreeJoint],
    motions: Sequence[tuple[FreeAxis, ...]],
    solver: RestSolver,
    planned: Sequence[tuple[DofPlan, ...]],
    index: StageIndex,
    options: PlanOptions,
    findings: DiagnosticCollector,
    gears: Sequence[GearRule] = (),
) -> list[tuple[DofPlan, ...]]:
    """Return the degrees of freedom of joints that are left out of /tf; `planned` are those of the others."""
    if not joints:
        return []
    first = sum(map(len, planned))
    rows = {}
    for joint, of_joint in zip(joints, motions, strict=True):
        rows[joint.path] = first
        first += len(of_joint)
    mimics = resolve_mimics(
        joints,
        {joint.path: of_joint for joint, of_joint in zip(joints, motions, strict=True)},
        rows,
        solvers=options.schema_resolvers,
        units=index.units,
        findings=findings,
        gears=gears,
    )
    return [
        _dof_plans([""] * len(of_joint), rows[joint.path], of_joint, positions, mimics)
        for joint, of_joint, positions in zip(joints, motions, solver.positions[len(planned) :], strict=True)
    ]


def joint_state_order(
    robots: Sequence[RobotTree],
    joint_rows: Mapping[str, int],
    dofs: Sequence[tuple[DofPlan, ...]],
    index: StageIndex,
) -> list[tuple[int, ...]]:
    """Return each robot's degrees of freedom, by row, in the order in which JointState names them."""
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

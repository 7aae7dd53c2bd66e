"""Which body hangs from which: the plan's trees, those of props, and what the joints that are left over do.

UsdPhysics joints act wherever they are. What the plan has no use for (doors, joints between two robots, joints that
close loops) is found and measured here by the functions that the plan's own trees are made by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.plan import BridgePlan, JointPlan, JointType
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.planning.dofs import Motion, joint_motions
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.joints import Joint, read_joints, repeats
from usd_ros_bridge.planning.kinematics import place_free_edges, settle_bodies
from usd_ros_bridge.planning.rest import RestSolver, lengths
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.planning.tree import Edge, span

MOST_COMPARED = 16
"""Joints between the same two bodies that another one may repeat: comparing thousands with each other takes hours."""


@dataclass(frozen=True, slots=True)
class Hang:
    """What a body hangs by.

    Attributes:
        parent: Prim path of the parent body, "" for the world.
        joints: Prim paths of the joints between the two, in the order in which they act.
    """

    parent: str
    joints: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unplanned:
    """Joints that the plan has no use for, measured.

    Attributes:
        rows: Row in the sequences below, by joint path.
        kinds: Kind of each.
        motions: Degrees of freedom of each.
        solver: Joint frames and positions; the world stands for itself.
    """

    rows: Mapping[str, int]
    kinds: Sequence[JointType]
    motions: Sequence[tuple[Motion, ...]]
    solver: RestSolver


@dataclass(slots=True, eq=False)
class Forest:
    """All joints that act, and what hangs by them.

    Attributes:
        joints: In traversal order.
        planned: The plan's joints by path.
        hangs: What each body hangs by; a body that is not here is free, or held by loops alone.
        unplanned: The joints that are not the plan's.
        world_from_body: (7,) poses at rest of the bodies of props' trees.
    """

    joints: list[Joint] = field(default_factory=list)
    planned: dict[str, JointPlan] = field(default_factory=dict)
    hangs: dict[str, Hang] = field(default_factory=dict)
    unplanned: Unplanned | None = None
    world_from_body: dict[str, FloatArray] = field(default_factory=dict)


def plan_forest(index: StageIndex, plan: BridgePlan, options: PlanOptions, findings: Findings) -> Forest:
    """Returns all joints of the stage and the trees that they span.

    Args:
        index: The stage.
        plan: Its plan.
        options: The caller's decisions.
        findings: Takes what is wrong with joints that the plan has not looked at.
    """
    forest = Forest(planned={joint.path: joint for robot in plan.robots for joint in robot.joints})
    robot_bodies = _hang_robots(forest, plan, index)
    # What is wrong with these stands in the plan's diagnostics.
    valid = read_joints(index, Findings())
    loops = read_joints(index, findings, excluded=True)
    left_over = [joint for joint in valid if joint.path not in forest.planned]
    props = [joint for joint in left_over if robot_bodies.isdisjoint((joint.body0, joint.body1))]
    trees = span(
        props,
        order=index.order,
        preferred_root="",
        articulation_roots=index.articulation_roots,
        findings=findings,
    )
    edges = [edge for tree in trees for edge in tree.edges]
    in_props = {joint.path for edge in edges for joint in edge.joints}
    _hang(forest, edges, index)
    acting = [joint for joint in valid if joint.path in forest.planned]
    acting += [joint for joint in props if joint.path in in_props]
    others = _attach([joint for joint in left_over if joint.path not in in_props], acting, forest, index)
    forest.joints = sorted((*acting, *others, *loops), key=lambda joint: index.order(joint.path))
    forest.unplanned = _measure(
        [j for j in forest.joints if j.path not in forest.planned], index, options, findings
    )
    _settle(forest, [tree.edges for tree in trees], index, findings)
    return forest


def _hang_robots(forest: Forest, plan: BridgePlan, index: StageIndex) -> set[str]:
    """Takes over the plan's edges; returns the bodies of its robots."""
    bodies = {plan.layout.bodies[row] for robot in plan.robots for row in robot.bodies}
    for robot in plan.robots:
        for edge in robot.edges:
            joints = [robot.joints[number] for number in edge.joints]
            parent = edge.parent_path if edge.parent_path in index.bodies else ""
            if joints[0].type != "distance" and not index.bodies[edge.child_path].kinematic_enabled:
                forest.hangs[edge.child_path] = Hang(parent, tuple(joint.path for joint in joints))
            bodies |= {edge.child_path, parent}
    bodies.discard("")
    return bodies


def _hang(forest: Forest, edges: Iterable[Edge], index: StageIndex) -> None:
    """A distance joint carries nothing, and nothing carries a body that is moved from outside."""
    for edge in edges:
        if edge.joints[0].kind != "distance" and not index.bodies[edge.child].kinematic_enabled:
            forest.hangs[edge.child] = Hang(edge.parent, tuple(joint.path for joint in edge.joints))


def _attach(
    joints: Iterable[Joint], acting: Iterable[Joint], forest: Forest, index: StageIndex
) -> list[Joint]:
    """Hangs free roots by joints that no tree has (between two robots, say); returns those joints and all loops.

    A joint that says once more what another of the same bodies says (the second hinge of a door) is left out.
    """
    same_ends: dict[frozenset[str], list[Joint]] = {}
    for joint in acting:
        same_ends.setdefault(frozenset((joint.body0, joint.body1)), []).append(joint)
    kept = []
    for joint in joints:
        group = same_ends.setdefault(frozenset((joint.body0, joint.body1)), [])
        if any(repeats(joint, other) for other in group[:MOST_COMPARED]):
            continue
        group.append(joint)
        kept.append(joint)
        if joint.kind == "distance":
            continue
        for parent, child in ((joint.body0, joint.body1), (joint.body1, joint.body0)):
            if not child or child in forest.hangs or index.bodies[child].kinematic_enabled:
                continue
            if _root(parent, forest.hangs) != child:
                forest.hangs[child] = Hang(parent, (joint.path,))
                break
    return kept


def _root(body: str, hangs: Mapping[str, Hang]) -> str:
    while body in hangs:
        body = hangs[body].parent
    return body


def _measure(
    joints: Sequence[Joint], index: StageIndex, options: PlanOptions, findings: Findings
) -> Unplanned:
    kinds: list[JointType] = []
    motions = []
    for joint, length in zip(joints, lengths(joints, index).tolist(), strict=True):
        kind, of_joint = joint_motions(
            joint.record,
            joint.kind,
            length=length,
            solvers=options.schema_resolvers,
            units=index.units,
            findings=findings,
        )
        kinds.append(kind)
        motions.append(of_joint)
    solver = RestSolver(joints, motions, [""] * len(joints), index)
    return Unplanned({joint.path: row for row, joint in enumerate(joints)}, kinds, motions, solver)


def _settle(forest: Forest, trees: Sequence[Sequence[Edge]], index: StageIndex, findings: Findings) -> None:
    """Finds where the bodies of props are at rest, and the positions of their joints."""
    edges = [edge for tree in trees for edge in tree]
    unplanned = forest.unplanned
    if not edges or unplanned is None:
        return
    rest, zero = unplanned.solver.edge_poses(edges, unplanned.rows)
    place_free_edges(edges, [""] * len(edges), rest, zero, index)
    bodies = index.sort({body for edge in edges for body in (edge.parent, edge.child) if body})
    rows = {body: row for row, body in enumerate(bodies)}
    poses = settle_bodies([("", tree) for tree in trees], rest, rows, index, findings)
    forest.world_from_body = dict(zip(bodies, poses, strict=True))

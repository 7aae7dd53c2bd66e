"""Joint graph: which bodies each joint connects, and the trees that the joints span."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import MAX_CANDIDATES, nearest, quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, degraded
from usd_ros_bridge.model.records import JointRecord, JointType, fallback
from usd_ros_bridge.planning.contexts import Context, Contexts
from usd_ros_bridge.planning.kinematics.dofs import count_dofs
from usd_ros_bridge.planning.names import ancestors, missing_prim, parent_path, prim_name
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex
from usd_ros_bridge.spatial.transforms import FloatArray

KINDS: dict[str, JointType] = {
    "PhysicsRevoluteJoint": "revolute",
    "PhysicsPrismaticJoint": "prismatic",
    "PhysicsFixedJoint": "fixed",
    "PhysicsSphericalJoint": "spherical",
    "PhysicsDistanceJoint": "distance",
    "PhysicsJoint": "generic",
}
ARTICULATION_ROOT = "PhysicsArticulationRootAPI"
_PARALLEL = 1e-4
_BODIES_SHOWN = 3
_DECISIVE = frozenset(
    {
        "physics:body0",
        "physics:body1",
        "physics:localPos0",
        "physics:localRot0",
        "physics:localPos1",
        "physics:localRot1",
        "physics:axis",
    }
)
"""Properties that decide what a joint connects, and where."""

_WITH_AXIS = frozenset({"revolute", "prismatic", "spherical"})


@dataclass(frozen=True, slots=True)
class TreeJoint:
    """A joint that may become an edge. Ends are prims; a body of "" is the world.

    Attributes:
        path: Prim path.
        record: The joint as authored.
        kind: Kind by its USD type.
        target0: Prim that body0 names, "" for an empty relationship.
        target1: Prim that body1 names, "" for an empty relationship.
        body0: Nearest body at or above `target0`, "" for the world.
        body1: Nearest body at or above `target1`, "" for the world.
    """

    path: str
    record: JointRecord
    kind: JointType
    target0: str
    target1: str
    body0: str
    body1: str


def read_joints(
    index: StageIndex, findings: DiagnosticCollector, *, excluded: bool = False
) -> list[TreeJoint]:
    """Return the joints that can be edges, in traversal order.

    Args:
        index: The stage.
        findings: Collector of faults.
        excluded: Give those that are excluded from articulations instead: they close loops.
    """
    joints = []
    kinds: dict[int, JointType] = {}
    for record in index.records.joints:
        if excluded and not record.exclude_from_articulation:
            continue
        # Equal joints of equal robots are checked once.
        is_repeat = record.specs in kinds
        kind = kinds.get(record.specs) or _usable_kind(record, findings, excluded=excluded)
        if kind is None:
            continue
        if record.specs:
            kinds[record.specs] = kind
        joint = _read_joint(record, kind, index, findings)
        if joint is not None:
            joints.append(joint)
            if not is_repeat:
                _report_bodies(joint, findings)
                _report_root(joint, findings)
    if not joints:
        return joints
    usable = _usable_frames(joints)
    for row in np.flatnonzero(~usable).tolist():
        findings.error(
            "1.3.joint.frame",
            joints[row].path,
            "a local position or rotation is not finite or far too large, or the rotation is zero; it makes no edge",
            "author finite physics:localPos0, localRot0, localPos1 and localRot1",
        )
    return [joint for joint, good in zip(joints, usable.tolist(), strict=True) if good]


def _usable_kind(record: JointRecord, findings: DiagnosticCollector, *, excluded: bool) -> JointType | None:
    """Return a joint's kind, None where it can be no edge; `findings` take why."""
    kind = KINDS.get(record.type_name)
    if kind is None:
        degraded(
            findings,
            {record.path: record.type_name},
            "",
            "UsdPhysics has no joint of this type; it connects nothing",
            code="1.3.joint.type",
            remedy=f"use one of {', '.join(KINDS)}",
        )
        return None
    if record.enabled is False:
        findings.info(
            "1.3.joint.disabled",
            record.path,
            "the joint is disabled; it makes no edge",
            "set physics:jointEnabled = true to have it in the tree",
            attribute="physics:jointEnabled",
        )
        return None
    if record.exclude_from_articulation and not excluded:
        findings.info(
            "1.3.joint.excluded",
            record.path,
            "the joint closes a loop (excludeFromArticulation); it makes no edge",
            attribute="physics:excludeFromArticulation",
        )
        return None
    if not _DECISIVE.isdisjoint(record.invalid):
        # Reading has reported it. Without the value the joint would be somewhere else, or tied to the world.
        return None
    if kind in _WITH_AXIS and fallback(record, "axis") not in ("X", "Y", "Z"):
        findings.error(
            "1.3.joint.axis",
            record.path,
            f"{quoted(record.axis)} is no axis; the joint makes no edge",
            "use X, Y or Z",
            attribute="physics:axis",
        )
        return None
    return kind


def _read_joint(
    record: JointRecord, kind: JointType, index: StageIndex, findings: DiagnosticCollector
) -> TreeJoint | None:
    target0 = _target(record, "physics:body0", record.body0, index, findings)
    target1 = _target(record, "physics:body1", record.body1, index, findings)
    if target0 is None or target1 is None:
        return None
    body0, body1 = index.body_at(target0), index.body_at(target1)
    if body0 == body1:
        _report_same_end(record, body0, index, findings)
        return None
    if kind == "generic" and not ((body0 and body1) or record.limits or record.exclude_from_articulation):
        kind = "fixed" if _roots_articulation(record, index) else kind
    return TreeJoint(record.path, record, kind, target0, target1, body0, body1)


def _roots_articulation(record: JointRecord, index: StageIndex) -> bool:
    """Return whether a joint to the world is the root of an articulation: that of its prim, or of a prim above.

    OpenUSD's parser makes such a joint the root, unless the schema is on a body. PhysX then fixes the base, whatever
    the joint's type. Isaac Sim writes a PhysicsJoint without limits for that, which has six free axes otherwise.
    """
    roots = index.joint_articulations
    return bool(roots) and any(path in roots for path in (record.path, *ancestors(record.path)))


def _report_root(joint: TreeJoint, findings: DiagnosticCollector) -> None:
    """Say what becomes of a PhysicsJoint to the world that is the root of an articulation."""
    if joint.record.type_name != "PhysicsJoint" or (joint.body0 and joint.body1):
        return
    if joint.kind == "fixed":
        findings.info(
            "1.3.articulation",
            joint.path,
            "a PhysicsJoint without limits is the root of the articulation: the body that it holds is fixed, as in "
            "PhysX and Newton",
            "use a PhysicsFixedJoint",
        )
    elif ARTICULATION_ROOT in joint.record.applied and joint.record.limits:
        findings.warning(
            "1.3.articulation",
            joint.path,
            "the root of the articulation is a joint with limits: its free axes move, where PhysX fixes the base",
            "use a PhysicsFixedJoint, or apply PhysicsArticulationRootAPI to the base",
        )


def _report_same_end(
    record: JointRecord, body: str, index: StageIndex, findings: DiagnosticCollector
) -> None:
    """Report a joint whose ends are on one body, or both on none."""
    remedy = "name two prims, at least one of them a rigid body"
    what = f"both ends are on {body}" if body else "neither end is on a rigid body"
    if not (record.body0 or record.body1):
        what = "neither end is on a rigid body: physics:body0 and physics:body1 name nothing"
        like = _bodies_like(record.path, index) if findings.suggests else ""
        remedy = f"name a rigid body, such as {like}" if like else remedy
    findings.error(
        "1.3.joint.target",
        record.path,
        f"{what}; the joint makes no edge",
        remedy,
        attribute="physics:body1",
    )


def _bodies_like(path: str, index: StageIndex) -> str:
    """Return the rigid bodies whose names are most like a joint's, as a list for a remedy; "" for none."""
    bodies = {body: prim_name(body) for body in islice(index.bodies, MAX_CANDIDATES)}
    close = nearest(prim_name(path), bodies.values(), count=1)
    found = [body for body, name in bodies.items() if name in close]
    same_robot = [body for body in found if parent_path(body) == parent_path(path)]
    return ", ".join((same_robot or found)[:_BODIES_SHOWN])


def _report_bodies(joint: TreeJoint, findings: DiagnosticCollector) -> None:
    """Say which body a joint is on where it names a prim below it."""
    for name, target, body in (
        ("physics:body0", joint.target0, joint.body0),
        ("physics:body1", joint.target1, joint.body1),
    ):
        if body and target != body:
            findings.info(
                "1.3.joint.body",
                joint.path,
                f"{quoted(target)} is no rigid body; the body above it, {body}, is taken",
                f"name {body}, and give the joint's frame in it, unless that is meant",
                attribute=name,
            )


def _target(
    record: JointRecord,
    name: str,
    targets: tuple[str, ...] | None,
    index: StageIndex,
    findings: DiagnosticCollector,
) -> str | None:
    """Return the target, "" for the world, None where it does not exist."""
    if not targets:
        return ""
    if len(targets) > 1:
        findings.warning(
            "1.3.joint.target",
            record.path,
            f"{len(targets)} targets where a joint takes one; the first counts",
            "name one prim",
            attribute=name,
        )
    if targets[0] not in index.records.xforms:
        meant = missing_prim(targets[0], index.records.xforms) if findings.suggests else ""
        findings.error(
            "1.3.joint.target",
            record.path,
            f"{quoted(targets[0])} does not exist; the joint makes no edge",
            f"{meant}name a prim of the stage, or nothing for the world",
            attribute=name,
        )
        return None
    return targets[0]


def repeats(joint: TreeJoint, other: TreeJoint) -> bool:
    """Return whether two joints between the same bodies are one freedom authored twice (the hinges of a door)."""
    if (
        joint.kind != other.kind
        or joint.target0 != other.target0
        or joint.kind not in ("revolute", "prismatic")
    ):
        return False
    axis, other_axis = _axis_in_body0(joint.record), _axis_in_body0(other.record)
    if not _cross_length(axis, other_axis) < _PARALLEL:
        return False
    first, second = (each.record.local_pos0 or (0.0, 0.0, 0.0) for each in (joint, other))
    offset = (second[0] - first[0], second[1] - first[1], second[2] - first[2])
    return joint.kind == "prismatic" or _cross_length(axis, offset) < _PARALLEL


def _axis_in_body0(record: JointRecord) -> tuple[float, float, float]:
    """Return a joint's axis in the frame of body0; numpy takes fifty times as long for one."""
    x, y, z, w = record.local_rot0 or (0.0, 0.0, 0.0, 1.0)
    length = math.hypot(x, y, z, w) or math.nan
    x, y, z, w = x / length, y / length, z / length, w / length
    letter = fallback(record, "axis")
    if letter == "X":
        return 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    if letter == "Y":
        return 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    return 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)


def _cross_length(left: Sequence[float], right: Sequence[float]) -> float:
    (ax, ay, az), (bx, by, bz) = left, right
    return math.hypot(ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx)


def local_frames(joints: Sequence[TreeJoint]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return authored positions (J, 3) and rotations (J, 4) of both ends, fallbacks applied, as authored."""
    origin, identity = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
    records, which = _distinct([joint.record for joint in joints])
    position0 = np.array([r.local_pos0 or origin for r in records], dtype=np.float64)
    rotation0 = np.array([r.local_rot0 or identity for r in records], dtype=np.float64)
    position1 = np.array([r.local_pos1 or origin for r in records], dtype=np.float64)
    rotation1 = np.array([r.local_rot1 or identity for r in records], dtype=np.float64)
    return (
        position0.reshape(-1, 3)[which],
        rotation0.reshape(-1, 4)[which],
        position1.reshape(-1, 3)[which],
        rotation1.reshape(-1, 4)[which],
    )


def _distinct(records: Sequence[JointRecord]) -> tuple[list[JointRecord], NDArray[np.intp]]:
    """Return one record of each that have the same values, and for every record given, which of them it equals."""
    distinct: list[JointRecord] = []
    which: list[int] = []
    known: dict[int, int] = {}
    for record in records:
        number = known.get(record.specs)
        if number is None:
            number = len(distinct)
            distinct.append(record)
            if record.specs:
                known[record.specs] = number
        which.append(number)
    return distinct, np.array(which, dtype=np.intp)


def _usable_frames(joints: Sequence[TreeJoint]) -> NDArray[np.bool_]:
    usable = np.ones(len(joints), dtype=bool)
    for array in local_frames(joints):
        usable &= np.logical_and.reduce(np.abs(array) <= MAX_MAGNITUDE, axis=-1)
        if array.shape[-1] == 4:
            usable &= np.linalg.norm(array, axis=-1) > 1e-6
    return usable


WORLD_NODE = ""

FREEDOMS = 6
"""Degrees of freedom of all joints between two bodies: a body has no more, and engines take no more."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The joints between two bodies, oriented.

    Attributes:
        parent: Body, "" for the world.
        child: Body.
        joints: One, or several that act one after another; all oriented alike.
        inverted: Whether body1 is the parent.
    """

    parent: str
    child: str
    joints: tuple[TreeJoint, ...]
    inverted: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """Bodies that joints connect.

    Attributes:
        root: Root body of a floating tree; "" where the tree is anchored to the world.
        bodies: In breadth-first order.
        edges: Parents before children.
    """

    root: str
    bodies: tuple[str, ...]
    edges: tuple[Edge, ...]


Order = Callable[[str], tuple[int, str]]


def assign_bodies(
    joints: Iterable[TreeJoint], bodies: Iterable[str], root_of: Callable[[str], str]
) -> dict[str, str]:
    """Return the robot (path of its outermost context) of each body that has one.

    A body outside every context belongs to the robot that joints lead to first (REP 0158 section 2.7: a tool that is
    mounted on a flange).
    """
    owners = {body: root for body in bodies if (root := root_of(body))}
    between = [joint for joint in joints if joint.body0 and joint.body1]
    if all(joint.body0 in owners and joint.body1 in owners for joint in between):
        return owners
    neighbours: dict[str, list[str]] = defaultdict(list)
    for joint in between:
        neighbours[joint.body0].append(joint.body1)
        neighbours[joint.body1].append(joint.body0)
    queue = deque(owners)
    while queue:
        body = queue.popleft()
        for other in neighbours[body]:
            if other not in owners:
                owners[other] = owners[body]
                queue.append(other)
    return owners


def joints_by_robot(
    joints: Iterable[TreeJoint], owners: Mapping[str, str], findings: DiagnosticCollector
) -> dict[str, list[TreeJoint]]:
    """Return each robot's joints; one between two robots makes no edge, one outside all robots none either."""
    result: dict[str, list[TreeJoint]] = defaultdict(list)
    for joint in joints:
        first = owners.get(joint.body0 or joint.body1, "")
        second = owners.get(joint.body1 or joint.body0, "")
        if first != second:
            first, second = sorted((first, second))
            findings.warning(
                "1.3.joint.robots",
                joint.path,
                f"the joint connects two robots, {first} and {second}; it makes no edge",
                "give both one outermost RosContextAPI",
            )
        elif first:
            result[first].append(joint)
    return result


def span(
    joints: Sequence[TreeJoint],
    *,
    order: Order,
    preferred_root: str,
    articulation_roots: frozenset[str],
    findings: DiagnosticCollector,
) -> list[Tree]:
    """Return the trees of one robot; the anchored one first, then floating ones in traversal order of their roots.

    Args:
        joints: In traversal order.
        order: Sort key of a prim.
        preferred_root: A body that is a root wherever its tree floats (a context prim that is a body).
        articulation_roots: Bodies with PhysicsArticulationRootAPI.
        findings: Takes cycles and joints that contradict one another.
    """
    groups: dict[tuple[str, str], list[TreeJoint]] = {}
    for joint in joints:
        groups.setdefault(_pair(joint), []).append(joint)
    kept = _break_cycles(groups, findings)
    neighbours: dict[str, list[tuple[str, tuple[TreeJoint, ...]]]] = defaultdict(list)
    for (first, second), group in kept.items():
        neighbours[first].append((second, group))
        neighbours[second].append((first, group))
    seen: set[str] = set()
    trees = []
    if WORLD_NODE in neighbours:
        trees.append(_walk(WORLD_NODE, neighbours, seen))
    for component in _floating_components(neighbours, seen, order):
        root = _root_body(component, kept, preferred_root, articulation_roots, findings)
        trees.append(_walk(root, neighbours, seen))
    return trees


def _pair(joint: TreeJoint) -> tuple[str, str]:
    return (joint.body0, joint.body1) if joint.body0 <= joint.body1 else (joint.body1, joint.body0)


def _break_cycles(
    groups: Mapping[tuple[str, str], list[TreeJoint]], findings: DiagnosticCollector
) -> dict[tuple[str, str], tuple[TreeJoint, ...]]:
    """Keep each edge that closes no cycle with those before it: of every cycle, the last in order is dropped."""
    leader: dict[str, str] = {}

    def find(node: str) -> str:
        path = []
        while (above := leader.setdefault(node, node)) != node:
            path.append(node)
            node = above
        for step in path:
            leader[step] = node
        return node

    kept = {}
    for pair, group in groups.items():
        first, second = find(pair[0]), find(pair[1])
        if first != second:
            leader[second] = first
            kept[pair] = _agreeing(group, findings)
            continue
        for joint in group:
            findings.warning(
                "1.3.cycle",
                joint.path,
                "the joint closes a loop; the tree is broken here",
                "set physics:excludeFromArticulation = true on the joint that closes the loop",
                attribute="physics:excludeFromArticulation",
            )
    return kept


def _agreeing(group: Sequence[TreeJoint], findings: DiagnosticCollector) -> tuple[TreeJoint, ...]:
    """Return those of several joints between two bodies that can act together."""
    if len(group) == 1:
        return tuple(group)
    rigid = [joint for joint in group if joint.kind == "fixed"][:1]
    free: list[TreeJoint] = []
    too_free: set[str] = set()
    left = FREEDOMS
    for joint in group:
        if joint.kind == "distance" or joint.body0 != group[0].body0:
            continue
        # Most of thousands of joints come too late: they are not compared with those before them.
        if left and any(repeats(joint, other) for other in free):
            continue
        count = count_dofs(joint.record, joint.kind) if left else FREEDOMS
        if count > left:
            too_free.add(joint.path)
            continue
        left -= count
        free.append(joint)
    kept = tuple(rigid or free or group[:1])
    kept_paths = {joint.path for joint in kept}
    for joint in group:
        if joint.path not in kept_paths:
            _report_left_out(joint, kept[0], findings, is_too_free=not rigid and joint.path in too_free)
    return kept


def _report_left_out(
    joint: TreeJoint, first: TreeJoint, findings: DiagnosticCollector, *, is_too_free: bool
) -> None:
    why = f"contradicts or repeats {first.path} between the same two bodies"
    if is_too_free:
        why = f"and those before it between the same two bodies have more than {FREEDOMS} degrees of freedom"
    findings.warning(
        "1.3.joint.several",
        joint.path,
        f"the joint {why}; it makes no edge",
        "connect two bodies by one joint, or by several with different axes and the same body0 and body1",
    )


def _walk(
    root: str, neighbours: Mapping[str, list[tuple[str, tuple[TreeJoint, ...]]]], seen: set[str]
) -> Tree:
    seen.add(root)
    bodies = [root] if root else []
    edges = []
    queue = deque([root])
    while queue:
        parent = queue.popleft()
        for child, group in neighbours.get(parent, ()):
            if child not in seen:
                seen.add(child)
                bodies.append(child)
                edges.append(Edge(parent, child, group, inverted=group[0].body1 == parent))
                queue.append(child)
    return Tree(root, tuple(bodies), tuple(edges))


def _floating_components(
    neighbours: Mapping[str, list[tuple[str, tuple[TreeJoint, ...]]]], anchored: set[str], order: Order
) -> list[list[str]]:
    found: set[str] = set(anchored)
    components = []
    for start in sorted((node for node in neighbours if node not in anchored), key=order):
        if start in found:
            continue
        found.add(start)
        component = [start]
        for body in component:
            for other, _ in neighbours[body]:
                if other not in found:
                    found.add(other)
                    component.append(other)
        components.append(sorted(component, key=order))
    return components


def _root_body(
    component: Sequence[str],
    kept: Mapping[tuple[str, str], tuple[TreeJoint, ...]],
    preferred_root: str,
    articulation_roots: frozenset[str],
    findings: DiagnosticCollector,
) -> str:
    """Return the preferred root, else the articulation root, else the first body that is no child, else the first."""
    marked = [body for body in component if body in articulation_roots]
    for body in marked[1:]:
        findings.warning(
            "1.3.articulation",
            body,
            f"the kinematic tree has an articulation root already, {marked[0]}",
            "keep one PhysicsArticulationRootAPI per kinematic tree",
        )
    members = set(component)
    if preferred_root in members:
        return preferred_root
    if marked:
        return marked[0]
    children = {joint.body1 for pair, group in kept.items() if pair[0] in members for joint in group}
    return next((body for body in component if body not in children), component[0])


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
    joints: tuple[TreeJoint, ...]
    bodies: tuple[str, ...]
    anchor: str


def plan_robot_tree(
    root: str,
    joints: Sequence[TreeJoint],
    index: StageIndex,
    contexts: Contexts,
    findings: DiagnosticCollector,
) -> RobotTree:
    """Span the trees of one robot.

    Args:
        root: Path of its outermost context.
        joints: Its joints, in traversal order.
        index: The stage.
        contexts: All contexts.
        findings: Takes joints that no tree can hold.
    """
    moves = root in index.bodies or bool(index.carrier_at(root)) or not index.poses.is_usable(root)
    trees = span(
        joints,
        order=index.order,
        preferred_root=root,
        articulation_roots=index.articulation_roots,
        findings=findings,
    )
    edges = tuple(edge for tree in trees for edge in tree.edges)
    kept = {joint.path for edge in edges for joint in edge.joints}
    return RobotTree(
        context=contexts.by_path[root],
        trees=tuple(trees),
        edges=edges,
        joints=tuple([joint for joint in joints if joint.path in kept]),
        bodies=tuple(body for tree in trees for body in tree.bodies),
        anchor="" if moves else root,
    )


# --- Attachments of bodies, where forces act -------------------------------------------------------------------------

MOST_COMPARED = 16
"""Joints between the same two bodies that another one may repeat: comparing thousands with each other takes hours."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Parent of a body, and the joints in between.

    Attributes:
        parent: Prim path of the parent body, "" for the world.
        joints: Prim paths of the joints between the two, in the order in which they act.
    """

    parent: str
    joints: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ActingJoints:
    """Joints that act on bodies although they are left out of /tf: on doors, between two robots, or closing loops.

    Attributes:
        joints: In traversal order.
        trees: Trees of bodies outside robots.
        attachments: Attachment of each body, those of robots included; a body that is not here is free, or held by
            loops alone.
    """

    joints: tuple[TreeJoint, ...] = ()
    trees: tuple[Tree, ...] = ()
    attachments: Mapping[str, Attachment] = field(default_factory=dict)


def find_acting_joints(
    joints: Sequence[TreeJoint],
    robots: Sequence[RobotTree],
    owners: Mapping[str, str],
    index: StageIndex,
    findings: DiagnosticCollector,
) -> ActingJoints:
    """Return the joints that act and that no robot's tree has.

    Args:
        joints: All that can be edges, in traversal order.
        robots: Trees of the robots.
        owners: Path of the robot's context by body.
        index: The stage.
        findings: Collector of faults.
    """
    loops = read_joints(index, findings, excluded=True)
    in_robots = {joint.path for robot in robots for joint in robot.joints}
    left_out = [joint for joint in joints if joint.path not in in_robots]
    props = [joint for joint in left_out if joint.body0 not in owners and joint.body1 not in owners]
    trees = span(
        props,
        order=index.order,
        preferred_root="",
        articulation_roots=index.articulation_roots,
        findings=findings,
    )
    edges = [edge for tree in trees for edge in tree.edges]
    attachments: dict[str, Attachment] = {}
    for edge in (*(edge for robot in robots for edge in robot.edges), *edges):
        # A distance joint carries nothing, and nothing carries a body that is moved from outside.
        if edge.joints[0].kind != "distance" and not index.bodies[edge.child].kinematic_enabled:
            attachments[edge.child] = Attachment(edge.parent, tuple(joint.path for joint in edge.joints))
    in_props = {joint.path for edge in edges for joint in edge.joints}
    in_trees = in_robots | in_props
    acting = [joint for joint in joints if joint.path in in_trees]
    others = _attach([joint for joint in left_out if joint.path not in in_props], acting, attachments, index)
    found = [joint for joint in acting if joint.path in in_props] + others + loops
    found.sort(key=lambda joint: index.order(joint.path))
    return ActingJoints(tuple(found), tuple(trees), attachments)


def _attach(
    joints: Iterable[TreeJoint],
    acting: Iterable[TreeJoint],
    attachments: dict[str, Attachment],
    index: StageIndex,
) -> list[TreeJoint]:
    """Attach free roots by joints that no tree has (between two robots, say). Return those joints and all loops.

    A joint that repeats another one of the same bodies (the second hinge of a door) is left out.
    """
    same_ends: dict[frozenset[str], list[TreeJoint]] = {}
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
            if not child or child in attachments or index.bodies[child].kinematic_enabled:
                continue
            if _root(parent, attachments) != child:
                attachments[child] = Attachment(parent, (joint.path,))
                break
    return kept


def _root(body: str, attachments: Mapping[str, Attachment]) -> str:
    while body in attachments:
        body = attachments[body].parent
    return body

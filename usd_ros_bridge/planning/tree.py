"""The joint graph: which bodies belong to which robot, and the tree that the joints span.

REP 0158 section 1.3 (the tree comes from the relationships, loops are broken) and section 2.7 (kinematic chains).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from usd_ros_bridge.planning.dofs import count_dofs
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.joints import Joint, repeats

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
    joints: tuple[Joint, ...]
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
    joints: Iterable[Joint], bodies: Iterable[str], root_of: Callable[[str], str]
) -> dict[str, str]:
    """Returns the robot (path of its outermost context) of each body that has one.

    A body outside every context belongs to the robot that joints lead to first (REP 0158 section 2.7: a tool that is
    mounted on a flange).
    """
    owners = {body: root for body in bodies if (root := root_of(body))}
    neighbours: dict[str, list[str]] = defaultdict(list)
    strays = False
    for joint in joints:
        if joint.body0 and joint.body1:
            neighbours[joint.body0].append(joint.body1)
            neighbours[joint.body1].append(joint.body0)
            strays = strays or joint.body0 not in owners or joint.body1 not in owners
    if strays:
        queue = deque(owners)
        while queue:
            body = queue.popleft()
            for other in neighbours[body]:
                if other not in owners:
                    owners[other] = owners[body]
                    queue.append(other)
    return owners


def joints_by_robot(
    joints: Iterable[Joint], owners: Mapping[str, str], findings: Findings
) -> dict[str, list[Joint]]:
    """Returns each robot's joints; one between two robots makes no edge, one outside all robots none either."""
    result: dict[str, list[Joint]] = defaultdict(list)
    for joint in joints:
        robots = {owners.get(body, "") for body in (joint.body0, joint.body1) if body}
        if len(robots) > 1:
            first, second = sorted(robots)
            findings.warning(
                "1.3.joint.robots",
                joint.path,
                f"the joint connects two robots, {first} and {second}; it makes no edge",
                "give both one outermost RosContextAPI",
            )
        elif robot := robots.pop():
            result[robot].append(joint)
    return result


def span(
    joints: Sequence[Joint],
    *,
    order: Order,
    preferred_root: str,
    articulation_roots: frozenset[str],
    findings: Findings,
) -> list[Tree]:
    """Returns the trees of one robot; the anchored one first, then floating ones in traversal order of their roots.

    Args:
        joints: In traversal order.
        order: Sort key of a prim.
        preferred_root: A body that is a root wherever its tree floats (a context prim that is a body).
        articulation_roots: Bodies with PhysicsArticulationRootAPI.
        findings: Takes cycles and joints that contradict one another.
    """
    groups: dict[tuple[str, str], list[Joint]] = {}
    for joint in joints:
        groups.setdefault(_pair(joint), []).append(joint)
    kept = _break_cycles(groups, findings)
    neighbours: dict[str, list[tuple[str, tuple[Joint, ...]]]] = defaultdict(list)
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


def _pair(joint: Joint) -> tuple[str, str]:
    return (joint.body0, joint.body1) if joint.body0 <= joint.body1 else (joint.body1, joint.body0)


def _break_cycles(
    groups: Mapping[tuple[str, str], list[Joint]], findings: Findings
) -> dict[tuple[str, str], tuple[Joint, ...]]:
    """Keeps each edge that closes no cycle with those before it: of every cycle, the last in order is dropped."""
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
                "set physics:excludeFromArticulation = true on the joint that shall close the loop",
                attribute="physics:excludeFromArticulation",
            )
    return kept


def _agreeing(group: Sequence[Joint], findings: Findings) -> tuple[Joint, ...]:
    """Returns those of several joints between two bodies that can act together."""
    if len(group) == 1:
        return tuple(group)
    rigid = [joint for joint in group if joint.kind == "fixed"][:1]
    free: list[Joint] = []
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


def _report_left_out(joint: Joint, first: Joint, findings: Findings, *, is_too_free: bool) -> None:
    why = f"contradicts or repeats {first.path} between the same two bodies"
    if is_too_free:
        why = f"and those before it between the same two bodies have more than {FREEDOMS} degrees of freedom"
    findings.warning(
        "1.3.joint.several",
        joint.path,
        f"the joint {why}; it makes no edge",
        "connect two bodies by one joint, or by several with different axes and the same body0 and body1",
    )


def _walk(root: str, neighbours: Mapping[str, list[tuple[str, tuple[Joint, ...]]]], seen: set[str]) -> Tree:
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
    neighbours: Mapping[str, list[tuple[str, tuple[Joint, ...]]]], anchored: set[str], order: Order
) -> list[list[str]]:
    found: set[str] = set(anchored)
    components = []
    for start in sorted(neighbours, key=order):
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
    kept: Mapping[tuple[str, str], tuple[Joint, ...]],
    preferred_root: str,
    articulation_roots: frozenset[str],
    findings: Findings,
) -> str:
    """The preferred one, else the articulation root, else the first body that is nobody's child, else the first."""
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

"""Collision filtering: joints, filtered pairs, articulations without self-collision, collision groups."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Collider, Joint
from usd_ros_bridge.model.physics_records import CollisionGroupRecord, GeometryRecord, PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import fallback
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.kinematics.solver_attributes import ARTICULATION, resolve_all
from usd_ros_bridge.planning.names import Nearest, is_below, parent_path
from usd_ros_bridge.planning.physics.bodies import BodyTable
from usd_ros_bridge.planning.stage_index import StageIndex

Pairs = tuple[tuple[int, int], ...]

MOST_WELDED_PAIRS = 100_000
"""Pairs of bodies kept apart because of what is welded to the ends of joints, or by one prim: MuJoCo takes 1 s for as
many."""
MOST_PAIRS = 1_000_000
"""Pairs kept apart by all articulations and filtered pairs of a stage."""


def _pair(first: int, second: int) -> tuple[int, int]:
    return (first, second) if first < second else (second, first)


def plan_filters(
    physics: PhysicsRecords,
    table: BodyTable,
    kinematics: KinematicModel,
    scene_bodies: Sequence[Body],
    joints: Sequence[Joint],
    colliders: Sequence[Collider],
    plan: BridgePlan,
    index: StageIndex,
    solvers: Sequence[str],
    findings: DiagnosticCollector,
) -> tuple[Pairs, Pairs]:
    """Return the pairs of bodies, and the pairs of colliders, that do not collide.

    Args:
        physics: Filtered pairs, solver attributes of articulations.
        table: The bodies' order.
        kinematics: The trees, for articulations.
        scene_bodies: The bodies, parents before children.
        joints: All joints of the scene.
        colliders: All colliders of the scene.
        plan: The robots, for links that are no bodies.
        index: The stage.
        solvers: Solvers in order of priority.
        findings: Collector of faults.
    """
    articulations = _Articulations(table, kinematics, index)
    bodies = _jointed(scene_bodies, joints, colliders, _links_without_mass(plan), findings)
    bodies |= _geared(index, table)
    budget = _Budget(findings)
    for record in index.records.articulation_roots:
        authored = physics.body_solver_attributes.get(record.path, {})
        if resolve_all(authored, ARTICULATION, solvers).get("self_collision") is False:
            inside = articulations.bodies(record.path)
            if budget.allows(record.path, len(inside) * (len(inside) - 1) // 2):
                bodies.update(combinations(sorted(inside), 2))
    pairs: set[tuple[int, int]] = set()
    of_path = {collider.path: number for number, collider in enumerate(colliders)}
    for filtered in physics.filtered_pairs:
        for target in fallback(filtered, "filtered_pairs") or ():
            first, second = (
                _Members(path, of_path, table, articulations, colliders) for path in (filtered.path, target)
            )
            if not (first.found and second.found):
                _report_target(filtered.path, target, findings)
                continue
            of_bodies = first.of_bodies and second.of_bodies
            ends = [each.bodies if of_bodies else each.colliders() for each in (first, second)]
            if budget.allows(filtered.path, len(ends[0]) * len(ends[1])):
                found = (_pair(a, b) for a, b in product(*ends) if a != b)
                (bodies if of_bodies else pairs).update(found)
    return tuple(sorted(bodies)), tuple(sorted(pairs))


def _geared(index: StageIndex, table: BodyTable) -> set[tuple[int, int]]:
    """Return the pairs of bodies that gears and racks keep apart, as all joints of UsdPhysics do."""
    pairs = set()
    for gear in index.records.gears:
        if fallback(gear, "enabled") and not fallback(gear, "collision_enabled"):
            ends = [
                table.indices[path]
                for path in (*(gear.body0 or ()), *(gear.body1 or ()))
                if path in table.indices
            ]
            if len(set(ends)) == 2:
                pairs.add(_pair(ends[0], ends[-1]))
    return pairs


def _jointed(
    bodies: Sequence[Body],
    joints: Sequence[Joint],
    colliders: Sequence[Collider],
    links: Container[str],
    findings: DiagnosticCollector,
) -> set[tuple[int, int]]:
    """Return the pairs of bodies that joints keep apart.

    Bodies that are welded are one body: all of those at one end do not collide with all of those at the other. An end
    at the world keeps nothing apart. Two bodies whose own joint lets them collide do so, whatever joints between
    others of the same two groups say.
    """
    filtering = [joint for joint in joints if not joint.collides and _is_between_bodies(joint)]
    pairs = {_pair(joint.body0, joint.body1) for joint in filtering}
    welds = _welded_to(bodies, joints, links)
    groups: dict[int, list[int]] = {}
    for body in sorted({collider.body for collider in colliders} - {WORLD_BODY}):
        groups.setdefault(welds[body], []).append(body)
    colliding = {_pair(joint.body0, joint.body1) for joint in joints if joint.collides} - pairs
    count, seen = 0, set[tuple[int, int]]()
    for joint in filtering:
        ends = _pair(welds[joint.body0], welds[joint.body1])
        if ends in seen or ends[0] == ends[1]:
            continue
        seen.add(ends)
        first, second = (groups.get(end, []) for end in ends)
        count += len(first) * len(second)
        if count > MOST_WELDED_PAIRS:
            _report_welds(joint.path, findings)
            break
        pairs.update({_pair(a, b) for a, b in product(first, second)} - colliding)
    return pairs


def _is_between_bodies(joint: Joint) -> bool:
    return WORLD_BODY not in (joint.body0, joint.body1)


def _links_without_mass(plan: BridgePlan) -> set[str]:
    """Return the prims that are frames of robots and no bodies: converters make them of links without mass."""
    frames = {frame.path for robot in plan.robots for frame in robot.frames}
    return frames.difference((robot.path for robot in plan.robots), plan.layout.bodies)


def _welded_to(bodies: Sequence[Body], joints: Sequence[Joint], links: Container[str]) -> list[int]:
    """Return for each body the first one of those that it is welded to: itself where nothing fixes it to another.

    Only joints of the tree weld, not those that close loops. The world is no body: two bodies that are fixed to it
    are not welded to each other, unless they are below the same link that has no mass (a robot's base).
    """
    first: list[int] = []
    of_link: dict[str, int] = {}
    for number, body in enumerate(bodies):
        carrying = [joints[joint] for joint in body.joints]
        is_fixed = bool(carrying) and not any(joint.dofs or joint.type == "distance" for joint in carrying)
        link = parent_path(body.path)
        if not is_fixed:
            first.append(number)
        elif body.parent != WORLD_BODY:
            first.append(first[body.parent])
        else:
            first.append(of_link.setdefault(link, number) if link in links else number)
    return first


def _report_welds(path: str, findings: DiagnosticCollector) -> None:
    findings.warning(
        "1.3.filter",
        path,
        f"more than {MOST_WELDED_PAIRS} pairs of bodies that fixed joints weld to the two ends of joints: from this "
        "joint on only the two bodies of each joint are kept apart",
        "merge links that do not move against each other",
    )


def _report_target(path: str, target: str, findings: DiagnosticCollector) -> None:
    findings.warning(
        "1.3.filter",
        path,
        f"{quoted(target)}, or the prim itself, has no collider and no body that collides; nothing is filtered",
        "name rigid bodies, colliders or articulation roots",
        attribute="physics:filteredPairs",
    )


class _Budget:
    """How many pairs filters may still name: few lines of an asset name millions of them."""

    def __init__(self, findings: DiagnosticCollector) -> None:
        self._findings = findings
        self._left = MOST_PAIRS

    def allows(self, path: str, count: int) -> bool:
        """Take `count` pairs that a prim names; report it and return False if they are too many."""
        if count <= min(MOST_WELDED_PAIRS, self._left):
            self._left -= count
            return True
        self._findings.warning(
            "1.3.filter",
            path,
            f"it keeps {count} pairs apart, more than {MOST_WELDED_PAIRS}, or than what is left of {MOST_PAIRS} for "
            "the stage; none of these is filtered",
            "use collision groups, or an articulation root for each robot",
        )
        return False


class _Articulations:
    """The bodies below, or joined to, a prim with PhysicsArticulationRootAPI."""

    def __init__(self, table: BodyTable, kinematics: KinematicModel, index: StageIndex) -> None:
        self._table = table
        self._roots = {record.path for record in index.records.articulation_roots}
        self._joints = {joint.path: joint for joint in kinematics.joints}
        root: dict[str, str] = {}
        for path in table.paths:
            attachment = kinematics.attachments.get(path)
            root[path] = path if attachment is None or not attachment.parent else root[attachment.parent]
        self._trees: dict[str, set[int]] = {}
        for path, top in root.items():
            self._trees.setdefault(top, set()).add(table.indices[path])
        self._root_of = root
        self._below: dict[str, list[str]] = {}
        root_at = Nearest(self._roots)
        for path in table.paths:
            self._below.setdefault(root_at(path), []).append(path)

    def is_root(self, path: str) -> bool:
        return path in self._roots

    def bodies(self, path: str) -> set[int]:
        """Return the articulation of a root prim: the trees of the body, of the joint, or of the bodies below it."""
        joint = self._joints.get(path)
        if joint is not None:
            starts: Iterable[str] = [body for body in (joint.body0, joint.body1) if body]
        elif path in self._table.indices:
            starts = [path]
        else:
            starts = self._below.get(path, ())
        return set().union(*(self._trees[self._root_of[body]] for body in starts))


class _Members:
    """Members of a filtered pair by path: one collider, a body, an articulation, or all bodies below a prim."""

    def __init__(
        self,
        path: str,
        of_path: Mapping[str, int],
        table: BodyTable,
        articulations: _Articulations,
        colliders: Sequence[Collider],
    ) -> None:
        self._all = colliders
        self.bodies: set[int] = set()
        self._own: set[int] = set()
        if path in table.indices:
            # A body that is the root of an articulation, too, is meant alone: converters name bodies.
            self.bodies = {table.indices[path]}
        elif articulations.is_root(path):
            self.bodies = articulations.bodies(path)
        elif path in of_path:
            self._own = {of_path[path]}
        else:
            self.bodies = {number for body, number in table.indices.items() if is_below(body, path)}
            self._own = {number for name, number in of_path.items() if is_below(name, path)}
        self.of_bodies = bool(self.bodies) and not self._own
        self.found = bool(self.bodies or self._own)

    def colliders(self) -> set[int]:
        return self._own | {
            number for number, collider in enumerate(self._all) if collider.body in self.bodies
        }


# --- Groups -------------------------------------------------------------------------------------------------------


def plan_groups(
    physics: PhysicsRecords,
    colliders: Sequence[Collider],
    records: Sequence[GeometryRecord],
    findings: DiagnosticCollector,
    owners: Sequence[str] = (),
) -> tuple[tuple[Collider, ...], tuple[str, ...], Pairs]:
    """Return the colliders with their groups, the groups, and which of them do not collide.

    Groups with one merge name are one. A collider in several of them is in one that stands for all of these (named by
    their paths, one after another), and an inverted group, which leaves out all but what it names, makes one for the
    colliders that are in none (named "").

    Args:
        physics: The groups.
        colliders: The colliders.
        records: What they were read from.
        findings: Collector of faults.
        owners: The scene of each collider where there are several: what different scenes own does not meet.
    """
    if not physics.groups and not owners:
        return tuple(colliders), (), ()
    merged = _merged(physics.groups)
    filters = _filters(physics.groups, merged, findings)
    sets = [frozenset(merged[path] for path in record.group_paths if path in merged) for record in records]
    everyone = bool(owners) or any(record.invert for record in physics.groups)
    owned = list(zip(sets, owners or [""] * len(sets), strict=True))
    known: dict[tuple[frozenset[str], str], int] = {}
    alone = [] if owners else [(frozenset((name,)), "") for name in dict.fromkeys(merged.values())]
    for key in (*alone, *owned):
        if key[0] or everyone:
            known.setdefault(key, len(known))
    numbers = [known.get(key, -1) for key in owned]
    apart = {
        _pair(known[a], known[b])
        for a, b in product(known, known)
        if a[1] != b[1] or any(_filtered(x, y, filters) for x, y in product(a[0] or {""}, b[0] or {""}))
    }
    placed = tuple(
        replace(collider, group=number) for collider, number in zip(colliders, numbers, strict=True)
    )
    names = tuple(" ".join((*sorted(members), *([owner] if owner else ()))) for members, owner in known)
    return placed, names, tuple(sorted(apart))


Filter = tuple[frozenset[str], bool]


def _merged(groups: Sequence[CollisionGroupRecord]) -> dict[str, str]:
    """Return the first group of the same merge name, by path."""
    first: dict[str, str] = {}
    return {
        group.path: first.setdefault(group.merge_group, group.path) if group.merge_group else group.path
        for group in groups
    }


def _filters(
    groups: Sequence[CollisionGroupRecord], merged: Mapping[str, str], findings: DiagnosticCollector
) -> dict[str, list[Filter]]:
    """Return what each merged group filters: named groups and whether these are all that it collides with."""
    filters: dict[str, list[Filter]] = {}
    for group in groups:
        targets = []
        for target in fallback(group, "filtered_groups") or ():
            if target in merged:
                targets.append(merged[target])
            else:
                findings.warning(
                    "1.3.filter",
                    group.path,
                    f"{quoted(target)} is no collision group; it is ignored",
                    "name PhysicsCollisionGroup prims",
                    attribute="physics:filteredGroups",
                )
        filters.setdefault(merged[group.path], []).append((frozenset(targets), bool(group.invert)))
    return filters


def _filtered(first: str, second: str, filters: Mapping[str, Sequence[Filter]]) -> bool:
    return any(
        (other in named) != inverted
        for own, other in ((first, second), (second, first))
        for named, inverted in filters.get(own, ())
    )

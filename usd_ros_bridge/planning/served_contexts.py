"""Served contexts: cut a stage's records down to the robots that this bridge serves (`contexts:=/World/robot_1`).

A fleet is sharded over processes and machines this way. What lies outside of every context is the world: each shard
keeps its bodies. Robots of other shards are left out, as if they were not on the stage. Most of them were not composed
in the first place (`usd/population.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.diagnostics import Diagnostic, DiagnosticCollector
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.records import ContextRecord, IsaacRobotRecord, JointRecord, Record
from usd_ros_bridge.model.stage import RobotRoot, StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.contexts import Contexts, plan_contexts
from usd_ros_bridge.planning.names import Nearest, ancestors
from usd_ros_bridge.planning.robot_selection import select_robots, selects_robots

_INTERFACES: Final = ("topics", "services", "actions", "controllers", "sensor_models")
_BY_PATH: Final = (
    "contexts",
    "actuators",
    "frames",
    "articulation_roots",
    "isaac_robots",
    "isaac_links",
    "isaac_joints",
    "isaac_sites",
    "cameras",
    "plain_links",
    "pose_tracks",
    "value_tracks",
    "diagnostics",
)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, eq=False)
class ServedRecords:
    """Records of the robots that are served.

    Attributes:
        records: The records without those of the robots that are left out.
        options: The options to plan them with.
        robots: Outermost contexts of the whole stage.
    """

    records: StageRecords
    options: PlanOptions
    robots: tuple[RobotRoot, ...]


def serve_contexts(records: StageRecords, options: PlanOptions) -> ServedRecords:
    """Return the records of the robots that `options.contexts` and `options.shard` select, else all records.

    Raises:
        OptionError: An entry of `contexts` selects nothing; the message lists what exists. `shard` has another form.
            A robot is not composed on the stage of another bridge.
    """
    findings = DiagnosticCollector()
    whole = _with_left_out(records)
    contexts = plan_contexts(whole, options, findings)
    robots = _robots(whole, contexts)
    if not selects_robots(options):
        return ServedRecords(records, options, robots)
    selection = select_robots(options, robots)
    served = frozenset(selection.robots)
    if missing := served.intersection(each.path for each in records.left_out):
        raise OptionError(
            f"{min(missing)} is not composed: the bridge that opened this stage left it out, as it does not serve it"
        )
    left_out = frozenset(contexts.roots) - served
    if left_out or not selection.outside:
        records = _Cut(records, contexts, left_out, outside=selection.outside).records(findings)
    if options.shard and not served:
        records = replace(records, diagnostics=(*records.diagnostics, _empty(options.shard, selection.found)))
    # The default prim is no robot because the robots are elsewhere.
    implicit = options.implicit_context and contexts.implicit and bool(served)
    gone = _Below(left_out)
    options = replace(
        options,
        implicit_context=implicit,
        enabled=gone.without(options.enabled),
        rates=gone.without(options.rates),
    )
    return ServedRecords(records, options, robots)


def _with_left_out(records: StageRecords) -> StageRecords:
    """Return records of the whole stage, with no more than the roots of the robots that are not composed."""
    if not records.left_out:
        return records
    order = records.order
    contexts = [each for each in records.left_out if isinstance(each, ContextRecord)]
    robots = [each for each in records.left_out if isinstance(each, IsaacRobotRecord)]
    return replace(
        records,
        contexts=tuple(sorted((*records.contexts, *contexts), key=lambda each: order[each.path])),
        isaac_robots=tuple(sorted((*records.isaac_robots, *robots), key=lambda each: order[each.path])),
    )


def _robots(records: StageRecords, contexts: Contexts) -> tuple[RobotRoot, ...]:
    authored = records.isaac_robots if contexts.implicit else records.contexts
    namespaces = {each.path: each.namespace or "" for each in authored}
    return tuple([RobotRoot(root, namespaces.get(root, "")) for root in contexts.roots])


def _empty(shard: str, robots: int) -> Diagnostic:
    there = "there is none" if not robots else f"there {'is' if robots == 1 else 'are'} only {robots}"
    return Diagnostic(
        code="2.1.shard",
        severity="info",
        path="",
        message=f"shard {shard} has no robot, because {there}: this bridge has the world around them alone",
        remedy="use fewer shards",
    )


def _serve_physics(physics: PhysicsRecords, gone: _Below) -> PhysicsRecords:
    """Return the physics records without those of the robots that are left out."""
    return replace(
        physics,
        masses=gone.without(physics.masses),
        geometries=gone.rest(physics.geometries),
        filtered_pairs=gone.rest(physics.filtered_pairs),
        joint_breaks=gone.without(physics.joint_breaks),
        body_solver_attributes=gone.without(physics.body_solver_attributes),
        sensors=gone.without(physics.sensors),
        massless_bodies=gone.without(physics.massless_bodies),
        actuators=gone.rest(physics.actuators),
        tendons=gone.rest(physics.tendons),
        sites=gone.rest(physics.sites),
        wrapped=gone.rest(physics.wrapped),
        keyframes=tuple(path for path in physics.keyframes if not gone(path)),
        diagnostics=gone.rest(physics.diagnostics),
    )


class _Below:
    """Return whether prims are at or below one of several roots that do not nest."""

    def __init__(self, roots: Iterable[str]) -> None:
        self.roots = frozenset(roots)
        self._nearest = Nearest(self.roots)
        self._last = "//"

    def __call__(self, path: str) -> bool:
        # In traversal order a root's records come one after another.
        if path.startswith(self._last):
            return True
        root = self._nearest(path)
        if root:
            self._last = f"{root}/"
        return bool(root)

    def all(self, paths: Sequence[str]) -> bool:
        """Return whether all paths are at or below one of the roots, the same for all."""
        return self(paths[0]) and all(path.startswith(self._last) for path in paths)

    def rest(self, items: Iterable[Any]) -> tuple[Any, ...]:
        """Return the records and diagnostics of other prims."""
        return tuple([each for each in items if not self(each.path)])

    def without(self, by_path: Mapping[str, Item]) -> dict[str, Item]:
        """Return the items of other prims, by path."""
        return {path: item for path, item in by_path.items() if not self(path)}


class _Cut:
    """Take the robots that are left out from the records of a stage."""

    def __init__(
        self,
        records: StageRecords,
        contexts: Contexts,
        left_out: frozenset[str],
        *,
        outside: bool,
    ) -> None:
        self._records = records
        self._contexts = contexts
        self._left_out = left_out
        self._below = _Below(left_out)
        self._serves_outside = outside

    def records(self, findings: DiagnosticCollector) -> StageRecords:
        """Return the records that are left, with a diagnostic for each tie to a robot that is not.

        Args:
            findings: What was found wrong with the contexts of the whole stage.
        """
        records, below = self._records, self._below
        bodies = self._bodies_of_others()
        kept: dict[str, Any] = {name: below.rest(getattr(records, name)) for name in _BY_PATH}
        kept |= {name: self._interfaces(getattr(records, name)) for name in _INTERFACES}
        kept["bodies"] = tuple([each for each in records.bodies if each.path not in bodies])
        ties: list[Diagnostic] = []
        kept["joints"] = self._joints(bodies, ties)
        kept["diagnostics"] = (*kept["diagnostics"], *self._clashes(findings), *ties)
        return replace(
            records,
            **kept,
            xforms=self._xforms(kept),
            physics=self._physics(),
            repeats=self._repeats(),
        )

    def _physics(self) -> PhysicsRecords | None:
        physics = self._records.physics
        if physics is None or not self._left_out:
            return physics
        return _serve_physics(physics, self._below)

    def _interfaces(self, items: Sequence[Record]) -> tuple[Record, ...]:
        root_of = self._contexts.root_of
        rest = self._below.rest(items)
        return rest if self._serves_outside else tuple([each for each in rest if root_of(each.path)])

    def _joints(self, bodies: set[str], ties: list[Diagnostic]) -> tuple[JointRecord, ...]:
        """Return the joints that are kept; one that ties a served robot to another adds a diagnostic to `ties`."""
        kept = []
        for joint in self._records.joints:
            targets = [*(joint.body0 or ()), *(joint.body1 or ())]
            if self._below.all([joint.path, *targets]):
                continue
            others = [target for target in targets if self._below(target) or target in bodies]
            served = [target for target in targets if self._is_served(target)]
            if others and served:
                ties.append(self._tie(joint, others[0], served[0]))
            if not others and (served or not self._below(joint.path)):
                kept.append(joint)
        return tuple(kept)

    def _tie(self, joint: JointRecord, other: str, served: str) -> Diagnostic:
        robot = self._contexts.root_of(other) or other
        return Diagnostic(
            code="2.1.contexts",
            severity="warning",
            path=joint.path,
            message=f"the joint is left out: it holds {served} to {robot}, which this bridge does not serve",
            remedy=f"serve {robot} in the same bridge",
        )

    def _bodies_of_others(self) -> set[str]:
        """Return the bodies below robots that are left out, and those outside that only such robots' joints hold."""
        root_of = self._contexts.root_of
        bodies = [each.path for each in self._records.bodies]
        others = {path for path in bodies if self._below(path)}
        loose = {path for path in bodies if path not in others and not root_of(path)}
        if not loose:
            return others
        nearest = Nearest(loose)
        links = []
        for joint in self._records.joints:
            targets = [*(joint.body0 or ()), *(joint.body1 or ())]
            if len(targets) > 1 and not self._below.all(targets):
                links.append([nearest(target) or root_of(target) for target in targets])
        links = [link for link in links if not loose.isdisjoint(link)]
        theirs = _reached(links, self._left_out.__contains__)
        ours = _reached(links, lambda end: end not in self._left_out and end in self._contexts.by_path)
        return others | (loose & (theirs - ours))

    def _is_served(self, path: str) -> bool:
        root = self._contexts.root_of(path)
        return bool(root) and root not in self._left_out

    def _xforms(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Return where prims are: of other robots only what a record still names, and what is above that."""
        xforms = self._records.xforms
        left = self._below.without(xforms)
        named = {
            target
            for name in ("joints", *_INTERFACES)
            for record in kept[name]
            for target in _targets(record)
            if target in xforms and target not in left
        }
        if not named:
            return left
        named.update([above for path in tuple(named) for above in ancestors(path)])
        return {path: xform for path, xform in xforms.items() if path in left or path in named}

    def _repeats(self) -> dict[str, str]:
        """Return which robots repeat which; the first that is left stands for one that is not."""
        first: dict[str, str] = {}
        repeats: dict[str, str] = {}
        originals = self._records.repeats
        for root in self._contexts.by_path:
            if self._below(root):
                continue
            original = originals.get(root, root)
            stands = first.setdefault(original, root)
            if stands != root:
                repeats[root] = stands
        return repeats

    def _clashes(self, findings: DiagnosticCollector) -> list[Diagnostic]:
        """Return that a robot has the namespace of one that is left out: the topics of both still meet."""
        by_path = self._contexts.by_path
        holders: dict[tuple[str, int | None], str] = {}
        served: set[tuple[str, int | None]] = set()
        hidden: set[str] = set()
        for root in self._contexts.roots:
            key = by_path[root].namespace, by_path[root].domain_id
            holder = holders.setdefault(key, root)
            if root not in self._left_out:
                # The plan of what is left finds a clash of two robots that are served.
                if holder in self._left_out and key not in served:
                    hidden.add(root)
                served.add(key)
        return [each for each in findings.all() if each.code == "2.1.1" and each.path in hidden]


def _reached(links: Sequence[Sequence[str]], starts: Callable[[str], bool]) -> set[str]:
    """Return all ends that links connect, over any number of them, to one where `starts` is true."""
    reached = {end for link in links for end in link if starts(end)}
    count = -1
    while count != len(reached):
        count = len(reached)
        for link in links:
            if not reached.isdisjoint(link):
                reached.update(link)
    return reached


def _targets(record: Record) -> Iterable[str]:
    for value in (getattr(record, name) for name in type(record).__dataclass_fields__):
        if isinstance(value, tuple):
            yield from (each for each in value if isinstance(each, str) and each.startswith("/"))

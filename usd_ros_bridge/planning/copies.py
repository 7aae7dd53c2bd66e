"""Copies: robots that are the same but for where they stand and what they are called, so that one plan serves all.

A fleet is often one robot, referenced many times. Whatever could make a robot differ from the one that it repeats, or
tie it to anything outside itself, keeps it from being a copy: it is then planned like any other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import takewhile
from typing import Any, Final

import numpy as np

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.records import ContextRecord, JointRecord, Record, attribute_fields
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.model.transforms import FloatArray, relative
from usd_ros_bridge.planning.contexts import Contexts, plan_contexts
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.stage_index import StageIndex, index_stage

TOLERANCE: Final = 1e-9
"""Metres, scales and components of unit quaternions by which poses of equal robots differ at most: rounding, as they
stand at different places."""

MAX_SHAPES: Final = 16
"""How many poses of otherwise equal robots are told apart; copies of further ones are planned one by one."""

_LISTS: Final = (
    "contexts", "topics", "services", "actions", "frames", "controllers", "bodies", "articulation_roots", "joints",
    "isaac_robots", "isaac_links", "isaac_joints", "isaac_sites", "cameras",
    "plain_links", "actuators",
)  # fmt: skip
"""Collections of StageRecords that planning reads a robot from."""

_LAST: Final = 1 << 60

Span = tuple[int, int]


class _Tied(Exception):  # noqa: N818 (never leaves this module: it says why a robot is planned alone)
    """The robot cannot be a copy or be copied. `target` is a prim outside it that it names, "" for other reasons."""

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self.target = target


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """A stage with robots that repeat others.

    Attributes:
        index: The whole stage.
        contexts: Its contexts.
        originals: Root of the robot that it repeats by root of the copy, in traversal order.
        distinct: The records without those of copies.
    """

    index: StageIndex
    contexts: Contexts
    originals: Mapping[str, str]
    distinct: StageRecords


def find_fleet(records: StageRecords, options: PlanOptions) -> Fleet | None:
    """Returns which robots repeat which, None where none does.

    Raises:
        OptionError: `options.namespace` is no valid namespace.
    """
    if len(records.contexts) < 2 or not _has_repeated_joints(records.joints):
        return None
    # Planning the robots that are left reports what is wrong.
    findings = Findings()
    contexts = plan_contexts(records, options, findings)
    barred = {contexts.root_of(finding.path) for finding in findings.all()}
    # What the caller decides for one robot's interfaces, it decides for that robot alone.
    barred |= {contexts.root_of(path) for path in (*options.enabled, *options.rates)}
    index = index_stage(records, Findings())
    spans = _spans(records, contexts.roots)
    originals = _Search(index, contexts, spans, barred).originals()
    if not originals:
        return None
    return Fleet(index, contexts, originals, _without(records, originals, spans))


def _has_repeated_joints(joints: Sequence[JointRecord]) -> bool:
    return len({joint.specs for joint in joints if joint.specs}) < sum(1 for joint in joints if joint.specs)


# --- Which records are whose --------------------------------------------------------------------------------------


def _spans(records: StageRecords, roots: Sequence[str]) -> dict[str, dict[str, Span]]:
    """Returns for each collection which records are at or below each root: all are in traversal order."""
    order = records.order
    spans = {"xforms": _spans_of(list(records.xforms), roots, order)}
    for name in _LISTS:
        spans[name] = _spans_of([record.path for record in getattr(records, name)], roots, order)
    return spans


def _spans_of(paths: Sequence[str], roots: Sequence[str], order: Mapping[str, int]) -> dict[str, Span]:
    result: dict[str, Span] = {}
    count = len(paths)
    if not count:
        return dict.fromkeys(roots, (0, 0))
    end = 0
    for root in roots:
        below = root + "/"
        first = end
        # Most often one robot's records come right after another's.
        if first < count and paths[first] != root and not paths[first].startswith(below):
            first = bisect_left(
                paths, order.get(root, _LAST), lo=end, key=lambda path: order.get(path, _LAST)
            )
        end = first
        while end < count and (paths[end].startswith(below) or paths[end] == root):
            end += 1
        result[root] = (first, end)
    return result


def _without(
    records: StageRecords, copies: Iterable[str], spans: Mapping[str, Mapping[str, Span]]
) -> StageRecords:
    """Returns the records but those of `copies`, which are in traversal order."""
    left: dict[str, Any] = {}
    for name in (*_LISTS, "xforms"):
        items = list(records.xforms.items()) if name == "xforms" else list(getattr(records, name))
        for root in reversed(tuple(copies)):
            first, end = spans[name][root]
            del items[first:end]
        left[name] = dict(items) if name == "xforms" else tuple(items)
    return replace(records, **left)


# --- What a robot is, wherever it stands --------------------------------------------------------------------------


@cache
def _relationships(record_type: Any) -> tuple[str, ...]:
    return tuple(name for name, spec in attribute_fields(record_type) if spec.type_name == "rel")


@cache
def _values(record_type: Any) -> tuple[str, ...]:
    """The fields of a record that hold neither paths nor what makes a copy another robot."""
    apart = {"path", "specs", *_relationships(record_type)}
    if record_type is ContextRecord:
        apart.add("namespace")
    return tuple(field.name for field in fields(record_type) if field.name not in apart)


class _Search:
    """Looks for robots that repeat others."""

    def __init__(
        self,
        index: StageIndex,
        contexts: Contexts,
        spans: Mapping[str, Mapping[str, Span]],
        barred: Iterable[str],
    ) -> None:
        self._index = index
        self._contexts = contexts
        self._spans = spans
        self._barred = set(barred)
        self._paths = list(index.records.xforms)
        self._signatures_below: dict[str, tuple[Any, ...]] = {}
        self._tied_below: set[str] = set()

    def originals(self) -> dict[str, str]:
        """Returns the root of the robot that it repeats by root of the copy, in traversal order."""
        self._bar()
        alike: dict[Any, list[str]] = {}
        for root in self._contexts.roots:
            if root in self._barred:
                continue
            try:
                alike.setdefault(self._signature(root), []).append(root)
            except _Tied as tied:
                self._barred.add(root)
                if tied.target:
                    self._barred.add(self._contexts.root_of(tied.target))
        found: dict[str, str] = {}
        for roots in alike.values():
            free = [root for root in roots if root not in self._barred]
            for original, *copies in self._standing_alike(free):
                found.update(dict.fromkeys(copies, original))
        return {root: found[root] for root in self._contexts.roots if root in found}

    def _bar(self) -> None:
        """Bars robots that something outside them names, that samples move, or whose names others might have."""
        records, contexts = self._index.records, self._contexts
        for name in _LISTS:
            end = 0
            for first, after in self._spans[name].values():
                self._bar_targets(getattr(records, name)[end:first])
                end = after
            self._bar_targets(getattr(records, name)[end:])
        for track in (*records.pose_tracks, *records.value_tracks):
            self._barred.add(contexts.root_of(track.path))
        for collection, members in records.collections.items():
            self._barred.update(contexts.root_of(path) for path in (collection.partition(".")[0], *members))
        by_root = [contexts.by_path[root] for root in contexts.roots]
        counts = Counter((context.namespace, context.domain_id) for context in by_root)
        for context in by_root:
            if context.namespace == "/" or counts[context.namespace, context.domain_id] > 1:
                self._barred.add(context.path)

    def _bar_targets(self, outside: Iterable[Record]) -> None:
        for record in outside:
            record_type: Any = record.__class__
            for name in _relationships(record_type):
                for target in getattr(record, name) or ():
                    self._barred.add(self._contexts.root_of(target))

    def _signature(self, root: str) -> tuple[Any, ...]:
        """Returns what two robots have in common if and only if one repeats the other, poses apart.

        Raises:
            _Tied: The robot cannot be a copy or be copied.
        """
        index = self._index
        if index.carrier_at(root) not in ("", root) or root in index.animated:
            raise _Tied
        if index.records.xforms[root].kept_name:
            raise _Tied
        self._check_names(root)
        first, end = self._spans["xforms"][root]
        parts: list[Any] = [end - first]
        for name in _LISTS:
            first, end = self._spans[name][root]
            of_robot = getattr(index.records, name)[first:end]
            own = list(takewhile(lambda record: record.path == root, of_robot))
            parts.append(len(of_robot) - len(own))
            for record in own:
                parts += [record.__class__, *[getattr(record, name) for name in _values(record.__class__)]]
                parts += self._targets(record, root)
        # What is below the root was compared when it was read, or is compared here.
        repeated = index.records.repeats.get(root, root)
        if repeated in self._tied_below:
            raise _Tied
        if repeated not in self._signatures_below:
            self._tied_below.add(repeated)
            self._signatures_below[repeated] = self._signature_below(repeated)
            self._tied_below.remove(repeated)
        return (*parts, self._signatures_below[repeated])

    def _signature_below(self, root: str) -> tuple[Any, ...]:
        """Returns the same of a robot's prims below its root."""
        index, length = self._index, len(root)
        self._check_joints(root)
        first, end = self._spans["xforms"][root]
        paths = self._paths[first:end]
        xforms = [index.records.xforms[path] for path in paths]
        if any(xform.animated or xform.resets_stack for xform in xforms):
            raise _Tied
        parts: list[Any] = [
            tuple([path[length:] for path in paths]),
            tuple([xform.type_name for xform in xforms]),
            tuple([xform.kept_name for xform in xforms[1:]]),
        ]
        for name in _LISTS:
            first, end = self._spans[name][root]
            rest = [record for record in getattr(index.records, name)[first:end] if record.path != root]
            specs = tuple([record.specs for record in rest])
            if 0 in specs:
                raise _Tied
            parts += [specs, tuple([record.path[length:] for record in rest])]
            for record in rest:
                parts += self._targets(record, root)
        parts.append(self._solver_targets(root))
        return tuple(parts)

    def _targets(self, record: Record, root: str) -> list[tuple[str, ...] | None]:
        record_type: Any = record.__class__
        below, length = root + "/", len(root)
        return [
            targets and tuple([_suffix(path, root, below, length) for path in targets])
            for targets in [getattr(record, name) for name in _relationships(record_type)]
        ]

    def _check_joints(self, root: str) -> None:
        first, end = self._spans["joints"][root]
        for joint in self._index.records.joints[first:end]:
            if joint.path == root:
                raise _Tied
            # Where an empty end was meant may depend on where the robot stands (see RestSolver).
            to_world = not (joint.body0 and joint.body1)
            if to_world and (joint.type_name != "PhysicsFixedJoint" or root in self._index.bodies):
                raise _Tied

    def _check_names(self, root: str) -> None:
        """Absolute names are the same in every copy; faults of contexts name the prim."""
        records = self._index.records
        for name in ("topics", "services", "actions"):
            first, end = self._spans[name][root]
            if any((record.name or "").startswith("/") for record in getattr(records, name)[first:end]):
                raise _Tied
        first, end = self._spans["contexts"][root]
        for record in records.contexts[first:end]:
            context = self._contexts.by_path[record.path]
            nested = record.path != root and (record.namespace or "").startswith("/")
            if nested or context.fault or context.unserved:
                raise _Tied
        first, end = self._spans["isaac_links"][root]
        if any(record.path == root for record in records.isaac_links[first:end]):
            raise _Tied

    def _solver_targets(self, root: str) -> tuple[Any, ...]:
        first, end = self._spans["joints"][root]
        below, length = root + "/", len(root)
        found: list[Any] = []
        for joint in self._index.records.joints[first:end]:
            for name, value in joint.solver_attributes.items():
                if isinstance(value, tuple) and value and isinstance(value[0], str):
                    found.append((name, tuple([_suffix(text, root, below, length) for text in value])))
                elif isinstance(value, str) and value.startswith("/"):
                    raise _Tied
        return tuple(found)

    def _standing_alike(self, roots: Sequence[str]) -> Iterable[list[str]]:
        """Yields groups of robots whose prims are at the same places relative to their roots."""
        left = list(roots)
        for _ in range(MAX_SHAPES):
            if len(left) < 2:
                return
            poses, scales, usable = self._poses(left)
            same = (
                usable.all(axis=-1)
                & (np.abs(poses[..., :3] - poses[:1, :, :3]) <= TOLERANCE).all(axis=(1, 2))
                & (np.abs(scales - scales[:1]) <= TOLERANCE).all(axis=(1, 2))
                & (_turns(poses[..., 3:], poses[:1, :, 3:]) <= TOLERANCE).all(axis=1)
            )
            yield [root for root, is_same in zip(left, same.tolist(), strict=True) if is_same] or left[:1]
            left = [root for root, is_same in zip(left[1:], same[1:].tolist(), strict=True) if not is_same]

    def _poses(self, roots: Sequence[str]) -> tuple[FloatArray, FloatArray, Any]:
        """Returns `root_from_prim` (R, N, 7), world scales (R, N, 3) and which are usable (R, N), roots first."""
        poses = self._index.poses
        rows = np.array([range(*self._spans["xforms"][root]) for root in roots])
        world = poses.world_from_prim[rows]
        return relative(world[:, :1], world), poses.scale[rows], poses.usable[rows]


def _turns(first: FloatArray, second: FloatArray) -> FloatArray:
    """Returns by how much components of unit quaternions differ; q and -q are one rotation."""
    result: FloatArray = np.minimum(np.abs(first - second).max(axis=-1), np.abs(first + second).max(axis=-1))
    return result


def _suffix(path: str, root: str, below: str, length: int) -> str:
    """Returns where below the root a target is.

    Raises:
        _Tied: It is not.
    """
    if path.startswith(below) or path == root:
        return path[length:]
    raise _Tied(path)

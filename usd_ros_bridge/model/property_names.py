"""Property names: which names the bridge's schemas have, whose they are, and what a misspelt one leads to.

The names are those of the records, which the reader iterates over, and of the sensors' attributes: a new field is known
here without more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from usd_ros_bridge.errors import nearest, question_about
from usd_ros_bridge.model import records
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS
from usd_ros_bridge.model.physics_records import MjcActuatorRecord, MjcTendonRecord, NewtonActuatorRecord
from usd_ros_bridge.model.records import AttributeSpec, attribute_fields
from usd_ros_bridge.model.sensors import SENSOR_ATTRIBUTES

ROS: Final = "ros:"
OWN: Final = "usd_ros_bridge:"
ISAAC: Final = "isaac:"
CHECKED: Final = (ROS, OWN, ISAAC)
"""Namespaces whose names are checked. Isaac's has names that nothing here reads: only near misses count there."""

TOPIC: Final = "RosTopicAPI"
JOINT: Final = "a joint of UsdPhysics"
CAMERA: Final = "Camera"
MARKER: Final = "RosControlIntegratedAPI"
"""A marker that the controllers' schemas include; nothing is read of it."""

ROS_RECORDS: Final[Mapping[str, Any]] = {
    "RosContextAPI": records.ContextRecord,
    TOPIC: records.TopicRecord,
    "RosServiceAPI": records.ServiceRecord,
    "RosActionAPI": records.ActionRecord,
    "RosFrameAPI": records.FrameRecord,
    **{name: each.record for name, each in CONTROLLER_SCHEMAS.items() if each.record},
}
"""Record type by schema of the Ros family."""

WANTED: Final[Mapping[str, str]] = {
    "RosContextAPI": "the prim is no context",
    TOPIC: "there is no topic",
    "RosServiceAPI": "there is no service",
    "RosActionAPI": "there is no action",
    "RosFrameAPI": "the prim has no frame by it",
    JOINT: "no joint has this name",
    CAMERA: "no camera has them",
}
"""What is missing without a schema, or a prim type; of other schemas, a controller."""

WITHOUT: Final[Mapping[str, str]] = {
    "ros:context:namespace": "the namespace is empty because of it",
    "ros:context:domain_id": "the domain of the bridge is used",
    "ros:joint:name": "the joint has the name of its prim",
    "ros:frame:id": "the frame has the name of its prim",
    "ros:topic:override_frame_id": "messages name the frame at the prim",
}
"""What follows where a property without a fallback is not authored."""

_FAMILY: Final = re.compile(r"^ros|api$", re.IGNORECASE)
_ROS_TOKEN: Final = re.compile(r"[Rr][Oo][Ss](?=[A-Z_:])")
_SHORTEST: Final = 4
"""Letters of a part in which a typing error can be distinguished from another name."""


@dataclass(frozen=True, slots=True)
class KnownProperty:
    """A property that the bridge reads.

    Attributes:
        owners: Applied API schemas, or prim types, that have it; empty where it counts on any prim.
        without: What follows where it is not authored, "" where the schema's findings say it.
    """

    owners: tuple[str, ...]
    without: str


def _without(spec: AttributeSpec) -> str:
    if spec.fallback is None or spec.fallback == "":
        return WITHOUT.get(spec.name, "")
    shown = str(spec.fallback).lower() if isinstance(spec.fallback, bool) else spec.fallback
    return f"the default of {spec.name}, {shown}, is used"


def _known() -> dict[str, KnownProperty]:
    found: dict[str, KnownProperty] = {}
    owners: list[tuple[str, Any]] = [
        *ROS_RECORDS.items(),
        (JOINT, records.JointRecord),
        (CAMERA, records.CameraRecord),
        *(
            ("", record_type)
            for record_type in (
                records.IsaacRobotRecord,
                records.IsaacLinkRecord,
                records.IsaacJointRecord,
                records.IsaacSiteRecord,
            )
        ),
    ]
    for owner, record_type in owners:
        for _, spec in attribute_fields(record_type):
            for name in (spec.name, *spec.aliases):
                if name.startswith(CHECKED):
                    found[name] = KnownProperty((owner,) if owner else (), _without(spec))
    for group, attributes in SENSOR_ATTRIBUTES.items():
        group_owners = () if group == "georeference" else (TOPIC, CAMERA) if group == "camera" else (TOPIC,)
        for attribute in attributes.split():
            name = f"{OWN}{group}:{attribute}"
            found[name] = KnownProperty(group_owners, f"the default of {name} is used")
    found[f"{OWN}physics:massless_bodies"] = KnownProperty((), "the option massless_bodies counts")
    return found


KNOWN: Final[Mapping[str, KnownProperty]] = _known()
"""By USD name: every property in the checked namespaces that the bridge reads."""

SOLVERS: Final = ("mjc:", "newton:")
"""Namespaces of prims that are actuators or tendons, where only near misses count. Planning checks them elsewhere."""

OF_ACTUATORS: Final = frozenset(
    name
    for record_type in (MjcActuatorRecord, MjcTendonRecord, NewtonActuatorRecord)
    for _, spec in attribute_fields(record_type)
    for name in (spec.name, *spec.aliases)
)
"""Properties of prims that are actuators or tendons."""

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    group: tuple(name for name in KNOWN if name.startswith(group))
    for group in dict.fromkeys(":".join(name.split(":")[:2]) + ":" for name in KNOWN if name.count(":") > 1)
}
"""Names by their first two parts, `ros:topic:` for one."""

SCHEMA_NAMES: Final = (*ROS_RECORDS, MARKER)


@cache
def suggestions(name: str) -> tuple[str, ...]:
    """Return the known names that a misspelt property may stand for, the most similar first.

    Names of the same group come before those of a group that is alike, and these before all others: the long prefix
    that most names have in common would make them all alike.
    """
    if name.startswith(SOLVERS):
        return near_misses(name, OF_ACTUATORS)
    if name.startswith(ISAAC):
        return near_misses(name, tuple(each for each in KNOWN if each.startswith(ISAAC)))
    group = group_of(name)
    rest = name[len(group) :]
    if group in _GROUPS:
        if close := near_misses(name, _GROUPS[group]):
            return close
        inside = {each[len(group) :]: each for each in _GROUPS[group]}
        parts = [each for each in inside if rest and each.endswith((f":{rest}", f"_{rest}"))]
        return tuple(inside[each] for each in parts or nearest(rest, inside))
    for other in nearest(group, _GROUPS):
        inside = {each[len(other) :]: each for each in _GROUPS[other]}
        if found := nearest(rest, inside, count=1):
            return (inside[found[0]],)
    return tuple(nearest(name, KNOWN, count=1))


def near_misses(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known name that differs from `name` by one typing error in one part, or by its case.

    For namespaces of others, too, which have more names than are known here: names that are merely alike, such as
    `minVelocityIterationCount`, may be theirs.
    """
    parts = name.split(":")
    best: list[tuple[bool, bool, str]] = []
    for candidate in known:
        others = candidate.split(":")
        if len(parts) != len(others):
            continue
        apart = [(mine, theirs) for mine, theirs in zip(parts, others, strict=True) if mine != theirs]
        if len(apart) != 1:
            continue
        mine, theirs = apart[0]
        is_case = mine.lower() == theirs.lower()
        if is_case or _is_one_edit(mine, theirs):
            best.append((not is_case, mine[:1] != theirs[:1], candidate))
    return tuple(candidate for *_, candidate in sorted(best)[:1])


def _is_one_edit(one: str, other: str) -> bool:
    """Return whether a letter is missing, added, wrong or swapped with the next. A number is no wrong letter."""
    if min(len(one), len(other)) < _SHORTEST:
        return False
    at = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), -1)
    mine, theirs = (one[at:], other[at:]) if at >= 0 else (one[len(other) :], other[len(one) :])
    return (
        (mine[1:] == theirs[1:] and not (mine[:1] + theirs[:1]).isdigit() and len(mine) == len(theirs))
        or mine[1:] == theirs
        or mine == theirs[1:]
        or (mine[1::-1] == theirs[:2] and mine[2:] == theirs[2:])
    )


@cache
def schema_suggestion(token: str) -> str:
    """Return the schema of the Ros family that an applied token may stand for, "" if it is like none."""
    cores = {_core(each): each for each in SCHEMA_NAMES}
    return next((cores[each] for each in nearest(_core(token.partition(":")[0]), cores, count=1)), "")


def _core(schema: str) -> str:
    """Return a schema's name without what all names have."""
    return _FAMILY.sub("", schema)


def is_ros_token(token: str) -> bool:
    """Return whether an applied token is of the Ros family by its beginning, in any case."""
    return _ROS_TOKEN.match(token) is not None


def question(name: str) -> str:
    """Return the remedy for an unknown property: a question, or what its group has."""
    if found := suggestions(name):
        return question_about(found)
    group = group_of(name)
    if group in _GROUPS:
        return f"{group} has {', '.join(each[len(group) :] for each in _GROUPS[group])}"
    return "leave it out, or correct the name"


def group_of(name: str) -> str:
    """Return the first two parts of a name, `ros:topic:` for one."""
    return ":".join(name.split(":")[:2]) + ":"


def owners_of(name: str) -> tuple[str, ...]:
    """Return the schemas and prim types that have a property, or others of its group; none if it has no owners."""
    known = KNOWN.get(name)
    if known is None:
        known = KNOWN[_GROUPS[group_of(name)][0]] if group_of(name) in _GROUPS else None
    return () if known is None else known.owners

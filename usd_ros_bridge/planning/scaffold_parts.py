"""Parts of a scaffold: the order of joints, Xforms that are links, prim names that are free, properties of schemas."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from usd_ros_bridge.model.plan import JointPlan, RobotPlan
from usd_ros_bridge.model.records import Record, attribute_fields
from usd_ros_bridge.model.scaffold import PlainXform, Property
from usd_ros_bridge.planning.names import holds_geometry
from usd_ros_bridge.planning.paths import is_below, parent_path, prim_name

_ROOT_LINK = re.compile(r"(?<![a-z])(link|base|footprint|frame|root|body)(?![a-z])", re.IGNORECASE)
_CORE = ("ros:context:", "ros:topic:", "ros:service:", "ros:action:", "ros:frame:")
"""Schemas whose attributes assets author without `uniform`, as the REP shows them."""


def in_tree_order(robot: RobotPlan) -> list[JointPlan]:
    """Returns a robot's joints from the base outwards, one limb after another, whatever order the asset has them in."""
    below: dict[str, list[int]] = defaultdict(list)
    children = {edge.child_path for edge in robot.edges}
    for number, edge in enumerate(robot.edges):
        below[edge.parent_path].append(number)
    tops = dict.fromkeys(edge.parent_path for edge in robot.edges if edge.parent_path not in children)
    found: list[JointPlan] = []
    pending = [number for top in reversed(tops) for number in reversed(below[top])]
    while pending:
        edge = robot.edges[pending.pop()]
        found += [robot.joints[joint] for joint in edge.joints]
        pending += reversed(below[edge.child_path])
    return found


def is_link(xform: PlainXform, bodies: set[str]) -> bool:
    """Whether an Xform is to be a frame: in a body, or above one under the name of a link."""
    if holds_geometry(prim_name(xform.path)):
        return False
    parent = parent_path(xform.path)
    while parent:
        if parent in bodies:
            return True
        parent = parent_path(parent)
    above = any(is_below(body, xform.path) for body in bodies)
    return above and bool(_ROOT_LINK.search(prim_name(xform.path)))


def free_name(name: str, taken: frozenset[str]) -> str:
    """Returns a prim name that is not taken: `name`, else one that begins with `Ros`."""
    candidate = name
    number = 2
    if candidate in taken:
        candidate = f"Ros{name}"
    while candidate in taken:
        candidate = f"Ros{name}{number}"
        number += 1
    return candidate


def properties_of(record: type[Record], **values: Any) -> tuple[Property, ...]:
    """Returns properties by the fields of the record that reads them, in its order."""
    specs = dict(attribute_fields(record))
    unknown = values.keys() - specs.keys()
    assert not unknown, unknown
    return tuple(
        Property(
            name=spec.name,
            type_name=spec.type_name,
            value=values[field],
            uniform=spec.name.startswith("ros:") and not spec.name.startswith(_CORE),
        )
        for field, spec in specs.items()
        if field in values
    )

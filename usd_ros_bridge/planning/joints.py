"""Joints as authored to joints that can be edges: their ends, their kinds, and what is wrong with them.

REP 0158 section 1.3: the tree comes from the relationships alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import JointType
from usd_ros_bridge.model.records import JointRecord, fallback
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.poses import MAX_MAGNITUDE
from usd_ros_bridge.planning.stage_index import StageIndex

KINDS: dict[str, JointType] = {
    "PhysicsRevoluteJoint": "revolute",
    "PhysicsPrismaticJoint": "prismatic",
    "PhysicsFixedJoint": "fixed",
    "PhysicsSphericalJoint": "spherical",
    "PhysicsDistanceJoint": "distance",
    "PhysicsJoint": "generic",
}
_PARALLEL = 1e-4
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
"""Properties without which nobody knows what a joint connects, and where."""

_WITH_AXIS = frozenset({"revolute", "prismatic", "spherical"})


@dataclass(frozen=True, slots=True)
class Joint:
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


def read_joints(index: StageIndex, findings: Findings, *, excluded: bool = False) -> list[Joint]:
    """Returns the joints that can be edges, in traversal order.

    Args:
        index: The stage.
        findings: Takes what is wrong with them.
        excluded: Give those that are excluded from articulations instead: they close loops.
    """
    joints = []
    for record in index.records.joints:
        if excluded and not record.exclude_from_articulation:
            continue
        joint = _read_joint(record, index, findings, excluded=excluded)
        if joint is not None:
            joints.append(joint)
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


def _read_joint(
    record: JointRecord, index: StageIndex, findings: Findings, *, excluded: bool
) -> Joint | None:
    kind = KINDS.get(record.type_name)
    if kind is None:
        findings.warning(
            "1.3.joint.type",
            record.path,
            f"{quoted(record.type_name)} is no joint of UsdPhysics; it makes no edge",
            f"use one of {', '.join(KINDS)}",
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
    target0 = _target(record, "physics:body0", record.body0, index, findings)
    target1 = _target(record, "physics:body1", record.body1, index, findings)
    if target0 is None or target1 is None:
        return None
    body0, body1 = index.body_at(target0), index.body_at(target1)
    if body0 == body1:
        what = f"both ends are on {body0}" if body0 else "neither end is on a rigid body"
        findings.error(
            "1.3.joint.target",
            record.path,
            f"{what}; the joint makes no edge",
            "name two prims, at least one of them a rigid body",
            attribute="physics:body1",
        )
        return None
    return Joint(record.path, record, kind, target0, target1, body0, body1)


def _target(
    record: JointRecord, name: str, targets: tuple[str, ...] | None, index: StageIndex, findings: Findings
) -> str | None:
    """Returns the target, "" for the world, None where it does not exist."""
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
        findings.error(
            "1.3.joint.target",
            record.path,
            f"{quoted(targets[0])} does not exist; the joint makes no edge",
            "name a prim of the stage, or nothing for the world",
            attribute=name,
        )
        return None
    return targets[0]


def repeats(joint: Joint, other: Joint) -> bool:
    """Returns whether two joints between the same bodies are one freedom authored twice (the hinges of a door)."""
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


def local_frames(joints: Sequence[Joint]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Returns authored positions (J, 3) and rotations (J, 4) of both ends, fallbacks applied, as authored."""
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
    """Returns one record of each that have the same values, and for every record given, which of them it equals."""
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


def _usable_frames(joints: Sequence[Joint]) -> NDArray[np.bool_]:
    usable = np.ones(len(joints), dtype=bool)
    for array in local_frames(joints):
        usable &= np.logical_and.reduce(np.abs(array) <= MAX_MAGNITUDE, axis=-1)
        if array.shape[-1] == 4:
            usable &= np.linalg.norm(array, axis=-1) > 1e-6
    return usable

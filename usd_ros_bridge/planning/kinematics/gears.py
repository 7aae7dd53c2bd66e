"""Gears and racks of PhysX's schema as mimic rules: one of their two joints follows the other one.

PhysX constrains the velocities of two bodies about the axes of their joints. A rule between the joints is the same for
a fixed carrier of the gears, and is what real gears do on a moving one.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.records import GearRecord, RackRecord
from usd_ros_bridge.planning.kinematics.dofs import FreeAxis
from usd_ros_bridge.planning.kinematics.joint_graph import TreeJoint
from usd_ros_bridge.planning.kinematics.rest_pose import RestSolver
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.spatial.transforms import compose, rotate

_CLOSE = 1e-3
"""m, or m^2: below it PhysX does not look at which side of a pinion a rack is."""


@dataclass(frozen=True, slots=True)
class _End:
    """One of the two joints of a gear.

    Attributes:
        joint: The joint.
        row: Its row in the arrays of all joints.
        motion: Its only degree of freedom.
        sign: 1 where its body1 is the gear's body, -1 where its body0 is.
    """

    joint: TreeJoint
    row: int
    motion: FreeAxis
    sign: float


@dataclass(frozen=True, slots=True)
class GearRule:
    """A rule between two joints: `follower = multiplier * leader + offset`, rad or m.

    Attributes:
        path: The gear.
        follower: Joint that follows.
        leader: Joint that it follows.
        multiplier: Dimensionless, rad/m or m/rad.
        offset: rad or m.
    """

    path: str
    follower: str
    leader: str
    multiplier: float
    offset: float


def plan_gears(
    joints: Sequence[TreeJoint],
    motions: Sequence[Sequence[FreeAxis]],
    solver: RestSolver,
    index: StageIndex,
    findings: DiagnosticCollector,
) -> tuple[GearRule, ...]:
    """Return the rules of all gears. Where only the second joint of a gear has a drive, the first one follows.

    Args:
        joints: All joints that act.
        motions: Degrees of freedom of each.
        solver: Their frames and positions at rest, from which gears turn.
        index: The stage.
        findings: Takes gears that connect nothing.
    """
    if not index.records.gears:
        return ()
    rows = {joint.path: row for row, joint in enumerate(joints)}
    rules: list[GearRule] = []
    followers: set[str] = set()
    for record in index.records.gears:
        if record.enabled is False:
            continue
        bodies = {index.body_at(each) for each in (*(record.body0 or ()), *(record.body1 or ()))} - {""}
        ends = [
            _end(targets, motion, bodies, rows, joints, motions) for targets, motion in _joints_of(record)
        ]
        first, second = (end if isinstance(end, _End) else None for end in ends)
        fault = next((end for end in ends if isinstance(end, str)), "")
        if first is not None and second is not None and first.row == second.row:
            fault = f"{quoted(first.joint.path)} is both of its joints"
        ratio = _ratio(record, first, second, solver, index)
        if not fault and not (math.isfinite(ratio) and ratio):
            fault = f"its ratio {quoted(_authored_ratio(record))} cannot be used"
        if fault or first is None or second is None:
            findings.error(
                "1.3.gear",
                record.path,
                f"{fault}; it connects nothing",
                "name two movable joints that share a body with this joint each, and a ratio other than 0",
                attribute=_RATIOS[type(record)] if "ratio" in fault else "",
            )
            continue
        swap = second.joint.path in followers or (second.motion.driven and not first.motion.driven)
        leader, follower, multiplier = (second, first, 1.0 / ratio) if swap else (first, second, ratio)
        if _can_follow(follower, followers, record.path, findings):
            followers.add(follower.joint.path)
            start, end = (float(solver.positions[each.row][0]) for each in (leader, follower))
            rule = follower.joint.path, leader.joint.path, multiplier, end - multiplier * start
            rules.append(GearRule(record.path, *rule))
    return tuple(rules)


def _can_follow(follower: _End, followers: Container[str], gear: str, findings: DiagnosticCollector) -> bool:
    """Return whether a joint is free to follow; report why it is not, or what is lost."""
    path = follower.joint.path
    if path in followers:
        findings.error(
            "1.3.gear",
            gear,
            "other gears move both of its joints already; it connects nothing",
            "leave one gear of the circle out",
        )
        return False
    if follower.motion.driven:
        findings.warning(
            "1.3.gear",
            gear,
            f"both of its joints have drives: that of {path}, which follows, does not act",
            "drive one of them",
        )
    return True


_RATIOS: Mapping[type[GearRecord | RackRecord], str] = {
    GearRecord: "physics:gearRatio",
    RackRecord: "physics:ratio",
}


_KINDS: Mapping[str, str] = {"rot": "turns about", "trans": "slides along"}


def _joints_of(record: GearRecord | RackRecord) -> tuple[tuple[Sequence[str], str], ...]:
    """Return what names each of a gear's joints, and the beginning of the degree of freedom that it must have."""
    if isinstance(record, GearRecord):
        return (record.hinge0 or (), "rot"), (record.hinge1 or (), "rot")
    return (record.prismatic or (), "trans"), (record.hinge or (), "rot")


def _authored_ratio(record: GearRecord | RackRecord) -> float:
    value = record.gear_ratio if isinstance(record, GearRecord) else record.ratio
    return 1.0 if value is None else value


def _end(
    targets: Sequence[str],
    motion: str,
    bodies: Container[str],
    rows: Mapping[str, int],
    joints: Sequence[TreeJoint],
    motions: Sequence[Sequence[FreeAxis]],
) -> _End | str:
    """Return one of a gear's joints, or what is wrong with it.

    Args:
        targets: What names it.
        motion: Beginning of the degree of freedom that it must have.
        bodies: The gear's.
        rows: Row of each joint by path.
        joints: All joints.
        motions: Degrees of freedom of each.
    """
    target = targets[0] if targets else ""
    row = rows.get(target, -1)
    if row < 0 or len(motions[row]) != 1 or not motions[row][0].axis.startswith(motion):
        return f"{quoted(target)} is no movable joint that {_KINDS[motion]} one axis"
    joint = joints[row]
    # As PhysX: the first end that is a body of the gear.
    sign = -1.0 if joint.body0 in bodies else 1.0 if joint.body1 in bodies else 0.0
    if not sign:
        return f"no body of {quoted(target)} is its physics:body0 or physics:body1"
    return _End(joint, row, motions[row][0], sign)


def _ratio(
    record: GearRecord | RackRecord,
    first: _End | None,
    second: _End | None,
    solver: RestSolver,
    index: StageIndex,
) -> float:
    """Return the rate of the second joint by that of the first one, rad or m."""
    if first is None or second is None:
        return 0.0
    signs = first.sign * second.sign
    if isinstance(record, GearRecord):
        return -_authored_ratio(record) * signs
    # Degrees by stage unit; how the pinion turns depends on which side of it the rack is.
    ratio = math.radians(_authored_ratio(record)) / index.units.meters
    return ratio * signs * _side(second, first, solver, index)


def _side(hinge: _End, slide: _End, solver: RestSolver, index: StageIndex) -> float:
    """Return in which direction of its axis a rack moves where its pinion turns in the positive one, 1 or -1."""
    poses, axes = [], []
    for end in (hinge, slide):
        frames = solver.frames.base0_from_joint if end.sign < 0.0 else solver.frames.base1_from_joint
        body = end.joint.body0 if end.sign < 0.0 else end.joint.body1
        pose = compose(index.poses.world_from_prim[index.poses.row(body)], frames[end.row])
        poses.append(pose[:3])
        axes.append(rotate(pose[3:], np.eye(3)["XYZ".index(end.motion.axis[-1])]))
    speed = np.cross(axes[0], poses[1] - poses[0])
    along = float(speed @ axes[1])
    return math.copysign(1.0, along) if abs(along) > _CLOSE else 1.0

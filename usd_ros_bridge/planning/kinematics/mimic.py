"""Mimic joints of the solvers' schemas, as `position = multiplier * leader + offset` in radians and metres."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import MimicPlan
from usd_ros_bridge.model.records import DofAxis, JointRecord
from usd_ros_bridge.planning.kinematics.dialects import Ignored, report_ignored, same
from usd_ros_bridge.planning.kinematics.dofs import AXES, FreeAxis
from usd_ros_bridge.planning.kinematics.gears import GearRule
from usd_ros_bridge.planning.kinematics.joint_graph import TreeJoint
from usd_ros_bridge.planning.kinematics.solver_attributes import motion_unit, number
from usd_ros_bridge.planning.stage_index import Units


@dataclass(frozen=True, slots=True)
class MimicRule:
    """A rule as authored: `follower = multiplier * leader + offset`.

    Attributes:
        attribute: USD name of the relationship to the leader.
        leader: Prim path of the leading joint, "" where none is named.
        multiplier: Ratio.
        offset: In the unit that `angular_offset` says.
        follower_axis: Degree of freedom that follows, None for the only one.
        leader_axis: Degree of freedom that leads, None for the only one.
        authored_units: Whether the ratio is between degrees and stage units instead of radians and metres.
        si_offset: Whether the offset is in radians instead of degrees.
        polynomial: Coefficients of the leader's second to fourth power, in radians and stage units; empty for none.
    """

    attribute: str
    leader: str
    multiplier: float
    offset: float
    follower_axis: DofAxis | None = None
    leader_axis: DofAxis | None = None
    authored_units: bool = False
    si_offset: bool = False
    polynomial: tuple[float, ...] = ()


def _first(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value[0]) if isinstance(value, (tuple, list)) and value else ""


def _value(authored: Mapping[str, Any], name: str, default: float) -> float:
    value = number(authored.get(name))
    return default if value is None else value


def _newton(record: JointRecord) -> MimicRule | None:
    """NewtonMimicAPI: `coef0 + coef1 * leader`, coef0 in degrees on an angular joint (newton-usd-schemas)."""
    authored = record.solver_attributes
    name = "newton:mimicJoint"
    if "NewtonMimicAPI" not in record.applied and name not in authored:
        return None
    if authored.get("newton:mimicEnabled") is False:
        return None
    return MimicRule(
        name,
        _first(authored.get(name)),
        _value(authored, "newton:mimicCoef1", 1.0),
        _value(authored, "newton:mimicCoef0", 0.0),
    )


def _physx(record: JointRecord) -> MimicRule | None:
    """PhysxMimicJointAPI: `follower + gearing * leader + offset = 0`, in degrees and stage units (PhysxSchema)."""
    authored = record.solver_attributes
    for axis in AXES:
        prefix = f"physxMimicJoint:{axis}"
        name = f"{prefix}:referenceJoint"
        if name not in authored and f"PhysxMimicJointAPI:{axis}" not in record.applied:
            continue
        leader_axis = authored.get(f"{prefix}:referenceJointAxis")
        return MimicRule(
            name,
            _first(authored.get(name)),
            -_value(authored, f"{prefix}:gearing", 1.0),
            -_value(authored, f"{prefix}:offset", 0.0),
            follower_axis=axis,
            leader_axis=leader_axis if leader_axis in AXES else None,
            authored_units=True,
        )
    return None


def _extended(record: JointRecord) -> MimicRule | None:
    """ExtendedPhysicsMimicAPI of the REP's registry: `multiplier * leader + offset`."""
    authored = record.solver_attributes
    name = "ext_physics:mimic:joint"
    if "ExtendedPhysicsMimicAPI" not in record.applied and name not in authored:
        return None
    return MimicRule(
        name,
        _first(authored.get(name)),
        _value(authored, "ext_physics:mimic:multiplier", 1.0),
        _value(authored, "ext_physics:mimic:offset", 0.0),
    )


def _mjc(record: JointRecord) -> MimicRule | None:
    """MjcEqualityJointAPI: a polynomial in radians, of which the linear part is a mimic rule."""
    authored = record.solver_attributes
    name = "mjc:target"
    if "MjcEqualityJointAPI" not in record.applied or name not in authored:
        return None
    return MimicRule(
        name,
        _first(authored.get(name)),
        _value(authored, "mjc:coef1", 1.0),
        _value(authored, "mjc:coef0", 0.0),
        si_offset=True,
    )


_READERS: Mapping[str, Callable[[JointRecord], MimicRule | None]] = {
    "newton": _newton,
    "physx": _physx,
    "mjc": _mjc,
}


def authored_rules(record: JointRecord, solvers: Sequence[str]) -> list[MimicRule]:
    """Return the rules that a joint authors: ExtendedPhysicsMimicAPI's, then the solvers' in order of priority."""
    if not record.solver_attributes and not record.applied:
        return []
    readers = (_extended, *(_READERS[solver] for solver in solvers if solver in _READERS))
    return [rule for rule in [read(record) for read in readers] if rule is not None]


def authored_rule(record: JointRecord, solvers: Sequence[str]) -> MimicRule | None:
    """Return the rule of a joint that is used."""
    return _used(authored_rules(record, solvers), record, solvers)


def _used(rules: Sequence[MimicRule], record: JointRecord, solvers: Sequence[str]) -> MimicRule | None:
    """Return the first rule, with MuJoCo's powers of the leader."""
    if not rules:
        return None
    return replace(rules[0], polynomial=_polynomial(record)) if "mjc" in solvers else rules[0]


def _polynomial(record: JointRecord) -> tuple[float, ...]:
    """MjcEqualityJointAPI adds powers to the rule, whichever schema has the linear part."""
    if "MjcEqualityJointAPI" not in record.applied:
        return ()
    found = tuple(_value(record.solver_attributes, f"mjc:coef{power}", 0.0) for power in (2, 3, 4))
    return found if any(found) and all(map(math.isfinite, found)) else ()


def resolve_mimics(
    joints: Sequence[TreeJoint],
    motions: Mapping[str, Sequence[FreeAxis]],
    rows: Mapping[str, int],
    *,
    solvers: Sequence[str],
    units: Units,
    findings: DiagnosticCollector,
    gears: Sequence[GearRule] = (),
) -> dict[int, MimicPlan]:
    """Return the rules of one robot by the follower's row; every leader follows nothing itself.

    Args:
        joints: The robot's joints.
        motions: Degrees of freedom by joint path.
        rows: Row of each joint's first degree of freedom, by joint path.
        solvers: Solvers in order of priority.
        units: The stage's units.
        findings: Takes rules that cannot be followed.
        gears: Rules of gears, of any robot.
    """
    direct: dict[int, MimicPlan] = {}
    paths: dict[int, str] = {}
    ignored: list[Ignored] = []
    for joint in joints:
        rules = authored_rules(joint.record, solvers)
        rule = _used(rules, joint.record, solvers)
        if rule is None:
            continue
        ignored += _ignored_rules(joint, rules, motions, units)
        held = _held(rule, joint, motions)
        if held:
            findings.warning(
                "1.3.mimic",
                joint.path,
                held,
                "let it follow a joint that moves, or take the rule away",
                attribute=rule.attribute,
            )
            continue
        fault = _fault(rule, joint, motions)
        if fault:
            findings.error(
                "1.3.mimic",
                joint.path,
                f"{fault}; the joint follows nothing",
                "name another joint of the robot with one degree of freedom",
                attribute=rule.attribute,
            )
            continue
        follower = _dof(motions[joint.path], rule.follower_axis)
        leader = _dof(motions[rule.leader], rule.leader_axis)
        row = rows[joint.path] + follower
        if rule.polynomial:
            findings.info(
                "1.3.mimic",
                joint.path,
                "the powers of the leader's position act under mujoco only; elsewhere the rule is linear",
                "use the mujoco backend",
                attribute="mjc:coef2",
            )
        paths[row] = joint.path
        direct[row] = _plan(
            rule,
            motions[joint.path][follower].axis,
            motions[rule.leader][leader].axis,
            rows[rule.leader] + leader,
            units,
        )
    report_ignored(ignored, findings)
    _add_gears(gears, rows, direct, paths, findings)
    return collapse_chains(direct, paths, findings)


def _ignored_rules(
    joint: TreeJoint, rules: Sequence[MimicRule], motions: Mapping[str, Sequence[FreeAxis]], units: Units
) -> Iterator[Ignored]:
    """Yield what `report_ignored` takes of the weaker rules of a joint that say something else."""
    used = rules[0]
    if len(rules) == 1 or not motions.get(joint.path) or not motions.get(used.leader):
        return

    def in_si(rule: MimicRule) -> MimicPlan:
        follower = motions[joint.path][_dof(motions[joint.path], rule.follower_axis)].axis
        leader = motions[rule.leader][_dof(motions[rule.leader], rule.leader_axis)].axis
        return _plan(rule, follower, leader, 0, units)

    for rule in rules[1:]:
        if rule.leader == used.leader:
            mine, other = in_si(used), in_si(rule)
            if same(mine.multiplier, other.multiplier) and same(mine.offset, other.offset):
                continue
        yield joint.path, rule.attribute, used.attribute, rule.leader


def _add_gears(
    gears: Sequence[GearRule],
    rows: Mapping[str, int],
    direct: dict[int, MimicPlan],
    paths: dict[int, str],
    findings: DiagnosticCollector,
) -> None:
    """Add the rules of gears between joints of `rows`."""
    for gear in gears:
        if gear.follower not in rows:
            continue
        row, leader = rows[gear.follower], rows.get(gear.leader)
        if leader is None or row in direct:
            what = (
                "one of its joints is in another robot, or closes a loop"
                if leader is None
                else "a mimic rule moves the same joint"
            )
            findings.error("1.3.gear", gear.path, f"{what}; it connects nothing", "use one of the two")
            continue
        paths[row] = gear.follower
        direct[row] = MimicPlan(leader=leader, multiplier=gear.multiplier, offset=gear.offset)


def hold_followers(
    joints: Sequence[TreeJoint],
    motions: Mapping[str, Sequence[FreeAxis]],
    *,
    solvers: Sequence[str],
    units: Units,
) -> dict[str, tuple[FreeAxis, ...]]:
    """Return the degrees of freedom of joints that follow a fixed one, by joint path: they are locked at the offset.

    Args:
        joints: The robot's joints.
        motions: Degrees of freedom by joint path.
        solvers: Solvers in order of priority.
        units: The stage's units.
    """
    result = {}
    for joint in joints:
        own = motions[joint.path]
        rule = authored_rule(joint.record, solvers) if own else None
        if rule is None or not _held(rule, joint, motions) or not math.isfinite(rule.offset):
            continue
        number = _dof(own, rule.follower_axis)
        place = _offset(rule, own[number].axis, units)
        held = replace(own[number], lower=place, upper=place, authored_position=place)
        result[joint.path] = (*own[:number], held, *own[number + 1 :])
    return result


def _held(rule: MimicRule, joint: TreeJoint, motions: Mapping[str, Sequence[FreeAxis]]) -> str:
    """Return why a joint stays where it is, "" where it has to follow: an end of the rule is a fixed joint."""
    if not rule.leader or rule.leader == joint.path or rule.leader not in motions:
        return ""
    if not motions.get(joint.path):
        return "the joint is fixed and follows nothing; its mimic rule is ignored"
    if not motions[rule.leader]:
        return f"the leader {quoted(rule.leader)} is fixed; the joint stays at the offset of its mimic rule"
    return ""


def _fault(rule: MimicRule, joint: TreeJoint, motions: Mapping[str, Sequence[FreeAxis]]) -> str:
    if not rule.leader:
        return "the mimic schema names no leader"
    if rule.leader == joint.path:
        return "the mimic joint follows itself"
    if not motions.get(rule.leader):
        return f"the leader {quoted(rule.leader)} is no movable joint of the robot"
    if not (math.isfinite(rule.multiplier) and math.isfinite(rule.offset)):
        return f"the rule {quoted(rule.multiplier)} * leader + {quoted(rule.offset)} is not finite"
    return ""


def _dof(motions: Sequence[FreeAxis], axis: DofAxis | None) -> int:
    """Return the number of a degree of freedom; single-axis joints take any axis (PhysX authors rotX on all)."""
    return next((number for number, motion in enumerate(motions) if motion.axis == axis), 0)


def _plan(rule: MimicRule, follower: DofAxis, leader: DofAxis, row: int, units: Units) -> MimicPlan:
    unit, leader_unit = motion_unit(follower, units), motion_unit(leader, units)
    multiplier = rule.multiplier
    if rule.authored_units:
        multiplier *= unit / leader_unit
    elif follower.startswith("trans") and leader.startswith("rot"):
        multiplier *= units.meters
    elif follower.startswith("rot") and leader.startswith("trans"):
        multiplier /= units.meters
    # Only lengths have a unit of the stage's; angles are radians in MuJoCo's polynomials.
    length, leader_length = (units.meters if axis.startswith("trans") else 1.0 for axis in (follower, leader))
    polynomial = tuple(
        value * length / leader_length**power for power, value in enumerate(rule.polynomial, start=2)
    )
    return MimicPlan(
        leader=row, multiplier=multiplier, offset=_offset(rule, follower, units), polynomial=polynomial
    )


def _offset(rule: MimicRule, follower: DofAxis, units: Units) -> float:
    """Return the offset of a rule in rad or m."""
    if rule.si_offset and follower.startswith("rot"):
        return rule.offset
    return rule.offset * motion_unit(follower, units)


def collapse_chains(
    direct: Mapping[int, MimicPlan], paths: Mapping[int, str], findings: DiagnosticCollector
) -> dict[int, MimicPlan]:
    """Return rules about the joints at the heads of chains, each looked up once; circles are dropped.

    Args:
        direct: Rules as authored, by the follower's row.
        paths: Joint path by the follower's row.
        findings: Takes rules that cannot be followed.
    """
    # A joint that is being resolved has no rule yet: reaching it again means a cycle.
    found: dict[int, MimicPlan | None] = {}
    for first in direct:
        chain = []
        row = first
        while row not in found and (authored := direct.get(row)) is not None:
            found[row] = None
            chain.append((row, authored))
            row = authored.leader
        above = found.get(row)
        circular = row in found and above is None
        for step, authored in reversed(chain):
            if circular:
                break
            if above is not None and (authored.polynomial or above.polynomial):
                findings.warning(
                    "1.3.mimic",
                    paths[step],
                    "powers of the leader's position are left out of a chain of mimic rules",
                    "let the joint follow the head of the chain",
                    attribute="mjc:coef2",
                )
            above = found[step] = authored if above is None else _after(authored, above)
    result = {}
    for row in direct:
        rule = found[row]
        if rule is None:
            findings.error(
                "1.3.mimic",
                paths[row],
                "mimic joints follow one another in a circle; this one follows nothing",
                "let one of them follow none",
            )
        elif not (math.isfinite(rule.multiplier) and math.isfinite(rule.offset)):
            findings.error(
                "1.3.mimic",
                paths[row],
                "the chain of mimic rules is not finite; this joint follows nothing",
                "author ratios and offsets of ordinary size",
            )
        else:
            result[row] = rule
    return result


def _after(rule: MimicPlan, above: MimicPlan) -> MimicPlan:
    return MimicPlan(
        leader=above.leader,
        multiplier=rule.multiplier * above.multiplier,
        offset=rule.multiplier * above.offset + rule.offset,
    )

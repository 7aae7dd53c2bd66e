"""Joints of a physics scene: frames in bodies or the world, limits, drives, springs, friction and mimic rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, degraded
from usd_ros_bridge.model.physics import WORLD_BODY, Dof, Drive, Mimic
from usd_ros_bridge.model.physics import Joint as SceneJoint
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.plan import AxisLetter, DofPlan, MimicPlan
from usd_ros_bridge.model.records import DofAxis, DriveRecord, JointRecord, JointType, fallback
from usd_ros_bridge.planning.kinematics.dialects import DYNAMIC, report_dialects
from usd_ros_bridge.planning.kinematics.dofs import reference
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.kinematics.solver_attributes import (
    JOINT,
    Property,
    axis_names,
    axis_of,
    find_authored,
    gain_unit,
    motion_unit,
    resolve,
    resolve_all,
    solver_order,
    uneven_effort,
)
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, Units, as_poses
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import compose

_WITH_AXIS = frozenset({"revolute", "continuous", "prismatic", "spherical"})
_RADIANS = math.pi / 180.0
GREATEST = 1e15
"""N m s/rad and similar units: greatest damping, stiffness or inertia. Assets hold joints fast by 1e11."""


def plan_joints(
    kinematics: KinematicModel,
    bodies: Mapping[str, int],
    physics: PhysicsRecords,
    index: StageIndex,
    solvers: Sequence[str],
    findings: DiagnosticCollector,
) -> tuple[SceneJoint, ...]:
    """Return all joints that act, in traversal order.

    Args:
        kinematics: All joints.
        bodies: Index of each body by path.
        physics: Properties of joints and scenes that engines alone need.
        index: The stage.
        solvers: Solvers in order of priority.
        findings: Collector of faults.
    """
    scene = physics.scenes[0].solver_attributes if physics.scenes and "mjc" in solvers else {}
    parents_collide = scene.get("mjc:flag:filterparent") is False
    rows = sorted(range(len(kinematics.joints)), key=lambda row: index.order(kinematics.joints[row].path))
    planner = _Planner(kinematics, rows, bodies, index, solvers, findings, parents_collide=parents_collide)
    _report_breaks(physics, findings)
    report_dialects(
        ((kinematics.joints[row].record, [dof.axis for dof in kinematics.dofs[row]]) for row in rows),
        DYNAMIC,
        solvers=solvers,
        units=index.units,
        findings=findings,
    )
    frames = _frames(kinematics, rows, index)
    return tuple([planner.joint(row, *of_joint) for row, *of_joint in zip(rows, *frames, strict=True)])


def _report_breaks(physics: PhysicsRecords, findings: DiagnosticCollector) -> None:
    for row, attribute in enumerate(("physics:breakForce", "physics:breakTorque")):
        degraded(
            findings,
            {path: found[row] for path, found in physics.joint_breaks.items() if math.isfinite(found[row])},
            attribute,
            "the joint holds at any load",
            code="1.3.joint.break",
            remedy="leave physics:breakForce and physics:breakTorque out, or do not rely on them",
        )


def _frames(
    kinematics: KinematicModel, rows: Sequence[int], index: StageIndex
) -> tuple[list[Pose], list[Pose]]:
    """Return joint frames in both bodies, or in the world."""
    joints = [kinematics.joints[row] for row in rows]
    anchors = {joint.path: robot.anchor for robot in kinematics.robots for joint in robot.joints}
    # An end at the world is in the robot's context frame there.
    world_from_anchor = index.poses.world_from_prim[
        index.poses.find_rows([anchors.get(joint.path, "") for joint in joints])
    ]
    frames = kinematics.solver.frames
    at_world0 = np.array([not joint.body0 for joint in joints], dtype=bool)[:, None]
    at_world1 = np.array([not joint.body1 for joint in joints], dtype=bool)[:, None]
    frames0, frames1 = frames.base0_from_joint[rows], frames.base1_from_joint[rows]
    frames0 = np.where(at_world0, compose(world_from_anchor, frames0), frames0)
    frames1 = np.where(at_world1, compose(world_from_anchor, frames1), frames1)
    return as_poses(frames0), as_poses(frames1)


class _Planner:
    """Planner of the joints of a scene."""

    def __init__(
        self,
        kinematics: KinematicModel,
        rows: Sequence[int],
        bodies: Mapping[str, int],
        index: StageIndex,
        solvers: Sequence[str],
        findings: DiagnosticCollector,
        *,
        parents_collide: bool,
    ) -> None:
        self._kinematics = kinematics
        self._carrying = {
            path for attachment in kinematics.attachments.values() for path in attachment.joints
        }
        # MuJoCo's word for what UsdPhysics says of each joint; a joint's own counts where it is authored.
        self._parents_collide = parents_collide
        self._bodies = bodies
        self._units = index.units
        self._solvers = solvers
        self._findings = findings
        # Where each degree of freedom is among the scene's joints, by its row.
        self._places = {
            dof.row: (number, place)
            for number, row in enumerate(rows)
            for place, dof in enumerate(kinematics.dofs[row])
        }

    def joint(self, row: int, frame0: Pose, frame1: Pose) -> SceneJoint:
        """Return the joint of a row of the kinematic model; `frame0` and `frame1` are its frames in its bodies."""
        joint, kind = self._kinematics.joints[row], self._kinematics.kinds[row]
        record, dofs = joint.record, self._dofs(row)
        if kind != "distance" and any(limit.axis == "distance" for limit in record.limits):
            limit = next(limit for limit in record.limits if limit.axis == "distance")
            degraded(
                self._findings,
                {joint.path: limit.high},
                "limit:distance:physics:high",
                f"the distance is not limited on a {kind} joint",
                code="1.3.joint.distance",
                remedy="add a PhysicsDistanceJoint between the same bodies",
            )
        axis = cast(AxisLetter, fallback(record, "axis")) if kind in _WITH_AXIS else None
        return SceneJoint(
            path=joint.path,
            type=kind,
            body0=self._bodies.get(joint.body0, WORLD_BODY),
            body1=self._bodies.get(joint.body1, WORLD_BODY),
            body0_from_joint=frame0,
            body1_from_joint=frame1,
            dofs=dofs,
            axis=axis,
            cone=_cone(record) if kind == "spherical" else None,
            distance=self._distance(record) if kind == "distance" else None,
            collides=self._collides(record),
            closes_loop=joint.path not in self._carrying,
            solver=resolve_all(record.solver_attributes, JOINT, self._solvers, applied=record.applied),
        )

    def _collides(self, record: JointRecord) -> bool:
        if record.collision_enabled is None and self._parents_collide:
            return True
        return bool(fallback(record, "collision_enabled"))

    def _dofs(self, row: int) -> tuple[Dof, ...]:
        kinematics = self._kinematics
        joint, kind, plans = kinematics.joints[row], kinematics.kinds[row], kinematics.dofs[row]
        record, in_tf = joint.record, joint.path in kinematics.joint_rows
        axes = [plan.axis for plan in plans]
        drives = plan_drives(record, kind, axes, units=self._units, findings=self._findings)
        report_idle_axes(record, axes, solvers=self._solvers, findings=self._findings)
        return tuple(
            Dof(
                axis=plan.axis,
                row=plan.row if in_tf else -1,
                position=plan.position,
                velocity=self._authored(record, "velocity", plan, signed=True),
                lower=plan.lower,
                upper=plan.upper,
                max_velocity=plan.max_velocity,
                max_effort=plan.max_effort,
                effort_range=uneven_effort(record, plan.axis, solvers=self._solvers, units=self._units),
                limit_stiffness=(gains := self._limit_gains(record, plan))[0],
                limit_damping=gains[1],
                armature=self._authored(record, "armature", plan),
                friction=self._authored(record, "friction", plan),
                stiffness=self._authored(record, "stiffness", plan),
                reference=(offset := self._reference(record, plan)),
                spring_position=self._authored(record, "spring_position", plan, signed=True) - offset,
                damping=self._authored(record, "damping", plan),
                drive=drive,
                mimic=_mimic(plan.mimic, self._places),
            )
            for plan, drive in zip(plans, drives, strict=True)
        )

    def _reference(self, record: JointRecord, dof: DofPlan) -> float:
        # What is wrong with it stands in the plan's diagnostics.
        return reference(
            record, dof.axis, solvers=self._solvers, units=self._units, findings=DiagnosticCollector()
        )

    def _limit_gains(self, record: JointRecord, dof: DofPlan) -> tuple[float, float]:
        """Return stiffness and damping of limits that give way, 0 for hard ones: inf, and what is left to engines.

        As in Newton, MuJoCo's own parameters count before them where they are authored.
        """
        if not record.solver_attributes or (
            "mjc" in self._solvers and "mjc:solreflimit" in record.solver_attributes
        ):
            return 0.0, 0.0
        wanted: tuple[Property, Property] = ("limit_stiffness", "limit_damping")
        stiffness, damping = (
            resolve(
                record,
                each,
                dof.axis,
                solvers=solver_order(each, self._solvers),
                units=self._units,
                default=0.0,
            )
            or 0.0
            for each in wanted
        )
        if stiffness == 0.0 < damping < math.inf:
            self._report_idle_damping(record, dof)
        if not 0.0 < stiffness <= GREATEST or not damping < math.inf:
            return 0.0, 0.0
        return stiffness, damping if 0.0 < damping <= GREATEST else 0.0

    def _report_idle_damping(self, record: JointRecord, dof: DofPlan) -> None:
        solvers = solver_order("limit_damping", self._solvers)
        found = find_authored(record, "limit_damping", dof.axis, solvers=solvers, units=self._units)
        if found is not None:
            degraded(
                self._findings,
                {record.path: found.value},
                found.name,
                "the limit is hard, because it has no stiffness",
                reason="approximated",
                remedy="author the limit's stiffness",
            )

    def _authored(
        self, record: JointRecord, wanted: Property, dof: DofPlan, *, signed: bool = False
    ) -> float:
        found = find_authored(record, wanted, dof.axis, solvers=self._solvers, units=self._units)
        if found is None:
            return 0.0
        most = (MAX_MAGNITUDE if signed else GREATEST) / found.si
        used = found.value if signed and abs(found.value) <= most else 0.0
        if not signed and (wanted != "stiffness" or found.value <= most):
            # Steps of no length resolve a spring that is too stiff. What is too great otherwise holds the joint fast.
            used = bounded(found.value, most)
        if used != found.value:
            self._findings.error(
                "1.3.joint.solver",
                record.path,
                f"the {wanted.replace('_', ' ')} {quoted(found.value)} cannot be used; {used:.6g} is used",
                f"author a finite number of {most:.6g} at most"
                if signed
                else f"author a number from 0 to {most:.6g}",
                attribute=found.name,
            )
        return used * found.si

    def _distance(self, record: JointRecord) -> tuple[float, float]:
        least, most = fallback(record, "min_distance"), fallback(record, "max_distance")
        units = self._units
        if math.isnan(least) or math.isnan(most):
            self._findings.error(
                "1.3.joint.distance",
                record.path,
                f"distances of {quoted(least)} and {quoted(most)} cannot be used; what is not a number is no limit",
                "author numbers",
                attribute="physics:minDistance" if math.isnan(least) else "physics:maxDistance",
            )
        lower = least * units.meters if 0.0 <= least <= MAX_MAGNITUDE else 0.0
        upper = most * units.meters if 0.0 <= most <= MAX_MAGNITUDE else math.inf
        if lower <= upper:
            return lower, upper
        self._findings.error(
            "1.3.joint.distance",
            record.path,
            f"the least distance {quoted(least)} is above the greatest, {quoted(most)}; the greatest counts",
            "exchange the two",
            attribute="physics:minDistance",
        )
        return 0.0, upper


def _mimic(rule: MimicPlan | None, places: Mapping[int, tuple[int, int]]) -> Mimic | None:
    if rule is None:
        return None
    joint, dof = places[rule.leader]
    return Mimic(
        joint=joint, dof=dof, multiplier=rule.multiplier, offset=rule.offset, polynomial=rule.polynomial
    )


def _cone(record: JointRecord) -> tuple[float, float] | None:
    """Half angles towards the two axes after the primary one; a negative or absent one is no limit."""
    angles = [
        angle * _RADIANS if 0.0 <= angle < MAX_MAGNITUDE else math.inf
        for angle in (fallback(record, "cone_angle0"), fallback(record, "cone_angle1"))
    ]
    return None if math.isinf(angles[0]) and math.isinf(angles[1]) else (angles[0], angles[1])


_TYPES = ("force", "acceleration")


def plan_drives(
    record: JointRecord,
    kind: JointType,
    axes: Sequence[DofAxis],
    *,
    units: Units,
    findings: DiagnosticCollector,
) -> list[Drive | None]:
    """Return the drive of each degree of freedom.

    Args:
        record: The joint.
        kind: Its kind, limits considered.
        axes: Its degrees of freedom.
        units: The stage's units.
        findings: Takes drives that act on nothing, and values that cannot be used.
    """
    if not record.drives:
        return [None] * len(axes)
    result: list[Drive | None] = []
    used = set()
    for axis in axes:
        instances = axis_names(record, axis)
        drive = next((drive for drive in record.drives if drive.axis in instances), None)
        if drive is not None:
            used.add(drive.axis)
        result.append(None if drive is None else _drive(record.path, drive, axis, units, findings))
    for drive in record.drives:
        if drive.axis not in used:
            _report_idle(record, drive, kind, findings)
    return result


def _report_idle(
    record: JointRecord, drive: DriveRecord, kind: JointType, findings: DiagnosticCollector
) -> None:
    what = "a fixed joint" if kind == "fixed" else f"a {kind} joint without that degree of freedom"
    findings.warning(
        "1.3.drive",
        record.path,
        f"the drive {quoted(drive.axis)} is on {what}; it acts on nothing",
        "remove the drive, or name a degree of freedom that the joint leaves free",
        attribute=f"drive:{drive.axis[:32]}:physics:type",
    )


_ONE_AXIS: Final = frozenset({"PhysicsRevoluteJoint", "PhysicsPrismaticJoint"})


def report_idle_axes(
    record: JointRecord,
    axes: Sequence[DofAxis],
    *,
    solvers: Sequence[str],
    findings: DiagnosticCollector,
) -> None:
    """Report attributes of degrees of freedom that a joint does not have (REP 0158 section 1.4).

    Args:
        record: The joint.
        axes: Its degrees of freedom.
        solvers: Vendors that are read; attributes of the others are reported as such.
        findings: Takes one diagnostic for each attribute.
    """
    instances = {name for axis in axes for name in axis_names(record, axis)}
    idle: dict[str, object] = {
        name: value
        for name, value in record.solver_attributes.items()
        if value and "physx" in solvers and (axis := axis_of(name)) and axis not in instances
    }
    if record.type_name in _ONE_AXIS:
        for limit in record.limits:
            ends = {"low": limit.low, "high": limit.high}
            of_limit = {f"limit:{limit.axis}:physics:{end}": value for end, value in ends.items()}
            idle |= {name: value for name, value in of_limit.items() if value is not None}
    for name, value in idle.items():
        degraded(
            findings,
            {record.path: value},
            name,
            "the joint does not have this degree of freedom",
            remedy="name one that the joint leaves free",
        )


def _drive(
    path: str,
    drive: DriveRecord,
    axis: DofAxis,
    units: Units,
    findings: DiagnosticCollector,
) -> Drive:
    rotational = axis.startswith("rot")
    motion = motion_unit(axis, units)
    acceleration = fallback(drive, "type") == "acceleration"
    if fallback(drive, "type") not in _TYPES:
        findings.error(
            "1.3.drive",
            path,
            f"{quoted(drive.type)} is no kind of drive; force is used",
            f"use one of {', '.join(_TYPES)}",
            attribute=f"drive:{drive.axis}:physics:type",
        )
    gain = gain_unit(axis, units)
    if acceleration:
        gain = 180.0 / math.pi if rotational else 1.0
    most = GREATEST / gain
    gains = [
        gain
        * _usable(
            path, drive, name, name, partial(bounded, most=most), f"a number from 0 to {most:.6g}", findings
        )
        for name in ("stiffness", "damping")
    ]
    targets = [
        motion * _usable(path, drive, field, name, _target, "a finite number", findings)
        for field, name in (("target_position", "targetPosition"), ("target_velocity", "targetVelocity"))
    ]
    bound = _usable(path, drive, "max_force", "maxForce", _bound, "a number that is not negative", findings)
    return Drive(
        acceleration=acceleration,
        stiffness=gains[0],
        damping=gains[1],
        max_force=bound * units.kilograms * units.meters ** (2 if rotational else 1),
        target_position=targets[0],
        target_velocity=targets[1],
    )


def _usable(
    path: str,
    drive: DriveRecord,
    field: str,
    name: str,
    usable: Callable[[float], float],
    wanted: str,
    findings: DiagnosticCollector,
) -> float:
    """Return a number as authored, or what `usable` makes of one that cannot be used, with a finding."""
    authored = float(fallback(drive, field))
    used = usable(authored)
    # Converters write FLT_MAX for no bound.
    if used != authored and not (used == math.inf and authored >= MAX_MAGNITUDE):
        findings.error(
            "1.3.drive",
            path,
            f"{quoted(authored)} cannot be used; {used:.6g} is used",
            f"author {wanted}",
            attribute=f"drive:{drive.axis}:physics:{name}",
        )
    return used


def _target(authored: float) -> float:
    return authored if abs(authored) <= MAX_MAGNITUDE else 0.0


def _bound(authored: float) -> float:
    return authored if 0.0 <= authored < MAX_MAGNITUDE else math.inf


def bounded(value: float, most: float) -> float:
    """Return the number from 0 to `most` that is nearest to `value`, 0 for NaN."""
    return min(value, most) if value > 0.0 else 0.0

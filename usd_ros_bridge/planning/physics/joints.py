"""Joints of a physics scene: frames in bodies or the world, limits, drives, springs, friction and mimic rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import numpy as np

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.physics import WORLD_BODY, Dof, Mimic
from usd_ros_bridge.model.physics import Joint as SceneJoint
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.plan import DofPlan, JointType, MimicPlan, Pose
from usd_ros_bridge.model.records import JointRecord, fallback
from usd_ros_bridge.model.transforms import FloatArray, compose
from usd_ros_bridge.planning.dofs import Motion, reference
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.joints import Joint
from usd_ros_bridge.planning.mimic import resolve_mimics
from usd_ros_bridge.planning.physics.drives import plan_drives
from usd_ros_bridge.planning.physics.forest import Forest
from usd_ros_bridge.planning.physics.solvers import JOINT, resolve_all
from usd_ros_bridge.planning.poses import MAX_MAGNITUDE, as_poses
from usd_ros_bridge.planning.resolvers import Property, resolve, uneven_effort
from usd_ros_bridge.planning.rest import lengths
from usd_ros_bridge.planning.stage_index import StageIndex

_WITH_AXIS = frozenset({"revolute", "continuous", "prismatic", "spherical"})
Letter = Literal["X", "Y", "Z"]
_RADIANS = math.pi / 180.0
_GREATEST = 1e15
"""N m s/rad and the like: greatest damping, stiffness or inertia. Assets hold joints fast by 1e11."""


def plan_joints(
    forest: Forest,
    bodies: Mapping[str, int],
    physics: PhysicsRecords,
    index: StageIndex,
    solvers: Sequence[str],
    findings: Findings,
) -> tuple[SceneJoint, ...]:
    """Returns all joints that act, in traversal order.

    Args:
        forest: Joints and trees.
        bodies: Index of each body by path.
        physics: What stands beside the joints' records.
        index: The stage.
        solvers: Solvers in order of priority.
        findings: Takes what is wrong.
    """
    scene = physics.scenes[0].solver_attributes if physics.scenes and "mjc" in solvers else {}
    parents_collide = scene.get("mjc:flag:filterparent") is False
    planner = _Planner(forest, bodies, index, solvers, findings, parents_collide=parents_collide)
    _report_breaks(physics, findings)
    frames = _frames(forest, index)
    carrying = {path for hang in forest.hangs.values() for path in hang.joints}
    return tuple(
        planner.joint(joint, frame0, frame1, length, closes_loop=joint.path not in carrying)
        for joint, frame0, frame1, length in zip(
            forest.joints, *frames, lengths(forest.joints, index).tolist(), strict=True
        )
    )


def _report_breaks(physics: PhysicsRecords, findings: Findings) -> None:
    for path, (force, torque) in physics.joint_breaks.items():
        findings.warning(
            "1.3.joint.break",
            path,
            f"the joint breaks at {quoted(force)} (force) or {quoted(torque)} (torque); here it holds",
            "leave physics:breakForce and physics:breakTorque out, or do not rely on them",
            attribute="physics:breakForce",
        )


def _frames(forest: Forest, index: StageIndex) -> tuple[list[Pose], list[Pose]]:
    """Returns joint frames in both bodies, or in the world: the plan's where it has them."""
    count = len(forest.joints)
    frames0, frames1 = np.zeros((count, 7)), np.zeros((count, 7))
    anchors = []
    unplanned = forest.unplanned
    for number, joint in enumerate(forest.joints):
        planned = forest.planned.get(joint.path)
        if planned is not None:
            frames0[number], frames1[number] = (
                _array(planned.body0_from_joint),
                _array(planned.body1_from_joint),
            )
            anchors.append(planned.parent_path)
        elif unplanned is not None:
            row = unplanned.rows[joint.path]
            frames0[number] = unplanned.solver.frames.base0_from_joint[row]
            frames1[number] = unplanned.solver.frames.base1_from_joint[row]
            anchors.append("")
    # An end at the world is in the robot's context frame there.
    world_from_anchor = index.poses.world_from_prim[index.poses.find_rows(anchors)]
    at_world0 = np.array([not joint.body0 for joint in forest.joints], dtype=bool)[:, None]
    at_world1 = np.array([not joint.body1 for joint in forest.joints], dtype=bool)[:, None]
    frames0 = np.where(at_world0, compose(world_from_anchor, frames0), frames0)
    frames1 = np.where(at_world1, compose(world_from_anchor, frames1), frames1)
    return as_poses(frames0), as_poses(frames1)


def _array(pose: Pose) -> FloatArray:
    return np.array((*pose.translation, *pose.rotation))


class _Planner:
    """What all joints of a stage need to know."""

    def __init__(
        self,
        forest: Forest,
        bodies: Mapping[str, int],
        index: StageIndex,
        solvers: Sequence[str],
        findings: Findings,
        *,
        parents_collide: bool,
    ) -> None:
        self._forest = forest
        # MuJoCo's word for what UsdPhysics says of each joint; a joint's own counts where it is authored.
        self._parents_collide = parents_collide
        self._bodies = bodies
        self._units = index.units
        self._solvers = solvers
        self._findings = findings
        # Where each degree of freedom of the plan is among the scene's joints, by row.
        self._places = {
            dof.row: (number, place)
            for number, joint in enumerate(forest.joints)
            if (planned := forest.planned.get(joint.path)) is not None
            for place, dof in enumerate(planned.dofs)
        }
        self._mimics = self._unplanned_mimics()

    def _unplanned_mimics(self) -> dict[str, list[Mimic | None]]:
        """Returns the rules of joints outside robots, by joint path."""
        unplanned = self._forest.unplanned
        if unplanned is None:
            return {}
        joints = [joint for joint in self._forest.joints if joint.path in unplanned.rows]
        motions = {joint.path: unplanned.motions[unplanned.rows[joint.path]] for joint in joints}
        first, places, row = {}, {}, 0
        numbers = {joint.path: number for number, joint in enumerate(self._forest.joints)}
        for joint in joints:
            first[joint.path] = row
            for place in range(len(motions[joint.path])):
                places[row + place] = (numbers[joint.path], place)
            row += len(motions[joint.path])
        rules = resolve_mimics(
            joints, motions, first, solvers=self._solvers, units=self._units, findings=self._findings
        )
        return {
            joint.path: [
                _mimic(rules.get(first[joint.path] + place), places)
                for place in range(len(motions[joint.path]))
            ]
            for joint in joints
        }

    def joint(
        self, joint: Joint, frame0: Pose, frame1: Pose, length: Sequence[float], *, closes_loop: bool
    ) -> SceneJoint:
        record = joint.record
        kind, plans, mimics = self._resolved(joint)
        dofs = self._dofs(record, kind, plans, mimics, length)
        if kind != "distance" and any(limit.axis == "distance" for limit in record.limits):
            self._findings.warning(
                "1.3.joint.distance",
                joint.path,
                f"the limit of the distance on a {kind} joint is not simulated",
                "use a PhysicsDistanceJoint beside it",
                attribute="limit:distance:physics:high",
            )
        axis = cast(Letter, fallback(record, "axis")) if kind in _WITH_AXIS else None
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
            closes_loop=closes_loop,
            solver=resolve_all(record.solver_attributes, JOINT, self._solvers, applied=record.applied),
        )

    def _collides(self, record: JointRecord) -> bool:
        if record.collision_enabled is None and self._parents_collide:
            return True
        return bool(fallback(record, "collision_enabled"))

    def _resolved(self, joint: Joint) -> tuple[JointType, Sequence[DofPlan], Sequence[Mimic | None]]:
        planned = self._forest.planned.get(joint.path)
        if planned is not None:
            return planned.type, planned.dofs, [_mimic(dof.mimic, self._places) for dof in planned.dofs]
        unplanned = self._forest.unplanned
        assert unplanned is not None
        row = unplanned.rows[joint.path]
        motions, positions = unplanned.motions[row], unplanned.solver.positions[row]
        plans = [_dof_plan(motion, position) for motion, position in zip(motions, positions, strict=True)]
        return unplanned.kinds[row], plans, self._mimics[joint.path]

    def _dofs(
        self,
        record: JointRecord,
        kind: JointType,
        plans: Sequence[DofPlan],
        mimics: Sequence[Mimic | None],
        length: Sequence[float],
    ) -> tuple[Dof, ...]:
        axes = [plan.axis for plan in plans]
        drives = plan_drives(record, kind, axes, length=length, units=self._units, findings=self._findings)
        return tuple(
            Dof(
                axis=plan.axis,
                row=plan.row,
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
                mimic=mimic,
            )
            for plan, drive, mimic in zip(plans, drives, mimics, strict=True)
        )

    def _reference(self, record: JointRecord, dof: DofPlan) -> float:
        # What is wrong with it stands in the plan's diagnostics.
        return reference(record, dof.axis, solvers=self._solvers, units=self._units, findings=Findings())

    def _limit_gains(self, record: JointRecord, dof: DofPlan) -> tuple[float, float]:
        """Returns stiffness and damping of limits that give way, 0 for hard ones: inf, and what is left to engines.

        As in Newton, MuJoCo's own parameters count before them where they are authored.
        """
        if not record.solver_attributes or (
            "mjc" in self._solvers and "mjc:solreflimit" in record.solver_attributes
        ):
            return 0.0, 0.0
        # Newton's resolvers have no order here: NewtonJointAPI is about the same limits as all others.
        solvers = sorted(self._solvers, key="newton".__ne__)
        stiffness, damping = (
            resolve(record, wanted, dof.axis, solvers=solvers, units=self._units, default=0.0) or 0.0
            for wanted in ("limit_stiffness", "limit_damping")
        )
        if not 0.0 < stiffness <= _GREATEST or not damping < math.inf:
            return 0.0, 0.0
        return stiffness, damping if 0.0 < damping <= _GREATEST else 0.0

    def _authored(
        self, record: JointRecord, wanted: Property, dof: DofPlan, *, signed: bool = False
    ) -> float:
        if not record.solver_attributes:
            return 0.0
        value = resolve(record, wanted, dof.axis, solvers=self._solvers, units=self._units, default=0.0)
        assert value is not None
        if abs(value) <= (MAX_MAGNITUDE if signed else _GREATEST) and (signed or value >= 0.0):
            return value
        self._findings.error(
            "1.3.joint.solver",
            record.path,
            f"the {wanted.replace('_', ' ')} {quoted(value)} of a solver's schema cannot be used; 0 is used",
            "author a finite number" if signed else "author a finite number that is not negative",
        )
        return 0.0

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


def _dof_plan(motion: Motion, position: float) -> DofPlan:
    return DofPlan(
        name="",
        row=-1,
        axis=motion.axis,
        position=position,
        lower=motion.lower,
        upper=motion.upper,
        max_velocity=motion.max_velocity,
        max_effort=motion.max_effort,
    )


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

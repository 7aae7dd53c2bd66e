"""Controllers: declared by the extension schemas or implied by an interface, and who may write which joint.

REP 0158 section 4.2.3 and the control extension schemas of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import ControllerPlan, DofPlan
from usd_ros_bridge.model.records import (
    ControllerRecord,
    DiffDriveRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    RigidBodyTwistRecord,
    attribute_fields,
    fallback,
)
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.bases import Base
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.controller_schemas import SCHEMAS, ControllerSchema
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.interfaces import (
    JOINT_STATE,
    ODOMETRY,
    STARTS_DISABLED,
    TRAJECTORY,
    TWISTS,
    InterfaceDraft,
)
from usd_ros_bridge.planning.kinematics import Kinematics
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex

_COLLECTION = ".collection:"


class _Fault(Exception):  # noqa: N818 (not an error of the program: it ends the reading of one controller)
    """Why a controller cannot work; `reported` says that the asset's author knows already."""

    def __init__(self, reason: str, *, reported: bool = False) -> None:
        super().__init__(reason)
        self.reported = reported


class ControllerPlanner:
    """Plans all controllers of a stage."""

    def __init__(
        self,
        index: StageIndex,
        contexts: Contexts,
        kinematics: Kinematics,
        joints: RobotJoints,
        bases: Sequence[Base],
        interfaces: Sequence[InterfaceDraft],
        findings: Findings,
    ) -> None:
        self._index = index
        self._contexts = contexts
        self._kinematics = kinematics
        self._joints = joints
        self._bases = bases
        self._interfaces: dict[str, list[InterfaceDraft]] = {}
        for draft in interfaces:
            self._interfaces.setdefault(draft.path, []).append(draft)
        self._findings = findings

    def plan(self) -> list[ControllerPlan]:
        """Returns declared controllers in traversal order, then implied ones in the order of their interfaces."""
        declared = [self._declared(record) for record in self._index.records.controllers]
        referenced = {
            path
            for record in self._index.records.controllers
            for port in SCHEMAS[type(record)].ports
            for path in getattr(record, port.field) or ()
        }
        implied = [
            plan
            for drafts in self._interfaces.values()
            for draft in drafts
            if draft.path not in referenced
            and draft.is_switchable
            and (plan := self._implied(draft)) is not None
        ]
        return self._settle_claims([*declared, *implied])

    # --- Declared ---------------------------------------------------------------------------------------------

    def _declared(self, record: ControllerRecord) -> ControllerPlan:
        schema = SCHEMAS[type(record)]
        plan = ControllerPlan(path=record.path, schema=schema.name, robot=self._robot_of(record.path))
        try:
            plan = replace(plan, interfaces=self._ports(record, schema))
            plan = self._with_joints(plan, record, schema)
            plan = replace(plan, parameters=self._parameters(plan, record, schema))
            reason = self._interface_reason(plan)
        except _Fault as fault:
            reason = str(fault)
            if not fault.reported:
                self._findings.error(
                    "4.2.3.target",
                    record.path,
                    f"{reason}; the controller stays inactive",
                    f"see the schema {schema.name}",
                )
        if not reason and record.starts_enabled is False:
            reason = STARTS_DISABLED
        return replace(
            plan, enabled=not reason, reason=reason, switchable=not reason or reason == STARTS_DISABLED
        )

    def _robot_of(self, path: str) -> int:
        return self._joints.robot_of_root.get(self._contexts.root_of(path), -1)

    def _ports(self, record: ControllerRecord, schema: ControllerSchema) -> tuple[str, ...]:
        paths = []
        for port in schema.ports:
            targets = getattr(record, port.field) or ()
            name = dict(attribute_fields(type(record)))[port.field].name
            if not targets:
                if port.required:
                    raise _Fault(f"{name} names no interface")
                continue
            if targets[0] not in self._index.records.xforms:
                raise _Fault(f"{name}: {quoted(targets[0])} does not exist")
            drafts = self._interfaces.get(targets[0], [])
            if not any(d.kind == port.kind and d.role == port.role and d.type in port.types for d in drafts):
                raise _Fault(
                    f"{name}: {quoted(targets[0])} is no {port.kind} {port.role} of {' or '.join(sorted(port.types))}"
                )
            paths.append(targets[0])
        return tuple(paths)

    def _interface_reason(self, plan: ControllerPlan) -> str:
        for path in plan.interfaces:
            for draft in self._interfaces[path]:
                if not draft.is_switchable:
                    return f"the interface {path} is disabled: {draft.reason}"
        return ""

    def _with_joints(
        self, plan: ControllerPlan, record: ControllerRecord, schema: ControllerSchema
    ) -> ControllerPlan:
        if isinstance(record, ExternalControlRecord):
            return self._with_dofs(plan, self._joints.below(record.path))
        dofs: list[DofPlan] = []
        robots = set()
        for field in schema.joints:
            name = dict(attribute_fields(type(record)))[field].name
            targets = self._expanded(getattr(record, field) or (), name)
            if not targets:
                raise _Fault(f"{name} names no joint")
            for target in targets:
                of_joint = self._joints_of(target, name)
                robots.add(self._joints.robot_of_joint[target])
                dofs += [
                    dof for dof in of_joint if not (schema.writes and self._is_follower(dof, record, target))
                ]
        if len(robots) > 1:
            raise _Fault("the joints belong to more than one robot")
        if robots:
            plan = replace(plan, robot=robots.pop())
        return self._with_dofs(plan, list({dof.row: dof for dof in dofs}.values()))

    @staticmethod
    def _with_dofs(plan: ControllerPlan, dofs: Sequence[DofPlan]) -> ControllerPlan:
        return replace(plan, joints=tuple(dof.name for dof in dofs), dofs=tuple(dof.row for dof in dofs))

    def _expanded(self, targets: Iterable[str], name: str) -> list[str]:
        result: list[str] = []
        for target in targets:
            if _COLLECTION not in target:
                result.append(target)
            elif target in self._index.records.collections:
                result.extend(
                    path
                    for path in self._index.records.collections[target]
                    if path in self._joints.robot_of_joint
                )
            else:
                raise _Fault(f"{name}: the collection {quoted(target)} does not exist")
        return result

    def _joints_of(self, target: str, name: str) -> tuple[DofPlan, ...]:
        if target not in self._joints.robot_of_joint:
            known = target in self._joints.authored
            raise _Fault(
                f"{name}: {quoted(target)} " + ("is in no robot's tree of joints" if known else "is no joint")
            )
        dofs = self._kinematics.joint_dofs(target)
        if not dofs:
            raise _Fault(f"{name}: the joint {quoted(target)} cannot move")
        return dofs

    def _is_follower(self, dof: DofPlan, record: ControllerRecord, target: str) -> bool:
        if dof.mimic is None:
            return False
        self._findings.warning(
            "4.2.3.target",
            record.path,
            f"{quoted(target)} is a mimic joint; it is not commanded",
            "name its leader only",
        )
        return True

    def _parameters(
        self, plan: ControllerPlan, record: ControllerRecord, schema: ControllerSchema
    ) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for field, spec in attribute_fields(type(record)):
            if spec.type_name == "rel" or field == "starts_enabled":
                continue
            value = fallback(record, field)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0.0):
                if field in schema.positive:
                    raise _Fault(f"{spec.name} is {quoted(value)}, not a positive number")
                self._findings.error(
                    "4.2.3.parameter",
                    record.path,
                    f"{quoted(value)} is no usable value; it is ignored",
                    "author a number that is not negative",
                    attribute=spec.name,
                )
                value = spec.fallback
            if field in schema.positive and not value:
                raise _Fault(f"{spec.name} must be authored as a positive number")
            parameters[field] = value
        if isinstance(record, DiffDriveRecord):
            for field in schema.joints:
                targets = self._expanded(getattr(record, field) or (), field)
                parameters[field] = tuple(d.name for t in targets for d in self._kinematics.joint_dofs(t))
            self._check_drives(plan, record)
        if isinstance(record, RigidBodyTwistRecord):
            parameters["body"] = self._body(plan, record)
        return parameters

    def _check_drives(self, plan: ControllerPlan, record: ControllerRecord) -> None:
        passive = [row for row in plan.dofs if not self._joints.is_driven(row)]
        if passive:
            self._findings.warning(
                "4.2.3.drive",
                record.path,
                f"{len(passive)} of the {len(plan.dofs)} wheel joints have no drive; physics will not turn them",
                "apply PhysicsDriveAPI:angular with a damping to the wheel joints",
            )

    def _body(self, plan: ControllerPlan, record: RigidBodyTwistRecord) -> str:
        targets = record.body or ()
        if targets:
            if targets[0] not in self._index.bodies:
                raise _Fault(f"ros:rigid_body_twist:body: {quoted(targets[0])} is no rigid body")
            return targets[0]
        base = self._bases[plan.robot].body if plan.robot >= 0 else ""
        if not base:
            raise _Fault("ros:rigid_body_twist:body names no rigid body, and the robot has no base")
        return base

    # --- Implied ----------------------------------------------------------------------------------------------

    def _implied(self, draft: InterfaceDraft) -> ControllerPlan | None:
        robot = self._robot_of(draft.path)
        if robot < 0:
            return None
        plan = ControllerPlan(
            path=draft.path,
            schema="",
            interfaces=(draft.path,),
            robot=robot,
            implied=True,
            enabled=not draft.reason,
            reason=draft.reason,
            switchable=not draft.reason,
        )
        if (draft.type, draft.role) == (TRAJECTORY, "server"):
            dofs = self._joints.commandable(draft.path)
            self._findings.warning(
                "4.2.3.implied",
                draft.path,
                f"no controller serves this action; one for the robot's {len(dofs)} movable joints is assumed"
                if dofs
                else "no controller serves this action, and the robot has no joint to command",
                "declare RosControlJointTrajectoryAPI with ros:joint_trajectory:command_joints",
            )
            plan = replace(
                self._with_dofs(plan, dofs),
                schema=SCHEMAS[JointTrajectoryRecord].name,
                parameters=_defaults(JointTrajectoryRecord),
            )
            return (
                plan
                if dofs
                else replace(
                    plan, enabled=False, reason="the robot has no joint to command", switchable=False
                )
            )
        if (draft.type, draft.role) == (JOINT_STATE, "publisher"):
            return replace(
                self._with_dofs(plan, self._joints.below(draft.path)),
                schema=SCHEMAS[JointStateBroadcasterRecord].name,
                parameters=_defaults(JointStateBroadcasterRecord),
            )
        base = self._bases[robot]
        if draft.type in TWISTS and draft.role == "subscription" and base.body:
            return replace(
                plan,
                schema=SCHEMAS[RigidBodyTwistRecord].name,
                parameters={"body": base.body},
            )
        return None

    # --- Conflicts --------------------------------------------------------------------------------------------

    def _with_claims(self, plan: ControllerPlan) -> ControllerPlan:
        """A differential drive has its robot's base as well: two would move it to two places."""
        if not {schema.name: schema.writes for schema in SCHEMAS.values()}[plan.schema]:
            return plan
        claims: list[int | str] = list(plan.dofs)
        if "body" in plan.parameters:
            claims.append(plan.parameters["body"])
        elif plan.schema == SCHEMAS[DiffDriveRecord].name and plan.robot >= 0:
            base = self._bases[plan.robot]
            claims += [base.body] if base.free else []
        return replace(plan, claims=tuple(claims))

    def _settle_claims(self, plans: Iterable[ControllerPlan]) -> list[ControllerPlan]:
        """Lets the first active controller have a joint or a body; later ones stay inactive."""
        owners: dict[int | str, str] = {}
        result = []
        for plan in map(self._with_claims, plans):
            if not plan.enabled:
                result.append(plan)
                continue
            taken = next((claim for claim in plan.claims if claim in owners), None)
            if taken is None:
                owners.update(dict.fromkeys(plan.claims, plan.path))
                result.append(plan)
                continue
            what = taken if isinstance(taken, str) else plan.joints[plan.dofs.index(taken)]
            reason = f"{quoted(what)} is commanded by {owners[taken]} already"
            self._findings.error(
                "4.2.3.conflict",
                plan.path,
                f"{reason}; the controller stays inactive",
                "author control:starts_enabled = false on one of them",
                attribute="control:starts_enabled",
            )
            result.append(replace(plan, enabled=False, reason=reason))
        return result


def wheel_joints(records: StageRecords) -> set[str]:
    """Returns the joints that differential drives name, whatever else is wrong with them."""
    targets = [
        target
        for record in records.controllers
        if isinstance(record, DiffDriveRecord)
        for target in (*(record.left_wheels or ()), *(record.right_wheels or ()))
    ]
    return {path for target in targets for path in records.collections.get(target, (target,))}


def _defaults(record_type: type[ControllerRecord]) -> dict[str, Any]:
    return {
        field: spec.fallback
        for field, spec in attribute_fields(record_type)
        if spec.type_name != "rel" and field != "starts_enabled"
    }


def odometry_owners(plans: Iterable[ControllerPlan], interfaces: Iterable[InterfaceDraft]) -> dict[int, str]:
    """Returns the odometry frame of each robot that an active differential drive with an odometry publisher owns."""
    odometry = {
        draft.path: draft for draft in interfaces if draft.type == ODOMETRY and draft.role == "publisher"
    }
    result: dict[int, str] = {}
    for plan in plans:
        if plan.schema == SCHEMAS[DiffDriveRecord].name and plan.enabled and plan.robot >= 0:
            for path in plan.interfaces:
                draft = odometry.get(path)
                if draft is not None and not draft.reason:
                    result.setdefault(plan.robot, draft.override_frame_id or "odom")
    return result

"""Controllers that the control extension schemas declare: what they name, and the numbers they are given.

REP 0158 section 4.2.3 and the control extension schemas of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from usd_ros_bridge.model.diagnostics import CONTAINED, quoted
from usd_ros_bridge.model.options import BeyondLimits
from usd_ros_bridge.model.plan import ControllerPlan, DofPlan
from usd_ros_bridge.model.ranges import NumberRange, controller_range
from usd_ros_bridge.model.records import (
    ControllerRecord,
    DiffDriveRecord,
    ExternalControlRecord,
    RigidBodyTwistRecord,
    attribute_fields,
    fallback,
)
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.controller_schemas import SCHEMAS, ControllerSchema, Port
from usd_ros_bridge.planning.controller_targets import ControllerTargets, Fault
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.interfaces import STARTS_DISABLED, InterfaceDraft
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex

_DIAGONAL = 6
"""Numbers on the diagonal of a covariance of position and orientation."""

_BEYOND_LIMITS = ":beyond_limits"


class DeclaredControllers:
    """Plans the controllers of a stage that have a schema."""

    def __init__(
        self,
        index: StageIndex,
        contexts: Contexts,
        targets: ControllerTargets,
        joints: RobotJoints,
        interfaces: Mapping[str, Sequence[InterfaceDraft]],
        trajectory_topics: Mapping[str, Sequence[str]],
        external_topics: Mapping[str, Sequence[InterfaceDraft]],
        findings: Findings,
    ) -> None:
        """Stores what to look things up in.

        Args:
            index: The stage.
            contexts: Its contexts.
            targets: Resolves relationships.
            joints: The robots' joints.
            interfaces: Interfaces by prim path.
            trajectory_topics: Prim paths of the command topics of trajectory controllers by the controller's path.
            external_topics: Topics of external controllers by the controller's path.
            findings: Takes what is wrong.
        """
        self._index = index
        self._contexts = contexts
        self._targets = targets
        self._joints = joints
        self._interfaces = interfaces
        self._trajectory_topics = trajectory_topics
        self._external_topics = external_topics
        self._findings = findings
        self._served: dict[tuple[str, str], str] = {}

    def plan(self) -> list[ControllerPlan]:
        """Returns the controllers in traversal order, before it is settled who of them may be active."""
        plans = []
        for record in self._index.records.controllers:
            try:
                plans.append(self._plan(record))
            except CONTAINED as error:
                self._findings.internal(record.path, "planning this controller", error)
        return plans

    def _plan(self, record: ControllerRecord) -> ControllerPlan:
        schema = SCHEMAS[type(record)]
        robot = self._joints.robot_of_root.get(self._contexts.root_of(record.path), -1)
        plan = ControllerPlan(path=record.path, schema=schema.name, robot=robot)
        try:
            plan = replace(plan, interfaces=self._ports(record, schema))
            plan = self._with_joints(plan, record, schema)
            plan = replace(plan, parameters=self._parameters(plan, record, schema))
            reason = self._interface_reason(record, schema)
        except Fault as fault:
            reason = str(fault)
            self._findings.error(
                "4.2.3.target",
                record.path,
                f"{reason}; the controller stays inactive",
                f"see the schema {schema.name}",
            )
        if not reason:
            for port, target in _ports_of(record, schema):
                self._served.setdefault((port.kind, target), record.path)
            if record.starts_enabled is False:
                reason = STARTS_DISABLED
        return replace(
            plan, enabled=not reason, reason=reason, switchable=not reason or reason == STARTS_DISABLED
        )

    # --- Interfaces -------------------------------------------------------------------------------------------

    def _ports(self, record: ControllerRecord, schema: ControllerSchema) -> tuple[str, ...]:
        if isinstance(record, ExternalControlRecord):
            return tuple(dict.fromkeys(draft.path for draft in self._external_topics[record.path]))
        paths = []
        for port in schema.ports:
            targets = getattr(record, port.field) or ()
            name = _name(record, port.field)
            if not targets:
                if port.required:
                    raise Fault(f"{name} names no interface")
                continue
            self._check_port(port, name, targets[0])
            paths.append(targets[0])
        return (*paths, *self._trajectory_topics.get(record.path, ())) if schema.has_topic else tuple(paths)

    def _check_port(self, port: Port, name: str, target: str) -> None:
        if target not in self._index.records.xforms:
            raise Fault(f"{name}: {quoted(target)} does not exist")
        if not any(port.takes(draft) for draft in self._interfaces.get(target, ())):
            raise Fault(
                f"{name}: {quoted(target)} is no {port.kind} {port.role} of {' or '.join(sorted(port.types))}"
            )
        owner = self._served.get((port.kind, target))
        if owner is not None and port.exclusive:
            raise Fault(f"{name}: {quoted(target)} is the {port.role} of {owner} already")

    def _interface_reason(self, record: ControllerRecord, schema: ControllerSchema) -> str:
        drafts = [
            draft
            for port, target in _ports_of(record, schema)
            for draft in self._interfaces[target]
            if draft.kind == port.kind
        ]
        if isinstance(record, ExternalControlRecord):
            drafts = list(self._external_topics[record.path])
        off = next((draft for draft in drafts if not draft.is_switchable), None)
        return "" if off is None else f"the interface {off.path} is disabled: {off.reason}"

    # --- Joints -----------------------------------------------------------------------------------------------

    def _with_joints(
        self, plan: ControllerPlan, record: ControllerRecord, schema: ControllerSchema
    ) -> ControllerPlan:
        if isinstance(record, ExternalControlRecord):
            return self._with_external_joints(plan, record)
        found: list[DofPlan] = []
        robots: set[int] = set()
        for field in schema.joints:
            dofs_of_field, of_robots = self._targets.dofs(
                record.path, getattr(record, field), _name(record, field), writes=schema.writes
            )
            found += dofs_of_field
            robots |= of_robots
        if len(robots) > 1:
            raise Fault("the joints belong to more than one robot")
        if robots:
            plan = replace(plan, robot=robots.pop())
        unique = {dof.row: dof for dof in found}.values()
        # What its interface's messages are about; where it has none, where it stands.
        return with_dofs(plan, self._joints.named(unique, next(iter(plan.interfaces), record.path)))

    def _with_external_joints(self, plan: ControllerPlan, record: ExternalControlRecord) -> ControllerPlan:
        """Returns an external controller with the joints that it commands: all of its context, or none."""
        dofs = self._joints.below(record.path)
        if not dofs:
            raise Fault("its context has no joint to expose")
        if any(draft.role == "subscription" for draft in self._external_topics[record.path]):
            return with_dofs(plan, dofs)
        self._findings.info(
            "4.2.3.external",
            record.path,
            "the external controller has joint states and no joint commands: it reads the joints and moves none",
            "author a subscription of sensor_msgs/msg/JointState on the prim or below it",
        )
        return plan

    # --- Numbers ----------------------------------------------------------------------------------------------

    def _parameters(
        self, plan: ControllerPlan, record: ControllerRecord, schema: ControllerSchema
    ) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for field, spec in attribute_fields(type(record)):
            if spec.type_name == "rel" or field == "starts_enabled":
                continue
            value = fallback(record, field)
            possible = controller_range(field)
            if field in schema.positive and value is not None and value not in possible:
                raise Fault(f"{spec.name} is {quoted(value)}, not in {possible}")
            if not is_usable(value, spec.fallback, possible, spec.name):
                report_unusable(self._findings, record.path, spec.name, value, possible)
                value = spec.fallback
            if field in schema.positive and value is None:
                raise Fault(f"{spec.name} must be authored as a positive number")
            parameters[field] = value
        if isinstance(record, DiffDriveRecord):
            parameters |= self._wheels(plan, record, schema)
        if isinstance(record, RigidBodyTwistRecord):
            parameters["body"] = self._body(plan, record)
        return parameters

    def _wheels(
        self, plan: ControllerPlan, record: DiffDriveRecord, schema: ControllerSchema
    ) -> dict[str, tuple[str, ...]]:
        own = dict(zip(plan.dofs, plan.joints, strict=True))
        sides: dict[str, tuple[str, ...]] = {}
        for field in schema.joints:
            name = _name(record, field)
            names: list[str] = []
            for target in self._targets.expanded(getattr(record, field), name):
                dofs, _ = self._targets.dofs(record.path, (target,), name, writes=False)
                if len(dofs) != 1 or not dofs[0].axis.startswith("rot"):
                    raise Fault(
                        f"{name}: {quoted(target)} is no wheel's joint: it does not turn about one axis"
                    )
                names += [own[dof.row] for dof in dofs if dof.row in own]
            if not names:
                raise Fault(f"{name} names mimic joints only")
            sides[field] = tuple(dict.fromkeys(names))
        left, right = sides.values()
        both = next((name for name in left if name in right), None)
        if both is not None:
            raise Fault(f"the joint {quoted(both)} is on the left and on the right")
        self._check_drives(plan)
        return sides

    def _check_drives(self, plan: ControllerPlan) -> None:
        passive = [row for row in plan.dofs if not self._joints.is_driven(row)]
        if passive:
            self._findings.warning(
                "4.2.3.drive",
                plan.path,
                f"{len(passive)} of the {len(plan.dofs)} wheel joints have no drive; physics will not turn them",
                "apply PhysicsDriveAPI:angular with a damping to the wheel joints",
            )

    def _body(self, plan: ControllerPlan, record: RigidBodyTwistRecord) -> str:
        name = _name(record, "body")
        body = next(iter(record.body or ()), "") or self._targets.base_of(plan.robot)
        if not body:
            raise Fault(f"{name} names no rigid body, and the robot has no base that can move")
        if not self._targets.is_body(body):
            raise Fault(f"{name}: {quoted(body)} is no rigid body")
        if not self._targets.is_free(body):
            raise Fault(f"{name}: {quoted(body)} is held by a joint")
        return body


def _name(record: ControllerRecord, field: str) -> str:
    return dict(attribute_fields(type(record)))[field].name


def _ports_of(record: ControllerRecord, schema: ControllerSchema) -> list[tuple[Port, str]]:
    """Returns the interfaces that a record names, by port."""
    return [(port, targets[0]) for port in schema.ports if (targets := getattr(record, port.field))]


def with_dofs(plan: ControllerPlan, dofs: Sequence[DofPlan]) -> ControllerPlan:
    """Returns a controller with its joints, in their order."""
    return replace(plan, joints=tuple(dof.name for dof in dofs), dofs=tuple(dof.row for dof in dofs))


def is_usable(value: Any, default: Any, possible: NumberRange, attribute: str = "") -> bool:
    """Returns whether a parameter is none, a text, a switch, or has possible numbers only."""
    if attribute.endswith(_BEYOND_LIMITS):
        return value in ("", *get_args(BeyondLimits))
    if isinstance(value, tuple):
        return len(value) == len(default) and all(is_usable(each, 0.0, possible) for each in value)
    return isinstance(value, bool) or not isinstance(value, (int, float)) or value in possible


def report_unusable(findings: Findings, path: str, attribute: str, value: Any, possible: NumberRange) -> None:
    """Reports a parameter that is not usable; the schema's default stands in for it."""
    remedy = f"author a number: {possible}"
    if isinstance(value, tuple):
        remedy = f"author {_DIAGONAL} numbers: {possible}"
    if attribute.endswith(_BEYOND_LIMITS):
        remedy = f"author one of {', '.join(get_args(BeyondLimits))}"
    findings.error(
        "4.2.3.parameter",
        path,
        f"{quoted(value)} is no usable value; it is ignored",
        remedy,
        attribute=attribute,
    )

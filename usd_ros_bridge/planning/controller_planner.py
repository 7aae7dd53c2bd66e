"""Plan controllers that the control extension schemas declare: their targets, and their parameters.

REP 0158 section 4.2.3 and the control extension schemas of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import commonpath
from typing import Any, Generic, TypeVar, get_args

from usd_ros_bridge.errors import alternatives, nearest, quoted
from usd_ros_bridge.model.actuation import free_base_remedy
from usd_ros_bridge.model.controller_schemas import (
    CONTROLLERS,
    ControllerPort,
    load_class,
    parameter_range,
    schema_name,
)
from usd_ros_bridge.model.diagnostics import CONTAINED, PLUGIN_REMEDY, DiagnosticCollector
from usd_ros_bridge.model.message_types import FOLLOW_JOINT_TRAJECTORY, JOINT_STATE, JOINT_TRAJECTORY
from usd_ros_bridge.model.plan import STARTS_DISABLED, ControllerPlan, DofPlan
from usd_ros_bridge.model.records import (
    ControllerRecord,
    DiffDriveRecord,
    ExternalControlRecord,
    RigidBodyTwistRecord,
    attribute_fields,
    fallback,
)
from usd_ros_bridge.options import BeyondLimits
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.interfaces import InterfaceDraft
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.names import missing_prim, prim_name
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.ranges import NumberRange

_COLLECTION = ".collection:"

_JOINTS_SHOWN = 6


class ControllerFault(Exception):  # noqa: N818 (not an error of the program: it ends the reading of one controller)
    """Why a controller cannot work.

    Attributes:
        remedy: What to do about it; "" where there is nothing better than the schema's documentation.
        attribute: Property at fault, or "".
    """

    def __init__(self, why: str, remedy: str = "", attribute: str = "") -> None:
        super().__init__(why)
        self.remedy = remedy
        self.attribute = attribute


class ControllerTargets:
    """Resolve relationship targets, and report what is wrong with them."""

    def __init__(
        self,
        index: StageIndex,
        kinematics: KinematicModel,
        joints: RobotJoints,
        bases: Sequence[Base],
        findings: DiagnosticCollector,
    ) -> None:
        self._index = index
        self._kinematics = kinematics
        self._joints = joints
        self._bases = bases
        self._findings = findings
        self._unusable = {record.path for record in index.records.joints} - joints.authored
        self._held = {edge.child for robot in kinematics.robots for edge in robot.edges}

    def expanded(self, targets: Iterable[str] | None, name: str) -> list[str]:
        """Return the joints that the relationship `name` targets; of a collection, its joints in traversal order.

        Raises:
            ControllerFault: A collection does not exist.
        """
        result: list[str] = []
        for target in targets or ():
            if _COLLECTION not in target:
                result.append(target)
            elif target in self._index.records.collections:
                members = self._index.records.collections[target]
                result += [path for path in members if path in self._joints.robot_of_joint]
            else:
                raise ControllerFault(f"{name}: the collection {quoted(target)} does not exist")
        return result

    def dofs(
        self, path: str, targets: Iterable[str] | None, name: str, *, writes: bool
    ) -> tuple[list[DofPlan], set[int]]:
        """Return the degrees of freedom of the joints that a controller names, and the robots that they belong to.

        Args:
            path: The controller, for warnings.
            targets: The relationship's targets.
            name: Its name.
            writes: Whether the controller commands them: those that mimic others are left out, with a warning.

        Raises:
            ControllerFault: One is no joint, or cannot move, or there is none.
        """
        expanded = self.expanded(targets, name)
        if not expanded:
            raise ControllerFault(f"{name} names no joint")
        dofs: dict[int, DofPlan] = {}
        robots = set()
        for target in expanded:
            of_joint = self._dofs_of(target, name)
            robots.add(self._joints.robot_of_joint[target])
            for dof in of_joint:
                if writes and dof.mimic is not None:
                    self._warn_of_follower(path, target)
                else:
                    dofs[dof.row] = dof
        return list(dofs.values()), robots

    def base_of(self, robot: int) -> str:
        """Return the body that a robot moves with where nothing ties it to the world, "" where something does."""
        base = self._bases[robot] if robot >= 0 else Base()
        return base.body if base.free else ""

    def tie_of(self, robot: int) -> tuple[bool, str]:
        """Return whether a joint keeps a robot's base from moving, and what does, for a sentence."""
        base = self._bases[robot] if robot >= 0 else Base()
        if not base.body:
            return False, "the robot has no base"
        edge = next((e for e in self._kinematics.robots[robot].edges if e.child == base.body), None)
        joint = edge.joints[0].path if edge is not None and edge.joints else ""
        by = f" by {joint}" if joint else ""
        return True, f"the robot's base {quoted(base.body)} is tied to the world{by}"

    def is_free(self, body: str) -> bool:
        """Return whether a rigid body is held by no joint, except those to its children."""
        return body in self._index.bodies and body not in self._held

    def is_body(self, path: str) -> bool:
        """Return whether a prim is a rigid body."""
        return path in self._index.bodies

    def _dofs_of(self, target: str, name: str) -> tuple[DofPlan, ...]:
        if target not in self._joints.robot_of_joint:
            if target in self._joints.authored:
                raise ControllerFault(
                    f"{name}: {quoted(target)} is in no robot's tree of joints", attribute=name
                )
            if target in self._unusable:
                remedy = "correct the joint, or name another: its own diagnostic says what is wrong"
                raise ControllerFault(f"{name}: the joint {quoted(target)} is not usable", remedy, name)
            raise ControllerFault(f"{name}: {quoted(target)} is no joint", self._joints_like(target), name)
        dofs = self._kinematics.joint_dofs(target)
        if not dofs:
            raise ControllerFault(f"{name}: the joint {quoted(target)} cannot move", attribute=name)
        return dofs

    def _joints_like(self, target: str) -> str:
        """Return the joints that a target may stand for: the nearest names first, and few of them."""
        if not self._findings.suggests:
            return ""
        joints = list(self._joints.robot_of_joint)
        names = nearest(prim_name(target), map(prim_name, joints))
        # Several robots may have a joint of one name: that of the target's own robot comes first.
        by_place = sorted(joints, key=lambda each: -len(commonpath((each, target))))
        close = [each for name in names for each in by_place if prim_name(each) == name]
        shown = list(dict.fromkeys((*close, *joints)))[:_JOINTS_SHOWN]
        more = f" and {len(joints) - len(shown)} more" if len(joints) > len(shown) else ""
        listed = f"joints: {', '.join(shown)}{more}" if shown else "the robots have no joints"
        return f"did you mean {close[0]}? {listed}" if close else listed

    def _warn_of_follower(self, path: str, target: str) -> None:
        self._findings.warning(
            "4.2.3.target",
            path,
            f"{quoted(target)} is a mimic joint; it is not commanded",
            "name its leader only",
        )


_BEYOND_LIMITS = ":beyond_limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerScope:
    """Input of the planners of controllers.

    Attributes:
        index: The stage.
        contexts: Its contexts.
        targets: Resolves relationships.
        joints: The robots' joints.
        interfaces: Interfaces by prim path.
        trajectory_topics: Prim paths of the command topics of trajectory controllers by the controller's path.
        external_topics: Topics of external controllers by the controller's path.
        findings: Collector of faults.
        served: Path of the controller that has an interface, by the interface's kind and path.
    """

    index: StageIndex
    contexts: Contexts
    targets: ControllerTargets
    joints: RobotJoints
    interfaces: Mapping[str, Sequence[InterfaceDraft]]
    trajectory_topics: Mapping[str, Sequence[str]]
    external_topics: Mapping[str, Sequence[InterfaceDraft]]
    findings: DiagnosticCollector
    served: dict[tuple[str, str], str] = field(default_factory=dict)

    def robot_of(self, path: str) -> int:
        """Return the index of the robot that a prim belongs to, -1 for none."""
        return self.joints.robot_of_root.get(self.contexts.root_of(path), -1)


def plan_declared(scope: ControllerScope) -> list[ControllerPlan]:
    """Plan all controllers with a schema, in traversal order, before it is settled which of them may be active."""
    plans = []
    for record in scope.index.records.controllers:
        name = schema_name(type(record))
        try:
            planner_class = load_class(CONTROLLERS[name].planner)
            plans.append(planner_class(scope, name, record).plan())
        except Exception as error:
            if CONTROLLERS.is_foreign(name):
                report_plugin(scope.findings, record.path, CONTROLLERS.failure(name, error))
            elif isinstance(error, CONTAINED):
                scope.findings.internal(record.path, "planning this controller", error)
            else:
                raise
    return plans


def report_plugin(findings: DiagnosticCollector, path: str, fault: str) -> None:
    """Report that the plug-in of a prim's controller cannot be used, or failed."""
    findings.error("4.2.3.plugin", path, f"{fault}; the controller is left out", PLUGIN_REMEDY)


R = TypeVar("R", bound=ControllerRecord)


class ControllerPlanner(Generic[R]):
    """Plan one controller as the row of its schema says. A planner of a schema overrides what its row cannot say."""

    def __init__(self, scope: ControllerScope, name: str, record: R) -> None:
        """Store what to plan.

        Args:
            scope: What to plan from.
            name: Name of the schema.
            record: The controller.
        """
        self.scope = scope
        self.name = name
        self.schema = CONTROLLERS[name]
        self.record = record

    def plan(self) -> ControllerPlan:
        """Return the controller, disabled with a reason where something is wrong with it."""
        record = self.record
        plan = ControllerPlan(path=record.path, schema=self.name, robot=self.scope.robot_of(record.path))
        try:
            plan = replace(plan, interfaces=self.interfaces(), chained=self.chained())
            plan = self.with_joints(plan)
            plan = replace(plan, parameters={**self._attributes(), **self.extra_parameters(plan)})
            off = next((draft for draft in self.drafts() if not draft.is_switchable), None)
            reason = "" if off is None else f"the interface {off.path} is disabled: {off.reason}"
        except ControllerFault as fault:
            reason = str(fault)
            self.scope.findings.error(
                "4.2.3.target",
                record.path,
                f"{reason.removeprefix(f'{fault.attribute}: ')}; the controller stays inactive",
                fault.remedy or f"see the schema {self.name}",
                attribute=fault.attribute,
            )
        if not reason:
            for port, target in self._named():
                self.scope.served.setdefault((port.kind, target), record.path)
            if record.starts_enabled is False:
                reason = STARTS_DISABLED
        return replace(
            plan, enabled=not reason, reason=reason, switchable=not reason or reason == STARTS_DISABLED
        )

    # --- What planners of single schemas override -------------------------------------------------------------

    def interfaces(self) -> tuple[str, ...]:
        """Return the prim paths of the controller's interfaces.

        Raises:
            ControllerFault: One is missing or does not fit.
        """
        paths = []
        for port in self.schema.ports:
            targets = getattr(self.record, port.field) or ()
            name = self.attribute(port.field)
            if not targets:
                if port.required:
                    raise ControllerFault(f"{name} names no interface")
                continue
            self._check_port(port, name, targets[0])
            paths.append(targets[0])
        if ("subscription", JOINT_TRAJECTORY) in self.schema.unnamed:
            paths += self.scope.trajectory_topics.get(self.record.path, ())
        return tuple(paths)

    def chained(self) -> tuple[str, ...]:
        """Return the prim paths of the controllers whose references this one commands.

        Raises:
            ControllerFault: One is no controller with references, or there is none.
        """
        if not self.schema.chain:
            return ()
        name = self.attribute(self.schema.chain)
        targets = tuple(dict.fromkeys(getattr(self.record, self.schema.chain) or ()))
        if not targets and not self.schema.joints:
            raise ControllerFault(f"{name} names no controller", attribute=name)
        possible = {
            record.path
            for record in self.scope.index.records.controllers
            if record is not self.record and CONTROLLERS[schema_name(type(record))].references
        }
        for target in targets:
            if target not in possible:
                remedy = alternatives(target, possible, label="controllers with references:")
                raise ControllerFault(
                    f"{name}: {quoted(target)} is no controller with references", remedy, name
                )
        return targets

    def drafts(self) -> list[InterfaceDraft]:
        """Return the interfaces without which the controller cannot work."""
        return [
            draft
            for port, target in self._named()
            for draft in self.scope.interfaces[target]
            if draft.kind == port.kind
        ]

    def with_joints(self, plan: ControllerPlan) -> ControllerPlan:
        """Return the controller with its joints.

        Raises:
            ControllerFault: One is no joint, or they belong to several robots.
        """
        found: list[DofPlan] = []
        robots: set[int] = set()
        for each in self.schema.joints:
            dofs_of_field, of_robots = self.scope.targets.dofs(
                plan.path, getattr(self.record, each), self.attribute(each), writes=self.schema.writes
            )
            found += dofs_of_field
            robots |= of_robots
        if len(robots) > 1:
            raise ControllerFault("the joints belong to more than one robot")
        if self.schema.joints and self.schema.writes and not found:
            raise ControllerFault(
                f"{self.attribute(self.schema.joints[0])} names mimic joints only; name their leaders"
            )
        if robots:
            plan = replace(plan, robot=robots.pop())
        unique = {dof.row: dof for dof in found}.values()
        # What its interface's messages are about; where it has none, where it stands.
        return with_dofs(plan, self.scope.joints.named(unique, next(iter(plan.interfaces), plan.path)))

    def extra_parameters(self, plan: ControllerPlan) -> dict[str, Any]:  # noqa: ARG002 - for planners of schemas
        """Return parameters that are no attributes of the schema.

        Raises:
            ControllerFault: The controller cannot work.
        """
        return {}

    # --- The row ----------------------------------------------------------------------------------------------

    def attribute(self, name: str) -> str:
        """Return the USD name of a field of the record."""
        return dict(attribute_fields(type(self.record)))[name].name

    def _named(self) -> list[tuple[ControllerPort, str]]:
        """Return the interfaces that the record names, by port."""
        return [
            (port, targets[0]) for port in self.schema.ports if (targets := getattr(self.record, port.field))
        ]

    def _check_port(self, port: ControllerPort, name: str, target: str) -> None:
        if target not in self.scope.index.records.xforms:
            meant = missing_prim(target, self.scope.interfaces) if self.scope.findings.suggests else ""
            remedy = f"{meant}name a {port.kind} {port.role}"
            raise ControllerFault(f"{name}: {quoted(target)} does not exist", remedy, name)
        drafts = self.scope.interfaces.get(target, ())
        if not any(
            draft.kind == port.kind and draft.role == port.role and draft.type in port.types
            for draft in drafts
        ):
            raise _unlike_port(port, name, target, drafts)
        owner = self.scope.served.get((port.kind, target))
        if owner is not None and port.exclusive:
            raise ControllerFault(
                f"{name}: {quoted(target)} is the {port.role} of {owner} already", attribute=name
            )

    def _attributes(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for each, spec in attribute_fields(type(self.record)):
            if spec.type_name == "rel" or each == "starts_enabled":
                continue
            value = fallback(self.record, each)
            possible = parameter_range(self.name, each)
            if each in self.schema.positive and value is not None and value not in possible:
                raise ControllerFault(f"{spec.name} is {quoted(value)}, not in {possible}")
            if not is_usable(value, spec.fallback, possible, spec.name):
                report_unusable(
                    self.scope.findings, self.record.path, spec.name, value, spec.fallback, possible
                )
                value = spec.fallback
            if each in self.schema.positive and value is None:
                raise ControllerFault(f"{spec.name} must be authored as a positive number")
            parameters[each] = value
        return parameters


def _unlike_port(
    port: ControllerPort, name: str, target: str, drafts: Sequence[InterfaceDraft]
) -> ControllerFault:
    """Return why an interface does not fit a port: its type, its role, or that there is no interface of the kind."""
    needed = " or ".join(sorted(port.types))
    what = f"{name}: {quoted(target)} is no {port.kind} {port.role} of {needed}"
    same_kind = next((draft for draft in drafts if draft.kind == port.kind), None)
    if same_kind is None:
        return ControllerFault(what, f"name a prim that has this interface, with the type {needed}", name)
    if same_kind.role != port.role:
        remedy = f"set ros:{port.kind}:role of {target} to {port.role}, or name another prim"
        return ControllerFault(f"{what}: it has the role {quoted(same_kind.role)}", remedy, name)
    remedy = f"set ros:{port.kind}:type of {target} to {needed}, or name another prim"
    return ControllerFault(f"{what}: it has the type {quoted(same_kind.type)}", remedy, name)


class ExternalControlPlanner(ControllerPlanner[ExternalControlRecord]):
    """Plan an external controller: it commands all joints of its context, or none."""

    def interfaces(self) -> tuple[str, ...]:
        """Return the JointState topics that belong to it."""
        return tuple(dict.fromkeys(draft.path for draft in self.drafts()))

    def drafts(self) -> list[InterfaceDraft]:
        """Return the JointState topics that belong to it."""
        return list(self.scope.external_topics[self.record.path])

    def with_joints(self, plan: ControllerPlan) -> ControllerPlan:
        """Return the controller with the joints that it commands."""
        dofs = self.scope.joints.below(plan.path)
        if not dofs:
            raise ControllerFault("its context has no joint to expose")
        if any(draft.role == "subscription" for draft in self.drafts()):
            return with_dofs(plan, dofs)
        self.scope.findings.info(
            "4.2.3.external",
            plan.path,
            "the external controller has joint states and no joint commands: it reads the joints and moves none",
            f"author a subscription of {JOINT_STATE} on the prim or below it",
        )
        return plan


class RigidBodyTwistPlanner(ControllerPlanner[RigidBodyTwistRecord]):
    """Plan a rigid body twist: it moves a body that no joint holds."""

    def extra_parameters(self, plan: ControllerPlan) -> dict[str, Any]:
        """Return the body."""
        name, targets = self.attribute("body"), self.scope.targets
        body = next(iter(self.record.body or ()), "") or targets.base_of(plan.robot)
        if not body:
            tied, why = targets.tie_of(plan.robot)
            remedy = free_base_remedy(self.scope.index.records.asset) if tied else ""
            raise ControllerFault(f"{name} names no rigid body, and {why}", remedy)
        if not targets.is_body(body):
            raise ControllerFault(f"{name}: {quoted(body)} is no rigid body")
        if not targets.is_free(body):
            raise ControllerFault(f"{name}: {quoted(body)} is held by a joint")
        return {"body": body}


class DiffDrivePlanner(ControllerPlanner[DiffDriveRecord]):
    """Plan a differential drive: each wheel turns about one axis, on one side."""

    def extra_parameters(self, plan: ControllerPlan) -> dict[str, Any]:
        """Return the names of the wheels' joints on each side."""
        targets = self.scope.targets
        own = dict(zip(plan.dofs, plan.joints, strict=True))
        sides: dict[str, tuple[str, ...]] = {}
        for side in self.schema.joints:
            name = self.attribute(side)
            names: list[str] = []
            for target in targets.expanded(getattr(self.record, side), name):
                dofs, _ = targets.dofs(plan.path, (target,), name, writes=False)
                if len(dofs) != 1 or not dofs[0].axis.startswith("rot"):
                    raise ControllerFault(
                        f"{name}: {quoted(target)} is no wheel's joint: it does not turn about one axis"
                    )
                names += [own[dof.row] for dof in dofs if dof.row in own]
            if not names:
                raise ControllerFault(f"{name} names mimic joints only")
            sides[side] = tuple(dict.fromkeys(names))
        left, right = sides.values()
        both = next((name for name in left if name in right), None)
        if both is not None:
            raise ControllerFault(f"the joint {quoted(both)} is on the left and on the right")
        return sides


def with_dofs(plan: ControllerPlan, dofs: Sequence[DofPlan]) -> ControllerPlan:
    """Return a controller with its joints, in their order."""
    return replace(plan, joints=tuple(dof.name for dof in dofs), dofs=tuple(dof.row for dof in dofs))


def is_usable(value: Any, default: Any, possible: NumberRange, attribute: str = "") -> bool:
    """Return whether a parameter is none, a text, a switch, or has possible numbers only."""
    if attribute.endswith(_BEYOND_LIMITS):
        return value in ("", *get_args(BeyondLimits))
    if isinstance(value, tuple):
        return len(value) == len(default or value) and all(is_usable(each, 0.0, possible) for each in value)
    return isinstance(value, bool) or not isinstance(value, (int, float)) or value in possible


def report_unusable(
    findings: DiagnosticCollector, path: str, attribute: str, value: Any, default: Any, possible: NumberRange
) -> None:
    """Report a parameter that is not usable; the schema's default stands in for it."""
    remedy = f"author a number: {possible}"
    if isinstance(value, tuple):
        remedy = f"author {len(default or value)} numbers: {possible}"
    if attribute.endswith(_BEYOND_LIMITS):
        remedy = f"author one of {', '.join(get_args(BeyondLimits))}"
    findings.error(
        "4.2.3.parameter",
        path,
        f"{quoted(value)} is no usable value; it is ignored",
        remedy,
        attribute=attribute,
    )


def is_trajectory_server(draft: InterfaceDraft) -> bool:
    """Return whether an interface is the action of a trajectory controller."""
    return (draft.kind, draft.type, draft.role) == ("action", FOLLOW_JOINT_TRAJECTORY, "server")


def is_trajectory_topic(draft: InterfaceDraft) -> bool:
    """Return whether an interface is the command topic of a trajectory controller."""
    return (draft.kind, draft.type, draft.role) == ("topic", JOINT_TRAJECTORY, "subscription")

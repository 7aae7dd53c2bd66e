"""Controllers: declared by the extension schemas or implied by an interface, and who may write which joint.

REP 0158 section 4.2.3 and the control extension schemas of ros-simulation/openusd-schemas. As in ros2_controllers, the
action and the command topic of a trajectory controller are side by side, below its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from usd_ros_bridge.errors import one_of, quoted
from usd_ros_bridge.model.actuation import INTERFACES
from usd_ros_bridge.model.controller_schemas import (
    CONTROLLERS,
    EXTERNAL,
    GRIPPER,
    JOINT_STATE_BROADCASTER,
    JOINT_TRAJECTORY_CONTROLLER,
    RIGID_BODY_TWIST,
    schema_name,
)
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import FLOAT64_MULTI_ARRAY, GRIPPERS, JOINT_STATE, TWISTS
from usd_ros_bridge.model.plan import ControllerPlan, DofPlan, TopicPlan
from usd_ros_bridge.model.records import (
    ActionRecord,
    ControllerRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    TopicRecord,
    attribute_fields,
    fallback,
)
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.controller_planner import (
    ControllerFault,
    ControllerScope,
    ControllerTargets,
    is_trajectory_server,
    is_trajectory_topic,
    is_usable,
    plan_declared,
    report_plugin,
    report_unusable,
    with_dofs,
)
from usd_ros_bridge.planning.interfaces import InterfaceDraft, external_topics
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.ranges import controller_range


def plan_controllers(
    index: StageIndex,
    contexts: Contexts,
    kinematics: KinematicModel,
    joints: RobotJoints,
    bases: Sequence[Base],
    interfaces: Sequence[InterfaceDraft],
    findings: DiagnosticCollector,
) -> tuple[list[ControllerPlan], list[InterfaceDraft]]:
    """Plan all controllers of a stage.

    Returns:
        Declared controllers in traversal order, then implied ones in that of their interfaces; and the interfaces,
        those disabled that might be several controllers'.
    """
    settled, topics = assign_trajectory_topics(index.records, interfaces, contexts, findings)
    by_path: dict[str, list[InterfaceDraft]] = {}
    for draft in settled:
        by_path.setdefault(draft.path, []).append(draft)
    targets = ControllerTargets(index, kinematics, joints, bases, findings)
    external = external_topics(index.records.controllers, settled, contexts)
    scope = ControllerScope(
        index=index,
        contexts=contexts,
        targets=targets,
        joints=joints,
        interfaces=by_path,
        trajectory_topics=topics,
        external_topics=external,
        findings=findings,
    )
    declared = plan_declared(scope)
    implied = ImpliedControllers(scope).plan(settled, declared)
    plans = settle_chains([*declared, *implied], findings)
    return settle_claims(plans, targets, findings), settled


def settle_chains(plans: Sequence[ControllerPlan], findings: DiagnosticCollector) -> list[ControllerPlan]:
    """Disable controllers whose chain leads to one that cannot work, or back to themselves."""
    followers = {plan.path: plan for plan in plans if CONTROLLERS[plan.schema].references}
    result = []
    for plan in plans:
        reason = _chain_fault(plan, followers) if plan.switchable else ""
        if reason:
            findings.error(
                "4.2.3.target",
                plan.path,
                f"{reason}; the controller stays inactive",
                "correct that controller, or name another",
            )
        result.append(_off(plan, reason) if reason else plan)
    return result


def _chain_fault(plan: ControllerPlan, followers: Mapping[str, ControllerPlan]) -> str:
    """Return why the controllers that a controller commands cannot take its references, "" where they can."""
    seen: set[str] = set()
    waiting = list(plan.chained)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        follower = followers.get(path)
        if follower is None or not follower.switchable:
            why = f": {follower.reason}" if follower is not None and follower.reason else ""
            return f"the controller {quoted(path)} that it commands cannot work{why}"
        waiting += follower.chained
    return f"its chain leads back to {quoted(plan.path)}" if plan.path in seen else ""


def settle_claims(
    plans: Iterable[ControllerPlan], targets: ControllerTargets, findings: DiagnosticCollector
) -> list[ControllerPlan]:
    """Give each joint and body to the first active controller. Later ones stay inactive (REP 0158 section 4.2.3)."""
    owners: dict[int | str, str] = {}
    result = []
    for plan in (replace(plan, claims=_claims(plan, targets)) for plan in plans):
        taken = next((claim for claim in plan.claims if claim in owners), None) if plan.enabled else None
        if taken is None:
            owners.update(dict.fromkeys(plan.claims if plan.enabled else (), plan.path))
            result.append(plan)
            continue
        what = taken if isinstance(taken, str) else plan.joints[plan.dofs.index(taken)]
        reason = f"{quoted(what)} is commanded by {owners[taken]} already"
        findings.error(
            "4.2.3.conflict",
            plan.path,
            f"{reason}; the controller stays inactive",
            "author control:starts_enabled = false on one of them",
            attribute="control:starts_enabled",
        )
        result.append(replace(plan, enabled=False, reason=reason))
    return result


def _claims(plan: ControllerPlan, targets: ControllerTargets) -> tuple[int | str, ...]:
    schema = CONTROLLERS[plan.schema]
    if not plan.switchable or not schema.writes:
        return ()
    body = targets.base_of(plan.robot) if schema.claims_base else plan.parameters.get("body", "")
    references = (f"references of {path}" for path in plan.chained)
    return (*plan.dofs, *([body] if body else []), *references)


@dataclass(frozen=True, slots=True)
class _Owner:
    """A trajectory controller: one that is declared, or an action server that implies one.

    `context` is that of its action, which decides what its joints are called. `works` says whether its action does; one
    whose action does not has a topic only where no other is there.
    """

    path: str
    context: str
    root: str
    prefix: str
    works: bool


def assign_trajectory_topics(
    records: StageRecords,
    interfaces: Sequence[InterfaceDraft],
    contexts: Contexts,
    findings: DiagnosticCollector,
) -> tuple[list[InterfaceDraft], dict[str, list[str]]]:
    """Find the controller of each JointTrajectory subscription: by name, else as the only one of its context.

    Args:
        records: The stage.
        interfaces: All interfaces.
        contexts: The contexts.
        findings: Collector of faults.

    Returns:
        The interfaces, those disabled that might be several controllers'; and prim paths of command topics by path of
        the controller (the declaring prim, else the action server's). A subscription without either stands alone.
    """
    topics = [draft for draft in interfaces if is_trajectory_topic(draft) and draft.is_switchable]
    if not topics:
        return list(interfaces), {}
    owners: dict[str, list[_Owner]] = {}
    for owner in _owners(records, interfaces, contexts):
        owners.setdefault(owner.root, []).append(owner)
    reasons: dict[str, str] = {}
    assigned: dict[str, list[str]] = {}
    for topic in topics:
        # In another context the same name may be another joint's.
        here = topic.context.path if topic.context else ""
        near = [each for each in owners.get(contexts.root_of(topic.path), ()) if each.context == here]
        candidates = _candidates(topic, near)
        if len(candidates) == 1:
            assigned.setdefault(candidates[0].path, []).append(topic.path)
        elif candidates:
            reasons[topic.path] = "it might belong to any of several trajectory controllers"
            findings.error(
                "4.2.3.trajectory_topic",
                topic.path,
                f"{quoted(_last(topic.name))} might belong to any of {len(candidates)} trajectory controllers; it is "
                "disabled",
                "name it as one of the action servers but for the last segment (controller/joint_trajectory beside "
                "controller/follow_joint_trajectory)",
                attribute="ros:topic:name",
            )
    settled = [
        replace(draft, reason=reasons[draft.path])
        if draft.path in reasons and is_trajectory_topic(draft)
        else draft
        for draft in interfaces
    ]
    return settled, assigned


def _owners(
    records: StageRecords, interfaces: Iterable[InterfaceDraft], contexts: Contexts
) -> Iterable[_Owner]:
    servers = {draft.path: draft for draft in interfaces if is_trajectory_server(draft)}
    named: set[str] = set()
    for record in records.controllers:
        if isinstance(record, JointTrajectoryRecord):
            server = servers.get(next(iter(record.server or ()), ""))
            named.update(record.server or ())
            yield _owner(record.path, server, contexts)
    for path, server in servers.items():
        if path not in named and server.is_switchable:
            yield _owner(path, server, contexts)


def _owner(path: str, server: InterfaceDraft | None, contexts: Contexts) -> _Owner:
    context = contexts.nearest(path if server is None else server.path)
    return _Owner(
        path=path,
        context=context.path if context else "",
        root=context.root if context else "",
        prefix=_prefix(server.name) if server is not None else "",
        works=server is not None and server.is_switchable,
    )


def _candidates(topic: InterfaceDraft, owners: Sequence[_Owner]) -> Sequence[_Owner]:
    """Return those of a context's owners that may be a topic's: one, several that are alike to it, or none."""
    working = [owner for owner in owners if owner.works] or owners
    prefix = _prefix(topic.name)
    return [owner for owner in working if owner.prefix == prefix] or working


def _prefix(name: str) -> str:
    return name.rpartition("/")[0] + "/"


def _last(name: str) -> str:
    return "/".join(name.split("/")[-2:]).lstrip("/")


FORWARD_JOINTS: Final = "usd_ros_bridge:forward_command:joints"
FORWARD_INTERFACE: Final = "usd_ros_bridge:forward_command:interface"


def with_forward_commands(
    topics: tuple[TopicPlan, ...],
    index: StageIndex,
    kinematics: KinematicModel,
    joints: RobotJoints,
    bases: Sequence[Base],
    findings: DiagnosticCollector,
) -> tuple[TopicPlan, ...]:
    """Return topics, those for arrays of commands with the joints and the command interface that they author.

    The numbers of such an array are what forward_command_controller of ros2_controllers takes: one for each of its
    `joints`, in their order, for its `interface_name`.
    """
    authored = {
        record.path: record
        for record in index.records.topics
        if record.forward_joints is not None or record.forward_interface is not None
    }
    if not authored:
        return topics
    targets = ControllerTargets(index, kinematics, joints, bases, findings)
    return tuple(
        [
            _forwarded(topic, authored[topic.path], targets, joints, findings)
            if topic.path in authored and not topic.implicit
            else topic
            for topic in topics
        ]
    )


def _forwarded(
    topic: TopicPlan,
    record: TopicRecord,
    targets: ControllerTargets,
    joints: RobotJoints,
    findings: DiagnosticCollector,
) -> TopicPlan:
    path = topic.path
    if (topic.type, topic.role) != (FLOAT64_MULTI_ARRAY, "subscription"):
        attribute = FORWARD_JOINTS if record.forward_joints is not None else FORWARD_INTERFACE
        what = f"only subscriptions of {FLOAT64_MULTI_ARRAY} forward commands; it is ignored"
        findings.warning("2.4.forward_command", path, what, "remove it", attribute=attribute)
        return topic
    interface, possible = fallback(record, "forward_interface"), INTERFACES
    if interface not in possible:
        fault = f"the command interface {quoted(interface)} is unknown"
        findings.error(
            "2.4.forward_command",
            path,
            f"{fault}; the topic is disabled",
            one_of(interface, possible),
            attribute=FORWARD_INTERFACE,
        )
        return replace(topic, enabled=False, reason=fault)
    topic = replace(topic, command_interface=interface)
    if record.forward_joints is None:
        return topic
    try:
        dofs, robots = targets.dofs(path, record.forward_joints, FORWARD_JOINTS, writes=True)
        if not dofs:
            raise ControllerFault(f"{FORWARD_JOINTS} names mimic joints only")
        if robots != {topic.robot}:
            raise ControllerFault(f"{FORWARD_JOINTS} names joints of another robot")
    except ControllerFault as fault:
        remedy = fault.remedy or f"name joints of this robot: rel {FORWARD_JOINTS}"
        findings.error(
            "2.4.forward_command", path, f"{fault}; the topic is disabled", remedy, attribute=FORWARD_JOINTS
        )
        return replace(topic, enabled=False, reason=str(fault))
    named = joints.named(dofs, path)
    return replace(topic, dofs=tuple(dof.row for dof in named), joints=tuple(dof.name for dof in named))


_JOINTS = "usd_ros_bridge:gripper:joints"
_OF_A_GRIPPER = "gripper_"
_NAMED = 8
"""How many joints a warning lists by name."""


class ImpliedControllers:
    """Planner of controllers for the interfaces that no controller names."""

    def __init__(self, scope: ControllerScope) -> None:
        """Store what to plan from."""
        self._index = scope.index
        self._targets = scope.targets
        self._joints = scope.joints
        self._scope = scope
        self._findings = scope.findings
        self._actions = {record.path: record for record in scope.index.records.actions}

    def plan(
        self, interfaces: Iterable[InterfaceDraft], declared: Sequence[ControllerPlan]
    ) -> list[ControllerPlan]:
        """Return the controllers in the traversal order of their interfaces.

        Args:
            interfaces: All interfaces.
            declared: The declared controllers: joints that they command are theirs.
        """
        alone = self._alone(interfaces)
        # An external controller commands the whole robot: the active one of the two has it.
        others = {JOINT_STATE_BROADCASTER, EXTERNAL}
        taken = {row for plan in declared if plan.schema not in others for row in plan.dofs}
        grippers = self._grippers(alone, taken)
        held = taken | {row for plan in grippers.values() for row in plan.dofs}
        plans = []
        for draft in sorted(alone, key=lambda draft: self._index.order(draft.path)):
            plan = grippers.get(draft.path) if _is_gripper(draft) else self._implied(draft, held)
            if plan is not None:
                plans.append(plan)
        return plans

    def _alone(self, interfaces: Iterable[InterfaceDraft]) -> list[InterfaceDraft]:
        """Return the interfaces of robots that no relationship names and that are no other controller's."""
        named = {
            (port.kind, path)
            for record in self._index.records.controllers
            for port in CONTROLLERS[schema_name(type(record))].ports
            for path in getattr(record, port.field) or ()
        }
        named |= {("topic", path) for paths in self._scope.trajectory_topics.values() for path in paths}
        named |= {
            ("topic", draft.path) for drafts in self._scope.external_topics.values() for draft in drafts
        }
        return [
            draft
            for draft in interfaces
            if draft.is_switchable
            and (draft.kind, draft.path) not in named
            and self._scope.robot_of(draft.path) >= 0
        ]

    def _implied(self, draft: InterfaceDraft, held: set[int]) -> ControllerPlan | None:
        if is_trajectory_server(draft) or is_trajectory_topic(draft):
            return self._trajectory(draft, held)
        if (draft.type, draft.role) == (JOINT_STATE, "publisher"):
            return replace(
                with_dofs(self._bare(draft, JOINT_STATE_BROADCASTER), self._joints.reported(draft.path)),
                parameters=_defaults(JointStateBroadcasterRecord),
            )
        if draft.type in TWISTS and draft.role == "subscription":
            body = self._index.body_at(draft.path)
            if not body or not self._targets.is_free(body):
                body = self._targets.base_of(self._scope.robot_of(draft.path))
            return replace(self._bare(draft, RIGID_BODY_TWIST), parameters={"body": body}) if body else None
        return self._of_plugin(draft, held)

    def _of_plugin(self, draft: InterfaceDraft, held: set[int]) -> ControllerPlan | None:
        """Return the controller that a plug-in has for the interface's type, None where none has."""
        # Requests of services go to handlers: nothing would deliver them to a controller.
        receives = draft.role == "subscription" or (draft.kind == "action" and draft.role == "server")
        if not receives or not CONTROLLERS.is_foreign(draft.type):
            return None
        schema = CONTROLLERS.get(draft.type)
        if schema is None:
            report_plugin(self._findings, draft.path, CONTROLLERS.fault(draft.type))
            return None
        plan = self._bare(draft, draft.type)
        if schema.commands:
            dofs = [dof for dof in self._joints.commandable(draft.path) if dof.row not in held]
            plan = with_dofs(plan, dofs)
            if not dofs:
                return _off(plan, "the robot has no joint to command")
        return replace(plan, parameters=_defaults(schema.record) if schema.record else {})

    def _bare(self, draft: InterfaceDraft, schema: str) -> ControllerPlan:
        return ControllerPlan(
            path=draft.path,
            schema=schema,
            interfaces=(draft.path,),
            robot=self._scope.robot_of(draft.path),
            implied=True,
            enabled=not draft.reason,
            reason=draft.reason,
        )

    # --- Trajectories -----------------------------------------------------------------------------------------

    def _trajectory(self, draft: InterfaceDraft, held: set[int]) -> ControllerPlan:
        dofs = [dof for dof in self._joints.commandable(draft.path) if dof.row not in held]
        owner = (
            "its context"
            if draft.context is not None and draft.context.path != draft.context.root
            else "the robot"
        )
        self._findings.warning(
            "4.2.3.implied",
            draft.path,
            f"no controller serves this {draft.kind}; one for "
            f"{'the movable joint' if len(dofs) == 1 else f'the {len(dofs)} movable joints'} that no other controller "
            "commands is assumed"
            if dofs
            else f"no controller serves this {draft.kind}, and {owner} has no joint left to command",
            "declare RosControlJointTrajectoryAPI with ros:joint_trajectory:command_joints",
        )
        plan = self._bare(draft, JOINT_TRAJECTORY_CONTROLLER)
        topics = self._scope.trajectory_topics.get(draft.path, ()) if is_trajectory_server(draft) else ()
        plan = replace(
            with_dofs(plan, dofs),
            interfaces=(*plan.interfaces, *topics),
            parameters=_defaults(JointTrajectoryRecord),
        )
        return plan if dofs else _off(plan, f"{owner} has no joint to command")

    # --- Grippers ---------------------------------------------------------------------------------------------

    def _grippers(self, alone: Sequence[InterfaceDraft], taken: set[int]) -> dict[str, ControllerPlan]:
        """Return the grippers by path: first those whose joints are named, then those that take what is left."""
        servers = [draft for draft in alone if _is_gripper(draft)]
        arms = {
            self._scope.robot_of(draft.path)
            for draft in alone
            if is_trajectory_server(draft) or is_trajectory_topic(draft)
        }
        authored = {draft.path for draft in servers if self._actions[draft.path].gripper_joints}
        plans = {draft.path: self._named_gripper(draft) for draft in servers if draft.path in authored}
        taken = taken | {row for plan in plans.values() for row in plan.dofs}
        for draft in servers:
            if draft.path not in authored:
                plans[draft.path] = self._inferred_gripper(
                    draft, taken, beside_arm=self._scope.robot_of(draft.path) in arms
                )
        return plans

    def _named_gripper(self, draft: InterfaceDraft) -> ControllerPlan:
        plan, record = self._gripper(draft), self._actions[draft.path]
        try:
            dofs, robots = self._targets.dofs(draft.path, record.gripper_joints, _JOINTS, writes=True)
            if not dofs:
                raise ControllerFault(f"{_JOINTS} names mimic joints only")
            if robots != {plan.robot}:
                raise ControllerFault(f"{_JOINTS} names joints of another robot")
        except ControllerFault as fault:
            self._no_gripper(draft, str(fault))
            return _off(plan, str(fault))
        return with_dofs(plan, self._joints.named(dofs, draft.path))

    def _inferred_gripper(
        self, draft: InterfaceDraft, taken: set[int], *, beside_arm: bool
    ) -> ControllerPlan:
        dofs = self._fingers(draft, taken, beside_arm=beside_arm)
        if not dofs:
            reason = "no joint is known to be the gripper's"
            self._no_gripper(draft, f"{reason}: {_JOINTS} names none, and no mimic joint says which")
            return _off(self._gripper(draft), reason)
        names = ", ".join(dof.name for dof in dofs[:_NAMED]) + (", ..." if len(dofs) > _NAMED else "")
        self._findings.warning(
            "4.2.3.implied",
            draft.path,
            f"no controller serves this action; a gripper of {names} is assumed",
            f"name the joints: rel {_JOINTS}",
            attribute=_JOINTS,
        )
        return with_dofs(self._gripper(draft), dofs)

    def _fingers(self, draft: InterfaceDraft, taken: set[int], *, beside_arm: bool) -> list[DofPlan]:
        """Return a nested context's own joints, else those that others mimic, else all where no arm needs them."""
        free = [dof for dof in self._joints.commandable(draft.path) if dof.row not in taken]
        if self._joints.is_narrowed(draft.path):
            return free
        followed = {dof.mimic.leader for dof in self._joints.below(draft.path) if dof.mimic is not None}
        leaders = [dof for dof in free if dof.row in followed]
        return leaders if leaders or beside_arm else free

    def _no_gripper(self, draft: InterfaceDraft, fault: str) -> None:
        self._findings.error(
            "4.2.3.target",
            draft.path,
            f"{fault}; the gripper's controller stays inactive",
            f"name the joints that it commands: rel {_JOINTS}",
            attribute=_JOINTS,
        )

    def _gripper(self, draft: InterfaceDraft) -> ControllerPlan:
        record = self._actions[draft.path]
        parameters: dict[str, Any] = {}
        for field, spec in attribute_fields(ActionRecord):
            if spec.type_name == "rel" or not field.startswith(_OF_A_GRIPPER):
                continue
            value = fallback(record, field)
            name = field.removeprefix(_OF_A_GRIPPER)
            possible = controller_range(name)
            if not is_usable(value, spec.fallback, possible, spec.name):
                report_unusable(self._findings, draft.path, spec.name, value, spec.fallback, possible)
                value = spec.fallback
            parameters[name] = value
        return replace(self._bare(draft, GRIPPER), parameters=parameters)


def _is_gripper(draft: InterfaceDraft) -> bool:
    return draft.kind == "action" and draft.type in GRIPPERS and draft.role == "server"


def _off(plan: ControllerPlan, reason: str) -> ControllerPlan:
    return replace(plan, enabled=False, reason=reason, switchable=False)


def _defaults(record_type: type[ControllerRecord]) -> dict[str, Any]:
    return {
        field: spec.fallback
        for field, spec in attribute_fields(record_type)
        if spec.type_name != "rel" and field != "starts_enabled"
    }

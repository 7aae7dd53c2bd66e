"""Controllers: declared by the extension schemas or implied by an interface, and who may write which joint.

REP 0158 section 4.2.3 and the control extension schemas of ros-simulation/openusd-schemas. As in ros2_controllers, the
action and the command topic of a trajectory controller are side by side, below its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.records import JointTrajectoryRecord
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.controllers.declared import (
    ControllerScope,
    ControllerTargets,
    is_trajectory_server,
    is_trajectory_topic,
    plan_declared,
)
from usd_ros_bridge.planning.controllers.implied import ImpliedControllers
from usd_ros_bridge.planning.interfaces import InterfaceDraft, external_topics
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex


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
    return settle_claims([*declared, *implied], targets, findings), settled


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
    schema = CONTROLLER_SCHEMAS[plan.schema]
    if not plan.switchable or not schema.writes:
        return ()
    body = targets.base_of(plan.robot) if schema.claims_base else plan.parameters.get("body", "")
    return (*plan.dofs, *([body] if body else []))


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
        findings: Takes what is wrong.

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

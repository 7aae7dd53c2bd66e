"""Controllers: declared by the extension schemas or implied by an interface, and who may write which joint.

REP 0158 section 4.2.3 and the control extension schemas of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.controllers.declared import ControllerScope, ControllerTargets, plan_declared
from usd_ros_bridge.planning.controllers.implied import ImpliedControllers
from usd_ros_bridge.planning.controllers.trajectory_topics import assign_trajectory_topics
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

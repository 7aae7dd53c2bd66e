"""Controllers: declared by the extension schemas or implied by an interface, and who may write which joint.

REP 0158 section 4.2.3 and the control extension schemas of ros-simulation/openusd-schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.records import DiffDriveRecord
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.bases import Base
from usd_ros_bridge.planning.claims import settle_claims
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.controller_schemas import SCHEMAS
from usd_ros_bridge.planning.controller_targets import ControllerTargets
from usd_ros_bridge.planning.declared_controllers import DeclaredControllers
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.implicit import external_topics
from usd_ros_bridge.planning.implied_controllers import ImpliedControllers
from usd_ros_bridge.planning.interfaces import ODOMETRY, InterfaceDraft
from usd_ros_bridge.planning.kinematics import Kinematics
from usd_ros_bridge.planning.robot_joints import RobotJoints
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.planning.trajectory_topics import assign_trajectory_topics


def plan_controllers(
    index: StageIndex,
    contexts: Contexts,
    kinematics: Kinematics,
    joints: RobotJoints,
    bases: Sequence[Base],
    interfaces: Sequence[InterfaceDraft],
    findings: Findings,
) -> tuple[list[ControllerPlan], list[InterfaceDraft]]:
    """Plans all controllers of a stage.

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
    declared = DeclaredControllers(
        index, contexts, targets, joints, by_path, topics, external, findings
    ).plan()
    owned = {draft.path for drafts in external.values() for draft in drafts}
    implied = ImpliedControllers(index, contexts, targets, joints, topics, owned, findings).plan(
        settled, declared
    )
    return settle_claims([*declared, *implied], targets, findings), settled


def wheel_joints(records: StageRecords) -> set[str]:
    """Returns the joints that differential drives name, whatever else is wrong with them."""
    targets = [
        target
        for record in records.controllers
        if isinstance(record, DiffDriveRecord)
        for target in (*(record.left_wheels or ()), *(record.right_wheels or ()))
    ]
    return {path for target in targets for path in records.collections.get(target, (target,))}


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

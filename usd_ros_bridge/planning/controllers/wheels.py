"""Differential drives: their wheels, and the odometry that they own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.controller_schemas import DIFF_DRIVE
from usd_ros_bridge.model.message_types import ODOMETRY
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.records import DiffDriveRecord
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.controllers.declared import ControllerPlanner
from usd_ros_bridge.planning.controllers.targets import Fault
from usd_ros_bridge.planning.interfaces import InterfaceDraft


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
                    raise Fault(
                        f"{name}: {quoted(target)} is no wheel's joint: it does not turn about one axis"
                    )
                names += [own[dof.row] for dof in dofs if dof.row in own]
            if not names:
                raise Fault(f"{name} names mimic joints only")
            sides[side] = tuple(dict.fromkeys(names))
        left, right = sides.values()
        both = next((name for name in left if name in right), None)
        if both is not None:
            raise Fault(f"the joint {quoted(both)} is on the left and on the right")
        self._check_drives(plan)
        return sides

    def _check_drives(self, plan: ControllerPlan) -> None:
        passive = [row for row in plan.dofs if not self.scope.joints.is_driven(row)]
        if passive:
            self.scope.findings.warning(
                "4.2.3.drive",
                plan.path,
                f"{len(passive)} of the {len(plan.dofs)} wheel joints have no drive; physics will not turn them",
                "apply PhysicsDriveAPI:angular with a damping to the wheel joints",
            )


def wheel_joints(records: StageRecords) -> set[str]:
    """Return the joints that differential drives name, whatever else is wrong with them."""
    targets = [
        target
        for record in records.controllers
        if isinstance(record, DiffDriveRecord)
        for target in (*(record.left_wheels or ()), *(record.right_wheels or ()))
    ]
    return {path for target in targets for path in records.collections.get(target, (target,))}


def odometry_owners(plans: Iterable[ControllerPlan], interfaces: Iterable[InterfaceDraft]) -> dict[int, str]:
    """Return the odometry frame of each robot that an active differential drive with an odometry publisher owns."""
    odometry = {
        draft.path: draft for draft in interfaces if draft.type == ODOMETRY and draft.role == "publisher"
    }
    result: dict[int, str] = {}
    for plan in plans:
        if plan.schema == DIFF_DRIVE and plan.enabled and plan.robot >= 0:
            for path in plan.interfaces:
                draft = odometry.get(path)
                if draft is not None and not draft.reason:
                    result.setdefault(plan.robot, draft.override_frame_id or "odom")
    return result

"""What the row of MecanumDriveAPI cannot say: each wheel is one joint that turns."""

from __future__ import annotations

from typing import Any

from mecanum_drive import MecanumDriveRecord
from usd_ros_bridge import ControllerFault, ControllerPlan, ControllerPlanner


class MecanumPlanner(ControllerPlanner[MecanumDriveRecord]):
    """Plan a mecanum drive."""

    def extra_parameters(self, plan: ControllerPlan) -> dict[str, Any]:
        """Return the name of each wheel's joint."""
        own = dict(zip(plan.dofs, plan.joints, strict=True))
        wheels: dict[str, Any] = {}
        for field in self.schema.joints:
            name = self.attribute(field)
            dofs, _ = self.scope.targets.dofs(plan.path, getattr(self.record, field), name, writes=True)
            if len(dofs) != 1 or not dofs[0].axis.startswith("rot"):
                raise ControllerFault(f"{name}: a wheel is one joint that turns", attribute=name)
            if own[dofs[0].row] in wheels.values():
                raise ControllerFault(f"{name}: the joint is another wheel's", attribute=name)
            wheels[field] = own[dofs[0].row]
        return wheels

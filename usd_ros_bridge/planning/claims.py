"""Claims: what each controller writes, and which of those that would write the same may be active at the start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.records import DiffDriveRecord
from usd_ros_bridge.planning.controller_schemas import SCHEMAS
from usd_ros_bridge.planning.controller_targets import ControllerTargets
from usd_ros_bridge.planning.findings import Findings


def settle_claims(
    plans: Iterable[ControllerPlan], targets: ControllerTargets, findings: Findings
) -> list[ControllerPlan]:
    """Lets the first active controller have a joint or a body; later ones stay inactive (REP 0158 section 4.2.3)."""
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
    """A differential drive has its robot's base as well: whoever else moved it would move it elsewhere."""
    if not plan.switchable or not _WRITES.get(plan.schema, True):
        return ()
    body = plan.parameters.get("body", "")
    if plan.schema == SCHEMAS[DiffDriveRecord].name:
        body = targets.base_of(plan.robot)
    return (*plan.dofs, *([body] if body else []))


_WRITES = {schema.name: schema.writes for schema in SCHEMAS.values()}

"""Report the controllers and command topics of a plan whose commands physics does not execute."""

from __future__ import annotations

from collections.abc import Iterator

from usd_ros_bridge.model.actuation import (
    NO_BASE,
    ActuationFault,
    controller_fault,
    find_unmoved,
    topic_fault,
)
from usd_ros_bridge.model.controller_schemas import CONTROLLERS
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan


def report_unmoved(plan: BridgePlan, scene: PhysicsScene, findings: DiagnosticCollector) -> None:
    """Report what commands cannot move: a warning where the backend `auto` simulates forces, else a remark.

    Args:
        plan: The plan, with this physics.
        scene: Its physics.
        findings: Collector of faults.
    """
    simulated = scene.needs_forces and not scene.falling_body
    for path, fault, anywhere in _faults(plan, scene):
        if not (simulated or anywhere):
            findings.info(fault.code, path, f"where forces are simulated, {fault.message}", fault.remedy)
        elif fault.remark:
            findings.info(fault.code, path, fault.message, fault.remedy)
        else:
            findings.warning(fault.code, path, fault.message, fault.remedy)


def _faults(plan: BridgePlan, scene: PhysicsScene) -> Iterator[tuple[str, ActuationFault, bool]]:
    """Yield the prim, the fault, and whether it is one with every backend."""
    unmoved = find_unmoved(scene, plan.asset)
    for controller in plan.controllers:
        if controller.enabled:
            fault = controller_fault(plan, controller, unmoved, kinematic=False)
            if fault is not None:
                anywhere = fault.code == NO_BASE and CONTROLLERS[controller.schema].claims_base
                yield controller.path, fault, anywhere
    served = {path for controller in plan.controllers for path in controller.interfaces}
    for topic in plan.topics:
        if topic.role == "subscription" and topic.enabled and topic.path not in served:
            fault = topic_fault(plan, topic, unmoved)
            if fault is not None:
                yield topic.path, fault, fault.code == NO_BASE

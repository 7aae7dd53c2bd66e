"""What of a runtime follows from its plan: made for a plan, and made anew, as far as needed, for the next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from usd_ros_bridge.backends.protocol import Backend, BackendInput, Capabilities, Report, SuccessorBackend
from usd_ros_bridge.model.carry import common_rows
from usd_ros_bridge.model.errors import ChangeRefusedError
from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan
from usd_ros_bridge.model.same import same
from usd_ros_bridge.runtime.controllers import Controllers, GroupMaker
from usd_ros_bridge.runtime.frames import FrameTable
from usd_ros_bridge.runtime.inbox import Inbox
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.opening import make_views, open_backend
from usd_ros_bridge.runtime.options import RuntimeOptions
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.stepper import Stepper


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What stays while plans change.

    Attributes:
        options: The runtime's.
        report: Where warnings go.
        inbox: Where goals wait for the tick.
        now_ns: Returns the bridge time, nanoseconds; from any thread.
        clock_period_ns: Returns the period of the clock that ticks follow, nanoseconds; 0 where they follow none.
        groups: Makes the groups of a plan's controllers.
    """

    options: RuntimeOptions
    report: Report
    inbox: Inbox
    now_ns: Callable[[], int]
    clock_period_ns: Callable[[], int]
    groups: GroupMaker


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuntimeParts:
    """What follows from a plan, with its backend open.

    Attributes:
        plan: The plan.
        backend: Open.
        inputs: The topics that the backend needs.
        fed: Robots, by index, whose state arrives by them.
        kinematics: The plan's.
        stepper: The backend at the runtime's edge.
        controllers: The plan's.
        frames: Of all robots.
        snapshot: What is known at a tick.
    """

    plan: BridgePlan
    backend: Backend
    inputs: tuple[BackendInput, ...]
    fed: frozenset[int]
    kinematics: Kinematics
    stepper: Stepper
    controllers: Controllers
    frames: FrameTable
    snapshot: Snapshot

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""
        return self.backend.capabilities

    def discard(self, successor: RuntimeParts | None = None) -> None:
        """Ends goals and closes the backend, but for what a successor goes on with."""
        if successor is None or successor.controllers is not self.controllers:
            self.controllers.close("the bridge is closed" if successor is None else "the asset has changed")
        if successor is None or successor.backend is not self.backend:
            self.stepper.close()


def make_parts(plan: BridgePlan, backend: Backend, around: Surroundings) -> RuntimeParts:
    """Opens a backend on a plan, and makes what shows its state.

    Raises:
        BackendError: The backend refuses its options, or fails to open; it is closed again.
    """
    actuators = 0 if plan.physics is None else len(plan.physics.actuators)
    stepper = Stepper(backend, plan.layout, around.report, actuators=actuators)
    try:
        inputs, fed = open_backend(plan, backend, around.options, around.report)
        kinematics = Kinematics(plan)
        controllers = _make_controllers(plan, backend.capabilities, around)
        frames, snapshot = make_views(plan, backend, kinematics, controllers.odometry, around.report)
    except BaseException:
        stepper.close()
        raise
    return RuntimeParts(
        plan=plan, backend=backend, inputs=inputs, fed=fed, kinematics=kinematics, stepper=stepper,
        controllers=controllers, frames=frames, snapshot=snapshot,
    )  # fmt: skip


def next_parts(old: RuntimeParts, plan: BridgePlan, around: Surroundings) -> RuntimeParts:
    """Makes what follows from the plan to come, and takes as it is what does not change; from any thread.

    Args:
        old: What runs, and goes on running meanwhile.
        plan: The plan to come.
        around: What stays.

    Raises:
        ChangeRefusedError: The backend can neither go on with the plan nor be followed by one that can.
        BackendError: Its successor cannot be opened on the plan.
    """
    if not moves_alike(old.plan, plan):
        backend = old.backend
        if not isinstance(backend, SuccessorBackend):
            raise ChangeRefusedError(
                f"the backend {type(backend).__name__} cannot go on with other joints, bodies or sensors"
            )
        made = make_parts(plan, backend.successor(), around)
        if made.capabilities.step_ns != old.capabilities.step_ns:
            made.discard()
            raise ChangeRefusedError(
                "the asset's time step is another one, and time cannot go on with it: start the bridge again"
            )
        return made
    # Arrays of one layout fit each other: nothing of the state has to move.
    controllers = old.controllers
    if not _controlled_alike(old.plan, plan):
        controllers = _make_controllers(plan, old.capabilities, around)
    kinematics, frames, snapshot = old.kinematics, old.frames, old.snapshot
    if controllers is not old.controllers or not same(old.plan.robots, plan.robots):
        kinematics = Kinematics(plan)
        frames, snapshot = make_views(plan, old.backend, kinematics, controllers.odometry, around.report)
    return replace(
        old, plan=plan, kinematics=kinematics, controllers=controllers, frames=frames, snapshot=snapshot
    )


def take_over(new: RuntimeParts, old: RuntimeParts) -> None:
    """Has what follows from a plan go on where what followed from the one before stands; between two ticks."""
    if new.backend is not old.backend:
        backend: Any = new.backend
        backend.take_over(old.backend)
    common = common_rows(new.plan, old.plan)
    if new.snapshot is not old.snapshot:
        new.snapshot.take_over(old.snapshot, common, alike=new.backend is old.backend)
    else:
        new.snapshot.adopt(new.plan)
    if new.controllers is not old.controllers:
        new.controllers.take_over(old.controllers)


def moves_alike(old: BridgePlan, new: BridgePlan) -> bool:
    """Returns whether what a backend moves and measures is the same in two plans: only how it is shown may differ."""
    return (
        same(old.layout, new.layout)
        and same(_moved(old), _moved(new))
        and same(old.scene, new.scene)
        and same(old.physics, new.physics)
    )


def _moved(plan: BridgePlan) -> tuple[object, ...]:
    return tuple(replace(robot, frames=(), tf_outputs=()) for robot in plan.robots)


def _controlled_alike(old: BridgePlan, new: BridgePlan) -> bool:
    if not same(old.controllers, new.controllers) or old.options.beyond_limits != new.options.beyond_limits:
        return False
    paths = {path for controller in new.controllers for path in controller.interfaces}
    return same(_named(old, paths), _named(new, paths))


def _named(plan: BridgePlan, paths: set[str]) -> list[InterfacePlan]:
    interfaces: tuple[InterfacePlan, ...] = (*plan.topics, *plan.services, *plan.actions)
    return [each for each in interfaces if each.path in paths]


def _make_controllers(plan: BridgePlan, capabilities: Capabilities, around: Surroundings) -> Controllers:
    return Controllers(
        plan,
        capabilities,
        report=around.report,
        inbox=around.inbox,
        now_ns=around.now_ns,
        clock_period_ns=around.clock_period_ns,
        make=around.groups,
    )

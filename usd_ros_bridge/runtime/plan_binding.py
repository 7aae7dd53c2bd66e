"""Plan-dependent runtime objects. The next plan reuses those that did not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from usd_ros_bridge.backends.backend_options import option_values
from usd_ros_bridge.backends.base import (
    Backend,
    BackendContext,
    BackendInput,
    Capabilities,
    StateTransferBackend,
)
from usd_ros_bridge.errors import BackendError, BridgeError, ChangeRefusedError
from usd_ros_bridge.model.change import common_rows, same
from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan
from usd_ros_bridge.options import BridgeOptions, PlanOptions, check_shard
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.backend_runner import BackendRunner, find_sense
from usd_ros_bridge.runtime.controller_manager import ControllerManager, GroupMaker
from usd_ros_bridge.runtime.frame_poses import FrameTable
from usd_ros_bridge.runtime.group_runner import ASSET_CHANGED
from usd_ros_bridge.runtime.inbox import Inbox
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.odometry import OdometryTable
from usd_ros_bridge.runtime.sensor_runner import SensorRunner
from usd_ros_bridge.runtime.snapshot import Snapshot


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedChange:
    """Prepared part of a change to another plan: what one component does next.

    Attributes:
        commit: Use the new plan. Between two ticks, in the tick thread.
        rollback: Close what was opened for the new plan. Instead of `commit`; while no callback runs.
        cleanup: Close what only the old plan needed. After `commit`; while no callback runs.
        finish: Open what could not be open beside the old plan. After `cleanup`; callbacks run meanwhile.
        opened: Return the interfaces that opened, as `publisher /rover/scan`. After `finish`.
        closed: Return the interfaces that closed, likewise.
        kept: Number of interfaces that stay open.
    """

    commit: Callable[[], None] = _nothing
    rollback: Callable[[], None] = _nothing
    cleanup: Callable[[], None] = _nothing
    finish: Callable[[], None] = _nothing
    opened: Callable[[], tuple[str, ...]] = tuple
    closed: Callable[[], tuple[str, ...]] = tuple
    kept: int = 0


class PlanComponent(Protocol):
    """Component that follows from a plan and can change to another one."""

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare a change while the component runs; from any thread. Open what can be open beside the old plan.

        If it raises, it first closes what it opened: there is nothing yet that could roll back. Domains that it
        opened may stay; whoever asks closes those that the live plan has nothing in.

        Args:
            plan: Plan to come. Interfaces that the bridge does not serve are disabled.
            binding: Runtime objects of that plan.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingContext:
    """Runtime objects that stay when the plan changes.

    Attributes:
        options: Options of the runtime.
        report: For warnings.
        inform: For news.
        inbox: Queue of goals for the tick.
        now_ns: Return bridge time, nanoseconds; from any thread.
        clock_period_ns: Return the period of the clock that ticks follow, nanoseconds; 0 without one.
        groups: Make the groups of a plan's controllers.
    """

    options: BridgeOptions
    report: Report
    inform: Report
    inbox: Inbox
    now_ns: Callable[[], int]
    clock_period_ns: Callable[[], int]
    groups: GroupMaker


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanBinding:
    """Plan with its open backend and the runtime objects made for both.

    Attributes:
        plan: The plan.
        backend: Open.
        inputs: Topics that the backend needs.
        topic_driven: Indices of the robots whose state arrives on them.
        kinematics: Joints and links of the plan.
        backend_runner: Steps the backend.
        controllers: Controllers of the plan.
        frames: Frames of all robots.
        sensors: Measures the sensors of plug-ins.
        snapshot: State at a tick.
    """

    plan: BridgePlan
    backend: Backend
    inputs: tuple[BackendInput, ...]
    topic_driven: frozenset[int]
    kinematics: Kinematics
    backend_runner: BackendRunner
    controllers: ControllerManager
    frames: FrameTable
    sensors: SensorRunner
    snapshot: Snapshot

    @property
    def capabilities(self) -> Capabilities:
        """Return the backend's capabilities, with the sensors of plug-ins."""
        return self.sensors.capabilities

    def transfer_state(self, old: PlanBinding) -> None:
        """Continue from the state of the binding before; between two ticks."""
        if self.backend is not old.backend:
            backend: Any = self.backend
            backend.transfer_state(old.backend)
        if self.snapshot is not old.snapshot:
            common = common_rows(self.plan, old.plan)
            self.snapshot.transfer_state(old.snapshot, common, same_backend=self.backend is old.backend)
        if self.controllers is not old.controllers:
            self.controllers.transfer_state(old.controllers)
        if self.snapshot is old.snapshot:
            # Last: if anything before raises, the old plan goes on with it.
            self.snapshot.set_plan(self.plan)

    def close(self, *, used_by: PlanBinding | None = None) -> None:
        """End goals and close the backend, except for objects that another binding uses."""
        if used_by is None or used_by.controllers is not self.controllers:
            self.controllers.close("the bridge is closed" if used_by is None else ASSET_CHANGED)
        if used_by is None or used_by.sensors is not self.sensors:
            self.sensors.close()
        if used_by is None or used_by.backend is not self.backend:
            self.backend_runner.close()


def bind_plan(plan: BridgePlan, backend: Backend, context: BindingContext) -> PlanBinding:
    """Open a backend on a plan and make the runtime objects of both.

    Raises:
        BackendError: The backend refuses its options or cannot be opened. It is closed again.
        OptionError: The plan is for one of several shards, and the backend owns time.
    """
    actuators = 0 if plan.physics is None else len(plan.physics.actuators)
    backend_runner = BackendRunner(backend, plan.layout, context.report, actuators=actuators)
    try:
        inputs = _open_backend(plan, backend, context)
        check_served_shard(plan.options, backend)
        kinematics = Kinematics(plan)
        controllers = _make_controllers(plan, backend.capabilities, context)
        sensors = _make_sensors(plan, backend, context)
        frames, snapshot = _make_snapshot(
            plan, backend, kinematics, controllers.odometry, sensors, context.report
        )
    except BaseException:
        backend_runner.close()
        raise
    driven = (each.robot for each in inputs if backend.capabilities.topic_driven)
    return PlanBinding(
        plan=plan,
        backend=backend,
        inputs=inputs,
        topic_driven=frozenset(driven),
        kinematics=kinematics,
        backend_runner=backend_runner,
        controllers=controllers,
        frames=frames,
        sensors=sensors,
        snapshot=snapshot,
    )


def bind_next_plan(old: PlanBinding, plan: BridgePlan, context: BindingContext) -> PlanBinding:
    """Bind the next plan while the old binding runs; from any thread. Reuse the objects that do not change.

    Raises:
        ChangeRefusedError: The backend can neither run the plan nor have a successor that can.
        BackendError: The successor cannot be opened on the plan.
        OptionError: The plan is for one of several shards, and the backend owns time.
    """
    check_served_shard(plan.options, old.backend)
    if not _is_simulated_alike(old.plan, plan):
        return _bind_successor(old, plan, context)
    controllers = old.controllers
    if not _is_controlled_alike(old.plan, plan):
        controllers = _make_controllers(plan, old.capabilities, context)
    if (
        controllers is old.controllers
        and same(old.plan.robots, plan.robots)
        and _is_sensed_alike(old.plan, plan)
    ):
        return replace(old, plan=plan)
    kinematics = Kinematics(plan)
    sensors = _make_sensors(plan, old.backend, context)
    frames, snapshot = _make_snapshot(
        plan, old.backend, kinematics, controllers.odometry, sensors, context.report
    )
    # The layout is the same: the arrays of the old state fit.
    return replace(
        old,
        plan=plan,
        kinematics=kinematics,
        controllers=controllers,
        frames=frames,
        sensors=sensors,
        snapshot=snapshot,
    )


def _bind_successor(old: PlanBinding, plan: BridgePlan, context: BindingContext) -> PlanBinding:
    backend = old.backend
    if not isinstance(backend, StateTransferBackend):
        raise ChangeRefusedError(
            f"the backend {type(backend).__name__} cannot go on with other joints, bodies or sensors"
        )
    binding = bind_plan(plan, backend.new_instance(), context)
    if binding.capabilities.step_ns != old.capabilities.step_ns:
        binding.close()
        raise ChangeRefusedError(
            "the asset's time step is another one, and time cannot go on with it: start the bridge again"
        )
    return binding


def check_served_shard(options: PlanOptions, backend: Backend) -> None:
    """Check that an open backend may serve the shard of a plan.

    Raises:
        OptionError: It is one of several shards, and the backend owns time.
    """
    if backend.capabilities.step_ns > 0:
        check_shard(options.shard, type(backend).__name__)


def _open_backend(plan: BridgePlan, backend: Backend, context: BindingContext) -> tuple[BackendInput, ...]:
    """Open a backend and return the topics that it needs."""
    options = context.options
    try:
        given = options.backend_options
        backend.open(
            BackendContext(
                plan=plan,
                report=context.report,
                options=given,
                values=option_values(backend, given),
                seed=options.seed,
            )
        )
        return backend.inputs()
    except BridgeError:
        raise
    except Exception as error:
        raise BackendError(f"backend {type(backend).__name__} cannot be opened: {describe(error)}") from error


def _make_controllers(
    plan: BridgePlan, capabilities: Capabilities, context: BindingContext
) -> ControllerManager:
    return ControllerManager(
        plan,
        capabilities,
        report=context.report,
        inform=context.inform,
        inbox=context.inbox,
        now_ns=context.now_ns,
        clock_period_ns=context.clock_period_ns,
        make=context.groups,
    )


def _make_sensors(plan: BridgePlan, backend: Backend, context: BindingContext) -> SensorRunner:
    return SensorRunner(
        plan,
        backend,
        seed=context.options.seed,
        report=context.report,
        backend_sense=find_sense(backend),
    )


def _make_snapshot(
    plan: BridgePlan,
    backend: Backend,
    kinematics: Kinematics,
    odometry: OdometryTable,
    sensors: SensorRunner,
    report: Report,
) -> tuple[FrameTable, Snapshot]:
    capabilities = backend.capabilities
    joint_driven = capabilities.joint_driven
    frames = FrameTable(plan, kinematics, joint_driven=joint_driven, report=report, odometry=odometry)
    snapshot = Snapshot(
        plan,
        kinematics,
        frames,
        joint_driven=joint_driven,
        sense=sensors.sense,
        odometry=odometry,
        odometry_bases=[
            robot.frames[robot.base].carrier
            for robot in plan.robots
            if robot.base >= 0 and robot.path in capabilities.odometry
        ],
    )
    sensors.bind(snapshot)
    return frames, snapshot


def _is_simulated_alike(old: BridgePlan, new: BridgePlan) -> bool:
    """Return whether a backend moves and measures the same in two plans; frames and topics may differ."""
    return (
        same(old.layout, new.layout)
        and same(_simulated_robots(old), _simulated_robots(new))
        and same(old.scene, new.scene)
        and same(old.physics, new.physics)
    )


def _simulated_robots(plan: BridgePlan) -> tuple[object, ...]:
    return tuple(replace(robot, frames=(), tf_outputs=()) for robot in plan.robots)


def _is_controlled_alike(old: BridgePlan, new: BridgePlan) -> bool:
    if not same(old.controllers, new.controllers) or old.options.beyond_limits != new.options.beyond_limits:
        return False
    paths = {path for controller in new.controllers for path in controller.interfaces}
    return same(_interfaces_at(old, paths), _interfaces_at(new, paths))


def _is_sensed_alike(old: BridgePlan, new: BridgePlan) -> bool:
    """Return whether plug-ins measure the same at the same places and rates in two plans."""
    if not same(old.sensors, new.sensors):
        return False
    paths = {sensor.path for sensor in new.sensors}
    return not paths or same(_interfaces_at(old, paths), _interfaces_at(new, paths))


def _interfaces_at(plan: BridgePlan, paths: set[str]) -> list[InterfacePlan]:
    interfaces: tuple[InterfacePlan, ...] = (*plan.topics, *plan.services, *plan.actions)
    return [each for each in interfaces if each.path in paths]

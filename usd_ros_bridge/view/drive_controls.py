"""Drive controls: the tab "Drive", with the controls of one robot at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.interface_types import InterfaceTypeError
from usd_ros_bridge.view.control_panel import (
    ControlPanel,
    JobQueue,
    markdown,
    one_line,
    relative_name,
    show_fault,
)
from usd_ros_bridge.view.control_plans import (
    JOINT_STATES_BACKEND,
    WITHOUT_COMMANDS,
    ControlPlan,
    GripperControl,
    JointSourceControl,
    JointTopicControl,
    ServiceControl,
    TrajectoryControl,
    TwistControl,
    plan_controls,
)
from usd_ros_bridge.view.goal_controls import GripperPanel, TrajectoryPanel
from usd_ros_bridge.view.joint_controls import JointSourcePanel, JointTopicPanel
from usd_ros_bridge.view.node_parameters import RemoteParameters
from usd_ros_bridge.view.page_component import PageContext
from usd_ros_bridge.view.service_buttons import ServicePanel
from usd_ros_bridge.view.twist_pads import TwistPad

_OPEN_FOLDERS = 3
"""Folders that are expanded at first."""


class DriveControls:
    """The controls of the robot that the user has chosen: pads, sliders, goals, services.

    A control whose type is not installed, or that fails, is one line; the others work.
    """

    def __init__(self) -> None:
        self._jobs = JobQueue(lambda error: show_fault(self._context, error))
        self._context: PageContext | None = None
        self._parameters: RemoteParameters | None = None
        self._controls: Sequence[ControlPlan] = ()
        self._robot = -1
        self._degrees = False
        self._is_resumed = False
        self._gui: list[Any] = []
        self._folders: list[Any] = []
        self._panels: list[ControlPanel] = []

    def open(self, context: PageContext) -> None:
        """Add the tab's content; nothing if the page only shows."""
        if not context.drives:
            return
        self._context = context
        if context.joint_source:
            self._controls = plan_controls(
                context.plan, backend=JOINT_STATES_BACKEND, joint_states_topic=context.joint_source
            )
            self._add()
            return
        # Most bridges take commands. One that does not says so in a moment.
        self._controls = plan_controls(context.plan)
        self._add()
        self._parameters = RemoteParameters(context.graph, context.bridge)
        self._jobs.when_done(self._parameters.get(("backend", "backend_options")), self._know_backend)

    def resume(self) -> None:
        """Subscribe to what is measured."""
        self._is_resumed = True
        self._each("resume", lambda panel: panel.resume())

    def update(self) -> None:
        """Run what the user asked for, and show what is new."""
        self._jobs.run_pending()
        now_s = time.monotonic()
        self._each("update", lambda panel: panel.update(now_s))

    def pause(self) -> None:
        """Stop what moves, and unsubscribe."""
        self._jobs.run_pending()
        self._is_resumed = False
        self._each("pause", lambda panel: panel.pause())

    def close(self) -> None:
        """Stop what moves, and remove the tab's content. Idempotent."""
        self._close_panels()
        gui, self._gui = self._gui, []
        for handle in gui:
            handle.remove()
        parameters, self._parameters = self._parameters, None
        if parameters is not None:
            parameters.close()
        self._context = None

    def _know_backend(self, values: Mapping[str, Any] | None, fault: str) -> None:
        if self._context is None or fault or not values:
            return
        backend = values.get("backend", "auto")
        if backend not in WITHOUT_COMMANDS:
            return
        topic = "joint_states"
        if backend == JOINT_STATES_BACKEND:
            given = dict(each.split("=", 1) for each in values.get("backend_options", ()) if "=" in each)
            topic = given.get("topic", topic)
        self._controls = plan_controls(self._context.plan, backend=backend, joint_states_topic=topic)
        self._remove()
        self._add()

    # --- The GUI ----------------------------------------------------------------------------------------------------

    def _add(self) -> None:
        """Add what is above the controls, and the controls of the first robot that has any."""
        context = self._context
        assert context is not None
        robots = sorted({each.robot for each in self._controls}, key=lambda robot: (robot < 0, robot))
        with context.tabs["Drive"]:
            gui = context.server.gui
            if not robots:
                self._gui.append(gui.add_markdown("Nothing here can be driven\\."))
                return
            self._robot = robots[0]
            if len(robots) > 1:
                labels = {self._label(robot): robot for robot in robots}
                choice = gui.add_dropdown("Robot", tuple(labels), initial_value=next(iter(labels)))
                choice.on_update(self._jobs.value_callback(lambda label: self._choose(labels.get(label))))
                self._gui.append(choice)
            if any(not isinstance(each, (TwistControl, ServiceControl)) for each in self._controls):
                degrees = gui.add_checkbox("Angles in degrees", initial_value=self._degrees)
                degrees.on_update(self._jobs.value_callback(self._show_degrees))
                self._gui.append(degrees)
        self._open_panels()

    def _remove(self) -> None:
        self._close_panels()
        gui, self._gui = self._gui, []
        for handle in gui:
            handle.remove()

    def _label(self, robot: int) -> str:
        context = self._context
        assert context is not None
        if robot < 0:
            return "(none)"
        plan = context.plan.robots[robot]
        return one_line(plan.path if plan.namespace == "/" else f"{plan.namespace} ({plan.path})")

    def _choose(self, robot: int | None) -> None:
        if robot is not None and robot != self._robot:
            self._robot = robot
            self._open_panels()

    def _show_degrees(self, degrees: bool) -> None:
        self._degrees = bool(degrees)
        self._open_panels()

    # --- The controls -----------------------------------------------------------------------------------------------

    def _open_panels(self) -> None:
        self._close_panels()
        context = self._context
        assert context is not None
        plans = [each for each in self._controls if each.robot == self._robot]
        keys = next((each for each in plans if isinstance(each, TwistControl)), None)
        for number, plan in enumerate(plans):
            with context.tabs["Drive"]:
                folder = context.server.gui.add_folder(
                    one_line(relative_name(context, plan.robot, plan.name)),
                    expand_by_default=number < _OPEN_FOLDERS,
                )
            self._folders.append(folder)
            panel = self._panel(context, plan, has_keys=plan is keys)
            with folder:
                try:
                    panel.open()
                except (BridgeError, InterfaceTypeError) as error:
                    context.server.gui.add_markdown(markdown(str(error)))
                    panel.close()
                    continue
            self._panels.append(panel)
            if self._is_resumed:
                panel.resume()

    def _panel(self, context: PageContext, plan: ControlPlan, *, has_keys: bool) -> ControlPanel:
        degrees = self._degrees
        make: Mapping[type, Callable[[Any], ControlPanel]] = {
            JointTopicControl: partial(JointTopicPanel, context, self._jobs, degrees=degrees),
            JointSourceControl: partial(JointSourcePanel, context, self._jobs, degrees=degrees),
            TwistControl: partial(TwistPad, context, self._jobs, keys=has_keys),
            TrajectoryControl: partial(TrajectoryPanel, context, self._jobs, degrees=degrees),
            GripperControl: partial(GripperPanel, context, self._jobs, degrees=degrees),
            ServiceControl: partial(ServicePanel, context, self._jobs),
        }
        return make[type(plan)](plan)

    def _close_panels(self) -> None:
        self._each("close", lambda panel: panel.close())
        self._panels.clear()
        folders, self._folders = self._folders, []
        for folder in folders:
            folder.remove()

    def _each(self, what: str, call: Callable[[ControlPanel], None]) -> None:
        """Call every panel. One that raises is reported, and closed."""
        for panel in tuple(self._panels):
            try:
                call(panel)
            except Exception as error:  # noqa: BLE001 - the other controls go on
                self._drop(panel, what, error)

    def _drop(self, panel: ControlPanel, what: str, error: Exception) -> None:
        if self._context is not None:
            name = type(panel).__name__
            self._context.report(f"view.control:{name}", f"{name} failed in {what}: {describe(error)}")
        if panel in self._panels:
            self._panels.remove(panel)
        if what != "close":
            try:
                panel.close()
            except Exception as closing:  # noqa: BLE001 - it is gone all the same
                self._drop(panel, "close", closing)

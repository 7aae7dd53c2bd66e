"""Goal controls: trajectories and grippers as goals of actions, with their feedback and result in words."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from usd_ros_bridge.model.message_types import GRIPPER_COMMAND
from usd_ros_bridge.ros.interface_types import make_message
from usd_ros_bridge.view.control_panel import JobQueue, RateLimit, markdown
from usd_ros_bridge.view.control_plans import GripperControl, TrajectoryControl
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.joint_sliders import JointSliders, MeasuredJoints
from usd_ros_bridge.view.page_component import PageContext

MAX_DURATION_S = 60.0
"""Longest trajectory, seconds."""

DEFAULT_DURATION_S = 3.0

_FEEDBACK_RATE = 5.0
_NANOSECONDS = 1_000_000_000
_ERRORS = {
    -1: "INVALID_GOAL",
    -2: "INVALID_JOINTS",
    -3: "OLD_HEADER_TIMESTAMP",
    -4: "PATH_TOLERANCE_VIOLATED",
    -5: "GOAL_TOLERANCE_VIOLATED",
}
"""error_code of control_msgs/action/FollowJointTrajectory."""


class TrajectoryPanel:
    """Sliders whose positions are one point of a trajectory, for a controller's action or topic."""

    def __init__(
        self, context: PageContext, jobs: JobQueue, plan: TrajectoryControl, *, degrees: bool
    ) -> None:
        """Store the arguments; `open` adds the GUI.

        Args:
            context: The page.
            jobs: Jobs of the page's thread.
            plan: The control.
            degrees: Show angles in degrees.
        """
        self._gui = context.server.gui
        self._graph: GraphClient = context.graph
        self._jobs = jobs
        self._plan = plan
        self._degrees = degrees
        self._measured = MeasuredJoints(self._graph, plan.measured, domain_id=plan.domain_id)
        self._followed = False
        self._moved: set[int] = set()
        self._sliders: JointSliders | None = None
        self._duration: Any = None
        self._publisher: Any = None
        self._goals: _Goals | None = None

    def open(self) -> None:
        """Add the GUI, and make the client or the publisher."""
        plan, gui, jobs = self._plan, self._gui, self._jobs
        self._sliders = JointSliders(gui, jobs, plan.sliders, degrees=self._degrees, changed=self._moved.add)
        self._duration = gui.add_slider("Duration [s]", 0.1, MAX_DURATION_S, 0.1, DEFAULT_DURATION_S)
        gui.add_button("Send").on_click(jobs.callback(self._send))
        if plan.is_action:
            self._goals = _Goals(gui, self._graph, jobs, plan.name, plan.type, plan.domain_id)
            gui.add_button("Cancel").on_click(jobs.callback(self._goals.cancel))
        else:
            self._publisher = self._graph.publisher(
                plan.name, plan.type, qos=plan.qos, domain_id=plan.domain_id
            )
        gui.add_button("Read measured").on_click(jobs.callback(self._read))
        if self._goals is not None:
            self._goals.open()

    def resume(self) -> None:
        """Subscribe to the measured positions."""
        self._measured.resume()

    def update(self, now_s: float) -> None:
        """Show where the joints are, and how the goal gets on."""
        if self._sliders is None:
            return
        if self._measured.poll() and not self._followed:
            self._followed = True
            self._read(but=frozenset(self._moved))
        self._sliders.show_measured(self._measured.positions, now_s)
        if self._goals is not None:
            self._goals.update(now_s)

    def pause(self) -> None:
        """Unsubscribe. A goal continues: it has an end of its own."""
        self._measured.pause()

    def close(self) -> None:
        """Destroy the client or the publisher. Idempotent."""
        self._measured.pause()
        publisher, self._publisher = self._publisher, None
        goals, self._goals = self._goals, None
        if publisher is not None:
            self._graph.destroy(publisher)
        if goals is not None:
            goals.close()

    def _read(self, but: frozenset[int] = frozenset()) -> None:
        assert self._sliders is not None
        kept = {self._plan.sliders[index].name for index in but}
        positions = self._measured.positions
        self._sliders.set_measured({name: positions[name] for name in positions.keys() - kept})

    def _send(self) -> None:
        assert self._sliders is not None
        duration_s = min(max(float(self._duration.value), 0.1), MAX_DURATION_S)
        trajectory = {
            "joint_names": [each.name for each in self._plan.sliders],
            "points": [{"positions": list(self._sliders.values), "time_from_start": _duration(duration_s)}],
        }
        kind = self._graph.type_of(self._plan.type)
        if self._goals is not None:
            self._goals.send(
                make_message(kind.Goal, {"trajectory": trajectory}),
                lambda feedback: _progress(feedback, duration_s),
                _trajectory_result,
            )
        elif self._publisher is not None:
            self._publisher.publish(make_message(kind, trajectory))


class GripperPanel:
    """Buttons that open and close a gripper, and sliders for what is between."""

    def __init__(self, context: PageContext, jobs: JobQueue, plan: GripperControl, *, degrees: bool) -> None:
        """Store the arguments; `open` adds the GUI.

        Args:
            context: The page.
            jobs: Jobs of the page's thread.
            plan: The control.
            degrees: Show angles in degrees.
        """
        self._gui = context.server.gui
        self._graph: GraphClient = context.graph
        self._jobs = jobs
        self._plan = plan
        self._degrees = degrees
        self._measured = MeasuredJoints(self._graph, plan.measured, domain_id=plan.domain_id)
        self._sliders: JointSliders | None = None
        self._goals: _Goals | None = None

    def open(self) -> None:
        """Add the GUI, and make the client."""
        plan, gui, jobs = self._plan, self._gui, self._jobs
        goals = self._goals = _Goals(gui, self._graph, jobs, plan.name, plan.type, plan.domain_id)
        for label, positions in (("Open", plan.opened), ("Close", plan.closed)):
            button = gui.add_button(label, hint=f"Go to {', '.join(f'{each:.4g}' for each in positions)}")
            button.on_click(jobs.callback(partial(self._go, positions)))
        self._sliders = JointSliders(gui, jobs, plan.sliders, degrees=self._degrees)
        gui.add_button("Send").on_click(jobs.callback(self._send))
        gui.add_button("Cancel").on_click(jobs.callback(goals.cancel))
        goals.open()

    def resume(self) -> None:
        """Subscribe to the measured positions."""
        self._measured.resume()

    def update(self, now_s: float) -> None:
        """Show where the joints are, and how the goal gets on."""
        if self._sliders is None or self._goals is None:
            return
        self._measured.poll()
        self._sliders.show_measured(self._measured.positions, now_s)
        self._goals.update(now_s)

    def pause(self) -> None:
        """Unsubscribe. A goal continues: it has an end of its own."""
        self._measured.pause()

    def close(self) -> None:
        """Destroy the client. Idempotent."""
        self._measured.pause()
        goals, self._goals = self._goals, None
        if goals is not None:
            goals.close()

    def _go(self, positions: Sequence[float]) -> None:
        assert self._sliders is not None
        self._sliders.set_values(positions)
        self._send()

    def _send(self) -> None:
        if self._sliders is None or self._goals is None:
            return
        values = list(self._sliders.values)
        command: dict[str, Any] = (
            {"position": values[0]}
            if self._plan.type == GRIPPER_COMMAND
            else {"name": [each.name for each in self._plan.sliders], "position": values}
        )
        kind = self._graph.type_of(self._plan.type)
        self._goals.send(make_message(kind.Goal, {"command": command}), _gripper_state, _gripper_result)


class _Goals:
    """The goals of one action, and a line about the newest one."""

    def __init__(
        self,
        gui: Any,
        graph: GraphClient,
        jobs: JobQueue,
        name: str,
        type_name: str,
        domain_id: int | None,
    ) -> None:
        self._gui = gui
        self._graph = graph
        self._jobs = jobs
        self._client = graph.action_client(name, type_name, domain_id=domain_id)
        self._future: Future[Any] | None = None
        self._number = 0
        self._limit = RateLimit()
        self._shown = RateLimit(_FEEDBACK_RATE)
        self._waiting: Any = None
        self._feedback: Any = None
        self._describe: Any = None
        self._line: Any = None
        self._bar: Any = None

    def open(self) -> None:
        """Add the line about the goal."""
        self._bar = self._gui.add_progress_bar(0.0, visible=False)
        self._line = self._gui.add_markdown("No goal yet")

    def update(self, now_s: float) -> None:
        """Send what waits, within the limit of the rate, and show feedback."""
        if self._waiting is not None and self._limit.take(now_s):
            waiting, self._waiting = self._waiting, None
            self._begin(*waiting)
        if self._feedback is not None and self._future is not None and self._shown.take(now_s):
            feedback, self._feedback = self._feedback, None
            text, share = self._describe(feedback)
            self._show(text, share)

    def close(self) -> None:
        """Destroy the client. A goal in progress continues at its server. Idempotent."""
        self._future = None
        self._graph.destroy(self._client)

    def send(self, goal: Any, describe_feedback: Any, describe_result: Any) -> None:
        """Send a goal in the next update; the newest one if there are several."""
        self._waiting = (goal, describe_feedback, describe_result)

    def cancel(self) -> None:
        """Have the server cancel the newest goal."""
        if self._future is None or self._future.done():
            self._show("No goal to cancel", None)
        else:
            self._future.cancel()
            self._show("Canceling", None)

    def _begin(self, goal: Any, describe_feedback: Any, describe_result: Any) -> None:
        self._number += 1
        number = self._number
        self._describe, self._feedback = describe_feedback, None
        self._show("Sent", 0.0)

        def receive(message: Any) -> None:
            # In a worker's thread; feedback of an older goal is of no interest.
            if number == self._number:
                self._feedback = message

        def done(result: Any, fault: str) -> None:
            if number != self._number:
                return
            self._future = self._feedback = None
            self._show(fault if fault else f"{result.status}{describe_result(result.result)}", None)

        # It fails where no server is found in ten seconds, and where the server goes away.
        self._future = self._client.call(goal, feedback=receive)
        self._jobs.when_done(self._future, done)

    def _show(self, text: str, share: float | None) -> None:
        if self._line is None:
            return
        self._line.content = markdown(text[:1].upper() + text[1:])
        self._bar.visible = share is not None
        if share is not None:
            self._bar.value = 100.0 * min(max(share, 0.0), 1.0)


def _duration(seconds: float) -> dict[str, int]:
    whole, nanoseconds = divmod(round(seconds * _NANOSECONDS), _NANOSECONDS)
    return {"sec": whole, "nanosec": nanoseconds}


def _progress(feedback: Any, duration_s: float) -> tuple[str, float]:
    time = feedback.desired.time_from_start
    passed = max(time.sec + time.nanosec / _NANOSECONDS, 0.0)
    worst = max(map(abs, feedback.error.positions), default=0.0)
    return f"running: {passed:.1f} of {duration_s:.1f} s, largest error {worst:.3f}", passed / duration_s


def _trajectory_result(result: Any) -> str:
    code = int(result.error_code)
    words = [_ERRORS.get(code, f"error {code}")] if code else []
    return "".join(f": {each}" for each in (*words, result.error_string) if each)


def _gripper_state(feedback: Any) -> tuple[str, None]:
    return f"running{_gripper_result(feedback)}", None


def _gripper_result(result: Any) -> str:
    """Return where a gripper is, from a result or feedback of either type."""
    state = getattr(result, "state", None)
    positions = list(state.position) if state is not None else [result.position]
    parts = [", ".join(f"{each:.4g}" for each in positions)]
    parts += ["reached its goal"] if result.reached_goal else []
    parts += ["stalled"] if result.stalled else []
    return f": {', '.join(part for part in parts if part)}"

"""Joint sliders: a slider for each joint of a control, within its limits, with the measured position beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from usd_ros_bridge.model.message_types import JOINT_STATE
from usd_ros_bridge.view.control_panel import JobQueue, one_line
from usd_ros_bridge.view.control_plans import JointSlider
from usd_ros_bridge.view.graph_client import GraphClient

_MEASURED_RATE = 5.0
_STEPS = 1000.0
"""Steps of a slider, at least; a tenth of them at most where a power of ten fits better."""

_DEGREES = {"rad": "deg", "rad/s": "deg/s"}


class JointSliders:
    """The sliders of a control. Values are in SI units, whatever the page shows.

    Attributes:
        plans: The sliders' plans.
        values: Value of each slider.
    """

    def __init__(
        self,
        gui: Any,
        jobs: JobQueue,
        plans: Sequence[JointSlider],
        *,
        degrees: bool = False,
        changed: Callable[[int], object] | None = None,
    ) -> None:
        """Add the sliders to the GUI, within the container that is entered.

        Args:
            gui: viser's GUI.
            jobs: Runs `changed`.
            plans: The sliders.
            degrees: Show angles in degrees.
            changed: Called with the index of a slider that the user moved.
        """
        self.plans = tuple(plans)
        self.values = [each.initial for each in plans]
        self._jobs = jobs
        self._changed = changed
        self._views = [_View(each, degrees=degrees) for each in plans]
        self._handles = []
        self._shown: list[float] = []
        self._labels = [""] * len(self.plans)
        self._measured_s = -math.inf
        for index, view in enumerate(self._views):
            shown = view.shown(self.values[index])
            handle = gui.add_slider(
                view.label(None), view.lower, view.upper, view.step, shown, marks=view.marks, hint=view.hint
            )
            handle.on_update(jobs.value_callback(partial(self._moved, index)))
            self._handles.append(handle)
            self._shown.append(shown)

    def set_values(self, values: Sequence[float]) -> None:
        """Move the sliders. `changed` is not called."""
        for index, value in enumerate(values):
            self.values[index] = self.plans[index].clamp(value)
            self._shown[index] = self._views[index].shown(self.values[index])
            self._jobs.set_value(self._handles[index], self._shown[index])

    def set_measured(self, positions: Mapping[str, float]) -> None:
        """Move the sliders of positions to where the joints are; the others stay."""
        self.set_values(
            [
                positions.get(plan.name, value) if plan.kind == "position" else value
                for plan, value in zip(self.plans, self.values, strict=True)
            ]
        )

    def show_measured(self, positions: Mapping[str, float], now_s: float) -> None:
        """Show measured positions beside the sliders, a few times a second at most."""
        if now_s - self._measured_s < 1.0 / _MEASURED_RATE:
            return
        self._measured_s = now_s
        for index, view in enumerate(self._views):
            label = view.label(positions.get(view.plan.name))
            if label != self._labels[index]:
                self._labels[index] = label
                self._handles[index].label = label

    def remove(self) -> None:
        """Remove the sliders."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def _moved(self, index: int, value: float) -> None:
        if index >= len(self._handles):
            # A callback that was on its way when the sliders were removed.
            return
        view = self._views[index]
        shown = float(value)
        # A browser may send back, rounded, what it was sent.
        if abs(shown - self._shown[index]) < 0.5 * view.step:
            return
        self.values[index] = view.plan.clamp(shown / view.factor)
        self._shown[index] = shown
        inside = view.shown(self.values[index])
        if inside != shown and not view.lower <= shown <= view.upper:
            self._shown[index] = inside
            self._jobs.set_value(self._handles[index], inside)
        if self._changed is not None:
            self._changed(index)


class _View:
    """How the page shows a slider: in its unit, with a step that is a power of ten."""

    def __init__(self, plan: JointSlider, *, degrees: bool) -> None:
        self.plan = plan
        angle = degrees and plan.unit in _DEGREES
        self.factor = math.degrees(1.0) if angle else 1.0
        self.unit = _DEGREES[plan.unit] if angle else plan.unit
        self.lower, self.upper = plan.lower * self.factor, plan.upper * self.factor
        extent = max(self.upper - self.lower, 1e-6)
        self._digits = math.ceil(math.log10(_STEPS / extent))
        self.step = 10.0**-self._digits
        self._position_factor = self.factor if plan.kind == "position" or not degrees else math.degrees(1.0)
        position = "rad" if plan.angular else "m"
        self._position_unit = _DEGREES.get(position, position) if degrees else position

    @property
    def hint(self) -> str:
        """Return the limits, for people."""
        return one_line(
            f"{self.plan.name}: {self.plan.kind} from {self.lower:.6g} to {self.upper:.6g} {self.unit}"
        )

    @property
    def marks(self) -> tuple[tuple[float, str], ...]:
        """Return the limits, with few digits."""
        return tuple((limit, f"{limit:.3g}") for limit in dict.fromkeys((self.lower, self.upper)))

    def shown(self, value: float) -> float:
        """Return a value as the page shows it."""
        return min(max(round(value * self.factor, self._digits), self.lower), self.upper)

    def label(self, position: float | None) -> str:
        """Return the joint's name, with its measured position where that is known."""
        name = one_line(self.plan.name)
        if position is None or not math.isfinite(position):
            return f"{name} [{self.unit}]"
        factor = self._position_factor if self.plan.angular else 1.0
        digits = 1 if factor != 1.0 else 3
        # Without a sign where it is rounded to zero.
        shown = round(position * factor, digits) + 0.0
        return f"{name} [{shown:.{digits}f} {self._position_unit}]"


class MeasuredJoints:
    """The newest positions of a topic of joint states, by name."""

    def __init__(self, graph: GraphClient, topic: str, *, domain_id: int | None) -> None:
        """Store the arguments; `resume` subscribes.

        Args:
            graph: The ROS 2 client.
            topic: Topic of JointState, "" for none.
            domain_id: Its domain.
        """
        self._graph = graph
        self._topic = topic
        self._domain_id = domain_id
        self._subscription: Any = None
        self._message: Any = None
        self.positions: dict[str, float] = {}

    def resume(self) -> None:
        """Subscribe."""
        if self._topic and self._subscription is None:
            self._subscription = self._graph.subscribe(
                self._topic, JOINT_STATE, self._receive, domain_id=self._domain_id
            )

    def pause(self) -> None:
        """Unsubscribe. Idempotent."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._graph.destroy(subscription)

    def poll(self) -> bool:
        """Take over what was received. Return whether there is something new."""
        message, self._message = self._message, None
        if message is None:
            return False
        # Several publishers may share the topic, each with joints of its own.
        self.positions.update(zip(message.name, map(float, message.position), strict=False))
        return True

    def _receive(self, message: Any) -> None:
        self._message = message

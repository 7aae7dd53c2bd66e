"""Joint controls: sliders that command joints on a topic, or that are the source of the joint states."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from usd_ros_bridge.model.message_types import FLOAT64_MULTI_ARRAY
from usd_ros_bridge.view.control_panel import JobQueue, RateLimit, markdown
from usd_ros_bridge.view.control_plans import JointSourceControl, JointTopicControl, SliderSet
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.joint_sliders import JointSliders, MeasuredJoints
from usd_ros_bridge.view.page_component import PageContext

SOURCE_PERIOD_S = 0.1
"""Period of joint states that the page is the source of: that of joint_state_publisher_gui."""


class JointTopicPanel:
    """Sliders of a topic of joint commands: sent as they are moved ("live"), or by a button."""

    def __init__(
        self, context: PageContext, jobs: JobQueue, plan: JointTopicControl, *, degrees: bool
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
        self._limit = RateLimit()
        self._set: SliderSet = plan.sets[0]
        self._dirty: set[int] = set()
        self._moved: set[int] = set()
        self._driving = False
        self._followed = False
        self._publisher: Any = None
        self._sliders: JointSliders | None = None
        self._folder: Any = None
        self._live: Any = None

    def open(self) -> None:
        """Add the GUI and make the publisher."""
        plan, gui, jobs = self._plan, self._gui, self._jobs
        self._publisher = self._graph.publisher(plan.name, plan.type, qos=plan.qos, domain_id=plan.domain_id)
        if len(plan.sets) > 1:
            labels = tuple(each.label for each in plan.sets)
            choice = gui.add_dropdown("Command", labels, initial_value=labels[0])
            choice.on_update(jobs.value_callback(self._choose))
        self._folder = gui.add_folder(None)
        self._add_sliders()
        self._live = gui.add_checkbox("Live", initial_value=False, hint="Send while a slider moves")
        gui.add_button("Send").on_click(jobs.callback(self._send_all))
        gui.add_button("Read measured").on_click(jobs.callback(self._read))

    def resume(self) -> None:
        """Subscribe to the measured positions."""
        self._measured.resume()

    def update(self, now_s: float) -> None:
        """Send the joints that were moved, and show where they are."""
        sliders = self._sliders
        if sliders is None:
            return
        if self._measured.poll() and not self._followed:
            # The sliders begin where the robot is, but for those that the user was quicker to move.
            self._followed = True
            moved = {sliders.plans[index].name for index in self._moved}
            positions = self._measured.positions
            sliders.set_measured({name: positions[name] for name in positions.keys() - moved})
        sliders.show_measured(self._measured.positions, now_s)
        if self._dirty and self._limit.take(now_s):
            self._send(sorted(self._dirty))
            self._dirty.clear()

    def pause(self) -> None:
        """Unsubscribe, and send zero where velocities or efforts were commanded."""
        self._measured.pause()
        self._stop()

    def close(self) -> None:
        """Send zero where velocities or efforts were commanded, and destroy the publisher. Idempotent."""
        self._measured.pause()
        self._stop()
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            self._graph.destroy(publisher)

    def _add_sliders(self) -> None:
        if self._sliders is not None:
            self._sliders.remove()
        with self._folder:
            self._sliders = JointSliders(
                self._gui, self._jobs, self._set.sliders, degrees=self._degrees, changed=self._changed
            )
        self._sliders.set_measured(self._measured.positions)

    def _choose(self, label: str) -> None:
        chosen = next((each for each in self._plan.sets if each.label == label), None)
        if chosen is not None and chosen is not self._set:
            self._stop()
            self._set = chosen
            self._dirty.clear()
            self._moved.clear()
            self._add_sliders()

    def _changed(self, index: int) -> None:
        self._moved.add(index)
        if self._live.value:
            self._dirty.add(index)

    def _send_all(self) -> None:
        # In the next update, within the limit of the rate.
        self._dirty.update(range(len(self._set.sliders)))

    def _read(self) -> None:
        if self._sliders is not None:
            self._sliders.set_measured(self._measured.positions)

    def _stop(self) -> None:
        sliders, self._dirty = self._sliders, set()
        if not self._driving or sliders is None or self._publisher is None:
            return
        moved = [index for index, each in enumerate(sliders.plans) if each.kind != "position"]
        sliders.set_values(
            [
                value if each.kind == "position" else 0.0
                for each, value in zip(sliders.plans, sliders.values, strict=True)
            ]
        )
        self._send(moved)

    def _send(self, indices: Sequence[int]) -> None:
        sliders = self._sliders
        assert sliders is not None
        if self._plan.type == FLOAT64_MULTI_ARRAY:
            message = self._graph.type_of(self._plan.type)(data=list(sliders.values))
        else:
            message = self._joint_state(indices)
        self._publisher.publish(message)
        self._driving = any(
            value != 0.0 and each.kind != "position"
            for each, value in zip(sliders.plans, sliders.values, strict=True)
        )

    def _joint_state(self, indices: Sequence[int]) -> Any:
        sliders = self._sliders
        assert sliders is not None
        message = self._graph.type_of(self._plan.type)()
        message.header.stamp = self._graph.node(self._plan.domain_id).get_clock().now().to_msg()
        message.name = [sliders.plans[index].name for index in indices]
        for kind in ("position", "velocity", "effort"):
            values = [
                sliders.values[index] if sliders.plans[index].kind == kind else math.nan for index in indices
            ]
            # An array of nothing commands nothing; in one of something, NaN commands nothing.
            if not all(map(math.isnan, values)):
                setattr(message, kind, values)
        return message


class JointSourcePanel:
    """Sliders that publish the joint states of a robot, as those of joint_state_publisher_gui.

    The page repeats them as long as nobody else publishes on the topic, whether or not a browser is connected. A line
    above the sliders says when others do.
    """

    def __init__(
        self, context: PageContext, jobs: JobQueue, plan: JointSourceControl, *, degrees: bool
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
        self._limit = RateLimit()
        self._values = tuple(each.initial for each in plan.sliders)
        self._dirty = False
        self._publisher: Any = None
        self._timer: Any = None
        self._sliders: JointSliders | None = None
        # Set in the thread of the domain, shown in that of the page.
        self._others_publish = False
        self._others_line: Any = None

    def open(self) -> None:
        """Add the GUI, and begin to publish."""
        plan, gui, jobs = self._plan, self._gui, self._jobs
        text = f"Another node publishes {plan.name}: the page does not repeat these values"
        self._others_line = gui.add_markdown(markdown(text), visible=False)
        self._sliders = JointSliders(
            gui, jobs, plan.sliders, degrees=self._degrees, changed=lambda _: self._take_values()
        )
        for label, hint, change in (
            ("Centre", "The middle between the limits", self._centre),
            ("Randomise", "Anywhere within the limits", self._randomise),
            ("Zero", "0, or the limit nearest to it", self._zero),
        ):
            gui.add_button(label, hint=hint).on_click(jobs.callback(change))
        self._publisher = self._graph.publisher(plan.name, plan.type, domain_id=plan.domain_id)
        self._timer = self._graph.timer(SOURCE_PERIOD_S, self._repeat, domain_id=plan.domain_id)

    def resume(self) -> None:
        """Do nothing: it has no subscription."""

    def update(self, now_s: float) -> None:
        """Publish what was moved, and show whether others publish."""
        if self._others_line is not None and self._others_line.visible != self._others_publish:
            self._others_line.visible = self._others_publish
        if self._dirty and self._limit.take(now_s):
            self._dirty = False
            self._publish()

    def pause(self) -> None:
        """Do nothing: joint states without speed move nothing."""

    def close(self) -> None:
        """Destroy the timer and the publisher. Idempotent."""
        timer, self._timer = self._timer, None
        publisher, self._publisher = self._publisher, None
        for entity in (timer, publisher):
            if entity is not None:
                self._graph.destroy(entity)

    def _centre(self) -> None:
        self._set([0.5 * (each.lower + each.upper) for each in self._plan.sliders])

    def _randomise(self) -> None:
        self._set([random.uniform(each.lower, each.upper) for each in self._plan.sliders])

    def _zero(self) -> None:
        self._set([each.clamp(0.0) for each in self._plan.sliders])

    def _set(self, values: Sequence[float]) -> None:
        assert self._sliders is not None
        self._sliders.set_values(values)
        self._take_values()

    def _take_values(self) -> None:
        assert self._sliders is not None
        self._values = tuple(self._sliders.values)
        self._dirty = True

    def _repeat(self) -> None:
        """Publish again; in the thread of the domain."""
        node = self._graph.node(self._plan.domain_id)
        self._others_publish = node.count_publishers(self._plan.name) > 1
        if not self._others_publish:
            self._publish()

    def _publish(self) -> None:
        publisher = self._publisher
        if publisher is None:
            return
        message = self._graph.type_of(self._plan.type)()
        message.header.stamp = self._graph.node(self._plan.domain_id).get_clock().now().to_msg()
        message.name = [each.name for each in self._plan.sliders]
        message.position = list(self._values)
        publisher.publish(message)

"""Twist pads: drive a robot from the page, with buttons that are held, sliders and the arrow keys.

A pad sends while there is a speed, and one zero after that. A button that is held sends its own sign of life from the
browser: a browser that dies, or loses its connection, stops the robot like one that lets the button go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from usd_ros_bridge.model.message_types import TWIST_STAMPED
from usd_ros_bridge.view.control_panel import JobQueue, RateLimit
from usd_ros_bridge.view.control_plans import TwistControl
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.page_component import PageContext

RATE = 10.0
"""Messages a second while a speed is commanded."""

HELD_S = 0.35
"""A button counts as released this long after the browser's last sign of life, seconds; it sends ten a second."""

KEY_S = 0.6
"""The same for a key, which repeats half a second after it was pressed, and faster from then on."""

DEFAULT_SHARE = 50
"""Speed of the buttons at first, percent of the greatest."""


@dataclass(frozen=True, slots=True)
class _Direction:
    """A button of a pad: factors of the greatest speeds."""

    label: str
    icon: str
    key: str
    x: float = 0.0
    y: float = 0.0
    yaw: float = 0.0


_DRIVE = (
    _Direction("Forward", "arrow-up", "arrowup", x=1.0),
    _Direction("Back", "arrow-down", "arrowdown", x=-1.0),
    _Direction("Turn left", "corner-up-left", "arrowleft", yaw=1.0),
    _Direction("Turn right", "corner-up-right", "arrowright", yaw=-1.0),
)
_LATERAL = (
    _Direction("Left", "arrow-left", "", y=1.0),
    _Direction("Right", "arrow-right", "", y=-1.0),
)


class TwistPad:
    """The pad of one topic of twists."""

    def __init__(self, context: PageContext, jobs: JobQueue, plan: TwistControl, *, keys: bool) -> None:
        """Store the arguments; `open` adds the GUI.

        Args:
            context: The page.
            jobs: Jobs of the page's thread.
            plan: The control.
            keys: The arrow keys, with shift, drive this pad.
        """
        self._server = context.server
        self._gui = context.server.gui
        self._graph: GraphClient = context.graph
        self._jobs = jobs
        self._plan = plan
        self._keys = keys
        self._limit = RateLimit(RATE)
        self._now_s = 0.0
        self._held_until: dict[_Direction, float] = {}
        self._pressed: dict[_Direction, float] = {}
        self._sliders: dict[str, Any] = {}
        self._share: Any = None
        self._commands: list[Any] = []
        self._publisher: Any = None
        self._driving = False
        self._driver: int | None = None

    def open(self) -> None:
        """Add the GUI and make the publisher."""
        plan, gui, jobs = self._plan, self._gui, self._jobs
        self._publisher = self._graph.publisher(plan.name, plan.type, qos=plan.qos, domain_id=plan.domain_id)
        for direction in self._directions():
            button = gui.add_button(direction.label, icon=direction.icon, hint="Hold to drive")
            button.on_hold(jobs.callback(partial(self._hold, direction, HELD_S)), callback_hz=RATE)
        gui.add_button("Stop", icon="hand-stop", color="red").on_click(jobs.callback(self._stop))
        self._share = gui.add_slider(
            "Speed of the buttons [%]", 5, 100, 5, DEFAULT_SHARE, hint="Share of the greatest speed"
        )
        self._add_slider("x", "Speed [m/s]", plan.linear)
        if plan.lateral:
            self._add_slider("y", "Sideways [m/s]", plan.linear)
        self._add_slider("yaw", "Turn [rad/s]", plan.angular)
        if self._keys:
            self._add_keys()

    def resume(self) -> None:
        """Do nothing: it has no subscription."""

    def update(self, now_s: float) -> None:
        """Send the speed ten times a second, and zero once when it has become zero."""
        self._now_s = now_s
        if self._driver is not None and self._driver not in self._server.get_clients():
            # Whoever moved a slider has left, though others still look at the page.
            self._stop()
        for direction, hold_s in self._pressed.items():
            self._held_until[direction] = now_s + hold_s
        self._pressed.clear()
        twist = self._twist()
        if any(twist):
            if self._limit.take(now_s) or not self._driving:
                self._send(twist)
            self._driving = True
        elif self._driving:
            self._driving = False
            self._send(twist)

    def pause(self) -> None:
        """Stop the robot: no browser is connected any more."""
        self._stop()

    def close(self) -> None:
        """Stop the robot and destroy the publisher. Idempotent."""
        self._stop()
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            self._graph.destroy(publisher)
        commands, self._commands = self._commands, []
        for command in commands:
            command.remove()

    def _directions(self) -> tuple[_Direction, ...]:
        return (*_DRIVE, *_LATERAL) if self._plan.lateral else _DRIVE

    def _add_slider(self, axis: str, label: str, limit: float) -> None:
        step = 10.0 ** math.floor(math.log10(limit / 50.0))
        slider = self._gui.add_slider(
            label, -limit, limit, step, 0.0, hint="Drives until it is at 0 again, or Stop is pressed"
        )
        slider.on_update(lambda event: self._jobs.submit(partial(self._set_driver, event.client_id)))
        self._sliders[axis] = slider

    def _set_driver(self, client: int | None) -> None:
        self._driver = client

    def _add_keys(self) -> None:
        entries: list[tuple[str, str, Callable[[], None]]] = [
            (each.label, each.key, partial(self._hold, each, KEY_S)) for each in _DRIVE
        ]
        entries.append(("Stop", "space", self._stop))
        for label, key, job in entries:
            # Without shift, the arrow keys turn the camera.
            command = self._gui.add_command(
                f"{label}: {self._plan.name}", hotkey=key, modifier=None if key == "space" else "shift"
            )
            command.on_trigger(self._jobs.callback(job))
            self._commands.append(command)

    def _hold(self, direction: _Direction, hold_s: float) -> None:
        self._pressed[direction] = hold_s

    def _stop(self) -> None:
        self._driver = None
        self._held_until.clear()
        self._pressed.clear()
        for slider in self._sliders.values():
            self._jobs.set_value(slider, 0.0)
        if self._driving:
            self._driving = False
            self._send((0.0, 0.0, 0.0))

    def _twist(self) -> tuple[float, float, float]:
        """Return the commanded speeds, m/s and rad/s, within the limits."""
        held = [each for each, until in self._held_until.items() if until > self._now_s]
        share = min(max(float(self._share.value), 0.0), 100.0) / 100.0
        plan = self._plan
        return (
            self._speed("x", plan.linear, share * sum(each.x for each in held)),
            self._speed("y", plan.linear, share * sum(each.y for each in held)),
            self._speed("yaw", plan.angular, share * sum(each.yaw for each in held)),
        )

    def _speed(self, axis: str, limit: float, share: float) -> float:
        slider = self._sliders.get(axis)
        speed = share * limit + (0.0 if slider is None else float(slider.value))
        return min(max(speed, -limit), limit) if math.isfinite(speed) else 0.0

    def _send(self, twist: tuple[float, float, float]) -> None:
        if self._publisher is None:
            return
        message = self._graph.type_of(self._plan.type)()
        target = message
        if self._plan.type == TWIST_STAMPED:
            message.header.stamp = self._graph.node(self._plan.domain_id).get_clock().now().to_msg()
            message.header.frame_id = self._plan.frame_id
            target = message.twist
        target.linear.x, target.linear.y, target.angular.z = twist
        self._publisher.publish(message)

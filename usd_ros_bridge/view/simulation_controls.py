"""Simulation controls: pause, step, reset and the real-time factor of a bridge whose backend owns time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from usd_ros_bridge.model.message_types import CLOCK, SET_BOOL, TRIGGER
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.ros.interface_types import InterfaceTypeError
from usd_ros_bridge.view.control_panel import JobQueue, RateLimit, markdown, notify, show_fault
from usd_ros_bridge.view.node_parameters import RemoteParameters
from usd_ros_bridge.view.page_component import PageContext

FACTOR = "real_time_factor"
FACTORS = ("0.1", "0.25", "0.5", "1", "2", "5", "10")
FASTEST = "as fast as possible"
_FASTEST_VALUE = 0.0

TIMEOUT_S = 10.0
"""How long a request waits for its answer, seconds."""

_LOOK_S = 0.5
_SHOW_RATE = 5.0
_MEASURE_S = 1.0
_ASSUMED_S = 1.5
_CLOCK_QOS = QosPlan(reliability="best_effort", depth=1)
_NANOSECONDS = 1_000_000_000


class SimulationControls:
    """The tab "Simulation": its first part. Hidden while no server offers `~/set_paused`."""

    def __init__(self) -> None:
        self._jobs = JobQueue(lambda error: show_fault(self._context, error))
        self._context: PageContext | None = None
        self._parameters: RemoteParameters | None = None
        self._clients: dict[str, Any] = {}
        self._clock: Any = None
        self._time = _SimulatedTime()
        self._shown = RateLimit(_SHOW_RATE)
        self._look = RateLimit(1.0 / _LOOK_S)
        self._is_paused = False
        self._steps_left = 0
        self._folder: Any = None
        self._pause: Any = None
        self._steps: Any = None
        self._factors: Any = None
        self._line: Any = None

    def open(self, context: PageContext) -> None:
        """Add the GUI, and make the clients; nothing if the page only shows."""
        if not context.drives:
            return
        self._context = context
        graph, bridge = context.graph, context.bridge
        for name, kind in (("set_paused", SET_BOOL), ("step", TRIGGER), ("reset", TRIGGER)):
            self._clients[name] = graph.service_client(f"{bridge}/{name}", kind)
        self._parameters = RemoteParameters(graph, bridge)
        gui, jobs = context.server.gui, self._jobs
        with context.tabs["Simulation"]:
            self._folder = gui.add_folder("Time", visible=False)
        with self._folder:
            self._line = gui.add_markdown("")
            self._pause = gui.add_checkbox("Paused", initial_value=False)
            self._pause.on_update(jobs.value_callback(self._set_paused))
            self._steps = gui.add_slider("Steps", 1, 100, 1, 1, hint="Steps of the backend's own length")
            gui.add_button("Step", hint="Only while paused").on_click(jobs.callback(self._step))
            gui.add_button("Reset", hint="Everything to the start").on_click(
                jobs.callback(partial(self._call, "reset", {}))
            )
            self._factors = gui.add_dropdown(
                "Real-time factor",
                (*FACTORS, FASTEST),
                initial_value="1",
                visible=False,
                hint="Simulated seconds in a second",
            )
            self._factors.on_update(jobs.value_callback(self._choose_factor))

    def resume(self) -> None:
        """Subscribe to `/clock`, and follow the real-time factor."""
        context, parameters = self._context, self._parameters
        if context is None or parameters is None:
            return
        self._time.forget()
        try:
            self._clock = context.graph.subscribe(
                "/clock", CLOCK, self._time.receive, qos=_CLOCK_QOS, raw=True
            )
        except InterfaceTypeError as error:
            context.report("view.clock", f"simulated time is not shown: {error}")
        parameters.follow(lambda values: self._jobs.submit(partial(self._know, values, "")))
        self._jobs.when_done(parameters.get((FACTOR,)), self._know)

    def update(self) -> None:
        """Run what the user asked for, and show the time."""
        self._jobs.run_pending()
        context = self._context
        if context is None:
            return
        now_s = time.monotonic()
        if self._look.take(now_s):
            self._folder.visible = context.graph.has_service(f"{context.bridge}/set_paused")
        self._time.measure(now_s)
        if self._time.is_paused is not None and self._time.is_paused != self._is_paused:
            self._is_paused = self._time.is_paused
            self._jobs.set_value(self._pause, self._is_paused)
        if self._shown.take(now_s):
            text = self._time.text()
            if text != self._line.content:
                self._line.content = text

    def pause(self) -> None:
        """Unsubscribe."""
        clock, self._clock = self._clock, None
        if self._context is not None and clock is not None:
            self._context.graph.destroy(clock)
        if self._parameters is not None:
            self._parameters.unfollow()

    def close(self) -> None:
        """Remove the GUI and the clients. Idempotent."""
        self.pause()
        context, self._context = self._context, None
        clients, self._clients = self._clients, {}
        folder, self._folder = self._folder, None
        parameters, self._parameters = self._parameters, None
        if context is not None:
            for client in clients.values():
                context.graph.destroy(client)
        if parameters is not None:
            parameters.close()
        if folder is not None:
            folder.remove()

    # --- Requests ---------------------------------------------------------------------------------------------------

    def _set_paused(self, paused: bool) -> None:
        # Also what the page believes to be so: /clock may have misled it, and a user's click is never dropped.
        self._is_paused = paused
        self._call("set_paused", {"data": paused})

    def _step(self) -> None:
        if not self._steps_left:
            self._steps_left = min(max(int(self._steps.value), 1), 100)
            self._call("step", {})

    def _call(self, name: str, request: dict[str, bool]) -> None:
        client = self._clients.get(name)
        if client is not None:
            # A step and a reset change the stamp, but not whether time is paused.
            self._time.assume(self._is_paused)
            self._jobs.when_done(client.call(request, timeout=TIMEOUT_S), partial(self._answered, name))

    def _answered(self, name: str, answer: Any, fault: str) -> None:
        context = self._context
        if context is None:
            return
        fault = fault or ("" if answer.success else answer.message or "it was refused")
        if fault:
            self._steps_left = 0
            notify(context, f"{name} failed", fault)
        elif name == "step" and self._steps_left > 1:
            self._steps_left -= 1
            self._call("step", {})
        else:
            self._steps_left = 0

    # --- The real-time factor ---------------------------------------------------------------------------------------

    def _choose_factor(self, label: str) -> None:
        value = _FASTEST_VALUE if label == FASTEST else float(label)
        if self._parameters is not None:
            self._jobs.when_done(self._parameters.set(FACTOR, value), self._factor_set)

    def _factor_set(self, refusal: str | None, fault: str) -> None:
        context, parameters = self._context, self._parameters
        if context is not None and parameters is not None and (fault or refusal):
            notify(context, "The real-time factor stays", fault or refusal or "")
            self._jobs.when_done(parameters.get((FACTOR,)), self._know)

    def _know(self, values: Mapping[str, Any] | None, fault: str) -> None:
        """Show the real-time factor that the bridge has."""
        if self._context is None or fault or not values or FACTOR not in values:
            return
        factor = float(values[FACTOR])
        label = FASTEST if factor == _FASTEST_VALUE else f"{factor:g}"
        if label not in self._factors.options:
            self._factors.options = (*FACTORS, FASTEST, label)
        self._jobs.set_value(self._factors, label)
        # A bridge in a host's process has no such parameter.
        self._factors.visible = True


class _SimulatedTime:
    """Simulated time as `/clock` has it. While it is paused, the same stamp comes once a second.

    One new stamp after a repeated one is a step or a reset by anybody; only the second in succession is time that runs.
    """

    def __init__(self) -> None:
        self.is_paused: bool | None = None
        self._is_repeated: bool | None = None
        self._assumed_until_s = 0.0
        self._stamp_ns, self._changes = -1, 0
        self._from: tuple[float, int] | None = None
        self._factor: float | None = None

    def receive(self, data: bytes) -> None:
        """Receive a serialized rosgraph_msgs/msg/Clock; in the thread of the domain."""
        stamp_ns = int.from_bytes(data[4:8], "little", signed=True) * _NANOSECONDS
        stamp_ns += int.from_bytes(data[8:12], "little")
        self._changes = 0 if stamp_ns == self._stamp_ns else self._changes + 1
        if self._changes != 1:
            self._is_repeated = self._changes == 0
        self._stamp_ns = stamp_ns

    def assume(self, paused: bool) -> None:
        """Take over what was asked for: `/clock` takes a while to show it."""
        self.is_paused = paused
        self._assumed_until_s = time.monotonic() + _ASSUMED_S

    def forget(self) -> None:
        """Forget what was received."""
        self.is_paused = self._is_repeated = self._from = self._factor = None
        self._assumed_until_s = 0.0
        self._stamp_ns, self._changes = -1, 0

    def measure(self, now_s: float) -> None:
        """Find out whether time is paused, and measure the factor over a second."""
        stamp_ns = self._stamp_ns
        if stamp_ns < 0:
            return
        if now_s >= self._assumed_until_s:
            self.is_paused = self._is_repeated
        if self._from is None or stamp_ns < self._from[1]:
            self._from = (now_s, stamp_ns)
        elif now_s - self._from[0] >= _MEASURE_S:
            self._factor = (stamp_ns - self._from[1]) / _NANOSECONDS / (now_s - self._from[0])
            self._from = (now_s, stamp_ns)

    def text(self) -> str:
        """Return time, state and factor, as Markdown."""
        if self._stamp_ns < 0:
            return markdown("No /clock yet")
        words = [f"{self._stamp_ns / _NANOSECONDS:.2f} s"]
        if self.is_paused:
            words.append("paused")
        elif self._factor is not None:
            words.append(f"factor {self._factor:.2f}")
        return markdown(", ".join(words))

"""One shard of a fleet: a bridge of some robots of a stage, with the kinematic backend, timed from within.

`python -m benchmarks.peers.shard STAGE K/N RATE`. It opens as `usd_ros_bridge run STAGE --shard K/N` does, and runs. A
line of its input is a phase, `PHASE SECONDS`, at whose end it tells what it took: `idle`, robots at rest, RATE ticks a
second; `moving`, every joint moves; `row`, the same with one tick after another. `row` is the last one: the bridge does
not run by itself after it. `describe SECONDS` waits for the descriptions of all robots.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkError
from benchmarks.peers import tell
from benchmarks.processes import proportional_mb
from usd_ros_bridge import (
    Bridge,
    BridgeOptions,
    PlanOptions,
    load_plan,
    tune_process,
    use_large_message_transport,
)
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.model.diagnostics import has_errors
from usd_ros_bridge.model.state import Commands, State

_SPEED = 0.2
"""Of the joints that move, rad/s."""
_TURN_NS = 2_000_000_000
"""They turn round so often that none comes to its limit."""
_LATCHED = ("tf_static", "robot_description")


class MovingBackend(KinematicBackend):
    """The kinematic backend, commanded from within: by topics, whoever sends would be measured, too.

    Attributes:
        moving: Every joint has a velocity.
    """

    def __init__(self) -> None:
        super().__init__()
        self.moving = False
        self._direction = 0.0

    def open(self, context: BackendContext) -> None:
        """Open the backend."""
        super().open(context)
        self._direction = 0.0

    def step(self, time_ns: int, commands: Commands) -> State:
        """Command the joints where their direction changes, and step."""
        direction = (1.0 if time_ns // _TURN_NS % 2 else -1.0) if self.moving else 0.0
        if direction != self._direction:
            self._direction = direction
            commands.joint_velocity[:] = _SPEED * direction
            commands.silent = False
        return super().step(time_ns, commands)


@dataclass(slots=True)
class Window:
    """The ticks of one phase.

    Attributes:
        seconds: Wall time of each.
        cpu: CPU time of the tick thread in each.
    """

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Returns what a phase tells of its ticks: milliseconds."""
        wall, cpu = np.array(self.seconds) * 1e3, np.array(self.cpu) * 1e3
        if not len(wall):
            raise BenchmarkError("no tick in a whole phase")
        return {
            "ticks": len(wall),
            "tick": float(np.median(wall)),
            "tick_p99": float(np.percentile(wall, 99)),
            "tick_cpu": float(np.median(cpu)),
        }


class Meter:
    """Times the ticks of a bridge that runs, and counts what it publishes."""

    def __init__(self, bridge: Bridge) -> None:
        """Takes the place of the bridge's tick.

        Args:
            bridge: Open, and not running yet.
        """
        self.bridge = bridge
        self._window = Window()
        self._opened_cpu = time.process_time()
        runtime = bridge.parts.runtime
        tick, wall, thread = runtime.tick, time.perf_counter, time.thread_time

        def timed(time_ns: int) -> bool:
            before, cpu = wall(), thread()
            try:
                return tick(time_ns)
            finally:
                window = self._window
                window.cpu.append(thread() - cpu)
                window.seconds.append(wall() - before)

        runtime.tick = timed  # type: ignore[method-assign]

    def begin(self) -> tuple[float, float, int]:
        """Begins a phase. Returns the time, the CPU time of the process and how many messages there were."""
        messages = self.messages()
        self._window = Window()
        return time.monotonic(), time.process_time(), messages

    def end(self, began: tuple[float, float, int]) -> dict[str, Any]:
        """Returns what the phase took."""
        # To count the messages of thousands of publishers takes longer than a tick: it is not measured.
        seconds, cpu, window = time.monotonic() - began[0], time.process_time() - began[1], self._window
        self._window = Window()
        return {
            **window.summary(),
            "cpu": 100.0 * cpu / seconds,
            "messages": (self.messages() - began[2]) / seconds,
            "memory_mb": proportional_mb(),
        }

    def messages(self) -> int:
        """Returns how many messages were published on topics that move."""
        rows = self.bridge.status().interfaces
        return sum(row.count for row in rows if row.role == "publisher" and not row.name.endswith(_LATCHED))

    def spent(self) -> float:
        """Returns the CPU time that the process has used since it was open, in seconds, its ticks not counted."""
        return time.process_time() - self._opened_cpu - sum(self._window.cpu)

    def described(self) -> bool:
        """Returns whether every robot has its description."""
        return all(row.count for row in self.bridge.parts.descriptions.status() if row.kind == "topic")


def main() -> None:
    """Opens the bridge and goes through the phases."""
    stage, shard, rate = sys.argv[1], sys.argv[2], float(sys.argv[3])
    begin, cpu = time.perf_counter(), time.process_time()
    tune_process()
    use_large_message_transport(discovery_thread=True)
    backend = MovingBackend()
    plan = load_plan(stage, plan_options=PlanOptions(shard=shard))
    planned = time.perf_counter()
    if has_errors(plan.diagnostics):
        raise BenchmarkError(f"the fleet has errors: {plan.diagnostics[0]}")
    options = BridgeOptions(
        node_name=f"shard_{shard.partition('/')[0]}", tf_rate=rate, publish_unmatched=True
    )
    with Bridge(plan, backend, options=options, report=lambda *_: None, inform=lambda *_: None) as bridge:
        gc.freeze()
        meter = Meter(bridge)
        tell(
            "open",
            robots=len(plan.robots),
            plan=planned - begin,
            open=time.perf_counter() - planned,
            cpu=time.process_time() - cpu,
            endpoints=sum(row.kind == "topic" for row in bridge.status().interfaces),
        )
        row = threading.Event()
        seconds: list[float] = []
        threading.Thread(target=_read_phases, args=(meter, backend, row, seconds), daemon=True).start()
        bridge.spin()
        if row.is_set():
            _tick_in_a_row(meter, seconds[0], int(1e9 / rate))


def _read_phases(meter: Meter, backend: MovingBackend, row: threading.Event, seconds: list[float]) -> None:
    """Goes through the phases of a bridge that runs, in a thread of its own."""
    for line in sys.stdin:
        phase, _, text = line.strip().partition(" ")
        if phase == "describe":
            _wait_for_descriptions(meter, float(text))
            continue
        backend.moving = phase != "idle"
        if phase == "row":
            seconds.append(float(text))
            row.set()
            break
        began = meter.begin()
        time.sleep(float(text))
        tell(phase, **meter.end(began))
    meter.bridge.stop()


def _wait_for_descriptions(meter: Meter, timeout: float) -> None:
    begin = time.monotonic()
    while not meter.described():
        if time.monotonic() - begin > timeout:
            raise BenchmarkError(f"not every robot has its description after {timeout:g} s")
        time.sleep(0.5)
    tell("described", memory_mb=proportional_mb(), cpu=meter.spent())


def _tick_in_a_row(meter: Meter, seconds: float, period_ns: int) -> None:
    """Ticks without a pause: how many ticks a second there can be."""
    bridge = meter.bridge
    time_ns = time.time_ns()
    began = meter.begin()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time_ns += period_ns
        bridge.step(time_ns)
    tell("row", **meter.end(began))


if __name__ == "__main__":
    main()

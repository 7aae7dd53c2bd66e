"""The backend at the runtime's edge: it is stepped with what is commanded, and what it raises stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from usd_ros_bridge.backends.protocol import Backend, Report, SensorBackend
from usd_ros_bridge.model.state import Commands, Layout, State
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.snapshot import Sense


def find_sense(backend: Backend) -> Sense | None:
    """Returns what tells a sensor's newest sample, None where the open backend serves none."""
    return backend.sense if backend.capabilities.sensors and isinstance(backend, SensorBackend) else None


class Stepper:
    """Steps a backend.

    Attributes:
        commands: What the next step is told; nothing again after it.
        errors: How often the backend raised.
        last_error: One line, "" where it never did.
        steps: How many steps the backend took and came back from.
        seconds: Wall time that it took for them, altogether.
        longest_s: Wall time of the longest of them since `forget_longest`, seconds.
    """

    def __init__(self, backend: Backend, layout: Layout, report: Report, *, actuators: int = 0) -> None:
        """Take a backend that may not be open yet, and the number of actuators that it has."""
        self._backend = backend
        self._layout = layout
        self._report = report
        self._actuators = actuators
        self.commands = Commands.empty(layout, actuators=actuators)
        self.errors = 0
        self.last_error = ""
        self.steps = 0
        self.seconds = 0.0
        self.longest_s = 0.0

    def step(self, time_ns: int, show: Callable[[State], None]) -> bool:
        """Steps with what is commanded and shows the state; returns False, with a report, where either raises."""
        try:
            began = perf_counter()
            state = self._backend.step(time_ns, self.commands)
            took = perf_counter() - began
            self.steps += 1
            self.seconds += took
            if took > self.longest_s:
                self.longest_s = took
            show(state)
            return True
        except Exception as error:  # noqa: BLE001 - the runtime's edge: the loop goes on
            self.count("step", error)
            return False
        finally:
            if not self.commands.silent:
                self.silence()

    def catch_up(self, time_ns: int) -> State | None:
        """Steps to a time for which nothing was commanded: what is commanded now does not hold before it."""
        nothing = (
            self.commands if self.commands.silent else Commands.empty(self._layout, actuators=self._actuators)
        )
        try:
            return self._backend.step(time_ns, nothing)
        except Exception as error:  # noqa: BLE001 - the runtime's edge: the loop goes on
            self.count("step", error)
            return None

    def forget_longest(self) -> float:
        """Returns `longest_s` and begins anew; from any thread."""
        longest, self.longest_s = self.longest_s, 0.0
        return longest

    def reset(self) -> None:
        """Takes the backend back to the state at rest and what was commanded away."""
        self.silence()
        try:
            self._backend.reset()
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.count("reset", error)

    def close(self) -> None:
        """Closes the backend."""
        try:
            self._backend.close()
        except Exception as error:  # noqa: BLE001 - the runtime's edge: closing goes on
            self._report("backend.close", f"the backend failed to close: {describe(error)}")

    def silence(self) -> None:
        """Takes back what was commanded; a look at the flag before spares five writes where nothing was."""
        self.commands.clear()
        self.commands.silent = True

    def count(self, what: str, error: Exception) -> None:
        """Counts and reports what the backend raised."""
        self.errors += 1
        self.last_error = describe(error)
        self._report(
            f"backend.{what}:{type(error).__name__}", f"the backend failed to {what}: {self.last_error}"
        )

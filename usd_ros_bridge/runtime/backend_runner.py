"""Backend runner: step the backend with the commands; report what it raises, and continue."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from usd_ros_bridge.backends.base import Backend, SensorBackend
from usd_ros_bridge.model.state import Commands, Layout, State
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.snapshot import Sense


def find_sense(backend: Backend) -> Sense | None:
    """Return the function that returns a sensor's newest sample; None if the open backend serves no sensors."""
    return backend.sense if backend.capabilities.sensors and isinstance(backend, SensorBackend) else None


class BackendRunner:
    """Step a backend with the commands; report and count its exceptions.

    Attributes:
        commands: Commands of the next step; empty again after it.
        errors: How often the backend raised.
        last_error: One line, "" where it never did.
        steps: How many steps the backend took and came back from.
        seconds: Wall time that it took for them, altogether.
        longest_s: Wall time of the longest of them since `reset_longest`, seconds.
    """

    def __init__(self, backend: Backend, layout: Layout, report: Report, *, actuators: int = 0) -> None:
        self._backend = backend
        self._layout = layout
        self._report = report
        self._actuators = actuators
        self.commands = Commands(layout, actuators=actuators)
        self.errors = 0
        self.last_error = ""
        self.steps = 0
        self.seconds = 0.0
        self.longest_s = 0.0

    def step(self, time_ns: int, show: Callable[[State], None]) -> bool:
        """Step with the commands and pass the state to `show`. Return False, with a report, if either raises."""
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
                self._clear_commands()

    def catch_up(self, time_ns: int) -> State | None:
        """Step to a time for which nothing was commanded: what is commanded now does not hold before it."""
        nothing = self.commands if self.commands.silent else Commands(self._layout, actuators=self._actuators)
        try:
            return self._backend.step(time_ns, nothing)
        except Exception as error:  # noqa: BLE001 - the runtime's edge: the loop goes on
            self.count("step", error)
            return None

    def reset_longest(self) -> float:
        """Return `longest_s` and restart it. Thread-safe."""
        longest, self.longest_s = self.longest_s, 0.0
        return longest

    def reset(self) -> None:
        """Reset the backend to the state at rest, and clear the commands."""
        self._clear_commands()
        try:
            self._backend.reset()
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.count("reset", error)

    def close(self) -> None:
        """Close the backend."""
        try:
            self._backend.close()
        except Exception as error:  # noqa: BLE001 - the runtime's edge: closing goes on
            self._report("backend.close", f"the backend failed to close: {describe(error)}")

    def _clear_commands(self) -> None:
        """Clear the commands. The flag spares five writes where there are none."""
        self.commands.clear()
        self.commands.silent = True

    def count(self, what: str, error: Exception) -> None:
        """Count and report what the backend raised."""
        self.errors += 1
        self.last_error = describe(error)
        self._report(
            f"backend.{what}:{type(error).__name__}", f"the backend failed to {what}: {self.last_error}"
        )

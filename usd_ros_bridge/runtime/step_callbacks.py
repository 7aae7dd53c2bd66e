"""Callbacks of a host before and after each step of the backend, and what they see: read-only arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from usd_ros_bridge.model.state import Commands, StepCommands, read_only
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import FloatArray


class StepState:
    """State after a step, for `Bridge.after_step`. Valid during the callback: copy what you keep.

    The arrays are read-only. Rows are those of `plan.layout`.
    """

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        """Args: snapshot: The snapshot of the tick."""
        self._snapshot = snapshot

    @property
    def time_ns(self) -> int:
        """Bridge time of the state, nanoseconds."""
        return self._snapshot.time_ns

    @property
    def joint_position(self) -> FloatArray:
        """(D,) rad or m."""
        return read_only(self._snapshot.state.joint_position)

    @property
    def joint_velocity(self) -> FloatArray:
        """(D,) rad/s or m/s; NaN where the backend measures none."""
        return read_only(self._snapshot.state.joint_velocity)

    @property
    def joint_effort(self) -> FloatArray:
        """(D,) N m or N; NaN where the backend measures none."""
        return read_only(self._snapshot.state.joint_effort)

    @property
    def body_pose(self) -> FloatArray:
        """(B, 7) `world_from_body` of all bodies, x y z, quaternion x y z w. Computed when it is first read."""
        return read_only(self._snapshot.body_pose)

    @property
    def body_twist(self) -> FloatArray:
        """(B, 6) linear then angular velocity of each body's origin in the world frame, m/s and rad/s.

        Where the backend measures none, poses are differentiated: zeros when it is first read.
        """
        return read_only(self._snapshot.body_twist)


BeforeStep = Callable[[int, StepCommands], object]
"""Called with the time to step to, nanoseconds, and the commands of the step."""
AfterStep = Callable[[int, StepState], object]
"""Called with the time of the tick, nanoseconds, and the state."""


class StepCallbacks:
    """Callbacks around the steps of the backend, in the order in which they were added.

    They run in the tick thread. The exception of one is reported once, and the others run. Adding and removing is
    thread-safe, and counts from the next tick on.

    Attributes:
        before: Callbacks before a step.
        after: Callbacks after a step.
    """

    def __init__(self, report: Report) -> None:
        """Args: report: Show a warning."""
        self._report = report
        self._lock = threading.Lock()
        self.before: tuple[BeforeStep, ...] = ()
        self.after: tuple[AfterStep, ...] = ()

    @property
    def present(self) -> bool:
        """Return whether there are any."""
        return bool(self.before or self.after)

    def add_before(self, callback: BeforeStep) -> Callable[[], None]:
        """Add a callback before each step. Return what removes it."""
        with self._lock:
            self.before = (*self.before, callback)
        return partial(self._remove_before, callback)

    def add_after(self, callback: AfterStep) -> Callable[[], None]:
        """Add a callback after each step that gave a state. Return what removes it."""
        with self._lock:
            self.after = (*self.after, callback)
        return partial(self._remove_after, callback)

    def clear(self) -> None:
        """Remove all callbacks."""
        with self._lock:
            self.before = self.after = ()

    def run_before(self, time_ns: int, commands: Commands) -> None:
        """Run the callbacks before a step to `time_ns`, nanoseconds."""
        seen = commands.step_commands()
        for callback in self.before:
            self._run("before", callback, time_ns, seen)

    def run_after(self, time_ns: int, snapshot: Snapshot) -> None:
        """Run the callbacks after the step of the tick at `time_ns`, nanoseconds."""
        seen = StepState(snapshot)
        for callback in self.after:
            self._run("after", callback, time_ns, seen)

    def _run(self, when: str, callback: Callable[..., object], *arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - the loop and the other callbacks go on
            name = getattr(callback, "__qualname__", type(callback).__name__)
            self._report(f"step.{when}:{name}", f"{name}, called {when} each step, raised {describe(error)}")

    def _remove_before(self, callback: BeforeStep) -> None:
        with self._lock:
            self.before = _without(self.before, callback)

    def _remove_after(self, callback: AfterStep) -> None:
        with self._lock:
            self.after = _without(self.after, callback)


def _without(callbacks: tuple[Any, ...], callback: object) -> tuple[Any, ...]:
    """Return callbacks without the last one that is `callback`."""
    rows = [row for row, each in enumerate(callbacks) if each == callback][-1:]
    return tuple(each for row, each in enumerate(callbacks) if row not in rows)

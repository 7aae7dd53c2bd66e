"""Bridge time: the ROS time of the bridge's node, which is the wall clock or, with use_sim_time, what /clock says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.parameter import Parameter

from usd_ros_bridge.runtime.loop import ExternalClock, SystemClock


class RosClock:
    """The `Clock` of the loop, which follows the node's. Which one is decided when it is opened, by `use_sim_time`.

    Simulated time stands still between two messages on /clock and is unknown until the first.
    """

    def __init__(self, node: Any) -> None:
        """Stores whose time it is; the node's executor has to run for /clock to be heard."""
        self._ros_clock = node.get_clock()
        self._handle: Any = None
        self._clock: SystemClock | ExternalClock = SystemClock()

    @property
    def simulated(self) -> bool:
        """Whether time comes from /clock."""
        return isinstance(self._clock, ExternalClock)

    def open(self) -> None:
        """Begins to follow /clock where the node does."""
        if not self._ros_clock.ros_time_is_active:
            return
        self._clock = ExternalClock()
        threshold = JumpThreshold(
            min_forward=Duration(nanoseconds=1), min_backward=Duration(nanoseconds=-1), on_clock_change=True
        )
        self._handle = self._ros_clock.create_jump_callback(threshold, post_callback=self._on_jump)
        self._on_jump(None)

    def close(self) -> None:
        """Stops following. Idempotent."""
        if self._handle is not None:
            self._handle.unregister()
            self._handle = None

    def now_ns(self) -> int | None:
        """Returns the time in nanoseconds, None while it is not known."""
        return self._clock.now_ns()

    @property
    def source(self) -> SystemClock | ExternalClock:
        """What the loop waits on; once open."""
        return self._clock

    def _on_jump(self, _: Any) -> None:
        now = int(self._ros_clock.now().nanoseconds)
        # Zero is what a ROS clock shows before it has heard anything.
        if now > 0 and isinstance(self._clock, ExternalClock):
            self._clock.advance(now)


def with_sim_time(overrides: Sequence[Any], use_sim_time: bool | None) -> list[Any]:
    """Returns parameter overrides with `use_sim_time` among them, unless it is None."""
    if use_sim_time is None:
        return list(overrides)
    make: Any = Parameter
    return [*overrides, make("use_sim_time", value=use_sim_time)]

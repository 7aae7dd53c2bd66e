"""When controllers need the next tick: on an absolute grid, so that late ticks add up to nothing."""

from __future__ import annotations

from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.controllers import Controllers
from usd_ros_bridge.runtime.schedule import NEVER_NS, checked_period_ns


class ControlGrid:
    """The times at which busy controllers are run.

    Attributes:
        origin_ns: Where the grid begins, nanoseconds of bridge time.
        due_ns: When the next tick is needed, NEVER_NS while no controller is busy.
        clock_period_ns: Period of the clock that the ticks follow, nanoseconds, as that of `Schedule`.
    """

    def __init__(self, rate: float) -> None:
        """Takes how often controllers run, Hz.

        Raises:
            BridgeError: It is no positive number.
        """
        self._period_ns = checked_period_ns("controller_rate", rate)
        self.origin_ns = 0
        self.clock_period_ns = 0
        self.due_ns = NEVER_NS

    def end_tick(self, controllers: Controllers, time_ns: int, state: State | None, *, stepped: bool) -> None:
        """Shows controllers what the step left, and finds out when they need the next tick.

        Args:
            controllers: Commanded in this tick.
            time_ns: Bridge time of the tick, nanoseconds.
            state: The state that is shown, None before the first.
            stepped: Whether the backend gave it in this tick.
        """
        if stepped and state is not None:
            controllers.observe(state)
        controllers.end(state)
        period, origin = self._period_ns, self.origin_ns
        early = self.clock_period_ns // 2
        passed = (time_ns + early - origin) // period
        self.due_ns = origin + (passed + 1) * period - early if controllers.busy else NEVER_NS

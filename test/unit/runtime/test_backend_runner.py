"""The backend at the runtime's edge: what its steps take, and that one that raises is counted and not timed."""

from __future__ import annotations

import time

from builders.plans import PlanBuilder
from open_backends import OpenBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.runtime.backend_runner import BackendRunner

LONG_S = 0.02


class Backend(NullBackend):
    """Takes as long as it is told to, or raises."""

    def __init__(self):
        super().__init__()
        self.takes_s = 0.0
        self.raises = False

    def step(self, time_ns, commands):
        if self.raises:
            raise RuntimeError("a gear is stuck")
        end = time.perf_counter() + self.takes_s
        while time.perf_counter() < end:
            pass
        return super().step(time_ns, commands)


def make():
    opened = OpenBackend(PlanBuilder().build(), Backend())
    return BackendRunner(opened.backend, opened.plan.layout, lambda *_: None), opened.backend


def test_steps_are_counted_and_timed_and_the_longest_is_kept_until_it_is_asked_for():
    runner, backend = make()
    shown = []
    for takes_s in (0.0, LONG_S, 0.0):
        backend.takes_s = takes_s
        assert runner.step(1, shown.append)
    assert runner.steps == len(shown) == 3
    assert LONG_S <= runner.longest_s <= runner.seconds
    longest = runner.longest_s
    assert runner.reset_longest() == longest
    assert runner.longest_s == 0.0
    assert runner.seconds >= longest


def test_a_step_that_raises_is_an_error_and_takes_no_time():
    runner, backend = make()
    backend.raises = True
    assert not runner.step(1, lambda _: None)
    assert (runner.steps, runner.seconds, runner.errors) == (0, 0.0, 1)
    assert runner.last_error == "RuntimeError: a gear is stuck"

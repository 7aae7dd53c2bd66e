"""Whoever works beside the ticks lets the one in progress pass, unless that one waits for them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from usd_ros_bridge import Bridge, load_plan
from usd_ros_bridge.runtime.publications import Publication

ARM = Path(__file__).parents[2] / "examples" / "arm" / "arm.usda"
PATIENCE = 20.0


def nobody(_thread):
    return False


class Slow(Publication):
    """An emitter whose first message takes until the test says so."""

    def __init__(self, act=lambda: None):
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.order = []
        self._act = act

    def publish(self, _snapshot):
        if not self.begun.is_set():
            self.begun.set()
            self._act()
            assert self.may_end.wait(PATIENCE)
            self.order.append("tick")
        return True


@pytest.fixture
def ticking():
    """`ticking(slow)`: a bridge that is in a tick, in a thread of its own, until `slow.may_end` is set."""
    bridge = Bridge(load_plan(ARM), report=lambda *_: None, inform=lambda *_: None)
    started = []

    def begin(slow):
        bridge.parts.runtime.add_publication(slow, name="slow")
        thread = threading.Thread(target=lambda: bridge.step(10_000_000))
        started.append((thread, slow))
        thread.start()
        assert slow.begun.wait(PATIENCE)
        return bridge.parts.runtime, thread

    with bridge:
        yield begin
        for thread, slow in started:
            slow.may_end.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_tick_in_progress_is_waited_for(ticking):
    slow, asked = Slow(), threading.Event()
    runtime, tick = ticking(slow)

    def wants(thread):
        assert thread == tick.ident
        asked.set()
        return False

    def work():
        runtime.wait_for_tick(wants)
        slow.order.append("work")

    worker = threading.Thread(target=work)
    worker.start()
    assert asked.wait(PATIENCE)
    slow.may_end.set()
    worker.join(PATIENCE)
    assert slow.order == ["tick", "work"]


def test_a_tick_that_waits_for_the_caller_is_not(ticking):
    slow = Slow()
    runtime, tick = ticking(slow)
    runtime.wait_for_tick(lambda thread: thread == tick.ident)
    assert slow.order == []


def test_a_bridge_that_is_closed_from_a_tick_is_waited_for_by_nobody(ticking):
    slow, asked = Slow(), threading.Event()
    runtime, _ = ticking(slow)

    def wants(_thread):
        asked.set()
        return False

    worker = threading.Thread(target=lambda: runtime.wait_for_tick(wants))
    worker.start()
    assert asked.wait(PATIENCE)
    runtime.stopped = True
    worker.join(PATIENCE)
    assert not worker.is_alive()
    assert slow.order == []


def test_a_tick_does_not_wait_for_itself_and_without_one_nobody_waits():
    with Bridge(load_plan(ARM), report=lambda *_: None, inform=lambda *_: None) as bridge:
        runtime = bridge.parts.runtime
        runtime.wait_for_tick(nobody)
        slow = Slow(act=lambda: runtime.wait_for_tick(nobody))
        slow.may_end.set()
        runtime.add_publication(slow, name="slow")
        bridge.step(10_000_000)
        assert slow.order == ["tick"]
        runtime.wait_for_tick(nobody)

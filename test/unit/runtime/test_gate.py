"""Gates: who is told when, and what they do to emitters."""

from __future__ import annotations

from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.gate import Gate
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.testing.plans import rover


def test_a_gate_tells_of_changes_alone_and_of_none_to_those_who_left() -> None:
    gate, told = Gate(True), list[bool]()
    gate.watch(told.append)
    gate.turn(True)
    gate.turn(False)
    gate.leave(told.append)
    gate.turn(True)
    assert told == [True, False]
    assert gate.open


def test_an_emitter_is_asked_while_its_gate_is_open_and_may_be_removed_while_it_is_closed() -> None:
    class Emitter:
        asked = 0

        def emit(self, snapshot: Snapshot) -> bool:
            assert snapshot
            self.asked += 1
            return True

    runtime = Runtime(rover().build(), KinematicBackend()).open()
    gate, emitter = Gate(False), Emitter()
    runtime.emissions.add(emitter, name="/x", rate=1000.0, gate=gate)
    for tick, is_open in enumerate((False, True, True, False)):
        gate.turn(is_open)
        runtime.tick(tick * 1_000_000 + 1)
    assert emitter.asked == 2
    assert runtime.status().emitters[0].published == 2
    runtime.remove_emitter(emitter)
    gate.turn(True)
    runtime.tick(10_000_000)
    assert emitter.asked == 2

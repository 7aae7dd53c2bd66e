"""What is worth a warning, an error or nothing about an interface, a backend and a loop, over time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ros_plans import JOINT_COMMANDS, JOINT_STATES, plan
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.conflicts import disable_conflicts, without_interfaces
from usd_ros_bridge.reporting import Reported
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.diagnostics.diagnostic_rules import (
    HELD_S,
    SETTLED_NS,
    STILL_S,
    BackendFigures,
    BackendWatch,
    GrowthDetector,
    InterfaceWatch,
    Level,
    LoopWatch,
    judge_controllers,
    judge_tf,
    switched_off,
)
from usd_ros_bridge.ros.tf.monitor import TfFinding
from usd_ros_bridge.runtime.controller_manager import ControllerStatus

SECOND_NS = 1_000_000_000

SCAN = InterfaceStatus(
    kind="topic",
    role="publisher",
    path="/r/scan",
    name="/r/scan",
    type="sensor_msgs/msg/LaserScan",
    authored_rate=10.0,
    achieved_rate=10.0,
    matched=1,
    state="active",
)
COMMANDS = InterfaceStatus(
    kind="topic",
    role="subscription",
    path="/r/c",
    name="/r/c",
    type="sensor_msgs/msg/JointState",
    state="idle",
)


class Watched:
    """An interface that is looked at once a second of bridge time."""

    def __init__(self):
        self.watch = InterfaceWatch()
        self.second = 0

    def look(self, row, *, count=None, wanted=True, seconds=1):
        self.second += seconds
        row = replace(row, count=10 * self.second if count is None else count)
        verdict = self.watch.judge(
            row, wanted=wanted, time_ns=self.second * SECOND_NS, now_s=float(self.second)
        )
        return verdict.level, verdict.message


@pytest.fixture
def watched():
    return Watched()


def test_what_keeps_its_rate_is_well(watched):
    assert watched.look(SCAN) == (Level.OK, "10 Hz")
    assert {watched.look(SCAN)[0] for _ in range(20)} == {Level.OK}


def test_what_nobody_listens_to_has_no_rate_to_keep(watched):
    row = replace(SCAN, achieved_rate=0.0, matched=0, state="idle", reason="no subscriber")
    assert {watched.look(row, count=0) for _ in range(20)} == {(Level.OK, "no subscriber")}


def test_a_rate_below_nine_tenths_is_a_warning_once_there_was_time_to_reach_it(watched):
    row = replace(SCAN, achieved_rate=8.9)
    settling = SETTLED_NS // SECOND_NS
    assert {watched.look(row)[0] for _ in range(settling)} == {Level.OK}
    assert watched.look(row) == (Level.WARN, "8.9 Hz of 10 Hz")
    assert watched.look(replace(SCAN, achieved_rate=9.1))[0] is Level.OK


def test_nothing_sent_for_a_while_is_stale_and_a_new_subscriber_waits_as_long(watched):
    assert watched.look(SCAN, count=5)[0] is Level.OK
    row = replace(SCAN, achieved_rate=0.4)
    found = [watched.look(row, count=5) for _ in range(5)]
    assert found[-1] == (Level.STALE, "nothing was sent for 5 s")
    assert found[-2][0] is Level.OK
    alone = replace(row, matched=0, reason="no subscriber")
    assert watched.look(alone, count=5, seconds=100)[0] is Level.OK
    assert watched.look(row, count=5)[0] is Level.OK


def test_a_slow_rate_has_time_for_two_periods(watched):
    row = replace(SCAN, authored_rate=0.1, achieved_rate=0.0)
    assert {watched.look(row, count=1)[0] for _ in range(20)} == {Level.OK}
    assert watched.look(row, count=1, seconds=2)[0] is Level.STALE


def test_time_that_stands_still_or_starts_over_makes_nothing_stale(watched):
    row = replace(SCAN, achieved_rate=10.0)
    watched.look(row, count=5, seconds=1000)
    assert {watched.look(row, count=5, seconds=0)[0] for _ in range(20)} == {Level.OK}
    watched.second = 0
    assert watched.look(row, count=5)[0] is Level.OK


@pytest.mark.parametrize("more", [{"served_by": "embedder"}, {"reason": "its controller is inactive"}])
def test_who_decides_for_itself_when_to_publish_has_no_rate_to_keep(watched, more):
    row = replace(SCAN, achieved_rate=0.0, **more)
    assert {watched.look(row, count=0)[0] for _ in range(20)} == {Level.OK}


def test_an_error_shows_for_a_while_and_is_then_history(watched):
    watched.look(SCAN)
    failed = replace(SCAN, errors=1, last_error="ValueError: no")
    found = [watched.look(failed) for _ in range(int(HELD_S))]
    assert set(found) == {(Level.ERROR, "ValueError: no")}
    assert watched.look(failed)[0] is Level.OK
    assert watched.look(replace(failed, errors=2))[0] is Level.ERROR


def test_errors_of_before_the_first_look_are_reported():
    assert Watched().look(replace(SCAN, errors=3))[1] == "3 errors"


def test_a_goal_that_is_rejected_is_no_fault_of_the_bridge(watched):
    row = replace(
        SCAN, kind="action", role="server", errors=1, last_error="rejected: empty", authored_rate=None
    )
    assert watched.look(row) == (Level.WARN, "rejected: empty")


def test_losses_are_a_warning_while_they_are_new(watched):
    assert watched.look(replace(COMMANDS, dropped=7)) == (Level.WARN, "7 messages dropped")
    assert watched.look(replace(COMMANDS, dropped=7), seconds=int(HELD_S))[0] is Level.OK
    assert Watched().look(replace(SCAN, dropped=2)) == (Level.WARN, "2 periods passed without a message")


def test_disabled_is_an_error_unless_it_is_wanted(watched):
    row = replace(SCAN, state="disabled", reason="starts_enabled is false")
    assert watched.look(row, wanted=False) == (Level.OK, "disabled: starts_enabled is false")
    assert watched.look(row)[0] is Level.ERROR


def test_silent_is_a_warning_but_for_clients(watched):
    row = replace(COMMANDS, state="silent", reason="nothing takes it")
    assert watched.look(row) == (Level.WARN, "silent: nothing takes it")
    assert watched.look(replace(row, role="client", kind="action"))[0] is Level.OK


def test_the_values_of_an_interface():
    row = replace(
        SCAN, dropped=1, errors=2, last_error="E", served_by="backend", count=9, achieved_rate=9.99999
    )
    verdict = InterfaceWatch().judge(row, wanted=True, time_ns=1, now_s=1.0)
    assert dict(verdict.values) == {
        "kind": "topic publisher",
        "type": "sensor_msgs/msg/LaserScan",
        "state": "active",
        "authored rate (Hz)": "10",
        "achieved rate (Hz)": "10",
        "subscribers": "1",
        "count": "9",
        "dropped": "1",
        "errors": "2",
        "prim": "/r/scan",
        "last error": "E",
        "served by": "backend",
    }


def test_a_count_that_falls_began_anew():
    grown = GrowthDetector()
    assert grown.look(5, 100.0)
    assert not grown.look(2, 101.0)
    assert grown.look(3, 102.0)


FIGURES = BackendFigures(
    name="NullBackend", steps=100, seconds=0.2, longest_s=0.01, errors=0, last_error="", overruns=0
)


def test_a_backend_is_judged_by_what_it_did_since_the_last_look():
    watch = BackendWatch()
    assert watch.judge(FIGURES, 1.0).message == "2 ms a step"
    later = replace(FIGURES, steps=200, seconds=1.2, longest_s=0.5)
    verdict = watch.judge(later, 2.0)
    assert (verdict.level, verdict.message) == (Level.OK, "10 ms a step")
    assert dict(verdict.values)["step time, longest (ms)"] == "500"
    assert watch.judge(later, 3.0).message == "no steps"
    successor = replace(FIGURES, steps=10, seconds=0.01)
    assert watch.judge(successor, 4.0).message == "1 ms a step"


def test_a_backend_that_raises_is_an_error_and_one_that_is_late_a_warning():
    watch = BackendWatch()
    watch.judge(FIGURES, 1.0)
    late = replace(FIGURES, overruns=1)
    assert watch.judge(late, 2.0).level is Level.WARN
    failed = replace(late, errors=1, last_error="RuntimeError: stuck")
    verdict = watch.judge(failed, 3.0)
    assert (verdict.level, verdict.message) == (Level.ERROR, "RuntimeError: stuck")
    assert watch.judge(failed, 3.0 + HELD_S).level is Level.OK


def look_at_loop(watch, ticks, now_s, *, owns_time=False, diagnostics=(), reports=()):
    return watch.judge(
        plan(diagnostics=diagnostics),
        ticks=ticks,
        tick_seconds=0.001,
        time_ns=SECOND_NS,
        reports=reports,
        owns_time=owns_time,
        now_s=now_s,
    )


def test_a_loop_without_ticks_is_stale_unless_time_may_stand_still():
    for owns_time, expected in ((False, Level.STALE), (True, Level.OK)):
        watch = LoopWatch()
        assert look_at_loop(watch, 5, 100.0, owns_time=owns_time).level is Level.OK
        assert look_at_loop(watch, 6, 100.0 + STILL_S, owns_time=owns_time).level is Level.OK
        assert look_at_loop(watch, 6, 100.0 + 2 * STILL_S, owns_time=owns_time).level is expected


def test_what_was_found_about_the_asset_is_reported():
    faults = [Diagnostic(code="2.3.name", severity=severity, path="/r", message="m") for severity in
              ("error", "warning", "warning", "info")]  # fmt: skip
    reports = [Reported(kind="sink:/r", message="nothing takes it", count=3)]
    verdict = look_at_loop(LoopWatch(), 1, 0.0, diagnostics=tuple(faults), reports=reports)
    values = dict(verdict.values)
    assert verdict.level is Level.WARN
    assert (values["errors of the asset"], values["warnings of the asset"]) == ("1", "2")
    assert values["sink:/r"] == "nothing takes it (3)"


def test_trees_that_are_torn_apart_are_errors_and_trees_that_do_not_meet_warnings():
    split = TfFinding(topic="/tf", kind="split", nodes=("/n",), message="two trees")
    parents = TfFinding(topic="/r/tf", kind="parents", nodes=("/n",), message="two parents")
    assert judge_tf((), 4).level is Level.OK
    assert judge_tf((split,), 4).level is Level.WARN
    verdict = judge_tf((parents, split), 4)
    assert (verdict.level, verdict.message) == (Level.ERROR, "two parents (1 more)")
    assert dict(verdict.values) == {
        "topics watched": "4",
        "parents /r/tf": "two parents",
        "split /tf": "two trees",
    }


def test_controllers_tell_who_is_inactive_first():
    active, off = (
        ControllerStatus(path=path, schema="S", active=not reason, reason=reason, joints=())
        for path, reason in (("/a", ""), ("/b", "switched off"))
    )
    verdict = judge_controllers((active, off))
    assert verdict.message == "1 of 2 active"
    assert verdict.values == (("/b", "inactive: switched off"), ("/a", "active"))
    assert verdict.level is Level.OK


def test_a_controller_that_cannot_move_its_joints_is_a_warning():
    stuck = ControllerStatus(
        path="/a", schema="S", active=False, reason="no drive", joints=("j",), fault="no drive"
    )
    verdict = judge_controllers((stuck,))
    assert verdict.level is Level.WARN
    assert verdict.message == "0 of 1 active; /a: no drive"


def test_what_is_off_because_somebody_wants_it():
    asked_off = replace(JOINT_STATES, enabled=False, reason="enabled is false")
    faulty = replace(JOINT_COMMANDS, enabled=False, reason="no name")
    off_from_the_start = replace(JOINT_COMMANDS, path="/arm/x", enabled=False, starts_enabled=False)
    asked_on_and_faulty = replace(JOINT_COMMANDS, path="/arm/y", enabled=False, starts_enabled=False)
    options = PlanOptions(enabled={asked_off.path: False, "/arm/y": True})
    made = plan(asked_off, faulty, off_from_the_start, asked_on_and_faulty, options=options)
    assert switched_off(made, made) == {asked_off.path, "/arm/x"}


def test_what_the_backend_or_the_node_has_no_use_for_is_off_and_no_fault():
    made = plan(JOINT_STATES, JOINT_COMMANDS)
    assert switched_off(made, disable_conflicts(made, [(JOINT_STATES.name, None)])) == {JOINT_STATES.path}
    bare = without_interfaces(made)
    assert switched_off(bare, bare) == {JOINT_STATES.path, JOINT_COMMANDS.path}

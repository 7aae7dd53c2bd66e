"""Rigid body twists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from builders.plans import rest_of, rover
from case_tables import each_case
from usd_ros_bridge.controllers.controller_group import ControllerContext
from usd_ros_bridge.controllers.forward_command import RigidBodyTwists
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Commands, TwistSample

TWIST = np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3])


class Rig:
    def __init__(self) -> None:
        plan = rover().build()
        controller = ControllerPlan(
            path="/rover/twist",
            schema="RosControlRigidBodyTwistAPI",
            robot=0,
            parameters={"body": "/rover/base_link"},
        )
        self.plan = replace(plan, controllers=(controller,))
        self.reports: list[str] = []
        self.twists = RigidBodyTwists(
            ControllerContext(plan=self.plan, report=lambda kind, _message: self.reports.append(kind)),
            self.plan.controllers,
        )
        self.commands = Commands(plan.layout)

    def send(self, twist: np.ndarray) -> None:
        self.twists.receive(0, TwistSample(stamp_ns=0, twist=twist), time_ns=0)

    def tick(self) -> np.ndarray:
        self.commands.clear()
        self.twists.command(1, rest_of(self.plan), self.commands)
        return self.commands.body_twist


def test_a_twist_is_written_once_and_holds_in_the_backend() -> None:
    rig = Rig()
    rig.send(TWIST)
    assert rig.twists.busy
    written = rig.tick()
    assert written[0].tolist() == TWIST.tolist()
    assert np.isnan(written[1:]).all()
    assert not rig.twists.busy
    assert np.isnan(rig.tick()).all()


def test_the_last_of_several_twists_counts() -> None:
    rig = Rig()
    rig.send(2 * TWIST)
    rig.send(TWIST)
    assert rig.tick()[0].tolist() == TWIST.tolist()


@each_case("bad", [np.nan, np.inf, 1e200, -2e6])
def test_a_twist_that_is_not_finite_is_ignored(bad: float) -> None:
    rig = Rig()
    rig.send(np.where(np.arange(6) == 4, bad, TWIST))
    assert np.isnan(rig.tick()).all()
    assert rig.reports == ["twist.finite:/rover/twist"]


def test_a_controller_that_is_switched_off_stops_its_body() -> None:
    rig = Rig()
    rig.send(TWIST)
    rig.tick()
    rig.twists.set_active(0, False, time_ns=0, state=None)
    assert rig.tick()[0].tolist() == [0.0] * 6
    assert np.isnan(rig.tick()).all()


def test_one_that_never_moved_its_body_leaves_it_alone() -> None:
    rig = Rig()
    rig.twists.set_active(0, False, time_ns=0, state=None)
    assert np.isnan(rig.tick()).all()


def test_reset_forgets_what_waits() -> None:
    rig = Rig()
    rig.send(TWIST)
    rig.twists.reset()
    assert not rig.twists.busy
    assert np.isnan(rig.tick()).all()


def test_a_body_that_moved_before_a_change_stops_with_its_controller() -> None:
    before, after = Rig(), Rig()
    before.send(TWIST)
    before.tick()
    after.twists.transfer_state(0, before.twists, 0)
    assert np.isnan(after.tick()).all()
    after.twists.set_active(0, False, time_ns=0, state=None)
    assert after.tick()[0].tolist() == [0.0] * 6

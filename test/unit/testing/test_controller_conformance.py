"""The conformance tests of controllers: a built-in one passes, and each fault fails a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.samples import twist_sample
from usd_ros_bridge.controllers import diff_drive
from usd_ros_bridge.controllers.diff_drive import DiffDrives
from usd_ros_bridge.testing.controller_conformance import ControllerConformance


class TestDiffDrive(ControllerConformance):
    asset = Path(__file__).parents[3] / "examples" / "rover" / "rover.usda"
    schema = "RosControlDiffDriveAPI"
    samples = (twist_sample(0.5, 0.0), twist_sample(0.3, 0.8), twist_sample(-0.2, -0.4))
    stops_after = 3.0


class Deaf(DiffDrives):
    def receive(self, row: int, sample: Any, *, time_ns: int) -> None:
        pass


class Restless(DiffDrives):
    busy = True


class Foreign(DiffDrives):
    def command(self, time_ns: int, state: Any, commands: Any) -> None:
        super().command(time_ns, state, commands)
        commands.body_twist[:] = 0.1


class Crowded(DiffDrives):
    """Robots further down are slower."""

    def command(self, time_ns: int, state: Any, commands: Any) -> None:
        super().command(time_ns, state, commands)
        commands.joint_velocity[:] *= np.linspace(1.0, 0.9, len(commands.joint_velocity))


class Shared(DiffDrives):
    def receive(self, row: int, sample: Any, *, time_ns: int) -> None:
        for each in {row, 0}:
            super().receive(each, sample, time_ns=time_ns)


class Random(DiffDrives):
    def command(self, time_ns: int, state: Any, commands: Any) -> None:
        super().command(time_ns, state, commands)
        commands.joint_velocity[:] *= np.random.default_rng().uniform(0.9, 1.0)


class Unforgetting(DiffDrives):
    def reset(self) -> None:
        self.twist_commands.reset()


class Careless(DiffDrives):
    def observe(self, state: Any) -> None:
        super().observe(state)
        self.odom_from_base[:, 0] += self.seen

    def receive(self, row: int, sample: Any, *, time_ns: int) -> None:
        self.seen = sample.twist[0]
        super().receive(row, sample, time_ns=time_ns)

    seen = 0.0


class Reckless(DiffDrives):
    def command(self, time_ns: int, state: Any, commands: Any) -> None:
        super().command(time_ns, state, commands)
        commands.joint_velocity[:] *= 100.0


class Endless(DiffDrives):
    def __init__(self, context: Any, plans: Any) -> None:
        super().__init__(context, plans)
        self.twist_commands.set_timeout(0, 0.0)


class Obstinate(DiffDrives):
    def set_active(self, row: int, active: bool, *, time_ns: int, state: Any) -> None:
        pass


class Forgetful(DiffDrives):
    def transfer_state(self, row: int, other: Any, other_row: int) -> None:
        pass


FAULTS = {
    Deaf: "test_it_moves_something",
    Restless: "test_nothing_is_commanded_before_the_first_sample",
    Foreign: "test_it_claims_what_it_writes",
    Crowded: "test_one_robot_has_the_numbers_of_a_hundred",
    Shared: "test_a_sample_for_one_robot_moves_that_robot",
    Random: "test_the_same_samples_give_the_same_numbers",
    Unforgetting: "test_after_a_reset_all_begins_anew",
    Careless: "test_numbers_that_are_not_finite_command_nothing_of_the_kind",
    Reckless: "test_limits_of_joints_are_kept",
    Endless: "test_it_stops_without_samples",
    Obstinate: "test_switched_off_it_stands_still",
    Forgetful: "test_a_group_of_another_plan_continues",
}


@pytest.mark.parametrize(("faulty", "name"), FAULTS.items(), ids=[each.__name__ for each in FAULTS])
def test_a_fault_is_found(faulty: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_drive, "DiffDrives", faulty)
    test: Callable[[], None] = getattr(TestDiffDrive(), name)
    with pytest.raises(AssertionError):
        test()

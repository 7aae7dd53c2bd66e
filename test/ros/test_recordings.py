"""Recordings of controllers on the example robots: what the bags hold agrees with itself and with what was asked."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
pytest.importorskip("rosbags", reason="rosbags is not installed: make setup-tests")

import record_controllers
from recordings import read_arm, read_rover

pytestmark = pytest.mark.app

RADIUS, SEPARATION = 0.1, 0.33
TIMEOUT, DECELERATION = 0.5, 1.5
DRIVE = ((0.2, 0.0, 0.0), (1.0, 0.6, 0.0), (1.5, 0.5, 0.7))


@pytest.fixture(scope="module")
def rover(tmp_path_factory):
    path = tmp_path_factory.mktemp("recordings") / "rover"
    record_controllers.record_rover(path, drive=DRIVE)
    return read_rover(path)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    path = tmp_path_factory.mktemp("recordings") / "arm"
    record_controllers.record_arm(path)
    return read_arm(path)


def test_the_rovers_odometry_follows_from_its_wheels(rover):
    assert rover.twist.times == rover.wheels.times
    left, right = rover.wheels.columns * RADIUS
    forward, turning = rover.twist.columns
    assert forward == pytest.approx((left + right) / 2.0, abs=1e-9)
    assert turning == pytest.approx((right - left) / SEPARATION, abs=1e-9)
    # Speeds change from tick to tick, and every second tick is recorded: the way is the trapezoid's, about.
    seconds = np.diff(rover.twist.times)
    mean = (rover.twist.columns[:, 1:] + rover.twist.columns[:, :-1]) / 2.0
    heading = np.cumsum(mean[1] * seconds)
    middle = heading - mean[1] * seconds / 2.0
    way = np.cumsum(np.stack([np.cos(middle), np.sin(middle)]) * mean[0] * seconds, axis=1)
    assert rover.place.columns[:, 1:] == pytest.approx(way, abs=0.02)
    assert np.abs(way[:, -1]).min() > 0.3


def test_the_rover_drives_as_told_and_brakes_when_commands_stop(rover):
    times, forward = np.array(rover.twist.times), rover.twist.columns[0]
    last = rover.commanded.times[-1]
    assert rover.commanded.columns[:, -1].tolist() == [0.5, 0.7]
    holding = (times > last) & (times < last + TIMEOUT - 0.02)
    assert holding.sum() > 20
    assert forward[holding] == pytest.approx(0.5)
    end = last + TIMEOUT + 0.5 / DECELERATION
    braking = (times > last + TIMEOUT + 0.04) & (times < end - 0.04)
    assert (np.diff(forward[braking]) / np.diff(times[braking])) == pytest.approx(-DECELERATION, rel=1e-6)
    assert forward[times > end + 0.04] == pytest.approx(0.0, abs=1e-12)
    assert rover.wheels.columns[:, -1].tolist() == [0.0, 0.0]


def test_the_arm_is_where_it_should_be_at_every_feedback(arm):
    actual = dict(zip(np.round(arm.actual.times, 6).tolist(), arm.actual.rows, strict=True))
    # Joint states of a tick have its stamp, as feedback has.
    pairs = [
        (actual[time], row)
        for time, row in zip(np.round(arm.desired.times, 6).tolist(), arm.desired.rows, strict=True)
    ]
    assert len(pairs) > 90
    assert np.abs(np.subtract(*zip(*pairs, strict=True))).max() <= 1e-9


def test_the_arm_ends_its_goals_as_asked_and_holds(arm):
    states = {goal: [state for _, g, state in arm.ends if g == goal] for goal in (1, 2)}
    assert [state for state in states[1] if state != "executing"] == ["accepted", "succeeded"]
    assert [state for state in states[2] if state != "executing"] == ["accepted", "canceling", "canceled"]
    at = {(goal, state): time for time, goal, state in arm.ends}
    times, positions = np.array(arm.actual.times), arm.actual.columns
    last = [degrees * math.pi / 180.0 for degrees in record_controllers.VIAS[-1][1]]
    between = (times > at[1, "succeeded"]) & (times < at[2, "accepted"])
    assert positions[:, between] == pytest.approx(np.tile(last, (between.sum(), 1)).T, abs=1e-12)
    held = positions[:, times > at[2, "canceled"] + 0.02]
    assert held.shape[1] > 50
    assert (held == held[:, :1]).all()
    # Stopped on its way from there to zero.
    assert (np.abs(held[:, 0]) < np.abs(last)).all()
    assert (np.abs(held[:, 0]) > 0.1 * np.abs(last)).all()


def test_two_recordings_of_the_rover_hold_the_same_numbers(rover, tmp_path):
    record_controllers.record_rover(tmp_path / "rover", drive=DRIVE)
    assert read_rover(tmp_path / "rover") == rover

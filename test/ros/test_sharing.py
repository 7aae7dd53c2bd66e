"""Threads take short turns while a change is made, and their usual ones afterwards."""

from __future__ import annotations

import sys

import pytest

from usd_ros_bridge.ros.live.sharing import TURN_S, short_turns


@pytest.fixture
def usual():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield 0.005
    sys.setswitchinterval(before)


def test_turns_are_short_until_the_last_one_ends(usual):
    first, second = short_turns(), short_turns()
    first.__enter__()
    second.__enter__()
    assert sys.getswitchinterval() == pytest.approx(TURN_S)
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(TURN_S)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_turns_that_are_shorter_already_stay(usual):
    sys.setswitchinterval(0.0001)
    with short_turns():
        assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.05)
    assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.05)


def test_what_raises_ends_it_too(usual):
    with pytest.raises(ValueError, match="no"), short_turns():
        raise ValueError("no")
    assert sys.getswitchinterval() == pytest.approx(usual)

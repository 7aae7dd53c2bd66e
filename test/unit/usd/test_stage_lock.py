"""Turns at a stage: one at a time, by whoever has it again, and who waits is known."""

from __future__ import annotations

import threading
import time

from pxr import Usd

from usd_ros_bridge.usd.edit.lock import StageLock, lock_of

PATIENCE = 10.0


def test_a_stage_has_one_turn() -> None:
    stage, other = Usd.Stage.CreateInMemory(), Usd.Stage.CreateInMemory()
    assert lock_of(stage) is lock_of(stage)
    assert lock_of(stage) is not lock_of(other)


def test_who_has_it_may_take_it_again_and_waits_for_nobody() -> None:
    turn = StageLock()
    with turn, turn:
        assert not turn.is_wanted
        assert not turn.is_wanted_by(threading.get_ident())


def test_who_waits_is_known_until_they_have_it() -> None:
    turn = StageLock()
    had, may_end = threading.Event(), threading.Event()

    def take() -> None:
        with turn:
            had.set()
            assert may_end.wait(PATIENCE)

    thread = threading.Thread(target=take)
    with turn:
        thread.start()
        deadline = time.monotonic() + PATIENCE
        while not turn.is_wanted and time.monotonic() < deadline:
            time.sleep(0)
        assert turn.is_wanted_by(thread.ident)
        assert not turn.is_wanted_by(threading.get_ident())
        assert not had.is_set()
    assert had.wait(PATIENCE)
    assert not turn.is_wanted
    may_end.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()

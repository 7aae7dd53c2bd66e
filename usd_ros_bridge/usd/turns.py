"""Turns at a stage: OpenUSD lets many threads read a stage, but none while another one edits it."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

_turns: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
_lock = threading.Lock()


def turn_at(stage: Any) -> threading.RLock:
    """Returns the lock that whoever reads a stage beside the tick holds meanwhile, and whoever edits it, too.

    It says nothing about a stage of a host's, whose edits nobody here knows of: that one is read in the host's thread.

    Args:
        stage: A Usd.Stage; the same one gives the same lock.
    """
    with _lock:
        turn = _turns.get(stage)
        if turn is None:
            turn = _turns[stage] = threading.RLock()
        return turn

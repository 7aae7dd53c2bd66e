"""Settings of the whole process: changed only in the bridge's own processes, or where a host asks."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_S = 0.0001
"""A tick waits for the interpreter at every message that it sends: with Python's 5 ms, several periods while another
thread plans."""

_lock = threading.Lock()
_allowed = False
_users = 0
_usual_s = 0.0


def tune_process() -> None:
    """Let the bridge change settings of this process for speed, from now on.

    While it reads and plans, Python's garbage collector is paused (100,000 new objects would be searched again and
    again) and threads take turns of 0.1 ms. Both are restored afterwards. The bridge's own commands and nodes do this;
    a host decides for its process.
    """
    global _allowed
    _allowed = True


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector in a process that is tuned."""
    pauses = _allowed and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Make threads take short turns in a process that is tuned."""
    global _users, _usual_s
    if not _allowed:
        yield
        return
    with _lock:
        if not _users:
            _usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual_s, SWITCH_INTERVAL_S))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                sys.setswitchinterval(_usual_s)

"""Sharing the interpreter: while a thread plans, the others are not to wait long for their turn."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TURN_S = 0.0001
"""How long a Python thread goes on while another one waits: a tick asks for its turn again at every message it sends,
and Python's usual 5 ms of each would add up to several periods."""

_lock = threading.Lock()
_sharers = 0
_usual_s = 0.0


@contextmanager
def short_turns() -> Iterator[None]:
    """Has all threads of the process take short turns while the context lasts."""
    global _sharers, _usual_s
    with _lock:
        if not _sharers:
            _usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual_s, TURN_S))
        _sharers += 1
    try:
        yield
    finally:
        with _lock:
            _sharers -= 1
            if not _sharers:
                sys.setswitchinterval(_usual_s)

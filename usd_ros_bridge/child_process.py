"""Child processes that end with their parent: this interpreter, running one function, and programs of others."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Return what lets the kernel send a program a signal when its parent ends, by whatever: a `preexec_fn` of Popen.

    Args:
        number: The signal.
    """
    # Looked up here: a child between fork and exec must not load libraries.
    return partial(_ask_kernel, ctypes.CDLL(None, use_errno=True).prctl, number, os.getpid())


def _ask_kernel(prctl: Callable[..., int], number: signal.Signals, parent: int) -> None:
    prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def start_child(entry: str, connection: Connection, **streams: Any) -> subprocess.Popen[bytes]:
    """Start a process that calls a function with the descriptor of its end of a connection.

    The connection ends with the parent, however that ends: a child that waits for it is never left behind.

    Args:
        entry: `package.module:function`.
        connection: The child's end, which the caller closes afterwards.
        streams: `stdin`, `stdout` and `stderr` as for Popen.

    Raises:
        OSError: It cannot be started.
    """
    module, _, function = entry.partition(":")
    code = (
        f"import sys; sys.path[:] = {[path for path in sys.path if path]!r}; "
        "from usd_ros_bridge.process_settings import open_standard_streams; open_standard_streams(); "
        f"from {module} import {function}; {function}({connection.fileno()})"
    )
    return subprocess.Popen(  # noqa: S603 - this interpreter, and a program of our own
        [sys.executable, "-c", code], pass_fds=(connection.fileno(),), **streams
    )


def end_of_child(process: subprocess.Popen[bytes], *, wait_s: float) -> str:
    """Wait for a child that has closed its connection. Return how it ended, as the end of a sentence.

    Args:
        process: The child. It is killed if it does not end.
        wait_s: How long to wait, seconds.
    """
    try:
        status = process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "closed its connection"
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"

"""Child processes of a bridge: this interpreter, running one function, with a connection to the parent."""

from __future__ import annotations

import subprocess
import sys
from multiprocessing.connection import Connection
from typing import Any


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

"""The process that is asked for a backend: it ends with the one that asks."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

TIMEOUT_S = 60.0


def read(descriptor: int) -> bytes:
    """Wait for what stands in a FIFO. Return it; b"" once nobody has it open for writing."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        if not selector.select(TIMEOUT_S):
            pytest.fail(f"nothing within {TIMEOUT_S:g} s")
    return os.read(descriptor, 100)


def test_the_asked_process_ends_with_the_one_that_asks(tmp_path: Path) -> None:
    fifo, program = tmp_path / "fifo", tmp_path / "program"
    os.mkfifo(fifo)
    # The FIFO stays open until it ends.
    program.write_text(f"#!/bin/sh\nexec 9> '{fifo}'\necho $$ >&9\nexec sleep 600\n")
    program.chmod(0o755)
    code = (
        "from usd_ros_bridge.fleet.backend_question import backend_of;"
        f"backend_of({{}}, command=[{str(program)!r}])"
    )
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    asking = subprocess.Popen([sys.executable, "-c", code])
    try:
        asked = int(read(descriptor))
        asking.terminate()
        assert asking.wait(TIMEOUT_S) == -signal.SIGTERM
        try:
            assert read(descriptor) == b""
        finally:
            with suppress(ProcessLookupError):
                os.kill(asked, signal.SIGKILL)
    finally:
        asking.kill()
        asking.wait()
        os.close(descriptor)

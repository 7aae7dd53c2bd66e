"""OpenUSD is loaded by a thread of a running bridge: other threads load libraries at the same time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from builders.assets import ROVER

pytestmark = pytest.mark.process

PROGRAM = """
import ctypes, sys, threading
from usd_ros_bridge.options import ReadOptions
from usd_ros_bridge.usd.session import DeferredStage

assert not any(name.partition(".")[0] == "pxr" for name in sys.modules)
stage = DeferredStage(sys.argv[1], ReadOptions())
opening = threading.Thread(target=stage.open, daemon=True)
opening.start()
while opening.is_alive():
    # As rcl does for the type support of an endpoint: the dynamic loader is asked with the GIL.
    ctypes.CDLL("libm.so.6")
print(stage.is_open)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="names a library of Linux")
def test_threads_that_load_libraries_do_not_stop_each_other() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROVER)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr

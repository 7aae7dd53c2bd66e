"""Bridges with a page, as processes of their own, and what they print."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from usd_ros_bridge.testing.logged_process import LoggedProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
ROVER = EXAMPLES / "rover" / "world.usda"
ARM = EXAMPLES / "arm" / "arm.usda"
FLEET = EXAMPLES / "fleet" / "fleet.usda"
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)
"""Of a browser without a screen, a GPU, or anything to ask of its makers."""
START_S = 90.0
END_S = 60.0


class PageRun(LoggedProcess):
    """`usd_ros_bridge ...` with a page."""

    def __init__(self, *arguments: str | Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "usd_ros_bridge.cli", *map(str, arguments), "--view-port", str(port)]
        super().__init__(command, exit_status=None)

    @property
    def url(self) -> str:
        line = self.wait_for_line(r"page: http://", timeout=START_S)
        return line.partition("page: ")[2].split()[0]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def page_id(self) -> int:
        """The id of the page's process."""
        _ = self.url
        (found,) = [
            child
            for child in children(self.process.pid)
            if b"usd_ros_bridge.view.page" in command_line(child)
        ]
        return found

    @property
    def output(self) -> str:
        return self.log

    def interrupt(self) -> int:
        """End it as Ctrl-C does. Return the exit status."""
        return self.end(timeout=END_S)

    def close(self) -> None:
        if self.process.poll() is None:
            # One that was stopped does not end by itself.
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def children(process_id: int) -> list[int]:
    """Return the ids of the children of a process."""
    found = []
    for task in Path(f"/proc/{process_id}/task").iterdir():
        # A thread may end meanwhile.
        with suppress(OSError):
            found += [int(each) for each in (task / "children").read_text(encoding="utf-8").split()]
    return found


def command_line(process_id: int) -> bytes:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return b""


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_end(process_id: int, timeout: float) -> bool:
    """Return whether a process has ended within a time, seconds."""
    end = time.monotonic() + timeout
    while is_running(process_id):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True

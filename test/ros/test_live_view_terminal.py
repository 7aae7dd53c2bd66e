"""`usd_ros_bridge run` on a pseudo terminal. pyte, a terminal that we did not write, says what is on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyte", reason="pyte is not installed: make setup-all")

import pyte
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from page_runs import command_line

pytestmark = pytest.mark.app

ARM = Path(__file__).parents[2] / "examples" / "arm" / "arm.usda"
RUN = [sys.executable, "-m", "usd_ros_bridge.cli", "run"]
WAIT_S = 60.0
LEAVE = b"\x1b[?1049l"
"""How an application leaves the alternate screen (xterm)."""
SHOW_CURSOR = b"\x1b[?25h"


class Terminal:
    """A child process on a pseudo terminal."""

    def __init__(self, command: list[str], *, columns: int = 120, lines: int = 40, **variables: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        environment = {
            key: value for key, value in os.environ.items() if key != "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
        }
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**environment, "TERM": "xterm-256color", **variables},
        )  # fmt: skip
        self.slave = slave
        self.output = b""
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)

    def read(self, timeout: float = 0.1) -> None:
        if select.select([self.master], [], [], timeout)[0]:
            content = os.read(self.master, 65536)
            self.output += content
            self._stream.feed(content)

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, f"no {what} in {WAIT_S} s; on the screen:\n" + "\n".join(
                self.screen.display
            )
            self.read()

    def shows(self, text: str) -> bool:
        return any(text in line for line in self.screen.display)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait(self) -> int:
        self.wait_for(lambda: self.process.poll() is not None, "end of the process")
        while select.select([self.master], [], [], 0)[0]:
            self.read()
        return self.process.returncode

    def view(self) -> int:
        """Return the process that draws: the one whose program serves the view."""
        children = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            .read_text(encoding="utf-8")
            .split()
        )
        views = [pid for pid in map(int, children) if b"live_app" in command_line(pid)]
        return views[0] if views else 0

    def assert_restored(self) -> None:
        assert termios.tcgetattr(self.slave)[:4] == self.before[:4]
        assert self.output.rindex(LEAVE) > self.output.rindex(b"\x1b[?1049h")
        assert self.output.rindex(SHOW_CURSOR) > self.output.rindex(b"\x1b[?25l")

    def hang_up(self) -> None:
        """Close the terminal, as a window that is closed."""
        for number in (self.master, self.slave):
            if number >= 0:
                os.close(number)
        self.master = self.slave = -1

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.hang_up()


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def make(*arguments: str, **options: Any) -> Terminal:
        opened.append(Terminal([*RUN, str(ARM), *arguments], **options))
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.close()


def started(terminal: Terminal) -> Terminal:
    terminal.wait_for(lambda: terminal.shows("/arm/joint_states") and terminal.shows("detail"), "live view")
    return terminal


@pytest.mark.parametrize("keys", ["q", "\x03"], ids=["q", "Ctrl-C"])
def test_the_user_ends_the_bridge_and_gets_the_terminal_and_the_log_back(
    open_terminal: Callable[..., Terminal], keys: str
) -> None:
    terminal = started(open_terminal())
    terminal.press(keys)
    assert terminal.wait() == 0
    terminal.assert_restored()
    after = terminal.output[terminal.output.rindex(LEAVE) :]
    assert b"Traceback" not in terminal.output
    assert b"live view" not in after


def test_the_rows_count_a_plain_client_and_have_the_services_of_simulation_interfaces(
    open_terminal: Callable[..., Terminal], ros_harness: Any
) -> None:
    terminal = started(open_terminal(lines=60))
    received: list[JointState] = []
    ros_harness.node.create_subscription(
        JointState, "/arm/joint_states", received.append, qos_profile_sensor_data
    )
    ros_harness.wait_for(lambda: received, what="joint states")

    def rows() -> list[int]:
        return [n for n, line in enumerate(terminal.screen.display) if line.startswith("/arm/joint_states ")]

    # The detail pane shows the name, too, and may be there first.
    terminal.wait_for(rows, "row")
    (number,) = rows()
    terminal.wait_for(lambda: " active " in terminal.screen.display[number], "active publisher")
    assert terminal.shows("/get_simulator_features")


def test_the_detail_pane_shows_the_newest_message_and_its_latency(
    open_terminal: Callable[..., Terminal],
) -> None:
    terminal = started(open_terminal(columns=160, lines=60))
    terminal.wait_for(lambda: terminal.shows("QoS reliable"), "detail")
    terminal.wait_for(lambda: terminal.shows("latency median"), "message")
    terminal.wait_for(lambda: terminal.shows("position: [") and terminal.shows("header:"), "fields")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_bridge_and_the_view(open_terminal: Callable[..., Terminal], number: int) -> None:
    terminal = started(open_terminal())
    os.kill(terminal.process.pid, number)
    assert terminal.wait() == 0
    terminal.assert_restored()


def test_the_bridge_outlives_a_view_that_is_killed(open_terminal: Callable[..., Terminal]) -> None:
    terminal = started(open_terminal())
    view = terminal.view()
    assert view
    os.kill(view, signal.SIGKILL)
    terminal.wait_for(lambda: b"the live view was ended by signal 9" in terminal.output, "message")
    terminal.assert_restored()
    assert terminal.process.poll() is None
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.wait() == 0


def test_a_bridge_that_is_killed_leaves_no_view_and_a_usable_terminal(
    open_terminal: Callable[..., Terminal],
) -> None:
    terminal = started(open_terminal())
    view = terminal.view()
    os.kill(terminal.process.pid, signal.SIGKILL)
    terminal.wait_for(lambda: not Path(f"/proc/{view}").exists(), "end of the view")
    while select.select([terminal.master], [], [], 0)[0]:
        terminal.read()
    terminal.assert_restored()


def test_a_view_ends_with_its_terminal(open_terminal: Callable[..., Terminal]) -> None:
    terminal = started(open_terminal())
    view = terminal.view()
    terminal.hang_up()
    end = time.monotonic() + WAIT_S
    while Path(f"/proc/{view}/stat").exists() and time.monotonic() < end:
        # The bridge's wait for its child ends the entry.
        select.select([], [], [], 0.1)
    assert not Path(f"/proc/{view}").exists()
    assert terminal.process.poll() is None
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.process.wait(WAIT_S) == 0


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["--no-live"], {}, b""),
        ([], {"TERM": "dumb"}, b"no live view: the terminal cannot move its cursor (TERM)"),
    ],
    ids=["--no-live", "TERM=dumb"],
)
def test_without_the_view_there_are_log_lines(
    open_terminal: Callable[..., Terminal], arguments: list[str], variables: dict[str, str], said: bytes
) -> None:
    terminal = open_terminal(*arguments, **variables)
    terminal.wait_for(lambda: b": ready" in terminal.output, "log line")
    assert said in terminal.output
    assert b"\x1b[?1049h" not in terminal.output
    assert terminal.view() == 0
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.wait() == 0

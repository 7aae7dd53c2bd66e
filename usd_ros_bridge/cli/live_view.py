"""Run the live view beside a bridge: a child process draws it, so that drawing never delays a tick.

The child owns the terminal. What this process, and libraries in it, write to stdout and stderr goes to a file in memory
meanwhile, which the view shows as the log: a write never waits for the terminal. When the view ends, whatever the
reason, the terminal is restored, the newest lines of the log follow, and the bridge goes on with log lines, unless the
user asked for its end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any

from usd_ros_bridge.child_process import end_of_child, start_child
from usd_ros_bridge.reporting import describe

if TYPE_CHECKING:
    from usd_ros_bridge.model.diagnostics import Diagnostic
    from usd_ros_bridge.model.plan import RobotPlan
    from usd_ros_bridge.ros.bridge_status import BridgeStatus

REFRESH_S = 0.25
"""Period of the view, seconds."""

SHARE = 0.05
"""Most of a processor that the status of a bridge with very many interfaces takes."""

END_S = 3.0
"""Time that the view has for its end, seconds."""

MAX_LOG_BYTES = 8_000_000
"""Size of the log in memory; after that it starts again."""

LINES_LEFT = 50
"""Lines of the log that are printed when the view has ended."""

STOP = "stop"
"""Event of the view: the user asks for the bridge's end."""

_RESTORE = "".join(
    f"\x1b[?{mode}"
    for mode in ("1049l", "25h", "1000l", "1002l", "1003l", "1006l", "1015l", "2004l", "1004l")
)
_RESTORE += "\x1b[<u\x1b[0m\r"
"""Leave the alternate screen, show the cursor, end reports of mouse, focus, paste and keys (xterm, kitty)."""


MAX_ROBOTS = 100
"""Robots whose frames are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameNames:
    """The frames of one robot, as the view lists them.

    Attributes:
        namespace: The robot's namespace.
        tops: Frames of other robots or nodes that its frames hang from.
        frames: Id, and if it is static, of each frame.
    """

    namespace: str
    tops: tuple[str, ...]
    frames: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewUpdate:
    """What the bridge reports to the view.

    Attributes:
        status: The status, without robots and diagnostics: they are below, as they seldom change.
        robots: Frames of the robots, None if they have not changed.
        robot_count: Number of robots.
        diagnostics: Faults of the asset, None if they have not changed.
        log: Lines that were logged since the last update.
    """

    status: BridgeStatus
    robots: tuple[FrameNames, ...] | None = None
    robot_count: int = 0
    diagnostics: tuple[Diagnostic, ...] | None = None
    log: tuple[str, ...] = ()


def reason_against() -> str:
    """Return why there can be no live view here, "" if there can be one."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        return "not a terminal"
    if os.environ.get("TERM", "dumb") == "dumb":
        return "the terminal cannot move its cursor (TERM)"
    if find_spec("textual") is None:
        return "textual is not installed: pip install textual"
    return ""


@contextmanager
def live_view(status: Callable[[], BridgeStatus]) -> Iterator[None]:
    """Show `status()` on the terminal for the duration of a `with` block.

    Args:
        status: Called from a thread of the view.
    """
    view = LiveView(status)
    view.open()
    try:
        yield
    finally:
        view.close()


class LiveView:
    """The child process that draws, and what goes between."""

    def __init__(self, status: Callable[[], BridgeStatus]) -> None:
        """Args: status: Return the status; called from a thread."""
        self._status = status
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._output: _CapturedOutput | None = None
        self._terminal: list[Any] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @property
    def process_id(self) -> int | None:
        """Return the id of the child process, None if there is none."""
        return None if self._process is None else self._process.pid

    def open(self) -> None:
        """Start the view. It appears about half a second later."""
        self._terminal = termios.tcgetattr(sys.stdin.fileno())
        ours, theirs = Pipe()
        self._output = _CapturedOutput()
        terminal = self._output.open()
        try:
            self._process = start_child(
                "usd_ros_bridge.cli.live_app:serve", theirs, stdout=terminal, stderr=terminal
            )
        except OSError as error:
            self._restore(f"the live view cannot be started ({error.strerror})")
            return
        finally:
            theirs.close()
        self._connection = ours
        self._thread = threading.Thread(target=self._feed, name="live view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the view and restore the terminal. Idempotent."""
        self._ended.set()
        process, thread = self._process, self._thread
        if thread is not None:
            thread.join(END_S)
        if self._connection is not None:
            # The view ends when nothing feeds it any more.
            self._connection.close()
        if process is not None:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._restore("")

    def _feed(self) -> None:
        try:
            self._feed_until_end()
        except (EOFError, OSError):
            # The view is gone.
            if not self._ended.is_set():
                self._restore(f"the live view {self._reason()}; the bridge continues, with log lines")
        except Exception as error:  # noqa: BLE001 - a fault of the view does not end the bridge
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            self._restore(f"the live view failed, the bridge continues ({describe(error)})")

    def _feed_until_end(self) -> None:
        connection, output = self._connection, self._output
        assert connection is not None
        assert output is not None
        robots: Any = None
        diagnostics: Any = None
        while not self._ended.is_set():
            began = time.thread_time()
            status = self._status()
            connection.send(
                update_of(
                    status,
                    with_robots=status.robots is not robots,
                    with_diagnostics=status.diagnostics is not diagnostics,
                    log=output.new_lines(),
                )
            )
            robots, diagnostics = status.robots, status.diagnostics
            wait = max(REFRESH_S, (time.thread_time() - began) / SHARE)
            until = time.monotonic() + wait
            while (left := until - time.monotonic()) > 0 and not self._ended.is_set():
                if connection.poll(min(left, REFRESH_S)) and connection.recv() == STOP:
                    os.kill(os.getpid(), signal.SIGINT)

    def _reason(self) -> str:
        assert self._process is not None
        return end_of_child(self._process, wait_s=END_S)

    def _restore(self, message: str) -> None:
        """Give the terminal back, and print the newest lines of the log. Idempotent."""
        with self._lock:
            output, self._output = self._output, None
            if output is None:
                return
            with suppress(termios.error, OSError):
                # After a regular end nothing of this changes anything.
                if self._process is None or self._process.poll() != 0:
                    os.write(output.terminal, _RESTORE.encode())
                # A process in the background must not be stopped by its own good manners.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
                try:
                    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._terminal)
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
            lines = output.close()
        # A terminal that was closed takes nothing.
        with suppress(OSError):
            for line in lines[-LINES_LEFT:]:
                print(line, file=sys.stderr)
            if message:
                print(f"usd_ros_bridge: {message}", file=sys.stderr)


class _CapturedOutput:
    """What this process writes to stdout and stderr, in a file in memory."""

    def __init__(self) -> None:
        self._saved: list[tuple[int, int]] = []
        self._read = 0
        self._rest = b""
        self._kept: list[str] = []
        self._file = -1

    @property
    def terminal(self) -> int:
        """Return a descriptor of the terminal."""
        return self._saved[0][1]

    def open(self) -> int:
        """Begin. Return a descriptor of the terminal."""
        self._file = os.memfd_create("usd_ros_bridge_log")
        import fcntl

        # Two descriptors, and other processes that inherit them, write one after the other.
        fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
        _flush()
        for number in (1, 2):
            if os.isatty(number):
                self._saved.append((number, os.dup(number)))
                os.dup2(self._file, number)
        return self.terminal

    def new_lines(self) -> tuple[str, ...]:
        """Return the lines that were written since the last call."""
        size = os.fstat(self._file).st_size
        if size < self._read:
            self._read = 0
        content = self._rest + os.pread(self._file, size - self._read, self._read)
        self._read = size
        if size > MAX_LOG_BYTES:
            os.ftruncate(self._file, 0)
            self._read = 0
        *lines, self._rest = content.split(b"\n")
        texts = tuple(line.decode(errors="replace") for line in lines)
        self._kept = [*self._kept, *texts][-LINES_LEFT:]
        return texts

    def close(self) -> list[str]:
        """End. Return the newest lines."""
        _flush()
        self.new_lines()
        if self._rest:
            self._kept.append(self._rest.decode(errors="replace"))
        for number, saved in self._saved:
            os.dup2(saved, number)
            os.close(saved)
        os.close(self._file)
        return self._kept


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def update_of(
    status: BridgeStatus, *, with_robots: bool, with_diagnostics: bool, log: tuple[str, ...]
) -> ViewUpdate:
    """Return what is reported to the view about a status.

    Args:
        status: The status.
        with_robots: The robots differ from those of the last update.
        with_diagnostics: The diagnostics differ from those of the last update.
        log: Lines that were logged since.
    """
    return ViewUpdate(
        status=replace(status, robots=(), diagnostics=()),
        robots=tuple(map(_frames, status.robots[:MAX_ROBOTS])) if with_robots else None,
        robot_count=len(status.robots),
        diagnostics=status.diagnostics if with_diagnostics else None,
        log=log,
    )


def _frames(robot: RobotPlan) -> FrameNames:
    tops = dict.fromkeys(frame.parent for frame in robot.frames if frame.parent_index < 0)
    return FrameNames(
        namespace=robot.namespace,
        tops=tuple(tops),
        frames=tuple((frame.id, frame.static) for frame in robot.frames),
    )

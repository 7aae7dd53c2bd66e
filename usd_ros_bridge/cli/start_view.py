"""The start of `run` on a terminal: a line for each phase, and a bar while one takes long. On standard error."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from threading import Lock, Timer
from typing import TYPE_CHECKING

from usd_ros_bridge.errors import escaped

if TYPE_CHECKING:
    from rich.progress import Progress

BAR_AFTER_S = 2.0
"""A phase that takes longer gets a bar, seconds."""


class TerminalView:
    """Print each phase with its time when it ends. rich is imported for the bar only."""

    def __init__(self, *, bar_after: float = BAR_AFTER_S) -> None:
        """Store when a bar is shown.

        Args:
            bar_after: Seconds.
        """
        self._bar_after = bar_after
        self._lock = Lock()
        self._timer: Timer | None = None
        self._bar: Progress | None = None
        self._phase = 0

    def begin(self, text: str) -> None:
        """Show what begins, without a line end on a terminal: the time follows there."""
        if sys.stderr.isatty():
            # Only one line can be replaced.
            room = max(get_terminal_size().columns - len(" ...") - 1, 1)
            # A line of the log replaces it, too, in place of following it.
            print(f"{escaped(text)[:room]} ...\r", end="", file=sys.stderr, flush=True)
        self._phase += 1
        self._timer = Timer(self._bar_after, self._show_bar, (self._phase, text))
        self._timer.daemon = True
        self._timer.start()

    def end(self, text: str, seconds: float) -> None:
        """Print the phase with its time."""
        self._stop_bar()
        # On a terminal the line of `begin` is replaced.
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{start}{escaped(text)}  {seconds:.2f} s", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the bar and the line in progress."""
        if self._stop_bar() and sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show_bar(self, phase: int, text: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if phase != self._phase or self._timer is None or not sys.stderr.isatty():
                return
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            # No phase says how far it is: the bar pulses.
            self._bar.add_task(escaped(text), total=None)
            self._bar.start()

    def _stop_bar(self) -> bool:
        """Stop the bar of the phase. Return whether a phase was in progress."""
        timer = self._timer
        if timer is None:
            return False
        timer.cancel()
        with self._lock:
            self._timer = None
            bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
        return True

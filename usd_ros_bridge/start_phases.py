"""The phases of a start: shown as each begins, and with their times at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Timer
from typing import Protocol

LOADING = "loading ROS 2"
NODE = "starting the node"
OPENING = "opening"
PLANNING = "planning"
COMPILING = "compiling the physics"
BACKEND = "starting the backend"
DISCOVERY = "discovery"

EARLY_AFTER_S = 0.3
"""Time after which the executables say that ROS 2 is being loaded, seconds."""

Progress = Callable[[str], None]
"""`progress(name)`: a phase begins. From one thread at a time."""


class PhaseView(Protocol):
    """Show phases to people."""

    def begin(self, text: str) -> None:
        """Show that a phase begins."""

    def end(self, text: str, seconds: float) -> None:
        """Show that it has ended, after this time."""

    def close(self) -> None:
        """Leave nothing on the screen that changes. Idempotent."""


class LogView:
    """Show phases as lines of a log, when they begin: `StartPhases.finish` has the times."""

    def __init__(self, *, early_after: float | None = None) -> None:
        """Show nothing until `log_to`, but for one line.

        Args:
            early_after: Print the first phase on stderr if it takes longer, seconds: ROS 2, whose log is not there
                yet, is being loaded. None: never. A caller's mistake that is found at once stays the only line.
        """
        self._log: Callable[[str], None] | None = None
        self._early_after = early_after
        self._timer: Timer | None = None

    def log_to(self, log: Callable[[str], None]) -> None:
        """Write the phases that begin from now on to a log."""
        self._log = log

    def begin(self, text: str) -> None:
        """Write a line."""
        self._cancel()
        if self._log is not None:
            self._log(text)
        elif self._early_after is not None:
            self._timer = Timer(self._early_after, _print_early, (text,))
            self._timer.daemon = True
            self._timer.start()
            self._early_after = None

    def end(self, text: str, seconds: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Print nothing any more."""
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _print_early(text: str) -> None:
    print(f"[INFO] [usd_ros_bridge]: {text}", file=sys.stderr, flush=True)


class StartPhases:
    """Measure the phases of a start, one after the other, and show them."""

    def __init__(self, view: PhaseView | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin the first phase, in which ROS 2 is loaded.

        Args:
            view: Shows the phases; by default the log that `log_to` gives.
            clock: Return seconds.
        """
        self._clock = clock
        self._view = LogView() if view is None else view
        self._start = self._since = clock()
        self._name = self._text = LOADING
        self._times: list[tuple[str, float]] = []
        self._closed = False
        self._view.begin(LOADING)

    def log_to(self, log: Callable[[str], None]) -> None:
        """Write the phases that begin from now on to a log, unless they are shown elsewhere."""
        if isinstance(self._view, LogView):
            self._view.log_to(log)

    def begin(self, name: str, detail: str = "") -> None:
        """End the phase in progress and begin another one.

        Args:
            name: A name of this module.
            detail: What it is about, for example the asset.
        """
        if self._closed:
            return
        self._end()
        self._name, self._text = name, f"{name} {detail}" if detail else name
        self._view.begin(self._text)

    def finish(self) -> str:
        """End the last phase. Return one line with the times of all."""
        self._end()
        self.close()
        parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self._times)
        return f"started in {self._since - self._start:.2f} s: {parts}"

    def close(self) -> None:
        """Show nothing any more: an error line, or the live view, comes next. Idempotent."""
        self._closed = True
        self._view.close()

    def _end(self) -> None:
        now = self._clock()
        seconds, self._since = now - self._since, now
        self._times.append((self._name, seconds))
        self._view.end(self._text, seconds)

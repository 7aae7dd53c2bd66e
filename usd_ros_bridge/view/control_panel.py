"""What the page's controls have in common: jobs of the page's thread, limits of rates, messages for people."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from usd_ros_bridge.errors import BridgeError, escaped
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.view.page_component import PageContext

MAX_RATE = 30.0
"""Messages that a control sends in a second, at most."""

NOTICE_S = 10.0
"""How long a notification stays on the page, seconds."""

MAX_TEXT = 500
"""Characters of a text from others that the page shows."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$&:=@^\"'])")


class ControlPanel(Protocol):
    """A control of the page: the GUI of one interface. All methods are called in the page's thread."""

    def open(self) -> None:
        """Add the GUI, within the container that is entered, and make publishers and clients."""

    def resume(self) -> None:
        """Subscribe: a browser is connected."""

    def update(self, now_s: float) -> None:
        """Send what is due, and show what is new. `now_s` is monotonic."""

    def pause(self) -> None:
        """Unsubscribe, and stop what moves: no browser is connected any more."""

    def close(self) -> None:
        """Stop what moves; destroy publishers and clients. The GUI goes with its container. Idempotent."""


class JobQueue:
    """Run jobs in the page's thread. GUI callbacks and futures submit them from threads of their own."""

    def __init__(self, failed: Callable[[Exception], object]) -> None:
        """Args: failed: Called with what a job raises; the other jobs continue."""
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._failed = failed
        self._own = threading.local()

    def submit(self, job: Callable[[], object]) -> None:
        """Queue a job. Thread-safe."""
        self._jobs.put(job)

    def callback(self, job: Callable[[], object]) -> Callable[[Any], None]:
        """Return a callback for events of the GUI that queues a job."""
        return lambda _: self.submit(job)

    def value_callback(self, job: Callable[[Any], object]) -> Callable[[Any], None]:
        """Return a callback for inputs of the GUI that queues a job with the value that the user gave.

        By the time that the job runs, the page may have set the input to something else. Values of `set_value` are
        nobody's wish.
        """

        def changed(event: Any) -> None:
            if not getattr(self._own, "sets", False):
                self.submit(partial(job, event.target.value))

        return changed

    def set_value(self, handle: Any, value: Any) -> None:
        """Show a value in an input of the GUI. viser calls its callbacks in this thread."""
        self._own.sets = True
        try:
            handle.value = value
        finally:
            self._own.sets = False

    def run_pending(self) -> None:
        """Run the jobs that are queued now, in the calling thread."""
        for _ in range(self._jobs.qsize()):
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            try:
                job()
            except Exception as error:  # noqa: BLE001 - one control must not end the others
                self._failed(error)

    def when_done(self, future: Future[Any], done: Callable[[Any, str], object]) -> None:
        """Queue `done(result, fault)` when a future is done; the fault is "" or one line, and then there is no result.

        Faults of the graph (no server, a time-out, a rejected goal) are texts. Nothing raises here.
        """
        future.add_done_callback(lambda given: self.submit(partial(done, *_outcome(given))))


def _outcome(future: Future[Any]) -> tuple[Any, str]:
    try:
        return future.result(), ""
    except CancelledError:
        return None, "it was canceled"
    except BridgeError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - whoever looks at the page is told
        return None, describe(error)


class RateLimit:
    """Limit how often something is sent. Not thread-safe."""

    def __init__(self, rate: float = MAX_RATE) -> None:
        """Args: rate: Hz."""
        self._period = 1.0 / rate
        self._last = -math.inf

    def take(self, now_s: float) -> bool:
        """Return whether to send now."""
        if now_s - self._last < self._period:
            return False
        self._last = now_s
        return True


def notify(context: PageContext, title: str, text: str, *, fault: bool = True) -> None:
    """Show a notification in every browser.

    Args:
        context: The page.
        title: What it is about.
        text: One line, which may quote others.
        fault: Something failed.
    """
    for client in context.server.get_clients().values():
        client.add_notification(
            title=one_line(title),
            body=one_line(text),
            color="red" if fault else "green",
            auto_close_seconds=NOTICE_S,
        )


def show_fault(context: PageContext | None, error: Exception) -> None:
    """Show what failed in a control, in every browser and in the log."""
    if context is not None:
        text = str(error) if isinstance(error, BridgeError) else describe(error)
        context.report(f"view.control:{type(error).__name__}", f"a control of the page failed: {text}")
        notify(context, "That did not work", text)


def one_line(text: str) -> str:
    """Return a text of others as one line that is safe to show."""
    line = escaped(" ".join(text.split()))
    return line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]}..."


def markdown(text: str) -> str:
    """Return a text of others as Markdown that shows it as it is, in one line."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def relative_name(context: PageContext, robot: int, name: str) -> str:
    """Return an interface's name without the namespace of its robot."""
    namespace = context.plan.robots[robot].namespace if robot >= 0 else "/"
    start = f"{namespace.rstrip('/')}/"
    return name[len(start) :] if name.startswith(start) else name

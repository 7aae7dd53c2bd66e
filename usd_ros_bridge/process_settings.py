"""Settings of the whole process: speed, standard streams, signals, exit status, the user's cache.

In a host's process nothing is changed unless the host asks.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from usd_ros_bridge.errors import BridgeError

EXIT_STRICT = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

SWITCH_INTERVAL_S = 0.0001
"""A tick waits for the interpreter at every message that it sends: with Python's 5 ms, several periods while another
thread plans."""

SIGNAL_CHECK_S = 0.2
"""Longest wait of the main thread in one piece. Where a signal arrives just before a wait, Python runs its handler
after the wait."""

STATUS_PREFIX = "USD_ROS_BRIDGE_STATUS_PREFIX"
"""Variable with the beginning of the lines that `announce` prints; not set: it prints nothing."""

_lock = threading.Lock()
_allowed = False
_users = 0
_usual_s = 0.0


def tune_process() -> None:
    """Let the bridge change settings of this process for speed, from now on.

    While it reads and plans, Python's garbage collector is paused (100,000 new objects would be searched again and
    again) and threads take turns of 0.1 ms. Both are restored afterwards. The bridge's own commands and nodes do this;
    a host decides for its process.
    """
    global _allowed
    _allowed = True


def user_cache(name: str) -> Path:
    """Return the directory of one of the bridge's caches: in XDG_CACHE_HOME, else in ~/.cache.

    Args:
        name: Name of the cache.

    Raises:
        RuntimeError: The user has no home directory.
    """
    # Here: a process is not ready for signals before this module is imported.
    from pathlib import Path

    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "usd_ros_bridge" / name


def fail(error: BridgeError | str) -> int:
    """Print an error as one line on stderr. Return the exit status of a process that it ends."""
    # Here: nothing else of the package is imported before `ending_at_once`.
    from usd_ros_bridge.errors import StrictError, escaped

    print(f"usd_ros_bridge: {escaped(' '.join(str(error).split()))}", file=sys.stderr)
    return EXIT_STRICT if isinstance(error, StrictError) else EXIT_USAGE


def open_standard_streams() -> None:
    """Open /dev/null in place of each standard stream that was closed when the process started, as daemons start.

    The next file to be opened would get its number, and what libraries print would be in that file. Python has None
    for such a stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest free number. Child processes inherit it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8", errors="replace")
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def flush_output() -> None:
    """Write what has been printed."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def discard_output(*, errors: bool = True) -> None:
    """Discard what this process still prints. For a process whose reader went away (`| head`), or whose disk is full.

    Python writes what is left of the output when it ends, and would fail once more.

    Args:
        errors: Discard what goes to standard error, too.
    """
    nobody = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr) if errors else (sys.stdout,):
        os.dup2(nobody, stream.fileno())
    os.close(nobody)


def announce(state: str, **values: Any) -> None:
    """Print a line for the program that started this process, if it wants such lines.

    Args:
        state: What begins: "ready", or "finished" for a process that ends without having been asked to by a signal.
        values: More for the line's JSON object.
    """
    prefix = os.environ.get(STATUS_PREFIX)
    if not prefix:
        return
    import json

    # In one piece: other threads print, too.
    sys.stdout.write(f"{prefix}{json.dumps({'state': state, **values})}\n")
    sys.stdout.flush()


def close_at_exit(close: Callable[[], object]) -> Callable[[], None]:
    """Close something when the interpreter exits, unless it was closed before.

    A thread that waits in the middleware while the interpreter ends would abort the process.

    Args:
        close: Called at the exit, before modules that were imported earlier end. Not in forked processes.

    Returns:
        What withdraws it. Idempotent.
    """
    process_id = os.getpid()

    def run() -> None:
        if os.getpid() == process_id:
            close()

    atexit.register(run)
    return lambda: atexit.unregister(run)


@contextmanager
def missing_requirements_explained() -> Iterator[None]:
    """End the process with one line on stderr where a requirement is missing. For processes of the bridge's own."""
    try:
        yield
    except ImportError as error:
        from usd_ros_bridge.requirements import missing_requirement

        explained = missing_requirement(error)
        if explained is None:
            raise
        sys.exit(fail(explained))


@contextmanager
def own_process() -> Iterator[None]:
    """Prepare a process of the bridge's own, before it opens any file: standard streams, signals, requirements."""
    global _noted
    open_standard_streams()
    with missing_requirements_explained():
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        _noted = os.pipe()
        os.set_blocking(_noted[1], False)
        signal.set_wakeup_fd(_noted[1], warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            noted, _noted = _noted, None
            for each in noted:
                os.close(each)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector in a process that is tuned."""
    pauses = _allowed and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()


def freeze_garbage_collector() -> None:
    """Exclude all objects that exist from searches of the garbage collector, in a process that is tuned."""
    if _allowed:
        gc.freeze()


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Make threads take short turns in a process that is tuned."""
    global _users, _usual_s
    if not _allowed:
        yield
        return
    with _lock:
        if not _users:
            _usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual_s, SWITCH_INTERVAL_S))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                sys.setswitchinterval(_usual_s)


T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BY_SIGNAL = 128
"""Added to the number of a signal for the exit status of what it interrupted, as shells do: SIGINT gives 130."""

_REPEATED_S = 1.0
"""Signals this soon after the first are the same request: a terminal and launch both send one."""

STUCK_S = 3
"""How long after a signal a process is asked whether it still runs Python, seconds."""

_WATCH = (
    'while [ -n "$(head -c 1)" ]; do sleep %d; echo; [ -n "$(timeout 1 head -c 1 <&%d)" ] && continue; '
    'read -r _ _ _ parent _ < /proc/$$/stat; [ "$parent" = %d ] || exit; '
    'echo "usd_ros_bridge: a call of OpenUSD does not end: the process is killed" >&2; kill -KILL "$parent"; done'
)
"""Shell program that reads what Python notes of signals from standard input, asks on standard output, and reads answers
from a pipe."""

_left_behind = threading.Event()
"""Set while a job of `run_interruptibly` may still run in OpenUSD, where Python cannot end it."""


class Ending:
    """End a process on a signal: stop its loop, or interrupt the main thread if there is no loop yet.

    Attributes:
        stop: Stop the loop; None as long as there is none.
        asked: Whether a signal came.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], None] | None = None
        self.asked = False
        self._asked_at = 0.0

    def __call__(self, *_: Any) -> None:
        """Handle a signal. The second one ends the process at once."""
        first, self.asked = not self.asked, True
        if first:
            self._asked_at = time.monotonic()
        elif time.monotonic() - self._asked_at > _REPEATED_S:
            os._exit(_BY_SIGNAL + signal.SIGINT)
        if self.stop is not None:
            self.stop()
        elif first:
            raise KeyboardInterrupt


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """End what runs inside on SIGINT and SIGTERM, without a traceback and as a success.

    A process of the bridge's own (see `ending_at_once`) ignores signals after the first: launch repeats its signals,
    and Python dies by those that come while it shuts down.
    """
    ending = Ending()
    previous = _install(ending)
    try:
        yield ending
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in previous.items():
            ignored = ending.asked and handler is _end_at_once
            signal.signal(number, signal.SIG_IGN if ignored else handler)
        if ending.asked and _left_behind.is_set():
            # Python's own end would run into the thread that is still inside OpenUSD.
            flush_output()
            os._exit(0)


@contextmanager
def ending_at_once(*, success: bool = True) -> Iterator[None]:
    """End the process at once on SIGINT and SIGTERM, as long as it has nothing to close.

    An exception is not enough while modules are imported: OpenUSD's loaders swallow it and continue with half a module.

    Args:
        success: Exit with status 0; else with that of the signal, 130 for SIGINT.
    """
    end: Callable[..., None] = _end_at_once if success else _end_interrupted
    previous = _install(end)
    try:
        yield
    finally:
        for number, handler in previous.items():
            if signal.getsignal(number) is end:
                signal.signal(number, handler)


_watching = threading.Lock()
_noted: tuple[int, int] | None = None
"""Pipe that Python writes to when a signal arrives, before it can handle it."""
_watch: Any = None


@contextmanager
def ended_if_stuck() -> Iterator[None]:
    """Kill the process some seconds after a signal if it does not run Python any more: a call holds its global lock.

    For processes of the bridge's own (`own_process`); in others, it does nothing. Python notes a signal at once, and a
    shell, which needs nothing of this process, waits for that.
    """
    global _watch
    noted = _noted
    if noted is None or not _watching.acquire(blocking=False):
        yield
        return
    # Here: nothing else of this module needs them.
    import select
    import subprocess

    answers = os.pipe()
    answering = None
    try:
        while select.select(noted[:1], (), (), 0.0)[0]:
            os.read(noted[0], 512)  # Of signals before.
        with suppress(OSError):
            _watch = subprocess.Popen(  # noqa: S603 - a program of our own
                ["/bin/sh", "-c", _WATCH % (STUCK_S, answers[0], os.getpid())],
                stdin=noted[0],
                stdout=subprocess.PIPE,
                pass_fds=answers[:1],
                # A terminal's Ctrl-C is for this process.
                start_new_session=True,
            )
            answering = threading.Thread(
                target=_answer, args=(_watch.stdout, answers[1]), name="usd_ros_bridge-alive", daemon=True
            )
            answering.start()
        yield
    finally:
        watch = _end_watch()
        if watch is not None:
            watch.wait()
        if answering is not None:
            answering.join()
        for each in answers:
            os.close(each)
        _watching.release()


def _answer(questions: Any, answers: int) -> None:
    """Answer what the shell asks, as long as this process runs Python."""
    with questions, suppress(OSError):
        while questions.readline():
            os.write(answers, b".")


def _end_watch() -> Any:
    """Kill the shell that waits for signals. Return it, None for none. It keeps Python's lock."""
    global _watch
    watch, _watch = _watch, None
    if watch is not None:
        with suppress(ProcessLookupError):
            os.killpg(watch.pid, signal.SIGKILL)
    return watch


def run_interruptibly(job: Callable[[], T]) -> T:
    """Run a job in a thread and return its result, so that signals reach the main thread meanwhile.

    OpenUSD opens and composes a stage in one call, which may take long and would hold up signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return job()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with ended_if_stuck():
                results.append(job())
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="usd_ros_bridge-open", daemon=True)
    _left_behind.set()
    thread.start()
    while thread.is_alive():
        thread.join(SIGNAL_CHECK_S)
    _left_behind.clear()
    if errors:
        raise errors[0]
    return results[0]


def _install(handler: Callable[..., None]) -> dict[signal.Signals, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, handler) for number in SIGNALS}


def _end_at_once(*_: Any) -> None:
    _end_watch()
    os._exit(0)


def _end_interrupted(number: int, *_: Any) -> None:
    _end_watch()
    os._exit(_BY_SIGNAL + number)

"""Where handlers run: functions in threads, coroutines in one event loop, never in the tick nor in an executor."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from usd_ros_bridge.model.errors import BridgeError, HandlerTimeoutError
from usd_ros_bridge.ros.deadlines import Deadlines

DEFAULT_THREADS = 32
DEFAULT_QUEUE = 100
_IDLE_S = 10.0
_JOIN_S = 0.5


class _Job:
    __slots__ = ("args", "future", "handler")

    def __init__(self, handler: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.handler: Callable[..., Any] | None = handler
        self.args = args
        self.future: Future[Any] = Future()

    def take(self) -> tuple[Callable[..., Any] | None, tuple[Any, ...]]:
        """Returns handler and arguments, None for a handler that is not to run any more."""
        # In this order: `_settle`, in another thread, lets go of the handler first.
        args = self.args
        return (None if self.future.done() else self.handler), args


class _Lane:
    """The jobs of one key, one at a time and in order."""

    __slots__ = ("jobs", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self.jobs: deque[_Job] = deque()


class Workers:
    """Runs handlers for interfaces. No thread exists until one is needed, and idle ones end.

    Jobs of one key run one at a time, in the order of their submission: a handler that is stuck blocks its own
    interface and, of the others, nothing but one of the threads. All threads are daemons.

    Attributes:
        deadlines: For other futures with a time-out.
    """

    def __init__(self, *, threads: int = DEFAULT_THREADS, queue: int = DEFAULT_QUEUE) -> None:
        """Stores limits.

        Args:
            threads: How many functions run at the same time, at most.
            queue: How many jobs of one key wait, at most.
        """
        self._limit = threads
        self._queue = queue
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._ready: deque[tuple[_Lane, _Job]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._running: set[_Job] = set()
        self.deadlines = Deadlines()
        self._coroutines = _Coroutines()
        self._closed = False

    def submit(
        self, key: str, handler: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> Future[Any]:
        """Has `handler(*args)` run, in a thread, or in the event loop where it is a coroutine function.

        A function that returns an awaitable has it awaited in the event loop.

        Args:
            key: Jobs of one key run one after another.
            handler: What to run.
            *args: What to call it with.
            timeout: Seconds from now until the future fails, None for no limit. A coroutine is cancelled then; a
                function runs on, its thread with it, and what it returns is dropped.

        Returns:
            A future with the result or the exception. It fails with HandlerTimeoutError at the time-out, with
            BridgeError where too many jobs wait already or the workers are closed before it is done. `cancel` drops a
            job that waits, cancels a coroutine, and lets a function run on.
        """
        job = _Job(handler, args)
        with self._lock:
            if self._closed:
                job.future.set_exception(BridgeError("the bridge is closed"))
                return job.future
            lane = self._lanes.get(key)
            if lane is not None and len(lane.jobs) >= self._queue:
                job.future.set_exception(BridgeError(f"{self._queue} requests wait already"))
                return job.future
            if timeout is not None:
                self.deadlines.add(job.future, timeout, functools.partial(_expire, job, timeout))
            if lane is not None:
                lane.jobs.append(job)
                return job.future
            lane = self._lanes[key] = _Lane(key)
            self._begin(lane, job)
        return job.future

    @property
    def closed(self) -> bool:
        """Whether nothing runs any more."""
        return self._closed

    def in_event_loop(self) -> bool:
        """Returns whether the calling thread runs the coroutines: nothing there may wait but by `await`."""
        return self._coroutines.is_current()

    def close(self) -> None:
        """Ends all that can be ended, cancels coroutines and fails what is not done. Idempotent; waits for nobody."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            jobs = [*self._running, *(job for lane in self._lanes.values() for job in lane.jobs)]
            jobs += [job for _, job in self._ready]
            self._ready.clear()
            self._lanes.clear()
            self._work.notify_all()
            threads = set(self._threads)
        for job in jobs:
            _settle(job, error=BridgeError("the bridge was closed"))
        self.deadlines.close()
        self._coroutines.close()
        end = time.monotonic() + _JOIN_S
        for thread in threads:
            if thread is not threading.current_thread():
                # One that is stuck in a handler is left behind.
                thread.join(max(0.0, end - time.monotonic()))

    def _begin(self, lane: _Lane, job: _Job) -> None:
        """Starts a job that is the first of its lane; with the lock held."""
        self._running.add(job)
        handler, args = job.take()
        if handler is not None and is_coroutine_function(handler):
            self._coroutines.run(job, handler, args, functools.partial(self._end, lane, job))
            return
        self._ready.append((lane, job))
        if self._idle >= len(self._ready):
            self._work.notify()
        elif len(self._threads) < self._limit:
            thread = threading.Thread(target=self._serve, name="usd_ros_bridge-handler", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _end(self, lane: _Lane, job: _Job) -> None:
        """Goes on with the lane of a job that ended."""
        with self._lock:
            self._running.discard(job)
            while lane.jobs:
                following = lane.jobs.popleft()
                if not following.future.done():
                    self._begin(lane, following)
                    return
            if self._lanes.get(lane.key) is lane:
                del self._lanes[lane.key]

    def _serve(self) -> None:
        """The body of a thread."""
        while True:
            with self._lock:
                while not self._ready:
                    self._idle += 1
                    woken = not self._closed and self._work.wait(_IDLE_S)
                    self._idle -= 1
                    if self._closed or not (woken or self._ready):
                        self._threads.discard(threading.current_thread())
                        return
                lane, job = self._ready.popleft()
            self._run(lane, job)
            # A reference here would keep a message alive until the next one comes.
            del lane, job

    def _run(self, lane: _Lane, job: _Job) -> None:
        handler, args = job.take()
        if handler is None:
            self._end(lane, job)
            return
        try:
            result = handler(*args)
        except BaseException as error:  # noqa: BLE001 - a SystemExit ends a thread, not the way of an answer
            self._end(lane, job)
            _settle(job, error=error)
            return
        if inspect.isawaitable(result):
            self._coroutines.run(job, _await, (result,), functools.partial(self._end, lane, job))
            return
        self._end(lane, job)
        _settle(job, result)


class _Coroutines:
    """One event loop in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def is_current(self) -> bool:
        return self._thread is threading.current_thread()

    def run(
        self,
        job: _Job,
        handler: Callable[..., Coroutine[Any, Any, Any]],
        args: tuple[Any, ...],
        end: Callable[[], None],
    ) -> None:
        with self._lock:
            if self._closed:
                return
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._spin, args=(self._loop,), name="usd_ros_bridge-handlers", daemon=True
                )
                self._thread.start()
            # What is called in the loop is called in order: a cancellation comes after the start.
            self._loop.call_soon_threadsafe(self._start, job, handler, args, end)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            if loop is not None:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(loop.stop)
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def _start(
        self,
        job: _Job,
        handler: Callable[..., Coroutine[Any, Any, Any]],
        args: tuple[Any, ...],
        end: Callable[[], None],
    ) -> None:
        loop = self._loop
        if loop is None or job.future.done():
            end()
            return
        try:
            task = loop.create_task(handler(*args))
        except BaseException as error:  # noqa: BLE001 - the loop serves all handlers
            end()
            _settle(job, error=error)
            return
        job.future.add_done_callback(functools.partial(self._abandon, task))
        task.add_done_callback(functools.partial(_finish, job, end))

    def _abandon(self, task: asyncio.Task[Any], future: Future[Any]) -> None:  # noqa: ARG002 - the callback's
        if not task.done() and self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(task.cancel)

    def _spin(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                # Those that refuse to end are left behind.
                loop.run_until_complete(asyncio.wait(tasks, timeout=_JOIN_S / 2))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def is_coroutine_function(handler: Callable[..., Any]) -> bool:
    """Returns whether calling `handler` gives a coroutine: also of partials, and of objects with an async __call__."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if inspect.iscoroutinefunction(handler):
        return True
    call = getattr(type(handler), "__call__", None)  # noqa: B004 - it is looked at, not asked for
    return inspect.iscoroutinefunction(call)


async def _await(awaitable: Any) -> Any:
    return await awaitable


def _finish(job: _Job, end: Callable[[], None], task: asyncio.Task[Any]) -> None:
    end()
    if task.cancelled():
        _settle(job, error=BridgeError("the handler was cancelled"))
    elif (error := task.exception()) is not None:
        _settle(job, error=error)
    else:
        _settle(job, task.result())


def _expire(job: _Job, timeout: float) -> None:
    _settle(job, error=HandlerTimeoutError(f"no answer within {timeout:g} s"))


def _settle(job: _Job, result: Any = None, *, error: BaseException | None = None) -> None:
    """Ends a job's future, unless that happened before; lets go of what the job holds."""
    with suppress(InvalidStateError):
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
    job.handler = None
    job.args = ()

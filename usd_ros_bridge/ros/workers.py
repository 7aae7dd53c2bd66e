"""Run handlers outside the tick and outside executors: functions in threads, coroutines in one event loop."""

from __future__ import annotations

import asyncio
import functools
import heapq
import inspect
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from usd_ros_bridge.errors import BridgeError, HandlerTimeoutError

DEFAULT_THREADS = 32
DEFAULT_QUEUE = 100
_IDLE_S = 10.0
_JOIN_S = 0.5
_TIDY = 64


@dataclass(slots=True, eq=False)
class _Job:
    key: str
    handler: Callable[..., Any]
    args: tuple[Any, ...]
    future: Future[Any]

    def release(self) -> tuple[Any, ...]:
        """Return the arguments and hold them no longer: a deadline keeps the job until it is over."""
        args, self.args = self.args, ()
        return args


class Workers:
    """Run handlers of interfaces. Threads start when they are needed; those that run functions end when idle.

    Jobs of one key run one at a time, in the order of their submission: a handler that is stuck blocks its own
    interface and one thread, nothing else. All threads are daemons, so that none keeps a process from ending.
    Time-outs have an event loop of their own: a coroutine that blocks does not delay them.
    """

    def __init__(self, *, threads: int = DEFAULT_THREADS, queue: int = DEFAULT_QUEUE) -> None:
        """Store limits.

        Args:
            threads: How many functions run at the same time, at most.
            queue: How many jobs of one key wait, at most.
        """
        self._queue_limit = queue
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[_Job]] = {}
        self._unfinished: set[Future[Any]] = set()
        self._threads = _ThreadPool("usd_ros_bridge-handler", threads)
        self._coroutines = _EventLoopThread("usd_ros_bridge-handlers")
        self._timers = _EventLoopThread("usd_ros_bridge-deadlines")
        self._deadlines = _Deadlines(self._timers)
        self._closed = False

    def submit(
        self, key: str, handler: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> Future[Any]:
        """Run `handler(*args)` in a thread, or in the event loop if it is a coroutine function.

        An awaitable that a function returns is awaited in the event loop.

        Args:
            key: Jobs of one key run one after another.
            handler: The function or coroutine function.
            *args: Its arguments.
            timeout: Seconds from now until the future fails, None for no limit. A coroutine is cancelled then; a
                function runs on, and what it returns is dropped.

        Returns:
            A future with the result or the exception. It fails with HandlerTimeoutError at the time-out, with
            BridgeError where too many jobs wait already or the workers are closed before it is done. `cancel` drops a
            job that waits, cancels a coroutine, and lets a function run on.
        """
        job = _Job(key, handler, args, Future())
        refusal = ""
        with self._lock:
            waiting = self._waiting.get(key)
            if self._closed:
                refusal = "the bridge is closed"
            elif waiting is not None and len(waiting) >= self._queue_limit:
                refusal = f"{self._queue_limit} requests wait already"
            else:
                self._unfinished.add(job.future)
                if waiting is None:
                    self._waiting[key] = deque()
                else:
                    waiting.append(job)
        if refusal:
            job.future.set_exception(BridgeError(refusal))
            return job.future
        job.future.add_done_callback(self._unfinished.discard)
        if timeout is not None:
            error = HandlerTimeoutError(f"no answer within {timeout:g} s")
            self.set_deadline(job.future, timeout, functools.partial(_expire, job, error))
        if waiting is None:
            self._start(job)
        return job.future

    def set_deadline(self, future: Future[Any], timeout: float, expire: Callable[[], None]) -> None:
        """Call `expire`, in a thread of its own, unless `future` is done within `timeout` seconds. From any thread."""
        self._deadlines.add(future, timeout, expire)

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Call a function, which must not wait, in the thread of the time-outs; never once closed. From any thread."""
        self._timers.call(lambda: asyncio.get_running_loop().call_later(seconds, function))

    @property
    def closed(self) -> bool:
        """Return whether nothing runs any more."""
        return self._closed

    @property
    def busy(self) -> bool:
        """Return whether a job runs or waits."""
        return bool(self._waiting)

    def in_event_loop(self) -> bool:
        """Return whether the calling thread runs the coroutines: nothing there may wait but by `await`."""
        return self._coroutines.is_current()

    def close(self) -> None:
        """Cancel coroutines, fail what is not done and end the threads; wait only shortly. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._waiting.clear()
            unfinished = tuple(self._unfinished)
        for future in unfinished:
            _settle(future, error=BridgeError("the bridge was closed"))
        for each in (self._timers, self._coroutines, self._threads):
            each.close()

    def _start(self, job: _Job) -> None:
        """Start the first job of its key."""
        if is_coroutine_function(job.handler):
            self._coroutines.call(self._start_coroutine, job, job.handler, job.release())
        else:
            self._threads.run(self._run_function, job)

    def _start_next(self, key: str) -> None:
        """Start the next job of a key whose first one has ended."""
        with self._lock:
            waiting = self._waiting.get(key)
            following = None
            while waiting and following is None:
                job = waiting.popleft()
                following = None if job.future.done() else job
            if following is None:
                self._waiting.pop(key, None)
        if following is not None:
            self._start(following)

    def _run_function(self, job: _Job) -> None:
        result, args = None, job.release()
        if not job.future.done():
            try:
                result = job.handler(*args)
            except BaseException as error:  # noqa: BLE001 - a SystemExit ends a thread, and keeps no client waiting
                self._start_next(job.key)
                _settle(job.future, error=error)
                return
        if inspect.isawaitable(result):
            self._coroutines.call(self._start_coroutine, job, lambda: result, ())
            return
        self._start_next(job.key)
        _settle(job.future, result)

    def _start_coroutine(self, job: _Job, handler: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Start a job; in the event loop."""
        if job.future.done():
            self._start_next(job.key)
            return
        task = asyncio.get_running_loop().create_task(_contain(job, handler, args))
        task.add_done_callback(functools.partial(self._end_coroutine, job))

        def cancel(_: Future[Any]) -> None:
            if not task.done():
                self._coroutines.call(task.cancel)

        job.future.add_done_callback(cancel)

    def _end_coroutine(self, job: _Job, task: asyncio.Task[Any]) -> None:
        self._start_next(job.key)
        if task.cancelled():
            _settle(job.future, error=BridgeError("the handler was cancelled"))
        elif (error := task.exception()) is not None:
            _settle(job.future, error=error)
        else:
            _settle(job.future, task.result())


class _EventLoopThread:
    """Run an asyncio event loop in a daemon thread, from the first call on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def is_current(self) -> bool:
        return self._thread is threading.current_thread()

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in the loop, in the order of the calls; never once closed. From any thread."""
        with self._lock:
            if self._closed:
                return
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            self._loop.call_soon_threadsafe(function, *args)

    def close(self) -> None:
        with self._lock:
            if not self._closed and self._loop is not None:
                with suppress(RuntimeError):  # The loop has ended.
                    self._loop.call_soon_threadsafe(self._loop.stop)
            self._closed = True
        if self._thread is not None and not self.is_current():
            self._thread.join(_JOIN_S)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
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


class _Deadlines:
    """Futures with a time-out. Their event loop wakes for the earliest one: to add another costs no thread switch."""

    def __init__(self, loop: _EventLoopThread) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, Future[Any], Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._tidy_at = _TIDY
        self._wakes_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, future: Future[Any], timeout: float, expire: Callable[[], None]) -> None:
        at = time.monotonic() + timeout
        with self._lock:
            if len(self._heap) >= self._tidy_at:
                # Else results would stay in memory until their time is over.
                self._heap = [entry for entry in self._heap if not entry[2].done()]
                heapq.heapify(self._heap)
                self._tidy_at = max(_TIDY, 2 * len(self._heap))
            heapq.heappush(self._heap, (at, next(self._numbers), future, expire))
            is_earlier = at < self._wakes_at
            if is_earlier:
                self._wakes_at = at
        if is_earlier:
            self._loop.call(self._expire)

    def _expire(self) -> None:
        """Expire what is due, and set the timer to the next deadline; in the event loop."""
        due, loop = [], asyncio.get_running_loop()
        with self._lock:
            now = time.monotonic()
            while self._heap and (self._heap[0][0] <= now or self._heap[0][2].done()):
                due.append(heapq.heappop(self._heap))
            self._wakes_at = self._heap[0][0] if self._heap else math.inf
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._heap:
                self._timer = loop.call_later(self._wakes_at - now, self._expire)
        for _, _, future, expire in due:
            if not future.done():
                # A call of its own: one that raises keeps no other from expiring.
                loop.call_soon(expire)


class _ThreadPool:
    """Run functions in daemon threads, which end when idle.

    The interpreter waits at its exit for the threads of a ThreadPoolExecutor: a handler that is stuck would keep the
    process alive.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._changed = threading.Condition()
        self._calls: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def run(self, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function, which must not raise, in a thread as soon as one is free."""
        with self._changed:
            self._calls.append((function, argument))
            if self._idle >= len(self._calls):
                self._changed.notify()
            elif len(self._threads) < self._limit:
                thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._changed.notify_all()
            threads = tuple(self._threads)
        end = time.monotonic() + _JOIN_S
        for thread in threads:
            if thread is not threading.current_thread():
                # One that is stuck in a handler is left behind.
                thread.join(max(0.0, end - time.monotonic()))

    def _serve(self) -> None:
        while (call := self._next()) is not None:
            function, argument = call
            function(argument)
            # A reference here would keep a message alive until the next one comes.
            del call, function, argument

    def _next(self) -> tuple[Callable[[Any], None], Any] | None:
        """Return the next call; None where the thread is to end."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._calls or self._closed, _IDLE_S)
            self._idle -= 1
            if self._calls:
                return self._calls.popleft()
            self._threads.discard(threading.current_thread())
            return None


def is_coroutine_function(handler: Callable[..., Any]) -> bool:
    """Return whether calling `handler` gives a coroutine: also of partials, and of objects with an async __call__."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if inspect.iscoroutinefunction(handler):
        return True
    call = getattr(type(handler), "__call__", None)  # noqa: B004 - its kind matters, not whether it exists
    return inspect.iscoroutinefunction(call)


async def _contain(job: _Job, handler: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return await handler(*args)
    except (SystemExit, KeyboardInterrupt) as error:
        # asyncio would end the event loop of all handlers.
        _settle(job.future, error=error)


def _expire(job: _Job, error: BaseException) -> None:
    """Fail a job, and release what it holds: it may wait for long behind one that is stuck."""
    _settle(job.future, error=error)
    job.release()


def _settle(future: Future[Any], result: Any = None, *, error: BaseException | None = None) -> None:
    """End a future, unless it has ended before."""
    with suppress(InvalidStateError):
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

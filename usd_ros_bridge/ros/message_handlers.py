"""Messages to handlers, and from sources: beside the tick, one at a time, without ever waiting for either."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from rclpy.serialization import deserialize_message

from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.ros.domains import Report
from usd_ros_bridge.ros.handlers import Bound, Handlers
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.inbox import DEFAULT_DEPTH
from usd_ros_bridge.runtime.report import describe


class MessageFeed:
    """Gives the messages of one subscription to whoever handles it, in order.

    Attributes:
        errors: How often the handler raised.
        last_error: One line, "" where it never did.
        dropped: How many messages gave way to newer ones.
    """

    def __init__(
        self, path: str, message_class: Any, *, handlers: Handlers, workers: Workers, report: Report
    ) -> None:
        """Stores whose messages they are.

        Args:
            path: Prim path of the subscription.
            message_class: Class of its messages.
            handlers: Who handles them.
            workers: Where.
            report: For handlers that raise.
        """
        self.errors = 0
        self.last_error = ""
        self.dropped = 0
        self._path = path
        self._class = message_class
        self._handlers = handlers
        self._workers = workers
        self._report = report
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._busy = False

    @property
    def bound(self) -> Bound[Any] | None:
        """Who handles the messages."""
        return self._handlers.get("topic", self._path)

    def put(self, data: bytes) -> bool:
        """Takes a serialized message, from any thread; returns whether there is a handler for it."""
        if self.bound is None:
            return False
        with self._lock:
            full = len(self._waiting) >= DEFAULT_DEPTH
            if full:
                self._waiting.popleft()
            self._waiting.append(data)
            busy, self._busy = self._busy, True
        if full:
            self.dropped += 1
            self._report(
                f"message.dropped:{self._path}",
                f"{self._path}: messages come faster than they are handled: the oldest are dropped",
            )
        if not busy:
            self._next()
        return True

    def _next(self) -> None:
        with self._lock:
            bound = self.bound
            if bound is None:
                self._waiting.clear()
            if not self._waiting:
                self._busy = False
                return
            data = self._waiting.popleft()
        assert bound is not None
        try:
            message = deserialize_message(data, self._class)
        except Exception as error:  # noqa: BLE001 - the others are still to be handled
            self._fail(error)
            self._next()
            return
        future = self._workers.submit(f"message {self._path}", bound.handler, message)
        future.add_done_callback(self._finish)

    def _finish(self, future: Future[Any]) -> None:
        error = _error(future)
        if isinstance(error, BridgeError) and self._workers.closed:
            return
        if error is not None:
            self._fail(error)
        self._next()

    def _fail(self, error: BaseException) -> None:
        self.errors += 1
        self.last_error = describe(error)
        self._report(f"message.error:{self._path}", f"{self._path}: a message was lost: {self.last_error}")


class SourceFeed:
    """Asks the source of one publisher for messages and publishes them.

    Attributes:
        errors: How often it raised or returned something else.
        last_error: One line, "" where it never did.
        skipped: How often it was not done with the time before.
        published: How many messages were sent.
    """

    def __init__(
        self, path: str, message_class: Any, *, handlers: Handlers, workers: Workers, report: Report
    ) -> None:
        """Stores whose source it is.

        Args:
            path: Prim path of the publisher.
            message_class: Class of its messages.
            handlers: What its source is.
            workers: Where it runs.
            report: For sources that raise.
        """
        self.errors = 0
        self.last_error = ""
        self.skipped = 0
        self.published = 0
        self._path = path
        self._class = message_class
        self._handlers = handlers
        self._workers = workers
        self._report = report
        self._asked: Future[Any] | None = None

    @property
    def bound(self) -> Bound[Any] | None:
        """What the source is."""
        return self._handlers.get("topic", self._path)

    def ask(self, bound: Bound[Any], time_ns: int, publish: Callable[[Any], None]) -> bool:
        """Asks for a message, which `publish` gets in another thread; returns whether the source was free."""
        if self._asked is not None and not self._asked.done():
            self.skipped += 1
            self._report(
                f"source.slow:{self._path}",
                f"{self._path}: its source is slower than its rate: times are skipped",
            )
            return False
        self._asked = self._workers.submit(f"source {self._path}", bound.handler, time_ns)
        self._asked.add_done_callback(lambda future: self._finish(future, publish))
        return True

    def _finish(self, future: Future[Any], publish: Callable[[Any], None]) -> None:
        error = _error(future)
        if isinstance(error, BridgeError) and self._workers.closed:
            return
        if error is None:
            message = future.result()
            if message is None:
                return
            try:
                if not isinstance(message, self._class):
                    raise TypeError(
                        f"it returned {type(message).__name__} instead of {self._class.__name__} or None"
                    )
                publish(message)
            except Exception as unsendable:  # noqa: BLE001 - reported as what the source raises is
                error = unsendable
            else:
                self.published += 1
                return
        if self._workers.closed:
            # The publisher is gone, too.
            return
        self.errors += 1
        self.last_error = describe(error)
        self._report(f"source.error:{self._path}", f"{self._path}: its source failed: {self.last_error}")


def _error(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as cancelled:
        return cancelled

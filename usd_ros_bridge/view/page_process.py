"""Serve the page beside a bridge: a child process does it, so that it never delays a tick."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING

from usd_ros_bridge.child_process import end_of_child, start_child
from usd_ros_bridge.errors import BridgeError, escaped
from usd_ros_bridge.process_settings import SIGNAL_CHECK_S
from usd_ros_bridge.view.page_server import DEFAULT_HOST, DEFAULT_PORT, check_address
from usd_ros_bridge.web_requests import is_loopback

if TYPE_CHECKING:
    from usd_ros_bridge.options import NodeOptions
    from usd_ros_bridge.ros.bridge import Bridge
    from usd_ros_bridge.view.page import PageSettings
    from usd_ros_bridge.view.plan_follower import PlanSource

END_S = 10.0
"""Time that the page has for its end, seconds: a page that is killed leaves a robot driving.

It ends within some milliseconds, or after the picture that it draws: a loaded machine takes seconds for one.
"""
LAST_WORDS = 300
"""Characters of what a page that died wrote last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAddress:
    """Where the page is served.

    Attributes:
        host: Address to listen at.
        port: TCP port; 0 for any that is free.
        opens_browser: Open it in the user's browser.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    opens_browser: bool = False

    def check(self) -> None:
        """Check that the page can be served, before anything is started.

        Raises:
            BridgeError: viser is not installed, or the port is in use.
            OptionError: This machine has no such address.
        """
        check_address(self.host, self.port)


_FAULT = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Warning)?: ")
"""The last line of a traceback."""


class PageProcess:
    """The child process that serves the page, and what it says.

    Attributes:
        url: URL of the page, "" until it is served.
        ready: Set when the page shows the asset.
        ended: Set when the process has ended.
        failure: Why it has ended by itself, "" where it has not.
    """

    def __init__(
        self,
        settings: PageSettings,
        *,
        inform: Callable[[str], object],
        warn: Callable[[str], object],
        opens_browser: bool = False,
    ) -> None:
        """Store the arguments.

        Args:
            settings: For the child.
            inform: Log a line; from a thread.
            warn: Log a warning; from a thread.
            opens_browser: Open the page in the user's browser.
        """
        self.url = ""
        self.ready = threading.Event()
        self.ended = threading.Event()
        self.failure = ""
        self._settings = settings
        self._inform = inform
        self._warn = warn
        self._opens_browser = opens_browser
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._output = -1

    @property
    def process_id(self) -> int | None:
        """Return the id of the child process, None if there is none."""
        return None if self._process is None else self._process.pid

    def open(self) -> None:
        """Start the process. The page is there a second later, and its URL is logged then."""
        if not is_loopback(self._settings.host):
            self._warn(
                f"the page is served at {self._settings.host}: anyone who reaches that address can drive the robots"
            )
        ours, theirs = Pipe()
        self._output = os.memfd_create("usd_ros_bridge_page")
        try:
            self._process = start_child(
                "usd_ros_bridge.view.page:serve",
                theirs,
                stdin=subprocess.DEVNULL,
                # viser prints banners there.
                stdout=subprocess.DEVNULL,
                stderr=self._output,
            )
            ours.send(self._settings)
        except OSError as error:
            self._warn(f"the page cannot be started ({error.strerror})")
            ours.close()
            self.ended.set()
            return
        finally:
            theirs.close()
        self._connection = ours
        self._thread = threading.Thread(target=self._listen, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the page. Idempotent."""
        self._closing = True
        process, self._process = self._process, None
        if process is None:
            return
        # The page ends when its parent is gone; here, when it looks so.
        if self._connection is not None:
            _shut_down(self._connection)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._thread is not None:
            self._thread.join(END_S)
        with suppress(OSError):
            os.close(self._output)

    def _listen(self) -> None:
        from usd_ros_bridge.view.page import ADDRESS, FAILED, READY, WARN

        connection = self._connection
        assert connection is not None
        try:
            while True:
                kind, text = connection.recv()
                if kind == ADDRESS:
                    self.url = text
                    self._inform(f"page: {text}")
                    if self._opens_browser:
                        # Browsers of a terminal keep their caller waiting.
                        opener = partial(self._open_browser, text)
                        threading.Thread(target=opener, name="browser", daemon=True).start()
                elif kind == READY:
                    self.ready.set()
                elif kind == WARN:
                    self._warn(text)
                elif kind == FAILED:
                    self.failure = text
        except (EOFError, OSError):
            process = self._process
            if not self._closing and process is not None:
                how = end_of_child(process, wait_s=END_S)
                self.failure = self.failure or f"the page {how}{self._last_words()}"
                self._warn(self.failure)
        finally:
            connection.close()
            self.ended.set()

    def _open_browser(self, url: str) -> None:
        try:
            opened = webbrowser.open(url)
        except webbrowser.Error:
            opened = False
        if not opened and not self._closing:
            self._warn(f"no browser was found: open {url} yourself")

    def _last_words(self) -> str:
        """Return the last line that the process wrote, as the end of a sentence."""
        with suppress(OSError):
            size = os.fstat(self._output).st_size
            text = os.pread(self._output, 4096, max(size - 4096, 0)).decode(errors="replace")
            lines = text.strip().splitlines()
            # Some messages of rclpy have a second line, which points at the place of the fault.
            faults = [line for line in lines if _FAULT.match(line)]
            if lines:
                return f": {escaped((faults or lines)[-1][:LAST_WORDS])}"
        return ""


def _shut_down(connection: Connection) -> None:
    """End a connection in both directions, also while a thread reads from it."""
    import socket

    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def page_beside(address: PageAddress, options: NodeOptions, bridge: Bridge) -> Iterator[PageProcess]:
    """Serve the page of an open bridge for the duration of a `with` block: a companion of `run_node`.

    Args:
        address: Where.
        options: Options of the bridge's node.
        bridge: The bridge.
    """
    from usd_ros_bridge.backends.joint_states import DEFAULT_TOPIC
    from usd_ros_bridge.view.page import PageSettings
    from usd_ros_bridge.view.plan_follower import PlanSource

    node, logger = bridge.node, bridge.node.get_logger()
    shows_states = bridge.status().backend == "joint_states"
    topic = str(options.bridge.backend_options.get("topic", DEFAULT_TOPIC))
    settings = PageSettings(
        source=PlanSource(asset=options.asset, read=options.read, options=options.plan),
        host=address.host,
        port=address.port,
        bridge=node.get_fully_qualified_name(),
        domain_id=node.context.get_domain_id(),
        joint_source=topic if shows_states else "",
    )

    # One line of code for each severity: rclpy keeps one per calling line, and refuses another one there.
    def inform(text: str) -> None:
        logger.info(escaped(text))

    def warn(text: str) -> None:
        logger.warning(escaped(text))

    page = PageProcess(settings, inform=inform, warn=warn, opens_browser=address.opens_browser)
    page.open()
    try:
        yield page
    finally:
        page.close()


def show_page(address: PageAddress, source: PlanSource, *, bridge: str, domain_id: int | None = None) -> None:
    """Serve a page without a bridge in this process, until it ends or `KeyboardInterrupt`.

    Args:
        address: Where.
        source: What it shows.
        bridge: Fully qualified name of the node of a bridge that runs elsewhere.
        domain_id: Its domain, None for the process's.

    Raises:
        BridgeError: The page has ended by itself; why.
    """
    from usd_ros_bridge.view.page import PageSettings

    settings = PageSettings(
        source=source, host=address.host, port=address.port, bridge=bridge, domain_id=domain_id
    )

    def warn(text: str) -> None:
        if text == page.failure:
            # It is raised below.
            return
        print(f"usd_ros_bridge: {escaped(text)}", file=sys.stderr, flush=True)

    page = PageProcess(
        settings,
        inform=lambda text: print(text, flush=True),
        warn=warn,
        opens_browser=address.opens_browser,
    )
    page.open()
    try:
        while not page.ended.wait(SIGNAL_CHECK_S):
            pass
        raise BridgeError(page.failure or "the page has ended")
    finally:
        page.close()

"""Fixtures of the browser tests: Debian's chromium without a screen, a bridge with a page, pictures as arrays."""

from __future__ import annotations

import io
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from page_runs import CHROMIUM_FLAGS, PageRun
from usd_ros_bridge.options import PlanOptions, ReadOptions
from usd_ros_bridge.view.page import Page, PageSettings
from usd_ros_bridge.view.plan_follower import PlanSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The import mode "importlib" leaves sys.path alone, so the helpers beside this file would not be found.
sys.path.insert(0, str(Path(__file__).parent))

CHROMIUM = shutil.which("chromium")
SIZE = {"width": 640, "height": 400}
"""Of the window: WebGL is drawn by the processor here."""
WAIT_S = 90.0
STILL = 3
"""Largest difference of a channel between pictures that are the same."""
EQUAL_PICTURES = 3
EXPECTED_ERRORS = ("ERR_CONNECTION_REFUSED", "WebSocket connection", "Tried to update non-existent component")
"""What a browser says of a server that has gone, in tests that end one.

And of a component that is updated and then removed in one batch: viser's page applies updates last.
"""


class BrowserPage:
    """The page in a browser, with all that it asked for and said.

    Attributes:
        tab: Playwright's page.
        requests: URLs of all requests.
        errors: Console errors, and exceptions of scripts.
    """

    def __init__(self, tab: Any, url: str) -> None:
        self.tab = tab
        self.url = url
        self.requests: list[str] = []
        self.errors: list[str] = []
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("websocket", lambda socket: self.requests.append(socket.url))
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", self._keep_error)

    def _keep_error(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def open(self) -> None:
        """Load the page, and wait until it shows the asset."""
        self.tab.goto(self.url)
        self.text("Drive")
        # It covers the scene, and goes by itself after a while.
        notice = self.tab.locator(".mantine-Notification-root", has_text="Software WebGL")
        notice.locator("button").click(timeout=1000.0 * WAIT_S)
        notice.wait_for(state="hidden", timeout=1000.0 * WAIT_S)

    def text(self, text: str, *, timeout: float = WAIT_S) -> Any:
        """Wait until a text is on the page. Return its element."""
        found = self.tab.get_by_text(text).first
        found.wait_for(state="visible", timeout=1000.0 * timeout)
        return found

    def screen(self) -> NDArray[np.uint8]:
        """Return the page as (H, W, 3) red, green, blue."""
        from PIL import Image

        data = self.tab.screenshot(timeout=1000.0 * WAIT_S)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def picture(self) -> NDArray[np.uint8]:
        """Return the 3D scene: the page without the panel on its right."""
        return self.screen()[:, : SIZE["width"] // 2]

    @property
    def is_connected(self) -> bool:
        """Return whether the icon beside the title is a green cloud, and not three red dots."""
        icon = self.screen()[20:46, SIZE["width"] // 2 :][:, :32].astype(int)
        red, green = icon[..., 0], icon[..., 1]
        return int((green > red + 40).sum()) > int((red > green + 40).sum())

    def wait_until_connected(self, connected: bool) -> None:
        """Wait until the page shows a connection, or that it is lost."""
        self.wait_for_picture(lambda _: self.is_connected == connected, f"a connection: {connected}")

    def wait_for_picture(
        self, condition: Callable[[NDArray[np.uint8]], bool], what: str
    ) -> NDArray[np.uint8]:
        """Take pictures until one meets a condition. Return it."""
        end = time.monotonic() + WAIT_S
        while True:
            picture = self.picture()
            if condition(picture):
                return picture
            assert time.monotonic() < end, f"no picture shows {what}"
            self.tab.wait_for_timeout(200.0)

    def picture_at_rest(self) -> NDArray[np.uint8]:
        """Return a picture once three in a row are the same: the scene fades in, and robots take a moment to stop."""
        last, equal = self.picture(), 0

        def is_still(picture: NDArray[np.uint8]) -> bool:
            nonlocal last, equal
            change = np.abs(picture.astype(int) - last.astype(int)).max()
            last, equal = picture, equal + 1 if change <= STILL else 0
            return equal == EQUAL_PICTURES

        return self.wait_for_picture(is_still, "a scene at rest")

    @property
    def other_hosts(self) -> set[str]:
        """Return the hosts of all requests that did not go to the page's own."""
        hosts = {
            urlsplit(url.removeprefix("blob:")).netloc for url in self.requests if not url.startswith("data:")
        }
        return hosts - {urlsplit(self.url).netloc}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser without a screen."""
    playwright = pytest.importorskip("playwright.sync_api", reason="make test-browser installs playwright")
    if CHROMIUM is None:
        pytest.skip("chromium is missing (Debian: apt install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[[str], BrowserPage]]:
    """`open_page(url)`: the page in a tab of its own. At the end no other host was asked for anything."""
    opened: list[tuple[Any, BrowserPage]] = []

    def run(url: str) -> BrowserPage:
        context = chromium.new_context(viewport=SIZE)
        # Whatever is asked of another host fails, and is an error below.
        context.route(
            lambda asked: urlsplit(asked).hostname not in ("127.0.0.1", None), lambda route: route.abort()
        )
        page = BrowserPage(context.new_page(), url)
        opened.append((context, page))
        page.open()
        return page

    yield run
    for context, page in opened:
        context.close()
        assert not page.other_hosts, page.requests
        unexpected = [each for each in page.errors if not any(text in each for text in EXPECTED_ERRORS)]
        assert not unexpected


@pytest.fixture
def run_bridge() -> Iterator[Callable[..., PageRun]]:
    """`run_bridge("run", asset, "--view", ...)`: a bridge with a page in processes of their own."""
    runs: list[PageRun] = []

    def run(*arguments: str | Path, port: int = 0) -> PageRun:
        runs.append(PageRun(*arguments, port=port))
        return runs[-1]

    yield run
    for each in runs:
        each.close()


class NoParent:
    """In place of the process that starts a page."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.on_end: Callable[[], None] = lambda: None
        self.told: list[tuple[str, str]] = []

    def tell(self, kind: str, text: str) -> None:
        self.told.append((kind, text))


@pytest.fixture
def own_page() -> Iterator[Callable[..., tuple[Page, str]]]:
    """`own_page(asset, bridge=NODE)`: a page in a thread of the test, and its URL."""
    running: list[tuple[Page, NoParent, threading.Thread]] = []

    def run(asset: Path, *, bridge: str = "/nobody") -> tuple[Page, str]:
        source = PlanSource(asset=str(asset), read=ReadOptions(), options=PlanOptions())
        settings = PageSettings(source=source, host="127.0.0.1", port=0, bridge=bridge)
        parent = NoParent()
        page = Page(settings, parent)
        page.open()
        thread = threading.Thread(target=page.run)
        thread.start()
        running.append((page, parent, thread))
        return page, dict(parent.told)["address"]

    yield run
    for page, parent, thread in running:
        parent.gone.set()
        parent.on_end()
        thread.join(10.0)
        page.close()

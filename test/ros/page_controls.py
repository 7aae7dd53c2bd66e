"""A page without a browser: a real viser server, whose GUI handles a test moves as a browser would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import viser

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.page_component import TABS, PageContext
from usd_ros_bridge.view.tf_poses import FramePoses


class _Gui:
    """viser's GUI, which remembers the handles that it returned."""

    def __init__(self, gui: Any) -> None:
        self.handles: list[Any] = []
        self._gui = gui

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._gui, name)
        if not name.startswith("add_"):
            return method

        def add(*arguments: Any, **options: Any) -> Any:
            handle = method(*arguments, **options)
            self.handles.append(handle)
            return handle

        return add


class _Browser:
    """What a component sees of a browser: it takes notifications."""

    def __init__(self) -> None:
        self.notices: list[tuple[str, str]] = []

    def add_notification(self, *, title: str, body: str, **_: Any) -> None:
        self.notices.append((title, body))


class _Server:
    def __init__(self, server: Any, clients: dict[int, Any]) -> None:
        self.gui = _Gui(server.gui)
        self.clients = clients

    def get_clients(self) -> dict[int, Any]:
        return dict(self.clients)


class ControlPage:
    """Components on a page, updated while the test waits."""

    def __init__(
        self, components: tuple[Any, ...], server: _Server, graph: GraphClient, harness: Any
    ) -> None:
        self.components = components
        self.graph = graph
        self.server = server
        self.faults: list[tuple[str, str]] = []
        self.browser = _Browser()
        server.clients[0] = self.browser
        self._harness = harness

    def handle(self, label: str, folder: str = "") -> Any:
        """Return the newest handle with a label; of a slider, the name before its unit or measurement is enough.

        Args:
            label: The label.
            folder: Look only at what was added with the newest folder of this label.
        """
        handles = self._within(folder) if folder else self.server.gui.handles
        labels = [str(getattr(each, "label", "")) for each in handles]
        found = [
            each
            for each, text in zip(handles, labels, strict=True)
            if text == label or text.startswith(f"{label} [")
        ]
        assert found, labels
        return found[-1]

    def click(self, label: str, folder: str = "") -> None:
        """Press a button as a browser does."""
        self.handle(label, folder).value = True

    def _within(self, folder: str) -> list[Any]:
        handles = self.server.gui.handles
        kind = viser.GuiFolderHandle
        starts = [
            index for index, each in enumerate(handles) if isinstance(each, kind) and each.label is not None
        ]
        begin = max(index for index in starts if handles[index].label == folder)
        end = min((index for index in starts if index > begin), default=len(handles))
        return handles[begin + 1 : end]

    def folders(self) -> list[str]:
        """Return the labels of all folders that were added."""
        kind = viser.GuiFolderHandle
        return [each.label for each in self.server.gui.handles if isinstance(each, kind) and each.label]

    def texts(self) -> list[str]:
        """Return all Markdown that is shown, without escapes."""
        kind = viser.GuiMarkdownHandle
        return [each.content.replace("\\", "") for each in self.server.gui.handles if isinstance(each, kind)]

    def says(self, text: str) -> bool:
        """Return whether some line of the page has a text."""
        return any(text in each for each in self.texts())

    def shows(self, text: str) -> bool:
        """Return whether some line of the page that is visible has a text."""
        kind = viser.GuiMarkdownHandle
        lines = [each for each in self.server.gui.handles if isinstance(each, kind) and each.visible]
        return any(text in each.content.replace("\\", "") for each in lines)

    def is_heard(self, topic: str, by: int = 1) -> bool:
        """Return whether the page's publisher of a topic knows so many subscriptions: each gets what it sends."""
        publishers = [each for each in self.graph.node().publishers if each.topic_name == topic]
        return bool(publishers) and all(each.get_subscription_count() >= by for each in publishers)

    def update(self) -> None:
        """Do what the page's thread does 30 times a second."""
        for each in self.components:
            each.update()

    def wait_for(self, condition: Callable[[], bool], *, timeout: float = 20.0, what: str = "") -> None:
        """Update the page until a condition holds."""

        def check() -> bool:
            self.update()
            return condition()

        self._harness.wait_for(check, timeout=timeout, what=what)


@contextmanager
def control_page(
    plan: BridgePlan,
    harness: Any,
    *components: Any,
    bridge: str = "/usd_ros_bridge",
    drives: bool = True,
    joint_source: str = "",
) -> Iterator[ControlPage]:
    """Open components for a plan, as the page does when a browser connects, and close them."""
    faults: list[tuple[str, str]] = []
    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    graph = GraphClient(report=lambda kind, text: faults.append((kind, text))).open()
    recorded = _Server(server, {})
    page = ControlPage(components, recorded, graph, harness)
    page.faults = faults
    try:
        group = server.gui.add_tab_group()
        context = PageContext(
            server=recorded,
            plan=plan,
            graph=graph,
            frames=FramePoses(plan),
            bridge=bridge,
            drives=drives,
            report=lambda kind, text: faults.append((kind, text)),
            tabs={label: group.add_tab(label) for label in TABS},
            nodes=None,
            joint_source=joint_source,
        )
        for each in components:
            each.open(context)
        for each in components:
            each.resume()
        yield page
    finally:
        for each in components:
            each.pause()
            each.close()
            each.close()
        graph.close()
        server.stop()

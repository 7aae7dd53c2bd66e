"""The page: a process of its own that serves it, and what its components share from plan to plan."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.process_settings import tune_process
from usd_ros_bridge.reporting import OnceReporter, describe
from usd_ros_bridge.view.bridge_monitor import BridgeMonitor
from usd_ros_bridge.view.drive_controls import DriveControls
from usd_ros_bridge.view.frame_nodes import FrameNodes
from usd_ros_bridge.view.frame_tree import FrameTreePanel
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.page_component import TABS, Layers, PageComponent, PageContext, Picks
from usd_ros_bridge.view.page_server import open_server, page_url
from usd_ros_bridge.view.plan_follower import PlanFollower, PlanSource
from usd_ros_bridge.view.scene import SceneMeshes
from usd_ros_bridge.view.selection import Selection
from usd_ros_bridge.view.sensor_layers import SensorLayers
from usd_ros_bridge.view.simulation_controls import SimulationControls
from usd_ros_bridge.view.tf_poses import FramePoses
from usd_ros_bridge.view.variant_controls import VariantControls
from usd_ros_bridge.view.world import WorldMeshes

COMPONENTS: tuple[Callable[[], PageComponent], ...] = (
    SceneMeshes,
    WorldMeshes,
    FrameTreePanel,
    Selection,
    SensorLayers,
    DriveControls,
    SimulationControls,
    VariantControls,
)
"""Parts of the page, in the order in which their elements appear."""

PERIOD_S = 1.0 / 30.0
"""Least time between two updates, seconds."""
SHARE = 0.75
"""Most of a processor that updates take: the rest is for sending them."""
CLOSE_S = 0.8
"""Time that the page has for its end, seconds."""

# What the page tells the process that started it.
ADDRESS, READY, WARN, FAILED = "address", "ready", "warn", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """What a page process is started with.

    Attributes:
        source: What it shows.
        host: Address to listen at.
        port: TCP port; 0 for any that is free.
        bridge: Fully qualified name of the bridge's node.
        domain_id: Domain of the bridge.
        drives: Whether it may command.
        joint_source: See PageContext.
    """

    source: PlanSource
    host: str
    port: int
    bridge: str
    domain_id: int | None = None
    drives: bool = True
    joint_source: str = ""


def serve(descriptor: int) -> None:
    """Run the page in this process until its parent ends.

    Args:
        descriptor: Of a connection to the parent, on which it sends PageSettings.
    """
    # The parent ends the page, which stops its robots then: signals of a terminal or a service manager reach both.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(descriptor)
    try:
        settings = connection.recv()
    except EOFError:
        return
    parent = _Parent(connection)
    parent.watch()
    # This process is the page's own.
    tune_process()
    status = 0
    try:
        page = Page(settings, parent)
        page.open()
        try:
            page.run()
        finally:
            page.close()
    except BridgeError as error:
        parent.tell(FAILED, str(error))
        status = 1
    # Threads of viser's pool may still wait for something.
    sys.stderr.flush()
    os._exit(status)


class _Parent:
    """The process that started this one.

    Attributes:
        gone: Set when it has ended, or closed its end of the connection.
    """

    def __init__(self, connection: Connection) -> None:
        self.gone = threading.Event()
        self.on_end: Callable[[], None] = lambda: None
        self._connection = connection
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Set `gone` when the parent is; and end this process a little later, whatever it does."""
        threading.Thread(target=self._watch, name="parent", daemon=True).start()

    def tell(self, kind: str, text: str) -> None:
        """Send a message; one that nobody receives is lost."""
        with self._lock, suppress(OSError):
            self._connection.send((kind, text))

    def _watch(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._connection.recv()
        self.gone.set()
        self.on_end()
        time.sleep(CLOSE_S)
        os._exit(0)


class Page:
    """Server, ROS 2 client and components of the page.

    Attributes:
        server: viser's server, None before `open`.
        layers: What is shown.
        hidden_robots: Indices of robots that are not.
    """

    def __init__(
        self,
        settings: PageSettings,
        parent: _Parent,
        *,
        components: Sequence[Callable[[], PageComponent]] = COMPONENTS,
    ) -> None:
        """Store the arguments; `open` serves the page."""
        self._settings = settings
        self._parent = parent
        self._report = OnceReporter(lambda _kind, message: parent.tell(WARN, message))
        self._kinds = tuple(components)
        self._graph = GraphClient(domain_id=settings.domain_id, report=self._report)
        self._monitor = BridgeMonitor(self._graph, settings.bridge)
        self._follower = PlanFollower(self._graph, settings.bridge, settings.source, report=self._report)
        self.layers, self._picks = Layers(), Picks()
        self.server: Any = None
        self.hidden_robots: set[int] = set()
        self._status: Any = None
        self._status_text = ""
        self._group: Any = None
        self._running: RunningComponents | None = None
        self._resumed = False
        self._wake = threading.Event()
        parent.on_end = self._wake.set

    def open(self) -> None:
        """Serve the page, and show the asset.

        Raises:
            BridgeError: The port is in use, or the asset cannot be planned.
        """
        settings = self._settings
        self.server = server = open_server(settings.host, settings.port, label="usd_ros_bridge")
        server.on_client_connect(self._client_changed)
        server.on_client_disconnect(self._client_changed)
        self._status = server.gui.add_markdown("", order=-1.0, visible=False)
        self._say("loading the asset")
        self._parent.tell(ADDRESS, page_url(settings.host, server.get_port()))
        plan = settings.source.load()
        self._graph.open()
        self._show(plan)
        # A search of all of it, now and then, would hold up a picture.
        gc.freeze()
        self._say("")
        self._parent.tell(READY, "")

    def run(self) -> None:
        """Update the page while browsers are connected, until the parent is gone."""
        while not self._parent.gone.is_set():
            self._follow_clients()
            if not self._resumed:
                self._wake.wait()
                self._wake.clear()
                continue
            began, used = time.monotonic(), time.thread_time()
            plan = self._follower.take()
            if plan is not None:
                self._show(plan)
            self._update()
            used = time.thread_time() - used
            self._parent.gone.wait(
                max(PERIOD_S - (time.monotonic() - began), used * (1.0 / SHARE - 1.0), 0.001)
            )

    def close(self) -> None:
        """End everything. Idempotent. The scene stays: browsers keep the last picture."""
        self._pause()
        self._graph.close()
        if self.server is not None:
            self.server.stop()

    # --- Browsers ---

    def _client_changed(self, _: Any) -> None:
        self._wake.set()

    def _follow_clients(self) -> None:
        """Subscribe while a browser is connected, and not otherwise."""
        connected = bool(self.server.get_clients())
        if connected and not self._resumed:
            self._resumed = True
            self._follower.resume()
            self._monitor.resume()
            if self._running is not None:
                self._running.resume()
        elif not connected and self._resumed:
            self._pause()

    def _pause(self) -> None:
        if self._resumed:
            self._resumed = False
            # First what drives a robot: nothing may delay its stop.
            if self._running is not None:
                self._running.pause()
            self._follower.pause()
            self._monitor.pause()

    # --- Plans ---

    def _show(self, plan: BridgePlan) -> None:
        """Replace the components by those of a plan."""
        old, server = self._running, self.server
        with server.atomic():
            if old is not None:
                old.close()
            if self._group is not None:
                self._group.remove()
            self.layers.clear()
            self._picks.clear()
            self._group = server.gui.add_tab_group()
            tabs = {label: self._group.add_tab(label) for label in TABS}
            frames = FramePoses(plan)
            context = PageContext(
                server=server,
                plan=plan,
                graph=self._graph,
                frames=frames,
                bridge=self._settings.bridge,
                drives=self._settings.drives,
                report=self._report,
                tabs=tabs,
                nodes=FrameNodes(server, plan, frames),
                layers=self.layers,
                picks=self._picks,
                joint_source=self._settings.joint_source,
                hidden_robots=self.hidden_robots,
            )
            self._running = RunningComponents(context, self._kinds)
            self._running.open()
            if self._resumed:
                self._running.resume()

    def _update(self) -> None:
        running = self._running
        if running is not None:
            running.update()
            self.server.flush()
            self._say(self._monitor.fault(running.context.frames.heard_s))

    def _say(self, text: str) -> None:
        """Show a line above everything else, "" for none."""
        if text != self._status_text:
            self._status_text = text
            self._status.content = f"**{text}**"
            self._status.visible = bool(text)


class RunningComponents:
    """The components of one plan. One that raises is reported, and ends alone."""

    def __init__(self, context: PageContext, kinds: Sequence[Callable[[], PageComponent]]) -> None:
        """Make the components.

        Args:
            context: What they share.
            kinds: What makes each.
        """
        self.context = context
        self._components: list[PageComponent] = []
        self._kinds = kinds

    def open(self) -> None:
        """Open all."""
        for kind in self._kinds:
            component = kind()
            self._components.append(component)
            self._call(component, "open", self.context)

    def resume(self) -> None:
        """Subscribe to transforms, and resume all."""
        self.context.frames.resume(self.context.graph)
        self._each("resume")

    def update(self) -> None:
        """Take transforms, and update all."""
        self.context.frames.update()
        # Nothing is sent within such a block: a long one would hold up the picture before this one.
        with self.context.server.atomic():
            self.context.nodes.update()
            self._each("update")

    def pause(self) -> None:
        """Pause all, and unsubscribe."""
        self._each("pause")
        self.context.frames.pause()

    def close(self) -> None:
        """Close all, the last one first. Idempotent."""
        self._components.reverse()
        self.pause()
        self._each("close")
        self._components.clear()
        self.context.nodes.close()

    def _each(self, method: str) -> None:
        for component in tuple(self._components):
            self._call(component, method)

    def _call(self, component: PageComponent, method: str, *arguments: object) -> None:
        try:
            getattr(component, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - the other components go on
            self._components = [each for each in self._components if each is not component]
            name = type(component).__name__
            self.context.report(f"view.component:{name}", f"the page's {name} is off: {describe(error)}")
            if method != "close":
                with suppress(Exception):
                    component.close()

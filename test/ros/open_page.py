"""A page without a browser, in this process: components whose scene a test looks at through viser's handles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.view.frame_nodes import FrameNodes
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.page import RunningComponents
from usd_ros_bridge.view.page_component import TABS, PageComponent, PageContext
from usd_ros_bridge.view.page_server import open_server
from usd_ros_bridge.view.tf_poses import FramePoses


class OpenPage:
    """Components of a plan on a server of their own; `resume` does what the first browser does."""

    def __init__(
        self, plan: BridgePlan, domain_id: int, kinds: Sequence[Callable[[], PageComponent]]
    ) -> None:
        """Store the arguments, and open."""
        self.reports: list[tuple[str, str]] = []
        self.server = open_server("127.0.0.1", 0, label="test")
        self.graph = GraphClient(domain_id=domain_id, report=self._report).open()
        frames = FramePoses(plan)
        group = self.server.gui.add_tab_group()
        self.context = PageContext(
            server=self.server,
            plan=plan,
            graph=self.graph,
            frames=frames,
            bridge="/usd_ros_bridge",
            drives=True,
            report=self._report,
            tabs={label: group.add_tab(label) for label in TABS},
            nodes=FrameNodes(self.server, plan, frames),
        )
        self.components = RunningComponents(self.context, kinds)
        self.components.open()

    def _report(self, kind: str, message: str) -> None:
        self.reports.append((kind, message))

    def resume(self) -> None:
        """Subscribe."""
        self.components.resume()

    def refresh(self) -> None:
        """Update the components, as the page does 30 times a second."""
        self.components.update()

    def pause(self) -> None:
        """Unsubscribe."""
        self.components.pause()

    def switch(self, topic: str, on: bool = True) -> None:
        """Switch the layer of a topic, as its check box does."""
        (name,) = [each for each in self.context.layers.all if each.endswith(f":{topic}")]
        self.context.layers.set(name, on)

    def node(self, name: str) -> Any:
        """Return the handle of a scene node, None if there is none."""
        return self.server.scene.get_handle_by_name(name)

    def wait_for(self, condition: Callable[[], Any], *, timeout: float = 60.0, what: str = "") -> Any:
        """Refresh the page until the condition holds; return what it gave."""
        deadline = time.monotonic() + timeout
        while not (found := condition()):
            assert time.monotonic() < deadline, (
                f"waited {timeout:g} s for {what or condition}: {self.reports}"
            )
            self.refresh()
            time.sleep(0.01)
        return found

    def close(self) -> None:
        """End everything."""
        self.components.close()
        self.graph.close()
        self.server.stop()

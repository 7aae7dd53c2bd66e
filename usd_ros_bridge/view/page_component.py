"""Components of the page: each shows or drives one kind of thing, and is made anew for every plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.view.frame_poses import FramePoses
from usd_ros_bridge.view.graph_client import GraphClient

if TYPE_CHECKING:
    import viser


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """What the components of a page share.

    Attributes:
        server: The page's server. Scene and GUI may be changed from any thread.
        plan: The plan of the asset that runs, with `plan.physics`.
        graph: The ROS 2 client.
        frames: Poses of all frames, from /tf and /tf_static, as a client has them.
        bridge: Fully qualified name of the bridge's node, as `/usd_ros_bridge`.
        drives: Whether the page may command; else it only shows.
        report: Show a fault `(kind, message)`, each kind once.
    """

    server: viser.ViserServer
    plan: BridgePlan
    graph: GraphClient
    frames: FramePoses
    bridge: str
    drives: bool
    report: Report


class PageComponent(Protocol):
    """A part of the page.

    A component is made when the page opens and whenever the plan has changed. While no browser is connected, a
    component has no subscriptions: `open` and `close` make the scene and the GUI, `resume` and `pause` the
    subscriptions.
    """

    def open(self, context: PageContext) -> None:
        """Add its part of the scene and of the GUI."""

    def resume(self) -> None:
        """Subscribe: the first browser has connected."""

    def update(self) -> None:
        """Show what has changed since the last call; at most 30 times a second, in the page's thread."""

    def pause(self) -> None:
        """Unsubscribe: the last browser has gone."""

    def close(self) -> None:
        """Remove its part of the scene and of the GUI. Idempotent, also after a failed `open`."""

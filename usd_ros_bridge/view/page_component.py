"""Components of the page: each shows or drives one kind of thing, and is made again for every plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.tf_poses import FramePoses

if TYPE_CHECKING:
    import viser

    from usd_ros_bridge.view.frame_nodes import FrameNodes

TABS = ("Drive", "Show", "Simulation")
"""Labels of the page's tabs, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """Something that was clicked.

    Attributes:
        robot: Index in `plan.robots`, -1 for the world.
        frame: Id of the frame that carries it, "" for the world.
        path: Prim path.
    """

    robot: int
    frame: str
    path: str


@dataclass(slots=True)
class Layer:
    """What is shown or hidden together.

    Attributes:
        label: Text for people.
        show: Show it (True) or hide it.
        visible: Whether it is shown.
    """

    label: str
    show: Callable[[bool], None]
    visible: bool


class Layers:
    """What the page shows, by name: components add theirs when they open, the tab "Show" switches them."""

    def __init__(self) -> None:
        self.all: dict[str, Layer] = {}
        self._chosen: dict[str, bool] = {}

    def add(self, name: str, label: str, show: Callable[[bool], None], *, visible: bool = True) -> None:
        """Add a layer, and show or hide it as the user chose for the plan before this one.

        Args:
            name: Unique name, as `meshes`.
            label: Text for people.
            show: Called with the visibility, now and when it changes.
            visible: Visibility at first.
        """
        shown = self._chosen.get(name, visible)
        self.all[name] = Layer(label, show, shown)
        show(shown)

    def set(self, name: str, visible: bool) -> None:
        """Show or hide a layer. The choice stays when the plan changes."""
        self._chosen[name] = visible
        layer = self.all.get(name)
        if layer is not None:
            layer.visible = visible
            layer.show(visible)

    def clear(self) -> None:
        """Forget the layers of a plan, and not what the user chose."""
        self.all.clear()


class Picks:
    """Clicks in the scene: what shows something notifies, what shows its properties listens."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Picked], object]] = []

    def listen(self, listener: Callable[[Picked], object]) -> None:
        """Call `listener` with each click, in a thread of the server."""
        self._listeners.append(listener)

    def notify(self, picked: Picked) -> None:
        """Notify the listeners."""
        for listener in tuple(self._listeners):
            listener(picked)

    def clear(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()


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
        tabs: The page's tabs by their label, see `TABS`: `with context.tabs["Drive"]: ...`.
        nodes: Scene nodes that follow frames: what is added below one moves with its frame.
        layers: What is shown and hidden.
        picks: Clicks on robots and the world.
        joint_source: Topic, relative to each robot's namespace or absolute, on which the bridge takes the joint states
            that it shows (backend `joint_states`): a JointState there moves the joints. "" for any other backend.
        hidden_robots: Indices in `plan.robots` of robots that are not shown; `SceneMeshes` follows it.
    """

    server: viser.ViserServer
    plan: BridgePlan
    graph: GraphClient
    frames: FramePoses
    bridge: str
    drives: bool
    report: Report
    tabs: Mapping[str, Any]
    nodes: FrameNodes
    layers: Layers = field(default_factory=Layers)
    picks: Picks = field(default_factory=Picks)
    joint_source: str = ""
    hidden_robots: set[int] = field(default_factory=set)


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

"""Sensor layers: a check box for each layer of the page, a subscription for each that is on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from usd_ros_bridge.model.message_types import FOLLOW_JOINT_TRAJECTORY
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.view.display_layers import DisplayLayer, LayerKind, display_layers
from usd_ros_bridge.view.frame_nodes import robot_names
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.header_frames import HeaderFrames
from usd_ros_bridge.view.layer_drawings import DRAWINGS, DrawingContext, LayerDrawing
from usd_ros_bridge.view.layer_panels import PicturePanel, ValuesPanel
from usd_ros_bridge.view.page_component import PageContext
from usd_ros_bridge.view.page_text import facts
from usd_ros_bridge.view.point_clouds import UndrawableMessageError

PERIODS_S: Final[dict[LayerKind, float]] = {"image": 1.0 / 15.0, "cloud": 0.1, "camera": 0.1, "values": 0.25}
"""Least time between two drawings of a layer, seconds; of other kinds, each refresh draws."""
STATUS_PERIOD_S = 1.0
MAX_BOXES = 100
"""Check boxes of one robot."""
NO_MESSAGE_S = 2.0
"""Time after which a layer without messages says so, seconds."""
OTHERS = "other interfaces"
LAYERS_ORDER = 1.0
PANELS: Final[tuple[tuple[LayerKind, str, float], ...]] = (
    ("image", "Pictures", 2.0),
    ("values", "Values", 3.0),
)
"""Folders of the panel: what is in them, their label, and their place in the tab."""


class NewestMessage:
    """The newest message of a subscription, as bytes: what is never shown is never decoded."""

    def __init__(self, message_class: Any) -> None:
        """Args: message_class: Class of the messages."""
        self._class = message_class
        self._data: bytes | None = None
        self._count = 0

    def __call__(self, data: bytes) -> None:
        """Store a message; called in the thread of the domain."""
        self._data = data
        self._count += 1

    @property
    def count(self) -> int:
        """Return how many messages have arrived."""
        return self._count

    def take(self) -> Any:
        """Return the newest message if it was not taken before, else None."""
        from rclpy.serialization import deserialize_message

        data, self._data = self._data, None
        return None if data is None else deserialize_message(data, self._class)


@dataclass(slots=True, eq=False)
class _ActiveLayer:
    """A layer that is on, or was.

    Attributes:
        layer: The layer.
        on: Its check box.
        drawing: Its drawing while it is on and a browser is there.
        newest: Its newest message; None for a layer without a topic.
        subscription: To be destroyed.
        due_s: Time of the next drawing.
        note: What to say about it.
        fault: Why it cannot be shown, "" if it can.
        counted: Messages at the last status, at `counted_s`.
    """

    layer: DisplayLayer
    on: bool = False
    drawing: LayerDrawing | None = None
    newest: NewestMessage | None = None
    subscription: Any = None
    due_s: float = 0.0
    note: str = ""
    fault: str = ""
    counted: int = 0
    counted_s: float = 0.0
    hertz: float = 0.0


class SensorLayers:
    """The component of the tab "Show" that switches layers and draws those that are on."""

    def __init__(self) -> None:
        """Know no layers yet."""
        self._context: PageContext | None = None
        self._drawing: DrawingContext | None = None
        self._layers: list[_ActiveLayer] = []
        self._names: dict[int, str] = {}
        self._on: list[_ActiveLayer] = []
        self._switched = False
        self._subscribed = False
        self._handles: list[Any] = []
        self._lock = threading.Lock()
        self._boxes: list[Any] = []
        self._box_folder: Any = None
        self._folders: dict[LayerKind, Any] = {}
        self._status: Any = None
        self._status_s = 0.0

    # --- Life cycle ---

    def open(self, context: PageContext) -> None:
        """Add the check boxes of all layers that the page has, and the panels."""
        self._context = context
        self._drawing = DrawingContext(
            server=context.server, plan=context.plan, headers=HeaderFrames(context.plan, context.frames)
        )
        others = tuple(context.layers.all)
        for layer in display_layers(context.plan):
            active = _ActiveLayer(layer)
            self._layers.append(active)
            context.layers.add(layer.key, layer.label, self._switch(active), visible=layer.shown)
        gui = context.server.gui
        with context.tabs["Show"]:
            folder = gui.add_folder("Layers", order=LAYERS_ORDER)
            self._handles.append(folder)
            with folder:
                for name in others:
                    self._add_box(name, "")
                self._add_robots()
                self._status = gui.add_html("")
            kinds = {each.layer.kind for each in self._layers}
            for kind, label, order in PANELS:
                if kind in kinds:
                    self._folders[kind] = gui.add_folder(label, order=order, visible=False)
                    self._handles.append(self._folders[kind])

    def resume(self) -> None:
        """Subscribe to the layers that are on, from the next update on."""
        self._subscribed = self._switched = True

    def update(self) -> None:
        """Draw the newest message of each layer that is on."""
        if self._context is None or not self._subscribed:
            return
        now = time.monotonic()
        if self._switched:
            self._switched = False
            self._start_and_stop(now)
        for active in self._on:
            if active.drawing is not None:
                self._draw(active, active.drawing, now)
        if now - self._status_s >= STATUS_PERIOD_S:
            self._status_s = now
            self._show_status(now)

    def pause(self) -> None:
        """Unsubscribe. What was drawn is removed: it would be old when a browser comes back."""
        self._subscribed = False
        for active in self._on:
            self._stop(active)
        self._on.clear()

    def close(self) -> None:
        """Remove everything. Idempotent."""
        self.pause()
        for handle in reversed(self._handles):
            handle.remove()
        self._handles.clear()
        self._boxes.clear()
        self._folders.clear()
        self._layers.clear()
        self._context = None

    # --- Check boxes ---

    def _add_robots(self) -> None:
        """Add the check boxes of one robot's layers, and a choice of the robot where several have some."""
        assert self._context is not None
        names = dict(enumerate(robot_names(self._context.plan)))
        self._names = names if len(names) > 1 else {}
        robots = list(dict.fromkeys(each.layer.robot for each in self._layers))
        labels = {names.get(robot, OTHERS): robot for robot in robots}
        gui = self._context.server.gui
        if len(labels) > 1:
            choice = gui.add_dropdown("robot", tuple(labels), hint="whose layers are listed below")
            choice.on_update(lambda _: self._list_robot(labels.get(choice.value, robots[0])))
        self._box_folder = gui.add_folder(None)
        if robots:
            self._list_robot(robots[0])

    def _list_robot(self, robot: int) -> None:
        """Replace the check boxes by those of a robot; called from threads of the server, too."""
        with self._lock, self._box_folder:
            for box in self._boxes:
                box.remove()
            self._boxes.clear()
            for active in [each for each in self._layers if each.layer.robot == robot][:MAX_BOXES]:
                self._boxes.append(self._add_box(active.layer.key, active.layer.hint))

    def _add_box(self, name: str, hint: str) -> Any:
        """Add the check box of a layer of the page, by its name."""
        assert self._context is not None
        layers = self._context.layers
        layer = layers.all[name]
        box = self._context.server.gui.add_checkbox(layer.label, layer.visible, hint=hint or None)
        box.on_update(lambda _: layers.set(name, bool(box.value)))
        return box

    def _switch(self, active: _ActiveLayer) -> Callable[[bool], None]:
        """Return the function that the page calls with the state of a check box; the next update does the work."""

        def show(visible: bool) -> None:
            active.on = visible
            self._switched = True

        return show

    # --- Drawing ---

    def _start_and_stop(self, now: float) -> None:
        """Start layers that were switched on, and stop those that were switched off."""
        for active in self._on:
            if not active.on:
                self._stop(active)
        self._on = [active for active in self._layers if active.on]
        for active in self._on:
            if active.drawing is None and not active.fault:
                self._start(active, now)
        for kind, folder in self._folders.items():
            folder.visible = any(active.layer.kind == kind for active in self._on)

    def _start(self, active: _ActiveLayer, now: float) -> None:
        assert self._context is not None
        assert self._drawing is not None
        layer = active.layer
        active.note, active.hertz, active.counted, active.counted_s = "", 0.0, 0, now
        try:
            active.drawing = self._make_drawing(layer, self._drawing)
            if layer.topic:
                active.newest, active.subscription = _subscribe(self._context.graph, layer)
        except Exception as error:  # noqa: BLE001 - one layer must not take the others along
            self._stop(active)
            active.fault = describe(error)
            self._context.report(f"view.layer:{layer.path}", f"{layer.label} cannot be shown: {active.fault}")

    def _make_drawing(self, layer: DisplayLayer, context: DrawingContext) -> LayerDrawing:
        if layer.kind == "image":
            return PicturePanel(layer, context, self._folders["image"])
        if layer.kind == "values":
            return ValuesPanel(layer, context, self._folders["values"])
        return DRAWINGS[layer.kind](layer, context)

    def _draw(self, active: _ActiveLayer, drawing: LayerDrawing, now: float) -> None:
        assert self._context is not None
        try:
            drawing.follow()
            if active.newest is None or now < active.due_s:
                return
            message = active.newest.take()
            if message is None:
                return
            active.due_s = now + PERIODS_S.get(active.layer.kind, 0.0)
            active.note = drawing.draw(message)
        except UndrawableMessageError as error:
            active.note = str(error)
        except Exception as error:  # noqa: BLE001 - one layer must not take the others along
            active.note = describe(error)
            self._context.report(
                f"view.layer:{active.layer.path}", f"{active.layer.label} cannot be shown: {active.note}"
            )

    def _stop(self, active: _ActiveLayer) -> None:
        """Unsubscribe and remove the drawing. Idempotent."""
        subscription, active.subscription = active.subscription, None
        drawing, active.drawing = active.drawing, None
        active.newest, active.fault, active.note = None, "", ""
        if subscription is not None and self._context is not None:
            self._context.graph.destroy(subscription)
        if drawing is not None:
            drawing.close()

    def _show_status(self, now: float) -> None:
        rows = [
            (self._name(active.layer), active.fault or self._rate_and_note(active, now))
            for active in self._on[:MAX_BOXES]
        ]
        if len(self._on) > MAX_BOXES:
            rows.append(("...", f"{len(self._on) - MAX_BOXES} more"))
        self._status.content = facts(rows)

    def _name(self, layer: DisplayLayer) -> str:
        """Return the label of a layer, with its robot where there are several."""
        return f"{self._names[layer.robot]}: {layer.label}" if layer.robot in self._names else layer.label

    def _rate_and_note(self, active: _ActiveLayer, now: float) -> str:
        if active.newest is None:
            return active.note
        count = active.newest.count
        if now > active.counted_s:
            active.hertz = (count - active.counted) / (now - active.counted_s)
        if count > active.counted or now - active.counted_s >= NO_MESSAGE_S:
            active.counted, active.counted_s = count, now
        if not count:
            return "no messages yet"
        return ", ".join(part for part in (f"{active.hertz:.1f} Hz", active.note) if part)


def _subscribe(graph: GraphClient, layer: DisplayLayer) -> tuple[NewestMessage, Any]:
    """Subscribe to a layer's topic: to the bytes of messages alone."""
    if layer.type != FOLLOW_JOINT_TRAJECTORY:
        newest = NewestMessage(graph.type_of(layer.type))
        subscription = graph.subscribe(
            layer.topic, layer.type, newest, qos=layer.qos, raw=True, domain_id=layer.domain_id
        )
        return newest, subscription
    # Feedback is a message of the action's type, which has no name of its own.
    message_class = graph.type_of(layer.type).Impl.FeedbackMessage
    newest = NewestMessage(message_class)
    subscription = graph.node(layer.domain_id).create_subscription(
        message_class, layer.topic, newest, qos_profiles.profile(layer.qos), raw=True
    )
    return newest, graph.adopt(subscription, domain_id=layer.domain_id)

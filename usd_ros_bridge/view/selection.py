"""Selection: what was clicked in the scene or chosen in the panel, its properties, and a box around it."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from usd_ros_bridge.spatial.transforms import relative
from usd_ros_bridge.view.frame_nodes import robot_names
from usd_ros_bridge.view.header_frames import HeaderFrames
from usd_ros_bridge.view.page_component import PageContext, Picked
from usd_ros_bridge.view.page_text import facts, paragraph
from usd_ros_bridge.view.selected_prim import (
    Rows,
    box_edges,
    find_frame,
    frame_bounds,
    pose_text,
    selection_rows,
)

BOX_COLOR: Final = (255, 200, 0)
PERIOD_S = 0.2
"""Least time between two updates of the text, seconds."""
MARGIN_M = 0.005
NOTHING = "(nothing)"
MAX_CHOICES = 200
"""Frames of a robot that can be chosen."""
MAX_ROBOTS = 1000
SELECTION_ORDER = 4.0
"""Place of the folder in the tab."""


class Selection:
    """The component of the tab "Show" that describes what is selected."""

    def __init__(self) -> None:
        """Select nothing."""
        self._context: PageContext | None = None
        self._headers: HeaderFrames | None = None
        self._lock = threading.Lock()
        self._handles: list[Any] = []
        self._marks: list[Any] = []
        self._text: Any = None
        self._frame_choice: Any = None
        self._robot_choice: Any = None
        self._selected: Picked | None = None
        self._marked: Picked | None = None
        self._rows: Rows = []
        self._due_s = 0.0
        self._content = ""

    def open(self, context: PageContext) -> None:
        """Add the choice and the text, and listen to clicks."""
        self._context = context
        self._headers = HeaderFrames(context.plan, context.frames)
        gui = context.server.gui
        with context.tabs["Show"]:
            folder = gui.add_folder("Selection", order=SELECTION_ORDER)
            self._handles.append(folder)
            with folder:
                names = robot_names(context.plan)[:MAX_ROBOTS]
                if len(names) > 1:
                    self._robot_choice = gui.add_dropdown("robot", names)
                    self._robot_choice.on_update(lambda _: self._list_frames())
                self._frame_choice = gui.add_dropdown("frame", (NOTHING, *self._frame_ids(0)))
                self._frame_choice.on_update(lambda _: self._choose())
                self._text = gui.add_html(paragraph("Click on a robot, or choose a frame."))
        context.picks.listen(self.select)

    def select(self, picked: Picked | None) -> None:
        """Select what was clicked, None for nothing. From any thread: the next update shows it."""
        with self._lock:
            self._selected = picked

    def resume(self) -> None:
        """Do nothing: poses come from the page's own subscriptions."""

    def update(self) -> None:
        """Show the selection, and its pose as it changes."""
        context = self._context
        if context is None:
            return
        with self._lock:
            selected = self._selected
        if selected is not self._marked:
            self._mark(context, selected)
            self._due_s = 0.0
        now = time.monotonic()
        if selected is None or now < self._due_s:
            return
        self._due_s = now + PERIOD_S
        content = facts([*self._rows[:2], *self._poses(selected), *self._rows[2:]])
        if content != self._content:
            self._content = content
            self._text.content = content

    def pause(self) -> None:
        """Do nothing: the selection stays."""

    def close(self) -> None:
        """Remove the panel and the marks. Idempotent."""
        self._remove_marks()
        for handle in reversed(self._handles):
            handle.remove()
        self._handles.clear()
        self._context = None

    # --- Choices ---

    def _robot(self) -> int:
        context, choice = self._context, self._robot_choice
        if context is None or choice is None:
            return 0
        return robot_names(context.plan).index(choice.value)

    def _frame_ids(self, robot: int) -> tuple[str, ...]:
        assert self._context is not None
        robots = self._context.plan.robots
        return tuple(frame.id for frame in robots[robot].frames[:MAX_CHOICES]) if robots else ()

    def _list_frames(self) -> None:
        self._frame_choice.options = (NOTHING, *self._frame_ids(self._robot()))
        self._choose()

    def _choose(self) -> None:
        frame = self._frame_choice.value
        self.select(None if frame == NOTHING else Picked(robot=self._robot(), frame=frame, path=""))

    # --- Showing ---

    def _mark(self, context: PageContext, selected: Picked | None) -> None:
        """Describe a new selection, and mark it in the scene."""
        self._remove_marks()
        self._marked = selected
        if selected is None:
            self._content = paragraph("Click on a robot, or choose a frame.")
            self._text.content = self._content
            return
        plan, scene = context.plan, context.server.scene
        self._rows = selection_rows(plan, selected.robot, selected.frame, selected.path)
        if find_frame(plan, selected.robot, selected.frame) is None:
            return
        node = context.nodes.node(selected.robot, selected.frame)
        bounds = frame_bounds(plan, selected.robot, selected.frame)
        size = 0.15
        if bounds is not None:
            low, high = bounds
            size = max(0.05, float((high - low).max()))
            edges = box_edges(low - MARGIN_M, high + MARGIN_M)
            self._marks.append(
                scene.add_line_segments(
                    f"{node}/selection_box", edges, colors=BOX_COLOR, thickness=3.0, thickness_units="screen"
                )
            )
        self._marks.append(
            scene.add_frame(f"{node}/selection_axes", axes_length=size, axes_radius=0.03 * size)
        )

    def _remove_marks(self) -> None:
        for mark in self._marks:
            mark.remove()
        self._marks.clear()

    def _poses(self, selected: Picked) -> Rows:
        """Return the pose of a frame in the fixed frame and in its parent."""
        context, headers = self._context, self._headers
        assert context is not None
        assert headers is not None
        found = find_frame(context.plan, selected.robot, selected.frame)
        if found is None:
            return []
        fixed = context.plan.robots[selected.robot].parent_frame
        pose = headers.pose(selected.robot, found.id)
        parent = headers.pose(selected.robot, found.parent)
        rows = [(f"in {fixed}", "unknown" if pose is None else pose_text(pose))]
        if pose is not None and parent is not None and found.parent != fixed:
            rows.append((f"in {found.parent}", pose_text(relative(parent, pose))))
        return rows

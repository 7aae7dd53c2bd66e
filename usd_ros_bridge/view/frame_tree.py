"""Frame tree: which frame hangs from which, as text in the panel."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from usd_ros_bridge.model.plan import RobotPlan
from usd_ros_bridge.view.frame_nodes import robot_names
from usd_ros_bridge.view.page_component import PageContext
from usd_ros_bridge.view.page_text import paragraph, preformatted

MAX_ROBOTS = 100
"""Robots whose frames are listed, as in the terminal's view."""
MAX_FRAMES = 300
"""Frames of a robot that are listed."""
FRAMES_ORDER = 5.0
"""Place of the folder in the tab."""


def tree_lines(robot: RobotPlan, *, limit: int = MAX_FRAMES) -> list[str]:
    """Return the tree of a robot's frames, one a line, as `inspect` draws it.

    Args:
        robot: The robot.
        limit: Most frames; a last line says how many are left out.
    """
    children: dict[int, list[int]] = defaultdict(list)
    tops: dict[str, list[int]] = {}
    for number, frame in enumerate(robot.frames):
        if frame.parent_index >= 0:
            children[frame.parent_index].append(number)
        else:
            tops.setdefault(frame.parent, []).append(number)
    lines: list[str] = []
    for top, members in tops.items():
        lines.append(top)
        # Each waits with its indentation, the first on top.
        waiting = [(number, "", number == members[-1]) for number in reversed(members)]
        while waiting and len(lines) < limit + len(tops):
            number, indent, is_last = waiting.pop()
            frame = robot.frames[number]
            lines.append(f"{indent}{'└── ' if is_last else '├── '}{frame.id}{'' if frame.static else ' *'}")
            below = children[number]
            inner = indent + ("    " if is_last else "│   ")
            waiting.extend((each, inner, each == below[-1]) for each in reversed(below))
    left_out = len(robot.frames) + len(tops) - len(lines)
    return [*lines, f"... {left_out} more"] if left_out > 0 else lines


class FrameTreePanel:
    """The component of the tab "Show" that lists the frames of a robot."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._context: PageContext | None = None
        self._handles: list[Any] = []
        self._tree: Any = None

    def open(self, context: PageContext) -> None:
        """Add the tree."""
        self._context = context
        robots = context.plan.robots
        if not robots:
            return
        gui = context.server.gui
        names = robot_names(context.plan)[:MAX_ROBOTS]
        with context.tabs["Show"]:
            folder = gui.add_folder("Frames", order=FRAMES_ORDER, expand_by_default=len(robots) == 1)
            self._handles.append(folder)
            with folder:
                if len(names) > 1:
                    choice = gui.add_dropdown("robot", names)
                    choice.on_update(lambda _: self._list(names.index(choice.value)))
                self._tree = gui.add_html("")
                if len(robots) > MAX_ROBOTS:
                    gui.add_html(paragraph(f"{len(robots) - MAX_ROBOTS} more robots are not listed"))
                gui.add_html(paragraph("* moves"))
        self._list(0)

    def resume(self) -> None:
        """Do nothing: the tree is the plan's."""

    def update(self) -> None:
        """Do nothing, likewise."""

    def pause(self) -> None:
        """Do nothing, likewise."""

    def close(self) -> None:
        """Remove the tree. Idempotent."""
        for handle in reversed(self._handles):
            handle.remove()
        self._handles.clear()
        self._context = None

    def _list(self, robot: int) -> None:
        if self._context is not None:
            self._tree.content = preformatted(tree_lines(self._context.plan.robots[robot]))

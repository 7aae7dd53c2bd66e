"""Drawing of a robot's frame tree as SVG: one line for each frame, solid edges for /tf, dashed ones for /tf_static."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.model.plan import FramePlan, JointPlan, RobotPlan
from usd_ros_bridge.report.html_parts import Html, numbers, text

MAX_FRAMES: Final = 1000
"""Frames of one drawing."""
_LINE: Final = 28
_INDENT: Final = 30
_MAX_INDENTS: Final = 1500
"""Pixels that the deepest frame is moved to the right."""
_CHARACTER: Final = 7.3
_MAX_NAME: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One frame of the drawing.

    Attributes:
        name: Frame id.
        depth: Number of frames above it.
        above: Line of its parent, -1 for none.
        note: Text behind it.
        title: Text for the pointer.
        kind: Class of its edge: `moving`, `static`, or `top` for one that the robot does not publish.
    """

    name: str
    depth: int
    above: int
    note: str = ""
    title: str = ""
    kind: str


def draw_frames(number: int, robot: RobotPlan) -> Html:
    """Return the frames of a robot as SVG.

    Args:
        number: Index of the robot, which frames in the 3D view are found by.
        robot: The robot.
    """
    lines = list(_lines(robot))
    indent = min(_INDENT, _MAX_INDENTS / max(1, *(line.depth for line in lines)))
    width = max(8 + line.depth * indent + _width(line) + 16 for line in lines)
    height = len(lines) * _LINE + 8
    label = text(f"Frames of {robot.path or robot.name}")
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    parts = [f'<svg class="frames" role="img" aria-label="{label}" {size}>']
    parts += [_edge(index, line, indent) for index, line in enumerate(lines) if line.above >= 0]
    parts += [_node(number, index, line, indent) for index, line in enumerate(lines)]
    return Html("".join([*parts, "</svg>"]))


def _lines(robot: RobotPlan) -> Iterator[_Line]:
    """Yield the frames, each below its parent: depth first, in the order of the plan."""
    frames = robot.frames[:MAX_FRAMES]
    joints = _joints_of_frames(robot)
    children: dict[int, list[int]] = defaultdict(list)
    tops: dict[str, list[int]] = defaultdict(list)
    for index, frame in enumerate(frames):
        if frame.parent_index >= 0:
            children[frame.parent_index].append(index)
        else:
            tops[frame.parent].append(index)
    count = 0
    for top, indices in tops.items():
        yield _Line(name=top, depth=0, above=-1, kind="top", title=f"{top}: parent of the robot's frames")
        pending = [(index, 1, count) for index in reversed(indices)]
        count += 1
        while pending:
            index, depth, above = pending.pop()
            yield _line(frames[index], joints.get(index, ()), depth, above)
            pending.extend((child, depth + 1, count) for child in reversed(children[index]))
            count += 1


def _line(frame: FramePlan, joints: Sequence[JointPlan], depth: int, above: int) -> _Line:
    pose = frame.parent_from_frame
    kind = "static" if frame.static else "moving"
    note = ", ".join(
        f"{joint.name} ({joint.type}{' ' + joint.axis if joint.axis else ''})" for joint in joints
    )
    title = (
        f"{frame.id} in {frame.parent}, {'/tf_static' if frame.static else '/tf'}\n"
        f"translation {numbers(pose.translation)}\nrotation {numbers(pose.rotation)}\n{frame.path}"
    )
    return _Line(name=frame.id, depth=depth, above=above, kind=kind, note=note, title=title)


def _joints_of_frames(robot: RobotPlan) -> dict[int, Sequence[JointPlan]]:
    return {
        index: [robot.joints[row] for row in robot.edges[frame.edge].joints]
        for index, frame in enumerate(robot.frames)
        if frame.edge >= 0
    }


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "..."


def _width(line: _Line) -> float:
    return _CHARACTER * (len(_short(line.name)) + len(_short(line.note))) + 40


def _edge(index: int, line: _Line, indent: float) -> str:
    x, end = 8 + (line.depth - 1) * indent + 12, 8 + line.depth * indent
    top, middle = line.above * _LINE + _LINE - 2, index * _LINE + _LINE / 2 + 4
    return f'<path class="edge {line.kind}" d="M{x:.1f} {top}V{middle:.0f}H{end:.1f}"/>'


def _node(number: int, index: int, line: _Line, indent: float) -> str:
    x, y = 8 + line.depth * indent, index * _LINE + 6
    name, note = _short(line.name), _short(line.note)
    width = _CHARACTER * len(name) + 16
    key = "" if line.kind == "top" else f' data-frame="{text(f"{number} {line.name}")}" tabindex="0"'
    behind = f'<text class="note" x="{x + width + 8:.1f}" y="{y + 15}">{text(note)}</text>' if note else ""
    return (
        f'<g class="frame {line.kind}"{key}><title>{text(line.title)}</title>'
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="22" rx="5"/>'
        f'<text x="{x + 8:.1f}" y="{y + 15}">{text(name)}</text>{behind}</g>'
    )

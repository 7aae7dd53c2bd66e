"""The frames of an asset as a graph for Graphviz: `usd_ros_bridge export robot.usda --format dot | dot -Tsvg`."""

from collections.abc import Sequence
from typing import BinaryIO

from usd_ros_bridge import Diagnostic, ExportContext, ExportOption

USD_ROS_BRIDGE_PROTOCOL = 1


class FrameGraph:
    """An exporter: `usd_ros_bridge.Exporter` is its protocol."""

    suffix = ".dot"
    options = (
        ExportOption(name="static", kind="flag", help="Also draw frames that do not move."),
        ExportOption(name="direction", choices=("LR", "TB"), default="TB", help="Where children are."),
    )

    def write(self, context: ExportContext, stream: BinaryIO) -> Sequence[Diagnostic]:
        """Write the graph."""
        lines = ["digraph frames {", f"  rankdir={context.options['direction']};"]
        for robot in context.plan.robots:
            for frame in robot.frames:
                if context.options["static"] or not frame.static:
                    style = " [style=dashed]" if frame.static else ""
                    lines.append(f'  "{robot.path} {frame.parent}" -> "{robot.path} {frame.id}"{style};')
        stream.write("\n".join([*lines, "}", ""]).encode())
        return ()


DOT = FrameGraph()

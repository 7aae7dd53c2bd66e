"""Which plans a running bridge goes on with: not with one that leaves nothing of what runs."""

from __future__ import annotations

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import BridgePlan


def why_refused(old: BridgePlan, new: BridgePlan) -> str:
    """Returns why a bridge that runs one plan does not go on with another, "" where it does.

    An asset that is being edited is often broken for a moment. A fault costs one interface, as it does at the start;
    but where the default prim is gone, or all contexts, what is left is no robot, and what runs goes on instead.

    Args:
        old: What runs.
        new: What the stage has become.
    """
    if old.default_prim and not new.default_prim:
        return f"the stage has no default prim any more (it was {quoted(old.default_prim)})"
    declared = [robot.path for robot in old.robots if not robot.implicit]
    if declared and all(robot.implicit for robot in new.robots):
        there = ", ".join(quoted(path) for path in declared[:3])
        return f"no RosContextAPI is left of {there}"
    if old.robots and not new.robots:
        return "no robot is left"
    return ""

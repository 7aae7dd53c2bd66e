"""Planning: records to plan. Pure; neither OpenUSD nor ROS is imported."""

from usd_ros_bridge.planning.conflicts import disable_conflicts
from usd_ros_bridge.planning.make_plan import make_plan

__all__ = ["disable_conflicts", "make_plan"]

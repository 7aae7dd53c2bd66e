"""Planning: records to plan. Pure; neither OpenUSD nor ROS is imported."""

from usd_ros_bridge.planning.conflicts import disable_conflicts, leave_offered
from usd_ros_bridge.planning.make_plan import make_plan
from usd_ros_bridge.planning.physics import plan_physics

__all__ = ["disable_conflicts", "leave_offered", "make_plan", "plan_physics"]

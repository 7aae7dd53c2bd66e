"""Planning: records to plan. Pure; neither OpenUSD nor ROS is imported."""

from usd_ros_bridge.planning.conflicts import disable_conflicts, leave_offered
from usd_ros_bridge.planning.make_plan import make_plan
from usd_ros_bridge.planning.physics import add_physics_scene
from usd_ros_bridge.planning.served_contexts import served_robots

__all__ = ["add_physics_scene", "disable_conflicts", "leave_offered", "make_plan", "served_robots"]

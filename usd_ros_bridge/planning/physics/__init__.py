"""Physics planning: records to a PhysicsScene, in SI units, together with the plan whose rows and frames it shares."""

from usd_ros_bridge.planning.physics.physics_scene import add_physics_scene

__all__ = ["add_physics_scene"]

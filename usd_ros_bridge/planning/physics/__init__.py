"""Physics planning: records to a PhysicsScene, in SI units, together with the plan whose rows and frames it shares."""

from usd_ros_bridge.planning.physics.plan import plan_physics

__all__ = ["plan_physics"]
